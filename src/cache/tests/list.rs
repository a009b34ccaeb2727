//! Tests of [`ResidentList`].

use super::*;
use crate::cache::list::{Link, ResidentList};

/// A block that can be in a list.
struct Listed(Block);

impl Cached for Listed {
    type Ahead = ();
    type Link = Link<Listed>;
}

fn load(
    list: &ResidentList<Listed>,
    disk: &Disk,
    number: u32,
    bytes: usize,
) -> Arc<Resident<Listed>> {
    let read = || disk.read(number as usize, bytes).map(|(block, bytes)| (Listed(block), bytes));
    let lease = list.load(number, Keeping::Protected, read).unwrap();
    assert_eq!(lease.0.id, number as usize);
    lease.to_arc()
}

/// The numbers of the residents.
fn listed(list: &ResidentList<Listed>) -> Vec<u32> {
    let guard = pin();
    let is_there = |&number: &u32| {
        let found = list.borrow(number, &guard);
        assert!(found.is_none_or(|found| found.0.id == number as usize));
        found.is_some()
    };
    let numbers: Vec<u32> = (0..10).filter(is_there).collect();
    assert_eq!(numbers.len(), list.len(&guard));
    numbers
}

#[test]
fn values_are_found_by_their_number_read_once_and_charged() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let list = ResidentList::new(&cache);
    assert_eq!((listed(&list), cache.usage()), (vec![], 0));
    for number in [7, 0, 3] {
        load(&list, &disk, number, 4000);
    }
    assert_eq!(listed(&list), [0, 3, 7]);
    let usage = cache.usage_of(BlockKind::Data);
    assert_eq!((usage.entries, usage.bytes), (3, cache.usage()));
    assert!((12_000..12_600).contains(&usage.bytes), "{usage:?}");
    load(&list, &disk, 3, 4000);
    assert_eq!(disk.reads(), 3, "the block was in memory");
}

#[test]
fn any_value_can_be_evicted_and_the_others_stay() {
    for evicted in [7, 0, 3] {
        let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
        let list = ResidentList::new(&cache);
        let values = [7, 0, 3].map(|number| load(&list, &disk, number, 4000));
        let guard = pin();
        let read = list.borrow(evicted, &guard).unwrap();
        let gone = {
            let mut state = lock(&cache.state);
            state.evict_now(read);
            state.evict_now(list.borrow(if evicted == 3 { 7 } else { 3 }, &guard).unwrap());
            cache.take_evicted(&mut state)
        };
        cache.retire(gone);
        assert_eq!(listed(&list), [if evicted == 0 { 7 } else { 0 }]);
        assert_eq!(read.0.id, evicted as usize, "a reader may still use it");
        drop((guard, values));
        load(&list, &disk, evicted, 4000);
        assert_eq!(listed(&list).len(), 2);
        assert_eq!(disk.reads(), 4);
    }
}

/// Regression: the first pointer was in the list itself, so an eviction wrote to its old place.
#[test]
fn a_list_can_move_while_it_has_values() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let list = ResidentList::new(&cache);
    let values = [1, 2].map(|number| load(&list, &disk, number, 4000));
    let moved = Box::new(list);
    let gone = {
        let mut state = lock(&cache.state);
        state.evict_now(&*values[1]);
        cache.take_evicted(&mut state)
    };
    cache.retire(gone);
    assert_eq!(listed(&moved), [1]);
}

#[test]
fn a_list_that_is_dropped_frees_its_values_at_once() {
    let (cache, disk) = (BlockCache::new(1 << 20), Disk::default());
    let (list, other) = (ResidentList::new(&cache), ResidentList::new(&cache));
    load(&list, &disk, 1, 1000);
    let kept = load(&list, &disk, 2, 1000);
    load(&other, &disk, 1, 1000);
    drop(list);
    assert_eq!((disk.alive_bytes(), kept.0.id), (2000, 2));
    assert_eq!(cache.usage_of(BlockKind::Data).entries, 1);
    drop((kept, other));
    assert_eq!((disk.alive_bytes(), cache.usage()), (0, 0));
}

#[test]
fn a_value_that_does_not_fit_is_used_and_not_kept() {
    let (cache, disk) = (BlockCache::new(10_000), Disk::default());
    let list = ResidentList::new(&cache);
    let value = load(&list, &disk, 1, 20_000);
    assert!(!value.was_cached() && listed(&list).is_empty());
    assert_eq!(cache.usage(), 0);
}

/// Threads read, load and evict the values of the same lists, and drop lists, while each finds only
/// the values that it looks up.
#[test]
fn threads_that_read_load_evict_and_drop_meet_only_live_values() {
    let rounds = if cfg!(miri) { 20 } else { 2000 };
    let (cache, disk) = (BlockCache::new(30_000), Disk::default());
    let lists: Vec<ResidentList<Listed>> = (0..3).map(|_| ResidentList::new(&cache)).collect();
    thread::scope(|scope| {
        for seed in 0..3 {
            let (cache, disk, lists) = (&cache, &disk, &lists);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed);
                for round in 0..rounds {
                    let list = &lists[rng.random_range(0..lists.len())];
                    let number = rng.random_range(0..5);
                    let guard = pin();
                    let found = list.get(number, &guard);
                    let is_there = found.is_some_and(|found| {
                        assert_eq!(found.0.id, number as usize);
                        true
                    });
                    drop(guard);
                    if !is_there {
                        load(list, disk, number, 4000);
                    }
                    if round % 10 == 0 {
                        let own = ResidentList::new(cache);
                        load(&own, disk, number, 4000);
                    }
                }
            });
        }
    });
    assert!(cache.usage() <= cache.capacity());
    drop(lists);
    assert_eq!(cache.usage(), 0);
    drop(cache);
    disk.wait_until_nothing_is_alive();
}
