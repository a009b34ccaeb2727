//! Comparisons of byte strings on the path of every lookup.
//!
//! The library's comparisons are calls of `memcmp`, made for long strings. Keys differ early and
//! prefixes are short: there the call costs more than the comparison. Each function here gives the
//! library's answer; those without a call are used where that was measured to matter.

use std::cmp::Ordering;

/// How many first bytes `a` and `b` have in common.
#[inline(always)]
pub(crate) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first 8 bytes as a number that orders as they do. Shorter keys are padded with zeros, so
/// equal heads say nothing.
#[inline(always)]
pub(crate) fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(front) => u64::from_be_bytes(*front),
        None => rarely(|| {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }),
    }
}

/// What follows `prefix` in `bytes`, as [`<[u8]>::strip_prefix`] finds it. Lookups do it several times
/// each, with prefixes of a few bytes, where a call costs more than the comparison.
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
    // Two words that overlap cover what is no multiple of a word.
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

/// The order of slices, eight bytes a step, without a call for keys that differ early.
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

/// Keeps what a lookup seldom needs out of the code it always runs through: the registers of the
/// one are worth more than the call of the other.
#[cold]
#[inline(never)]
pub(crate) fn rarely<R>(settle: impl FnOnce() -> R) -> R {
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
