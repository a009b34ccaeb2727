//! Maypole: an embedded LSM key-value store whose heart is the filter block.

mod coding;
mod cursor;
pub mod error;
pub mod filter;
mod hash;
pub mod fs;
mod key;
mod slice;
mod table;

pub use error::{Error, Result};
pub use hash::hash64;
pub use key::SequenceNumber;
pub use slice::Slice;
