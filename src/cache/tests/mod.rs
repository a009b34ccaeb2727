//! Tests of the contract of cache and slots, with values that are counted while they are alive.
//! These values are defined at the start of this file. [`miss_buffers`] uses them too, for the
//! tests of values in miss buffers.

use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::policy::Keeping;
use super::slots::*;
use super::*;
use crate::sync::{collect, pin};

mod list;
mod miss_buffers;
mod policy;

/// A value that pretends to own `bytes` of heap, and is counted while it is alive.
struct Block {
    id: usize,
    bytes: usize,
    alive_bytes: Arc<AtomicUsize>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.alive_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.id = usize::MAX;
    }
}

impl Cached for Block {
    type Ahead = ();
    type Link = ();
}

impl Cached for LineBuf {
    type Ahead = LinesAhead;
    type Link = ();

    fn into_buffer(self) -> Option<LineBuf> {
        Some(self)
    }
}

/// Makes blocks and counts them.
#[derive(Clone, Default)]
struct Disk {
    alive_bytes: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
}

impl Disk {
    fn read(&self, id: usize, bytes: usize) -> Result<(Block, usize), Infallible> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.alive_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok((Block { id, bytes, alive_bytes: self.alive_bytes.clone() }, bytes))
    }

    fn load(&self, slots: &Slots<Block>, i: usize, bytes: usize) -> Arc<Resident<Block>> {
        let lease = slots.load(i, Keeping::OnProbation, || self.read(i, bytes)).unwrap();
        assert_eq!(lease.id, i);
        lease.to_arc()
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    fn alive_bytes(&self) -> usize {
        self.alive_bytes.load(Ordering::Relaxed)
    }

    /// Collects until all blocks are dropped. Other tests of the process also hold guards, each for
    /// a moment, so one collection may not suffice.
    fn wait_until_nothing_is_alive(&self) {
        while self.alive_bytes() > 0 {
            collect();
            thread::yield_now();
        }
    }
}

/// Waits until readers of concurrent tests have dropped their guards. Such a guard keeps evicted
/// values alive, so the cache would hold more garbage and fewer values than the calling test
/// expects.
fn wait_for_readers(cache: &BlockCache) {
    while cache.garbage_bytes.load(Ordering::Relaxed) > portion_bytes(cache.capacity()) {
        collect();
        thread::yield_now();
    }
}

fn data(cache: &Arc<BlockCache>, count: usize) -> Slots<Block> {
    Slots::new(cache, count, BlockKind::Data, false)
}

fn filters(cache: &Arc<BlockCache>, count: usize) -> Slots<Block> {
    Slots::new(cache, count, BlockKind::Filter, false)
}

/// Open tables with this many bytes of filters and indexes.
fn open_tables(cache: &Arc<BlockCache>, bytes: usize) -> Reservation {
    cache.reserve(0).expecting(MetadataBytes { as_stored: bytes, if_whole: bytes })
}

fn resident(slots: &Slots<Block>) -> Vec<usize> {
    // Reads the slots as a reader would, so every value that is found counts as used.
    (0..slots.len()).filter(|&i| slots.get(i, &pin()).is_some()).collect()
}

#[test]
fn a_loaded_value_is_found_again_and_charged() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let slots = data(&cache, 3);
    assert!(slots.get(1, &pin()).is_none());
    let loaded = disk.load(&slots, 1, 4000);
    assert!(loaded.was_cached());
    let guard = pin();
    let found = slots.get(1, &guard).unwrap();
    assert!(Arc::ptr_eq(&found.to_arc(), &loaded));
    disk.load(&slots, 1, 4000);
    assert_eq!(disk.reads(), 1);
    assert_eq!(cache.usage(), loaded.charge_bytes());
    assert!((4000..4300).contains(&cache.usage()), "{}", cache.usage());
    let usage = KindUsage { entries: 1, bytes: cache.usage() };
    assert_eq!(cache.usage_of(BlockKind::Data), usage);
    assert_eq!(cache.usage_of(BlockKind::Filter), KindUsage::default());
}

#[test]
fn usage_never_exceeds_the_capacity() {
    let (cache, disk) = (BlockCache::new(100_000), Disk::default());
    let slots = data(&cache, 1000);
    for i in 0..1000 {
        disk.load(&slots, i, 100 + i);
        assert!(cache.usage() <= cache.capacity());
    }
    assert!(cache.usage() > 80_000, "{}", cache.usage());
    assert_eq!(cache.usage_of(BlockKind::Data).entries, resident(&slots).len());
}

#[test]
fn memory_of_evicted_values_is_counted_until_readers_let_go() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let slots = data(&cache, 4000);
    let mut peak_bytes = 0;
    for i in 0..4000 {
        // Every lookup holds a guard, as in the engine, so no eviction frees memory at once.
        let guard = pin();
        assert!(slots.get(i, &guard).is_none());
        disk.load(&slots, i, 4096);
        peak_bytes = peak_bytes.max(disk.alive_bytes());
    }
    assert!(peak_bytes <= (1 << 20) + (1 << 20) / 20, "{peak_bytes}");
    // While a reader of another test keeps evicted values alive, there is less room for blocks. So
    // blocks are loaded until the cache is full again.
    let slots = data(&cache, 1_000_000);
    for i in 0.. {
        if cache.usage() > (1 << 20) * 9 / 10 {
            break;
        }
        assert!(i < slots.len(), "{} stay", cache.usage());
        collect();
        disk.load(&slots, i, 4096);
    }
}

#[test]
fn a_reader_that_stops_under_its_guard_neither_grows_the_heap_nor_empties_the_cache() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let slots = data(&cache, 4000);
    let stopped = pin();
    for i in 0..2000 {
        disk.load(&slots, i, 4096);
        let most_bytes = (1 << 20) + (1 << 20) / 64;
        assert!(disk.alive_bytes() <= most_bytes, "{} at load {i}", disk.alive_bytes());
    }
    assert!(cache.usage() > (1 << 20) * 9 / 10, "{}", cache.usage());
    assert!(resident(&slots).iter().all(|&i| i < 500));
    drop(stopped);
    // Evictions resume, because the reader has dropped its guard.
    for i in 2000..4000 {
        disk.load(&slots, i, 4096);
    }
    // The first call of `resident` has marked all values in the cache as used. So the new values
    // have only the room of probation, a tenth of the bytes of all data.
    assert!(resident(&slots).iter().filter(|&&i| i >= 2000).count() > 15);
}

#[test]
fn a_value_in_use_gets_a_second_chance() {
    let (cache, disk) = (BlockCache::new(50_000), Disk::default());
    let slots = data(&cache, 1000);
    disk.load(&slots, 0, 1000);
    for i in 1..1000 {
        assert!(slots.get(0, &pin()).is_some(), "evicted before load {i}");
        disk.load(&slots, i, 1000);
    }
}

#[test]
fn a_scan_leaves_what_is_in_use() {
    let (cache, disk) = (BlockCache::new(400_000), Disk::default());
    let (used, scanned) = (data(&cache, 250), data(&cache, 10_000));
    // Each value is used twice, as by lookups that return to their keys.
    for i in 0..250 {
        disk.load(&used, i, 1000);
        assert!(used.get(i, &pin()).is_some());
    }
    // Lookups load the same blocks again, while a scan loads fifty blocks for each of them.
    for i in 0..10_000 {
        disk.load(&scanned, i, 1000);
        if i % 50 == 0 {
            disk.load(&used, i / 50 % 250, 1000);
        }
    }
    assert!(resident(&used).len() > 240, "{} stay", resident(&used).len());
}

#[test]
fn a_value_that_returns_soon_after_it_left_stays() {
    let (cache, disk) = (BlockCache::new(400_000), Disk::default());
    let (old, once) = (data(&cache, 300), data(&cache, 30_000));
    // All protected values are old.
    for i in 0..300 {
        disk.load(&old, i, 1000);
        assert!(old.get(i, &pin()).is_some());
    }
    let mut next = 0;
    let mut load_others = |count: usize| {
        for _ in 0..count {
            disk.load(&once, next, 1000);
            next += 1;
        }
    };
    load_others(100);
    let returning = data(&cache, 1);
    disk.load(&returning, 0, 1000);
    // These loads are enough to evict the unused value. They are so few that its next load counts
    // as a return.
    load_others(200);
    assert!(returning.get(0, &pin()).is_none(), "probation is too long");
    disk.load(&returning, 0, 1000);
    load_others(200);
    assert!(returning.get(0, &pin()).is_some(), "treated as a new value");
    // A value that returns much later counts as new again.
    let late = data(&cache, 1);
    disk.load(&late, 0, 1000);
    load_others(5000);
    disk.load(&late, 0, 1000);
    load_others(200);
    assert!(late.get(0, &pin()).is_none());
}

#[test]
fn what_was_used_long_ago_leaves() {
    let (cache, disk) = (BlockCache::new(400_000), Disk::default());
    let (old, new) = (data(&cache, 300), data(&cache, 300));
    for i in 0..300 {
        disk.load(&old, i, 1000);
        assert!(old.get(i, &pin()).is_some());
    }
    // Now other blocks are loaded repeatedly. Each returns soon enough after its eviction to count
    // as used again.
    for _ in 0..20 {
        for i in 0..300 {
            wait_for_readers(&cache);
            disk.load(&new, i, 1000);
        }
    }
    assert!(resident(&new).len() > 240, "{} of the new are there", resident(&new).len());
}

/// While metadata fills the cache, a data block that was used since it entered the protected ring
/// moves to the ring of the metadata. When tables are closed, so that metadata no longer fills the
/// cache, the blocks in the ring of the metadata move back to the protected ring. In an earlier
/// version they stayed, and no other data could displace them.
#[test]
fn data_leaves_for_other_data_once_metadata_no_longer_fills_the_cache() {
    let (cache, disk) = (BlockCache::new(100_000), Disk::default());
    let (old, filters, new) = (data(&cache, 20), filters(&cache, 30), data(&cache, 200));
    let open_tables = open_tables(&cache, 200_000);
    assert!(cache.policy().metadata_fills());
    for i in 0..20 {
        drop(old.load(i, Keeping::Protected, || disk.read(i, 4000)).unwrap());
    }
    // The data was loaded as data that was used recently, so it is in the protected ring. Filters
    // that are used once displace it only slowly.
    for i in 0..30 {
        let used = resident(&old);
        disk.load(&filters, i, 4000);
        assert!(i > 3 || used.len() > 15, "{used:?}");
    }
    assert!(!resident(&old).is_empty());
    drop(open_tables);
    assert!(!cache.policy().metadata_fills());
    for i in (0..200).flat_map(|i| [i, i]) {
        disk.load(&new, i, 4000);
    }
    assert!(resident(&old).is_empty(), "{:?}", resident(&old));
}

#[test]
fn where_metadata_fills_the_cache_parts_in_use_stay() {
    let (cache, disk) = (BlockCache::new(100_000), Disk::default());
    let (used, new) = (filters(&cache, 10), filters(&cache, 100));
    let _open_tables = open_tables(&cache, 200_000);
    (0..10).for_each(|i| drop(disk.load(&used, i, 4000)));
    for i in 0..100 {
        wait_for_readers(&cache);
        assert_eq!(resident(&used).len(), 10, "at miss {i}");
        disk.load(&new, i, 4000);
    }
    assert!(resident(&new).len() > 5);
}

#[test]
fn metadata_outlives_data() {
    let (cache, disk) = (BlockCache::new(100_000), Disk::default());
    let (data, filters) = (data(&cache, 200), filters(&cache, 8));
    for i in 0..8 {
        disk.load(&filters, i, 5000);
    }
    for i in 0..200 {
        disk.load(&data, i, 4000);
    }
    assert_eq!(resident(&filters).len(), 8);
    // More metadata displaces all data first, then other metadata.
    let more = self::filters(&cache, 30);
    for i in 0..10 {
        wait_for_readers(&cache);
        disk.load(&more, i, 5000);
    }
    assert_eq!((resident(&filters).len(), resident(&more).len()), (8, 10));
    for i in 10..30 {
        disk.load(&more, i, 5000);
    }
    assert_eq!(cache.usage_of(BlockKind::Data).entries, 0);
    assert!(cache.usage() <= cache.capacity());
}

#[test]
fn data_displaces_metadata_that_nobody_uses_and_only_that() {
    let (cache, disk) = (BlockCache::new(100_000), Disk::default());
    let (data, filters) = (data(&cache, 1000), filters(&cache, 18));
    for i in 0..18 {
        disk.load(&filters, i, 5000);
    }
    // Between any two misses, half of the filters are used.
    for i in 0..1000 {
        for used in 0..9 {
            assert!(filters.get(used, &pin()).is_some(), "filter {used} left at miss {i}");
        }
        disk.load(&data, i, 8000);
    }
    // New data displaced filters that were not used, but only while data had less than an eighth of
    // the cache (`DATA_SHARE` in `eviction.rs`). Then it displaced older data.
    assert!((12..18).contains(&cache.usage_of(BlockKind::Filter).entries));
    assert!((2..6).contains(&cache.usage_of(BlockKind::Data).entries));
}

#[test]
fn what_does_not_fit_is_used_and_not_kept() {
    for capacity in [0, 3000] {
        let (cache, disk) = (BlockCache::new(capacity), Disk::default());
        let slots = data(&cache, 1);
        let value = disk.load(&slots, 0, 4000);
        assert!(!value.was_cached());
        assert!(slots.get(0, &pin()).is_none());
        assert_eq!((cache.usage(), disk.alive_bytes()), (0, 4000));
        drop(value);
        assert_eq!(disk.alive_bytes(), 0);
    }
}

#[test]
fn pinned_values_stay_whatever_the_capacity_is_and_take_the_room_of_others() {
    let (cache, disk) = (BlockCache::new(20_000), Disk::default());
    let pinned = Slots::new(&cache, 3, BlockKind::Index, true);
    let data = data(&cache, 100);
    let load_data = || {
        wait_for_readers(&cache);
        (0..100).for_each(|i| drop(disk.load(&data, i, 1000)));
        resident(&data).len()
    };
    (0..2).for_each(|i| drop(disk.load(&pinned, i, 8000)));
    assert!(load_data() > 0);
    assert!(cache.pinned_usage() > 16_000 && cache.usage() <= cache.capacity());
    disk.load(&pinned, 2, 8000);
    assert_eq!(load_data(), 0);
    assert_eq!(resident(&pinned), [0, 1, 2]);
    assert_eq!(cache.usage(), cache.pinned_usage());
    // A whole filter or index is pinned where metadata fills the cache.
    let whole = filters(&cache, 1);
    let _open_tables = open_tables(&cache, 200_000);
    drop(whole.load(0, cache.policy().keeping_of_metadata(true), || disk.read(0, 30_000)).unwrap());
    assert_eq!((resident(&whole), resident(&pinned).len()), (vec![0], 3));
    drop((whole, pinned));
    assert_eq!((cache.pinned_usage(), cache.usage_of(BlockKind::Index).entries), (0, 0));
}

#[test]
fn a_failed_load_leaves_the_slot_empty_and_the_next_one_tries_again() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let slots = data(&cache, 1);
    let failed: Result<Lease<'_, Block>, &str> =
        slots.load(0, Keeping::OnProbation, || Err("damaged"));
    assert_eq!(failed.err(), Some("damaged"));
    assert!(slots.get(0, &pin()).is_none());
    disk.load(&slots, 0, 10);
    assert!(slots.get(0, &pin()).is_some());
}

#[test]
fn a_panic_while_loading_does_not_block_later_loads() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let slots = data(&cache, 1);
    let load = || {
        slots.load(0, Keeping::OnProbation, || -> Result<(Block, usize), Infallible> {
            panic!("planned")
        })
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(load)).is_err());
    disk.load(&slots, 0, 10);
}

/// One thread reads a block, and another thread needs the same block and sleeps. Then the read
/// fails, or the reader panics. The sleeping thread must wake and load the block itself.
#[test]
fn who_waits_for_a_load_that_fails_loads_by_itself() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let slots = Arc::new(data(&cache, 2));
    for (i, fail) in [|| Err("damaged"), || panic!("planned")].into_iter().enumerate() {
        let fail: fn() -> Result<(Block, usize), &'static str> = fail;
        let (claimed, is_claimed) = std::sync::mpsc::channel();
        let theirs = Arc::clone(&slots);
        let failing = thread::spawn(move || {
            let load = || {
                let read = || {
                    claimed.send(()).unwrap();
                    while !theirs.is_awaited(i) {
                        thread::yield_now();
                    }
                    fail()
                };
                theirs.load(i, Keeping::OnProbation, read).map(|_| ())
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(load))
        });
        is_claimed.recv().unwrap();
        // The thread is not in a scope, because a scope would wait forever for a sleeper that is
        // never woken.
        let (loaded, is_loaded) = std::sync::mpsc::channel();
        let (slots, disk) = (Arc::clone(&slots), disk.clone());
        thread::spawn(move || {
            disk.load(&slots, i, 100);
            loaded.send(disk.reads()).unwrap();
        });
        let reads = is_loaded.recv_timeout(std::time::Duration::from_secs(30));
        assert_eq!(reads, Ok(i + 1), "sleeps on");
        assert!(!matches!(failing.join().unwrap(), Ok(Ok(()))));
    }
    assert_eq!(resident(&slots), [0, 1]);
}

#[test]
fn a_load_may_wait_for_loads_of_any_other_slots() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let slots = data(&cache, 100);
    let outer = slots.load(0, Keeping::OnProbation, || {
        for i in 1..100 {
            disk.load(&slots, i, 10);
        }
        disk.read(0, 10)
    });
    assert_eq!((outer.unwrap().id, resident(&slots).len()), (0, 100));
}

#[test]
fn concurrent_misses_on_one_slot_read_once() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let slots = data(&cache, 50);
    let together = std::sync::Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..50 {
                    together.wait();
                    disk.load(&slots, i, 100);
                }
            });
        }
    });
    assert_eq!(disk.reads(), 50);
}

#[test]
fn dropping_slots_frees_and_uncharges_their_values_at_once() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let (dropped, other) = (data(&cache, 200), data(&cache, 1));
    for i in 0..200 {
        disk.load(&dropped, i, 1000);
    }
    disk.load(&other, 0, 1000);
    let kept = disk.load(&dropped, 7, 1000);
    drop(dropped);
    // A value that a caller keeps outlives its slots.
    assert_eq!((disk.alive_bytes(), kept.id), (2000, 7));
    assert_eq!(cache.usage_of(BlockKind::Data).entries, 1);
    drop((kept, other));
    assert_eq!((disk.alive_bytes(), cache.usage()), (0, 0));
}

/// A value that, like a parsed index, owns the slots of its data blocks.
struct Index {
    data: Slots<Block>,
}

impl Cached for Index {
    type Ahead = ();
    type Link = ();
}

#[test]
fn data_leaves_in_portions_and_an_index_that_leaves_does_not_keep_the_cache() {
    let (cache, disk) = (BlockCache::new(4 << 20), Disk::default());
    let (blocks, indexes) = (data(&cache, 2000), Slots::new(&cache, 1, BlockKind::Index, false));
    let portion_bytes = portion_bytes(cache.capacity());
    let mut portions = 0;
    for i in 0..2000 {
        let before = lock(&cache.state).leaving.len();
        disk.load(&blocks, i, 4000);
        let state = lock(&cache.state);
        assert!(state.leaving_bytes <= portion_bytes);
        assert!(state.leaving.len() == before + 1 || before == 0 || state.leaving.is_empty());
        portions += usize::from(before > 0 && state.leaving.is_empty());
    }
    assert!((200..500).contains(&portions), "{portions}");
    let index = (Index { data: data(&cache, 10) }, 1000);
    drop(indexes.load(0, Keeping::OnProbation, || Ok::<_, Infallible>(index)).unwrap());
    drop(cache.reserve(cache.capacity()));
    assert!(indexes.get(0, &pin()).is_none());
    let weak = Arc::downgrade(&cache);
    drop((blocks, indexes, cache));
    while weak.upgrade().is_some() {
        collect();
        thread::yield_now();
    }
    disk.wait_until_nothing_is_alive();
}

#[test]
fn an_evicted_index_takes_its_data_blocks_along() {
    let (cache, disk) = (BlockCache::new(100_000), Disk::default());
    let indexes: Slots<Index> = Slots::new(&cache, 1, BlockKind::Index, false);
    let index = indexes
        .load(0, Keeping::OnProbation, || {
            Ok::<_, Infallible>((Index { data: data(&cache, 10) }, 1000))
        })
        .unwrap();
    for i in 0..10 {
        disk.load(&index.data, i, 1000);
    }
    drop(index);
    let filters = filters(&cache, 1);
    disk.load(&filters, 0, 99_000);
    assert!(indexes.get(0, &pin()).is_none());
    drop(filters);
    while cache.usage() > 0 {
        collect();
        thread::yield_now();
    }
    // Miss buffers may hold some of the data as spare values, which are dropped with the cache.
    drop((indexes, cache));
    disk.wait_until_nothing_is_alive();
}

#[test]
fn evicted_data_is_dropped_by_the_next_misses_one_by_one() {
    const BLOCK_BYTES: usize = 1000;
    const CAPACITY: usize = 4_000_000;
    let (cache, disk) = (BlockCache::new(CAPACITY), Disk::default());
    let blocks = if cfg!(miri) { 5_000 } else { 20_000 };
    let data = data(&cache, blocks);
    // Readers of concurrent tests keep garbage alive. Once they have ended, one load may drop all
    // of it. So only loads with little garbage are measured.
    let is_calm = || {
        let waiting_bytes = cache.miss_buffers.unused_bytes();
        let garbage_bytes = cache.garbage_bytes.load(Ordering::Relaxed);
        garbage_bytes + waiting_bytes <= portion_bytes(CAPACITY) * 2
    };
    let mut most_at_once = 0;
    for i in 0..blocks {
        let (before, was_calm) = (disk.alive_bytes(), is_calm());
        disk.load(&data, i, BLOCK_BYTES);
        if was_calm && is_calm() {
            let dropped = (before + BLOCK_BYTES) - disk.alive_bytes();
            most_at_once = most_at_once.max(dropped);
        }
    }
    assert!((1..=2 * BLOCK_BYTES).contains(&most_at_once), "{most_at_once} bytes");
    drop(data);
    assert!(cache.miss_buffers.unused_bytes() <= CAPACITY / 128);
    drop(cache);
    disk.wait_until_nothing_is_alive();
}

#[test]
fn threads_that_read_load_evict_and_close_meet_only_live_values() {
    meet_only_live_values(200_000, 4000);
    // The same check for values that go through miss buffers.
    meet_only_live_values(1 << 20, 200);
}

/// All data blocks together take twice the capacity, and all filters half of it.
fn meet_only_live_values(capacity: usize, block_bytes: usize) {
    let (cache, disk) = (BlockCache::new(capacity), Disk::default());
    let blocks = capacity / 8 / block_bytes * 2;
    let filter_bytes = capacity / 16;
    let rounds = if cfg!(miri) { 20 } else { 30_000 };
    let indexes: Slots<Index> = Slots::new(&cache, 8, BlockKind::Index, false);
    let filters = filters(&cache, 8);
    let worker = |seed: u64| {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut kept = None;
        for _ in 0..rounds {
            let (table, block) = (rng.random_range(0..8), rng.random_range(0..blocks));
            let guard = pin();
            if filters.get(table, &guard).is_none_or(|filter| filter.id != table) {
                disk.load(&filters, table, filter_bytes);
            }
            let index = match indexes.get(table, &guard) {
                Some(index) => index,
                None => indexes
                    .load(table, Keeping::OnProbation, || {
                        Ok::<_, Infallible>((Index { data: data(&cache, blocks) }, 500))
                    })
                    .unwrap(),
            };
            match index.data.get(block, &guard) {
                Some(found) => {
                    assert_eq!(found.id, block);
                    kept = Some(found.to_arc());
                }
                None => assert_eq!(disk.load(&index.data, block, block_bytes).id, block),
            }
            assert!(kept.as_ref().is_none_or(|kept| kept.id < blocks));
            if rng.random_range(0..1024) == 0 {
                // A table is opened, used and closed.
                let short_lived = data(&cache, blocks);
                disk.load(&short_lived, block, block_bytes);
            }
        }
    };
    thread::scope(|scope| {
        for seed in 1..=3 {
            scope.spawn(move || worker(seed));
        }
    });
    assert!(cache.usage() <= capacity);
    assert!(disk.reads() > rounds / 10, "the cache was too large to evict");
    drop((indexes, filters));
    while cache.usage() > 0 {
        collect();
        thread::yield_now();
    }
    // Miss buffers may hold some of the data as spare values, which are dropped with the cache.
    drop(cache);
    disk.wait_until_nothing_is_alive();
}

#[test]
fn a_reservation_displaces_what_no_longer_fits_and_gives_its_room_back() {
    let cache = BlockCache::new(100_000);
    let disk = Disk::default();
    let (data, filters) = (data(&cache, 10), filters(&cache, 10));
    for i in 0..4 {
        disk.load(&data, i, 10_000);
        disk.load(&filters, i, 10_000);
    }
    let first = cache.reserve(50_000);
    assert!(cache.usage() <= 100_000);
    assert_eq!(resident(&filters).len(), 4, "data leaves first");
    // Reservations above the capacity: all other values are evicted, and none is added.
    let second = cache.reserve(80_000);
    assert_eq!((cache.usage(), cache.pinned_usage()), (130_000, 0));
    disk.load(&filters, 5, 10);
    assert_eq!((resident(&data), resident(&filters)), (vec![], vec![]));
    drop((first, second));
    assert_eq!(cache.usage(), 0);
    disk.load(&filters, 5, 10_000);
    assert_eq!(resident(&filters), [5]);
}

/// Regression: in a cache of 231 KiB, lookups spent a seventh of their time on memory. Each miss of
/// a filter part allocated memory from the general allocator, cleared it, and freed the memory of
/// the evicted part. Now a miss uses the memory of evicted values.
#[test]
fn misses_of_a_small_cache_use_the_memory_of_evicted_values() {
    for kind in [BlockKind::Filter, BlockKind::Data] {
        let cache = BlockCache::new(231 << 10);
        let slots: Slots<LineBuf> = Slots::new(&cache, 1000, kind, false);
        let (mut reused, mut unused_bytes) = (0, 0);
        for i in 0..slots.len() {
            wait_for_readers(&cache);
            let lease = slots.load(i, Keeping::OnProbation, || {
                let mut buffer = cache.buffer(4_200);
                // Memory from the allocator is cleared, so a 7 shows that the memory was used
                // before.
                reused += usize::from(buffer[0] == 7);
                buffer[0] = 7;
                let bytes = buffer.memory_bytes();
                Ok::<_, Infallible>((buffer, bytes))
            });
            drop(lease);
            unused_bytes = unused_bytes.max(cache.unused_bytes());
        }
        assert!(reused > 800, "{kind:?}: {reused} of 1000");
        assert!(unused_bytes <= cache.capacity() / 16, "{kind:?}: {unused_bytes}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn memory_in_large_pages_stays_within_the_capacity_when_sizes_change() {
    let capacity = 64 << 20;
    let cache = BlockCache::new(capacity);
    let slots: Slots<LineBuf> = Slots::new(&cache, 80_000, BlockKind::Data, false);
    let unused_bytes = || cache.unused_bytes();
    let mut next = 0..slots.len();
    for (len, count) in [(4_000, 40_000), (11_000, 15_000), (900, 20_000), (70_000, 3_000)] {
        for i in next.by_ref().take(count) {
            wait_for_readers(&cache);
            let lease = slots.load(i, Keeping::OnProbation, || {
                let buffer = cache.buffer(len + i % 100);
                let bytes = buffer.memory_bytes();
                Ok::<_, Infallible>((buffer, bytes))
            });
            drop(lease);
            let garbage = cache.garbage_bytes.load(Ordering::Relaxed);
            // A value may take a new slab of the pool before the cache next makes room. So the
            // total may exceed the capacity by a slab and a value.
            let most_bytes = capacity + capacity / 64 + (2 << 20) + 80_000;
            assert!(cache.usage() + garbage + unused_bytes() <= most_bytes);
        }
        assert!(cache.usage() > capacity / 2, "{len}: {} {}", cache.usage(), unused_bytes());
    }
}

/// A cache of 64 MiB once held only 3 MiB: its pool had grown to the whole capacity, headers of
/// blocks and open tables came on top, and evicting blocks only created holes. Now the pool grows
/// only while all this memory fits into the capacity.
#[cfg(target_os = "linux")]
#[test]
fn memory_beside_the_pool_does_not_empty_the_cache() {
    let capacity = 64 << 20;
    let cache = BlockCache::new(capacity);
    let slots: Slots<LineBuf> = Slots::new(&cache, 200_000, BlockKind::Data, false);
    let load = |i: usize| {
        wait_for_readers(&cache);
        let lease = slots.load(i, Keeping::OnProbation, || {
            let buffer = cache.buffer(5_000 + i % 7 * 100);
            let bytes = buffer.memory_bytes() + 300;
            Ok::<_, Infallible>((buffer, bytes))
        });
        drop(lease);
    };
    let filters: Slots<LineBuf> = Slots::new(&cache, 200, BlockKind::Filter, false);
    let load_filter = |i: usize| {
        let load = || {
            let buffer = cache.buffer(1_000);
            let bytes = buffer.memory_bytes();
            Ok::<_, Infallible>((buffer, bytes))
        };
        drop(filters.load(i, Keeping::OnProbation, load));
    };
    // Fills the slabs with blocks of every age, and with filters, which stay.
    let churn = |from: usize| {
        for i in from..from + 60_000 {
            load(i);
            if i % 3 == 0 {
                load(i - i % 1000);
            }
            if i % 200 == 0 {
                load_filter(i / 200 % filters.len());
            }
        }
    };
    churn(0);
    assert!(cache.usage() > capacity / 16 * 15, "{}", cache.usage());
    let _tables = cache.reserve(8 << 20);
    churn(60_000);
    assert!(cache.usage() > capacity / 2, "{}", cache.usage());
}

/// A cache of 64 MiB was full of parts of filters. Then half of all keys were present, so that
/// lookups needed indexes too. Their parts have more memory outside of the pool, compared with their
/// bytes. They displaced filters until half of the cache was empty, and it stayed empty.
#[cfg(target_os = "linux")]
#[test]
fn parts_of_indexes_that_displace_parts_of_filters_leave_no_half_of_the_cache_empty() {
    let capacity = 64 << 20;
    let cache = BlockCache::new(capacity);
    let _open_tables = open_tables(&cache, 90 << 20);
    let filters: Slots<LineBuf> = Slots::new(&cache, 16_000, BlockKind::Filter, false);
    let indexes: Slots<LineBuf> = Slots::new(&cache, 16_000, BlockKind::Index, false);
    let load = |slots: &Slots<LineBuf>, i: usize, len: usize, outside: usize| {
        wait_for_readers(&cache);
        let load = || {
            let buffer = cache.buffer(len + i % 50);
            let bytes = buffer.memory_bytes() + outside;
            Ok::<_, Infallible>((buffer, bytes))
        };
        drop(slots.load(i, Keeping::OnProbation, load));
        slots.get(i, &pin());
    };
    (0..filters.len()).for_each(|i| load(&filters, i, 4_100, 50));
    assert!(cache.usage() > capacity / 16 * 15);
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..60_000 {
        load(&indexes, rng.random_range(0..indexes.len()), 1_000, 350);
        load(&filters, rng.random_range(0..filters.len()), 4_100, 50);
    }
    assert!(cache.usage_of(BlockKind::Index).entries > 5_000);
    assert!(cache.usage() > capacity / 16 * 15, "{} {}", cache.usage(), cache.unused_bytes());
}
