//! `get` and its kin: pin, load what the read sees, look up ([`crate::lookup`]), and show the value.
//!
//! **User code** may take any time, so [`get_with`] calls it under no guard. Meanwhile
//! [`Guard::lend`] keeps only the block or the memtable of the value alive.

use super::inner::reading::Reading;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::lookup::{Found, Lookups, Outcome, find};
use crate::slice::Slice;
use crate::stats::Ticker;
use crate::sync::{Guard, pin};
use crate::table::LookupKey;

/// Returns the value of `key`. `snapshot` is the sequence number of a snapshot, or `None` for the
/// last visible write.
#[inline]
pub(super) fn get(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
) -> Result<Option<Slice>> {
    lookup(reading, key, snapshot, ToSlice)
}

#[inline]
pub(super) fn get_with<R>(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
    read: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>> {
    lookup(reading, key, snapshot, Lend(read))
}

#[inline]
pub(super) fn contains_key(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
) -> Result<bool> {
    Ok(lookup(reading, key, snapshot, Ignore)?.is_some())
}

/// The lookup that all calls share. `visit` is the last to use the guard, so [`Lend`] can end the
/// guard's protection before it calls user code.
#[inline]
fn lookup<V: Visit>(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
    visit: V,
) -> Result<Option<V::Out>> {
    let guard = pin();
    let (held, sequence) = reading.load_read_point(snapshot, &guard);
    let sources = &held.get().sources;
    let tickers = reading.counters().on_thread(&guard);
    let key = LookupKey::new(key, sequence);
    match find(sources, &key, &guard, tickers)? {
        Outcome::Absent => Ok(None),
        Outcome::InMemtable(value) => Ok(Some(visit.visit(ValueRef::Memtable(value, &guard)))),
        Outcome::InBlock(found) => Ok(Some(visit.visit(ValueRef::Block(&found, &guard)))),
        Outcome::Unfinished(unfinished) => {
            let mut continued = unfinished.keep(sources);
            drop(guard);
            let found = continued.run(&key, tickers)?;
            Ok(found.map(|found| {
                let out = visit.visit(ValueRef::Read(&found));
                continued.recycle(found);
                out
            }))
        }
    }
}

/// The values of `keys`, in their order.
pub(super) fn multi_get<K: AsRef<[u8]>>(
    reading: &Reading,
    keys: &[K],
    snapshot: Option<SequenceNumber>,
) -> Result<Vec<Option<Slice>>> {
    let mut lookups = Lookups::new(keys);
    let guard = pin();
    let (held, sequence) = reading.load_read_point(snapshot, &guard);
    let tickers = reading.counters().on_thread(&guard);
    tickers.add(Ticker::NumberMultigetCalls, 1);
    tickers.add(Ticker::NumberMultigetKeysRead, keys.len() as u64);
    // A mixed version, in which several tables of a level may hold the same key, has no runs to
    // search.
    if held.get().sources.version.is_mixed() {
        drop(guard);
        return keys.iter().map(|key| get(reading, key.as_ref(), Some(sequence))).collect();
    }
    if lookups.begin(&held.get().sources, sequence, &guard, tickers)? {
        let kept = held.to_arc();
        drop(guard);
        lookups.read_and_finish(&kept.sources, reading.overlapped(), tickers)?;
    }
    Ok(lookups.into_values())
}

/// A value where it was found. A guard, or the block that was read, keeps it alive.
enum ValueRef<'a> {
    Memtable(&'a [u8], &'a Guard),
    Block(&'a Found<'a>, &'a Guard),
    Read(&'a Found<'static>),
}

/// What a lookup does with the value that it finds.
trait Visit {
    type Out;

    fn visit(self, value: ValueRef<'_>) -> Self::Out;
}

/// The visitor of a lookup that only needs to know whether the key exists.
struct Ignore;

impl Visit for Ignore {
    type Out = ();

    #[inline(always)]
    fn visit(self, _value: ValueRef<'_>) {}
}

/// Returns the value as a [`Slice`] that shares its block. A value in a memtable is copied, because
/// otherwise the whole memtable would live as long as the value.
struct ToSlice;

impl Visit for ToSlice {
    type Out = Slice;

    #[inline(always)]
    fn visit(self, value: ValueRef<'_>) -> Slice {
        match value {
            ValueRef::Memtable(value, _) => Slice::copy_from(value),
            ValueRef::Block(found, _) => found.value_slice(),
            ValueRef::Read(found) => found.value_slice(),
        }
    }
}

/// Calls user code with the value, under no guard.
struct Lend<F>(F);

impl<R, F: FnOnce(&[u8]) -> R> Visit for Lend<F> {
    type Out = R;

    #[inline(always)]
    fn visit(self, value: ValueRef<'_>) -> R {
        let Lend(read) = self;
        let (value, guard) = match value {
            ValueRef::Memtable(value, guard) => (value, guard),
            ValueRef::Block(found, guard) => (found.value(), guard),
            ValueRef::Read(found) => return read(found.value()),
        };
        // SAFETY: a lookup is called under no guard and takes one, so this is the thread's only
        // one. After `visit` the lookup uses nothing that it reached under the guard. A memtable
        // lives at least as long as the read state of this lookup, which owns it. This read state
        // is freed by retirement, and its `Retired::part_at` finds the memtable. A block is retired
        // when the cache evicts it, or passed to `drop_at_once` when the array of cache slots that
        // it is in is dropped. In both cases `Retired::part_at` finds the block.
        unsafe { guard.lend(value, read) }
    }
}
