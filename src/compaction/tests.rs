//! Compactions over real tables in memory.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::pick::{Plan, Shape, plan};
use super::run::{Job, Outcome, run};
use crate::cache::{BlockCache, PinMetadata};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::filter::FilterSpec;
use crate::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use crate::key::{self, internal_key};
use crate::stats::Counters;
use crate::table::{Compression, TableContext, TableOptions};
use crate::version::{
    COMPACTION_SCAN, LevelCursor, TableFile, TableStore, Version, VersionEdit, names,
};

const DIR: &str = "/db";

const SHAPE: Shape =
    Shape { l0_trigger: 4, level_base_bytes: 1 << 20, level_multiplier: 10, table_bytes: 8 << 10 };

fn store(fs: Arc<dyn Fs>) -> TableStore {
    fs.create_dir_all(Path::new(DIR)).unwrap();
    TableStore {
        fs,
        dir: PathBuf::from(DIR),
        context: TableContext {
            cache: BlockCache::new(1 << 20),
            counters: Arc::new(Counters::new()),
            pin_metadata: false,
            assigned_sequence: None,
        },
        pin_metadata: PinMetadata::None,
        options: TableOptions {
            block_bytes: 256,
            compression: Compression::None,
            ..TableOptions::default()
        },
        next_file: AtomicU64::new(1),
        departed: Arc::default(),
    }
}

type Entries = BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), (u8, Vec<u8>)>;

fn table(store: &TableStore, entries: &Entries) -> Arc<TableFile> {
    let mut table = store.create(FilterSpec::bloom(10.0).unwrap(), 0).unwrap();
    for ((user_key, sequence), (kind, value)) in entries {
        table.add(&internal_key(user_key, sequence.0, *kind), value).unwrap();
    }
    table.finish().unwrap()
}

/// Four overlapping files in level 0 and disjoint ones in level 6, some keys in all of them and
/// some with many versions in one file.
fn version(store: &TableStore) -> Version {
    let mut rng = StdRng::seed_from_u64(7);
    let mut sequence = 0;
    let mut random_entries = |count: usize, keys: std::ops::Range<u32>| {
        let mut entries = Entries::new();
        for _ in 0..count {
            sequence += 1;
            // Every fourth write goes to one of a few keys.
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
    let mut opened = HashMap::new();
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
    let inputs = metas[0].iter().map(|file| file.number).collect();
    plan(&metas, 0, 6, inputs, &SHAPE, &Default::default()).unwrap()
}

fn compact(store: &TableStore, version: &Version, parts: usize) -> Result<Outcome> {
    let cancelled = AtomicBool::new(false);
    let job = Job {
        store,
        version,
        shape: &SHAPE,
        snapshots: vec![700, 1900],
        filter: FilterSpec::bloom(10.0).unwrap(),
        cancelled: &cancelled,
        parts,
    };
    run(&job, &whole_plan(version))
}

fn entries(tables: &[Arc<TableFile>]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = LevelCursor::new(tables.to_vec(), COMPACTION_SCAN);
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
    let mut opened = HashMap::new();
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
    let job = Job {
        store: &store,
        version: &version,
        shape: &SHAPE,
        snapshots: Vec::new(),
        filter: FilterSpec::NONE,
        cancelled: &cancelled,
        parts: 3,
    };
    assert!(matches!(run(&job, &whole_plan(&version)), Err(Error::Closed)));
    assert_eq!(tables_on_disk(&mem), before);
}
