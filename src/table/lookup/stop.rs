//! [`Stop`]: why a search under a [`Guard`](crate::sync::Guard) has ended without a result: it
//! failed, or it needs something that is not in memory. Under a guard nothing is read from files,
//! so [`super::reading`] reads what is missing without a guard, and continues the search.

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
    /// The number of the filter's part that is responsible for the key.
    Filter(usize),
    /// The number of a part of the index.
    Index(usize),
    /// The number of a data block in its part of the index, and the number of this part.
    Block { part: usize, block: usize },
}

impl Stop {
    /// Stops a search for `key` because `block`, a data block or a part of the filter or index, is
    /// not in memory.
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
