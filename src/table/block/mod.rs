//! Sorted blocks of prefix-compressed entries: data, index, metaindex and properties blocks.
//!
//! ```text
//! block   entry … | u32 restart[n] | [hash index] | u32 packed
//! entry   varint32 shared | varint32 non_shared | varint32 value_len | key suffix | value
//! packed  bits 0-27 n · 28 separated keys and values · 29 uniform keys · 30 zero · 31 hash index
//! hash index (skipped)   u8 bucket[m] | u16 m
//! ```
//!
//! `shared` counts the bytes that a key has in common with the key before it. At a *restart point*
//! it is zero, so the key there can be read without any other key. `restart[i]` is the offset of
//! restart point `i`; `restart[0]` is 0. A search first finds an interval by binary search over the
//! restart points, and then walks its entries. A data block of the cache also has *key heads*, the
//! first bytes of its keys side by side, which replace the binary search ([`key_heads`]).
//!
//! Making a [`Block`] checks its *tail*, which is everything after the entries. Entries are checked
//! as they are decoded. This module does not know the file, so failures are [`Damage`] with an
//! offset in the block.

pub(crate) mod builder;
pub(crate) mod cursor;
pub(crate) mod key_heads;
pub(crate) mod payload;
pub(crate) mod pinned;
pub(crate) mod search;

use std::cmp::Ordering;

use crate::encoding::coding::fixed32;
use crate::encoding::key;
use crate::encoding::key::SequenceNumber;
use crate::error::Damage;
use crate::memory::{LINE_BYTES, LineBuf};

use self::key_heads::{Candidate, KeyHeads};
use self::payload::{BlockBytes, Entry, KeyBuffer, Scan, check_internal};

const RESTARTS_MASK: u32 = (1 << 28) - 1;
const SEPARATED_BIT: u32 = 1 << 28;
const UNKNOWN_BIT: u32 = 1 << 30;
pub(crate) const HASH_INDEX_BIT: u32 = 1 << 31;

/// How many cache lines a seek prefetches: enough for one or two entries.
const SEEK_LINES: usize = 4;

/// Where a search for a user key starts, as far as the block's key heads show it.
#[derive(Clone, Copy)]
pub(crate) enum SeekStart {
    /// The block has no key heads.
    Unknown,
    /// After all entries.
    PastEnd,
    /// At this entry or after it.
    At(Candidate),
}

/// An uncompressed block, its tail decoded.
pub(crate) struct Block {
    bytes: BlockBytes,
    /// Where the entries end and the restart points start.
    entries_end: usize,
    /// At least one.
    restart_count: usize,
    /// Only in blocks of the cache.
    key_heads: Option<KeyHeads>,
}

impl Block {
    pub fn new(bytes: BlockBytes) -> Result<Block, Damage> {
        let (entries_end, restart_count) = decode_tail(&bytes)?;
        Ok(Block { bytes, entries_end, restart_count, key_heads: None })
    }

    /// Where the entries end in a payload that ends where these bytes end. The bytes may begin
    /// before the payload. `None` if [`Block::new`] does not accept its tail, or if its first
    /// restart point is not 0.
    pub fn entries_end_before(bytes: &[u8]) -> Option<usize> {
        let (entries_end, _) = decode_tail(bytes).ok()?;
        (fixed32(&bytes[entries_end..]) == 0).then_some(entries_end)
    }

    /// Whether a payload is a block whose keys and values are stored apart.
    pub fn is_separated(payload: &[u8]) -> bool {
        payload.last_chunk().is_some_and(|&tail| u32::from_le_bytes(tail) & SEPARATED_BIT != 0)
    }

    /// The entries, without the tail.
    #[inline]
    pub fn entries(&self) -> &[u8] {
        &self.bytes[..self.entries_end]
    }

    /// The whole uncompressed block.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory that the block takes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.heap_bytes() + self.key_heads.as_ref().map_or(0, KeyHeads::heap_bytes)
    }

    /// Makes the key heads of a data block that is to be searched many times. A block that is
    /// empty, damaged or out of order gets none.
    pub fn add_key_heads(&mut self) {
        self.key_heads = KeyHeads::of(&mut self.bytes, self.entries_end);
    }

    /// The key heads, which every search reads first. Empty if the block has none.
    pub fn heads(&self) -> &[u8] {
        self.key_heads.as_ref().map_or(&[], |key_heads| key_heads.rows(&self.bytes))
    }

    /// The block's memory, for reuse by another block.
    pub fn into_memory(self) -> LineBuf {
        self.bytes.into_memory()
    }

    /// Where a search for `user_key` starts.
    #[inline]
    pub(crate) fn search_start(&self, user_key: &[u8]) -> SeekStart {
        let Some(key_heads) = &self.key_heads else { return SeekStart::Unknown };
        key_heads.candidate(&self.bytes, user_key).map_or(SeekStart::PastEnd, SeekStart::At)
    }

    /// Where a seek to `user_key` starts. Prefetches the entries there.
    pub(crate) fn start_seek(&self, user_key: &[u8]) -> SeekStart {
        let start = self.search_start(user_key);
        if let SeekStart::At(candidate) = start {
            for line in 0..SEEK_LINES {
                self.bytes.prefetch(candidate.offset + line * LINE_BYTES);
            }
        }
        start
    }

    /// See [`BlockBytes::prefetch`].
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        self.bytes.prefetch(offset);
    }

    /// Sets `key` to the start of the candidate's user key, see [`KeyHeads::key_start`]. Returns
    /// `false` if the block has no key heads.
    pub(crate) fn candidate_key_start(&self, candidate: Candidate, key: &mut KeyBuffer) -> bool {
        let Some(key_heads) = &self.key_heads else { return false };
        key_heads.key_start(&self.bytes, candidate, key);
        true
    }

    pub(crate) fn restart_count(&self) -> usize {
        self.restart_count
    }

    /// The offsets of all restart points, as they are stored.
    pub(crate) fn restarts(&self) -> impl Iterator<Item = u32> {
        let array = &self.bytes[self.entries_end..][..4 * self.restart_count];
        array.as_chunks().0.iter().map(|&offset| u32::from_le_bytes(offset))
    }

    /// The offset of restart point `i`. It is damage if the offset is beyond the end of the
    /// entries.
    pub(crate) fn restart(&self, i: usize) -> Result<usize, Damage> {
        let at = self.entries_end + 4 * i;
        let offset = fixed32(&self.bytes[at..]) as usize;
        if offset > self.entries_end {
            let expected = format_args!("a restart point up to {}", self.entries_end).to_string();
            return Err(Damage::new(at, expected, offset));
        }
        Ok(offset)
    }

    /// Checks that the restart points are the offsets of entries with whole keys, in ascending order,
    /// from the first entry on. Searches rely on it, and check only the restart points that they
    /// read.
    pub(crate) fn check_restarts(&self) -> Result<(), Damage> {
        // An empty block has one restart point, 0.
        let (mut whole, mut offset) = (vec![0], 0);
        while offset < self.entries_end {
            let entry = Entry::decode(self.entries(), offset)?;
            if entry.shared == 0 && offset > 0 {
                whole.push(offset);
            }
            offset = entry.value.end;
        }
        let mut whole = whole.into_iter();
        for (i, restart) in self.restarts().enumerate() {
            let is_whole = whole.any(|offset| offset == restart as usize);
            if !is_whole || (i == 0 && restart > 0) {
                let at = self.entries_end + 4 * i;
                return Err(Damage::new(at, "the offset of an entry with a whole key", restart));
            }
        }
        Ok(())
    }

    /// The whole internal key at restart point `i`.
    pub(crate) fn restart_key(&self, i: usize) -> Result<&[u8], Damage> {
        let offset = self.restart(i)?;
        let entry = Entry::decode(self.entries(), offset)?;
        if entry.shared != 0 {
            return Err(Damage::new(offset, "a whole key at a restart point", "a shared prefix"));
        }
        let key = &self.bytes[entry.suffix.clone()];
        check_internal(key, offset)?;
        Ok(key)
    }

    /// The offset of the last restart point whose key is before the target. If there is no such
    /// restart point, the offset of the first one.
    fn restart_before(
        &self,
        user_key: &[u8],
        trailer: u64,
        global_sequence: Option<SequenceNumber>,
    ) -> Result<usize, Damage> {
        let (mut low, mut high) = (0, self.restart_count());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let restart_key = self.restart_key(middle)?;
            let order = key::user_key(restart_key).cmp(user_key).then_with(|| {
                trailer.cmp(&visible_trailer(key::trailer(restart_key), global_sequence))
            });
            if order == Ordering::Less {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.restart(low)
    }

    /// Walks the entries in order. Their keys need not be internal keys. Use it for blocks that are
    /// read once.
    pub fn scan(&self) -> Scan<'_> {
        Scan::new(self.entries())
    }
}

/// The tail of a block, which ends where these bytes end: the offset at which the entries end and the
/// restart points start, and the number of restart points, at least one.
fn decode_tail(bytes: &[u8]) -> Result<(usize, usize), Damage> {
    let length = bytes.len();
    let Some(packed_offset) = length.checked_sub(4) else {
        return Err(Damage::new(0, "a block of at least 4 bytes", length));
    };
    let packed = fixed32(&bytes[packed_offset..]);
    if packed & UNKNOWN_BIT != 0 {
        let found = format_args!("{packed:#010x}").to_string();
        return Err(Damage::new(packed_offset, "bit 30 of the block's tail to be 0", found));
    }
    if packed & SEPARATED_BIT != 0 {
        return Err(Damage::new(
            packed_offset,
            "keys and values side by side",
            "a block with separated keys and values, which this build does not read",
        ));
    }
    let mut restarts_end = packed_offset;
    if packed & HASH_INDEX_BIT != 0 {
        let buckets_end = packed_offset.checked_sub(2);
        restarts_end = buckets_end
            .and_then(|end| {
                let buckets = u16::from_le_bytes([bytes[end], bytes[end + 1]]);
                end.checked_sub(usize::from(buckets))
            })
            .ok_or_else(|| Damage::new(packed_offset, "a hash index in the block", "none"))?;
    }
    let restart_count = (packed & RESTARTS_MASK) as usize;
    match restarts_end.checked_sub(4 * restart_count) {
        Some(entries_end) if restart_count > 0 => Ok((entries_end, restart_count)),
        _ => Err(Damage::new(
            packed_offset,
            format_args!("1 to {} restart points", restarts_end / 4),
            restart_count,
        )),
    }
}

/// The trailer that readers see. `global_sequence` is the sequence number that they see in every
/// key of an ingested file; `None` for other files.
#[inline]
fn visible_trailer(stored_trailer: u64, global_sequence: Option<SequenceNumber>) -> u64 {
    match global_sequence {
        None => stored_trailer,
        Some(sequence) => key::pack(sequence, stored_trailer as u8),
    }
}
