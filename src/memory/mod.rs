//! Memory for hot paths. A lookup that misses the processor's caches waits about a hundred
//! nanoseconds for each cache line that it reads from memory. So its cost depends on the number of
//! lines, and on how early each is requested.
//!
//! ```text
//! aligned.rs      LineBuf: bytes that start at a cache line, as a filter's lines do
//! array.rs        LineArray: other values in such a buffer
//! large_pages.rs  LargePages: pages of 2 MiB, so that translating an address seldom costs a read
//! prefetch.rs     prefetch: requests a line whose address is known early
//! ```
//!
//! Absent on purpose: formats, caches, policies. A `LineBuf` may borrow its memory from a cache's
//! pool (`cache/pool.rs`), which gets the memory back when the buffer is dropped.

mod aligned;
mod array;
pub(crate) mod large_pages;
mod prefetch;

pub(crate) use aligned::{LINE_BYTES, LineBuf, LineLender};
pub(crate) use array::LineArray;
pub(crate) use prefetch::prefetch;
