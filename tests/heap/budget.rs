//! The peak heap of a database at work, compared with the sum of its limits: cache, memtables, the
//! filters of the tables that are being written, and the read-ahead of compactions.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use maypole::{BlockCache, Compression, Db, WriteBatch};

use super::{LIVE_BYTES, PEAK_BYTES, alone, key};

const CACHE_BYTES: usize = 32 << 20;
/// Memtables of 8 MiB or more would be in large pages, which the counting allocator does not see.
const MEMTABLE_BYTES: usize = 7 << 20;
/// The active memtable, two that may wait for their flush, and a flushed one that a lookup may
/// still read. Without the last one, the test failed on a machine that suspended the reading thread
/// in the middle of a lookup.
const MEMTABLES: usize = 4;
const TABLE_BYTES: u64 = 4 << 20;
const COMPACTION_THREADS: usize = 2;
/// The read-ahead of one compaction. When a compaction read 8 MiB ahead, this test failed whenever
/// all memtables were full.
const READ_AHEAD_BYTES: usize = 2 << 20;
const KEYS: u64 = 350_000;
const VALUE_BYTES: usize = 100;

/// The most bytes that filters take while their tables are being written. Each key takes 8 bytes in
/// a list, which grows by doubling, and then 10 bits in the filter. One flush and all compaction
/// threads may build filters at the same time.
fn filter_bytes_being_built() -> usize {
    let entry_bytes = size_of_val(&key(0)) + VALUE_BYTES;
    let keys = |table_bytes: usize| table_bytes / entry_bytes;
    let filter = |keys: usize| 8 * keys.next_power_of_two() + keys * 10 / 8;
    filter(keys(MEMTABLE_BYTES)) + COMPACTION_THREADS * filter(keys(TABLE_BYTES as usize))
}

fn write(db: &Db) {
    let mut batch = WriteBatch::new();
    for n in 0..KEYS {
        batch.put(key(n), [n as u8; VALUE_BYTES]);
        if batch.len() == 100 {
            db.write(std::mem::take(&mut batch)).unwrap();
        }
    }
    db.wait_for_compaction().unwrap();
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn peak_heap_of_a_database_that_writes_merges_and_reads_is_within_its_budget() {
    let _turn = alone();
    let dir = tempfile::tempdir().unwrap();
    let before = LIVE_BYTES.load(Relaxed);
    PEAK_BYTES.store(before, Relaxed);
    let cache = BlockCache::new(CACHE_BYTES);
    let db = Db::builder(dir.path())
        .block_cache(cache.clone())
        .memtable_bytes(MEMTABLE_BYTES)
        .table_bytes(TABLE_BYTES)
        .level_base_bytes(8 << 20)
        .compaction_threads(COMPACTION_THREADS)
        .compression(Compression::None)
        .filter("bloom(10)")
        .open()
        .unwrap();
    // First the cache is filled, then the threads read, write and compact at the same time.
    write(&db);
    (0..KEYS).for_each(|n| assert!(db.get(key(n)).unwrap().is_some()));
    assert!(cache.usage() > CACHE_BYTES / 10 * 9, "{}", cache.usage());
    let written = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..).take_while(|_| !written.load(Relaxed)) {
                assert!(db.get(key(n * 7919 % KEYS)).unwrap().is_some());
            }
        });
        write(&db);
        written.store(true, Relaxed);
    });
    let peak = PEAK_BYTES.load(Relaxed) - before;
    let filters = filter_bytes_being_built();
    let read_ahead = COMPACTION_THREADS * READ_AHEAD_BYTES;
    let declared = CACHE_BYTES + MEMTABLES * MEMTABLE_BYTES + filters + read_ahead;
    println!(
        "peak heap {peak}, declared {declared} (cache {CACHE_BYTES}, {MEMTABLES} memtables of \
         {MEMTABLE_BYTES}, filters being built {filters}, read ahead {read_ahead}): {:+.1} %",
        (peak as f64 / declared as f64 - 1.0) * 100.0
    );
    // If the peak were far below the budget, the upper bound would show nothing.
    assert!(peak > declared / 2, "{peak} of {declared}");
    assert!(peak <= declared + declared / 20, "{peak} of {declared}");
    db.close().unwrap();
}
