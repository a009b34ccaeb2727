//! [`Stop`]: why a search under a guard has ended without a result.

use crate::error::Error;

/// See the module.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed(Error),
    Absent(Absent),
}

/// What a search needs and is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The part of the filter that holds the key.
    Filter,
    /// This part of the index.
    Index(usize),
    /// This data block of a part of the index.
    Block { part: usize, block: usize },
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}
