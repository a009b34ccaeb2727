//! Tests of compactions over real tables in memory. They are in one file because they share the
//! functions that build trees.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::run::{Job, Outcome, run};
use super::{Conditions, Plan, Planner, TreeShape, Unavailable};
use crate::cache::{BlockCache, PinMetadata};
use crate::cursor::Cursor;
use crate::encoding::key;
use crate::encoding::key::internal_key;
use crate::error::{Error, Result};
use crate::filter::FilterSpec;
use crate::filter_policy::FilterPolicy;
use crate::fs::{DescriptorPool, Fault, FaultFs, Fs, MemFs, Operation, Target};
use crate::range_tombstones::RangeTombstone;
use crate::stats::Counters;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::table::format::identity::Creator;
use crate::table::{Compression, ScanOptions, TableContext, TableOptions};
use crate::version::{
    FileMeta, LevelCursor, NewKeys, ObsoleteFiles, TableFile, TableStore, Version, VersionEdit,
    names,
};

const DIR: &str = "/db";

/// The filter of tests that need one.
static BLOOM: LazyLock<FilterSpec> = LazyLock::new(|| FilterSpec::bloom(10.0).unwrap());

const SHAPE: TreeShape = TreeShape {
    l0_trigger: 4,
    level_base_bytes: 1 << 20,
    level_multiplier: 10,
    table_bytes: 8 << 10,
    memtable_bytes: 8 << 10,
};

pub(super) fn store(fs: Arc<dyn Fs>) -> TableStore {
    fs.create_dir_all(Path::new(DIR)).unwrap();
    TableStore {
        fs,
        dir: PathBuf::from(DIR),
        descriptors: DescriptorPool::new(1),
        keeps_tables_open: false,
        context: TableContext {
            cache: BlockCache::new(1 << 20),
            counters: Arc::new(Counters::new()),
            pin_metadata: false,
            reads_every_filter: false,
            global_sequence: None,
            sequence_if_ingested: None,
            tail_bytes: 0,
            key_bounds: None,
            takes_leveldbs: false,
        },
        pin_metadata: PinMetadata::None,
        options: TableOptions {
            block_bytes: 256,
            compression: Compression::None,
            ..TableOptions::default()
        },
        creator: Creator::of_lone_table(),
        next_file: Arc::new(AtomicU64::new(1)),
        obsolete: Arc::new(ObsoleteFiles::new(Arc::new(Counters::new()))),
    }
}

type Entries = BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), (u8, Vec<u8>)>;

fn table(store: &TableStore, entries: &Entries) -> Arc<TableFile> {
    let mut table = store.create(&*BLOOM, 0).unwrap();
    for ((user_key, sequence), (kind, value)) in entries {
        table.add(&internal_key(user_key, sequence.0, *kind), value).unwrap();
    }
    table.finish().unwrap()
}

/// Four overlapping files in level 0 and three disjoint ones in level 6. Some keys are in all files
/// of level 0, and some have many versions in one file.
fn version(store: &TableStore) -> Version {
    let mut rng = StdRng::seed_from_u64(7);
    let mut sequence = 0;
    let mut random_entries = |count: usize, keys: std::ops::Range<u32>| {
        let mut entries = Entries::new();
        for _ in 0..count {
            sequence += 1;
            // About every fourth write goes to one of three keys.
            let n = rng.random_range(keys.clone());
            let n = if n % 4 == 0 { keys.start + n % 3 } else { n };
            let kind = u8::from(!n.is_multiple_of(5));
            let value = if kind == 1 { vec![b'v'; 40] } else { Vec::new() };
            let key = format!("key{n:06}").into_bytes();
            entries.insert((key, std::cmp::Reverse(sequence)), (kind, value));
        }
        entries
    };
    let mut edit = VersionEdit::default();
    let mut opened = BTreeMap::new();
    let layout = [(6, 0..500), (6, 500..800), (6, 800..1000)].into_iter();
    for (level, keys) in layout.chain((0..4).map(|_| (0, 0..1000))) {
        let file = table(store, &random_entries(400, keys));
        edit.added.push((level, file.meta.clone()));
        opened.insert(file.meta.number, file);
    }
    Version::default().apply(&edit, &opened)
}

fn whole_plan(version: &Version) -> Plan {
    let metas = version.metas();
    let free = Unavailable::default();
    Planner::new(&metas, &SHAPE, &free).plan_files(&metas[0], 0, 6).unwrap()
}

fn job_without_filter<'a>(
    store: &'a TableStore,
    version: &'a Version,
    cancelled: &'a AtomicBool,
    parts: usize,
) -> Job<'a> {
    let (snapshots, filter) = (Vec::new(), &FilterSpec::NONE);
    Job { store, version, shape: &SHAPE, snapshots, filter, cancelled, parts }
}

fn compact(store: &TableStore, version: &Version, parts: usize) -> Result<Outcome> {
    let cancelled = AtomicBool::new(false);
    let job = Job {
        store,
        version,
        shape: &SHAPE,
        snapshots: vec![700, 1900],
        filter: &*BLOOM,
        cancelled: &cancelled,
        parts,
    };
    run(&job, &whole_plan(version))
}

fn entries(tables: &[Arc<TableFile>]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor =
        LevelCursor::new(tables.to_vec(), ScanOptions::for_runs(1, false, (None, None)));
    cursor.seek_to_first().unwrap();
    let mut entries = Vec::new();
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next().unwrap();
    }
    entries
}

fn tables_on_disk(fs: &dyn Fs) -> usize {
    fs.list(Path::new(DIR)).unwrap().iter().filter(|name| name.ends_with(".sst")).count()
}

#[test]
fn a_compaction_split_in_parts_gives_the_same_entries() {
    let store = store(Arc::new(MemFs::new()));
    let version = version(&store);
    let whole = compact(&store, &version, 1).unwrap();
    let expected = entries(&whole.outputs);
    assert!(expected.len() > 1000 && whole.parts == 1);
    for parts in [2, 3, 8, 100] {
        let split = compact(&store, &version, parts).unwrap();
        assert!(split.parts > parts / 2 && split.parts <= parts, "{} parts", split.parts);
        assert_eq!(entries(&split.outputs), expected, "{parts} parts");
        for pair in split.outputs.windows(2) {
            let (end, start) = (&pair[0].meta.largest, &pair[1].meta.smallest);
            assert!(key::user_key(end) < key::user_key(start), "a user key is in two tables");
        }
    }
}

#[test]
fn the_failure_of_one_part_fails_the_whole_and_leaves_no_table() {
    let mem = MemFs::new();
    let fs = FaultFs::new(Arc::new(mem.clone()));
    let store = store(Arc::new(fs.clone()));
    let version = version(&store);
    let before = tables_on_disk(&mem);
    let mut failed = 0;
    for nth in 0.. {
        let faults = fs.faults();
        fs.fail_once(Target::Only(Operation::Sync), nth, Fault::Io);
        let result = compact(&store, &version, 4);
        if fs.faults() == faults {
            break;
        }
        let error = result.err().expect("a failed sync was passed over");
        assert!(matches!(error, Error::Io { .. }), "the reason was lost: {error}");
        assert_eq!(tables_on_disk(&mem), before, "a table was left behind");
        failed += 1;
        fs.heal();
    }
    assert!(failed >= 4, "only {failed} syncs");
}

#[test]
fn a_damaged_input_is_named_by_the_part_that_reads_it() {
    let mem = MemFs::new();
    let damaged = {
        let store = store(Arc::new(mem.clone()));
        let version = version(&store);
        let path = names::table_path(&store.dir, version.levels[6][1].meta.number);
        let mut bytes = mem.read(&path).unwrap();
        bytes[50] ^= 1;
        let mut file = mem.create(&path).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
        let metas = version.metas().map(|level| level.into_iter().cloned().collect::<Vec<_>>());
        (path, metas)
    };
    let (path, metas) = damaged;
    let store = store(Arc::new(mem.clone()));
    store.next_file.store(100, std::sync::atomic::Ordering::Relaxed);
    let mut edit = VersionEdit::default();
    let mut opened = BTreeMap::new();
    for (level, metas) in metas.iter().enumerate() {
        for meta in metas {
            edit.added.push((level, meta.clone()));
            opened.insert(meta.number, store.open(meta.clone(), level).unwrap());
        }
    }
    let version = Version::default().apply(&edit, &opened);
    let before = tables_on_disk(&mem);
    for parts in [1, 4] {
        let error = compact(&store, &version, parts).err().expect("damage was passed over");
        assert!(matches!(&error, Error::Corruption { file, .. } if *file == path), "{error}");
        assert_eq!(tables_on_disk(&mem), before);
    }
}

#[test]
fn a_cancelled_compaction_leaves_no_table() {
    let mem = MemFs::new();
    let store = store(Arc::new(mem.clone()));
    let version = version(&store);
    let before = tables_on_disk(&mem);
    let cancelled = AtomicBool::new(true);
    let job = job_without_filter(&store, &version, &cancelled, 3);
    assert!(matches!(run(&job, &whole_plan(&version)), Err(Error::Closed)));
    assert_eq!(tables_on_disk(&mem), before);
}

/// If a table ends where a file of the next level ends, it does not overlap the file after that
/// one.
#[test]
fn tables_are_cut_where_a_file_of_the_next_level_ends() {
    let store = store(Arc::new(MemFs::new()));
    let entries_of = |keys: std::ops::Range<u32>, sequence: u64| -> Entries {
        let entry = |n| {
            ((format!("key{n:06}").into_bytes(), std::cmp::Reverse(sequence)), (1, vec![7; 40]))
        };
        keys.map(entry).collect()
    };
    let mut edit = VersionEdit::default();
    let mut opened = BTreeMap::new();
    let ends = [100, 350, 500, 620, 840, 1000];
    let mut start = 0;
    let grandparents = ends.map(|end| (6, entries_of(std::mem::replace(&mut start, end)..end, 1)));
    let inputs = (0..2).map(|i| (0, entries_of(0..1000, 2 + i)));
    for (level, entries) in grandparents.into_iter().chain(inputs) {
        let file = table(&store, &entries);
        edit.added.push((level, file.meta.clone()));
        opened.insert(file.meta.number, file);
    }
    let version = Version::default().apply(&edit, &opened);
    let metas = version.metas();
    let free = Unavailable::default();
    let plan = Planner::new(&metas, &SHAPE, &free).plan_files(&metas[0], 0, 5).unwrap();
    let cancelled = AtomicBool::new(false);
    let job = job_without_filter(&store, &version, &cancelled, 1);
    let outputs = run(&job, &plan).unwrap().outputs;
    let last_keys: Vec<_> = outputs.iter().map(|file| key::user_key(&file.meta.largest)).collect();
    let at_an_end =
        |key: &&&[u8]| ends.iter().any(|end| **key == format!("key{:06}", end - 1).as_bytes());
    assert_eq!(entries(&outputs).len(), 1000);
    assert!(last_keys.iter().filter(at_an_end).count() >= 4, "{last_keys:?}");
    let small = outputs[..outputs.len() - 1]
        .iter()
        .filter(|file| file.meta.file_bytes < SHAPE.table_bytes / 2);
    assert_eq!(small.count(), 0, "a table was cut far too early");
}

/// Outputs above a damaged file are cut at its bounds. Range deletions are cut there too, because
/// otherwise the damaged file would also hold up neighbouring outputs.
#[test]
fn tables_are_cut_where_a_damaged_file_of_a_deeper_level_begins_and_ends() {
    for seed in 0..6 {
        let store = store(Arc::new(MemFs::new()));
        let (version, last) = version_with_ranges(&store, seed);
        let metas = version.metas();
        let damaged = metas[6][1];
        let first = key::user_key(&damaged.smallest);
        let unavailable =
            Unavailable { damaged: [damaged.number].into(), ..Unavailable::default() };
        let shape = TreeShape { table_bytes: 1 << 20, ..SHAPE };
        let planner = Planner::new(&metas, &shape, &unavailable);
        let plan = planner.plan_files(&metas[0], 0, 5).unwrap();
        assert_eq!(plan.fences.len(), 2);
        for parts in [1, 3] {
            let cancelled = AtomicBool::new(false);
            let job =
                Job { shape: &shape, ..job_without_filter(&store, &version, &cancelled, parts) };
            let outputs = run(&job, &plan).unwrap().outputs;
            let metas: Vec<_> = outputs.iter().map(|file| &file.meta).collect();
            let is_before = |meta: &&&FileMeta| meta.ends_before(first);
            let is_behind =
                |meta: &&&FileMeta| key::user_key(&meta.smallest) >= &plan.fences[1][..];
            let is_inside = |meta: &&&FileMeta| {
                !meta.ends_before(first)
                    && !is_behind(meta)
                    && key::user_key(&meta.smallest) >= first
                    && key::user_key(&meta.largest) <= &plan.fences[1][..]
            };
            let count = metas.iter().filter(is_before).count()
                + metas.iter().filter(is_behind).count()
                + metas.iter().filter(is_inside).count();
            assert_eq!(count, outputs.len(), "seed {seed}: a table reaches over a fence");
            assert!(count >= 3, "seed {seed}: {count} tables");
            // The cuts lose no entry.
            let removed = plan.inputs.iter().map(|&number| (0, number));
            let removed = removed.chain(plan.output_inputs.iter().map(|&number| (5, number)));
            let edit = VersionEdit {
                removed: removed.collect(),
                added: outputs.iter().map(|file| (5, file.meta.clone())).collect(),
                ..VersionEdit::default()
            };
            let opened = outputs.into_iter().map(|file| (file.meta.number, file)).collect();
            let after = version.apply(&edit, &opened);
            assert!(visible(&after, last) == visible(&version, last), "seed {seed}");
        }
    }
}

/// What a reader at `snapshot` sees: the newest value of each key, unless a newer deletion or range
/// deletion hides it. Compares the newest entry of each key with every range deletion.
fn visible(version: &Version, snapshot: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut newest: BTreeMap<Vec<u8>, (u64, u8, Vec<u8>)> = BTreeMap::new();
    for (_, file) in version.files() {
        for (internal_key, value) in entries(&[Arc::clone(file)]) {
            let (user_key, sequence) = (key::user_key(&internal_key), key::sequence(&internal_key));
            let known = newest.get(user_key).map_or(0, |known| known.0);
            if sequence <= snapshot && sequence > known {
                let kind = key::kind_byte(&internal_key);
                newest.insert(user_key.to_vec(), (sequence, kind, value));
            }
        }
    }
    for (_, file) in version.files() {
        for range in file.table.ranges().iter().flat_map(|ranges| ranges.iter()) {
            newest.retain(|key, (sequence, _, _)| {
                let holds = range.start <= &key[..] && &key[..] < range.end;
                !(holds && range.sequence <= snapshot && *sequence < range.sequence)
            });
        }
    }
    let values = newest.into_iter().filter(|(_, (_, kind, _))| *kind == 1);
    values.map(|(key, (_, _, value))| (key, value)).collect()
}

/// Three overlapping files in level 0, three disjoint ones in level 5 and three in level 6. All may
/// hold range deletions, and two of them hold nothing else. Also returns the last sequence number.
fn version_with_ranges(store: &TableStore, seed: u64) -> (Version, u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut sequence, mut edit, mut opened) = (0, VersionEdit::default(), BTreeMap::new());
    let user_key = |n: u32| format!("key{n:04}").into_bytes();
    let layout = [
        (6, 0..100, 200),
        (6, 100..180, 200),
        (6, 180..300, 100),
        (5, 0..60, 60),
        (5, 60..150, 0),
        (5, 150..300, 100),
        (0, 0..300, 100),
        (0, 0..300, 0),
        (0, 50..250, 80),
    ];
    for (level, keys, count) in layout {
        let mut points = Entries::new();
        let mut ranges = Vec::new();
        for _ in 0..count {
            sequence += 1;
            let kind = u8::from(rng.random_bool(0.8));
            let value = if kind == 1 { format!("{sequence:030}").into_bytes() } else { vec![] };
            let key = user_key(rng.random_range(keys.clone()));
            points.insert((key, std::cmp::Reverse(sequence)), (kind, value));
            if rng.random_bool(0.1) {
                sequence += 1;
                let start = rng.random_range(keys.clone());
                let end = (start + rng.random_range(1..80)).min(keys.end);
                ranges.push((user_key(start), sequence, user_key(end)));
            }
        }
        if count == 0 {
            sequence += 1;
            ranges.push((user_key(keys.start), sequence, user_key(keys.end)));
        }
        ranges.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut table = store.create(&*BLOOM, 0).unwrap();
        for ((user_key, sequence), (kind, value)) in &points {
            table.add(&internal_key(user_key, sequence.0, *kind), value).unwrap();
        }
        for (start, sequence, end) in &ranges {
            table.add_range(RangeTombstone { start, end, sequence: *sequence }).unwrap();
        }
        let file = table.finish().unwrap();
        edit.added.push((level, file.meta.clone()));
        opened.insert(file.meta.number, file);
    }
    (Version::default().apply(&edit, &opened), sequence)
}

fn assert_files_hold_their_ranges(version: &Version) {
    for (level, file) in version.files() {
        let meta = &file.meta;
        if let Some((start, end)) = file.table.ranges().and_then(|ranges| ranges.span()) {
            assert!(key::user_key(&meta.smallest) <= start, "level {level}");
            assert!(key::compare(&key::range_end(end), &meta.largest).is_le(), "level {level}");
        }
    }
    for files in &version.levels[1..] {
        let mut pairs = files.windows(2);
        assert!(pairs.all(|pair| pair[1].meta.starts_after(&pair[0].meta.largest)));
    }
}

/// Compacts level 0 into 5, then each file of 5 into 6, with snapshots and without. Whatever range
/// deletions drop, and wherever they are cut, every reader sees what it saw before.
#[test]
fn a_compaction_of_range_deletions_changes_nothing_for_any_reader() {
    let (mut dropped, mut kept) = (0, 0);
    for seed in 0..30 {
        let store = store(Arc::new(MemFs::new()));
        let (mut version, last) = version_with_ranges(&store, seed);
        assert_files_hold_their_ranges(&version);
        let mut rng = StdRng::seed_from_u64(seed);
        let mut snapshots: Vec<u64> = (0..seed % 4).map(|_| rng.random_range(1..last)).collect();
        snapshots.sort();
        snapshots.dedup();
        let readers: Vec<u64> = snapshots.iter().copied().chain([last]).collect();
        let seen = |version: &Version| -> Vec<_> {
            readers.iter().map(|&reader| visible(version, reader)).collect()
        };
        let before = seen(&version);
        for step in 0.. {
            let metas = version.metas();
            let (level, inputs) = match step {
                0 => (0, &metas[0][..]),
                _ if metas[5].is_empty() => break,
                _ => (5, &metas[5][..1]),
            };
            let target = if level == 0 { 5 } else { 6 };
            let shape = TreeShape { table_bytes: 1 << 10, ..SHAPE };
            let free = Unavailable::default();
            let planner = Planner::new(&metas, &shape, &free);
            let plan = planner.plan_files(inputs, level, target).unwrap();
            let cancelled = AtomicBool::new(false);
            let job = Job {
                store: &store,
                version: &version,
                shape: &shape,
                snapshots: snapshots.clone(),
                filter: &*BLOOM,
                cancelled: &cancelled,
                parts: 1 + step % 3,
            };
            let outcome = run(&job, &plan).unwrap();
            let removed = plan.inputs.iter().map(|&number| (level, number));
            let edit = VersionEdit {
                removed: removed
                    .chain(plan.output_inputs.iter().map(|&number| (target, number)))
                    .collect(),
                added: outcome.outputs.iter().map(|file| (target, file.meta.clone())).collect(),
                ..VersionEdit::default()
            };
            let opened = outcome.outputs.into_iter().map(|file| (file.meta.number, file));
            version = version.apply(&edit, &opened.collect());
            assert_files_hold_their_ranges(&version);
            assert!(seen(&version) == before, "seed {seed}, step {step}");
            kept += usize::from(version.has_range_deletions);
        }
        if snapshots.is_empty() {
            assert!(!version.has_range_deletions, "nothing was left to hide");
            let entries: u64 = version.files().map(|(_, file)| file.meta.entries).sum();
            assert_eq!(entries, before[0].len() as u64, "what is hidden from everybody is gone");
            dropped += 1;
        }
    }
    assert!(dropped > 5 && kept > 30, "{dropped} {kept}");
}

pub(super) fn table_of(
    store: &TableStore,
    entries: &[(&str, u64, u8)],
    range: Option<(&str, &str, u64)>,
) -> Arc<TableFile> {
    let mut table = store.create(&*BLOOM, 0).unwrap();
    for (key, sequence, kind) in entries {
        table.add(&internal_key(key.as_bytes(), *sequence, *kind), b"").unwrap();
    }
    if let Some((start, end, sequence)) = range {
        let (start, end) = (start.as_bytes(), end.as_bytes());
        table.add_range(RangeTombstone { start, end, sequence }).unwrap();
    }
    table.finish().unwrap()
}

pub(super) fn version_of(files: &[(usize, Arc<TableFile>)]) -> Version {
    let added = files.iter().map(|(level, file)| (*level, file.meta.clone())).collect();
    let opened = files.iter().map(|(_, file)| (file.meta.number, Arc::clone(file))).collect();
    Version::default().apply(&VersionEdit { added, ..VersionEdit::default() }, &opened)
}

/// A merge of two files of level 0 drops a tombstone only if no older file of level 0 has the key.
#[test]
fn a_merge_within_level_0_counts_older_files_of_it_as_older() {
    let store = store(Arc::new(MemFs::new()));
    let value = table_of(&store, &[("ant", 1, 1), ("bee", 2, 1)], None);
    let tombstones = table_of(&store, &[("ant", 3, 0), ("cow", 4, 0)], None);
    let newest = table_of(&store, &[("bat", 5, 1)], None);
    let numbers = [newest.meta.number, tombstones.meta.number];
    let version = version_of(&[(0, value), (0, tombstones), (0, newest)]);
    let metas = version.metas();
    let free = Unavailable::default();
    let plan = Planner::new(&metas, &SHAPE, &free).plan_small(&Conditions::default());
    let plan = Plan { inputs: numbers.to_vec(), ..plan.unwrap() };
    let cancelled = AtomicBool::new(false);
    let outcome = run(&job_without_filter(&store, &version, &cancelled, 1), &plan).unwrap();
    let keys: Vec<Vec<u8>> = entries(&outcome.outputs).into_iter().map(|(key, _)| key).collect();
    let left = [internal_key(b"ant", 3, 0), internal_key(b"bat", 5, 1)];
    assert_eq!(keys, left, "ant is in the oldest file, cow is in none");
    assert_eq!(outcome.outputs.len(), 1);
}

/// A file once ended with a range deletion, whose end was the first key of the next file. A flush
/// that had a tombstone of this key queried only the filter of the first file. The result was
/// negative, so the flush dropped the tombstone, and the key was visible again. Now the flush
/// searches the next file.
#[test]
fn the_end_of_a_range_deletion_may_be_the_first_key_of_the_next_file() {
    let store = store(Arc::new(MemFs::new()));
    let first = table_of(&store, &[("ant", 1, 1)], Some(("bat", "cow", 2)));
    let second = table_of(&store, &[("cow", 1, 1), ("dog", 1, 1)], None);
    let version = version_of(&[(6, Arc::clone(&first)), (6, Arc::clone(&second))]);
    // Loads the filters into memory, because a flush queries no other filters.
    for file in [&first, &second] {
        file.table.filter.part(file.table.block_file(), 0).unwrap();
    }
    let mut below = super::below::Below::memtable(&version);
    let held = ["ant", "bee", "cow", "cub", "dog"].map(|key| below.may_hold(key.as_bytes()));
    assert_eq!(held, [true, false, true, false, true]);
    let unknown = &mut super::below::Below::unknown(&version);
    assert!(unknown.may_hold(b"zebra") && unknown.meets(b"x", b"y"));
}

#[test]
fn what_other_tables_hold_counts_against_a_learned_budget() {
    let policy: FilterPolicy = "learned(7/key, bloom)".parse().unwrap();
    let bits_beside = |other: f64| {
        let store = store(Arc::new(MemFs::new()));
        let write = |filter: &FilterSpec, keys: std::ops::Range<u32>| {
            let mut table = store.create(filter, 6).unwrap();
            keys.for_each(|n| table.add(&internal_key(&n.to_be_bytes(), 1, 1), b"").unwrap());
            table.finish().unwrap()
        };
        let stays = write(&FilterSpec::bloom(other).unwrap(), 0..20_000);
        let replaced = write(&BLOOM, 20_000..40_000);
        let inputs = BTreeSet::from([replaced.meta.number]);
        let version = Version::of([(6, stays), (6, replaced)]);
        let (smallest, largest) = (20_000u32.to_be_bytes(), 39_999u32.to_be_bytes());
        let keys = NewKeys { smallest: &smallest, largest: &largest, entries: 20_000 };
        policy.filters(&version, 6, &inputs, 0).choose(&keys).spec.bloom_bits_per_key()
    };
    // A budget of 7 bits a key leaves some for the levels to come.
    let [fair, less, least] = [6.0, 9.0, 30.0].map(bits_beside);
    assert!((6.0..7.0).contains(&fair), "{fair} bits beside 6");
    assert!((3.3..4.5).contains(&less), "{less} bits beside 9");
    assert!((fair / 2.0 - least).abs() < 0.5, "{least} bits beside 30, and {fair} beside 6");
}
