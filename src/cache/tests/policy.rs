//! The policy, simulated: lookups in a table whose filter, index and data are all of parts and blocks
//! of 4 KiB, through a cache of a part of the metadata's size.
//!
//! Each lookup reads what a lookup of a table reads, and the reads are counted. They are compared
//! with those of a cache that holds from the start what will save the most reads, and never changes.

use super::*;
use crate::cache::policy::Credit;

/// Keys are numbered. [`PER_BLOCK`] neighbours share a data block, and [`PER_PART`] blocks a part of
/// the index and one of the filter.
const PER_BLOCK: usize = 4;
const PER_PART: usize = 64;
const PARTS: usize = 100;
const KEYS: usize = PARTS * PER_PART * PER_BLOCK;
const BYTES: usize = 4096;

/// The preferred keys, and how many of ten lookups are of present keys.
#[derive(Debug, Clone, Copy)]
enum Preference {
    Uniform,
    Zipf,
    /// Nine of ten lookups are in a tenth of the range of keys.
    Tenth,
}

/// The keys of a load, and whether each is present.
fn lookups(preference: Preference, present: u32, count: usize) -> Vec<(usize, bool)> {
    let mut rng = StdRng::seed_from_u64(7);
    let mut key = || match preference {
        Preference::Uniform => rng.random_range(0..KEYS),
        // The probability of rank r is about 1 / r. A rank says nothing about the key's place.
        Preference::Zipf => {
            let rank = (KEYS as f64).powf(rng.random::<f64>()) as usize;
            rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS
        }
        Preference::Tenth if rng.random_range(0..10) > 0 => rng.random_range(0..KEYS / 10),
        Preference::Tenth => rng.random_range(0..KEYS),
    };
    let mut keys: Vec<_> = (0..count).map(|_| (key(), false)).collect();
    let mut rng = StdRng::seed_from_u64(8);
    keys.iter_mut().for_each(|(_, is_present)| *is_present = rng.random_range(0..10) < present);
    keys
}

/// A table. Its filter has no false positives.
struct Simulated {
    cache: Arc<BlockCache>,
    disk: Disk,
    filter: Slots<Block>,
    index: Slots<Block>,
    data: Slots<Block>,
    credits: Box<[Credit]>,
    reads: usize,
    _open: Reservation,
}

impl Simulated {
    fn new(cache_bytes: usize) -> Simulated {
        let cache = BlockCache::new(cache_bytes);
        Simulated {
            disk: Disk::default(),
            filter: filters(&cache, PARTS),
            index: Slots::new(&cache, PARTS, BlockKind::Index, false),
            data: data(&cache, PARTS * PER_PART),
            credits: Credit::of(PARTS),
            reads: 0,
            _open: open_tables(&cache, 2 * PARTS * BYTES),
            cache,
        }
    }

    /// One lookup, with the stages of `lookup/`.
    fn look_up(&mut self, key: usize, is_present: bool) {
        wait_for_readers(&self.cache);
        let (block, part) = (key / PER_BLOCK, key / PER_BLOCK / PER_PART);
        let (reads_before, mut index_was_read) = (self.reads, false);
        let mut passed_by = false;
        let guard = pin();
        if let Some(filter) = self.filter.peek(part, &guard) {
            if !is_present {
                return filter.mark_used();
            }
        } else {
            let is_joint =
                self.index.peek(part, &guard).is_none() && !self.credits[part].only_rejects();
            if self.credits[part].pays(is_joint) {
                self.reads += 1;
                self.disk.load(&self.filter, part, BYTES);
                self.credits[part].was_read(is_present, is_joint);
                if !is_present {
                    return;
                }
                index_was_read = is_joint;
            } else {
                passed_by = true;
            }
        }
        if self.index.get(part, &guard).is_none() {
            self.reads += usize::from(!index_was_read);
            self.disk.load(&self.index, part, BYTES);
        }
        if self.data.get(block, &guard).is_none() {
            self.reads += 1;
            let number = (block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
            let keeping = self.cache.policy().keeping_of_data(|| number);
            drop(self.data.load(block, keeping, || self.disk.read(block, BYTES)).unwrap());
        }
        if passed_by && !is_present && self.reads > reads_before {
            self.credits[part].was_missed();
        }
    }
}

/// The reads of a cache that holds `values` parts and blocks from the start: those that save the
/// most reads of these lookups.
fn best_reads(lookups: &[(usize, bool)], values: usize) -> usize {
    let mut saved = vec![0; 2 * PARTS + PARTS * PER_PART];
    for &(key, is_present) in lookups {
        let (block, part) = (key / PER_BLOCK, key / PER_BLOCK / PER_PART);
        match is_present {
            false => saved[part] += 1,
            true => {
                saved[PARTS + part] += 1;
                saved[2 * PARTS + block] += 1;
            }
        }
    }
    saved.sort_unstable();
    saved[..saved.len() - values].iter().sum()
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn lookups_read_little_more_than_with_the_best_choice_of_what_stays() {
    for preference in [Preference::Uniform, Preference::Zipf, Preference::Tenth] {
        for present in [0, 5, 10] {
            for sixteenths in [2, 4, 8] {
                let cache_bytes = 2 * PARTS * BYTES / 16 * sixteenths;
                let mut table = Simulated::new(cache_bytes);
                let lookups = lookups(preference, present, 30_000);
                let (warm_up, measured) = lookups.split_at(10_000);
                warm_up.iter().for_each(|&(key, is_present)| table.look_up(key, is_present));
                table.reads = 0;
                measured.iter().for_each(|&(key, is_present)| table.look_up(key, is_present));
                let best = best_reads(measured, cache_bytes / BYTES);
                let (reads, count) = (table.reads, measured.len());
                assert!(
                    reads < best * 3 / 2 + count / 20,
                    "{preference:?}, {present} of 10 present, {sixteenths}/16: {reads} reads by \
                     {count} lookups, {best} at best"
                );
            }
        }
    }
}
