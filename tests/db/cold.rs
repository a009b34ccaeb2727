//! What a database reads just after an opening. Every read of a file is counted, as if the system
//! cached nothing.

use std::sync::Arc;

use maypole::fs::{FaultFs, Fs, MemFs, Operation, Target};
use maypole::{BlockCache, BlockKind, Builder, Compression, Db, Error, FilterPolicy, Ticker};

const KEYS: u64 = 48_000;

/// Consecutive numbers give keys that are far apart in the key order. Each key of `absent` sorts
/// just after a present key.
fn key(n: u64) -> [u8; 9] {
    let mut key = [0; 9];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn absent(n: u64) -> [u8; 9] {
    let mut key = key(n);
    key[8] = 1;
    key
}

fn options(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db")
        .fs(Arc::clone(fs))
        .filter("bloom(10)")
        .compression(Compression::None)
        .memtable_bytes(32 << 10)
        .table_bytes(16 << 10)
        .level_base_bytes(16 << 10)
        .compaction_threads(1)
}

/// A tree with tables in at least four levels.
fn grown(fs: &Arc<dyn Fs>) {
    let db = options(fs).open().unwrap();
    (0..KEYS).for_each(|n| db.put(key(n), [n as u8; 60]).unwrap());
    db.wait_for_compaction().unwrap();
    let filled = |db: &Db| db.stats().levels.iter().filter(|level| level.files > 0).count();
    // The loop ends when four levels have tables.
    let grown = (0..40).any(|round| {
        (0..200).for_each(|n| db.put(key(240 * n + round), [0xaa; 60]).unwrap());
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        filled(&db) >= 4
    });
    assert!(grown, "{} levels", filled(&db));
    db.close().unwrap();
}

fn counting() -> (FaultFs, Arc<dyn Fs>) {
    let counting = FaultFs::new(Arc::new(MemFs::new()));
    (counting.clone(), Arc::new(counting))
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_cold_get_reads_one_block_and_an_absent_key_none_but_for_false_positives() {
    let (calls, fs) = counting();
    grown(&fs);
    let db = options(&fs).block_cache_bytes(64 << 20).open().unwrap();
    let report = db.warm_up().unwrap();
    let tables = db.stats().files.len();
    assert_eq!((report.tables, report.left_out), (tables, 0));
    assert!(report.loaded_bytes > KEYS, "{report:?}");
    let levels = db.stats().levels.iter().filter(|level| level.files > 0).count();
    assert!(levels >= 4, "{levels} levels");
    let reads = || calls.calls(Target::Only(Operation::ReadExactAt));
    let false_positives = || {
        let tickers = db.stats().tickers;
        tickers.get(Ticker::BloomFullPositive) - tickers.get(Ticker::BloomFullTruePositive)
    };
    let (reads_before, false_before) = (reads(), false_positives());
    for n in (0..KEYS).step_by(40) {
        let (reads_before, false_before) = (reads(), false_positives());
        assert_eq!(db.get(absent(n)).unwrap(), None);
        let (reads, wrong) = (reads() - reads_before, false_positives() - false_before);
        assert!(reads <= wrong, "{reads} reads for {wrong} false positives, absent key {n}");
    }
    let (reads_of_absent, wrong) = (reads() - reads_before, false_positives() - false_before);
    assert!(reads_of_absent <= wrong && wrong < KEYS / 400, "{reads_of_absent} {wrong}");
    // Only every 101st key is looked up, so few of these keys share a data block.
    let (mut sum, mut sum_wrong) = (0, 0);
    for n in (0..KEYS).step_by(101) {
        let (reads_before, false_before) = (reads(), false_positives());
        assert!(db.get(key(n)).unwrap().is_some());
        let (reads, wrong) = (reads() - reads_before, false_positives() - false_before);
        assert!(reads <= 1 + wrong, "{reads} reads for {wrong} false positives, key {n}");
        (sum, sum_wrong) = (sum + reads, sum_wrong + wrong);
    }
    assert!(sum > 0, "the blocks were not in memory");
    assert!(sum <= KEYS.div_ceil(101) + sum_wrong);
}

/// The MANIFEST says how many bytes at the end of a table an opening needs, so that one read gets
/// them.
#[test]
fn opening_a_database_takes_one_read_a_table() {
    let (calls, fs) = counting();
    grown(&fs);
    let before = calls.calls(Target::Only(Operation::ReadExactAt));
    let db = options(&fs).open_read_only().unwrap();
    let reads = calls.calls(Target::Only(Operation::ReadExactAt)) - before;
    let tables = db.stats().files.len() as u64;
    assert!(tables > 20, "{tables}");
    assert_eq!(db.stats().tickers.get(Ticker::FileReads), tables);
    // CURRENT, the MANIFEST and a WAL are read as well, and before them the MANIFEST's first bytes,
    // which tell which engine wrote the directory.
    assert!((tables..tables + 7).contains(&reads), "{reads} reads for {tables} tables");
}

/// New filters change the end of a table, and the MANIFEST of the copy records how many bytes of it
/// an opening needs.
#[test]
fn a_copy_with_other_filters_opens_by_one_read_a_table() {
    let (calls, fs) = counting();
    grown(&fs);
    let db = options(&fs).open().unwrap();
    let tables = db.stats().files.len() as u64;
    db.copy_with_filters("/copy", &"burr(8)".parse::<FilterPolicy>().unwrap()).unwrap();
    let before = calls.calls(Target::Only(Operation::ReadExactAt));
    let copy = Db::builder("/copy").fs(Arc::clone(&fs)).open_read_only().unwrap();
    let count = calls.calls(Target::Only(Operation::ReadExactAt)) - before;
    let bytes = copy.stats().tickers.get(Ticker::FileReadBytes);
    // CURRENT and the MANIFEST are read as well.
    assert!((tables..tables + 4).contains(&count), "{count} reads for {tables} tables");
    assert!(bytes < tables * 3000, "{bytes} bytes: the ends of {tables} tables, and no more");
    db.close().unwrap();
}

/// If the cache is too small, what was loaded stays, and the rest is reported as left out.
#[test]
fn warming_up_fills_the_cache_and_displaces_nothing_it_has_loaded() {
    let (_, fs) = counting();
    grown(&fs);
    let large = BlockCache::new(32 << 20);
    let whole = options(&fs).block_cache(large.clone()).open().unwrap();
    let needed = whole.warm_up().unwrap();
    assert_eq!(whole.warm_up().unwrap().loaded_bytes, 0, "all of it is there");
    let reserved_bytes = large.usage() - needed.loaded_bytes as usize;
    whole.close().unwrap();
    let cache = BlockCache::new(reserved_bytes + needed.loaded_bytes as usize / 2);
    let small = options(&fs).block_cache(cache.clone()).open().unwrap();
    let report = small.warm_up().unwrap();
    assert_eq!(report.tables + report.left_out, needed.tables);
    assert!(report.tables > 0 && report.left_out > 0, "{report:?}");
    let resident = [BlockKind::Filter, BlockKind::Index].map(|kind| cache.usage_of(kind).bytes);
    assert_eq!(resident.iter().sum::<usize>() as u64, report.loaded_bytes, "nothing has left");
    let again = small.warm_up().unwrap();
    assert_eq!((again.loaded_bytes, again.tables), (0, report.tables));
    small.close().unwrap();
    // With a cache of 0 bytes nothing is loaded, and `warm_up` does not fail.
    let none = options(&fs).block_cache_bytes(0).open().unwrap().warm_up().unwrap();
    assert_eq!((none.tables, none.loaded_bytes, none.left_out), (0, 0, needed.tables));
}

#[test]
fn warming_up_ends_when_the_database_is_closed() {
    let (_, fs) = counting();
    assert_eq!(options(&fs).open().unwrap().warm_up().unwrap().tables, 0, "nothing to load");
    grown(&fs);
    let db = options(&fs).block_cache_bytes(64 << 20).open().unwrap();
    let other = db.clone();
    let warming = std::thread::spawn(move || {
        loop {
            if let Err(error) = other.warm_up() {
                return error;
            }
        }
    });
    db.close().unwrap();
    assert!(matches!(warming.join().unwrap(), Error::Closed));
}
