//! `get` and its kin: pin, load what the read sees, look up ([`crate::lookup`]), and show the value.
//!
//! **User code** may take any time, so [`get_with`] calls it under no guard. Meanwhile
//! [`Guard::lend`] keeps only the block or the memtable of the value alive.

use super::inner::reading::Reading;
use super::read_state::ReadState;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::lookup::{
    Found, InTable, Lookups, Observer, OutcomeNote, Scope, Unfinished, Walk, find_in_memtables,
};
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, Held, pin};
use crate::table::LookupKey;

/// Returns the value of `key`. `snapshot` is the sequence number of a snapshot, or `None` for the
/// last visible write.
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

pub(super) fn contains_key(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
) -> Result<bool> {
    Ok(lookup(reading, key, snapshot, Ignore)?.is_some())
}

/// The lookup that all calls share. Some lookups are recorded, if the user wants that.
#[inline(always)]
pub(super) fn lookup<V: Visit>(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
    visit: V,
) -> Result<Option<V::Out>> {
    if reading.recorder.draws() {
        return recorded(reading, key, snapshot, visit);
    }
    observed(reading, key, snapshot, Observer::NONE, visit)
}

/// A lookup that is recorded.
#[cold]
#[inline(never)]
fn recorded<V: Visit>(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
    visit: V,
) -> Result<Option<V::Out>> {
    let note = OutcomeNote::default();
    let value = observed(reading, key, snapshot, Observer::new(&note), visit)?;
    reading.recorder.add(key, note.outcome(value.is_some()), reading.counters());
    Ok(value)
}

/// A lookup that reports every stage to `observer`, which [`explain`](super::explain) has. `visit`
/// is the last to use the guard, so [`Lend`] can end the guard's protection before it calls user
/// code.
#[inline(always)]
pub(super) fn observed<V: Visit>(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
    observer: Observer<'_>,
    mut visit: V,
) -> Result<Option<V::Out>> {
    let guard = pin();
    let (held, sequence) = reading.load_read_point(snapshot, &guard);
    visit.begin(&held, sequence);
    let sources = &held.get().sources;
    let tickers = reading.counters().on_thread(&guard);
    let scope = &Scope { guard: &guard, tickers, observer };
    let key = &LookupKey::new(key, sequence);
    observer.tell(|it| it.started(key, sources));
    if sources.has_entries_in_memory()
        && let Some(entry) = find_in_memtables(sources, key, scope)?
    {
        tickers.add(Ticker::NumberKeysRead, 1);
        return Ok(entry.map(|value| visit.visit(ValueRef::Memtable(value, &guard))));
    }
    tickers.count([Ticker::NumberKeysRead, Ticker::MemtableMiss]);
    let version = &*sources.version;
    if version.is_mixed() {
        let unfinished = Unfinished::in_mixed(sources);
        drop(guard);
        return finish(unfinished, key, tickers, observer, visit);
    }
    let Some(mut walk) = Walk::new(version, 0, key) else {
        observer.tell(|it| it.all_runs_passed(version));
        return Ok(None);
    };
    walk.prefetch(key, &guard);
    while let Some(candidate) = walk.next(key, scope) {
        // `ref`, because moving the entry would cost a lookup ten instructions.
        match candidate.search(key, scope) {
            Ok(InTable::Absent) if candidate.end(scope) => return Ok(None),
            Ok(InTable::Absent) => {}
            Ok(InTable::Found(ref found)) => {
                let is_live = candidate.end_with(found, key, scope)?;
                return Ok(is_live.then(|| visit.visit(ValueRef::Block(found, &guard))));
            }
            Err(error) => return Err(error),
            Ok(InTable::Needs(need, filter)) => {
                let unfinished = Unfinished::in_file(sources, candidate.run, need, filter);
                drop(guard);
                return finish(unfinished, key, tickers, observer, visit);
            }
        }
    }
    Ok(None)
}

/// Ends a lookup that reads, and visits the value that it finds. Not inlined, so that the code of
/// lookups in memory stays small.
#[cold]
#[inline(never)]
fn finish<V: Visit>(
    mut unfinished: Unfinished,
    key: &LookupKey<'_>,
    tickers: ThreadTickers<'_>,
    observer: Observer<'_>,
    visit: V,
) -> Result<Option<V::Out>> {
    let found = unfinished.run(key, tickers, observer)?;
    Ok(found.map(|found| {
        let out = visit.visit(ValueRef::Read(&found));
        unfinished.recycle(found);
        out
    }))
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
    let recorded = reading.recorder.draw(keys.len());
    if !recorded.is_empty() {
        lookups.note_outcomes();
    }
    let scope = Scope::new(&guard, tickers);
    let is_unfinished = lookups.begin(&held.get().sources, sequence, &scope)?;
    let kept = is_unfinished.then(|| held.to_arc());
    drop(guard);
    if let Some(kept) = kept {
        lookups.read_and_finish(&kept.sources, reading.overlapped(), tickers)?;
    }
    for i in recorded {
        reading.recorder.add(keys[i].as_ref(), lookups.outcome(i), reading.counters());
    }
    Ok(lookups.into_values())
}

/// A value where it was found. A guard, or the block that was read, keeps it alive.
pub(super) enum ValueRef<'a> {
    Memtable(&'a [u8], &'a Guard),
    Block(&'a Found<'a>, &'a Guard),
    Read(&'a Found<'static>),
}

/// What a lookup does with the value that it finds.
pub(super) trait Visit {
    type Out;

    /// Called first, with what the lookup reads.
    #[inline(always)]
    fn begin(&mut self, _state: &Held<'_, ReadState>, _sequence: SequenceNumber) {}

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
pub(super) struct ToSlice;

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
        // is freed by retirement, and its `Retired::memory_at` finds the memtable. A block is
        // retired when the cache evicts it, or passed to `drop_at_once` when the array of cache
        // slots that it is in is dropped. In both cases `Retired::memory_at` finds the block.
        unsafe { guard.lend(value, read) }
    }
}
