//! [`BlockCursor`]: walks the internal keys of a data block, both ways.
//!
//! Entries can only be read forward, because each key needs the key before it. So a backward step
//! goes to the restart point before the current entry, and reads forward from there.
//!
//! In a block of the cache, a seek starts at a *candidate*: the first entry that can be at or after
//! the target, according to the first bytes of the block's keys ([`super::key_heads`]). Other seeks
//! start at a restart point.
//!
//! A scan calls [`BlockCursor::step`] for each entry. `step` checks every length and copies a
//! suffix, but it cannot report an error: at the end of the block and at damage it does not move
//! the cursor. Then the scan calls [`BlockCursor::next`], which distinguishes the end from damage.

use std::cmp::Ordering;
use std::mem;
use std::ops::Range;

use crate::cursor::Step;
use crate::encoding::coding::fixed64;
use crate::encoding::key;
use crate::encoding::key::{SequenceNumber, TRAILER_BYTES};
use crate::error::Damage;

use super::key_heads::Candidate;
use super::payload::{Entry, KeyBuffer, SHORT_SUFFIX_BYTES, check_internal};
use super::pinned::{PinnedBlock, PinsBlock};
use super::{SeekStart, visible_trailer};

/// How many bytes [`BlockCursor::step_short`] reads at once: at most 4 bytes of lengths, and a
/// suffix of at most [`SHORT_SUFFIX_BYTES`].
const WINDOW_BYTES: usize = 4 + SHORT_SUFFIX_BYTES;

/// Walks the internal keys of a data block, both ways. The cursor is on an entry or on none.
///
/// Its methods are those of [`crate::cursor::Cursor`], but failures are [`Damage`], because a block
/// does not know its file.
pub(crate) struct BlockCursor<B> {
    block: PinnedBlock<B>,
    /// The sequence number that readers see in every key of an ingested file. `None` for other
    /// files.
    global_sequence: Option<SequenceNumber>,
    valid: bool,
    /// Where the current entry starts.
    offset: usize,
    /// Where the next entry starts and the current value ends.
    next: usize,
    value_start: usize,
    /// The current internal key as the block stores it. The next key may share its bytes, so they
    /// do not contain the global sequence number.
    stored_key: KeyBuffer,
    /// The current key with the global sequence number; unused if there is no such number.
    visible_key: Vec<u8>,
}

impl<B: PinsBlock> BlockCursor<B> {
    pub fn new(block: B, global_sequence: Option<SequenceNumber>) -> Self {
        BlockCursor {
            block: PinnedBlock::new(block),
            global_sequence,
            valid: false,
            offset: 0,
            next: 0,
            value_start: 0,
            stored_key: KeyBuffer::default(),
            visible_key: Vec::new(),
        }
    }

    /// Changes to another block. The cursor is then on no entry, and keeps its key buffers' memory.
    pub fn enter(&mut self, block: B) {
        self.block = PinnedBlock::new(block);
        self.valid = false;
        self.next = 0;
        self.stored_key.clear();
    }

    pub fn block(&self) -> &B {
        self.block.handle()
    }

    /// Where the next entry starts.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.next
    }

    /// Bytes of all entries.
    pub fn entries_bytes(&self) -> usize {
        self.block.entries().len()
    }

    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.global_sequence {
            None => &self.stored_key,
            Some(_) => &self.visible_key,
        }
    }

    /// The trailer as it is stored, without the global sequence number.
    pub fn stored_trailer(&self) -> u64 {
        key::trailer(&self.stored_key)
    }

    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.block.entries()[self.value_start..self.next]
    }

    /// The range of the value in the block.
    #[inline]
    pub fn value_range(&self) -> Range<usize> {
        self.value_start..self.next
    }

    pub fn seek_to_first(&mut self) -> Result<(), Damage> {
        self.go_to_restart(0)?;
        self.next()
    }

    pub fn seek_to_last(&mut self) -> Result<(), Damage> {
        self.last_before(self.block.entries().len())
    }

    /// Moves to the first entry at or after the internal key `target`.
    pub fn seek(&mut self, target: &[u8]) -> Result<(), Damage> {
        self.seek_parts(key::user_key(target), key::trailer(target))
    }

    /// Like [`Self::seek`], with the target as user key and trailer.
    pub fn seek_parts(&mut self, user_key: &[u8], trailer: u64) -> Result<(), Damage> {
        self.seek_from(self.block.start_seek(user_key), user_key, trailer)
    }

    /// Like [`Self::seek_parts`], but `start` is the result of
    /// [`Block::search_start`](super::Block::search_start) for the user key.
    pub fn seek_from(
        &mut self,
        start: SeekStart,
        user_key: &[u8],
        trailer: u64,
    ) -> Result<(), Damage> {
        self.valid = false;
        match start {
            SeekStart::PastEnd => self.next = self.entries_bytes(),
            SeekStart::At(candidate) if self.go_to_candidate(candidate)? => {}
            _ => {
                self.next = self.block.restart_before(user_key, trailer, self.global_sequence)?;
                self.stored_key.clear();
            }
        }
        loop {
            self.next()?;
            if !self.valid || self.compare(&self.stored_key, user_key, trailer) != Ordering::Less {
                return Ok(());
            }
        }
    }

    /// Prepares [`Self::next`] to read the candidate. Returns `false` if the candidate's key cannot
    /// be derived from the key heads.
    fn go_to_candidate(&mut self, candidate: Candidate) -> Result<bool, Damage> {
        if candidate.offset > self.entries_bytes() {
            // The search found the candidate in an earlier copy of this block. Then the block was
            // read again, and the file had changed in between. So the caller does without the
            // candidate.
            return Ok(false);
        }
        let entry = Entry::decode(self.block.entries(), candidate.offset)?;
        if !self.block.candidate_key_start(candidate, &mut self.stored_key) {
            return Ok(false);
        }
        self.next = candidate.offset;
        // `stored_key` now begins like the candidate's user key. It has as many bytes as the heads
        // hold, and zeros if the user key is shorter. `next` takes the candidate's shared bytes
        // from `stored_key` instead of from the key before. So `stored_key` must be long enough to
        // have them, and they must all be bytes of the user key, because `stored_key` does not have
        // the bytes of the trailer. They are if the suffix has at least as many bytes as a trailer,
        // because an internal key ends with its trailer.
        Ok(entry.shared <= self.stored_key.len() && entry.suffix.len() >= TRAILER_BYTES)
    }

    /// Moves to the last entry before the internal key `target`.
    pub fn seek_before(&mut self, target: &[u8]) -> Result<(), Damage> {
        self.seek(target)?;
        if self.valid { self.prev() } else { self.seek_to_last() }
    }

    #[inline]
    pub fn next(&mut self) -> Result<(), Damage> {
        match self.step() {
            Some(_) => Ok(()),
            None => self.stop(),
        }
    }

    /// See [`crate::cursor::Cursor::step`]. `None` at the end of the block, and before damage.
    pub fn step(&mut self) -> Option<Step> {
        self.step_short().or_else(|| self.step_long())
    }

    /// The fast path of [`Self::step`]. Returns `None` unless the entry has the common form: short
    /// lengths, and a suffix of up to 32 bytes that holds more than the trailer. Also returns
    /// `None` if fewer than [`WINDOW_BYTES`] bytes of entries are left, or if the key's buffer is
    /// too small.
    ///
    /// [`Step::repeats`], which tells whether the entry has the user key of the entry before it,
    /// costs nearly nothing here. Writers share as many bytes as they can, so except at a restart
    /// point the first byte of the suffix differs from the previous key's byte at the same
    /// position. So usually the comparison of this one byte decides.
    #[inline(always)]
    pub fn step_short(&mut self) -> Option<Step> {
        let rest = self.block.entries().get(self.next..)?;
        let window = rest.first_chunk::<WINDOW_BYTES>()?;
        let [a, b, c, d, ..] = *window;
        let (value_bytes, head_bytes) = if (a | b | c) < 0x80 {
            (usize::from(c), 3)
        } else if (a | b | d) < 0x80 {
            // A value of 128 bytes to 16 KiB.
            (usize::from(c & 0x7f) | usize::from(d) << 7, 4)
        } else {
            return None;
        };
        let (shared, suffix_bytes) = (usize::from(a), usize::from(b));
        let entry_bytes = head_bytes + suffix_bytes + value_bytes;
        if entry_bytes > rest.len()
            || !(TRAILER_BYTES + 1..=SHORT_SUFFIX_BYTES).contains(&suffix_bytes)
        {
            return None;
        }
        let suffix = match head_bytes {
            3 => window[3..].first_chunk()?,
            _ => window[4..].first_chunk()?,
        };
        let (key_bytes, last_bytes) = (shared + suffix_bytes, self.stored_key.len());
        let key_end = self.stored_key.short_suffix(shared)?;
        let user_suffix_bytes = suffix_bytes - TRAILER_BYTES;
        let repeats = key_end[0] == suffix[0]
            && key_bytes == last_bytes
            && key_end[..user_suffix_bytes] == suffix[..user_suffix_bytes];
        *key_end = *suffix;
        self.stored_key.set_length(key_bytes);
        // The trailer is read from the block, because a load from bytes that were just stored would
        // wait for the stores.
        let trailer = fixed64(&suffix[user_suffix_bytes..suffix_bytes]);
        let end = self.next + entry_bytes;
        Some(Step { repeats, trailer: self.stand_on(end - value_bytes..end, trailer) })
    }

    /// [`Self::step`] to an entry of any form.
    #[inline(never)]
    fn step_long(&mut self) -> Option<Step> {
        let entries = self.block.entries();
        if self.next == entries.len() {
            return None;
        }
        let entry = Entry::decode(entries, self.next).ok()?;
        let (shared, suffix) = (entry.shared, &entries[entry.suffix.clone()]);
        let key_bytes = shared + suffix.len();
        let (user_key_bytes, last) = (key_bytes.checked_sub(TRAILER_BYTES)?, &self.stored_key);
        if shared > last.len() {
            return None;
        }
        let repeats = key_bytes == last.len()
            && (shared >= user_key_bytes
                || last[shared..user_key_bytes] == suffix[..user_key_bytes - shared]);
        self.stored_key.follow(&entry, entries, self.next).ok()?;
        let trailer = key::trailer(&self.stored_key);
        Some(Step { repeats, trailer: self.stand_on(entry.value, trailer) })
    }

    /// Moves to the next entry, whose key is already in `stored_key` and has this trailer. Returns
    /// the trailer that readers see.
    #[inline(always)]
    fn stand_on(&mut self, value: Range<usize>, trailer: u64) -> u64 {
        self.offset = self.next;
        self.next = value.end;
        self.value_start = value.start;
        self.valid = true;
        match self.global_sequence {
            None => trailer,
            Some(sequence) => self.set_visible_key(sequence),
        }
    }

    /// Steps from the last entry of this block to the first entry of `block`, the next one. Returns
    /// `block` if the cursor did not move.
    pub fn step_into(&mut self, block: B) -> Result<Step, B> {
        // The first key of a block shares no bytes, so `stored_key` may still hold the last key of
        // this block. The step compares the two keys to detect a repeated user key.
        let block = PinnedBlock::new(block);
        if self.next != self.entries_bytes() || block.entries().first() != Some(&0) {
            return Err(block.into_handle());
        }
        let (last, next) = (mem::replace(&mut self.block, block), mem::take(&mut self.next));
        self.step().ok_or_else(|| {
            self.next = next;
            mem::replace(&mut self.block, last).into_handle()
        })
    }

    /// Call this when [`Self::step`] did not move. Leaves the cursor on no entry. Returns damage,
    /// unless the end of the block is the reason.
    #[cold]
    fn stop(&mut self) -> Result<(), Damage> {
        self.valid = false;
        let (entries, at) = (self.block.entries(), self.next);
        if at == entries.len() {
            return Ok(());
        }
        let entry = Entry::decode(entries, at)?;
        self.stored_key.follow(&entry, entries, at)?;
        check_internal(&self.stored_key, at)
    }

    /// Makes `visible_key`, and returns its trailer.
    #[inline(never)]
    fn set_visible_key(&mut self, sequence: SequenceNumber) -> u64 {
        self.visible_key.clear();
        let trailer = key::pack(sequence, key::kind_byte(&self.stored_key));
        key::put_internal_key(&mut self.visible_key, key::user_key(&self.stored_key), trailer);
        trailer
    }

    /// Moves to the previous entry.
    pub fn prev(&mut self) -> Result<(), Damage> {
        self.last_before(self.offset)
    }

    /// Moves to the last entry that starts before `limit`; to no entry if there is none.
    fn last_before(&mut self, limit: usize) -> Result<(), Damage> {
        self.valid = false;
        let (mut low, mut high) = (0, self.block.restart_count());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.block.restart(middle)? < limit {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.go_to_restart(low)?;
        if self.next >= limit {
            return Ok(());
        }
        while self.next < limit {
            self.next()?;
        }
        Ok(())
    }

    /// Prepares [`Self::next`] to read the entry at restart point `i`.
    fn go_to_restart(&mut self, i: usize) -> Result<(), Damage> {
        self.valid = false;
        self.next = self.block.restart(i)?;
        self.stored_key.clear();
        Ok(())
    }

    /// Compares a stored key, with the global sequence number applied, with the target.
    fn compare(&self, stored: &[u8], user_key: &[u8], trailer: u64) -> Ordering {
        key::user_key(stored)
            .cmp(user_key)
            .then_with(|| trailer.cmp(&visible_trailer(key::trailer(stored), self.global_sequence)))
    }
}

#[cfg(test)]
mod tests;
