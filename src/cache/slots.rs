//! Slots: through a slot, a reader reaches a resident value by one load, without a hash table, lock
//! or fence.
//!
//! The cache owns the values, and the user of the values owns the [`Slots`]: a table has one for
//! its filter and one for its index, and a parsed index has one with a slot for each data block.
//! All slots start empty. [`Slots::get`] finds a resident value. [`Slots::load`] loads a value
//! once, however many threads miss it at the same moment.
//!
//! ```text
//!   Slots.array  [ stamp · | pointer ahead | claim · | ... ]   an odd number is no pointer: the slot
//!                             │       └─► lines to fetch          is empty, or being filled
//!                  Arc<Resident<T>> ── owned by a ring of the cache; after eviction by the
//!                                        garbage, until no guard can reach it
//! ```
//!
//! *Ahead* is the address of the memory that every use of a data block reads first. It is stored
//! next to the pointer, so that the processor's cache misses of this memory and of the
//! [`Resident`], which holds the block, overlap. Filters and indexes have no such memory, because
//! what a lookup reads of them depends on its key. Their slots are only the pointer. The address is
//! used only to prefetch, so an outdated one costs a useless fetch and does no other harm.
//!
//! A thread that fills a slot first *claims* it by setting a bit in the slot, whose cache line the
//! thread writes anyway. A lock would be in another cache line, which threads that fill other slots
//! also write. A thread that finds the slot claimed sets another bit there, and sleeps until it is
//! woken.
//!
//! ```text
//!   empty ──► claimed ─────► full          bits of an odd number: 1, claimed, awaited, stamp
//!     ▲          │ ▲          │
//!     │          ▼ │          │
//!     ├──── claimed, awaited ─┤            the end of the claim wakes all waiting threads
//!     └───────────────────────┘ eviction
//! ```
//!
//! A value in use is kept alive by the guard of a lookup (`sync/reclaim/mod.rs`), by the `Arc` of a
//! cursor (`table/block/pinned.rs`), or by the `Slice` of a caller who keeps the value
//! (`slice.rs`). The values that a caller gets from a memtable and the keys that it gets from an
//! iterator are copies, so nothing has to keep the originals alive.
//!
//! Why a reader's pointer is valid. The reader loaded it from a slot under a guard, and:
//! 1. a slot holds a pointer only while a ring or a miss buffer of the cache owns a strong count of
//!    the value;
//! 2. eviction empties the slot and *retires* that count, so the count is dropped only after the
//!    guard was dropped;
//! 3. dropping the `Slots` drops the rings' counts without waiting for guards, because no reader
//!    has a pointer from these slots any more. What [`Slots::get`] returns to a reader, a
//!    [`Lease`], borrows the `Slots`, and `Slots::drop` needs `&mut self`, so all such leases have
//!    ended. A lookup does not lose its `Slots`: its guard keeps the read state alive, and with it
//!    the version, the tables and their `Slots`.
//!
//! User code may read a value without a guard (`sync/reclaim/lending.rs`). Before a value is
//! dropped as in 2 or 3, [`Cached::holds`] tells whether an address that user code reads is in the
//! value. If so, the value is kept until the user code has read it.
//!
//! An evicted index is retired like any other value. Dropping the index drops its `Slots`, which
//! removes the data blocks of that index from the cache. So the cache keeps a block no longer than
//! its index, and an index no longer than its table: no block of a deleted file stays in the cache.
//!
//! Why the cache may write to a slot. A resident knows its slot by address. It owns no count of the
//! array, because a value that a user keeps would then keep the whole array alive. The cache
//! follows the address only under its mutex and while a ring or a miss buffer owns the resident.
//! Before the array is freed, `Slots::drop` empties the miss buffers, and takes the residents out
//! of the rings under that mutex.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::memory::{LINE_BYTES, LineArray, LineBuf, prefetch};
use crate::slice::StableBytes;
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::{self, Guard, OwnedMemory, Retired, lock, pin};

use super::kind::BlockKind;
use super::policy::Keeping;
use super::ring::{CacheEntry, Header, Ring, RingName, memory_at};
use super::{BlockCache, WaitingPlace};

/// Dropping a `Slots` goes through this many slots each time it holds the cache's mutex.
const REMOVED_AT_ONCE: usize = 64;

/// A value that a cache can keep.
pub(crate) trait Cached: Send + Sync + Sized + 'static {
    /// What a slot stores to prefetch the bytes of [`Cached::read_first`]: [`LinesAhead`], or `()`
    /// if there are no such bytes.
    type Ahead: Ahead;
    /// What a resident needs in order to be in a [`ResidentList`](super::list::ResidentList):
    /// [`Link`](super::list::Link), or `()` if no such value is ever in a list.
    type Link: Leave<Self>;

    /// The bytes that every use of the value reads first. They are prefetched with the resident.
    fn read_first(&self) -> &[u8] {
        &[]
    }

    /// Whether this address is in bytes of the value that a lookup may lend to a callback of the
    /// caller, which reads them without a guard (`sync/reclaim/lending.rs`). Such a value is kept
    /// until the callback has ended.
    fn holds(&self, _address: usize) -> bool {
        false
    }

    /// Returns the memory of the value, so that the next value can use it.
    fn into_buffer(self) -> Option<LineBuf> {
        None
    }
}

/// How a resident leaves the list that it is in.
pub(crate) trait Leave<T: Cached>: Default + Send + Sync {
    /// Takes the resident out of the list that begins at `first`. Returns `false` if the resident
    /// is in a slot and not in a list.
    ///
    /// # Safety
    ///
    /// The caller holds the cache's mutex. The resident is in a slot, or in the list that begins at
    /// `first`, and this list exists.
    unsafe fn leave(_resident: &Resident<T>, _first: &AtomicPtr<Resident<T>>) -> bool {
        false
    }
}

impl<T: Cached> Leave<T> for () {}

/// A value that was loaded through the cache. A reader that holds the value keeps it alive, even
/// after eviction. The fields that eviction reads come first, next to the counts of the `Arc`.
#[repr(C)]
pub(crate) struct Resident<T: Cached> {
    pub(super) header: Header,
    pub(super) slot: SlotAddress<T>,
    pub(super) value: T,
    pub(super) link: T::Link,
}

/// This bit marks a slot without a resident. It is 0 in pointers, because residents are aligned.
const NO_POINTER: usize = 1;
/// This bit says that a thread is filling the slot.
const CLAIMED: usize = 2;
/// This bit says that a thread sleeps until the claim ends.
const AWAITED: usize = 4;
const STAMP_SHIFT: u32 = 3;

/// What an empty slot holds: the stamp of the eviction that emptied it, or 0 if the slot was never
/// full. By the stamp the cache recognizes a block that returns soon after its eviction
/// (`eviction.rs`).
fn empty<T: Cached>(stamp: usize) -> *mut Resident<T> {
    ptr::without_provenance_mut(stamp << STAMP_SHIFT | NO_POINTER)
}

/// The resident in a slot, `None` if it is empty.
#[inline(always)]
fn full<T: Cached>(slot: *mut Resident<T>) -> Option<NonNull<Resident<T>>> {
    debug_assert!(!slot.is_null(), "a slot is empty, or holds an `Arc`'s pointer");
    // SAFETY: a slot starts as `empty`, and only `empty`, a claim of it, and the pointer of an
    // `Arc` are stored in it later. None of them is null. `NonNull::new` would test for null in
    // each lookup.
    (slot.addr() & NO_POINTER == 0).then(|| unsafe { NonNull::new_unchecked(slot) })
}

/// The number of lines that are always fetched ahead. For most values, the bytes that are read
/// first take at most these 320 bytes.
const USUAL_LINES_AHEAD: usize = 5;

/// If the bytes that are read first take more lines than this, only [`USUAL_LINES_AHEAD`] are
/// fetched ahead. A processor fetches about this many at a time, and a use of a larger value reads
/// only a part of it.
const MAX_LINES_AHEAD: usize = 16;

/// The part of a slot from which the bytes that a use of the value reads first are prefetched.
pub(crate) trait Ahead: Default + Send + Sync {
    fn set(&self, read_first: &[u8]);

    fn prefetch(&self);
}

impl Ahead for () {
    fn set(&self, _read_first: &[u8]) {}

    #[inline]
    fn prefetch(&self) {}
}

/// The address of the first line of the bytes, and in its low bits the number of lines ([`lines_of`]).
#[derive(Default)]
pub(crate) struct LinesAhead(AtomicUsize);

impl Ahead for LinesAhead {
    fn set(&self, read_first: &[u8]) {
        self.0.store(lines_of(read_first), Ordering::Relaxed);
    }

    #[inline]
    fn prefetch(&self) {
        let ahead = self.0.load(Ordering::Relaxed);
        let first = ptr::without_provenance::<u8>(ahead & !(LINE_BYTES - 1));
        // If the value has fewer lines, fetching the lines past its end costs less than a branch.
        for line in 0..USUAL_LINES_AHEAD {
            prefetch(first.wrapping_add(line * LINE_BYTES));
        }
        for line in USUAL_LINES_AHEAD..ahead % LINE_BYTES {
            prefetch(first.wrapping_add(line * LINE_BYTES));
        }
    }
}

/// The address of the first line that holds `bytes`, and in its low bits the number of lines, or 0
/// if there are more than [`MAX_LINES_AHEAD`].
fn lines_of(bytes: &[u8]) -> usize {
    let start = bytes.as_ptr().addr();
    let first = start & !(LINE_BYTES - 1);
    let lines = (start - first + bytes.len()).div_ceil(LINE_BYTES);
    if lines > MAX_LINES_AHEAD { first } else { first | lines }
}

/// The bytes that the cache charges for a value that owns `heap_bytes` on the heap.
pub(super) fn charge_bytes<T: Cached>(heap_bytes: usize) -> usize {
    let counts_bytes = 2 * size_of::<usize>();
    heap_bytes.saturating_add(counts_bytes + size_of::<Resident<T>>() + Ring::ENTRY_BYTES)
}

/// The address of the slot that points to a resident, or of the list that the resident is in. It is
/// null for a resident that was never in one. A null address is never followed, because no ring
/// owns the resident.
pub(super) struct SlotAddress<T: Cached>(pub(super) *const AtomicPtr<Resident<T>>);

// SAFETY: the address is followed only as the module comment says, and the slot there is atomic.
unsafe impl<T: Cached> Send for SlotAddress<T> {}
// SAFETY: as above.
unsafe impl<T: Cached> Sync for SlotAddress<T> {}

impl<T: Cached> Resident<T> {
    /// Heap bytes charged, bookkeeping included.
    pub fn charge_bytes(&self) -> usize {
        self.header.charge_bytes
    }

    /// Counts a use of the value, which delays its eviction.
    #[inline]
    pub fn mark_used(&self) {
        self.header.mark_used();
    }

    /// Whether the value stays in memory until its slot is dropped.
    pub fn is_pinned(&self) -> bool {
        self.header.ring() == RingName::Pinned
    }

    /// Whether the cache kept the value when it was loaded. A value that does not fit is not kept.
    pub fn was_cached(&self) -> bool {
        self.header.was_cached()
    }
}

impl<T: Cached> Deref for Resident<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Cached> CacheEntry for Resident<T> {
    fn header(&self) -> &Header {
        &self.header
    }

    unsafe fn empty_slot(&self, stamp: usize) {
        // SAFETY: by the caller's promise the array or list is still there (module comment). A slot
        // holds this resident: only the thread that claimed the empty slot has filled it.
        let slot = unsafe { &*self.slot.0 };
        // SAFETY: the caller holds the mutex, and the list is still there.
        if !unsafe { T::Link::leave(self, slot) } {
            slot.store(empty(stamp), Ordering::Release);
        }
    }

    fn prefetch_slot(&self) {
        prefetch(self.slot.0);
    }

    fn holds(&self, address: usize) -> bool {
        self.value.holds(address)
    }

    fn into_buffer(self: Arc<Self>) -> Option<LineBuf> {
        Arc::into_inner(self)?.value.into_buffer()
    }
}

// SAFETY: a resident's value is neither replaced nor changed, so its bytes stay as `T` promises.
unsafe impl<T: Cached + StableBytes> StableBytes for Resident<T> {
    fn stable_bytes(&self) -> &[u8] {
        self.value.stable_bytes()
    }
}

/// A resident in use: borrowed under a guard, or owned by an `Arc`.
pub(crate) struct Lease<'g, T: Cached> {
    pub(super) pointer: NonNull<Resident<T>>,
    /// Keeps the resident alive if no guard does. `pointer` is a separate field, so that `deref`
    /// need not branch.
    pub(super) owned: Option<Arc<Resident<T>>>,
    pub(super) _guard: PhantomData<&'g Guard>,
}

impl<T: Cached> Lease<'_, T> {
    /// A lease of a value that the cache does not keep. The value has no slot.
    pub fn not_kept(value: T) -> Lease<'static, T> {
        let header = Header::new(BlockKind::Data, RingName::Probation, 0);
        let (slot, link) = (SlotAddress(ptr::null()), T::Link::default());
        Lease::<T>::owning(Arc::new(Resident { header, slot, value, link }))
    }

    /// Drops the lease. If nothing else holds the value, `cache` uses its memory for a later value.
    pub fn recycle(self, cache: &BlockCache) {
        let value = self.owned.and_then(Arc::into_inner).map(|resident| resident.value);
        if let Some(memory) = value.and_then(T::into_buffer) {
            cache.miss_buffers.keep(memory);
        }
    }

    pub(super) fn owning(resident: Arc<Resident<T>>) -> Lease<'static, T> {
        let pointer = NonNull::from(&*resident);
        Lease { pointer, owned: Some(resident), _guard: PhantomData }
    }

    #[inline]
    pub fn resident(&self) -> &Resident<T> {
        // SAFETY: the resident lives as long as the lease: by `owned`, or by the guard (module
        // comment).
        unsafe { self.pointer.as_ref() }
    }

    /// Another lease of the value, to keep beyond the guard.
    pub fn share(&self) -> Lease<'static, T> {
        Lease::<T>::owning(self.to_arc())
    }

    /// The same lease, to keep beyond the guard.
    pub fn into_owned(self) -> Lease<'static, T> {
        match self.owned {
            Some(resident) => Lease::<T>::owning(resident),
            None => self.share(),
        }
    }

    /// Returns an `Arc` that keeps the resident alive after the guard is dropped. Costs one
    /// increment of the resident's count.
    #[inline]
    pub fn to_arc(&self) -> Arc<Resident<T>> {
        match &self.owned {
            Some(resident) => Arc::clone(resident),
            // SAFETY: the pointer came from a slot or list, hence from `Arc::as_ptr`, which returns
            // the same pointer as `Arc::into_raw`. The count is above 0 while the guard is held,
            // and the count added here belongs to the new `Arc`.
            None => unsafe {
                Arc::increment_strong_count(self.pointer.as_ptr());
                Arc::from_raw(self.pointer.as_ptr())
            },
        }
    }
}

impl<T: Cached> Deref for Lease<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.resident().value
    }
}

struct Slot<T: Cached> {
    /// Either the odd number that [`empty`] returns, possibly with the bits [`CLAIMED`] and
    /// [`AWAITED`], or the pointer to a resident, whose `Arc` is in a ring or, if the value is new,
    /// in a miss buffer ([`super::miss_buffers`]).
    resident: AtomicPtr<Resident<T>>,
    /// It belongs to the last value that was loaded, even after its eviction.
    ahead: T::Ahead,
}

/// A fixed array of slots, each empty or holding one resident `T`.
pub(crate) struct Slots<T: Cached> {
    /// Not a `Box`, because residents point into this array. By Rust's aliasing rules, moving a
    /// `Box` asserts that no other pointer leads into its memory.
    array: LineArray<Slot<T>>,
    cache: Arc<BlockCache>,
    kind: BlockKind,
    /// The ring that new values enter.
    ring: RingName,
}

impl<T: Cached> Slot<T> {
    fn new() -> Slot<T> {
        Slot { resident: AtomicPtr::new(empty(0)), ahead: T::Ahead::default() }
    }
}

impl<T: Cached> Slots<T> {
    /// Creates `count` empty slots for values of one kind. The values of a `pinned` array are
    /// charged, but never evicted. The owner of the array charges [`Slots::heap_bytes`] for it.
    ///
    /// A lookup may read any line of the array. So the array is allocated like a block: in large
    /// pages if the cache has them, which saves TLB misses.
    pub fn new(cache: &Arc<BlockCache>, count: usize, kind: BlockKind, pinned: bool) -> Slots<T> {
        let ring = match kind {
            _ if pinned => RingName::Pinned,
            BlockKind::Data => RingName::Probation,
            BlockKind::Index | BlockKind::Filter => RingName::Metadata,
        };
        Slots {
            array: LineArray::new(
                cache.buffer(LineArray::<Slot<T>>::needed_bytes(count)),
                count,
                |_| Slot::new(),
            ),
            cache: Arc::clone(cache),
            kind,
            ring,
        }
    }

    /// Heap bytes of the slots, without the `Slots` itself.
    pub fn heap_bytes(&self) -> usize {
        self.array.heap_bytes()
    }

    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// Returns the resident in slot `i`, if there is one. Costs one load, and a write only for the
    /// first use of the resident since the clock's hand (`ring.rs`) passed it.
    #[inline]
    pub fn get<'g>(&'g self, i: usize, guard: &'g Guard) -> Option<Lease<'g, T>> {
        let pointer = self.pointer(i, guard)?;
        Some(Lease { pointer, owned: None, _guard: PhantomData })
    }

    /// Like [`Slots::get`], but returns a plain reference.
    #[inline]
    pub fn borrow<'g>(&'g self, i: usize, guard: &'g Guard) -> Option<&'g Resident<T>> {
        let resident = self.peek(i, guard)?;
        resident.mark_used();
        Some(resident)
    }

    /// Returns the pointer in slot `i`, and marks its resident as used. [`Lease::to_arc`] uses this
    /// pointer to access the `Arc`'s counts next to the resident, for which a pointer made from a
    /// reference to the resident would not be valid.
    #[inline(always)]
    fn pointer(&self, i: usize, _guard: &Guard) -> Option<NonNull<Resident<T>>> {
        let pointer = full(self.array[i].resident.load(Ordering::Acquire))?;
        // SAFETY: the resident lives while the guard is held and the array exists (module comment).
        unsafe { pointer.as_ref() }.header.mark_used();
        Some(pointer)
    }

    /// Like [`Slots::borrow`], but the use does not count until [`Resident::mark_used`] is called.
    #[inline]
    pub fn peek<'g>(&'g self, i: usize, _guard: &'g Guard) -> Option<&'g Resident<T>> {
        let pointer = full(self.array[i].resident.load(Ordering::Acquire))?;
        // SAFETY: the resident lives while the guard is held and the array exists (module comment).
        Some(unsafe { pointer.as_ref() })
    }

    /// Prefetches the `COUNT` slots from `first` on. Addresses past the end of the array do no
    /// harm.
    #[inline(always)]
    pub fn prefetch<const COUNT: usize>(&self, first: usize) {
        // A slot of a schedule is larger than a line.
        for i in (0..COUNT).step_by((LINE_BYTES / size_of::<Slot<T>>()).max(1)) {
            prefetch(self.array.as_ptr().wrapping_add(first + i));
        }
    }

    /// Prefetches the resident in slot `i`, its counts, and the bytes that every use reads first.
    #[inline]
    pub fn prefetch_resident(&self, i: usize) {
        let slot = &self.array[i];
        let Some(resident) = full(slot.resident.load(Ordering::Relaxed)) else { return };
        let resident = resident.as_ptr().cast::<u8>();
        let counts = resident.wrapping_sub(2 * size_of::<usize>());
        let used_bytes = offset_of!(Resident<T>, link);
        for offset in (0..used_bytes).step_by(LINE_BYTES) {
            prefetch(counts.wrapping_add(offset));
        }
        prefetch(resident.wrapping_add(used_bytes - 1));
        slot.ahead.prefetch();
    }

    /// Fills slot `i` from `read`, which returns the value and the heap bytes it owns. If another
    /// thread is filling the slot, waits for that thread and returns its value, or reads if the
    /// slot is still empty. A value that does not fit into the cache is returned and not kept. An
    /// error leaves the slot empty.
    ///
    /// `read` must not load the same slot. `keeping`: which ring the value enters.
    #[inline(always)]
    pub fn load<E>(
        &self,
        i: usize,
        keeping: Keeping,
        read: impl FnOnce() -> Result<(T, usize), E>,
    ) -> Result<Lease<'static, T>, E> {
        let ring = match (keeping, self.ring) {
            (Keeping::No, _) => return Ok(Lease::<T>::not_kept(read()?.0)),
            (Keeping::Pinned, _) => RingName::Pinned,
            (Keeping::Protected, RingName::Probation) => RingName::Protected,
            (_, ring) => ring,
        };
        let claim = match self.claim(i) {
            Ok(claim) => claim,
            Err(lease) => return Ok(lease),
        };
        let (value, heap_bytes) = read()?;
        let header = Header::new(self.kind, ring, charge_bytes::<T>(heap_bytes));
        let slot = SlotAddress(&raw const self.array[i].resident);
        let resident = Arc::new(Resident { header, slot, value, link: T::Link::default() });
        let entry: Arc<dyn CacheEntry> = resident.clone();
        let leaving = self.cache.insert(entry, claim.stamp(), || claim.publish(&resident));
        // The claim ends before evicted values are dropped, because a thread may wait for this
        // claim.
        drop(claim);
        self.cache.retire(leaving);
        Ok(Lease::<T>::owning(resident))
    }

    /// Evicts the resident of slot `i`, which is not data.
    #[cfg(test)]
    pub fn evict(&self, i: usize) {
        let guard = pin();
        let Some(resident) = self.peek(i, &guard) else { return };
        let mut state = lock(&self.cache.state);
        state.evict_now(resident);
        let evicted = self.cache.take_evicted(&mut state);
        drop(state);
        self.cache.retire(evicted);
    }

    /// A claim of slot `i`, or the resident with which another thread has filled it.
    fn claim(&self, i: usize) -> Result<Claim<'_, T>, Lease<'static, T>> {
        let slot = &self.array[i];
        loop {
            if let Some(lease) = self.get(i, &pin()) {
                return Err(Lease::<T>::owning(lease.to_arc()));
            }
            let seen = slot.resident.load(Ordering::Relaxed);
            if full(seen).is_some() {
                continue;
            }
            if seen.addr() & CLAIMED != 0 {
                self.wait_for_claim(i);
                continue;
            }
            let claimed = seen.map_addr(|addr| addr | CLAIMED);
            let changed =
                slot.resident.compare_exchange(seen, claimed, Ordering::Acquire, Ordering::Relaxed);
            if changed.is_ok() {
                return Ok(Claim {
                    slots: self,
                    i,
                    empty: seen,
                    state: Cell::new(ClaimState::Held),
                });
            }
        }
    }

    /// Sleeps until no thread claims slot `i`.
    #[cold]
    fn wait_for_claim(&self, i: usize) {
        let slot = &self.array[i].resident;
        let place = self.waiting_place(i);
        let mut waiting = lock(&place.mutex);
        loop {
            let seen = slot.load(Ordering::Relaxed);
            if full(seen).is_some() || seen.addr() & CLAIMED == 0 {
                return;
            }
            // The thread that ends the claim sees this bit. It takes the mutex of the waiting place
            // before it notifies, so it notifies after the wait below has begun.
            let awaited = seen.map_addr(|addr| addr | AWAITED);
            if slot.compare_exchange(seen, awaited, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                waiting = place.ended.wait(waiting);
            }
        }
    }

    /// Whether another thread waits for the claim of slot `i`.
    #[cfg(all(test, not(loom)))]
    pub fn is_awaited(&self, i: usize) -> bool {
        let seen = self.array[i].resident.load(Ordering::Relaxed);
        full(seen).is_none() && seen.addr() & AWAITED != 0
    }

    /// The place where threads wait for slot `i`, and for some other slots.
    fn waiting_place(&self, i: usize) -> &WaitingPlace {
        &self.cache.waiting_places[i % self.cache.waiting_places.len()]
    }
}

/// The right to fill slot `i`, which only one thread has at a time. Dropping the claim wakes all
/// threads that wait for the slot. If no value was published, the slot is then empty as before.
struct Claim<'a, T: Cached> {
    slots: &'a Slots<T>,
    i: usize,
    /// What the slot held before the claim.
    empty: *mut Resident<T>,
    state: Cell<ClaimState>,
}

#[derive(Clone, Copy)]
enum ClaimState {
    Held,
    Ended { awaited: bool },
}

impl<T: Cached> Claim<'_, T> {
    /// The stamp of the eviction that emptied the slot, or 0 if the slot was never full.
    fn stamp(&self) -> usize {
        self.empty.addr() >> STAMP_SHIFT
    }

    /// Lets readers find the resident. A ring or a miss buffer owns the resident, or will own it
    /// before it could be evicted.
    fn publish(&self, resident: &Arc<Resident<T>>) {
        self.slots.array[self.i].ahead.set(resident.value.read_first());
        self.end(Arc::as_ptr(resident).cast_mut());
    }

    fn end(&self, left: *mut Resident<T>) {
        // Release: a reader that loads the pointer sees the value.
        let claimed = self.slots.array[self.i].resident.swap(left, Ordering::Release);
        self.state.set(ClaimState::Ended { awaited: claimed.addr() & AWAITED != 0 });
    }
}

impl<T: Cached> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        if let ClaimState::Held = self.state.get() {
            self.end(self.empty);
        }
        if let ClaimState::Ended { awaited: true } = self.state.get() {
            let place = self.slots.waiting_place(self.i);
            let _waiting = lock(&place.mutex);
            place.ended.notify_all();
        }
    }
}

/// Residents that leave the rings because their slots or their list is dropped.
pub(super) struct Removed(pub(super) Vec<Arc<dyn CacheEntry>>);

impl Retired for Removed {
    fn memory_at(&self, address: usize) -> Option<OwnedMemory> {
        memory_at(&self.0, address)
    }
}

impl<T: Cached> Drop for Slots<T> {
    fn drop(&mut self) {
        if !self.cache.process.is_current() {
            return;
        }
        // If all slots are empty, nothing is left to do, because no thread fills a slot any more,
        // and eviction does not access a slot that it has emptied.
        let is_empty = |slot: &Slot<T>| full(slot.resident.load(Ordering::Acquire)).is_none();
        if self.array.iter().all(is_empty) {
            return;
        }
        if self.kind == BlockKind::Data {
            // No value of this array is being loaded. So once the miss buffers have passed their
            // values on, all residents of the array are in rings.
            self.cache.settle_miss_buffers();
        }
        for slots in self.array.chunks(REMOVED_AT_ONCE) {
            let mut removed = Vec::new();
            let mut state = lock(&self.cache.state);
            for slot in slots {
                // SAFETY: under the mutex a full slot's resident is owned by a ring.
                let resident = full(slot.resident.load(Ordering::Relaxed))
                    .map(|full| unsafe { full.as_ref() });
                removed.extend(resident.map(|resident| state.remove(resident)));
            }
            // The values are dropped without the mutex, because a value may own other slots, whose
            // drop takes the mutex.
            drop(state);
            sync::drop_at_once(Removed(removed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::LineBuf;

    #[test]
    fn the_lines_of_some_bytes_are_all_that_hold_one_of_them() {
        let memory = LineBuf::zeroed(LINE_BYTES * 30);
        let start = memory.as_ptr().addr();
        for (from, to, lines) in [(0, 1, 1), (0, 64, 1), (0, 65, 2), (63, 65, 2), (70, 100, 1)] {
            let ahead = lines_of(&memory[from..to]);
            assert_eq!(ahead & !(LINE_BYTES - 1), start + from / LINE_BYTES * LINE_BYTES);
            assert_eq!(ahead % LINE_BYTES, lines, "{from} to {to}");
        }
        assert_eq!(lines_of(&memory[..LINE_BYTES * 16]), start | 16);
        assert_eq!(lines_of(&memory[..LINE_BYTES * 16 + 1]), start);
    }
}
