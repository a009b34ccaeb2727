//! Repeats for values in miss buffers the checks that the other tests make for values in rings.

use super::*;

/// A miss buffer of a cache of this size has room for 64 KiB.
const CAPACITY: usize = 32 << 20;

fn fresh_entries(cache: &BlockCache) -> usize {
    cache.fresh_usage().entries
}

#[test]
fn a_fresh_value_is_found_and_charged_and_goes_with_its_slots() {
    let (cache, disk) = (BlockCache::new(CAPACITY), Disk::default());
    let (slots, others) = (data(&cache, 5), data(&cache, 5));
    let charges: usize = (0..5).map(|i| disk.load(&slots, i, 1000 + i).charge_bytes()).sum();
    assert_eq!(fresh_entries(&cache), 5);
    assert_eq!((cache.usage(), resident(&slots).len()), (charges, 5));
    assert_eq!(cache.usage_of(BlockKind::Data), KindUsage { entries: 5, bytes: charges });
    let kept = disk.load(&slots, 3, 1000);
    assert!(kept.was_cached());
    assert_eq!(disk.reads(), 5);
    disk.load(&others, 0, 1000);
    drop(slots);
    assert_eq!((disk.alive_bytes(), kept.id), (1003 + 1000, 3));
    assert_eq!(cache.usage_of(BlockKind::Data).entries, 1);
    drop((kept, others));
    assert_eq!((disk.alive_bytes(), cache.usage()), (0, 0));
}

#[test]
fn slots_that_go_take_what_is_in_a_lane() {
    let (cache, disk) = (BlockCache::new(CAPACITY), Disk::default());
    let slots = data(&cache, 1);
    disk.load(&slots, 0, 1000);
    assert_eq!(fresh_entries(&cache), 1);
    drop(slots);
    assert_eq!((cache.usage(), fresh_entries(&cache)), (0, 0));
}

#[test]
fn miss_buffers_take_small_data_only() {
    let (cache, disk) = (BlockCache::new(CAPACITY), Disk::default());
    let (data, filters) = (data(&cache, 2), filters(&cache, 1));
    disk.load(&filters, 0, 1000);
    disk.load(&data, 0, 20_000);
    assert_eq!(fresh_entries(&cache), 0);
    disk.load(&data, 1, 1000);
    assert_eq!(fresh_entries(&cache), 1);
    assert_eq!((resident(&data).len(), resident(&filters).len()), (2, 1));
}

#[test]
fn values_that_lost_their_room_while_they_waited_leave_their_slots() {
    let (cache, disk) = (BlockCache::new(CAPACITY), Disk::default());
    let slots = data(&cache, 200);
    for i in 0..3 {
        disk.load(&slots, i, 1000);
    }
    let all = cache.reserve(CAPACITY);
    assert_eq!((cache.usage(), resident(&slots)), (CAPACITY, vec![]));
    // While the reservation takes all room, no loaded value is kept, not even in a miss buffer.
    for i in 0..200 {
        disk.load(&slots, i, 1000);
        assert_eq!(cache.usage(), CAPACITY);
    }
    assert_eq!(resident(&slots), [0; 0]);
    drop(all);
    disk.load(&slots, 7, 1000);
    assert_eq!(resident(&slots), [7]);
    drop(slots);
    drop(cache);
    disk.wait_until_nothing_is_alive();
}

/// Threads that miss at the same time use different miss buffers. Together they still fill nearly
/// the whole cache, and never exceed its capacity.
#[test]
fn threads_with_miss_buffers_of_their_own_fill_the_cache_and_stay_within_it() {
    const BLOCKS: usize = 40_000;
    let (cache, disk) = (BlockCache::new(CAPACITY), Disk::default());
    let threads = 4;
    let blocks = if cfg!(miri) { 400 } else { BLOCKS };
    let slots = data(&cache, threads * blocks);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (slots, cache, disk) = (&slots, &cache, &disk);
            scope.spawn(move || {
                for i in thread * blocks..(thread + 1) * blocks {
                    disk.load(slots, i, 1000 + i % 2000);
                    assert!(cache.usage() <= CAPACITY);
                }
            });
        }
    });
    if cfg!(miri) {
        return;
    }
    assert!(cache.usage() > CAPACITY / 10 * 9, "{}", cache.usage());
    assert_eq!(cache.usage_of(BlockKind::Data).entries, resident(&slots).len());
    drop((slots, cache));
    disk.wait_until_nothing_is_alive();
}

/// A miss in a full cache takes the memory of an evicted block instead of allocating memory.
#[test]
fn the_next_block_gets_the_memory_of_an_evicted_one() {
    let cache = BlockCache::new(CAPACITY);
    let slots: Slots<LineBuf> = Slots::new(&cache, 30_000, BlockKind::Data, false);
    let mut addresses = std::collections::BTreeSet::new();
    let mut reused = 0;
    for i in 0..slots.len() {
        wait_for_readers(&cache);
        let load = || {
            let before = cache.miss_buffers.unused_bytes();
            let buffer = cache.buffer(4_000);
            let is_reused = cache.miss_buffers.unused_bytes() < before;
            reused += usize::from(is_reused && addresses.contains(&buffer.as_ptr().addr()));
            addresses.insert(buffer.as_ptr().addr());
            let bytes = buffer.memory_bytes();
            Ok::<_, Infallible>((buffer, bytes))
        };
        drop(slots.load(i, Keeping::OnProbation, load).unwrap());
    }
    // The cache is full after 7,700 blocks, and later blocks can reuse memory. Not all do: if a
    // thread of another test collects the garbage of this test, that thread's miss buffer keeps the
    // memory.
    assert!(reused > 15_000, "{reused}");
}
