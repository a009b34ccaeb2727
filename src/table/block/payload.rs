//! The payload of one block in memory ([`BlockBytes`]); its entries, read one after the other
//! ([`Entry`], [`Scan`]); and the buffer in which their keys are built ([`KeyBuffer`]).
//!
//! ```text
//! buffer      payload | trailer, if it was read with one | … | room
//!             ▲ a cache line starts here                      ▲ and here
//!
//! entry       varint32 shared | varint32 non_shared | varint32 value_len | key suffix | value
//!
//! KeyBuffer   | shared with the key before | suffix | … room
//!             ◄────────── key ─────────────►
//! ```
//!
//! A block that is not compressed stays in the buffer that it was read into, together with its
//! trailer: the payload is the front of the buffer. The *room* is spare memory for data derived
//! from the payload ([`super::key_heads`]). It begins at the first cache line after the payload. So
//! it may overlap the trailer, which is not needed any more once the block is checked.
//!
//! An entry is checked whenever it is decoded, because a right checksum only proves that the bytes
//! are those that were written, not that they are a valid entry.

use std::ops::{Deref, Range};

use crate::encoding::coding::varint;
use crate::encoding::key::TRAILER_BYTES;
use crate::error::Damage;
use crate::memory::{LINE_BYTES, LineBuf};
use crate::slice::StableBytes;

/// The payload of one block, which begins at the start of a cache line.
pub(crate) struct BlockBytes {
    buffer: LineBuf,
    len: usize,
}

// SAFETY: the buffer's allocation does not move while the buffer lives, and nothing here writes to
// the payload.
unsafe impl StableBytes for BlockBytes {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

impl BlockBytes {
    /// The first `len` bytes of `buffer`. Panics when there are fewer.
    pub fn new(buffer: LineBuf, len: usize) -> BlockBytes {
        assert!(len <= buffer.len());
        BlockBytes { buffer, len }
    }

    /// The payload, and the room after it. Writing to the room does not change the payload.
    pub fn payload_and_room(&mut self) -> (&[u8], &mut [u8]) {
        let room_start = self.room_start();
        let (front, room) = self.buffer.split_at_mut(room_start);
        (&front[..self.len], room)
    }

    /// The room after the payload.
    #[inline]
    pub fn room(&self) -> &[u8] {
        &self.buffer[self.room_start()..]
    }

    #[inline]
    fn room_start(&self) -> usize {
        self.len.next_multiple_of(LINE_BYTES).min(self.buffer.len())
    }

    #[cfg(test)]
    pub fn copy_from(bytes: &[u8]) -> BlockBytes {
        BlockBytes::new(LineBuf::copy_from(bytes), bytes.len())
    }

    /// Starts to fetch the cache line that holds byte `offset`. Any offset is allowed.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        self.buffer.prefetch(offset);
    }

    /// Bytes of memory that the payload and its room take.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.memory_bytes()
    }

    pub fn into_memory(self) -> LineBuf {
        self.buffer
    }

    /// Returns the payload in memory that has no room. Reuses the memory of this block if it is
    /// already as small as possible. Otherwise copies the payload into a buffer that `buffer`
    /// makes.
    pub fn into_exact(self, buffer: impl FnOnce(usize) -> LineBuf) -> LineBuf {
        if LineBuf::needed_bytes(self.len) == self.buffer.memory_bytes() {
            return self.buffer.reused(self.len);
        }
        let mut exact = buffer(self.len);
        exact.copy_from_slice(&self);
        exact
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// The positions of the parts of one entry.
pub(crate) struct Entry {
    /// How many bytes the key shares with the key before.
    pub shared: usize,
    pub suffix: Range<usize>,
    pub value: Range<usize>,
}

impl Entry {
    /// Decodes the entry at `offset`. Panics if `offset` is beyond the end of `entries`.
    #[inline(always)]
    pub fn decode(entries: &[u8], offset: usize) -> Result<Entry, Damage> {
        let (shared, non_shared, value_bytes, head_bytes) = match Self::short_head(entries, offset)
        {
            Some(head) => head,
            None => Self::decode_long_head(&entries[offset..])
                .ok_or_else(|| Damage::new(offset, "the three lengths of an entry", "none"))?,
        };
        let suffix_start = offset + head_bytes;
        // Each length is below 2^32, so the sums do not overflow.
        let value_start = suffix_start + non_shared;
        let value_end = value_start + value_bytes;
        if value_end > entries.len() {
            return Err(Self::past_end(offset, entries.len(), value_end));
        }
        Ok(Entry { shared, suffix: suffix_start..value_start, value: value_start..value_end })
    }

    /// The three lengths and how many bytes they take. `None` unless the entry has the common form:
    /// one byte for each length, except that the length of the value may take two. `None` also if
    /// fewer than 4 bytes are left.
    #[inline(always)]
    fn short_head(entries: &[u8], offset: usize) -> Option<(usize, usize, usize, usize)> {
        let head = entries[offset..].first_chunk().map(|head| u32::from_le_bytes(*head))?;
        let length = |i: u32| (head >> (8 * i)) as usize & 0x7f;
        match head & 0x8080_8080 {
            0 | 0x8000_0000 => Some((length(0), length(1), length(2), 3)),
            0x0080_0000 => Some((length(0), length(1), length(2) | length(3) << 7, 4)),
            _ => None,
        }
    }

    #[cold]
    fn past_end(offset: usize, entries_bytes: usize, value_end: usize) -> Damage {
        Damage::new(
            offset,
            format_args!("an entry that ends by {entries_bytes}"),
            format_args!("one that ends at {value_end}"),
        )
    }

    #[cold]
    fn decode_long_head(head: &[u8]) -> Option<(usize, usize, usize, usize)> {
        let mut at = 0;
        let mut lengths = [0; 3];
        for length in &mut lengths {
            let (value, bytes) = varint(&head[at..])?;
            *length = u32::try_from(value).ok()? as usize;
            at += bytes;
        }
        Some((lengths[0], lengths[1], lengths[2], at))
    }
}

/// Rejects a key that is too short to be an internal key.
pub(crate) fn check_internal(key: &[u8], offset: usize) -> Result<(), Damage> {
    if key.len() < TRAILER_BYTES {
        return Err(Damage::new(
            offset,
            "an internal key of at least 8 bytes",
            format_args!("{} bytes", key.len()),
        ));
    }
    Ok(())
}

/// A suffix of up to this many bytes is copied as if it had exactly this many, because that takes
/// two move instructions instead of a call.
pub(crate) const SHORT_SUFFIX_BYTES: usize = 32;

/// The key of the current entry of a walk. The next key reuses the bytes that it shares with this
/// key.
#[derive(Default)]
pub(crate) struct KeyBuffer {
    /// The first `length` bytes are the key. The bytes after them may be overwritten at any time.
    bytes: Vec<u8>,
    length: usize,
}

impl KeyBuffer {
    /// The smallest size of a buffer that is not empty. Most keys fit into it, with
    /// [`SHORT_SUFFIX_BYTES`] to spare.
    const ROOM_BYTES: usize = 128;

    pub fn clear(&mut self) {
        self.length = 0;
    }

    pub fn extend_from_slice(&mut self, suffix: &[u8]) {
        let length = self.length + suffix.len();
        if length + SHORT_SUFFIX_BYTES > self.bytes.len() {
            self.grow(length);
        }
        self.bytes[self.length..length].copy_from_slice(suffix);
        self.length = length;
    }

    #[cold]
    fn grow(&mut self, length: usize) {
        let room = (length + SHORT_SUFFIX_BYTES).next_power_of_two().max(Self::ROOM_BYTES);
        let mut bytes = vec![0; room];
        bytes[..self.length].copy_from_slice(self);
        self.bytes = bytes;
    }

    /// The memory for a short suffix after the first `shared` bytes. `None` if the buffer is too
    /// small, or if the key has fewer than `shared` bytes.
    #[inline(always)]
    pub fn short_suffix(&mut self, shared: usize) -> Option<&mut [u8; SHORT_SUFFIX_BYTES]> {
        if shared > self.length {
            return None;
        }
        self.bytes.get_mut(shared..)?.first_chunk_mut()
    }

    /// Sets the length of the key. Panics if the buffer has fewer bytes.
    #[inline(always)]
    pub fn set_length(&mut self, length: usize) {
        assert!(length <= self.bytes.len());
        self.length = length;
    }

    /// Turns the key of the previous entry into the key of `entry`. Damage is reported at `offset`,
    /// where the entry starts.
    pub fn follow(&mut self, entry: &Entry, entries: &[u8], offset: usize) -> Result<(), Damage> {
        if entry.shared > self.length {
            return Err(Damage::new(
                offset,
                format_args!("at most {} shared key bytes", self.length),
                entry.shared,
            ));
        }
        self.length = entry.shared;
        self.extend_from_slice(&entries[entry.suffix.clone()]);
        Ok(())
    }
}

impl Deref for KeyBuffer {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A key, borrowed until the walk's next step, and a value, borrowed from the block.
type KeyAndValue<'k, 'v> = (&'k [u8], &'v [u8]);

/// See [`super::Block::scan`].
pub(crate) struct Scan<'a> {
    entries: &'a [u8],
    next: usize,
    key: KeyBuffer,
    value: Range<usize>,
}

impl<'a> Scan<'a> {
    pub fn new(entries: &'a [u8]) -> Scan<'a> {
        Scan { entries, next: 0, key: KeyBuffer::default(), value: 0..0 }
    }

    /// The next key and value; `None` at the end.
    pub fn next(&mut self) -> Result<Option<KeyAndValue<'_, 'a>>, Damage> {
        if self.next == self.entries.len() {
            return Ok(None);
        }
        let entry = Entry::decode(self.entries, self.next)?;
        self.key.follow(&entry, self.entries, self.next)?;
        self.next = entry.value.end;
        self.value = entry.value.clone();
        Ok(Some((&self.key, &self.entries[entry.value])))
    }

    /// Where in the block the value is that the latest call of [`Self::next`] returned.
    pub fn value_range(&self) -> Range<usize> {
        self.value.clone()
    }
}
