//! Range deletions in a compaction: which entries they drop, and which range deletions remain.
//!
//! Snapshots cut the sequence numbers into stripes, as for versions of a key ([`super::retain`]). A
//! range deletion drops the older entries of its own stripe, because every reader that could see
//! them also sees the range deletion. Each stripe keeps only the newest range deletion that covers
//! a key.
//!
//! ```text
//!   sequence          1 2 3 | 4 5 6 7 | 8 9 …       snapshots at 3 and 7
//!   range deletions     2       5   7     9
//!   dropped           1         4 5 6     8         older than the newest range deletion of their
//!                                                   stripe (5 is itself a range deletion)
//!   kept ranges         2           7     9         2 only if an older table overlaps its range
//! ```
//!
//! The ranges that remain of a stripe are the outline of its range deletions, seen from above:
//!
//! ```text
//!   range deletions   ├────────── 4 ──────────┤        kept    ├─ 4 ─┼── 7 ──┼──── 6 ─────┤
//!   of a stripe             ├── 7 ──┤
//!                              ├─────── 6 ─────────┤
//! ```
//!
//! They do not overlap, and n range deletions leave fewer than 2n of them. Those of different
//! stripes may overlap in a table. If they were cut at each other's ends too, each of n nested range
//! deletions with a snapshot after it would be cut n times.
//!
//! Range deletions that remain are cut at the ends of the outputs, so that the range deletions of a
//! file are within the file's range. A range deletion is dropped if it is in the oldest stripe and
//! no older table overlaps its range. It then has nothing left to hide, because the same merge
//! drops the entries of the inputs that it hides.

use std::cmp::Reverse;
use std::sync::Arc;

use super::below::Below;
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber, user_key};
use crate::error::Result;
use crate::range_tombstones::{RangeTombstone, RangeTombstones, joined};
use crate::version::{NewTable, TableFile};

/// All range deletions of a compaction's inputs.
pub(crate) struct Ranges<'a> {
    /// The stripes that have range deletions, ascending, each as the number of snapshots that are
    /// older than it, and its range deletions.
    stripes: Vec<(usize, RangeTombstones)>,
    /// Sequence numbers of the snapshots, ascending.
    snapshots: &'a [SequenceNumber],
    below: &'a Below<'a>,
}

impl<'a> Ranges<'a> {
    pub fn new<'f>(
        inputs: impl Iterator<Item = &'f Arc<TableFile>>,
        snapshots: &'a [SequenceNumber],
        below: &'a Below<'a>,
    ) -> Ranges<'a> {
        let sets = inputs.filter_map(|file| file.table.ranges());
        Ranges::of(sets.flat_map(|set| set.iter()).collect(), snapshots, below)
    }

    /// Like [`Ranges::new`], but for range deletions that are not in tables, for example those of a
    /// memtable. `below` has the older tables.
    pub fn of(
        mut ranges: Vec<RangeTombstone<'_>>,
        snapshots: &'a [SequenceNumber],
        below: &'a Below<'a>,
    ) -> Ranges<'a> {
        ranges.sort_unstable_by_key(|range| range.sequence);
        let stripe = |range: &RangeTombstone<'_>| stripe_of(range.sequence, snapshots);
        let stripes = ranges
            .chunk_by(|a, b| stripe(a) == stripe(b))
            .map(|ranges| (stripe(&ranges[0]), RangeTombstones::new(ranges.iter().copied())))
            .collect();
        Ranges { stripes, snapshots, below }
    }

    /// Whether a range deletion hides this entry from every reader.
    #[inline]
    pub fn drops(&self, internal_key: &[u8]) -> bool {
        let sequence = key::sequence(internal_key);
        let stripe = self.stripe(sequence);
        stripe.is_some_and(|set| set.covering(user_key(internal_key), MAX_SEQUENCE) > sequence)
    }

    /// Whether the range deletions hide a whole file, including its own range deletions, from every
    /// reader. Such a file need not be read. The result may be `false` for a file that is hidden.
    pub fn drops_file(&self, file: &TableFile) -> bool {
        let meta = &file.meta;
        let Some(set) = self.stripe(meta.smallest_sequence) else { return false };
        // A fragment is a range of keys that the same range deletions cover ([`RangeTombstones`]).
        // If one fragment covers all keys of the file, the result for the first key holds for all
        // keys. Otherwise the other keys are not examined, and the result is `false`.
        let fragment = set.fragment_at(user_key(&meta.smallest), MAX_SEQUENCE);
        fragment.sequence > meta.largest_sequence
            && fragment.end.is_some_and(|end| key::ends_before(&meta.largest, end))
    }

    /// The range deletions of the stripe of `sequence`; `None` if there are none. Those of older
    /// stripes are older than `sequence`, and those of newer stripes are not seen by every reader.
    #[inline]
    fn stripe(&self, sequence: SequenceNumber) -> Option<&RangeTombstones> {
        if self.stripes.is_empty() {
            return None;
        }
        let stripe = stripe_of(sequence, self.snapshots);
        let i = self.stripes.binary_search_by_key(&stripe, |&(stripe, _)| stripe).ok()?;
        Some(&self.stripes[i].1)
    }

    /// The range deletions that survive in an output with the user keys from `lower` to before
    /// `upper` (`None`: unbounded), in the order of internal keys.
    fn survivors<'r>(
        &'r self,
        lower: Option<&'r [u8]>,
        upper: Option<&'r [u8]>,
    ) -> Vec<RangeTombstone<'r>> {
        let mut survivors: Vec<RangeTombstone<'r>> = Vec::new();
        for (stripe, set) in &self.stripes {
            let first = survivors.len();
            for (start, end, fragment) in set.clipped(lower, upper) {
                let sequence = set.newest(fragment, MAX_SEQUENCE);
                let is_needless = sequence == 0 || (*stripe == 0 && !self.below.meets(start, end));
                match survivors[first..].last_mut() {
                    _ if is_needless => {}
                    Some(last) if last.end == start && last.sequence == sequence => last.end = end,
                    _ => survivors.push(RangeTombstone { start, end, sequence }),
                }
            }
        }
        survivors.sort_unstable_by_key(|range| (range.start, Reverse(range.sequence)));
        survivors
    }

    /// Adds the surviving range deletions from `lower` to before `upper` to an output table, and
    /// finishes the table. If there are such range deletions but no table, `create` makes one for
    /// them. `oldest_deletion` is passed to [`NewTable::describe_deletions`].
    pub fn end_table<'t>(
        &self,
        mut table: Option<NewTable<'t>>,
        (lower, upper): (Option<&[u8]>, Option<&[u8]>),
        oldest_deletion: u64,
        create: impl Fn() -> Result<NewTable<'t>>,
    ) -> Result<Option<Arc<TableFile>>> {
        let survivors = self.survivors(lower, upper);
        for range in &survivors {
            NewTable::in_slot(&mut table, &create)?.add_range(*range)?;
        }
        let Some(mut table) = table else { return Ok(None) };
        // Of the older tables, only those that are partly in a deleted range are counted, because a
        // table that is completely in the range is dropped unread, so it needs no rewrite.
        let deleted = joined(survivors).into_iter();
        let hidden_bytes = deleted.map(|(start, end)| self.below.bytes_cut(start, end));
        table.describe_deletions(oldest_deletion, hidden_bytes.sum());
        table.finish().map(Some)
    }
}

/// The number of snapshots that are older than `sequence`.
#[inline]
fn stripe_of(sequence: SequenceNumber, snapshots: &[SequenceNumber]) -> usize {
    snapshots.partition_point(|&snapshot| snapshot < sequence)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::compaction::tests::{store, table_of, version_of};
    use crate::encoding::key::internal_key;
    use crate::fs::MemFs;

    /// User keys are of one letter.
    const LETTERS: std::ops::RangeInclusive<u8> = b'a'..=b'z';

    fn random_ranges<'k>(rng: &mut StdRng, keys: &'k [[u8; 1]]) -> Vec<RangeTombstone<'k>> {
        let mut ranges = Vec::new();
        for _ in 0..rng.random_range(0..40) {
            let (i, j) = (rng.random_range(0..keys.len()), rng.random_range(0..keys.len()));
            // A few sequence numbers occur twice, as in an ingested table.
            let sequence = rng.random_range(10..80);
            ranges.push(RangeTombstone { start: &keys[i.min(j)], end: &keys[i.max(j)], sequence });
        }
        ranges.retain(|range| range.start < range.end);
        ranges
    }

    fn random_numbers(rng: &mut StdRng, most: usize, numbers: std::ops::Range<u64>) -> Vec<u64> {
        let count = rng.random_range(0..=most);
        let mut random: Vec<u64> = (0..count).map(|_| rng.random_range(numbers.clone())).collect();
        random.sort_unstable();
        random.dedup();
        random
    }

    /// The oracle: the newest range that covers the key and that a reader sees; 0 if there is none.
    fn newest(ranges: &[RangeTombstone<'_>], key: &[u8], reader: u64) -> u64 {
        let covers = |range: &&RangeTombstone<'_>| range.start <= key && key < range.end;
        let seen = ranges.iter().filter(covers).map(|range| range.sequence);
        seen.filter(|&sequence| sequence <= reader).max().unwrap_or(0)
    }

    /// Wherever outputs are cut, every reader has the same newest range deletion at each key as
    /// before the merge. Exempt are range deletions that all readers see, at keys of which no older
    /// table can have entries. The entries that the merge drops are those that every reader of them
    /// finds hidden. And an output gets at most twice as many range deletions as overlap it.
    #[test]
    fn every_reader_finds_the_range_deletion_that_it_found_before_and_there_are_few() {
        let keys: Vec<[u8; 1]> = LETTERS.map(|letter| [letter]).collect();
        let store = store(Arc::new(MemFs::new()));
        let (mut found, mut gone, mut dropped) = (0, 0, 0);
        for seed in 0..600 {
            let mut rng = StdRng::seed_from_u64(seed);
            let ranges = random_ranges(&mut rng, &keys);
            let snapshots = random_numbers(&mut rng, 12, 5..90);
            let ends = random_numbers(&mut rng, 4, 0..keys.len() as u64);
            let older: Vec<(usize, &[u8], &[u8])> = ends
                .chunks_exact(2)
                .map(|pair| (6, &keys[pair[0] as usize][..], &keys[pair[1] as usize][..]))
                .collect();
            let files: Vec<_> = older
                .iter()
                .map(|&(level, first, last)| {
                    let [first, last] = [first, last].map(|key| std::str::from_utf8(key).unwrap());
                    (level, table_of(&store, &[(first, 1, 1), (last, 1, 1)], None))
                })
                .collect();
            let version = version_of(&files);
            let is_unknown = rng.random_bool(0.3);
            let below =
                if is_unknown { Below::unknown(&version) } else { Below::memtable(&version) };
            let merged = Ranges::of(ranges.clone(), &snapshots, &below);

            let cuts = random_numbers(&mut rng, 4, 0..keys.len() as u64);
            let cuts: Vec<&[u8]> = cuts.iter().map(|&cut| &keys[cut as usize][..]).collect();
            let lowers = std::iter::once(None).chain(cuts.iter().copied().map(Some));
            let uppers = cuts.iter().copied().map(Some).chain([None]);
            let mut kept = Vec::new();
            for (lower, upper) in lowers.zip(uppers) {
                let survivors = merged.survivors(lower, upper);
                let in_order = |pair: &[RangeTombstone<'_>]| {
                    (pair[0].start, Reverse(pair[0].sequence))
                        < (pair[1].start, Reverse(pair[1].sequence))
                };
                assert!(survivors.windows(2).all(in_order), "seed {seed}: {survivors:?}");
                let is_inside = |range: &RangeTombstone<'_>| {
                    range.start < range.end
                        && lower.is_none_or(|lower| lower <= range.start)
                        && upper.is_none_or(|upper| range.end <= upper)
                };
                assert!(survivors.iter().all(is_inside), "seed {seed}: {survivors:?}");
                let overlaps = |range: &&RangeTombstone<'_>| {
                    lower.is_none_or(|lower| lower < range.end)
                        && upper.is_none_or(|upper| range.start < upper)
                };
                let most = 2 * ranges.iter().filter(overlaps).count();
                assert!(survivors.len() <= most, "seed {seed}: {survivors:?} of {ranges:?}");
                kept.extend(survivors);
            }

            for key in &keys {
                let may_be_older = is_unknown
                    || older.iter().any(|&(_, first, last)| first <= &key[..] && &key[..] <= last);
                for &reader in snapshots.iter().chain([&MAX_SEQUENCE]) {
                    let (before, after) =
                        (newest(&ranges, key, reader), newest(&kept, key, reader));
                    let is_seen_by_all = stripe_of(before, &snapshots) == 0;
                    let is_free = is_seen_by_all && !may_be_older && after == 0;
                    assert!(before == after || is_free, "seed {seed}, {key:?} at {reader}");
                    found += usize::from(after > 0);
                    gone += usize::from(before != after);
                }
                for sequence in 1..90 {
                    // The first reader that sees the entry. All later readers see what it sees.
                    let first = snapshots.iter().find(|&&snapshot| snapshot >= sequence);
                    let is_hidden =
                        newest(&ranges, key, *first.unwrap_or(&MAX_SEQUENCE)) > sequence;
                    let entry = internal_key(key, sequence, 1);
                    assert_eq!(merged.drops(&entry), is_hidden, "seed {seed}, {key:?} {sequence}");
                    dropped += usize::from(is_hidden);
                }
            }
        }
        assert!(found > 10_000 && gone > 1_000 && dropped > 100_000, "{found} {gone} {dropped}");
    }

    /// Regression: the range deletions of a merge were cut at each other's ends before it was
    /// decided which remain, and each piece kept one range deletion for each snapshot that it was
    /// needed for. So 10,000 nested range deletions under 500 snapshots became a table of 148 MiB.
    /// Now those of one snapshot are cut only where another one of the same snapshot is seen.
    #[test]
    fn nested_range_deletions_with_snapshots_between_them_stay_as_many() {
        let keys: Vec<[u8; 2]> = (0..2_000u16).map(u16::to_be_bytes).collect();
        let nested = |i: usize| RangeTombstone {
            start: &keys[i],
            end: &keys[1_999 - i],
            sequence: 1 + i as u64,
        };
        let version = crate::version::Version::default();
        let below = Below::unknown(&version);
        for (every, most) in [(1, 1_000), (20, 1_950), (1_000, 1_999)] {
            let snapshots: Vec<u64> = (1..1_000 / every).map(|i| every * i).collect();
            // The newest range deletion is the innermost one, so each is seen on both sides of the
            // next one of its stripe.
            let inward = Ranges::of((0..1_000).map(nested).collect(), &snapshots, &below);
            assert_eq!(inward.survivors(None, None).len(), most, "a snapshot every {every}");
            // The newest one is the outermost, so of each stripe only the newest is seen.
            let outward =
                (0..1_000).map(|i| RangeTombstone { sequence: 1_000 - i as u64, ..nested(i) });
            let outward = Ranges::of(outward.collect(), &snapshots, &below);
            assert_eq!(outward.survivors(None, None).len(), snapshots.len() + 1);
        }
    }
}
