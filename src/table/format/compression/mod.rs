//! Block compression. Blocks are written uncompressed, or compressed by Snappy, LZ4 or ZSTD. Two
//! kinds of blocks are only read: blocks that are compressed by BZip2 or Zlib, and blocks that are
//! compressed by ZSTD, LZ4 or Zlib with a dictionary.
//!
//! ```text
//! LZ4     varint32 uncompressed bytes | LZ4 block (not frame)
//! ZSTD    varint32 uncompressed bytes | ZSTD frame
//! Zlib    varint32 uncompressed bytes | raw deflate, without zlib's header
//! BZip2   varint32 uncompressed bytes | BZip2 stream
//! Snappy  raw Snappy, which begins with its own varint32 of uncompressed bytes
//! ```
//!
//! A table may have one dictionary, for its data blocks ([`dictionary`]).
//!
//! Invariant: no memory is allocated merely because a file states a size. [`read`] lists how far
//! each codec may expand a byte of its input. A block that states a larger uncompressed size than
//! its input can give is rejected before anything is allocated.

pub(crate) mod dictionary;
pub(crate) mod read;
mod write;

pub use write::Compression;
pub(crate) use write::Compressor;

#[cfg(all(test, feature = "bzip2", feature = "lz4", feature = "zlib", feature = "zstd"))]
mod tests;
