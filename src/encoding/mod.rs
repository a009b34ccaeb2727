//! How numbers and keys become bytes, how bytes are compared, and how keys become hashes;
//! how reports write bytes and numbers.

pub(crate) mod bytes;
pub(crate) mod coding;
pub(crate) mod hash;
pub(crate) mod key;
pub mod text;
