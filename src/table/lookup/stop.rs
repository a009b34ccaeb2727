//! [`Stop`]: why a search under a guard has ended without a result.

use crate::error::Error;

use super::key::LookupKey;

/// See the module.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed(Error),
    Absent(Absent),
}

/// What a search needs but does not find in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Absent {
    pub block: AbsentPart,
    /// See [`LookupKey::passed_filter_by`].
    pub passed_filter_by: bool,
}

/// See [`Absent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbsentPart {
    /// This part of the filter, which holds the key.
    Filter(usize),
    /// This part of the index.
    Index(usize),
    /// This data block of a part of the index.
    Block { part: usize, block: usize },
}

impl Stop {
    /// The stop of a search for `key` that needs `block`, which is not in memory.
    #[cold]
    pub fn absent(block: AbsentPart, key: &LookupKey<'_>) -> Stop {
        Stop::Absent(Absent { block, passed_filter_by: key.passed_filter_by })
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}
