//! [`ResidentList`]: a list of cached values, for an owner of which few values are kept.
//!
//! [`Slots`](super::slots::Slots) take 16 bytes for each value that could be resident. Where
//! filters and indexes fill the cache, few data blocks are kept, so most of these slots would stay
//! empty. A list takes memory only for the values that are resident:
//!
//! ```text
//!   first ─► Resident ─► Resident ─► null      link.number tells which value it is
//!               ▲           ▲
//!               └───────────┴── owned by a ring of the cache; after eviction by the garbage,
//!                               until no guard can reach it
//! ```
//!
//! A reader walks the list under a guard, without a lock. The list changes only under the cache's
//! mutex: a new resident becomes the first one, and the eviction of a resident makes the pointer
//! before it point to the resident after it.
//!
//! Why a reader's pointers are valid. A reader that sees an eviction reaches only residents that
//! were listed then or later, because the link of a listed resident leads to a listed one. So the
//! reader's guard keeps all that it reaches alive, as in [`super::slots`], in whatever order the
//! evicted values are retired.
//!
//! Why the cache may write to the pointers. Each resident knows the address of `first`, which is on
//! the heap and not in the list itself, because the list moves when its owner is taken out of the
//! `Arc` that holds it. The cache follows the address only under its mutex and while a ring owns
//! the resident. Before `first` is freed, `ResidentList::drop` takes all residents out of the rings
//! under that mutex. Not a `Box`, because moving a `Box` asserts that no other pointer leads into
//! its memory.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{self, Guard, lock, pin};

use super::BlockCache;
use super::kind::BlockKind;
use super::policy::Keeping;
use super::ring::{CacheEntry, Header, RingName};
use super::slots::{Cached, Lease, Leave, Removed, Resident, SlotAddress, charge_bytes};

/// The place of a resident in a list.
pub(crate) struct Link<T: Cached> {
    /// `None`: the resident is not in a list.
    number: Option<u32>,
    /// Null at the end of the list. Written under the cache's mutex.
    next: AtomicPtr<Resident<T>>,
}

impl<T: Cached> Default for Link<T> {
    fn default() -> Link<T> {
        Link { number: None, next: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<T: Cached<Link = Link<T>>> Leave<T> for Link<T> {
    unsafe fn leave(resident: &Resident<T>, first: &AtomicPtr<Resident<T>>) -> bool {
        if resident.link.number.is_none() {
            return false;
        }
        let mut pointer = first;
        loop {
            let listed = pointer.load(Ordering::Relaxed);
            if ptr::eq(listed, resident) {
                break;
            }
            assert!(!listed.is_null(), "the resident is in the list");
            // SAFETY: under the mutex a ring owns each resident of the list.
            pointer = unsafe { &(*listed).link.next };
        }
        // Release: a reader that loads the pointer sees the value.
        pointer.store(resident.link.next.load(Ordering::Relaxed), Ordering::Release);
        true
    }
}

/// The pointer to the first resident of a list; null if the list is empty.
type First<T> = AtomicPtr<Resident<T>>;

/// Heap bytes of the pointer, with the counts of its `Arc`. It is allocated for the first resident,
/// and each resident is charged for it.
const FIRST_BYTES: usize = 3 * size_of::<usize>();

/// A list of residents, each with a number. It holds data.
pub(crate) struct ResidentList<T: Cached<Link = Link<T>>> {
    /// Allocated for the first resident.
    first: OnceLock<Arc<First<T>>>,
    cache: Arc<BlockCache>,
}

impl<T: Cached<Link = Link<T>>> ResidentList<T> {
    /// An empty list.
    pub fn new(cache: &Arc<BlockCache>) -> ResidentList<T> {
        ResidentList { first: OnceLock::new(), cache: Arc::clone(cache) }
    }

    /// The residents of the list.
    #[inline]
    fn iter<'g>(&'g self, _guard: &'g Guard) -> impl Iterator<Item = NonNull<Resident<T>>> {
        let load = |pointer: &AtomicPtr<Resident<T>>| NonNull::new(pointer.load(Ordering::Acquire));
        std::iter::successors(self.first.get().and_then(|first| load(first)), move |it| {
            // SAFETY: the resident lives while the guard is held and the list exists (module
            // comment).
            load(unsafe { &it.as_ref().link.next })
        })
    }

    /// The number of residents.
    pub fn len(&self, guard: &Guard) -> usize {
        self.iter(guard).count()
    }

    /// Returns the resident of this number, if there is one. Counts its use.
    #[inline]
    pub fn get<'g>(&'g self, number: u32, guard: &'g Guard) -> Option<Lease<'g, T>> {
        let pointer = self.find(number, guard)?;
        Some(Lease { pointer, owned: None, _guard: PhantomData })
    }

    /// Like [`ResidentList::get`], but returns a plain reference.
    #[inline]
    pub fn borrow<'g>(&'g self, number: u32, guard: &'g Guard) -> Option<&'g Resident<T>> {
        // SAFETY: as in `iter`.
        self.find(number, guard).map(|pointer| unsafe { pointer.as_ref() })
    }

    fn find(&self, number: u32, guard: &Guard) -> Option<NonNull<Resident<T>>> {
        self.iter(guard).find(|pointer| {
            // SAFETY: as in `iter`.
            let resident = unsafe { pointer.as_ref() };
            let is_it = resident.link.number == Some(number);
            if is_it {
                resident.mark_used();
            }
            is_it
        })
    }

    /// Adds the value with this number, which `read` returns together with the heap bytes that it
    /// owns. A value that does not fit into the cache is returned and not kept. Two threads that
    /// add the same number at the same time may both read, and rarely both add.
    ///
    /// `keeping`: which ring the value enters.
    pub fn load<E>(
        &self,
        number: u32,
        keeping: Keeping,
        read: impl FnOnce() -> Result<(T, usize), E>,
    ) -> Result<Lease<'static, T>, E> {
        if let Some(lease) = self.get(number, &pin()) {
            return Ok(lease.share());
        }
        let (value, heap_bytes) = read()?;
        if let Some(lease) = self.get(number, &pin()) {
            return Ok(lease.share());
        }
        let first = self.first.get_or_init(|| Arc::new(AtomicPtr::new(ptr::null_mut())));
        let ring = match keeping {
            Keeping::No => return Ok(Lease::<T>::not_kept(value)),
            Keeping::Protected => RingName::Protected,
            Keeping::OnProbation | Keeping::Pinned => RingName::Probation,
        };
        let header =
            Header::new(BlockKind::Data, ring, charge_bytes::<T>(heap_bytes + FIRST_BYTES));
        let slot = SlotAddress(Arc::as_ptr(first));
        let link = Link { number: Some(number), ..Link::default() };
        let resident = Arc::new(Resident { header, slot, value, link });
        let entry: Arc<dyn CacheEntry> = resident.clone();
        let evicted = self.cache.insert_at_once(entry, 0, || {
            resident.link.next.store(first.load(Ordering::Relaxed), Ordering::Relaxed);
            // Release: a reader that loads the pointer sees the value and its link.
            first.store(Arc::as_ptr(&resident).cast_mut(), Ordering::Release);
        });
        self.cache.retire(evicted);
        Ok(Lease::<T>::owning(resident))
    }
}

impl<T: Cached<Link = Link<T>>> Drop for ResidentList<T> {
    fn drop(&mut self) {
        let Some(first) = self.first.get() else { return };
        if !self.cache.process().is_current() || first.load(Ordering::Acquire).is_null() {
            return;
        }
        let mut removed = Vec::new();
        let mut state = lock(&self.cache.state);
        let mut listed = first.load(Ordering::Relaxed);
        // SAFETY: under the mutex a ring owns each resident of the list, until `remove` returns the
        // ring's count, which `removed` then keeps.
        while let Some(resident) = unsafe { listed.as_ref() } {
            removed.push(state.remove(resident));
            listed = resident.link.next.load(Ordering::Relaxed);
        }
        // The values are dropped without the mutex.
        drop(state);
        sync::drop_at_once(Removed(removed));
    }
}
