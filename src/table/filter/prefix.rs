//! Prefixes of keys, for filters that tell whether a table may hold any key with a given prefix.
//!
//! ```text
//!                        key          fixed(4)   capped(4)   delimiter(0x2f, 1)   … (0x2f, 2)
//!                        user/7/age   user       user        user/                user/7/
//!                        user         user       user        none                 none
//!                        us           none       us          none                 none
//! name in the file       rocksdb.     FixedPrefix.4  CappedPrefix.4
//!                        maypole.                            DelimiterPrefix.2f.1
//! ```
//!
//! A key without a prefix is out of the extractor's **domain**. No filter holds a prefix for such a
//! key, so nothing can be concluded about it.
//!
//! Invariants, checked by the tests at the end of the file:
//!
//! * A prefix is the front of its key.
//! * Within the domain, prefixes have the order of their keys.
//! * If [`PrefixExtractor::prefix_of_range`] returns a prefix, every key of the range is in the
//!   domain and has that prefix.
//!
//! A file stores the name of the extractor that cut its prefixes, and its filter is queried with
//! that extractor. The extractor in the current options is not used for this, because it may differ
//! from the extractor with which the file was written.

use std::fmt;
use std::str::FromStr;

use crate::filter::SpecError;

/// A rule that finds the prefix of a key, for filters of prefixes: see [`FilterKeys`].
///
/// ```
/// use maypole::PrefixExtractor;
///
/// let row = PrefixExtractor::delimiter(b'/', 1)?;
/// assert_eq!(row.prefix_of(b"user/7/age"), Some(&b"user/"[..]));
/// assert_eq!(row.prefix_of(b"user"), None);
/// assert_eq!(PrefixExtractor::fixed(8)?.name(), "rocksdb.FixedPrefix.8");
/// # Ok::<(), maypole::filter::SpecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixExtractor(Rule);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Fixed(u32),
    Capped(u32),
    Delimiter { byte: u8, count: u32 },
}

/// What the filter of a new table holds. The filter holds one hash for each distinct key or prefix,
/// and takes the configured bits per key for each hash. So a filter of prefixes is smaller than a
/// filter of whole keys if many keys share a prefix.
///
/// ```
/// use maypole::table::{FilterKeys, PrefixExtractor, TableOptions};
///
/// let filter_keys = FilterKeys::Both(PrefixExtractor::fixed(4)?);
/// let options = TableOptions { filter_keys, ..TableOptions::default() };
/// # Ok::<(), maypole::filter::SpecError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterKeys {
    /// Whole keys: for point lookups.
    #[default]
    Whole,
    /// Prefixes only, for ranges whose keys all have one prefix. A point lookup queries the prefix
    /// of its key. The filter cannot rule the table out if the table has another key with that
    /// prefix, or if the key has no prefix.
    Prefix(PrefixExtractor),
    /// Whole keys and prefixes, for point lookups and ranges. The filter is as large as a filter of
    /// keys and a filter of prefixes together.
    Both(PrefixExtractor),
}

impl FilterKeys {
    /// How prefixes are cut, if the filter holds any.
    pub fn prefix_extractor(&self) -> Option<PrefixExtractor> {
        match *self {
            FilterKeys::Whole => None,
            FilterKeys::Prefix(extractor) | FilterKeys::Both(extractor) => Some(extractor),
        }
    }
}

const FIXED_NAME: &str = "rocksdb.FixedPrefix.";
const CAPPED_NAME: &str = "rocksdb.CappedPrefix.";
const DELIMITER_NAME: &str = "maypole.DelimiterPrefix.";

const FORMS: &str = "fixed(BYTES), capped(BYTES) or delimiter(BYTE, COUNT) such as fixed(8), \
                     capped(8) or delimiter(0x2f, 1)";

impl PrefixExtractor {
    /// The prefix is the first `bytes` bytes. Shorter keys have no prefix. RocksDB can use filters
    /// of these prefixes.
    ///
    /// # Errors
    ///
    /// When `bytes` is not 1 to 2^32 - 1.
    pub fn fixed(bytes: usize) -> Result<PrefixExtractor, SpecError> {
        Ok(PrefixExtractor(Rule::Fixed(at_least_one("fixed", bytes)?)))
    }

    /// The prefix is the first `bytes` bytes; a shorter key is its own prefix. RocksDB can use
    /// filters of these prefixes.
    ///
    /// # Errors
    ///
    /// When `bytes` is not 1 to 2^32 - 1.
    pub fn capped(bytes: usize) -> Result<PrefixExtractor, SpecError> {
        Ok(PrefixExtractor(Rule::Capped(at_least_one("capped", bytes)?)))
    }

    /// The prefix is the key up to and including its `count`-th `byte`. For a key such as
    /// `row/column/…` and the byte `/`, a count of 1 gives the prefix `row/`, and a count of 2
    /// gives `row/column/`. A key with fewer such bytes has no prefix. RocksDB ignores filters of
    /// these prefixes.
    ///
    /// # Errors
    ///
    /// When `count` is not 1 to 2^32 - 1.
    #[doc(alias = "ROWPREFIX_DELIMITED")]
    pub fn delimiter(byte: u8, count: usize) -> Result<PrefixExtractor, SpecError> {
        Ok(PrefixExtractor(Rule::Delimiter { byte, count: at_least_one("delimiter", count)? }))
    }

    /// The prefix of a key; `None` when the key is out of the domain.
    #[inline]
    pub fn prefix_of<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        match self.0 {
            Rule::Fixed(bytes) => key.get(..bytes as usize),
            Rule::Capped(bytes) => Some(&key[..key.len().min(bytes as usize)]),
            Rule::Delimiter { byte, count } => {
                let mut positions = key.iter().enumerate().filter(|&(_, &found)| found == byte);
                positions.nth(count as usize - 1).map(|(position, _)| &key[..=position])
            }
        }
    }

    /// The prefix that all keys from `lower` up to, but without, `upper` have. If `upper` is
    /// `None`, the range has no end. Returns `None` if the keys of the range may have different
    /// prefixes, or no prefix.
    #[inline]
    pub fn prefix_of_range<'a>(&self, lower: &'a [u8], upper: Option<&[u8]>) -> Option<&'a [u8]> {
        let prefix = self.prefix_of(lower)?;
        // A key shorter than a capped prefix is its own prefix. Longer keys that start with it have
        // other prefixes, so a range from such a key on has no common prefix.
        let is_short = matches!(self.0, Rule::Capped(bytes) if prefix.len() < bytes as usize);
        (!is_short && ends_within(prefix, upper)).then_some(prefix)
    }

    /// The name that files store: RocksDB's name if RocksDB has the same rule.
    pub fn name(&self) -> String {
        match self.0 {
            Rule::Fixed(bytes) => format!("{FIXED_NAME}{bytes}"),
            Rule::Capped(bytes) => format!("{CAPPED_NAME}{bytes}"),
            Rule::Delimiter { byte, count } => format!("{DELIMITER_NAME}{byte:02x}.{count}"),
        }
    }

    /// The extractor with this name, which must have the exact form of [`PrefixExtractor::name`].
    /// `None` for an unknown name; filters of such an extractor cannot be used.
    pub fn from_name(name: &str) -> Option<PrefixExtractor> {
        let parsed = if let Some(bytes) = name.strip_prefix(FIXED_NAME) {
            PrefixExtractor::fixed(bytes.parse().ok()?)
        } else if let Some(bytes) = name.strip_prefix(CAPPED_NAME) {
            PrefixExtractor::capped(bytes.parse().ok()?)
        } else {
            let (byte, count) = name.strip_prefix(DELIMITER_NAME)?.split_once('.')?;
            let byte = u8::from_str_radix(byte, 16).ok()?;
            PrefixExtractor::delimiter(byte, count.parse().ok()?)
        };
        parsed.ok().filter(|extractor| extractor.name() == name)
    }
}

fn at_least_one(form: &str, count: usize) -> Result<u32, SpecError> {
    match u32::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(SpecError(format!("{form}({count}): must be 1 to {}", u32::MAX))),
    }
}

/// Whether all keys from `prefix` up to, but without, `upper` start with `prefix`. They do if
/// `upper` is not after the first key that follows all keys with the prefix. To get that key, take
/// the prefix without its trailing 0xff bytes, and increase the last byte by one. A prefix of only
/// 0xff bytes has no such key: all keys after it start with it.
fn ends_within(prefix: &[u8], upper: Option<&[u8]>) -> bool {
    let Some(last) = prefix.iter().rposition(|&byte| byte != 0xff) else { return true };
    upper.is_some_and(|upper| {
        upper <= prefix
            || upper.starts_with(prefix)
            || (upper.len() == last + 1
                && upper[..last] == prefix[..last]
                && upper[last] == prefix[last] + 1)
    })
}

impl fmt::Display for PrefixExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Rule::Fixed(bytes) => write!(f, "fixed({bytes})"),
            Rule::Capped(bytes) => write!(f, "capped({bytes})"),
            Rule::Delimiter { byte, count } => write!(f, "delimiter({byte:#04x}, {count})"),
        }
    }
}

impl FromStr for PrefixExtractor {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<PrefixExtractor, SpecError> {
        let unknown = || SpecError(format!("unknown prefix {text:?}: expected {FORMS}"));
        let (form, rest) = text.trim().split_once('(').ok_or_else(unknown)?;
        let arguments = rest.strip_suffix(')').ok_or_else(unknown)?;
        let number = |text: &str| text.trim().parse().map_err(|_| unknown());
        match form.trim_end() {
            "fixed" => PrefixExtractor::fixed(number(arguments)?),
            "capped" => PrefixExtractor::capped(number(arguments)?),
            "delimiter" => {
                let (byte, count) = arguments.split_once(',').ok_or_else(unknown)?;
                let digits = byte.trim().strip_prefix("0x").ok_or_else(unknown)?;
                let byte = u8::from_str_radix(digits, 16).map_err(|_| unknown())?;
                PrefixExtractor::delimiter(byte, number(count)?)
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extractor(text: &str) -> PrefixExtractor {
        text.parse().unwrap()
    }

    const ALL: [&str; 7] = [
        "fixed(1)",
        "fixed(2)",
        "fixed(3)",
        "capped(2)",
        "capped(3)",
        "delimiter(0x2f, 1)",
        "delimiter(0x2f, 2)",
    ];

    /// All keys of up to four bytes, in order. Each byte is one of four values.
    fn universe() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![]];
        let mut start = 0;
        for _ in 0..4 {
            let end = keys.len();
            for i in start..end {
                keys.extend([0x00, b'/', 0xfe, 0xff].map(|byte| [&keys[i][..], &[byte]].concat()));
            }
            start = end;
        }
        keys.sort();
        keys
    }

    #[test]
    fn prefixes_start_their_keys_and_keep_their_order() {
        for extractor in ALL.map(extractor) {
            let keys = universe();
            let prefixes: Vec<_> =
                keys.iter().filter_map(|key| Some((key, extractor.prefix_of(key)?))).collect();
            assert!(prefixes.len() > 10, "{extractor}");
            assert!(prefixes.iter().all(|(key, prefix)| key.starts_with(prefix)), "{extractor}");
            assert!(prefixes.is_sorted_by_key(|&(_, prefix)| prefix), "{extractor}");
        }
    }

    /// Takes every pair of keys as the bounds of a range. If the extractor returns a prefix for the
    /// range, every key of the range must have that prefix.
    #[test]
    fn a_range_with_one_prefix_holds_no_key_with_another_or_with_none() {
        let keys = universe();
        for extractor in ALL.map(extractor) {
            let mut named = 0;
            // For each key, the position of the first later key with another prefix.
            let prefixes: Vec<_> = keys.iter().map(|key| extractor.prefix_of(key)).collect();
            let mut run_end = vec![keys.len(); keys.len()];
            for i in (0..keys.len() - 1).rev() {
                run_end[i] = if prefixes[i] == prefixes[i + 1] { run_end[i + 1] } else { i + 1 };
            }
            for (i, lower) in keys.iter().enumerate() {
                for end in i..=keys.len() {
                    let upper = keys.get(end).map(Vec::as_slice);
                    let Some(prefix) = extractor.prefix_of_range(lower, upper) else { continue };
                    named += usize::from(end > i);
                    assert_eq!(prefixes[i], Some(prefix));
                    assert!(end <= run_end[i].max(i + 1), "{extractor} {lower:02x?} {upper:02x?}");
                    // Keys longer than those of `universe` must have the prefix too, if they are
                    // in the range.
                    if let Some(key) = keys[i..end].last() {
                        let longer = [&key[..], b"\xff\xff"].concat();
                        if upper.is_none_or(|upper| &longer[..] < upper) {
                            assert_eq!(extractor.prefix_of(&longer), Some(prefix));
                        }
                    }
                }
            }
            assert!(named > 100, "{extractor} named {named}");
        }
    }

    #[test]
    fn all_keys_of_a_whole_prefix_are_one_range() {
        let range = |text, lower: &[u8], upper: Option<&[u8]>| {
            extractor(text).prefix_of_range(lower, upper).map(<[u8]>::to_vec)
        };
        assert_eq!(range("fixed(2)", b"ab", Some(b"ac")), Some(b"ab".to_vec()));
        assert_eq!(range("fixed(2)", b"ab", Some(b"ac\0")), None);
        assert_eq!(range("fixed(2)", b"a", Some(b"b")), None);
        assert_eq!(range("fixed(2)", b"abx", Some(b"aby")), Some(b"ab".to_vec()));
        assert_eq!(range("fixed(2)", b"a\xff", Some(b"b")), Some(b"a\xff".to_vec()));
        assert_eq!(range("fixed(2)", b"\xff\xff", None), Some(b"\xff\xff".to_vec()));
        assert_eq!(range("fixed(2)", b"ab", None), None);
        assert_eq!(range("capped(2)", b"", Some(b"\0")), None);
        assert_eq!(range("capped(2)", b"a", Some(b"b")), None);
        assert_eq!(range("capped(2)", b"ab", Some(b"ac")), Some(b"ab".to_vec()));
        assert_eq!(range("delimiter(0x2f, 1)", b"user/", Some(b"user0")), Some(b"user/".to_vec()));
        assert_eq!(range("delimiter(0x2f, 1)", b"user", Some(b"uses")), None);
        assert_eq!(range("delimiter(0x2f, 2)", b"user/", Some(b"user0")), None);
        assert_eq!(range("delimiter(0xff, 1)", b"a\xff", Some(b"b")), Some(b"a\xff".to_vec()));
    }

    #[test]
    fn names_and_texts_read_back_and_no_others_are_known() {
        for text in ALL {
            let extractor = extractor(text);
            assert_eq!(extractor.to_string(), text);
            assert_eq!(PrefixExtractor::from_name(&extractor.name()), Some(extractor));
        }
        assert_eq!(extractor("capped(8)").name(), "rocksdb.CappedPrefix.8");
        assert_eq!(extractor("delimiter(0x0a,2)").name(), "maypole.DelimiterPrefix.0a.2");
        for name in [
            "",
            "nullptr",
            "rocksdb.Noop",
            "rocksdb.FixedPrefix",
            "rocksdb.FixedPrefix.",
            "rocksdb.FixedPrefix.0",
            "rocksdb.FixedPrefix.08",
            "rocksdb.FixedPrefix.+8",
            "rocksdb.FixedPrefix.99999999999999999999",
            "rocksdb.CappedPrefix.-1",
            "maypole.DelimiterPrefix.2f",
            "maypole.DelimiterPrefix.2F.1",
            "maypole.DelimiterPrefix.2f.0",
        ] {
            assert_eq!(PrefixExtractor::from_name(name), None, "{name}");
        }
        for text in ["", "fixed", "fixed(", "fixed(0)", "capped(-1)", "delimiter(/, 1)", "two(2)"] {
            let error = text.parse::<PrefixExtractor>().unwrap_err().to_string();
            assert!(!error.contains('\n') && error.len() > 15, "{text}: {error}");
        }
    }
}
