//! The filter that OPTIONS, RocksDB's file of options, asks for.
//!
//! ```text
//! nullptr                     no filter is written, and none is read
//! bloomfilter:10:false        Bloom of 10 bits a key
//! ribbonfilter:10:0           Ribbon as good as Bloom of 10 bits; Bloom in flushed tables
//! bloomfilter                 no bits are named: written by bindings over the C interface
//! rocksdb.BuiltinBloomFilter  the same, written by versions before 7.0
//! ```

use maypole::filter::{Family, sizing};

/// The options of a column family that concern its filters. What OPTIONS does not say is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    pub policy: Option<Policy>,
    /// The policy as OPTIONS writes it.
    pub policy_text: Option<String>,
    /// The name of the prefix extractor; empty if OPTIONS names none.
    pub extractor: Option<String>,
    pub whole_keys: Option<bool>,
    /// Whether RocksDB writes partitioned filters: it does so with `partition_filters`, but only if
    /// OPTIONS also asks for the two-level index, or does not name the form of the index.
    pub partitioned: Option<bool>,
    /// `cache_index_and_filter_blocks`: whether the block cache holds filters and indexes. If not,
    /// open tables hold them outside of it.
    pub charged: Option<bool>,
    pub pins_level_0: Option<bool>,
    /// `optimize_filters_for_hits`: whether RocksDB leaves the last level without filters.
    pub for_hits: Option<bool>,
    /// `optimize_filters_for_memory`: RocksDB fits each filter to a size that the allocator hands
    /// out, so that sizes differ from what the policy names.
    pub for_memory: Option<bool>,
    /// Below 5, a Bloom policy makes legacy Bloom filters, which use 32-bit hashes.
    pub format_version: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    None,
    /// Bits per key, as RocksDB counts them, if the policy names them.
    Bloom(Option<f64>),
    /// The bits per key with which a Bloom filter would have the same false-positive rate, if the
    /// policy names them. Flushed tables, and with `bloom_before_level` also the upper levels, get
    /// Bloom filters.
    Ribbon(Option<f64>),
    /// A policy of no known family.
    Unknown,
}

impl Policy {
    pub fn parse(text: &str) -> Policy {
        let text = text.trim();
        // `{id=ribbonfilter:10;bloom_before_level=0;}`
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let mut options = inner.into_iter().flat_map(|inner| inner.split(';'));
        let id = options.find_map(|option| option.trim().strip_prefix("id="));
        let id = id.map_or(text, str::trim);
        let mut parts = id.split(':');
        let name = parts.next().unwrap_or_default();
        let bits = parts.next().and_then(|bits| bits.parse::<f64>().ok());
        let bits = bits.filter(|bits| bits.is_finite());
        match name {
            "" | "nullptr" => Policy::None,
            "bloomfilter" | "rocksdb.internal.FastLocalBloomFilter" => Policy::Bloom(bits),
            "ribbonfilter" | "rocksdb.internal.Standard128RibbonFilter" => Policy::Ribbon(bits),
            _ => Policy::Unknown,
        }
    }

    /// The family of a filter for `keys` keys, and the bits that it stores per key. `None` if there
    /// is no filter, or if the policy does not name the bits.
    pub fn stored_bits(self, keys: u64) -> Option<(Family, f64)> {
        let keys = usize::try_from(keys.max(1)).unwrap_or(usize::MAX);
        match self {
            Policy::Bloom(Some(bits)) => Some((Family::Bloom, millibits(bits)? as f64 / 1000.0)),
            Policy::Ribbon(Some(bits)) => {
                let bits = f64::from(millibits(bits)?) / 1000.0;
                Some((Family::Ribbon, ribbon_bits(bits, keys)?))
            }
            _ => None,
        }
    }
}

/// Bits per key in thousandths, as RocksDB rounds them. `None` below half a bit, for which RocksDB
/// makes no filter.
fn millibits(bits: f64) -> Option<u32> {
    match bits {
        bits if bits < 0.5 => None,
        bits if bits < 1.0 => Some(1000),
        bits if bits >= 100.0 => Some(100_000),
        bits => Some((bits * 1000.0 + 0.500_001) as u32),
    }
}

/// Bits that RocksDB stores for each key with `ribbonfilter:like_bloom_bits`.
pub fn ribbon_bits(like_bloom_bits: f64, keys: usize) -> Option<f64> {
    let rate = sizing::rocksdb_bloom_fpr((like_bloom_bits * 1000.0).round() as u32);
    sizing::expected_bits_per_key(Family::Ribbon, keys, rate)
        // A table with too few keys for a Ribbon filter gets a Bloom filter.
        .or(Some(like_bloom_bits))
}

impl Wanted {
    /// Reads the options. `option` returns the value of an option of the column family.
    pub fn of<'a>(option: impl Fn(&str) -> Option<&'a str>) -> Wanted {
        let flag = |name| match option(name)? {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        };
        let policy_text = option("filter_policy").map(str::to_owned);
        let extractor = option("prefix_extractor").map(|name| match name {
            "nullptr" => String::new(),
            // `{id=rocksdb.FixedPrefix.4;…}`
            name => match name.strip_prefix("{id=") {
                Some(rest) => rest.split([';', '}']).next().unwrap_or_default().to_owned(),
                None => name.to_owned(),
            },
        });
        Wanted {
            policy: policy_text.as_deref().map(Policy::parse),
            policy_text,
            extractor,
            whole_keys: flag("whole_key_filtering"),
            partitioned: flag("partition_filters").map(|wanted| {
                wanted && option("index_type").is_none_or(|kind| kind == "kTwoLevelIndexSearch")
            }),
            charged: flag("cache_index_and_filter_blocks"),
            pins_level_0: flag("pin_l0_filter_and_index_blocks_in_cache"),
            for_hits: flag("optimize_filters_for_hits"),
            for_memory: flag("optimize_filters_for_memory"),
            format_version: option("format_version").and_then(|version| version.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_policy_is_read() {
        for (text, policy) in [
            ("nullptr", Policy::None),
            ("bloomfilter:10:false", Policy::Bloom(Some(10.0))),
            ("bloomfilter:9.9", Policy::Bloom(Some(9.9))),
            ("bloomfilter", Policy::Bloom(None)),
            ("bloomfilter:nan:false", Policy::Bloom(None)),
            ("ribbonfilter:10:0", Policy::Ribbon(Some(10.0))),
            ("ribbonfilter:10:-1", Policy::Ribbon(Some(10.0))),
            ("{id=ribbonfilter:12.5;bloom_before_level=2;}", Policy::Ribbon(Some(12.5))),
            ("ribbonfilter", Policy::Ribbon(None)),
            ("rocksdb.BuiltinBloomFilter", Policy::Unknown),
            ("my.own.Filter", Policy::Unknown),
        ] {
            assert_eq!(Policy::parse(text), policy, "{text}");
        }
    }

    #[test]
    fn bits_are_those_that_rocksdb_stores() {
        let stored = |policy: Policy| policy.stored_bits(1_000_000).map(|(_, bits)| bits);
        assert_eq!(stored(Policy::Bloom(Some(10.0))), Some(10.0));
        assert_eq!(stored(Policy::Bloom(Some(0.7))), Some(1.0));
        assert_eq!(stored(Policy::Bloom(Some(0.4))), None);
        assert_eq!(stored(Policy::Bloom(Some(1e9))), Some(100.0));
        let ribbon = stored(Policy::Ribbon(Some(10.0))).unwrap();
        assert!((6.8..7.3).contains(&ribbon), "{ribbon}");
        assert_eq!(stored(Policy::Bloom(None)), None);
    }

    #[test]
    fn options_are_read_by_their_names() {
        let options = [
            ("filter_policy", "bloomfilter:10:false"),
            ("partition_filters", "true"),
            ("index_type", "kBinarySearch"),
            ("prefix_extractor", "{id=rocksdb.FixedPrefix.4;}"),
            ("cache_index_and_filter_blocks", "1"),
            ("format_version", "4"),
        ];
        let find = |wanted: &str| {
            options.iter().find(|(name, _)| *name == wanted).map(|&(_, value)| value)
        };
        let wanted = Wanted::of(find);
        // Without the two-level index, RocksDB writes no partitions.
        assert_eq!(wanted.partitioned, Some(false));
        assert_eq!(wanted.extractor.as_deref(), Some("rocksdb.FixedPrefix.4"));
        assert_eq!((wanted.charged, wanted.for_hits), (Some(true), None));
        assert_eq!(wanted.format_version, Some(4));
        assert_eq!(Wanted::of(|_| None), Wanted::default());
    }
}
