//! What can be retired, and what outlives its container because user code reads it
//! ([`super::lending`]).

use std::sync::Arc;

use super::record::ThreadRecord;

/// An object whose drop waits for readers.
pub(super) type RetiredObject = Arc<dyn Retired>;

/// An object that can be retired.
pub(crate) trait Retired: Send + Sync + 'static {
    /// The memory that contains the byte at this address. `None` if the object does not own the
    /// byte, or if its memory is never lent.
    fn memory_at(&self, _address: usize) -> Option<OwnedMemory> {
        None
    }
}

impl Retired for () {}

/// Memory whose bytes stay in place while it has an owner.
pub(crate) struct OwnedMemory {
    pub owner: Arc<dyn Send + Sync>,
    pub heap_bytes: usize,
}

/// Memory that outlives its container because user code reads it.
pub(super) struct LentMemory {
    pub loan: Loan,
    pub memory: OwnedMemory,
}

/// The loan of a thread, whose user code reads the bytes at `address`.
pub(super) struct Loan {
    pub record: &'static ThreadRecord,
    pub address: usize,
}

impl Loan {
    pub fn is_on(&self) -> bool {
        self.record.lent() == self.address
    }
}
