//! How numbers and keys become bytes, and keys become hashes.

pub(crate) mod bytes;
pub(crate) mod coding;
pub(crate) mod hash;
pub(crate) mod key;
