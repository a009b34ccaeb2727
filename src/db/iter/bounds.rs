//! [`Bounds`]: the range of user keys of an iterator or of a manual compaction.

use std::ops::{Bound, RangeBounds};

/// The user keys from `lower` (inclusive) to `upper` (exclusive; `None` = to the end).
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl Bounds {
    pub fn of<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> Bounds {
        // The key right after `key` is `key` with a zero byte appended.
        let after = |key: &K| [key.as_ref(), &[0]].concat();
        Bounds {
            lower: match range.start_bound() {
                Bound::Included(key) => key.as_ref().to_vec(),
                Bound::Excluded(key) => after(key),
                Bound::Unbounded => Vec::new(),
            },
            upper: match range.end_bound() {
                Bound::Included(key) => Some(after(key)),
                Bound::Excluded(key) => Some(key.as_ref().to_vec()),
                Bound::Unbounded => None,
            },
        }
    }

    pub fn of_prefix(prefix: &[u8]) -> Bounds {
        // The first key after all that start with the prefix: the prefix without its trailing
        // 0xff bytes, its last byte one up. There is none when all bytes are 0xff.
        let upper = prefix.iter().rposition(|&byte| byte != 0xff).map(|last| {
            let mut upper = prefix[..=last].to_vec();
            upper[last] += 1;
            upper
        });
        Bounds { lower: prefix.to_vec(), upper }
    }

    /// The first key of the range; `None`: the first of all keys.
    pub fn lower(&self) -> Option<&[u8]> {
        (!self.lower.is_empty()).then_some(&self.lower)
    }

    /// The first key behind the range; `None`: there is none.
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
        let bounds = Bounds::of::<&str>((Bound::Excluded("a"), Bound::Included("c")));
        assert_eq!((&bounds.lower[..], bounds.upper.as_deref()), (&b"a\0"[..], Some(&b"c\0"[..])));
        let all = Bounds::of::<&str>(..);
        assert_eq!((all.lower.len(), all.upper), (0, None));
    }
}
