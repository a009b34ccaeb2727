//! [`Stop`]: why a search under a guard has ended without a result.

use crate::error::Error;

/// Why a search under a guard has ended without a result.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed(Error),
    Absent(Absent),
}

/// What a search wants and what is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    Filter,
    Index,
    /// The data block with this number.
    Block(usize),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}
