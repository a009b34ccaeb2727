//! Simulates a tree without files, to measure what `max_deletion_age` costs. A table with a
//! deletion that is older than this bound is compacted, however little that frees.
//!
//! Random overwrites, insertions and deletions change a tree. A clock advances with the writes, and
//! [`Planner::pick`] chooses each compaction. The bytes of all flushes and compactions are counted,
//! with and without the bound. Tables are real lists of keys, so that merges drop what real merges
//! would drop.
//!
//! ```sh
//! cargo test --lib the_default_age_of_deletions -- --nocapture
//! ```

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::conditions::Conditions;
use super::plan::{Plan, PlanKind, Planner, Unavailable};
use super::targets::TreeShape;
use crate::encoding::key::{internal_key, user_key};
use crate::version::{FileMeta, LEVELS};

const ENTRY_BYTES: u64 = 100;
const DELETION_BYTES: u64 = 20;
/// The approximate number of live keys.
const ALIVE: u64 = 30_000;
const MEMTABLE_ENTRIES: u64 = 200;
const DAY: u64 = 24 * 60 * 60;
/// The default of `Builder::max_deletion_age`.
const DEFAULT_AGE: u64 = 30 * DAY;

const SHAPE: TreeShape = TreeShape {
    l0_trigger: 4,
    level_base_bytes: 4 * MEMTABLE_ENTRIES * ENTRY_BYTES,
    level_multiplier: 10,
    table_bytes: MEMTABLE_ENTRIES * ENTRY_BYTES,
    memtable_bytes: MEMTABLE_ENTRIES * ENTRY_BYTES,
};

/// Keys, each with its sequence number and whether it is deleted.
type Entries = BTreeMap<u32, (u64, bool)>;

struct ModelTree {
    /// The tables of each level: newest first in level 0, in key order in the others.
    levels: [Vec<(FileMeta, Entries)>; LEVELS],
    next_number: u64,
    now: u64,
    written_bytes: u64,
}

impl ModelTree {
    fn table(&mut self, entries: Entries, oldest_deletion: u64) -> (FileMeta, Entries) {
        let deletions = entries.values().filter(|(_, deleted)| *deleted).count() as u64;
        let values = entries.len() as u64 - deletions;
        let sequences = || entries.values().map(|&(sequence, _)| sequence);
        let bound = |key: Option<(&u32, _)>| internal_key(&key.unwrap().0.to_be_bytes(), 1, 1);
        let mut meta = FileMeta {
            number: self.next_number,
            file_bytes: values * ENTRY_BYTES + deletions * DELETION_BYTES,
            entries: entries.len() as u64,
            deletions,
            smallest_sequence: sequences().min().unwrap(),
            largest_sequence: sequences().max().unwrap(),
            smallest: bound(entries.first_key_value()),
            largest: bound(entries.last_key_value()),
            ..FileMeta::default()
        };
        meta.contents.raw_key_bytes = meta.entries * DELETION_BYTES;
        meta.contents.raw_value_bytes = values * (ENTRY_BYTES - DELETION_BYTES);
        meta.contents.garbage.oldest_deletion = if deletions > 0 { oldest_deletion } else { 0 };
        self.next_number += 1;
        self.written_bytes += meta.file_bytes;
        (meta, entries)
    }

    fn sort(&mut self) {
        self.levels[0].sort_by_key(|(meta, _)| std::cmp::Reverse(meta.largest_sequence));
        self.levels[1..].iter_mut().for_each(|level| {
            level.sort_by(|a, b| a.0.smallest.cmp(&b.0.smallest));
        });
    }

    fn flush(&mut self, memtable: Entries, max_deletion_age: u64) {
        let table = self.table(memtable, self.now);
        self.levels[0].push(table);
        self.sort();
        while let Some(plan) = {
            let levels = self.levels.each_ref();
            let levels = levels.map(|level| level.iter().map(|(meta, _)| meta).collect());
            let conditions =
                Conditions { now: self.now, max_deletion_age, ..Conditions::default() };
            Planner::new(&levels, &SHAPE, &Unavailable::default()).pick(&conditions)
        } {
            self.apply(&plan);
        }
    }

    fn apply(&mut self, plan: &Plan) {
        let mut take = |level: usize, numbers: &[u64]| -> Vec<(FileMeta, Entries)> {
            let is_input = |table: &mut (FileMeta, Entries)| numbers.contains(&table.0.number);
            self.levels[level].extract_if(.., is_input).collect()
        };
        let inputs = take(plan.level, &plan.inputs);
        let output_inputs = take(plan.output_level, &plan.output_inputs);
        if plan.kind == PlanKind::Move {
            self.levels[plan.output_level].extend(inputs);
            return self.sort();
        }
        let tables = || inputs.iter().chain(&output_inputs);
        let ages = tables().map(|(meta, _)| meta.contents.garbage.oldest_deletion);
        let oldest_deletion = ages.filter(|&age| age > 0).min().unwrap_or(0);
        let mut merged = Entries::new();
        for (&key, &entry) in tables().flat_map(|(_, entries)| entries) {
            let newest = merged.entry(key).or_insert(entry);
            *newest = entry.max(*newest);
        }
        let behind = match plan.output_level {
            0 => inputs.iter().map(|(meta, _)| meta.smallest_sequence).min().unwrap(),
            _ => 0,
        };
        let older = |key: u32| {
            let covers = |(meta, _): &(FileMeta, Entries)| {
                let key = key.to_be_bytes();
                user_key(&meta.smallest) <= &key[..] && &key[..] <= user_key(&meta.largest)
            };
            let level_0 = self.levels[0].iter().filter(|table| table.0.largest_sequence < behind);
            level_0.chain(self.levels[plan.output_level + 1..].iter().flatten()).any(covers)
        };
        merged.retain(|&key, &mut (_, deleted)| !deleted || older(key));
        let mut output = Entries::new();
        let mut bytes = 0;
        for (key, entry) in merged {
            bytes += if entry.1 { DELETION_BYTES } else { ENTRY_BYTES };
            output.insert(key, entry);
            if bytes >= SHAPE.table_bytes && plan.output_level > 0 {
                let table = self.table(std::mem::take(&mut output), oldest_deletion);
                self.levels[plan.output_level].push(table);
                bytes = 0;
            }
        }
        if !output.is_empty() {
            let mut table = self.table(output, oldest_deletion);
            if plan.output_level == 0 {
                let newest = inputs.iter().map(|(meta, _)| meta.largest_sequence).max();
                table.0.largest_sequence = newest.unwrap();
            }
            self.levels[plan.output_level].push(table);
        }
        self.sort();
    }
}

/// Fills a tree with `ALIVE` keys, and then writes twice as many entries, `ALIVE / days` of them
/// each day: half are overwrites, a quarter deletions, a quarter new keys. The second half of these
/// entries is measured. Returns the bytes that flushes and compactions write meanwhile, and the
/// greatest age of a deletion in seconds.
fn run(days: u64, max_deletion_age: u64) -> (u64, u64) {
    let mut rng = StdRng::seed_from_u64(9);
    let mut tree =
        ModelTree { levels: Default::default(), next_number: 1, now: DAY, written_bytes: 0 };
    let mut alive: Vec<u32> = Vec::new();
    let (mut sequence, mut memtable) = (0, Entries::new());
    let mut oldest = 0;
    for step in 0..3 * ALIVE {
        if step == 2 * ALIVE {
            // The writes so far only shape the tree.
            tree.written_bytes = 0;
        }
        sequence += 1;
        let kind = if step < ALIVE { 3 } else { rng.random_range(0..4) };
        let at = rng.random_range(0..alive.len().max(1));
        let key = match kind {
            2 => alive.swap_remove(at),
            3 => {
                alive.push(rng.random());
                alive[alive.len() - 1]
            }
            _ => alive[at],
        };
        memtable.insert(key, (sequence, kind == 2));
        if memtable.len() as u64 == MEMTABLE_ENTRIES {
            tree.now += MEMTABLE_ENTRIES * days * DAY / ALIVE;
            tree.flush(std::mem::take(&mut memtable), max_deletion_age);
            let tables = tree.levels.iter().flatten().filter(|(meta, _)| meta.deletions > 0);
            let since = tables.map(|(meta, _)| meta.contents.garbage.oldest_deletion).min();
            if step >= 2 * ALIVE {
                oldest = oldest.max(tree.now - since.unwrap_or(tree.now));
            }
        }
    }
    (tree.written_bytes, oldest)
}

/// With the default bound, a tree that takes as many entries in 30 days as it has keys writes at
/// most 5 % more bytes, because the compactions that its writes cause move most deletions down
/// anyway. In a tree with fewer writes the bound costs more, because tables are rewritten only for
/// their deletions.
#[test]
fn the_default_age_of_deletions_costs_a_busy_tree_few_bytes() {
    let mut costs = Vec::new();
    for days in [30, 100, 300] {
        let (without, unbounded) = run(days, u64::MAX);
        let (with, oldest) = run(days, DEFAULT_AGE);
        let cost = with as f64 / without as f64 - 1.0;
        println!(
            "1/{days} of the data written a day: {:+.1} % of the bytes, oldest deletion {} days, without \
             the bound {}",
            cost * 100.0,
            oldest / DAY,
            unbounded / DAY
        );
        assert!(oldest <= DEFAULT_AGE + days * DAY / 30 && unbounded > DEFAULT_AGE);
        costs.push(cost);
    }
    assert!(costs[0] <= 0.05, "{costs:?}");
}
