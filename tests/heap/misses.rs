//! Lookups that read blocks which the cache does not keep reuse the memory of the blocks before.

use std::sync::atomic::Ordering::Relaxed;

use maypole::table::MetadataForm;
use maypole::{BlockCache, Compression, Db};

use super::{LARGE_ALLOCATIONS, LARGE_BYTES, alone};

/// Each such block was once read into memory that was allocated and cleared for it, and freed after
/// the lookup. This took a twelfth of the time of the lookup.
#[test]
fn blocks_that_are_not_kept_are_read_into_the_same_memory() {
    let _turn = alone();
    const KEYS: u64 = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let options =
        || Db::builder(dir.path()).metadata(MetadataForm::Parts).compression(Compression::None);
    {
        let db = options().open().unwrap();
        (0..KEYS).for_each(|n| db.put((2 * n).to_be_bytes(), [n as u8; 100]).unwrap());
        db.compact_all().unwrap();
        db.close().unwrap();
    }
    // Filters and indexes take about 200 KB, so that they fill this cache.
    let db = options().block_cache(BlockCache::new(160 << 10)).open().unwrap();
    let mut value_bytes = 0;
    let mut look_up = |lookups: std::ops::Range<u64>| {
        let reads_before = db.stats().tickers.get(maypole::Ticker::FileReads);
        let allocations_before = LARGE_ALLOCATIONS.load(Relaxed);
        for n in lookups {
            // The parts of filters and indexes for these keys fit into the cache.
            let n = n * 7919 % (KEYS / 4);
            let found = db.get_with((2 * n).to_be_bytes(), <[u8]>::len).unwrap();
            value_bytes += found.expect("a present key");
            assert!(!db.contains_key((2 * n + 1).to_be_bytes()).unwrap());
        }
        let allocations = LARGE_ALLOCATIONS.load(Relaxed) - allocations_before;
        (allocations, db.stats().tickers.get(maypole::Ticker::FileReads) - reads_before)
    };
    look_up(0..2_000);
    let (allocations, reads) = look_up(2_000..4_000);
    assert!(reads > 1_500, "{reads} reads for 4,000 lookups");
    assert!(
        (allocations as u64) < reads / 10,
        "{allocations} allocations of {LARGE_BYTES} bytes or more for {reads} reads"
    );
    assert_eq!(value_bytes, 400_000);
}
