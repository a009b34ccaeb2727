//! [`BlockBuilder`]: writes a block of sorted entries, whose layout is drawn in
//! [`crate::table::block`].

use crate::encoding::bytes::common_prefix_len;
use crate::encoding::coding::{put_fixed32, put_varint};

/// The most bytes that the key and the value of one entry may have together, because offsets within
/// a block have 32 bits.
pub(crate) const MAX_ENTRY_BYTES: usize = 1 << 30;

/// Builds a block. Call order: `(add* finish clear)*`, keys in ascending order.
pub(crate) struct BlockBuilder {
    out: Vec<u8>,
    restarts: Vec<u32>,
    /// The number of entries from one restart point to the next.
    restart_interval: usize,
    since_restart: usize,
    last_key: Vec<u8>,
    /// Whether a length precedes each value. Values of index entries need none, because the
    /// encoding of a block handle shows where the handle ends.
    value_lengths: bool,
}

impl BlockBuilder {
    pub fn new(restart_interval: usize) -> BlockBuilder {
        BlockBuilder {
            out: Vec::new(),
            restarts: vec![0],
            restart_interval,
            since_restart: 0,
            last_key: Vec::new(),
            value_lengths: true,
        }
    }

    /// A builder for an index block, whose values are block handles without a length before them.
    /// Each entry is a restart point, so that it holds a whole key and a whole handle.
    pub fn for_index() -> BlockBuilder {
        BlockBuilder { value_lengths: false, ..BlockBuilder::new(1) }
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Bytes of the block if it were finished now.
    pub fn estimated_bytes(&self) -> usize {
        self.out.len() + 4 * self.restarts.len() + 4
    }

    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Adds an entry. The table builder ensures that the key, the value and the block have fewer
    /// than 2^32 bytes.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut shared = 0;
        if self.since_restart == self.restart_interval {
            self.restarts.push(self.out.len() as u32);
            self.since_restart = 0;
        } else if !self.out.is_empty() {
            shared = common_prefix_len(&self.last_key, key);
        }
        put_varint(&mut self.out, shared as u64);
        put_varint(&mut self.out, (key.len() - shared) as u64);
        if self.value_lengths {
            put_varint(&mut self.out, value.len() as u64);
        }
        self.out.extend_from_slice(&key[shared..]);
        self.out.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.since_restart += 1;
    }

    /// Returns the finished block. Call [`Self::clear`] before the next [`Self::add`].
    pub fn finish(&mut self) -> &[u8] {
        for &restart in &self.restarts {
            put_fixed32(&mut self.out, restart);
        }
        put_fixed32(&mut self.out, self.restarts.len() as u32);
        &self.out
    }

    /// Empties the builder for the next block.
    pub fn clear(&mut self) {
        self.out.clear();
        self.restarts.clear();
        self.restarts.push(0);
        self.since_restart = 0;
        self.last_key.clear();
    }
}
