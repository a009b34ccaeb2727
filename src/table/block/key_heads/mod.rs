//! [`KeyHeads`]: the first bytes of a block's keys in adjacent memory, and where each entry is.
//!
//! A plain search of a block reads a dozen scattered cache lines, one after the other. Key heads
//! reduce that to two successive cache misses: one for the heads, which are fetched together with
//! the cached block's header, and one for the first entry that may match. For most absent keys the
//! heads alone decide. Heads are made when a block enters the cache; the file does not contain
//! them.
//!
//! ```text
//! head[n]     i32: the first 4 bytes of each user key after the block's common prefix, as a number
//!             in the order of the keys; a shorter key is padded with zeros. The row is filled up to
//!             a multiple of 16 with the maximum. (Signed, because the oldest vector instructions
//!             compare only signed numbers.)
//! offset[n]   u16, in blocks above 64 KiB u32: where each entry starts
//! prefix      the common prefix of all user keys
//! ```
//!
//! The rows are in the room after the block's payload ([`super::payload`]), so that they are in a
//! large page if the block is. A table leaves room for the rows of a block with about 1/16 more
//! entries than its blocks have on average. Rows that need more room are allocated separately.
//!
//! Invariant: every user key of the block starts with the prefix, and the heads ascend. A block
//! whose entries do not decode, or whose heads do not ascend, gets no heads; the plain search finds
//! the damage.
//!
//! Entries whose heads are smaller than the target's are before the target, and entries whose heads
//! are larger are after it. Equal heads do not decide, so the search compares the entries
//! themselves, from the one with the first equal head on ([`super::search`]).

use std::ops::Range;

use crate::encoding::bytes::{common_prefix_len, strip_prefix};
use crate::encoding::key::TRAILER_BYTES;

use super::payload::{BlockBytes, Entry, KeyBuffer};

/// How many heads are compared together. They fill a cache line.
const LANES: usize = 16;

/// A binary search narrows a longer row of heads to at most this many.
const LINEAR_HEADS: usize = 128;

/// The size of the smallest entry: three lengths of a byte each, and a trailer.
const MIN_ENTRY_BYTES: usize = 3 + TRAILER_BYTES;

/// A table leaves room for this many bytes of the common prefix.
const PREFIX_ROOM_BYTES: usize = 32;

/// Making the heads takes two passes over the entries. The first pass ([`FirstWalk`]) notes at most
/// this many of them, which is enough for 4 KiB of entries of 64 bytes. The entries of a block with
/// more are decoded again in the second pass.
const MAX_NOTES: usize = 64;

/// In blocks of up to this size, offsets fit into 16 bits.
const NARROW_BLOCK_BYTES: usize = 1 << 16;

/// The key heads of one block: see the module.
pub(crate) struct KeyHeads {
    entries: u32,
    prefix_bytes: u32,
    /// The rows if the block has no room for them, otherwise empty.
    boxed: Box<[u8]>,
}

/// The first entry of a block that can be at or after a user key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub offset: usize,
    head: i32,
    /// How many bytes at the start of the entry's user key certainly equal the target's. If the
    /// user key is shorter, it is a prefix of the target. `None` if the entry's user key is
    /// certainly larger than the target, because the block's prefix or the entry's head is larger
    /// than the target's bytes at the same place.
    pub same_bytes: Option<usize>,
}

impl KeyHeads {
    /// Makes the heads of a block of internal keys, whose entries are the first `entries_bytes`
    /// bytes. `None` for a block that is empty, damaged or out of order, or if there is no memory.
    ///
    /// This runs whenever a data block enters the cache. A first walk over the entries finds the
    /// size of the rows, so that they are allocated once and filled in place.
    pub fn of(block: &mut BlockBytes, entries_bytes: usize) -> Option<KeyHeads> {
        let (block, room) = block.payload_and_room();
        let mut notes = [Note::default(); MAX_NOTES];
        let FirstWalk { entries, prefix } = FirstWalk::over(&block[..entries_bytes], &mut notes)?;
        let (heads_bytes, offsets_bytes) = row_bytes(entries, block.len());
        let total = heads_bytes + offsets_bytes + prefix.len();
        let mut boxed = Box::default();
        let rows = match room.get_mut(..total) {
            Some(front) => front,
            None => {
                let mut rows = Vec::new();
                rows.try_reserve_exact(total).ok()?;
                rows.resize(total, 0);
                boxed = rows.into_boxed_slice();
                &mut boxed[..]
            }
        };
        let (heads, rest) = rows.split_at_mut(heads_bytes);
        let (offsets, prefix_row) = rest.split_at_mut(offsets_bytes);
        let (heads, padding) = heads.as_chunks_mut().0.split_at_mut(entries);
        padding.fill(i32::MAX.to_le_bytes());
        prefix_row.copy_from_slice(&block[prefix.clone()]);
        let mut again = Notes { entries: &block[..entries_bytes], offset: 0 };
        let next = || again.next();
        let narrow = offset_bytes(block.len()) == 2;
        let ascending = match notes.get(..entries) {
            Some(notes) if narrow => {
                let mut notes = notes.iter();
                let offsets = offsets.as_chunks_mut::<2>().0;
                fill(block, prefix.len(), || notes.next().copied(), heads, offsets)
            }
            _ if narrow => fill(block, prefix.len(), next, heads, offsets.as_chunks_mut::<2>().0),
            _ => fill(block, prefix.len(), next, heads, offsets.as_chunks_mut::<4>().0),
        };
        let (entries, prefix_bytes) = (entries as u32, prefix.len() as u32);
        ascending.then_some(KeyHeads { entries, prefix_bytes, boxed })
    }

    /// Bytes of room to leave for the rows of a block of `block_bytes` with `entries` entries. The
    /// room is less than `block_bytes` plus two cache lines, even if `entries`, a number from the
    /// table's properties, is far too large.
    pub fn room_for(entries: u32, block_bytes: usize) -> usize {
        let entries = (entries as usize).min(block_bytes / MIN_ENTRY_BYTES);
        let (heads_bytes, offsets_bytes) = row_bytes(entries, block_bytes);
        heads_bytes + offsets_bytes + PREFIX_ROOM_BYTES
    }

    /// All rows. Here and below, `block` is the block that the heads were made from.
    pub fn rows<'a>(&'a self, block: &'a BlockBytes) -> &'a [u8] {
        let (heads_bytes, offsets_bytes) = row_bytes(self.entries as usize, block.len());
        &self.memory(block)[..heads_bytes + offsets_bytes + self.prefix_bytes as usize]
    }

    /// The memory that begins with the rows.
    #[inline]
    fn memory<'a>(&'a self, block: &'a BlockBytes) -> &'a [u8] {
        if self.boxed.is_empty() { block.room() } else { &self.boxed }
    }

    /// Bytes of memory that the rows take outside of the block's memory.
    pub fn heap_bytes(&self) -> usize {
        self.boxed.len()
    }

    /// The first entry whose user key can be `target` or larger; `None` if all user keys are
    /// smaller.
    #[inline]
    pub fn candidate(&self, block: &BlockBytes, target: &[u8]) -> Option<Candidate> {
        let (heads, offsets, prefix) = self.parts(block);
        let Some(rest) = strip_prefix(target, prefix) else {
            // A target without the common prefix is before all entries, or after them.
            let head = (target < prefix).then(|| i32::from_le_bytes(heads[0]))?;
            return Some(Candidate { offset: 0, head, same_bytes: None });
        };
        let wanted = head(rest);
        let i = count_below(heads, wanted);
        if i >= self.entries as usize {
            return None;
        }
        let offset = match offset_bytes(block.len()) {
            2 => usize::from(u16::from_le_bytes(offsets.as_chunks().0[i])),
            _ => u32::from_le_bytes(offsets.as_chunks().0[i]) as usize,
        };
        let head = i32::from_le_bytes(heads[i]);
        let same_bytes = (head == wanted).then_some(target.len().min(prefix.len() + 4));
        Some(Candidate { offset, head, same_bytes })
    }

    /// Sets `key` to the start of the candidate's user key, as the heads hold it: the common prefix
    /// and the next 4 bytes, padded with zeros if the user key ends earlier.
    pub fn key_start(&self, block: &BlockBytes, candidate: Candidate, key: &mut KeyBuffer) {
        key.clear();
        key.extend_from_slice(self.parts(block).2);
        key.extend_from_slice(&(candidate.head as u32 ^ SIGN).to_be_bytes());
    }

    /// Heads, offsets and prefix.
    #[inline]
    fn parts<'a>(&'a self, block: &'a BlockBytes) -> (&'a [[u8; 4]], &'a [u8], &'a [u8]) {
        let (heads_bytes, offsets_bytes) = row_bytes(self.entries as usize, block.len());
        let (heads, rest) = self.memory(block).split_at(heads_bytes);
        let (offsets, rest) = rest.split_at(offsets_bytes);
        (heads.as_chunks().0, offsets, &rest[..self.prefix_bytes as usize])
    }
}

/// Bytes of the row of heads, and of the row of offsets.
#[inline(always)]
fn row_bytes(entries: usize, block_bytes: usize) -> (usize, usize) {
    (4 * entries.next_multiple_of(LANES), offset_bytes(block_bytes) * entries)
}

/// Bytes of an offset in a block.
#[inline(always)]
fn offset_bytes(block_bytes: usize) -> usize {
    if block_bytes <= NARROW_BLOCK_BYTES { 2 } else { 4 }
}

/// Flipping this bit maps unsigned numbers to signed ones in the same order.
const SIGN: u32 = 1 << 31;

/// What the first walk over a block finds.
struct FirstWalk {
    /// At least one.
    entries: usize,
    /// Where the common prefix of all user keys is in the block: at the front of the first user
    /// key.
    prefix: Range<usize>,
}

/// What making the heads needs to know of an entry.
#[derive(Clone, Copy, Default)]
struct Note {
    offset: u32,
    /// Where the entry's suffix starts.
    suffix: u32,
    /// How many bytes the entry's key shares with the key before.
    shared: u32,
    key_bytes: u32,
}

/// The notes of the entries from `offset` on.
struct Notes<'a> {
    entries: &'a [u8],
    offset: usize,
}

impl Iterator for Notes<'_> {
    type Item = Note;

    #[inline(always)]
    fn next(&mut self) -> Option<Note> {
        if self.offset >= self.entries.len() {
            return None;
        }
        let entry = Entry::decode(self.entries, self.offset).ok()?;
        let note = Note {
            offset: self.offset as u32,
            suffix: entry.suffix.start as u32,
            shared: entry.shared as u32,
            // If the key before has `shared` bytes, the sum is less than the bytes of the block, so
            // it fits into 32 bits. Otherwise [`FirstWalk::over`] rejects the entry.
            key_bytes: (entry.shared + entry.suffix.len()) as u32,
        };
        self.offset = entry.value.end;
        Some(note)
    }
}

impl FirstWalk {
    /// Walks all entries and notes the first [`MAX_NOTES`]. `None` if the block is empty, or if an
    /// entry does not decode as one with an internal key.
    fn over(entries: &[u8], notes: &mut [Note; MAX_NOTES]) -> Option<FirstWalk> {
        let mut walk = Notes { entries, offset: 0 };
        let (mut count, mut key_bytes) = (0, 0);
        let mut prefix = 0..0;
        for note in walk.by_ref() {
            if note.shared > key_bytes {
                return None;
            }
            key_bytes = note.key_bytes;
            let user_bytes = (key_bytes as usize).checked_sub(TRAILER_BYTES)?;
            let (suffix, shared) = (note.suffix as usize, note.shared as usize);
            if count == 0 {
                prefix = suffix..suffix + user_bytes;
            } else if shared < prefix.len() {
                // The entry shares fewer bytes with the key before than the prefix has. Usually it
                // is a restart point, which shares nothing. The shared bytes equal the start of the
                // prefix, so only the bytes after them are compared.
                let rest = &entries[prefix.start + shared..prefix.end];
                let own = &entries[suffix..][..key_bytes as usize - shared];
                prefix.end = prefix.start + shared + common_prefix_len(rest, own);
            }
            prefix.end = prefix.end.min(prefix.start + user_bytes);
            if let Some(slot) = notes.get_mut(count) {
                *slot = note;
            }
            count += 1;
        }
        let is_whole = walk.offset == entries.len();
        (count > 0 && is_whole).then_some(FirstWalk { entries: count, prefix })
    }
}

/// Fills the rows with the head and the offset of each entry. `next` returns the notes in order.
/// The [`FirstWalk`] has checked that every entry decodes and every key has the prefix. Returns
/// `false` if the heads do not ascend.
///
/// ```text
/// internal key   prefix | w w w w | …          the window: the 4 bytes after the prefix. Every key
///                                              has them, because its trailer alone has 8 bytes
/// next key       shared with it ─► | suffix    the shared bytes come from the previous window
/// ```
#[inline(always)]
fn fill<const N: usize>(
    block: &[u8],
    prefix_bytes: usize,
    mut next: impl FnMut() -> Option<Note>,
    heads: &mut [[u8; 4]],
    offsets: &mut [[u8; N]],
) -> bool {
    let (mut window, mut last, mut ascending) = (0, i32::MIN, true);
    for (head, slot) in heads.iter_mut().zip(offsets) {
        let Some(note) = next() else { return false };
        let shared = note.shared as usize;
        let window_start = note.suffix as usize + prefix_bytes.saturating_sub(shared);
        // If the entry shares bytes of the window, fewer than 4 bytes are needed here, and the
        // suffix may have fewer. The shift below removes the surplus. The block always has 4 bytes
        // here, because its tail follows the last entry.
        let Some(own) = block.get(window_start..).and_then(|rest| rest.first_chunk()) else {
            return false;
        };
        let shared_bytes = shared.saturating_sub(prefix_bytes).min(4);
        window = window & front_mask(shared_bytes)
            | (u64::from(u32::from_be_bytes(*own)) >> (8 * shared_bytes)) as u32;
        let own_bytes =
            (note.key_bytes as usize).saturating_sub(TRAILER_BYTES + prefix_bytes).min(4);
        let value = ((window & front_mask(own_bytes)) ^ SIGN) as i32;
        ascending &= last <= value;
        last = value;
        *head = value.to_le_bytes();
        slot.copy_from_slice(&note.offset.to_le_bytes()[..N]);
    }
    ascending
}

/// A mask of the first `bytes` bytes of a big-endian number of four bytes.
#[inline(always)]
fn front_mask(bytes: usize) -> u32 {
    (u64::from(u32::MAX) << (32 - 8 * bytes)) as u32
}

/// The first 4 bytes, padded with zeros, as a signed number that sorts as the bytes do.
#[inline(always)]
fn head(bytes: &[u8]) -> i32 {
    let front = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 4];
        padded[..bytes.len()].copy_from_slice(bytes);
        padded
    });
    (u32::from_be_bytes(front) ^ SIGN) as i32
}

/// Returns how many of the ascending `heads` are below `wanted`. Counting all of a short row is
/// faster than searching it: the loads are independent, the comparisons use vector instructions,
/// and no branch depends on data.
#[inline(always)]
fn count_below(heads: &[[u8; 4]], wanted: i32) -> usize {
    let below = |head: &[u8; 4]| i32::from_le_bytes(*head) < wanted;
    let (mut low, mut high) = (0, heads.len());
    while high - low > LINEAR_HEADS {
        // The row has a whole number of groups of [`LANES`] heads, and so do both halves.
        let middle = low + (high - low) / 2 / LANES * LANES;
        if below(&heads[middle]) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (groups, _) = heads[low..high].as_chunks::<LANES>();
    let mut counts = [0u32; LANES];
    for group in groups {
        for (count, head) in counts.iter_mut().zip(group) {
            *count += u32::from(below(head));
        }
    }
    low + counts.iter().sum::<u32>() as usize
}

#[cfg(test)]
mod tests;
