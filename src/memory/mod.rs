//! Memory for hot paths. A lookup that misses the processor's caches waits about a hundred
//! nanoseconds for each line of memory, so its cost depends on the number of lines and on when they
//! are requested.
//!
//! ```text
//! aligned.rs      LineBuf: bytes that start at a cache line, as a filter's lines do
//! array.rs        LineArray: other values in such a buffer
//! large_pages.rs  LargePages: pages of 2 MiB, so that translating an address seldom costs a read
//! prefetch.rs     prefetch: requests a line whose address is known early
//! ```
//!
//! Absent on purpose: formats, caches, policies. `cache/` decides which memory is lent, and when it
//! is given back.

mod aligned;
mod array;
pub(crate) mod large_pages;
mod prefetch;

pub(crate) use aligned::{LINE_BYTES, LineBuf, LineLender};
pub(crate) use array::LineArray;
pub(crate) use prefetch::prefetch;
