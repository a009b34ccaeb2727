//! Maypole: an embedded LSM key-value store whose heart is the filter block.

mod coding;
mod cursor;
pub mod error;
pub mod fs;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod slice;
mod wal;

pub use error::{Error, Result};
pub use key::SequenceNumber;
pub use slice::Slice;
