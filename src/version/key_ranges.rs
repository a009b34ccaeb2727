//! [`KeyRanges`]: the key ranges of one level's files, where a lookup finds them together.
//!
//! The keys themselves lie behind three pointers a file, each a trip to memory. Here the first 8
//! bytes of each bound, after the prefix that all bounds of the level share, stand in two arrays.
//! They decide nearly always; equal heads are settled by the keys.
//!
//! ```text
//! smallest  [u64 u64 u64 …]      in the order of the level's files
//! largest   [u64 u64 u64 …]
//! ```

use std::cmp::Ordering;

use crate::key::{self, head, rarely, strip_prefix, user_key};

/// What a file's range begins and ends with.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'a> {
    /// A user key.
    pub smallest: &'a [u8],
    /// An internal key: it may be the end of a range deletion, which the range does not hold.
    pub largest: &'a [u8],
}

impl Bounds<'_> {
    fn ends_before(&self, user_key: &[u8]) -> bool {
        key::ends_before(self.largest, user_key)
    }
}

/// See the module. Its methods are given the bounds that it was made from, by position.
pub(super) struct KeyRanges {
    common_prefix: Vec<u8>,
    smallest: Vec<u64>,
    largest: Vec<u64>,
}

impl KeyRanges {
    pub fn of(bounds: &[Bounds<'_>]) -> KeyRanges {
        let smallest = || bounds.iter().map(|bounds| bounds.smallest);
        let largest = || bounds.iter().map(|bounds| user_key(bounds.largest));
        let mut common = smallest().next().unwrap_or_default();
        for key in smallest().chain(largest()) {
            let shared = common.iter().zip(key).take_while(|(a, b)| a == b).count();
            common = &common[..shared];
        }
        KeyRanges {
            smallest: smallest().map(|key| head(&key[common.len()..])).collect(),
            largest: largest().map(|key| head(&key[common.len()..])).collect(),
            common_prefix: common.to_vec(),
        }
    }

    /// The head of `key`, for the other methods. `None`: no range holds it.
    #[inline(always)]
    pub fn head(&self, key: &[u8]) -> Option<u64> {
        strip_prefix(key, &self.common_prefix).map(head)
    }

    /// Whether range `i` holds `key`, whose head is `wanted`.
    #[inline(always)]
    pub fn holds<'a>(
        &self,
        bounds: impl Fn(usize) -> Bounds<'a>,
        i: usize,
        wanted: u64,
        key: &[u8],
    ) -> bool {
        self.begins_by(&bounds, i, wanted, key)
            && match wanted.cmp(&self.largest[i]) {
                Ordering::Less => true,
                Ordering::Equal => rarely(|| !bounds(i).ends_before(key)),
                Ordering::Greater => false,
            }
    }

    /// Of ranges in key order that are disjoint: the one that holds `key`, whose head is `wanted`.
    #[inline(always)]
    pub fn only<'a>(
        &self,
        bounds: impl Fn(usize) -> Bounds<'a>,
        wanted: u64,
        key: &[u8],
    ) -> Option<usize> {
        let mut i = self.largest.partition_point(|&head| head < wanted);
        if self.largest.get(i) == Some(&wanted) {
            i = rarely(|| {
                let ties = self.largest[i..].partition_point(|&head| head == wanted);
                let (mut low, mut high) = (i, i + ties);
                while low < high {
                    let middle = low + (high - low) / 2;
                    match bounds(middle).ends_before(key) {
                        true => low = middle + 1,
                        false => high = middle,
                    }
                }
                low
            });
        }
        (i < self.largest.len() && self.begins_by(&bounds, i, wanted, key)).then_some(i)
    }

    /// Whether range `i` begins at or before `key`, whose head is `wanted`.
    #[inline(always)]
    fn begins_by<'a>(
        &self,
        bounds: impl Fn(usize) -> Bounds<'a>,
        i: usize,
        wanted: u64,
        key: &[u8],
    ) -> bool {
        match self.smallest[i].cmp(&wanted) {
            Ordering::Less => true,
            Ordering::Equal => rarely(|| bounds(i).smallest <= key),
            Ordering::Greater => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::internal_key;

    /// Keys that differ late, are prefixes of each other, and end in bytes like the padding.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![], vec![0xff; 12]];
        for i in 0..30u8 {
            keys.push(vec![b'a', i]);
            keys.push([&b"a-long-prefix"[..], &[i]].concat());
            keys.push([&b"a-long-prefix"[..], &vec![0; usize::from(i)]].concat());
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// Smallest user key and largest internal key. `open`: the last key is the end of a range
    /// deletion.
    type Owned = (Vec<u8>, Vec<u8>);

    fn range(first: &[u8], last: &[u8], open: bool) -> Owned {
        let largest = if open { key::range_end(last) } else { internal_key(last, 7, 1) };
        (first.to_vec(), largest)
    }

    fn holds((first, largest): &Owned, key: &[u8]) -> bool {
        let before_end = match key::is_range_end(largest) {
            true => key < user_key(largest),
            false => key <= user_key(largest),
        };
        &first[..] <= key && before_end
    }

    fn bounds((smallest, largest): &Owned) -> Bounds<'_> {
        Bounds { smallest, largest }
    }

    #[test]
    fn ranges_are_found_as_by_comparing_every_bound() {
        let keys = keys();
        for (first, last, step) in [(0, keys.len(), 1), (5, 40, 2), (31, 60, 1), (33, 35, 1)] {
            let ends: Vec<&[u8]> = keys[first..last].iter().step_by(step).map(|k| &k[..]).collect();
            // Ranges apart, and ranges of which each ends where the next one begins.
            let apart =
                ends.chunks_exact(2).enumerate().map(|(i, c)| range(c[0], c[1], i % 3 == 0));
            let touching = ends.windows(2).map(|pair| range(pair[0], pair[1], true));
            for disjoint in [apart.collect::<Vec<_>>(), touching.collect()] {
                let one = KeyRanges::of(&disjoint.iter().map(bounds).collect::<Vec<_>>());
                for key in keys.iter().flat_map(|k| [k.clone(), [&k[..], &[0]].concat()]) {
                    let expected = disjoint.iter().position(|range| holds(range, &key));
                    let found = one
                        .head(&key)
                        .and_then(|head| one.only(|i| bounds(&disjoint[i]), head, &key));
                    assert_eq!(found, expected, "{key:?}");
                }
            }
            let overlapping: Vec<Owned> = ends
                .iter()
                .enumerate()
                .map(|(i, &a)| range(a, ends[(i * 7 + 3) % ends.len()], i % 2 == 0))
                .collect();
            let many = KeyRanges::of(&overlapping.iter().map(bounds).collect::<Vec<_>>());
            for key in keys.iter().flat_map(|k| [k.clone(), [&k[..], &[0]].concat()]) {
                let found = many.head(&key).map_or(vec![], |head| {
                    let holds = |&i: &usize| many.holds(|i| bounds(&overlapping[i]), i, head, &key);
                    (0..overlapping.len()).filter(holds).collect()
                });
                let all = 0..overlapping.len();
                let expected: Vec<_> = all.filter(|&i| holds(&overlapping[i], &key)).collect();
                assert_eq!(found, expected, "{key:?}");
            }
        }
        assert_eq!(KeyRanges::of(&[]).only(|_| unreachable!(), head(b"k"), b"k"), None);
    }
}
