//! [`IndexBuilder`]: gathers the index of a table while its data blocks are written.
//!
//! The index is then written as one block, or in *parts*: blocks of about 4 KiB, to which an upper
//! level leads ([`crate::table::parts`]).

use crate::encoding::coding::put_fixed64;
use crate::encoding::key;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::{Error, Result};

use super::shortest_separator;
use crate::table::block::builder::BlockBuilder;
use crate::table::format::footer::BlockHandle;

/// The kind byte in shortened separators. Of internal keys with one user key and one sequence
/// number, that with the largest kind byte sorts first. No kind that RocksDB 7.8 knows has a larger
/// byte, so no version of the separator's user key sorts before the separator.
const SEPARATOR_KIND: u8 = 0x16;

/// About how many bytes an index entry takes in addition to its user key: two lengths, a handle and
/// a restart point.
const ENTRY_BYTES: usize = 14;

/// The index of a table that is being written. It stays in memory until all data blocks are
/// written, because only then is it known whether separators can be user keys.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    /// The user keys of the separators, back to back.
    keys: Vec<u8>,
    /// For each entry: where the separator's user key ends in `keys`, the separator's trailer
    /// (sequence number and kind), and the handle of the block. The trailers are used only if
    /// separators are stored as internal keys.
    entries: Vec<(usize, u64, BlockHandle)>,
    /// For each part that has ended, the number of entries in it and in all parts before.
    part_ends: Vec<usize>,
    /// About how many bytes the entries of the current, unfinished part take.
    part_bytes: usize,
    splits_a_user_key: bool,
    scratch: Vec<u8>,
}

impl IndexBuilder {
    /// Adds the entry of a data block. `last_key` is the block's last key, and `next_user_key`
    /// begins the next block.
    pub fn push(
        &mut self,
        last_key: &[u8],
        next_user_key: Option<&[u8]>,
        handle: BlockHandle,
    ) -> Result<()> {
        let last_user_key = key::user_key(last_key);
        let mut trailer = key::trailer(last_key);
        let mut separator = last_user_key;
        if let Some(next) = next_user_key {
            self.splits_a_user_key |= next == last_user_key;
            separator = shortest_separator(last_user_key, next, &mut self.scratch);
            if separator != last_user_key {
                trailer = key::pack(MAX_SEQUENCE, SEPARATOR_KIND);
            }
        }
        self.keys.extend_from_slice(separator);
        self.entries.push((self.keys.len(), trailer, handle));
        self.part_bytes += separator.len() + ENTRY_BYTES;
        // A whole index is one block, and offsets in a block have 32 bits.
        if self.keys.len() + 40 * self.entries.len() > u32::MAX as usize {
            return Err(Error::InvalidArgument("a table's index exceeds 4 GiB".into()));
        }
        Ok(())
    }

    /// Whether versions of one user key are in two blocks, so that all separators must be internal
    /// keys.
    pub fn splits_a_user_key(&self) -> bool {
        self.splits_a_user_key
    }

    /// About how many bytes the current part takes.
    pub fn part_bytes(&self) -> usize {
        self.part_bytes
    }

    /// Ends the current part, which must have entries.
    pub fn end_part(&mut self) {
        self.part_ends.push(self.entries.len());
        self.part_bytes = 0;
    }

    pub fn ended_parts(&self) -> usize {
        self.part_ends.len()
    }

    /// The user key and the trailer of each part's last separator. The last part ends at the last
    /// entry. An empty index has one part, whose separator is empty.
    pub fn part_separators(&self) -> Vec<(Vec<u8>, u64)> {
        let ends = self.part_ends.iter().copied().chain([self.entries.len()]);
        let separators = ends.map(|end| {
            let last = end.checked_sub(1).map(|last| self.entry(last));
            last.map_or_else(Default::default, |(user_key, trailer, _)| {
                (user_key.to_vec(), trailer)
            })
        });
        separators.collect()
    }

    fn entry(&self, i: usize) -> (&[u8], u64, BlockHandle) {
        let start = i.checked_sub(1).map_or(0, |before| self.entries[before].0);
        let (end, trailer, handle) = self.entries[i];
        (&self.keys[start..end], trailer, handle)
    }

    /// Writes the entries of a part. Call this after all entries are added, when the form of the
    /// separators is known.
    pub fn write_part_to(&self, part: usize, block: &mut BlockBuilder) {
        let start = part.checked_sub(1).map_or(0, |before| self.part_ends[before]);
        let end = self.part_ends.get(part).copied().unwrap_or(self.entries.len());
        let entries = (start..end).map(|i| self.entry(i));
        write_entries(entries, !self.splits_a_user_key, block);
    }
}

/// Writes index entries: separators, given as user key and trailer, and the handles of their
/// blocks. `user_keys`: whether separators are stored without their trailers.
pub(in crate::table) fn write_entries<'a>(
    entries: impl Iterator<Item = (&'a [u8], u64, BlockHandle)>,
    user_keys: bool,
    block: &mut BlockBuilder,
) {
    let (mut separator, mut value) = (Vec::new(), Vec::new());
    for (user_key, trailer, handle) in entries {
        separator.clear();
        separator.extend_from_slice(user_key);
        if !user_keys {
            put_fixed64(&mut separator, trailer);
        }
        value.clear();
        handle.encode(&mut value);
        block.add(&separator, &value);
    }
}
