//! loom models: readers, loaders, evictions and closing, in every interleaving.

use std::convert::Infallible;

use loom::thread;

use super::list::{Link, ResidentList};
use super::policy::Keeping;
use super::slots::{Cached, Lease, Slots};
use super::*;
use crate::sync::canary::Canary;
use crate::sync::{check_model, collect, pin};

impl Cached for Canary {
    type Ahead = ();
    type Link = Link<Canary>;
}

/// The cache of `cache_for_one` holds one value of this size, but not two.
const VALUE_BYTES: usize = 1 << 20;

fn cache_for_one() -> Arc<BlockCache> {
    // Creates the process-wide state before the threads start.
    collect();
    BlockCache::new(VALUE_BYTES * 3 / 2)
}

fn slots(cache: &Arc<BlockCache>, count: usize) -> Arc<Slots<Canary>> {
    Arc::new(Slots::new(cache, count, BlockKind::Data, false))
}

fn load(slots: &Slots<Canary>, i: usize) -> Lease<'static, Canary> {
    slots
        .load(i, Keeping::OnProbation, || Ok::<_, Infallible>((Canary::new(i as u64), VALUE_BYTES)))
        .unwrap()
}

fn load_listed(list: &ResidentList<Canary>, number: u32) {
    let value = || Ok::<_, Infallible>((Canary::new(u64::from(number)), VALUE_BYTES));
    drop(list.load(number, Keeping::Protected, value).unwrap());
}

fn get(slots: &Slots<Canary>, i: usize) {
    let guard = pin();
    if let Some(lease) = slots.get(i, &guard) {
        lease.touch();
        assert_eq!(lease.id, i as u64);
    }
}

#[test]
fn loom_a_reader_never_meets_a_value_that_eviction_dropped() {
    check_model(|| {
        let cache = cache_for_one();
        let slots = slots(&cache, 2);
        load(&slots, 0);
        let reader = thread::spawn({
            let slots = slots.clone();
            move || get(&slots, 0)
        });
        load(&slots, 1);
        reader.join().unwrap();
        assert!(slots.get(0, &pin()).is_none());
    });
}

#[test]
fn loom_two_threads_that_miss_read_once() {
    check_model(|| {
        let cache = cache_for_one();
        let slots = slots(&cache, 1);
        let reads = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let read = |slots: &Slots<Canary>, reads: &std::sync::atomic::AtomicUsize| {
            let lease = slots.load(0, Keeping::OnProbation, || {
                reads.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>((Canary::new(0), VALUE_BYTES))
            });
            lease.unwrap().touch();
        };
        let other = thread::spawn({
            let (slots, reads) = (slots.clone(), reads.clone());
            move || read(&slots, &reads)
        });
        read(&slots, &reads);
        other.join().unwrap();
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    });
}

/// Two calls of `multi_get` have read the same blocks. Each call adds the blocks to the cache one
/// by one, and keeps a lease of each.
#[test]
fn loom_two_batches_that_load_the_same_blocks_in_opposite_order_both_end() {
    check_model(|| {
        collect();
        // The cache is so large that nothing is evicted, because evictions would make this model
        // long. Other models cover them.
        let cache = BlockCache::new(4 * VALUE_BYTES);
        let slots = slots(&cache, 2);
        let batch = |slots: &Slots<Canary>, first: usize| {
            let leases = [load(slots, first), load(slots, 1 - first)];
            leases.iter().for_each(|lease| lease.touch());
            leases
        };
        let other = thread::spawn({
            let slots = slots.clone();
            move || batch(&slots, 1)
        });
        let own = batch(&slots, 0);
        // This thread drops all leases after the join, so both threads have used the values before
        // a value is dropped.
        drop((own, other.join().unwrap()));
    });
}

/// Drops what `closing` makes, slots or a list that hold one value, while another load evicts this
/// value.
fn close_beside_an_eviction<T: Send + 'static>(closing: impl FnOnce(&Arc<BlockCache>) -> T) {
    let cache = cache_for_one();
    let (closing, staying) = (closing(&cache), slots(&cache, 1));
    let closer = thread::spawn(move || drop(closing));
    load(&staying, 0);
    closer.join().unwrap();
    assert_eq!(cache.usage_of(BlockKind::Data).entries, 1);
    drop(staying);
    assert_eq!(cache.usage(), 0);
}

#[test]
fn loom_eviction_and_the_closing_of_the_same_slots_free_a_value_once() {
    check_model(|| {
        close_beside_an_eviction(|cache| {
            let closing = slots(cache, 1);
            load(&closing, 0);
            closing
        });
    });
}

#[test]
fn loom_two_evictions_beside_a_reader_leave_the_charge_of_one_value() {
    check_model(|| {
        let cache = cache_for_one();
        let slots = slots(&cache, 2);
        let loader = thread::spawn({
            let slots = slots.clone();
            move || drop(load(&slots, 0))
        });
        load(&slots, 1);
        get(&slots, 0);
        loader.join().unwrap();
        assert_eq!(cache.usage_of(BlockKind::Data).entries, 1);
    });
}

/// A list of two values, of which the load of a third one evicts one while another thread walks the
/// list. The list has values before the threads start, because loom does not see the `OnceLock` in
/// which a list allocates its first pointer.
#[test]
fn loom_a_reader_of_a_list_never_meets_a_value_that_eviction_dropped() {
    check_model(|| {
        collect();
        let cache = BlockCache::new(VALUE_BYTES * 5 / 2);
        let list = Arc::new(ResidentList::new(&cache));
        let load = |number| load_listed(&list, number);
        (0..2).for_each(load);
        let reader = thread::spawn({
            let list = list.clone();
            move || {
                let guard = pin();
                if let Some(lease) = list.get(0, &guard) {
                    lease.touch();
                    assert_eq!(lease.id, 0);
                }
            }
        });
        load(2);
        reader.join().unwrap();
        assert_eq!(list.len(&pin()), 2);
        drop(list);
        assert_eq!(cache.usage(), 0);
    });
}

#[test]
fn loom_eviction_and_the_closing_of_a_list_free_a_value_once() {
    check_model(|| {
        close_beside_an_eviction(|cache| {
            let closing = ResidentList::new(cache);
            load_listed(&closing, 0);
            closing
        });
    });
}

/// A value in a miss buffer must move to a ring before it can be evicted. A reservation as large as
/// the cache causes both, while another thread reads the value.
#[test]
fn loom_a_reader_never_meets_a_value_that_came_through_a_lane_and_was_dropped() {
    check_model(|| {
        collect();
        let cache = BlockCache::new(16 << 20);
        // Five values are enough for a portion of garbage.
        let (slots, closing) = (slots(&cache, 5), slots(&cache, 1));
        for i in 0..5 {
            let value = || Ok::<_, Infallible>((Canary::new(i as u64), 7000));
            drop(slots.load(i, Keeping::OnProbation, value).unwrap());
        }
        assert!(cache.fresh_usage().entries > 0);
        let reader = thread::spawn({
            let slots = slots.clone();
            move || get(&slots, 4)
        });
        drop(closing);
        drop(cache.reserve(16 << 20));
        reader.join().unwrap();
        assert!(slots.get(4, &pin()).is_none());
        assert_eq!(lock(&cache.state).leaving_bytes, 0);
    });
}

#[test]
fn loom_a_fresh_value_and_the_closing_of_other_slots_leave_its_charge_once() {
    check_model(|| {
        collect();
        let cache = BlockCache::new(16 << 20);
        let (staying, closing) = (slots(&cache, 1), slots(&cache, 1));
        let closer = thread::spawn(move || drop(closing));
        let small = staying
            .load(0, Keeping::OnProbation, || Ok::<_, Infallible>((Canary::new(0), 100)))
            .unwrap();
        assert!(small.resident().was_cached());
        closer.join().unwrap();
        assert_eq!(cache.usage(), small.resident().charge_bytes());
        get(&staying, 0);
        drop((small, staying));
        assert_eq!(cache.usage(), 0);
    });
}
