//! Random operations against a `BTreeMap`: whatever flush, compaction, snapshots and reopening do,
//! the database returns the same as the map.
//!
//! ```sh
//! MAYPOLE_MODEL_OPERATIONS=100_000_000 cargo test --release --test db model:: -- --include-ignored --nocapture
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::thread;

use maypole::fs::{Fs, MemFs};
use maypole::table::{MetadataForm, SstWriter, TableOptions};
use maypole::{
    Builder, Compression, Db, Durability, FilterKeys, FilterPolicy, Snapshot, WriteBatch,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::env;
use super::parts::{parts, tables_in_parts};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// One set of options. The sizes are tiny, so that a few thousand writes fill several levels.
#[derive(Debug, Clone, Copy)]
struct Options {
    filter: &'static str,
    compression: Compression,
    memtable_bytes: usize,
    table_bytes: u64,
    level_base_bytes: u64,
    block_bytes: usize,
    cache_bytes: usize,
    keys: u32,
    value_bytes: usize,
    /// The name of a prefix extractor, if the filters hold prefixes as well as whole keys.
    prefixes: Option<&'static str>,
    metadata: MetadataForm,
    /// How many random entries the database gets before the first operation, and again after
    /// [`Run::delete_many`]. If this is not 0, [`Run::fill`] asserts that lookups read parts
    /// of filters and indexes, or that these are whole.
    fill: u32,
}

const BASE: Options = Options {
    filter: "bloom(10)",
    compression: Compression::None,
    memtable_bytes: 16 << 10,
    table_bytes: 16 << 10,
    level_base_bytes: 32 << 10,
    block_bytes: 512,
    cache_bytes: 1 << 20,
    keys: 2_000,
    value_bytes: 40,
    prefixes: None,
    metadata: MetadataForm::Auto,
    fill: 0,
};

/// Most entries are in one table, whose filter and index are in parts. The cache is too small for
/// them.
const PARTS: Options = Options {
    memtable_bytes: 64 << 10,
    table_bytes: 1 << 20,
    level_base_bytes: 1 << 20,
    block_bytes: 64,
    cache_bytes: 32 << 10,
    keys: 12_000,
    value_bytes: 8,
    metadata: MetadataForm::Parts,
    fill: 12_000,
    ..BASE
};

/// The same with whole filters and indexes, which stay in memory.
const WHOLE: Options = Options { metadata: MetadataForm::Whole, ..PARTS };

/// Trees of different forms. Each is tested with every filter.
const FORMS: [Options; 5] = [
    BASE,
    DEEP,
    // No cache, and blocks of one or two entries.
    Options { block_bytes: 64, cache_bytes: 0, keys: 700, ..BASE },
    // Few keys with many versions, most of them in memory.
    Options { memtable_bytes: 64 << 10, keys: 100, value_bytes: 300, ..BASE },
    // Many keys in small files, and a cache of a few blocks.
    Options { memtable_bytes: 4096, cache_bytes: 10_000, keys: 50_000, ..BASE },
];

const FILTERS: [&str; 6] =
    ["none", "bloom(10)", "ribbon(7)", "burr(7)", "fpr(0.3, ribbon)", "budget(6/key, burr)"];

fn option_sets() -> Vec<Options> {
    let mut sets = vec![
        Options {
            filter: "bloom(3.3)",
            compression: Compression::Lz4,
            cache_bytes: 10_000,
            ..BASE
        },
        Options { compression: Compression::Zstd, keys: 60, value_bytes: 300, ..BASE },
        Options { compression: Compression::Snappy, keys: 50_000, memtable_bytes: 4096, ..BASE },
        Options { prefixes: Some("fixed(7)"), memtable_bytes: 4096, ..BASE },
        Options { prefixes: Some("capped(5)"), filter: "ribbon(8)", ..DEEP },
        Options { prefixes: Some("delimiter(0x30,2)"), filter: "burr(8)", cache_bytes: 0, ..BASE },
    ];
    sets.extend(FORMS.iter().flat_map(|&form| FILTERS.map(|filter| Options { filter, ..form })));
    sets.extend([PARTS, WHOLE]);
    sets
}

/// Three levels and more below level 0.
const DEEP: Options = Options {
    memtable_bytes: 4096,
    table_bytes: 4096,
    level_base_bytes: 4096,
    keys: 12_000,
    value_bytes: 150,
    ..BASE
};

impl Options {
    fn open(&self, fs: &Arc<dyn Fs>) -> Db {
        let builder: Builder = Db::builder("/db")
            .fs(Arc::clone(fs))
            .filter(self.filter.parse::<FilterPolicy>().unwrap())
            .compression(self.compression)
            .memtable_bytes(self.memtable_bytes)
            .block_bytes(self.block_bytes)
            .table_bytes(self.table_bytes)
            .level_base_bytes(self.level_base_bytes)
            .block_cache_bytes(self.cache_bytes)
            .metadata(self.metadata);
        let filter_keys = self.prefixes.map(|name| FilterKeys::Both(name.parse().unwrap()));
        builder.filter_keys(filter_keys.unwrap_or(FilterKeys::Whole)).open().unwrap()
    }

    /// A key of 0 to 19 bytes. Many adjacent keys share prefixes, and 0x00 and 0xff occur.
    fn key(&self, rng: &mut StdRng) -> Vec<u8> {
        let n = rng.random_range(0..self.keys);
        match n % 16 {
            0 if n == 0 => Vec::new(),
            1 => n.to_be_bytes().to_vec(),
            2 => [&[0xff; 3][..], &n.to_le_bytes()].concat(),
            3 => vec![(n % 256) as u8; (n % 20) as usize],
            _ => format!("key{:08}", n * 7919 % self.keys).into_bytes(),
        }
    }
}

struct Run {
    options: Options,
    seed: u64,
    steps: u64,
    fs: Arc<dyn Fs>,
    db: Option<Db>,
    map: Map,
    snapshots: Vec<(Snapshot, Map)>,
    rng: StdRng,
}

/// Prints what is needed to reproduce a mismatch.
impl Drop for Run {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("operation {} of seed {} with {:?}", self.steps, self.seed, self.options);
        }
    }
}

impl Run {
    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = self.rng.random_range(0..=self.options.value_bytes);
        (0..length).map(|_| self.rng.random_range(b'a'..=b'f')).collect()
    }

    /// See [`Options::fill`].
    fn fill(&mut self) {
        if self.options.fill == 0 {
            return;
        }
        for _ in 0..self.options.fill {
            let (key, value) = (self.options.key(&mut self.rng), self.value());
            self.db().put(&key, &value).unwrap();
            self.map.insert(key, value);
        }
        self.db().compact_range(..).unwrap();
        let is_parted = self.options.metadata == MetadataForm::Parts;
        let in_parts = tables_in_parts(&self.fs).0;
        assert_eq!(in_parts > 0, is_parted, "{in_parts}");
        let read: Vec<_> = self.map.keys().step_by(97).map(|key| parts(self.db(), key)).collect();
        let has_parts = read.iter().any(|read| read.index > 5 && read.filter > 1);
        assert_eq!(has_parts, is_parted, "{read:?}");
        assert_eq!(self.db().stats().pinned_metadata_bytes > 0, !is_parted);
    }

    fn step(&mut self) {
        self.steps += 1;
        match self.rng.random_range(0..1000) {
            0..499 => {
                let (key, value) = (self.options.key(&mut self.rng), self.value());
                self.db().put(&key, &value).unwrap();
                self.map.insert(key, value);
            }
            499..504 => self.pop_first(),
            504..509 => self.pop_last(),
            509..511 => self.overwrite_hot(),
            511..513 => self.queue(),
            513 => self.checkpoint(),
            514 => self.delete_many(),
            515..640 => {
                let key = self.options.key(&mut self.rng);
                self.db().delete(&key).unwrap();
                self.map.remove(&key);
            }
            640..700 => self.write_batch(),
            700..708 => self.delete_range(),
            708..930 => {
                let key = self.options.key(&mut self.rng);
                let found = self.db().get(&key).unwrap();
                assert_eq!(found.as_deref(), self.map.get(&key).map(|v| &v[..]), "{key:?}");
            }
            930..945 => {
                let keys: Vec<_> = (0..20).map(|_| self.options.key(&mut self.rng)).collect();
                let found = self.db().multi_get(&keys).unwrap();
                for (key, value) in keys.iter().zip(&found) {
                    assert_eq!(value.as_deref(), self.map.get(key).map(|v| &v[..]), "{key:?}");
                }
            }
            945..970 => self.check_range(),
            970..979 => self.walk_cursor(),
            979 => self.ingest(),
            980..986 => {
                if self.snapshots.len() < 4 {
                    self.snapshots.push((self.db().snapshot(), self.map.clone()));
                } else {
                    let index = self.rng.random_range(0..self.snapshots.len());
                    let (snapshot, map) = self.snapshots.swap_remove(index);
                    check_all(snapshot.iter(), &map);
                }
            }
            986..992 => {
                if let Some((snapshot, map)) = self.snapshots.last() {
                    let key = self.options.key(&mut self.rng);
                    let found = snapshot.get(&key).unwrap();
                    assert_eq!(found.as_deref(), map.get(&key).map(|v| &v[..]), "{key:?}");
                }
            }
            992..996 => self.db().flush().unwrap(),
            996 => self.db().compact_range(..).unwrap(),
            997 => self.db().persist().unwrap(),
            998 => self.db().wait_for_compaction().unwrap(),
            _ => self.reopen(),
        }
    }

    fn pop_first(&mut self) {
        let popped = self.db().pop_first().unwrap();
        let popped = popped.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(popped, self.map.pop_first());
    }

    fn pop_last(&mut self) {
        let popped = self.db().pop_last().unwrap();
        let popped = popped.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(popped, self.map.pop_last());
    }

    /// Overwrites one key many times and sometimes deletes it, with snapshots in between.
    fn overwrite_hot(&mut self) {
        let key = self.options.key(&mut self.rng);
        let mut held: Vec<(Snapshot, Option<Vec<u8>>)> = Vec::new();
        for _ in 0..self.rng.random_range(1..80) {
            match self.rng.random_range(0..10) {
                0 => {
                    self.db().delete(&key).unwrap();
                    self.map.remove(&key);
                }
                1 => held.push((self.db().snapshot(), self.map.get(&key).cloned())),
                _ => {
                    let value = self.value();
                    self.db().put(&key, &value).unwrap();
                    self.map.insert(key.clone(), value);
                }
            }
        }
        // A flush may drop every version that no snapshot needs, but must keep the versions of the
        // held snapshots.
        if self.rng.random_bool(0.5) {
            self.db().flush().unwrap();
        }
        for (snapshot, value) in held {
            assert_eq!(snapshot.get(&key).unwrap().as_deref(), value.as_deref(), "{key:?}");
            let first =
                snapshot.range(key.clone()..=key.clone()).next().map(|item| item.unwrap().1);
            assert_eq!(first.as_deref(), value.as_deref(), "{key:?}");
        }
    }

    /// Puts entries after all others, and after each put pops the first entry.
    fn queue(&mut self) {
        for number in 0..self.rng.random_range(1..40_u32) {
            let key = [&[0xff; 4][..], &number.to_be_bytes()].concat();
            let value = self.value();
            self.db().put(&key, &value).unwrap();
            self.map.insert(key, value);
            self.pop_first();
        }
    }

    fn checkpoint(&mut self) {
        let dir = format!("/copy{}", self.steps);
        self.db().checkpoint(&dir).unwrap();
        let copy = Db::builder(&dir).fs(Arc::clone(&self.fs));
        let db = copy.clone().create_if_missing(false).open().unwrap();
        check_all(db.iter(), &self.map);
        db.close().unwrap();
        copy.destroy().unwrap();
    }

    /// In one call of ten, deletes every key or every second one. In the other calls does nothing,
    /// because on a nearly empty map the other operations would test little.
    fn delete_many(&mut self) {
        if !self.rng.random_bool(0.1) {
            return;
        }
        let one_in = self.rng.random_range(1..=2);
        let keys: Vec<Vec<u8>> = self.map.keys().step_by(one_in).cloned().collect();
        for key in keys {
            self.db().delete(&key).unwrap();
            self.map.remove(&key);
        }
        assert_eq!(self.db().is_empty().unwrap(), self.map.is_empty());
        self.fill();
    }

    /// Releases all snapshots, deletes all keys, flushes, and waits for compaction.
    fn empty(&mut self) {
        self.snapshots.clear();
        for key in std::mem::take(&mut self.map).into_keys() {
            self.db().delete(&key).unwrap();
        }
        self.db().flush().unwrap();
        self.db().wait_for_compaction().unwrap();
        assert!(self.db().is_empty().unwrap());
    }

    /// Ingests a table of a few values and a range deletion, which hides older entries and none of
    /// these values.
    fn ingest(&mut self) {
        let (begin, end) = self.narrow_range();
        let added: Map = (0..self.rng.random_range(0..4))
            .map(|_| (self.options.key(&mut self.rng), self.value()))
            .collect();
        if added.is_empty() && begin == end {
            return;
        }
        let options = TableOptions { block_bytes: 100, ..TableOptions::default() };
        let mut writer = SstWriter::create_in(Arc::clone(&self.fs), "/in.sst", options).unwrap();
        writer.delete_range(&begin, &end).unwrap();
        added.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
        writer.finish().unwrap();
        self.db().ingest(&["/in.sst"]).unwrap();
        self.forget(&begin, &end);
        self.map.extend(added);
    }

    fn write_batch(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.rng.random_range(0..12) {
            let key = self.options.key(&mut self.rng);
            match self.rng.random_range(0..20) {
                0..14 => {
                    let value = self.value();
                    batch.put(&key, &value);
                    self.map.insert(key, value);
                }
                14..19 => {
                    batch.delete(&key);
                    self.map.remove(&key);
                }
                _ => {
                    let (begin, end) = self.narrow_range();
                    batch.delete_range(&begin..&end);
                    self.forget(&begin, &end);
                }
            }
        }
        let durability = match self.rng.random_bool(0.1) {
            true => Durability::Sync,
            false => Durability::Buffered,
        };
        self.db().write_opt(batch, durability).unwrap();
    }

    /// The bounds of a range that holds fewer than 30 keys of the map. If wide ranges were often
    /// deleted, the map would be nearly empty, and the other operations would test little.
    fn narrow_range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let begin = self.options.key(&mut self.rng);
        let behind = self.rng.random_range(0..30);
        let end = self.map.range(begin.clone()..).nth(behind).map(|(key, _)| key.clone());
        (begin.clone(), end.unwrap_or(begin))
    }

    fn forget(&mut self, begin: &[u8], end: &[u8]) {
        let range = (Bound::Included(begin), Bound::Excluded(end));
        let gone: Vec<_> = self.map.range::<[u8], _>(range).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| drop(self.map.remove(key)));
    }

    fn delete_range(&mut self) {
        let (begin, end) = match self.rng.random_range(0..30) {
            0 => {
                let (a, b) = (self.options.key(&mut self.rng), self.options.key(&mut self.rng));
                if a <= b { (a, b) } else { (b, a) }
            }
            // These bounds are shorter than every key between them, but share a prefix of seven
            // bytes with these keys.
            1 => (b"key0000".to_vec(), b"key00001".to_vec()),
            _ => self.narrow_range(),
        };
        self.db().delete_range(&begin..&end).unwrap();
        self.forget(&begin, &end);
    }

    fn check_range(&mut self) {
        let (a, b) = (self.options.key(&mut self.rng), self.options.key(&mut self.rng));
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        let bounds = match self.rng.random_range(0..4) {
            0 => (Bound::Included(low), Bound::Excluded(high)),
            1 if low != high => (Bound::Excluded(low), Bound::Included(high)),
            2 => (Bound::Included(low), Bound::Unbounded),
            _ => (Bound::Unbounded, Bound::Included(high)),
        };
        if self.rng.random_bool(0.3) {
            let prefix = b"key0000".to_vec();
            let expected = self.map.iter().filter(|(key, _)| key.starts_with(&prefix));
            let expected: Map = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
            check_all(self.db().prefix(&prefix), &expected);
            return;
        }
        let mut expected = self.map.range(bounds.clone());
        let mut found = self.db().range(bounds);
        for _ in 0..200 {
            let forward = self.rng.random_bool(0.5);
            let (item, wanted) = match forward {
                true => (found.next(), expected.next()),
                false => (found.next_back(), expected.next_back()),
            };
            let item = item.map(Result::unwrap);
            assert_eq!(
                item.as_ref().map(|(k, v)| (&k[..], &v[..])),
                wanted.map(|(k, v)| (&k[..], &v[..]))
            );
            if wanted.is_none() {
                break;
            }
        }
    }

    fn walk_cursor(&mut self) {
        let start = self.options.key(&mut self.rng);
        let mut cursor = self.db.as_ref().unwrap().cursor();
        let mut at: Option<Vec<u8>> = if self.rng.random_bool(0.5) {
            cursor.seek(&start).unwrap();
            self.map.range(start..).next().map(|(key, _)| key.clone())
        } else {
            cursor.seek_for_prev(&start).unwrap();
            self.map.range(..=start).next_back().map(|(key, _)| key.clone())
        };
        for _ in 0..60 {
            assert_eq!(cursor.valid().then(|| cursor.key().to_vec()), at);
            let Some(key) = at else { return };
            assert_eq!(cursor.value(), &self.map[&key][..]);
            at = if self.rng.random_bool(0.6) {
                cursor.next().unwrap();
                let after = (Bound::Excluded(key), Bound::Unbounded);
                self.map.range(after).next().map(|(key, _)| key.clone())
            } else {
                cursor.prev().unwrap();
                self.map.range(..key).next_back().map(|(key, _)| key.clone())
            };
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.db.take().unwrap().close().unwrap();
        self.db = Some(self.options.open(&self.fs));
        check_all(self.db().iter(), &self.map);
    }
}

fn check_all(
    found: impl DoubleEndedIterator<Item = maypole::Result<(maypole::Slice, maypole::Slice)>>,
    map: &Map,
) {
    let mut expected = map.iter();
    for item in found {
        let (key, value) = item.unwrap();
        assert_eq!(Some((&key[..], &value[..])), expected.next().map(|(k, v)| (&k[..], &v[..])));
    }
    assert_eq!(expected.next(), None);
}

/// Runs random operations, and returns the number of tables that are left after everything is
/// deleted.
fn run(options: Options, seed: u64, steps: u64) -> usize {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let mut run = Run {
        db: Some(options.open(&fs)),
        options,
        seed,
        steps: 0,
        fs,
        map: Map::new(),
        snapshots: Vec::new(),
        rng: StdRng::seed_from_u64(seed),
    };
    run.fill();
    for _ in 0..steps {
        run.step();
    }
    run.db().flush().unwrap();
    run.db().wait_for_compaction().unwrap();
    check_all(run.db().iter(), &run.map);
    let backward: Vec<_> = run.db().iter().rev().map(|item| item.unwrap().0.to_vec()).collect();
    assert!(backward.iter().eq(run.map.keys().rev()));
    assert_eq!(run.db().verify().unwrap().filter_misses, 0);
    for (snapshot, map) in &run.snapshots {
        check_all(snapshot.iter(), map);
    }
    run.empty();
    run.db().stats().files.len()
}

/// The most operations on one database. A longer test uses more databases.
const MAX_STEPS: u64 = 20_000;

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_database_answers_like_a_map() {
    let operations = env("MAYPOLE_MODEL_OPERATIONS", 150_000);
    let first_seed = env("MAYPOLE_MODEL_SEED", 0);
    let sets = option_sets();
    let each = operations.div_ceil(sets.len() as u64);
    let runs = each.div_ceil(MAX_STEPS);
    for (index, &options) in sets.iter().enumerate() {
        for n in 0..runs {
            let seed = first_seed + (index as u64 * runs + n);
            run(options, seed, each.div_ceil(runs));
        }
    }
    println!(
        "{} operations, {} option sets, from seed {first_seed} on, 0 mismatches",
        each.div_ceil(runs) * runs * sets.len() as u64,
        sets.len(),
    );
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_map_that_is_emptied_leaves_no_table() {
    for (options, seed) in option_sets().into_iter().zip(1000..) {
        assert_eq!(run(options, seed, 2000), 0, "seed {seed} with {options:?}");
    }
}
