//! [`FilterSpec`]: which filter to build, as a value and as text.
//!
//! ```text
//! none                        no filter
//! bloom(10)      bloom:10     a family and the bits to store for each key, which may be a fraction
//! ribbon_like_bloom(10)       a Ribbon filter with the false-positive rate of bloom(10)
//! fpr(0.01)      fpr:0.01     a false-positive rate; the family is bloom …
//! fpr(0.01, burr) fpr:0.01:burr fpr:0.01,burr    … unless it is named. fpr(1) is none
//! capped(bloom(10), 1MiB)     one of these, but at most that large: many keys get fewer bits
//! ```
//!
//! There are two spellings because parentheses have a special meaning in a shell. A spec is checked
//! when it is made, so every spec can be built. Bits are kept in thousandths, as RocksDB keeps
//! them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::family::{Family, SpecError, Target};
use super::info::Limits;
use crate::math::round;

/// Which filter a table gets.
///
/// `bits_per_key` means **stored bits**, for every family. The number in RocksDB's Ribbon policy
/// means something else: the bits of a Bloom filter with the same false-positive rate. Use
/// [`FilterSpec::ribbon_like_bloom`] for that meaning.
///
/// As text, a spec is `none`, a family with its bits a key (`bloom(10)` or `bloom:10`),
/// `ribbon_like_bloom(10)`, a rate (`fpr(0.01)` or `fpr(0.01, burr)`), or `capped(FILTER, SIZE)`.
///
/// ```
/// use maypole_filter::FilterSpec;
///
/// let spec: FilterSpec = "bloom:9.9".parse()?;
/// assert_eq!(spec, FilterSpec::bloom(9.9)?);
/// assert_eq!(spec.to_string(), "bloom(9.9)");
/// assert!("bloom(0)".parse::<FilterSpec>().is_err());
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FilterSpec {
    /// `None` is no filter.
    plan: Option<(Family, Target)>,
    most_bytes: u64,
}

/// The value of `most_bytes` for a filter without a cap.
const NO_CAP: u64 = u64::MAX;

/// A filter consists of whole lines or blocks, so it may exceed its target by up to this many
/// bytes.
const ROUNDING_BYTES: u64 = 128;

/// Units of sizes, largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A size as specs and policies write it, such as `1536KiB`.
pub fn size_text(bytes: u64) -> String {
    let unit = UNITS.iter().find(|&&(_, size)| bytes.is_multiple_of(size));
    let (unit, size) = unit.copied().unwrap_or(("B", 1));
    format!("{}{unit}", bytes / size)
}

/// Parses `size`, an argument in `text`, which is a spec or a policy and is quoted in errors.
pub fn parse_size(text: &str, size: &str) -> Result<u64, SpecError> {
    let split = UNITS.iter().find_map(|&(name, bytes)| Some((size.strip_suffix(name)?, bytes)));
    let Some((number, unit)) = split else {
        return Err(SpecError(format!(
            "{text}: {size:?} needs a unit: B, KiB, MiB, GiB, or /key in a budget"
        )));
    };
    let wrong = |_| SpecError(format!("{text}: {number:?} is not a number"));
    Ok(number.trim_end().parse::<u64>().map_err(wrong)?.saturating_mul(unit))
}

/// The valid forms of a spec, for error messages.
fn forms() -> String {
    let families: String = Family::written().map(|family| format!("{family}(BITS), ")).collect();
    format!(
        "none, {families}ribbon_like_bloom(BITS), fpr(RATE), fpr(RATE, FAMILY) or \
         capped(FILTER, SIZE)"
    )
}

/// The limits of a family, if it can be written.
fn limits(family: Family) -> Result<Limits, SpecError> {
    let unwritten = || SpecError(format!("{family} can be read, but not written"));
    family.info().limits.ok_or_else(unwritten)
}

impl FilterSpec {
    /// No filter: every lookup reads the table.
    pub const NONE: FilterSpec = FilterSpec { plan: None, most_bytes: NO_CAP };

    /// RocksDB's Bloom filter. 10 bits a key give a false-positive rate of 1 %; each further 5.6
    /// bits divide the rate by ten.
    ///
    /// # Errors
    ///
    /// [`SpecError`] where the bits are out of range.
    pub fn bloom(bits_per_key: f64) -> Result<FilterSpec, SpecError> {
        Self::stored(bits_per_key, Family::Bloom)
    }

    /// RocksDB's Ribbon filter (Standard128). 7 bits a key give a false-positive rate of 1 %; each
    /// further 3.5 bits divide the rate by ten.
    ///
    /// # Errors
    ///
    /// [`SpecError`] where the bits are out of range.
    pub fn ribbon(bits_per_key: f64) -> Result<FilterSpec, SpecError> {
        Self::stored(bits_per_key, Family::Ribbon)
    }

    /// RocksDB's Ribbon filter, with its size stated as RocksDB states it: the filter has the
    /// false-positive rate of `bloom(bloom_bits_per_key)`, and about 0.7 of the size of that Bloom
    /// filter.
    ///
    /// # Errors
    ///
    /// [`SpecError`] where the bits are out of range.
    pub fn ribbon_like_bloom(bloom_bits_per_key: f64) -> Result<FilterSpec, SpecError> {
        let most = limits(Family::Bloom)?.most_bits;
        let millibits = millibits("ribbon_like_bloom", bloom_bits_per_key, most)?;
        Ok(Self::of(Family::Ribbon, Target::LikeBloom(millibits)))
    }

    /// Maypole's bumped ribbon: the smallest filter from about ten thousand keys on, and faster
    /// than RocksDB's Ribbon. RocksDB reads the table without its filter.
    ///
    /// # Errors
    ///
    /// [`SpecError`] where the bits are out of range.
    pub fn burr(bits_per_key: f64) -> Result<FilterSpec, SpecError> {
        Self::stored(bits_per_key, Family::Burr)
    }

    /// A filter of `family` whose false-positive rate is about `rate`, or lower; the rate 1 means
    /// no filter.
    ///
    /// # Errors
    ///
    /// [`SpecError`] if the rate is out of the family's range, or if Maypole only reads filters of
    /// this family and builds none.
    pub fn fpr(rate: f64, family: Family) -> Result<FilterSpec, SpecError> {
        let lowest = limits(family)?.lowest_rate;
        if !(lowest..=1.0).contains(&rate) {
            return Err(SpecError(format!(
                "fpr({rate}, {family}): the rate must be between {lowest:e} and 1"
            )));
        }
        if rate == 1.0 {
            return Ok(FilterSpec::NONE);
        }
        Ok(Self::of(family, Target::Fpr(rate)))
    }

    /// A filter of `family` that stores `bits_per_key` bits for each key. A fuse filter may store
    /// fewer, because the bits of its slots are whole numbers.
    ///
    /// # Errors
    ///
    /// [`SpecError`] if the bits are out of range, or if Maypole only reads filters of this family
    /// and builds none.
    pub fn stored(bits_per_key: f64, family: Family) -> Result<FilterSpec, SpecError> {
        let millibits = millibits(family.name(), bits_per_key, limits(family)?.most_bits)?;
        Ok(Self::of(family, Target::MillibitsPerKey(millibits)))
    }

    fn of(family: Family, target: Target) -> FilterSpec {
        FilterSpec { plan: Some((family, target)), most_bytes: NO_CAP }
    }

    /// This filter, but with at most `bytes` bytes. If a table's keys need more, the filter gets
    /// fewer bits a key, or is left out if that would be less than one bit a key. Use the cap if
    /// the filter of a large table must load fast although it is not partitioned. In a partitioned
    /// filter, the cap applies to each part, not to all parts together.
    ///
    /// ```
    /// use maypole_filter::{FilterBuilder, FilterSpec, hash64};
    ///
    /// let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?.capped(8 << 10)?);
    /// (0u64..10_000).for_each(|i| builder.add(hash64(&i.to_le_bytes())));
    /// let block = builder.finish().expect("there are keys");
    /// assert!((6.4..=6.6).contains(&block.bits_per_key()));
    /// # Ok::<(), maypole_filter::SpecError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SpecError`] where `bytes` is 0.
    #[doc(alias = "adaptive_bloom")]
    pub fn capped(self, bytes: u64) -> Result<FilterSpec, SpecError> {
        match (bytes, self.plan) {
            (0, _) => Err(SpecError("capped(FILTER, 0): give a size such as 1MiB".into())),
            (_, None) => Ok(FilterSpec::NONE),
            _ => Ok(FilterSpec { most_bytes: self.most_bytes.min(bytes), ..self }),
        }
    }

    /// Whether no filter is to be built.
    pub fn is_none(&self) -> bool {
        self.plan.is_none()
    }

    /// The requested family. A table may get another one: see [`super::FilterBlock::family`].
    pub fn family(&self) -> Option<Family> {
        self.plan.map(|(family, _)| family)
    }

    /// The filter policy with which RocksDB would build this filter, as RocksDB writes it:
    /// `bloomfilter:10:false`. For a family that RocksDB does not have, the policy of a Bloom
    /// filter with the same false-positive rate. `None` if this spec means no filter, or if it
    /// states bits a key with which its family cannot build the filter of a million keys whose rate
    /// is computed.
    ///
    /// RocksDB states the size of every filter as the bits of a Bloom filter with the same rate.
    #[doc(hidden)]
    pub fn rocksdb_policy(&self) -> Option<String> {
        /// The rate is computed for a filter of this many keys.
        const KEYS: usize = 1_000_000;
        let (family, target) = self.plan?;
        let (of_bloom, info) = (Family::Bloom.info(), family.info());
        let target = match target {
            Target::MillibitsPerKey(millibits) if family != Family::Bloom => {
                let (_, rate) = (info.expected)(KEYS, Target::MillibitsPerKey(millibits))?;
                Target::Fpr(rate)
            }
            target => target,
        };
        // RocksDB gets the exact size.
        let bits = f64::from(target.bloom_millibits()) / 1000.0;
        let bits = round(bits * 10.0) / 10.0;
        Some(match info.encoding == of_bloom.encoding && info.policy_name != of_bloom.policy_name {
            true => format!("{}:{bits}", info.policy_name),
            false => format!("{}:{bits}:false", of_bloom.policy_name),
        })
    }

    /// About the stored bits a key of a Bloom filter that meets the spec, not counting its cap; 0
    /// for no filter. No family takes more for the same rate.
    #[doc(hidden)]
    pub fn bloom_bits_per_key(&self) -> f64 {
        self.plan.map_or(0.0, |(_, target)| match target {
            Target::Fpr(rate) => Family::Bloom.bits_for_rate(rate),
            target => f64::from(target.bloom_millibits()) / 1000.0,
        })
    }

    /// The family and target for this number of keys; `None` for no filter.
    pub(super) fn plan_for(&self, keys: usize) -> Option<(Family, Target)> {
        let (family, target) = self.plan?;
        if self.most_bytes == NO_CAP {
            return self.plan;
        }
        // `expected` is `None` if this family cannot build a filter of so many keys, or none that
        // is better than a Bloom filter. Then a Bloom filter is built, so its size is compared with
        // the cap.
        let expected = |family: Family| (family.info().expected)(keys, target);
        let (bits_per_key, _) = expected(family).or_else(|| expected(Family::Bloom))?;
        let millibits_left =
            self.most_bytes.saturating_sub(ROUNDING_BYTES) as f64 * 8000.0 / keys as f64;
        if bits_per_key * 1000.0 <= millibits_left {
            return self.plan;
        }
        let target = Target::MillibitsPerKey(millibits_left as u32);
        (millibits_left >= 1000.0).then_some((family, target))
    }
}

/// Checks the bits, and rounds them to thousandths as RocksDB does:
/// `trunc(bits × 1000 + 0.500001)`.
fn millibits(name: &str, bits_per_key: f64, most: f64) -> Result<u32, SpecError> {
    if !(1.0..=most).contains(&bits_per_key) {
        return Err(SpecError(format!(
            "{name}({bits_per_key}): bits per key must be between 1 and {most}"
        )));
    }
    Ok((bits_per_key * 1000.0 + 0.500001) as u32)
}

impl fmt::Display for FilterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.most_bytes != NO_CAP {
            let uncapped = FilterSpec { most_bytes: NO_CAP, ..*self };
            return write!(f, "capped({uncapped}, {})", size_text(self.most_bytes));
        }
        let bits = |millibits: u32| f64::from(millibits) / 1000.0;
        match self.plan {
            None => f.write_str("none"),
            Some((family, Target::MillibitsPerKey(m))) => write!(f, "{family}({})", bits(m)),
            Some((_, Target::LikeBloom(m))) => write!(f, "ribbon_like_bloom({})", bits(m)),
            Some((Family::Bloom, Target::Fpr(rate))) => write!(f, "fpr({rate})"),
            Some((family, Target::Fpr(rate))) => write!(f, "fpr({rate}, {family})"),
        }
    }
}

impl FromStr for FilterSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<FilterSpec, SpecError> {
        let unknown = || SpecError(format!("unknown filter {text:?}: expected {}", forms()));
        let text = text.trim();
        let (name, arguments) = match text.split_once(['(', ':']) {
            None => (text, None),
            Some((name, rest)) if text[name.len()..].starts_with('(') => {
                (name.trim_end(), Some(rest.strip_suffix(')').ok_or_else(unknown)?))
            }
            Some((name, rest)) => (name, Some(rest)),
        };
        if let ("capped", Some(rest)) = (name, arguments) {
            let (spec, size) = rest.rsplit_once(',').ok_or_else(unknown)?;
            return spec.parse::<FilterSpec>()?.capped(parse_size(text, size.trim())?);
        }
        let arguments: Vec<&str> = arguments
            .map(|list| list.split([',', ':']).map(str::trim).collect())
            .unwrap_or_default();
        let number = |argument: &str| {
            argument
                .parse::<f64>()
                .map_err(|_| SpecError(format!("{text}: {argument:?} is not a number")))
        };
        match (name, arguments.as_slice()) {
            ("none", []) => Ok(FilterSpec::NONE),
            ("ribbon_like_bloom", [bits]) => FilterSpec::ribbon_like_bloom(number(bits)?),
            ("fpr", [rate]) => FilterSpec::fpr(number(rate)?, Family::Bloom),
            ("fpr", [rate, family]) => FilterSpec::fpr(number(rate)?, family.parse()?),
            (name, [bits]) => {
                let family = name.parse().map_err(|_| unknown())?;
                FilterSpec::stored(number(bits)?, family)
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spec_prints_as_it_reads() {
        for text in [
            "none",
            "bloom(10)",
            "bloom(9.9)",
            "bloom(100)",
            "ribbon(7.25)",
            "ribbon_like_bloom(10)",
            "burr(6.999)",
            "fpr(0.01)",
            "fpr(0.001, ribbon)",
            "fpr(0.02, burr)",
            "fuse(9.1)",
            "fpr(0.01, fuse)",
            "capped(bloom(10), 1MiB)",
            "capped(fpr(0.01, burr), 1536KiB)",
        ] {
            let spec: FilterSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(spec.to_string().parse(), Ok(spec));
        }
    }

    #[test]
    fn a_shell_may_write_a_colon() {
        for (colon, parentheses) in [
            ("bloom:10", "bloom(10)"),
            ("bloom: 9.5", " bloom (9.5) "),
            ("fpr:0.01", "fpr(0.01)"),
            ("fpr:0.01:burr", "fpr(0.01,burr)"),
            ("fpr:0.01,burr", "fpr(0.01, burr)"),
            ("fpr(0.01, bloom)", "fpr(0.01)"),
            ("fpr:1", "none"),
            ("fpr(1.0, burr)", "none"),
            ("capped(bloom:10,1024 KiB)", "capped(bloom(10), 1MiB)"),
            ("capped(capped(bloom(10), 3MiB), 2MiB)", "capped(bloom(10), 2MiB)"),
            ("capped(none, 1MiB)", "none"),
        ] {
            assert_eq!(colon.parse::<FilterSpec>(), parentheses.parse(), "{colon}");
            assert!(colon.parse::<FilterSpec>().is_ok(), "{colon}");
        }
    }

    #[test]
    fn what_cannot_be_built_is_refused_in_one_line() {
        for text in [
            "",
            "bloom",
            "blom(10)",
            "bloom(10",
            "bloom 10",
            "bloom()",
            "bloom(ten)",
            "bloom(10, 2)",
            "bloom(10))",
            "bloom(0)",
            "bloom(0.99)",
            "bloom(-3)",
            "bloom(nan)",
            "bloom(inf)",
            "bloom(1e9)",
            "ribbon(33)",
            "burr(33)",
            "fuse(33)",
            "fuse(0.5)",
            "fpr(0.00001, fuse)",
            "ribbon_like_bloom(101)",
            "fpr(0)",
            "fpr(-0.1)",
            "fpr(1.01)",
            "fpr(nan)",
            "fpr(0.01, legacy_bloom)",
            "fpr(0.01, cuckoo)",
            "none(1)",
            "capped(bloom(10))",
            "capped(bloom(10), 0MiB)",
            "capped(bloom(10), 1000)",
            "capped(bloom(10), xMiB)",
            "capped(blom(10), 1MiB)",
            "capped(levels(bloom(10)), 1MiB)",
            "capped(bloom(10), 1MiB",
        ] {
            let error = text.parse::<FilterSpec>().unwrap_err().to_string();
            assert!(!error.contains('\n') && error.len() > 20, "{text}: {error}");
        }
    }

    #[test]
    fn bits_are_rounded_to_thousandths_as_rocksdb_does() {
        let millibits = |bits| match FilterSpec::bloom(bits).unwrap().plan {
            Some((Family::Bloom, Target::MillibitsPerKey(millibits))) => millibits,
            other => panic!("{other:?}"),
        };
        assert_eq!(millibits(9.9), 9900);
        assert_eq!(millibits(10.0004), 10_000);
        assert_eq!(millibits(10.0006), 10_001);
    }
}
