//! Lending: user code reads bytes that a lookup found under its guard, after the guard is gone.
//!
//! User code may block for hours. A guard that it held meanwhile would keep all garbage of the
//! process alive ([`super`] explains guards, garbage and collections). So the thread announces one
//! address instead, in the word `lent` of its record. A collector that is about to drop the memory
//! at this address takes a reference count of the owner of the memory: one block, or one memtable.
//!
//! ```text
//! reader       [ finds v, lent = v ]  user code reads v ...................  lent = 0
//! writer           x retires the block of v, and much else
//! collector                         drops the rest, takes a count of the block    drops the block
//! ```
//!
//! Announcing the address is enough. Only two events free the memory at `v`: a collection drops the
//! last owner of the memory, or the container of this owner ([`Retired::memory_at`] finds the
//! owner); or a thread destroys the container when no guard can reach it any more
//! ([`drop_at_once`]). In both events, the freeing thread reads `lent` after it is certain that the
//! reader's guard is gone. The reader stores `lent` before it withdraws the guard, with release,
//! and a collector loads the announcement of the guard with acquire. So the freeing thread reads
//! either `v`, and keeps the memory, or a value that the reader stored after reading the bytes,
//! again with release, so that the reads happen before the drop. A guard that began later cannot
//! reach the memory any more.
//!
//! The memory is kept until `lent` no longer contains the address at which it was found. Because
//! the kept memory is not reused meanwhile, the address cannot mean other memory.
//!
//! The reader executes two plain stores, and the collector reads one more word of each thread. Two
//! alternatives were rejected: a reference count for each owner, because all readers of a memtable
//! would write the cache line of its count, which would move between processors; and copies,
//! because only small values are cheap to copy.
//!
//! Each thread has at most one loan. If user code that reads a loan looks up another value, it
//! reads a copy of that value.

use std::sync::Arc;

use super::super::atomic::Ordering;
use super::super::lock;
use super::collector::{Guard, LentMemory, Loan, Registry, Retired, ThreadRecord, collector};

impl Guard {
    /// Calls `read` with `bytes`, which were found under this guard. The guard protects nothing any
    /// more; while `read` runs, a loan protects `bytes`.
    ///
    /// # Safety
    ///
    /// The guard is the thread's only one. From here on the caller uses nothing that was reached
    /// under the guard, except `bytes`. The memory of `bytes` is freed only through
    /// [`super::retire`] or [`drop_at_once`], and [`Retired::memory_at`] finds their owner.
    #[inline(always)]
    pub unsafe fn lend<R>(&self, bytes: &[u8], read: impl FnOnce(&[u8]) -> R) -> R {
        let lent = &self.record.lent;
        if lent.load(Ordering::Relaxed) != 0 {
            return self.lend_copy(bytes, read);
        }
        lent.store(bytes.as_ptr().addr(), Ordering::Release);
        let _suspended = Suspended::begin(self.record, 0);
        read(bytes)
    }

    /// Lends a copy to user code that runs inside other user code.
    #[cold]
    #[inline(never)]
    fn lend_copy<R>(&self, bytes: &[u8], read: impl FnOnce(&[u8]) -> R) -> R {
        let copy = bytes.to_vec();
        let _suspended = Suspended::begin(self.record, self.record.lent.load(Ordering::Relaxed));
        read(&copy)
    }
}

/// While this value lives, its thread holds no guard, so that user code can take guards of its own.
struct Suspended {
    record: &'static ThreadRecord,
    /// The loan of the enclosing user code; 0 if there is none.
    outer: usize,
}

impl Suspended {
    #[inline(always)]
    fn begin(record: &'static ThreadRecord, outer: usize) -> Suspended {
        debug_assert_eq!(record.depth.load(Ordering::Relaxed), 1, "the guard is not the only one");
        record.depth.store(0, Ordering::Relaxed);
        record.withdraw();
        Suspended { record, outer }
    }
}

impl Drop for Suspended {
    /// Ends the loan, and restores the depth, which the guard lowers when it is dropped next. The
    /// guard protects nothing any more.
    #[inline(always)]
    fn drop(&mut self) {
        self.record.lent.store(self.outer, Ordering::Release);
        self.record.depth.store(1, Ordering::Relaxed);
    }
}

/// The current loans of all threads.
pub(super) fn loans(registry: &Registry) -> Vec<Loan> {
    let loans = registry.records.iter().map(|&record| Loan { record, address: record.lent() });
    loans.filter(|loan| loan.address != 0).collect()
}

/// Keeps the lent memory of `garbage`, which must be unlinked. No guard that could reach the garbage
/// may have been held when `loans` were read. The caller holds no lock.
pub(super) fn keep<'a>(loans: Vec<Loan>, garbage: impl Iterator<Item = &'a dyn Retired> + Clone) {
    let lent = loans.into_iter().filter_map(|loan| {
        let memory = garbage.clone().find_map(|item| item.memory_at(loan.address))?;
        Some(LentMemory { loan, memory })
    });
    let lent: Vec<LentMemory> = lent.collect();
    lock(&collector().bags).lent.extend(lent);
}

/// Takes out the memory that user code does not read any more. The caller drops them under no lock.
pub(super) fn take_ended(lent: &mut Vec<LentMemory>) -> Vec<LentMemory> {
    if lent.is_empty() {
        return Vec::new();
    }
    lent.extract_if(.., |lent| !lent.loan.is_on()).collect()
}

/// Drops `object` now, except for the memory that user code reads. No guard may reach the object,
/// and the caller holds no lock that a destructor could take.
pub(crate) fn drop_at_once(object: impl Retired) {
    let loans = loans(&lock(&collector().registry));
    if !loans.is_empty() {
        keep(loans, std::iter::once(&object as &dyn Retired));
    }
}

/// Heap bytes that live only because user code of the process reads them. Drops the memory that is
/// not read any more. The caller holds no lock that a destructor could take.
pub(crate) fn held_by_readers() -> usize {
    let mut bags = lock(&collector().bags);
    let ended = take_ended(&mut bags.lent);
    let owner = |lent: &LentMemory| Arc::as_ptr(&lent.memory.owner).addr();
    // Several threads may read one block. It is counted once.
    let is_first =
        |i: usize| bags.lent[..i].iter().all(|other| owner(other) != owner(&bags.lent[i]));
    let firsts = (0..bags.lent.len()).filter(|&i| is_first(i));
    let bytes = firsts.map(|i| bags.lent[i].memory.heap_bytes).sum();
    drop(bags);
    drop(ended);
    bytes
}
