//! [`Cuts`]: where filter and index are cut into parts, which are read separately
//! ([`super::parted`]). Also the forms in which filter and index are passed on when they are built
//! and written.

use crate::filter::{FilterBlock, FilterBuilder};
use crate::table::filter::source::{full_filter_name, parted_filter_name};
use crate::table::format::footer::BlockHandle;

/// About how many bytes a part has before it is compressed. A data block has 4 KiB by default, so the
/// read of a part costs no more than the read of a block that it saves. With larger parts, each miss
/// would read and displace more bytes that the lookup does not need. With smaller parts, the tops
/// would take more than 1 % of the bytes of the parts, and ribbons a tenth more bits
/// (`docs/measurements/parts.md`). RocksDB's `metadata_block_size` has the same default.
pub(crate) const PART_BYTES: usize = 4096;

/// If the last filter part would have fewer than 1 / `MIN_SHARE` of the keys that a part may have,
/// it is joined to the previous part, because a small filter has a higher false-positive rate for
/// the same bits per key.
pub(super) const MIN_SHARE: usize = 4;

pub(super) struct Cuts {
    pub most_index_bytes: usize,
    pub most_keys: usize,
    /// The number of user keys since the last cut of the index.
    pub keys: usize,
    /// The filter parts that have ended, each with the number of index parts that had ended by
    /// then.
    pub filters: Vec<(FilterBuilder, usize)>,
}

/// A filter as it is to be stored.
pub(super) struct BuiltFilter {
    /// One block with the whole filter, or a block for each part.
    pub blocks: Vec<FilterBlock>,
    /// For each block, how many index parts end where the block's filter part ends, or before.
    pub ends: Vec<usize>,
}

/// The entries of a top, which lists the parts of a filter or an index. Each entry has the user key
/// and the trailer of the part's separator, and the part's handle.
pub(super) type Top = Vec<(Vec<u8>, u64, BlockHandle)>;

/// The index as it was written.
pub(super) struct WrittenIndex {
    pub handle: BlockHandle,
    /// The stored bytes of the index, block trailers included.
    pub bytes: u64,
    /// The number of parts; 0 if the index is whole.
    pub parts: usize,
    /// How many of `bytes` belong to the top.
    pub top_bytes: u64,
}

impl Cuts {
    pub fn new(part_bytes: usize) -> Cuts {
        // At 10 bits per key, a filter part has 4 keys for each 5 bytes.
        let most_keys = (part_bytes * 4 / 5).max(1);
        Cuts { most_index_bytes: part_bytes, most_keys, keys: 0, filters: Vec::new() }
    }
}

impl BuiltFilter {
    pub fn metaindex_name(&self) -> String {
        let encoding = self.blocks[0].encoding();
        match self.blocks.len() {
            1 => full_filter_name(encoding).to_owned(),
            _ => parted_filter_name(encoding),
        }
    }
}
