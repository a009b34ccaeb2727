//! Memory for hot paths, beside the buffers of the filters (`maypole_filter::memory`).
//!
//! ```text
//! array.rs        LineArray: values in a LineBuf, which starts at a cache line
//! large_pages.rs  LargePages: pages of 2 MiB, so that translating an address seldom costs a read
//! ```
//!
//! Absent on purpose: formats, caches, policies. A `LineBuf` may borrow its memory from a cache's
//! pool (`cache/pool.rs`), which gets the memory back when the buffer is dropped.

mod array;
pub(crate) mod large_pages;

pub(crate) use array::LineArray;
pub(crate) use maypole_filter::memory::{LINE_BYTES, LineBuf, LineLender, prefetch};
