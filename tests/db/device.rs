//! Lookups of many keys at once, whose blocks are not in memory: the reads overlap, and no block is
//! read that single lookups would not read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use maypole::fs::{
    DirectFs, Fault, FaultFs, FileLock, Fs, MemFs, Operation, RandomAccessFile, RealFs, Target,
    WritableFile,
};
use maypole::{BlockCache, Db, DbCursor, Error, Slice, Ticker};

const KEYS: u64 = 6_000;

fn key(n: u64) -> String {
    format!("user{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn open(fs: &Arc<dyn Fs>, cache: &Arc<BlockCache>) -> Db {
    Db::builder("db")
        .fs(Arc::clone(fs))
        .block_cache(Arc::clone(cache))
        // A filter that is often wrong, so that many lookups need a second block and a third.
        .filter("bloom(2)")
        .memtable_bytes(256 << 10)
        .table_bytes(64 << 10)
        .open()
        .unwrap()
}

/// A tree with one deep level, three files in level 0 with newer values and tombstones, and range
/// deletions. None of its blocks are in memory.
fn tree(fs: &Arc<dyn Fs>, cache: &Arc<BlockCache>) -> Db {
    let db = open(fs, cache);
    for n in 0..KEYS {
        db.put(key(n), [b'v'; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    for file in 0..3 {
        for n in (file..KEYS).step_by(5) {
            match file {
                // These deletions are too few to start a compaction that removes them.
                1 if n % 25 == 1 => db.delete(key(n)).unwrap(),
                _ => db.put(key(n), format!("{file} {n}")).unwrap(),
            }
        }
        if file == 2 {
            db.delete_range(key(17)..format!("{}\u{7f}", key(17))).unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    open(fs, cache)
}

/// Present, deleted and absent keys in random order, some of them twice.
fn questions() -> Vec<String> {
    let keys: Vec<String> = (0..3_000).map(|i| key(i * 7919 % (2 * KEYS))).collect();
    [&keys[..], &keys[..100], &[String::new()]].concat()
}

#[test]
fn looking_up_together_reads_each_block_once_and_none_that_one_by_one_would_not() {
    let counted = |together: bool| {
        let memory: Arc<dyn Fs> = Arc::new(MemFs::new());
        let fs = Arc::new(FaultFs::new(memory));
        let cache = BlockCache::new(64 << 20);
        let db = tree(&(Arc::clone(&fs) as Arc<dyn Fs>), &cache);
        let (keys, before) = (questions(), db.stats().tickers);
        let reads = || fs.calls(Target::Only(Operation::ReadExactAt));
        let reads_before = reads();
        let values: Vec<Option<Slice>> = match together {
            true => keys.chunks(200).flat_map(|keys| db.multi_get(keys).unwrap()).collect(),
            false => keys.iter().map(|key| db.get(key).unwrap()).collect(),
        };
        let since = &db.stats().tickers - &before;
        let tickers = [
            Ticker::BloomUseful,
            Ticker::BloomFullPositive,
            Ticker::BloomFullTruePositive,
            Ticker::DataBlocksExamined,
            Ticker::BlockCacheDataHit,
            Ticker::BlockCacheDataMiss,
            Ticker::BlockCacheDataAdd,
            Ticker::MemtableMiss,
            Ticker::GetHitL0,
            Ticker::GetHitL1,
            Ticker::GetHitL2AndUp,
        ];
        let read = [reads() - reads_before, since.get(Ticker::FileReadBytes)];
        (values, tickers.map(|ticker| since.get(ticker)), read)
    };
    let (one_by_one, together) = (counted(false), counted(true));
    assert_eq!(together.0, one_by_one.0);
    assert_eq!(together.1, one_by_one.1);
    assert!(together.1[5] > 100, "{:?}: most blocks were missed", together.1);
    // Adjacent blocks are read in one call, which also reads the padding between the blocks, but
    // nothing else.
    let ([reads, bytes], [single_reads, single_bytes]) = (together.2, one_by_one.2);
    assert!(reads < single_reads, "{reads} reads, one by one {single_reads}");
    let most_bytes = single_bytes + 256 * (single_reads - reads);
    assert!(bytes <= most_bytes, "{bytes} bytes, one by one {single_bytes}");
}

/// One `multi_get` looks up keys that are not sorted: five rounds over the same ten or so blocks,
/// then four keys of another block. The first key of a block starts the read of the block. The
/// later ones must wait for that read and not start another, so the cache counts as many misses and
/// hits as for single lookups.
#[test]
fn a_block_that_is_on_its_way_is_not_read_again() {
    let filesystems: [Arc<dyn Fs>; 2] = [Arc::new(RealFs), Arc::new(DirectFs)];
    for fs in filesystems {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            Db::builder(dir.path().join("db"))
                .fs(Arc::clone(&fs))
                .filter("bloom(2)")
                .open()
                .unwrap()
        };
        let db = open();
        for n in 0..KEYS {
            db.put(format!("{n:08}"), [b'v'; 100]).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        // Five rounds over about ten adjacent blocks, and finally four keys of a distant block.
        let keys: Vec<String> = (0..60u64)
            .map(|i| i % 12 * 30 + i / 12)
            .chain(2_000..2_004)
            .map(|n| format!("{n:08}"))
            .collect();
        let counted = |together: bool| {
            let db = open();
            let values: Vec<Option<Slice>> = match together {
                true => db.multi_get(&keys).unwrap(),
                false => keys.iter().map(|key| db.get(key).unwrap()).collect(),
            };
            assert!(values.iter().all(Option::is_some));
            let tickers = [Ticker::BlockCacheDataMiss, Ticker::BlockCacheDataHit];
            (values, tickers.map(|ticker| db.stats().tickers.get(ticker)))
        };
        assert_eq!(counted(true), counted(false));
    }
}

#[test]
fn a_cache_that_keeps_little_or_nothing_changes_no_answer() {
    let (usual, direct): (Arc<dyn Fs>, Arc<dyn Fs>) = (Arc::new(RealFs), Arc::new(DirectFs));
    let cases = [(0, &usual), (30_000, &usual), (1 << 20, &usual), (30_000, &direct)];
    for (cache_bytes, fs) in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let make = |cache_bytes| {
            Db::builder(&path).fs(Arc::clone(fs)).block_cache_bytes(cache_bytes).filter("bloom(2)")
        };
        let db = make(1 << 20).memtable_bytes(256 << 10).table_bytes(64 << 10).open().unwrap();
        for n in 0..KEYS {
            db.put(key(n), format!("{n:0100}")).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        let db = make(cache_bytes).open().unwrap();
        let keys = questions();
        // The lookups of absent keys load indexes and filters. `multi_get` comes before the single
        // lookups of `keys`, because these would load the data blocks that it shall read itself.
        (0..500).for_each(|n| drop(db.get(key(3 * KEYS + n)).unwrap()));
        let together = db.multi_get(&keys).unwrap();
        let single: Vec<_> = keys.iter().map(|key| db.get(key).unwrap()).collect();
        assert_eq!(together, single, "{cache_bytes} bytes of cache");
        assert_eq!(db.snapshot().multi_get(&keys).unwrap(), single);
        assert_eq!(db.iter().map(Result::unwrap).count() as u64, KEYS);
        assert_eq!(db.verify().unwrap().entries, KEYS);
        db.compact_range(..).unwrap();
        assert_eq!(db.multi_get(&keys).unwrap(), single);
    }
}

#[test]
fn an_error_of_one_read_is_the_answer_and_the_next_call_reads_again() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let db = tree(&(Arc::clone(&fs) as Arc<dyn Fs>), &BlockCache::new(64 << 20));
    let keys: Vec<String> = (0..60).map(|n| key(n * 97)).collect();
    let mut failures = 0;
    for nth in 0.. {
        fs.fail_once(Target::Only(Operation::ReadExactAt), nth, Fault::Io);
        let before = fs.faults();
        let found = db.multi_get(&keys);
        let failed = fs.faults() > before;
        fs.heal();
        match found {
            Err(Error::Io { path, .. }) => assert!(path.to_string_lossy().ends_with(".sst")),
            Err(other) => panic!("{other}"),
            // The failed read was that of a filter. A lookup then searches the table without it.
            Ok(_) if failed => {}
            Ok(_) => break,
        }
        failures += 1;
    }
    assert!(failures > 0);
    let single: Vec<_> = keys.iter().map(|key| db.get(key).unwrap()).collect();
    assert_eq!(db.multi_get(&keys).unwrap(), single);
}

#[test]
fn threads_that_want_the_same_blocks_in_opposite_order_all_get_them() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    // The cache is so small that blocks are evicted while other lookups need them.
    let db = tree(&fs, &BlockCache::new(200_000));
    let keys: Vec<String> = (0..64).map(|n| key(n * 83)).collect();
    let expected: Vec<_> = keys.iter().map(|key| db.get(key).unwrap()).collect();
    thread::scope(|scope| {
        for backwards in [false, true, false, true] {
            let (db, keys, expected) = (&db, &keys, &expected);
            scope.spawn(move || {
                let order: Vec<usize> =
                    if backwards { (0..64).rev().collect() } else { (0..64).collect() };
                for _ in 0..40 {
                    let asked: Vec<&String> = order.iter().map(|&i| &keys[i]).collect();
                    let found = db.multi_get(&asked).unwrap();
                    assert!(order.iter().zip(found).all(|(&i, found)| found == expected[i]));
                }
            });
        }
    });
}

/// Regression: an export of everything each night made lookups slow each morning, because the
/// export's scan displaced the blocks that the lookups use. Now a scan can leave the cache alone.
#[test]
fn a_scan_that_leaves_the_cache_alone_displaces_nothing_that_lookups_use() {
    let used: Vec<String> = (0..40).map(|n| key(n * 20)).collect();
    let misses_of_lookups = |db: &Db| {
        let misses = || db.stats().tickers.get(Ticker::BlockCacheDataMiss);
        let before = misses();
        used.iter().for_each(|key| drop(db.get(key).unwrap()));
        misses() - before
    };
    let fresh = || {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let db = tree(&fs, &BlockCache::new(300_000));
        // The scan loads the indexes of all tables, and these could evict data blocks, so they are
        // loaded before.
        assert_eq!(db.warm_up().unwrap().left_out, 0);
        db
    };
    let keys_of_quiet_scans = |db: &Db| {
        let mut all = Vec::new();
        for _ in 0..3 {
            let mut cursor = db.cursor().fill_cache(false);
            cursor.seek_to_first().unwrap();
            all.clear();
            while let Some((key, _)) = cursor.entry() {
                all.push(key.to_vec());
                cursor.next().unwrap();
            }
            assert_eq!(db.iter().fill_cache(false).rev().count(), all.len());
        }
        all
    };
    // Each running lookup of the process holds a guard (`src/sync/reclaim`), which keeps evicted
    // memory from being freed. If the system suspends a lookup of another test, the cache may find
    // no memory for new blocks. So several tries are made.
    let displaces_nothing = (0..1_000).any(|_| {
        let db = fresh();
        assert!(misses_of_lookups(&db) > 0);
        keys_of_quiet_scans(&db);
        misses_of_lookups(&db) == 0
    });
    assert!(displaces_nothing, "the scan has displaced what lookups use");
    // The same scan with its default options evicts what was used only once.
    let db = fresh();
    assert!(misses_of_lookups(&db) > 0);
    let all: Vec<Slice> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert!(misses_of_lookups(&db) > 0, "the cache is too large to show anything");
    assert!(all.iter().eq(&keys_of_quiet_scans(&db)));
}

/// A change of `fill_cache` concerns only later blocks, and the cursor keeps its position.
#[test]
fn a_cursor_changes_its_mind_about_the_cache_on_its_way() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = tree(&fs, &BlockCache::new(64 << 20));
    let expected: Vec<_> = db.iter().fill_cache(false).map(|entry| entry.unwrap().0).collect();
    let adds = || db.stats().tickers.get(Ticker::BlockCacheDataAdd);
    assert_eq!(adds(), 0);
    let mut cursor = db.cursor().fill_cache(false);
    cursor.seek_to_first().unwrap();
    let mut seen = Vec::new();
    let mut walk = |mut cursor: DbCursor, end: usize| {
        while seen.len() < end {
            seen.push(Slice::copy_from(cursor.key()));
            cursor.next().unwrap();
        }
        cursor
    };
    let third = expected.len() / 3;
    cursor = walk(cursor, third);
    assert_eq!(adds(), 0);
    cursor = walk(cursor.fill_cache(true), 2 * third);
    let added = adds();
    assert!(added > 0, "no block entered the cache");
    walk(cursor.fill_cache(false), expected.len());
    assert_eq!(adds(), added);
    assert_eq!(seen, expected);
}

/// A file system on which a read may wait for as long as the test wants.
#[derive(Debug, Clone)]
pub struct SlowFs {
    inner: MemFs,
    gate: Arc<Gate>,
}

impl SlowFs {
    pub fn new(inner: MemFs, gate: &Arc<Gate>) -> SlowFs {
        SlowFs { inner, gate: Arc::clone(gate) }
    }
}

#[derive(Debug, Default)]
pub struct Gate {
    /// The number of reads that will pass before one waits.
    passes: AtomicUsize,
    /// The number of reads that will wait.
    stops: AtomicUsize,
    /// The number of reads that wait now.
    waiting: AtomicUsize,
    is_open: AtomicBool,
}

impl Gate {
    /// Lets this number of reads pass, and the next one wait.
    pub fn stop_after(&self, passes: usize) {
        self.passes.store(passes, Ordering::SeqCst);
        self.stops.store(1, Ordering::SeqCst);
    }

    /// Lets this number of reads wait.
    pub fn stop_next(&self, reads: usize) {
        self.stops.store(reads, Ordering::SeqCst);
    }

    pub fn is_waited_at(&self) -> bool {
        self.waiting() > 0
    }

    /// The number of reads that have waited so far. As long as the gate is closed, they wait still.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct SlowFile {
    inner: Arc<dyn RandomAccessFile>,
    gate: Arc<Gate>,
}

impl RandomAccessFile for SlowFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> maypole::Result<()> {
        let take = |count: &AtomicUsize| {
            let less = |count: usize| count.checked_sub(1);
            count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
        };
        if !take(&self.gate.passes) && take(&self.gate.stops) {
            self.gate.waiting.fetch_add(1, Ordering::SeqCst);
            while !self.gate.is_open.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.inner.read_exact_at(offset, buffer)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl Fs for SlowFs {
    fn open(&self, path: &Path) -> maypole::Result<Arc<dyn RandomAccessFile>> {
        let gate = Arc::clone(&self.gate);
        Ok(Arc::new(SlowFile { inner: self.inner.open(path)?, gate }))
    }

    fn create(&self, path: &Path) -> maypole::Result<Box<dyn WritableFile>> {
        self.inner.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> maypole::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> maypole::Result<()> {
        self.inner.remove(path)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> maypole::Result<()> {
        self.inner.hard_link(existing, new)
    }

    fn exists(&self, path: &Path) -> maypole::Result<bool> {
        self.inner.exists(path)
    }

    fn list(&self, dir: &Path) -> maypole::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> maypole::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> maypole::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> maypole::Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }
}

pub struct OpenedAtTheEnd<'a>(pub &'a Gate);

impl Drop for OpenedAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.is_open.store(true, Ordering::SeqCst);
    }
}

/// Waits until `holds` returns true. Fails only after a minute, because the threads of other tests
/// may use all processors, and their lookups may keep evicted memory from being freed.
#[track_caller]
pub fn eventually(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute");
        thread::yield_now();
    }
}

/// Regression: when a device stalled for seconds, the cache of the whole process stalled too. A
/// waiting lookup kept all evicted memory from being freed, and for lack of memory the cache kept
/// nothing new. Now a waiting lookup holds no memory back.
#[test]
fn while_a_device_stands_still_other_threads_use_the_cache_as_ever() {
    let gate = Arc::new(Gate::default());
    let fs: Arc<dyn Fs> = Arc::new(SlowFs::new(MemFs::new(), &gate));
    let db = tree(&fs, &BlockCache::new(200_000));
    // First, lookups of other keys than those below load all filters and indexes, because a lookup
    // that must load a filter blocks all others that need this filter. The loop repeats the
    // lookups, because the cache may keep nothing while a lookup of another test holds a guard.
    let misses = |kinds: &[Ticker]| {
        let tickers = db.stats().tickers;
        kinds.iter().map(|&kind| tickers.get(kind)).sum::<u64>()
    };
    let metadata = || misses(&[Ticker::BlockCacheIndexMiss, Ticker::BlockCacheFilterMiss]);
    eventually(|| {
        let before = metadata();
        (0..500).for_each(|n| drop(db.get(key(KEYS - 1 - n)).unwrap()));
        metadata() == before
    });
    // All of these are in the deepest level, whose blocks the cache cannot hold together.
    let keys: Vec<String> = (0..64).map(|n| key(n * 60 + 3)).collect();
    thread::scope(|scope| {
        // The drop of this value opens the gate, also after a failed assertion. If the gate stayed
        // closed, the scope would wait for its threads for ever.
        let opened = OpenedAtTheEnd(&gate);
        gate.stops.store(1, Ordering::SeqCst);
        let stopped = scope.spawn(|| db.multi_get(&keys).unwrap());
        eventually(|| gate.waiting.load(Ordering::SeqCst) > 0);
        // If the stopped lookup held a guard, the cache would keep only 26 of the thousand blocks.
        // The outer loop repeats the lookups, because other tests hold guards for a moment.
        eventually(|| {
            let mut kept = 0;
            for n in 0..1_000 {
                // The keys are in the deepest level, whose blocks take three times the capacity of
                // the cache.
                db.get(key(n * 5 + 3)).unwrap();
                let before = misses(&[Ticker::BlockCacheDataMiss]);
                db.get(key(n * 5 + 3)).unwrap();
                kept += usize::from(misses(&[Ticker::BlockCacheDataMiss]) == before);
            }
            kept > 600
        });
        assert!(!stopped.is_finished(), "the device stands still");
        drop(opened);
        let found = stopped.join().unwrap();
        assert!(found.iter().all(Option::is_some));
    });
}
