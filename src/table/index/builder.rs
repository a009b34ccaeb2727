//! [`IndexBuilder`]: gathers the index of a table while its data blocks are written.

use crate::encoding::coding::put_fixed64;
use crate::encoding::key;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::{Error, Result};

use super::shortest_separator;
use crate::table::block::builder::BlockBuilder;
use crate::table::format::footer::BlockHandle;

/// The kind byte in shortened separators: it sorts before all kinds that RocksDB 7.8 knows.
const SEPARATOR_KIND: u8 = 0x16;

/// The index, kept in one piece of memory until its form is known.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    /// The user keys of the separators, back to back.
    keys: Vec<u8>,
    /// End in `keys`, trailer of the separator as an internal key, block.
    entries: Vec<(usize, u64, BlockHandle)>,
    splits_a_user_key: bool,
    scratch: Vec<u8>,
}

impl IndexBuilder {
    /// Adds the entry of a data block, from its last key and the user key that begins the next one.
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
        // The index is one block, and offsets in a block are 32 bits.
        if self.keys.len() + 40 * self.entries.len() > u32::MAX as usize {
            return Err(Error::InvalidArgument("a table's index exceeds 4 GiB".into()));
        }
        Ok(())
    }

    /// Whether versions of one user key stand in two blocks. All separators are internal keys then.
    pub fn splits_a_user_key(&self) -> bool {
        self.splits_a_user_key
    }

    /// Writes the entries, in the form that is known now.
    pub fn write_to(&self, block: &mut BlockBuilder) {
        let mut start = 0;
        let (mut separator, mut value) = (Vec::new(), Vec::new());
        for &(end, trailer, handle) in &self.entries {
            separator.clear();
            separator.extend_from_slice(&self.keys[start..end]);
            if self.splits_a_user_key {
                put_fixed64(&mut separator, trailer);
            }
            value.clear();
            handle.encode(&mut value);
            block.add(&separator, &value);
            start = end;
        }
    }
}
