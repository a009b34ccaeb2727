//! Comparisons of byte strings on the path of every lookup.
//!
//! The standard library compares byte strings by calls of `memcmp`, which suits long strings. The
//! keys that a lookup compares differ early, and their common prefixes are short, so the call costs
//! more than the comparison. The functions here seldom make a call. Each is used where it was
//! measured to be faster than the standard library.

use std::cmp::Ordering;
use std::ops::Range;

/// How many first bytes `a` and `b` have in common.
#[inline(always)]
pub(crate) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first 8 bytes as a big-endian number, the *head* of a key. Fewer bytes are padded with
/// zeros. Keys with different heads have the order of their heads; keys with the same head may
/// differ.
#[inline(always)]
pub(crate) fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(front) => u64::from_be_bytes(*front),
        None => cold_path(|| {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }),
    }
}

/// The [`head`] of `bytes[part]`. A part of fewer than 8 bytes is not copied if `bytes` has 8 bytes
/// from the start of the part on: these are read as one number, and those after the part are
/// masked.
#[inline(always)]
pub(crate) fn head_within(bytes: &[u8], part: Range<usize>) -> u64 {
    let length = part.len();
    match bytes[part.start..].first_chunk() {
        Some(word) if length < 8 => u64::from_be_bytes(*word) & !(u64::MAX >> (8 * length)),
        Some(word) => u64::from_be_bytes(*word),
        None => head(&bytes[part]),
    }
}

/// Returns how many of `numbers`, which ascend, are below `bound`. The last number must not be
/// below `bound`. This is a binary search. `N` is a constant and a power of two, so the machine
/// code has neither a branch nor a loop, and a step takes fewer instructions than in
/// `partition_point`.
#[inline(always)]
pub(crate) fn count_below<const N: usize>(numbers: &[u64; N], bound: u64) -> usize {
    const { assert!(N.is_power_of_two()) };
    let (mut count, mut half) = (0, N / 2);
    while half > 0 {
        count += half * usize::from(numbers[count + half - 1] < bound);
        half /= 2;
    }
    count
}

/// A prefix that many keys share. A lookup checks whether its key has the prefix that the bounds of
/// all files share, and then the prefix of each table index that it searches. The first eight bytes
/// of the prefix are kept as one word, so that one comparison checks them.
#[derive(Default)]
pub(crate) struct Prefix {
    bytes: Box<[u8]>,
    /// The first 8 bytes of the prefix in memory order, padded with zeros. The bits of `mask` are 1
    /// where `word` is not padding.
    word: u64,
    mask: u64,
}

impl Prefix {
    pub fn new(bytes: &[u8]) -> Prefix {
        let count = bytes.len().min(8);
        let (mut word, mut mask) = ([0; 8], [0; 8]);
        word[..count].copy_from_slice(&bytes[..count]);
        mask[..count].fill(0xff);
        Prefix {
            bytes: bytes.into(),
            word: u64::from_ne_bytes(word),
            mask: u64::from_ne_bytes(mask),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether bytes that begin with `front` begin with the prefix, of which only the first 8 bytes
    /// are compared.
    #[inline(always)]
    pub fn begins(&self, front: &[u8; 8]) -> bool {
        (u64::from_ne_bytes(*front) ^ self.word) & self.mask == 0
    }

    /// The [`head`] of the bytes of `key` after the prefix. `None` if `key` does not begin with the
    /// prefix.
    #[inline(always)]
    pub fn head_after(&self, key: &[u8]) -> Option<u64> {
        let length = self.bytes.len();
        let (Some(front), Some(next)) =
            (key.first_chunk(), key.get(length..).and_then(|rest| rest.first_chunk()))
        else {
            return cold_path(|| strip_prefix(key, &self.bytes).map(head));
        };
        let differs =
            !self.begins(front) || length > 8 && !are_equal(&key[8..length], &self.bytes[8..]);
        (!differs).then(|| u64::from_be_bytes(*next))
    }
}

/// The bytes after `prefix` in `bytes`, as [`<[u8]>::strip_prefix`] returns them. A lookup calls
/// this for each data block that it searches by its key heads, with a prefix of a few bytes, for
/// which a call of `memcmp` costs more than the comparison.
#[inline(always)]
pub(crate) fn strip_prefix<'a>(bytes: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(prefix.len())?;
    are_equal(front, prefix).then_some(rest)
}

/// `a == b`, by words and without a call.
#[inline(always)]
pub(crate) fn are_equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    // Two overlapping words cover the end, so the length need not be a multiple of a word.
    if let (Some(a_end), Some(b_end)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
        let differ =
            |(a, b): (&[u8; 8], &[u8; 8])| u64::from_ne_bytes(*a) != u64::from_ne_bytes(*b);
        return !a_words.iter().zip(b_words).any(differ) && !differ((a_end, b_end));
    }
    match (a.first_chunk::<4>(), b.first_chunk::<4>(), a.last_chunk::<4>(), b.last_chunk::<4>()) {
        (Some(a_front), Some(b_front), Some(a_end), Some(b_end)) => {
            a_front == b_front && a_end == b_end
        }
        _ => a.iter().zip(b).all(|(a, b)| a == b),
    }
}

/// Compares two slices eight bytes at a time. Keys that differ early need no call of `memcmp`.
#[inline(always)]
pub(crate) fn compare_words(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while let (Some((x, a_rest)), Some((y, b_rest))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    {
        if x != y {
            return u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y));
        }
        (a, b) = (a_rest, b_rest);
    }
    a.cmp(b)
}

/// Calls `settle`, which handles a case that is rare in lookups. This function is never inlined, so
/// that the hot path reserves no registers for `settle`. That saves more than the call costs in the
/// rare case.
#[cold]
#[inline(never)]
pub(crate) fn cold_path<R>(settle: impl FnOnce() -> R) -> R {
    settle()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefixes_end_where_bytes_differ_or_either_ends() {
        for (a, b, expected) in [("", "", 0), ("", "a", 0), ("ab", "abc", 2), ("abx", "aby", 2)] {
            assert_eq!(common_prefix_len(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn numbers_below_a_bound_are_counted_as_by_the_library() {
        fn check<const N: usize>() {
            // The numbers are multiples of 4, each of them twice, so that some bounds are equal to
            // numbers, and others are between them.
            let mut numbers: [u64; N] = std::array::from_fn(|i| i as u64 / 2 * 4 + 4);
            numbers[N - 1] = u64::MAX;
            for bound in (0..2 * N as u64 + 8).chain([u64::MAX]) {
                let expected = numbers.partition_point(|&number| number < bound);
                assert_eq!(count_below(&numbers, bound), expected, "{N} {bound}");
            }
            assert_eq!(count_below(&[u64::MAX; N], u64::MAX), 0);
        }
        check::<1>();
        check::<2>();
        check::<16>();
        check::<64>();
    }

    #[test]
    fn the_head_after_a_prefix_is_that_of_the_rest() {
        let bytes: Vec<u8> = (1..=30).collect();
        for length in 0..20 {
            let prefix = Prefix::new(&bytes[..length]);
            assert_eq!(prefix.bytes(), &bytes[..length]);
            for key_bytes in 0..bytes.len() {
                let mut key = bytes[..key_bytes].to_vec();
                let expected = key.strip_prefix(&bytes[..length]).map(head);
                assert_eq!(prefix.head_after(&key), expected, "{length} {key_bytes}");
                for i in 0..key_bytes.min(length) {
                    key[i] ^= 0x80;
                    assert_eq!(prefix.head_after(&key), None, "{length} {key_bytes} {i}");
                    key[i] ^= 0x80;
                }
            }
        }
    }

    #[test]
    fn slices_of_every_length_are_compared_as_by_the_library() {
        for length in 0..40 {
            let a: Vec<u8> = (1..=length).collect();
            assert!(are_equal(&a, &a.clone()));
            assert_eq!(strip_prefix(&[&a[..], b"rest"].concat(), &a), Some(&b"rest"[..]));
            assert_eq!(strip_prefix(&a, &[&a[..], b"x"].concat()), None);
            for i in 0..a.len() {
                let mut b = a.clone();
                b[i] ^= 0x80;
                assert!(!are_equal(&a, &b) && strip_prefix(&a, &b).is_none());
                assert!(!are_equal(&a, &a[..i]));
            }
        }
    }
}
