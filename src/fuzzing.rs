//! What the fuzzers of `fuzz/` call: one function a decoder, which takes any bytes, repairs the
//! checksums so that mutations get past them, and panics where a promise is broken.
//!
//! Compiled for fuzzing, and for the tests, which feed it random bytes.

pub use crate::wal::fuzzing::log;
