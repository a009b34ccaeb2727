//! [`Bounds`]: the range of user keys of an iterator or of a manual compaction. [`KeyBounds`]: the
//! ranges that a caller may pass.

use std::borrow::Cow;
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`, or a pair of [`Bound`]s. A key is
/// of any type that is `AsRef<[u8]>`.
///
/// [`RangeBounds`] is not used, because it needs a type of key. `..` names no such type, so
/// `db.range(..)` would not compile.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// use std::ops::Bound;
///
/// # db.put("ant", "")?;
/// # db.put("bee", "")?;
/// assert_eq!(db.range(..).count(), 2);
/// assert_eq!(db.range("b"..).count(), 1);
/// assert_eq!(db.range((Bound::Excluded("ant"), Bound::Unbounded)).count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyBounds {
    /// Where the range starts and ends.
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyBounds for RangeFull {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! key_bounds {
    ($($range:ty),*) => {$(
        impl<K: AsRef<[u8]>> KeyBounds for $range {
            fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                let bytes: fn(&K) -> &[u8] = K::as_ref;
                (self.start_bound().map(bytes), self.end_bound().map(bytes))
            }
        }
    )*};
}

key_bounds!(
    Range<K>,
    RangeInclusive<K>,
    RangeFrom<K>,
    RangeTo<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>)
);

/// The user keys from `lower` (inclusive) to `upper` (exclusive; `None` = to the end).
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

/// The first key after `key`: `key` with a zero byte appended.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The first key of `range`, and the first key after it; `None`: the range has no end.
pub(crate) fn start_and_end(range: &impl KeyBounds) -> (Cow<'_, [u8]>, Option<Cow<'_, [u8]>>) {
    let (start, end) = range.key_bounds();
    let start = match start {
        Bound::Included(key) => key.into(),
        Bound::Excluded(key) => after(key).into(),
        Bound::Unbounded => Cow::default(),
    };
    let end = match end {
        Bound::Included(key) => Some(after(key).into()),
        Bound::Excluded(key) => Some(key.into()),
        Bound::Unbounded => None,
    };
    (start, end)
}

/// The first key after all keys that start with `prefix`: the prefix without its trailing 0xff
/// bytes, and with its last byte increased by one. There is none when all bytes are 0xff.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

impl Bounds {
    pub fn of(range: impl KeyBounds) -> Bounds {
        let (start, end) = start_and_end(&range);
        Bounds { lower: start.into_owned(), upper: end.map(Cow::into_owned) }
    }

    pub fn of_prefix(prefix: &[u8]) -> Bounds {
        Bounds { lower: prefix.to_vec(), upper: after_prefix(prefix) }
    }

    /// From `lower` (inclusive) to `upper` (exclusive; `None`: to the end).
    pub fn between(lower: &[u8], upper: Option<&[u8]>) -> Bounds {
        Bounds { lower: lower.to_vec(), upper: upper.map(<[u8]>::to_vec) }
    }

    /// The smallest range that holds both.
    pub fn hull(self, other: Bounds) -> Bounds {
        let uppers = self.upper.zip(other.upper);
        Bounds {
            lower: self.lower.min(other.lower),
            upper: uppers.map(|(one, other)| one.max(other)),
        }
    }

    /// Whether no key lies in the range.
    pub fn is_empty(&self) -> bool {
        self.upper.as_ref().is_some_and(|upper| *upper <= self.lower)
    }

    /// The first key of the range; `None`: the first of all keys.
    pub fn lower(&self) -> Option<&[u8]> {
        (!self.lower.is_empty()).then_some(&self.lower)
    }

    /// The first key after the range; `None`: the range has no end.
    pub fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    /// Whether `key` lies before the range.
    #[inline]
    pub fn is_before(&self, key: &[u8]) -> bool {
        self.lower().is_some_and(|lower| key < lower)
    }

    /// Whether `key` lies past the range.
    #[inline]
    pub fn is_past(&self, key: &[u8]) -> bool {
        self.upper().is_some_and(|upper| key >= upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_last_byte_below_ff_goes_one_up() {
        let upper = |prefix: &[u8]| Bounds::of_prefix(prefix).upper;
        assert_eq!(upper(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(upper(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(upper(b"\xff"), None);
        assert_eq!(upper(b""), None);
    }

    #[test]
    fn bounds_become_inclusive_below_and_exclusive_above() {
        let bounds = Bounds::of((Bound::Excluded("a"), Bound::Included("c")));
        assert_eq!((&bounds.lower[..], bounds.upper.as_deref()), (&b"a\0"[..], Some(&b"c\0"[..])));
        let all = Bounds::of(..);
        assert_eq!((all.lower.len(), all.upper), (0, None));
    }
}
