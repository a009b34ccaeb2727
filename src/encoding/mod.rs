//! How numbers and keys are encoded as bytes, how bytes are compared, how keys are hashed, and how
//! reports print bytes and numbers.

pub(crate) mod bytes;
pub(crate) mod coding;
pub(crate) mod key;
pub mod text;

pub(crate) use maypole_filter::hash;
