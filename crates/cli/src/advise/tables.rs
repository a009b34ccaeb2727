//! The tables of a column family, and what the properties of each say of its filter and index.
//! [`all`] uses the properties of the open tables and reads no file; [`Table::read_filter`] reads a
//! filter.

use maypole::filter::{Family, FilterReader};
use maypole::table::{PrefixExtractor, SstReader};
use maypole::{Db, Error};

use super::scanned::{ReadFilter, Scanned};
use super::source::Engine;
use super::wanted::{Policy, Wanted};
use crate::failure::Result;

const PARTITIONED: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";
const FULL: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
/// The name of filters that RocksDB no longer reads, and the prefix of the names of filters that
/// only Maypole reads.
const OBSOLETE: &str = "filter.rocksdb.BuiltinBloomFilter";
const MAYPOLES: &str = "fullfilter.maypole.";

/// The most entries, keys or bytes that the properties of a table may state for each byte of its
/// file. A larger number is reduced to this limit. The limit is high, because compression may store
/// many similar entries in a byte.
const MAX_FOR_A_BYTE: u64 = 1 << 10;

/// A filter has the size that OPTIONS asks for if its size differs from keys times bits per key by
/// at most this fraction plus this number of bytes. Filters consist of whole cache lines (Bloom) or
/// of whole blocks of slots (Ribbon), so their sizes are rounded.
const SIZE_SLACK: f64 = 0.03;
const SLACK_BYTES: f64 = 133.0;

/// How a table stores its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Full,
    Partitioned,
    /// A filter of a family that only Maypole reads.
    Maypoles,
    /// A block-based filter, an obsolete form that current versions of RocksDB ignore.
    Obsolete,
    /// A filter whose name stands for none of the forms above.
    Unknown,
}

/// What the filter holds of each key.
#[derive(Debug, Clone, PartialEq)]
pub struct Feed {
    pub whole_keys: bool,
    /// The extractor of the prefixes; `None` if the filter holds no prefixes, or the extractor is
    /// not known.
    pub extractor: Option<PrefixExtractor>,
    /// The extractor's name, if the filter holds prefixes.
    pub extractor_name: Option<String>,
}

pub struct Table {
    pub number: u64,
    pub level: usize,
    pub reader: SstReader,
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    pub file_bytes: u64,
    /// Entries, old versions and deletions included.
    pub entries: u64,
    /// The number of hashes in the filter if that is known; otherwise the number of entries of the
    /// table.
    pub keys: u64,
    pub form: Option<Form>,
    /// Stored bytes of the filter.
    pub filter_bytes: u64,
    /// Stored bytes of the index, all partitions together.
    pub index_bytes: u64,
    pub index_is_partitioned: bool,
    /// The name of the policy that wrote the filter, if the properties state it.
    pub policy_name: Option<String>,
    pub feed: Feed,
    /// What reading the table showed; `None` if it was not read.
    pub scanned: Option<Scanned>,
}

pub fn all(db: &Db) -> Vec<Table> {
    let stats = db.stats();
    let tables = stats.files.iter().filter_map(|file| {
        let reader = db.table(file.number)?;
        let properties = reader.properties();
        // The numbers in the properties are limited, so that damaged properties do not make sums
        // overflow.
        let most = reader.file_bytes().saturating_mul(MAX_FOR_A_BYTE);
        let number = |name: &str| properties.number(name).map(|number| number.min(most));
        let form = reader.metaindex().iter().find_map(|(name, _)| form_of(name));
        let entries = properties.entries().min(most);
        let stated = number("rocksdb.num.filter_entries").filter(|&keys| keys > 0);
        let keys = stated.filter(|_| form.is_some()).unwrap_or(entries);
        let filter_bytes = match form {
            None => 0,
            Some(_) => {
                number("rocksdb.filter.size").filter(|&bytes| bytes > 0).unwrap_or_else(|| {
                    let mut handles = reader.metaindex().iter();
                    let handle = handles.find(|(name, _)| form_of(name).is_some());
                    handle.map_or(0, |(_, handle)| handle.bytes)
                })
            }
        };
        let is_set = |name: &str| properties.raw(name) != Some(b"0");
        let has_prefixes = is_set("rocksdb.block.based.table.prefix.filtering");
        let extractor_name = properties
            .text("rocksdb.prefix.extractor.name")
            .filter(|&name| has_prefixes && name != "nullptr" && !name.is_empty())
            .map(str::to_owned);
        let feed = Feed {
            whole_keys: is_set("rocksdb.block.based.table.whole.key.filtering"),
            extractor: extractor_name.as_deref().and_then(PrefixExtractor::from_name),
            extractor_name,
        };
        Some(Table {
            number: file.number,
            level: file.level,
            smallest: file.smallest.clone(),
            largest: file.largest.clone(),
            file_bytes: reader.file_bytes(),
            entries,
            keys,
            form,
            filter_bytes,
            index_bytes: number("rocksdb.index.size").unwrap_or(0),
            index_is_partitioned: number("rocksdb.index.partitions").is_some_and(|parts| parts > 0),
            policy_name: properties.text("rocksdb.filter.policy").map(str::to_owned),
            feed,
            scanned: None,
            reader,
        })
    });
    tables.collect()
}

fn form_of(name: &str) -> Option<Form> {
    match name {
        FULL => Some(Form::Full),
        PARTITIONED => Some(Form::Partitioned),
        OBSOLETE => Some(Form::Obsolete),
        name if name.starts_with(MAYPOLES) => Some(Form::Maypoles),
        name if name.starts_with("fullfilter.")
            || name.starts_with("partitionedfilter.")
            || name.starts_with("filter.") =>
        {
            Some(Form::Unknown)
        }
        _ => None,
    }
}

impl Table {
    pub fn bits_per_key(&self) -> f64 {
        self.filter_bytes as f64 * 8.0 / self.keys.max(1) as f64
    }

    /// What reading the filter showed, if it was read.
    pub fn filter(&self) -> Option<&ReadFilter> {
        self.scanned.as_ref()?.filter.as_ref()
    }

    /// What the filter holds: `keys`, `prefixes` or both. `None` if the table has no filter.
    pub fn holds(&self) -> Option<String> {
        let keys = self.feed.whole_keys.then_some("keys");
        let prefixes = self.feed.extractor_name.as_ref().map(|_| "prefixes");
        let both: Vec<&str> = keys.into_iter().chain(prefixes).collect();
        self.form.map(|_| both.join(" and "))
    }

    pub fn is_damaged(&self) -> bool {
        self.filter().is_some_and(|filter| filter.damaged.is_some())
    }

    /// The text for the column `filter` of a [`FilterRow`](super::findings::FilterRow), and the
    /// family of the filter if it is known. If the filter was not read, the family is the one in
    /// the policy's name, although a Ribbon policy may have stored Bloom.
    pub fn family(&self) -> (String, Option<Family>) {
        let Some(form) = self.form else { return ("none".into(), None) };
        let family = match (self.filter(), form, self.policy_name.as_deref()) {
            (Some(read), ..) => match read.family.filter(|_| !self.is_damaged()) {
                None => return ("damaged".into(), None),
                family => family,
            },
            (_, Form::Obsolete, _) => return ("obsolete".into(), None),
            (_, Form::Full | Form::Partitioned, Some("bloomfilter")) => Some(Family::Bloom),
            (_, Form::Full | Form::Partitioned, Some("ribbonfilter")) => Some(Family::Ribbon),
            _ => None,
        };
        (family.map_or("unknown".into(), |family| family.to_string()), family)
    }

    /// Reads the filter. `None` if the table has none, or if its form is obsolete or unknown.
    /// Damage is returned in `damaged`, not as an error.
    pub fn read_filter(&self) -> Result<Option<ReadFilter>> {
        if !matches!(self.form, Some(Form::Full | Form::Partitioned | Form::Maypoles)) {
            return Ok(None);
        }
        let parts = match self.reader.filters() {
            Ok(parts) => parts,
            Err(error @ Error::Corruption { .. }) => {
                let damaged = Some(error.to_string());
                return Ok(Some(ReadFilter { damaged, ..ReadFilter::default() }));
            }
            Err(error) => return Err(error.into()),
        };
        let untrusted = parts.iter().find_map(FilterReader::untrusted);
        let bytes = parts.iter().map(|part| part.bytes().len() as u64);
        Ok(Some(ReadFilter {
            family: parts.first().and_then(FilterReader::family),
            probes: parts.first().and_then(FilterReader::probes),
            parts: parts.len(),
            largest_part: bytes.max().unwrap_or(0),
            damaged: untrusted.map(str::to_owned),
        }))
    }

    /// What is wrong with the filter: it is damaged, or RocksDB does not use it, or it differs from
    /// what `wanted` asks for, or it is missing. `None` if nothing is wrong. `is_last` means that
    /// no deeper level holds data.
    pub fn finding(&self, wanted: &Wanted, engine: Engine, is_last: bool) -> Option<String> {
        let read = self.filter();
        if let Some(why) = read.and_then(|read| read.damaged.as_ref()) {
            return Some(format!("filter damaged, so it answers maybe: {why}"));
        }
        match self.form {
            Some(Form::Obsolete) => {
                return Some("filter of a form that RocksDB no longer uses".into());
            }
            Some(Form::Unknown) => return Some("filter of a form that is not known".into()),
            Some(Form::Maypoles) if engine == Engine::RocksDb => {
                return Some("filter of Maypole's own, which RocksDB does not use".into());
            }
            _ => {}
        }
        let policy = wanted.policy?;
        let has_filter = self.form.is_some();
        let spared = is_last && wanted.for_hits == Some(true);
        match policy {
            Policy::None if has_filter => {
                return Some("filter left over: OPTIONS name no policy, so it is not used".into());
            }
            Policy::None => return None,
            _ if !has_filter && spared => return None,
            _ if !has_filter && self.entries > 0 && !self.wants_nothing(policy) => {
                return Some("no filter, though OPTIONS ask for one".into());
            }
            _ if !has_filter => return None,
            _ => {}
        }
        self.extractor_finding(wanted)
            .or_else(|| self.size_finding(policy, wanted, read?.family?))
            .or_else(|| match (wanted.partitioned?, self.form?) {
                (true, Form::Full) => Some("one block, though OPTIONS ask for parts".into()),
                (false, Form::Partitioned) => Some("in parts, OPTIONS ask for one block".into()),
                _ => None,
            })
    }

    /// Whether the policy makes no filters, because it asks for less than half a bit per key.
    fn wants_nothing(&self, policy: Policy) -> bool {
        matches!(policy, Policy::Bloom(Some(bits)) | Policy::Ribbon(Some(bits)) if bits < 0.5)
    }

    fn extractor_finding(&self, wanted: &Wanted) -> Option<String> {
        let asked = wanted.extractor.as_deref()?;
        match self.feed.extractor_name.as_deref() {
            Some(stored) if stored != asked => Some(match asked {
                "" => format!("prefixes of {stored}; OPTIONS name no extractor"),
                asked => format!("prefixes of {stored}; OPTIONS name {asked}"),
            }),
            None if !asked.is_empty() => Some(format!("no prefixes; OPTIONS name {asked}")),
            _ if wanted.whole_keys == Some(true) && !self.feed.whole_keys => {
                Some("no whole keys, though OPTIONS ask for them".into())
            }
            _ if wanted.whole_keys == Some(false) && self.feed.whole_keys => {
                Some("whole keys, though OPTIONS ask for prefixes alone".into())
            }
            _ => None,
        }
    }

    fn size_finding(&self, policy: Policy, wanted: &Wanted, family: Family) -> Option<String> {
        // If the policy names no bits, neither the size nor the family is checked.
        let (asked, mut bits) = policy.stored_bits(self.keys)?;
        let stored = self.bits_per_key();
        // Below format_version 5 a Bloom policy makes legacy Bloom filters.
        let is_old = wanted.format_version.is_none_or(|version| version < 5);
        let family = match family {
            Family::LegacyBloom if is_old => Family::Bloom,
            family => family,
        };
        if family == Family::Bloom && asked == Family::Ribbon {
            // A Ribbon policy makes Bloom filters for small tables and for flushed ones, and
            // compaction may have moved a flushed table to a deeper level unchanged. So only a
            // large table below level 0 that another policy wrote is reported.
            let was_ribbons = self.policy_name.as_deref() == Some("ribbonfilter");
            if self.level > 0 && !was_ribbons && self.keys >= 2000 {
                return Some(format!("Bloom of {stored:.1} bits; OPTIONS ask for Ribbon"));
            }
            if let Policy::Ribbon(Some(like_bloom)) = policy {
                bits = like_bloom;
            }
        } else if family != asked {
            return Some(format!("{family} of {stored:.1} bits; OPTIONS ask for {asked}"));
        }
        // With `optimize_filters_for_memory`, RocksDB fits filters to the sizes that the allocator
        // hands out, so their sizes differ from what the policy names by up to a quarter.
        let slack = if wanted.for_memory == Some(true) { 0.26 } else { SIZE_SLACK };
        let expected = bits * self.keys as f64 / 8.0;
        let differs = (self.filter_bytes as f64 - expected).abs();
        // Each partition is rounded up to whole cache lines. If partitions hold prefixes, they are
        // many and small, so that most of their bytes are rounding.
        let (part, parts) = match self.form {
            Some(Form::Partitioned) => (0.1, self.filter().map_or(1, |filter| filter.parts)),
            _ => (0.0, 1),
        };
        if differs <= expected * (slack + part) + SLACK_BYTES * parts.max(1) as f64 {
            return None;
        }
        Some(format!("{stored:.1} bits a key; OPTIONS ask for {bits:.1}"))
    }
}
