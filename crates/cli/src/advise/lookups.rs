//! Lookups on the tree with its stored filters: which tables they search, and how many data blocks
//! they read.

use std::collections::{BTreeMap, HashMap};

use maypole::Db;
use maypole::explain::LookupTrace;
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::queries::{Anchors, Shape, of_shape};
use super::searches::Searches;
use super::tables::Table;
use crate::compare::file::Recorded;
use crate::progress;

/// The number of lookups of each kind: of present and of absent keys.
const LOOKUPS: usize = 5_000;
/// The number of lookups of each kind if only a sample is read.
const LOOKUPS_OF_SAMPLE: usize = 2_000;

/// The most recorded lookups that count, and the most keys of these that are looked up.
const MAX_SORTED: usize = 1_000_000;
const MAX_RECORDED: usize = 100_000;

/// The number of lookups of absent keys, or of present keys, and means over these lookups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lookups {
    pub count: u64,
    /// Data blocks that a lookup reads.
    pub blocks: f64,
    pub blocks_without_filters: f64,
    /// For each level, the number of tables that a lookup would search in vain without filters: it
    /// comes to them before it finds the key, the key is in their range, but they do not hold it.
    pub tables_in_vain: Vec<f64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    pub absent: Lookups,
    pub present: Lookups,
    /// Of the present lookups, those of recorded keys that a memtable answered.
    pub in_memtable: u64,
    /// Lookups that failed, usually at an entry that only RocksDB reads, such as a merge operand.
    pub not_read: u64,
}

/// Draws keys at random from the [`Anchors`] (keys of some data blocks of the tables) and looks
/// them up: these are the lookups of present keys. The number of keys drawn from a level is
/// proportional to the level's entries. From each drawn key, also makes up a key that is probably
/// absent, and looks it up.
pub fn run(
    db: &Db,
    tables: &[Table],
    anchors: &Anchors,
    is_sample: bool,
    random: &mut SmallRng,
) -> Measured {
    let mut measured = Measured::default();
    let count = if is_sample { LOOKUPS_OF_SAMPLE } else { LOOKUPS };
    let bar = progress::bar(count as u64, "looking keys up");
    let by_level = by_level(tables, anchors);
    let total: f64 = by_level.iter().map(|(weight, _)| weight).sum();
    let smallest = tables.iter().map(|table| &table.smallest).min();
    let largest = tables.iter().map(|table| &table.largest).max();
    let (Some(smallest), Some(largest), true) = (smallest, largest, total > 0.0) else {
        return measured;
    };
    let levels = tables.iter().map(|table| table.level + 1).max().unwrap_or(0);
    for _ in 0..count {
        bar.inc(1);
        let mut left = random.random_range(0.0..total);
        let chosen = by_level.iter().find(|(weight, _)| {
            left -= weight;
            left < 0.0
        });
        let Some(key) = chosen.and_then(|(_, keys)| keys.choose(random)) else { continue };
        measured.look_up(db, key, true, levels);
        // Where nearly all keys of the keys' own shape exist, any other absent key is looked up.
        for shape in [Shape::Own, Shape::Any] {
            let absent = of_shape(shape, key, (smallest, largest), random);
            if absent.is_some_and(|key| measured.look_up(db, &key, false, levels)) {
                break;
            }
        }
    }
    measured.means()
}

/// For each level with anchors, its number of entries and its anchors.
fn by_level<'a>(tables: &[Table], anchors: &'a Anchors) -> Vec<(f64, Vec<&'a [u8]>)> {
    let mut levels: BTreeMap<usize, (f64, Vec<&[u8]>)> = BTreeMap::new();
    for (key, table) in anchors.iter() {
        levels.entry(tables[table].level).or_default().1.push(key);
    }
    for table in tables {
        if let Some((entries, _)) = levels.get_mut(&table.level) {
            *entries += table.entries as f64;
        }
    }
    levels.into_values().collect()
}

/// Repeats recorded lookups, of present keys or not: all of them, or every n-th in the order of the
/// keys, which has the share of each key and of each key range to within one lookup. A key is looked
/// up once, and counts as often as it was recorded.
///
/// A lookup that a memtable answered searched no table, and later lookups like it will search none
/// either: by then a memtable has the keys that are written by then. So it counts as a present
/// lookup without blocks, although today a table has its key. What came of the other lookups may
/// have changed since too, but for them the tree of today is the one to be advised on.
pub fn replay(db: &Db, tables: &[Table], recorded: &Recorded) -> (Measured, Searches) {
    let (mut measured, mut searches) = (Measured::default(), Searches::default());
    let levels = tables.iter().map(|table| table.level + 1).max().unwrap_or(0);
    let positions: HashMap<u64, usize> =
        tables.iter().enumerate().map(|(i, table)| (table.number, i)).collect();
    let step = recorded.keys.len().div_ceil(MAX_SORTED).max(1);
    let all = (0..recorded.keys.len()).step_by(step);
    let (in_memtable, in_tables): (Vec<usize>, _) = all.partition(|&i| recorded.in_memtable[i]);
    let mut keys: Vec<&[u8]> = in_tables.into_iter().map(|i| recorded.keys.get(i)).collect();
    keys.sort_unstable();
    let every = |step: usize| keys.iter().step_by(step).copied().collect::<Vec<&[u8]>>();
    let distinct = |step: usize| every(step).chunk_by(|a, b| a == b).count();
    let step = (1..=MAX_SORTED).find(|&step| distinct(step) <= MAX_RECORDED).unwrap_or(MAX_SORTED);
    let keys = every(step);
    measured.in_memtable = (in_memtable.len() / step) as u64;
    measured.present.count = measured.in_memtable;
    searches.lookups = measured.in_memtable;
    let bar = progress::bar(keys.len() as u64, "looking keys up");
    for equal in keys.chunk_by(|a, b| a == b) {
        bar.inc(equal.len() as u64);
        let times = equal.len() as u64;
        let Ok(trace) = db.explain(equal[0]) else {
            measured.not_read += times;
            continue;
        };
        searches.add(&trace, times as u32, &positions);
        match is_met(&trace) {
            true => measured.present.add(&trace, levels, times),
            false => measured.absent.add(&trace, levels, times),
        }
    }
    (measured.means(), searches)
}

impl Measured {
    /// Turns the sums into means.
    fn means(mut self) -> Measured {
        for lookups in [&mut self.absent, &mut self.present] {
            let count = lookups.count.max(1) as f64;
            lookups.blocks /= count;
            lookups.blocks_without_filters /= count;
            lookups.tables_in_vain.iter_mut().for_each(|tables| *tables /= count);
        }
        self
    }

    /// Looks a key up. Returns whether the lookup counts.
    fn look_up(&mut self, db: &Db, key: &[u8], present: bool, levels: usize) -> bool {
        let Ok(trace) = db.explain(key) else {
            self.not_read += 1;
            return false;
        };
        // A made-up key may exist after all, and a range deletion may hide a drawn key. Such
        // lookups do not count.
        match (present, is_met(&trace)) {
            (true, true) => self.present.add(&trace, levels, 1),
            (false, false) => self.absent.add(&trace, levels, 1),
            _ => return false,
        }
        true
    }
}

/// Whether any table or memtable has an entry of the key.
fn is_met(trace: &LookupTrace) -> bool {
    trace.tables().any(|table| table.found.is_some())
        || trace.memtables.iter().any(|memtable| memtable.found.is_some())
}

impl Lookups {
    fn add(&mut self, trace: &LookupTrace, levels: usize, times: u64) {
        self.count += times;
        let times = times as f64;
        self.blocks += times * trace.cost().blocks as f64;
        self.blocks_without_filters += times * trace.cost_without_filters().blocks as f64;
        self.tables_in_vain.resize(levels, 0.0);
        for level in &trace.levels {
            if level.file.as_ref().is_some_and(|file| file.table.found.is_none())
                && let Some(tables) = self.tables_in_vain.get_mut(level.level)
            {
                *tables += times;
            }
        }
    }
}
