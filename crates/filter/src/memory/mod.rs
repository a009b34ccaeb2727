//! Memory for hot paths. A lookup that misses the processor's caches waits about a hundred
//! nanoseconds for each cache line that it reads from memory. So its cost depends on the number of
//! lines, and on how early each is requested.
//!
//! ```text
//! aligned.rs      LineBuf: bytes that start at a cache line, as a filter's lines do
//! prefetch.rs     prefetch: requests a line whose address is known early
//! ```
//!
//! A `LineBuf` owns its memory, or borrows it from a [`LineLender`], such as the pool of a cache. A
//! lender gets the memory back when the buffer is dropped.

mod aligned;
mod prefetch;

pub use aligned::{LINE_BYTES, LineBuf, LineLender};
pub use prefetch::prefetch;
