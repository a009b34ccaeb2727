//! Memory for hot paths. A lookup that misses the processor's caches waits some hundred nanoseconds
//! for each line of memory, so what matters is how many lines it touches and when it asks for them.
//!
//! ```text
//! aligned.rs      LineBuf: bytes that start at a cache line, so that a filter's line is one line
//! array.rs        LineArray: other values in such a buffer
//! large_pages.rs  LargePages: pages of 2 MiB, so that finding an address is no trip of its own
//! prefetch.rs     prefetch: asks for a line whose address is known early
//! ```
//!
//! What is absent: formats, caches, policies. Who lends memory, and when it is given back, is decided
//! in `cache/`.

mod aligned;
mod array;
pub(crate) mod large_pages;
mod prefetch;

pub(crate) use aligned::{LINE_BYTES, LineBuf, LineLender};
pub(crate) use array::LineArray;
pub(crate) use prefetch::prefetch;
