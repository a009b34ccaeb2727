//! What can be retired, and what outlives its container because user code reads it
//! ([`super::lending`]).

use std::sync::Arc;

use super::record::ThreadRecord;

/// An object whose drop waits for readers.
pub(super) type RetiredObject = Arc<dyn Retired>;

/// An object that can be retired.
pub(crate) trait Retired: Send + Sync + 'static {
    /// The part that holds the byte at this address. `None` if no part holds the byte, or if parts
    /// of this object are never lent.
    fn part_at(&self, _address: usize) -> Option<Part> {
        None
    }
}

impl Retired for () {}

/// Memory whose bytes stay in place while it has an owner.
pub(crate) struct Part {
    pub owner: Arc<dyn Send + Sync>,
    pub heap_bytes: usize,
}

/// A part that outlives its container because user code reads it.
pub(super) struct KeptPart {
    pub loan: Loan,
    pub part: Part,
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
