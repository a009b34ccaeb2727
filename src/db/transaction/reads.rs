//! [`ReadSet`]: what a transaction has read, as keys and ranges of keys.
//!
//! ```text
//!   get, multi_get …      the key, also if it was absent
//!   cursors, iterators    the range from where they started to where they got
//!   in use                unsorted, appended
//!   sorted                keys ascending and once each; ranges disjoint; no key lies in a range
//! ```
//!
//! **Bounded.** A transaction that reads very much remembers at most [`MOST_BYTES`]. Then the set is
//! sorted, which removes what is there twice. If that frees too little, one range from the first
//! key to the last takes the place of all. It contains more than was read, so a commit may conflict
//! with a write that changed nothing that was read. It never misses a conflict.
//!
//! **A scan that runs** is remembered from its first seek on as a read of its whole range, and the
//! range that it really read takes that place when its cursor is dropped. So even a cursor that is
//! leaked has been remembered.

use std::ops::Range;

use crate::db::iter::bounds::{Bounds, after};
use crate::db::write::batch::{BatchOperation, WriteBatch};
use crate::version::KeyspaceId;

/// The most bytes that the reads of a transaction take.
const MOST_BYTES: usize = 8 << 20;

/// See the module.
#[derive(Default)]
pub(crate) struct ReadSet {
    /// The bytes of the keys, one after the other.
    bytes: Vec<u8>,
    /// Where each key lies in `bytes`.
    keys: Vec<Range<usize>>,
    ranges: Vec<Bounds>,
    /// Bytes of the ranges.
    range_bytes: usize,
    /// The whole ranges of the scans that run; `None`: the scan has ended.
    scans: Vec<Option<Bounds>>,
}

impl ReadSet {
    pub fn add_key(&mut self, key: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.keys.push(start..self.bytes.len());
        self.limit(MOST_BYTES);
    }

    pub fn add_range(&mut self, range: Bounds) {
        if !range.is_empty() {
            self.range_bytes += bytes_of(&range);
            self.ranges.push(range);
            self.limit(MOST_BYTES);
        }
    }

    /// Begins a scan that may read all of `range`. Returns the number with which it ends.
    pub fn begin_scan(&mut self, range: Bounds) -> usize {
        self.scans.push(Some(range));
        self.scans.len() - 1
    }

    /// Ends a scan. What it has read was added before.
    pub fn end_scan(&mut self, number: usize) {
        self.scans[number] = None;
        while self.scans.last().is_some_and(Option::is_none) {
            self.scans.pop();
        }
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.len() + self.keys.len() * size_of::<Range<usize>>() + self.range_bytes
    }

    fn limit(&mut self, most: usize) {
        if self.heap_bytes() > most {
            self.shrink(most - most / 8);
        }
    }

    /// Sorts the set, and replaces it by one range if it is still larger than `wanted` bytes.
    #[cold]
    fn shrink(&mut self, wanted: usize) {
        self.sort();
        if self.heap_bytes() <= wanted {
            return;
        }
        let keys = (self.keys().next(), self.keys().next_back());
        let of_keys =
            keys.0.zip(keys.1).map(|(first, last)| Bounds::between(first, Some(&after(last))));
        let all = of_keys.into_iter().chain(std::mem::take(&mut self.ranges)).reduce(Bounds::hull);
        (self.bytes, self.keys) = Default::default();
        self.ranges.extend(all);
        self.range_bytes = self.ranges.iter().map(bytes_of).sum();
    }

    /// The set, sorted. Scans that have not ended count as reads of their whole ranges.
    pub fn sorted(mut self) -> ReadSet {
        let scans = std::mem::take(&mut self.scans).into_iter().flatten();
        self.ranges.extend(scans.filter(|range| !range.is_empty()));
        self.sort();
        self
    }

    fn sort(&mut self) {
        if self.keys.len() + self.ranges.len() <= 1 {
            return;
        }
        self.join_ranges();
        let bytes = std::mem::take(&mut self.bytes);
        let mut keys = std::mem::take(&mut self.keys);
        keys.sort_unstable_by(|a, b| bytes[a.clone()].cmp(&bytes[b.clone()]));
        keys.dedup_by(|a, b| bytes[a.clone()] == bytes[b.clone()]);
        keys.retain(|key| !self.is_in_range(&bytes[key.clone()]));
        // The bytes of the keys that remain are moved together.
        self.bytes.reserve_exact(keys.iter().map(ExactSizeIterator::len).sum());
        for key in &mut keys {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&bytes[key.clone()]);
            *key = start..self.bytes.len();
        }
        self.keys = keys;
    }

    /// Sorts the ranges, and joins those that overlap or touch.
    fn join_ranges(&mut self) {
        self.ranges.sort_unstable_by(|a, b| a.lower().cmp(&b.lower()));
        self.ranges.dedup_by(|next, range| {
            let touches = range.upper().is_none_or(|end| Some(end) >= next.lower());
            if touches {
                *range = std::mem::take(range).hull(std::mem::take(next));
            }
            touches
        });
        self.range_bytes = self.ranges.iter().map(bytes_of).sum();
    }

    /// The keys that were read one by one.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.keys.iter().map(|key| &self.bytes[key.clone()])
    }

    pub fn ranges(&self) -> &[Bounds] {
        &self.ranges
    }

    /// Whether one of the ranges holds the key. The ranges are sorted.
    fn is_in_range(&self, key: &[u8]) -> bool {
        let next = self.ranges.partition_point(|range| range.is_past(key));
        self.ranges.get(next).is_some_and(|range| !range.is_before(key))
    }

    /// Whether a write of the batch changes something that was read of this keyspace. The set is
    /// sorted.
    pub fn is_concerned_by(&self, keyspace: KeyspaceId, batch: &WriteBatch) -> bool {
        batch.writes().any(|(of, write)| {
            of.unwrap_or(0) == keyspace
                && match write {
                    BatchOperation::Put { key, .. } | BatchOperation::Delete { key } => {
                        self.holds(key)
                    }
                    BatchOperation::DeleteRange { start, end } => self.overlaps(start, end),
                }
        })
    }

    fn holds(&self, key: &[u8]) -> bool {
        let is_key = || self.keys.binary_search_by(|it| self.bytes[it.clone()].cmp(key)).is_ok();
        is_key() || self.is_in_range(key)
    }

    fn overlaps(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        let next = self.keys.partition_point(|it| &self.bytes[it.clone()] < start);
        let key = self.keys.get(next).map(|it| &self.bytes[it.clone()]);
        let next = self.ranges.partition_point(|range| range.is_past(start));
        let range = self.ranges.get(next).map(|range| range.lower().unwrap_or_default());
        let is_deleted = |read: &[u8]| end.is_none_or(|end| read < end);
        key.is_some_and(is_deleted) || range.is_some_and(is_deleted)
    }
}

fn bytes_of(range: &Bounds) -> usize {
    let [lower, upper] = [range.lower(), range.upper()].map(|key| key.map_or(0, <[u8]>::len));
    size_of::<Bounds>() + lower + upper
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Keys of up to two letters out of three, and the empty key.
    fn all_keys() -> Vec<Vec<u8>> {
        let letters = [b'a', b'b', b'c'];
        let one = letters.iter().map(|&letter| vec![letter]);
        let two = letters.iter().flat_map(|&x| letters.map(|y| vec![x, y]));
        std::iter::once(Vec::new()).chain(one).chain(two).collect()
    }

    fn some_range(rng: &mut SmallRng, keys: &[Vec<u8>]) -> Bounds {
        let start = keys[rng.random_range(0..keys.len())].clone();
        let end = rng.random_bool(0.8).then(|| keys[rng.random_range(0..keys.len())].clone());
        Bounds::between(&start, end.as_deref())
    }

    fn delete_of(range: &Bounds) -> WriteBatch {
        let mut batch = WriteBatch::new();
        let start = range.lower().unwrap_or_default();
        match range.upper() {
            None => drop(batch.delete_range(start..)),
            Some(end) if end > start => drop(batch.delete_range(start..end)),
            Some(_) => {}
        }
        batch
    }

    #[test]
    fn a_set_of_reads_answers_like_a_set_of_all_keys_that_were_read() {
        let keys = all_keys();
        for seed in 0..2_000 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut reads, mut read) = (ReadSet::default(), BTreeSet::new());
            for _ in 0..rng.random_range(0..6) {
                if rng.random() {
                    let key = &keys[rng.random_range(0..keys.len())];
                    reads.add_key(key);
                    read.insert(key.clone());
                    continue;
                }
                let range = some_range(&mut rng, &keys);
                let holds = |key: &&Vec<u8>| !range.is_before(key) && !range.is_past(key);
                read.extend(keys.iter().filter(holds).cloned());
                match rng.random() {
                    true => reads.add_range(range),
                    // A scan whose cursor was leaked.
                    false => drop(reads.begin_scan(range)),
                }
            }
            let is_shrunk = rng.random_bool(0.2);
            if is_shrunk {
                reads.shrink(0);
            }
            let reads = reads.sorted();
            assert!(reads.ranges.windows(2).all(|pair| pair[0].upper() < pair[1].lower()));
            assert!(reads.keys().is_sorted_by(|a, b| a < b));
            for key in &keys {
                let concerned = reads.is_concerned_by(0, WriteBatch::new().put(key, ""));
                assert!(concerned || !read.contains(key), "seed {seed}: {key:?} is missed");
                assert!(!concerned || is_shrunk || read.contains(key), "seed {seed}: {key:?}");
            }
            for _ in 0..10 {
                let range = some_range(&mut rng, &keys);
                let batch = delete_of(&range);
                let hits = |key: &Vec<u8>| !range.is_before(key) && !range.is_past(key);
                if !batch.is_empty() && read.iter().any(hits) {
                    assert!(reads.is_concerned_by(0, &batch), "seed {seed}: {range:?}");
                }
            }
        }
    }

    #[test]
    fn reads_take_no_more_than_their_bound() {
        let mut reads = ReadSet::default();
        for i in 0..400_000_u32 {
            reads.add_key(&i.to_be_bytes());
        }
        assert!(reads.heap_bytes() <= MOST_BYTES);
        let reads = reads.sorted();
        for i in [0, 123_456, 399_999_u32] {
            assert!(reads.is_concerned_by(0, WriteBatch::new().put(i.to_be_bytes(), "")));
        }
        assert!(!reads.is_concerned_by(0, WriteBatch::new().put(400_000_u32.to_be_bytes(), "")));
        // Repeated reads of few keys never make a range of them.
        let mut reads = ReadSet::default();
        for i in 0..1_000_000_u32 {
            reads.add_key(&(i % 3 * 2).to_be_bytes());
        }
        let reads = reads.sorted();
        assert_eq!((reads.keys().count(), reads.ranges().len()), (3, 0));
    }
}
