//! Memory that hot paths read: aligned to cache lines, in large pages where it is large, fetched
//! ahead where the next address is known early.

mod aligned;
pub(crate) mod large_pages;

pub(crate) use aligned::{LINE_BYTES, LineBuf, LineLender, prefetch};
