//! The block `rocksdb.range_del`: the ranges of keys that a table deletes.
//!
//! It is an ordinary block of entries ([`super::block`]), never compressed, and every key is whole:
//!
//! ```text
//! key    first user key of the range | fixed64 sequence << 8 | 15
//! value  first user key after the range
//! ```
//!
//! No data block, index or filter contains the ranges. So every lookup must check the ranges, even
//! if the filter says that the table does not hold the key. Opening a table loads them into memory,
//! so that this check reads nothing.
//!
//! The ranges are written in the order of internal keys, and read in any order, because RocksDB's
//! `SstFileWriter` does not sort them.

use std::sync::Arc;

use crate::encoding::key;
use crate::encoding::key::{EntryKind, SequenceNumber};
use crate::error::{Damage, Error, Result};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};

use super::block::builder::{BlockBuilder, MAX_ENTRY_BYTES};
use super::block::cursor::BlockCursor;
use super::format::file::BlockFile;
use super::format::footer::BlockHandle;
use super::format::limits::KeyBytes;
use super::format::properties::{TableProperties, names};
use super::open::{RANGE_DEL_BLOCK, find_block};

/// Reads the ranges that a table deletes; `None` if it deletes none. `global_sequence`: for an
/// ingested table, the sequence number of all ranges. It is damage if there are more or fewer
/// ranges than the properties state.
pub(super) fn read_ranges(
    file: &BlockFile,
    metaindex: &[(String, BlockHandle)],
    properties: &TableProperties,
    global_sequence: Option<SequenceNumber>,
) -> Result<Option<Arc<RangeTombstones>>> {
    // Files of old versions of RocksDB lack this number.
    let stated = properties.number(names::RANGE_DELETIONS);
    let check_count = |count: u64, handle| match stated {
        Some(stated) if stated != count => {
            let expected = format_args!("{RANGE_DEL_BLOCK} with {stated} ranges").to_string();
            Err(file.damaged(Damage::new(0, expected, count), handle))
        }
        _ => Ok(()),
    };
    let Some(handle) = find_block(metaindex, RANGE_DEL_BLOCK) else {
        return check_count(0, file.footer().metaindex).map(|()| None);
    };
    let block = file.read_metadata_block(handle)?;
    let mut key_bytes = KeyBytes::new(file.limit());
    let mut ranges = Vec::new();
    let mut read = || -> Result<(), Damage> {
        let mut cursor = BlockCursor::new(&block, global_sequence);
        cursor.seek_to_first()?;
        while cursor.valid() {
            let (internal_key, end) = (cursor.key(), cursor.value());
            let (start, kind) = (key::user_key(internal_key), key::kind_byte(internal_key));
            if kind != EntryKind::RangeDeletion as u8 {
                return Err(Damage::new(0, "entries of type 15", format_args!("type {kind}")));
            }
            // An empty range hides nothing. Old versions of RocksDB wrote such ranges.
            if start > end {
                return Err(Damage::new(
                    0,
                    "ranges that end at or behind their start",
                    format_args!("\"{}\" to \"{}\"", start.escape_ascii(), end.escape_ascii()),
                ));
            }
            key_bytes.take(start.len())?;
            ranges.push((start.to_vec(), cursor.value_range(), key::sequence(internal_key)));
            cursor.next()?;
        }
        Ok(())
    };
    read().map_err(|damage| file.damaged(damage, handle))?;
    check_count(ranges.len() as u64, handle)?;
    let set = RangeTombstones::new(ranges.iter().map(|(start, end, sequence)| RangeTombstone {
        start,
        end: &block.bytes()[end.clone()],
        sequence: *sequence,
    }));
    Ok((!set.is_empty()).then(|| Arc::new(set)))
}

/// Writes the block of range deletions. Call order: `add* finish`.
pub(super) struct RangeBlockBuilder {
    block: BlockBuilder,
    /// The internal key of the first range. `last_end` below is the largest end of all ranges.
    first: Vec<u8>,
    last_end: Vec<u8>,
    internal_key: Vec<u8>,
}

impl RangeBlockBuilder {
    pub fn new() -> RangeBlockBuilder {
        RangeBlockBuilder {
            block: BlockBuilder::new(1),
            first: Vec::new(),
            last_end: Vec::new(),
            internal_key: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// Adds a range. Internal keys must not descend, and the range must not be empty.
    pub fn add(&mut self, range: RangeTombstone<'_>) -> Result<()> {
        let RangeTombstone { start, end, sequence } = range;
        let kind = EntryKind::RangeDeletion as u8;
        self.internal_key.clear();
        key::put_internal_key(&mut self.internal_key, start, key::pack(sequence, kind));
        let bytes = self.internal_key.len() + end.len();
        // The most bytes that the block may have with this range: the entry has three lengths of up
        // to 5 bytes each, and adds a restart point of 4 bytes. The size must fit into 32 bits,
        // because the offsets in a block have 32 bits.
        let with_range = self.block.estimated_bytes() + bytes + 4 + 15;
        let wrong = if start >= end {
            Some("a range deletion whose range is empty".to_string())
        } else if bytes > MAX_ENTRY_BYTES {
            Some(format!("a range deletion of {bytes} bytes: its bounds may have 2^30 together"))
        } else if with_range > u32::MAX as usize {
            Some("the range deletions of a table exceed 4 GiB".to_string())
        } else if !self.is_empty()
            && key::compare(self.block.last_key(), &self.internal_key).is_gt()
        {
            Some(format!("range deletions out of order: \"{}\"", start.escape_ascii()))
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(Error::InvalidArgument(wrong));
        }
        if self.is_empty() {
            self.first.extend_from_slice(&self.internal_key);
        }
        if self.last_end[..] < *end {
            self.last_end.clear();
            self.last_end.extend_from_slice(end);
        }
        self.block.add(&self.internal_key, end);
        Ok(())
    }

    /// The finished block, its first internal key, and the exclusive end of all ranges as an
    /// internal key. This key has the largest end of a range as its user key, and sorts before
    /// every entry of that user key.
    pub fn finish(&mut self) -> (&[u8], Vec<u8>, Vec<u8>) {
        (self.block.finish(), std::mem::take(&mut self.first), key::range_end(&self.last_end))
    }
}
