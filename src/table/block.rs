//! Sorted blocks of prefix-compressed entries: data, index, metaindex and properties blocks.
//!
//! ```text
//! block   entry … | u32 restart[n] | [hash index] | u32 packed
//! entry   varint32 shared | varint32 non_shared | varint32 value_len | key suffix | value
//! packed  bits 0-27 n · 28 separated keys and values · 29 uniform keys · 30 zero · 31 hash index
//! hash index (skipped)   u8 bucket[m] | u16 m
//! ```
//!
//! `shared` counts the bytes a key has in common with the one before it. At a *restart point* it is
//! zero, so the key there can be read without any other; `restart[i]` is such an entry's offset, the
//! first one always 0. A search is a binary search over the restart points and then a walk of one
//! interval.
//!
//! [`Block`] is checked when it is made as far as its tail goes; entries are checked as they are
//! decoded. Nothing here knows a file: failures are [`Damage`] with an offset in the block.

use std::cmp::Ordering;
use std::ops::{Deref, Range};

use crate::coding::{fixed32, varint};
use crate::cursor::Step;
use crate::error::Damage;
use crate::filter::LINE_BYTES;
use crate::key::{self, SequenceNumber, TRAILER_BYTES};

use super::bytes::BlockBytes;
use super::sidecar::{Place, Sidecar};

const RESTARTS_MASK: u32 = (1 << 28) - 1;
const SEPARATED_BIT: u32 = 1 << 28;
const UNKNOWN_BIT: u32 = 1 << 30;
const HASH_INDEX_BIT: u32 = 1 << 31;

/// A suffix up to this long is copied as if it had this length.
const SHORT_SUFFIX_BYTES: usize = 32;

/// An uncompressed block, its tail decoded.
pub(crate) struct Block {
    bytes: BlockBytes,
    /// Where the entries end and the restart array begins.
    entries_end: usize,
    /// At least one.
    restart_count: usize,
    /// In blocks that stay in memory. Inside, so that whoever reaches the block has it too.
    sidecar: Option<Sidecar>,
}

impl Block {
    pub fn new(bytes: BlockBytes) -> Result<Block, Damage> {
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
            Some(entries_end) if restart_count > 0 => {
                Ok(Block { bytes, entries_end, restart_count, sidecar: None })
            }
            _ => Err(Damage::new(
                packed_offset,
                format_args!("1 to {} restart points", restarts_end / 4),
                restart_count,
            )),
        }
    }

    /// The entries, without the tail.
    pub fn entries(&self) -> &[u8] {
        &self.bytes[..self.entries_end]
    }

    /// The whole uncompressed block.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory behind the block.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.heap_bytes() + self.sidecar.as_ref().map_or(0, Sidecar::heap_bytes)
    }

    /// Prepares a data block for many searches.
    pub fn add_sidecar(&mut self) {
        self.sidecar = Sidecar::of(self);
    }

    /// Starts to fetch the entry that a search for `user_key` will read, if the block can tell.
    #[inline]
    pub fn prefetch_entry(&self, user_key: &[u8]) {
        let place = self.sidecar.as_ref().and_then(|sidecar| sidecar.place(user_key));
        if let Some(Place { offset, same_bytes: Some(_), .. }) = place {
            self.bytes.prefetch(offset);
            self.bytes.prefetch(offset + LINE_BYTES);
        }
    }

    #[inline]
    pub(super) fn sidecar(&self) -> Option<&Sidecar> {
        self.sidecar.as_ref()
    }

    /// How many restart points there are.
    pub(super) fn restart_count(&self) -> usize {
        self.restart_count
    }

    /// The offset of restart point `i`, checked to lie on or before the end of the entries.
    pub(super) fn restart(&self, i: usize) -> Result<usize, Damage> {
        let at = self.entries_end + 4 * i;
        let offset = fixed32(&self.bytes[at..]) as usize;
        if offset > self.entries_end {
            let expected = format_args!("a restart point up to {}", self.entries_end).to_string();
            return Err(Damage::new(at, expected, offset));
        }
        Ok(offset)
    }

    /// The whole internal key at restart point `i`.
    pub(super) fn restart_key(&self, i: usize) -> Result<&[u8], Damage> {
        let offset = self.restart(i)?;
        let entry = Entry::decode(self.entries(), offset)?;
        if entry.shared != 0 {
            return Err(Damage::new(offset, "a whole key at a restart point", "a shared prefix"));
        }
        let key = &self.bytes[entry.suffix.clone()];
        check_internal(key, offset)?;
        Ok(key)
    }

    /// Walks the entries in order, whatever their keys are. For blocks that are read once.
    pub fn scan(&self) -> Scan<'_> {
        Scan { entries: self.entries(), next: 0, key: Vec::new(), value: 0..0 }
    }
}

/// Where the parts of one entry lie.
pub(super) struct Entry {
    /// Bytes of the key that are those of the key before.
    pub shared: usize,
    pub suffix: Range<usize>,
    pub value: Range<usize>,
}

impl Entry {
    /// The entry at `offset`, which lies within `entries`.
    pub fn decode(entries: &[u8], offset: usize) -> Result<Entry, Damage> {
        let head = &entries[offset..];
        // Nearly every entry has three lengths below 128.
        let (shared, non_shared, value_bytes, head_bytes) = match head {
            [a, b, c, ..] if (a | b | c) < 0x80 => {
                (usize::from(*a), usize::from(*b), usize::from(*c), 3)
            }
            _ => Self::decode_long_head(head)
                .ok_or_else(|| Damage::new(offset, "the three lengths of an entry", "none"))?,
        };
        let suffix_start = offset + head_bytes;
        // Each length is below 2^32: no overflow.
        let value_start = suffix_start + non_shared;
        let value_end = value_start + value_bytes;
        if value_end > entries.len() {
            return Err(Damage::new(
                offset,
                format_args!("an entry that ends by {}", entries.len()),
                format_args!("one that ends at {value_end}"),
            ));
        }
        Ok(Entry { shared, suffix: suffix_start..value_start, value: value_start..value_end })
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

/// Turns the key before an entry into the entry's key.
fn extend_key(
    key: &mut Vec<u8>,
    entry: &Entry,
    entries: &[u8],
    offset: usize,
) -> Result<(), Damage> {
    if entry.shared > key.len() {
        return Err(Damage::new(
            offset,
            format_args!("at most {} shared key bytes", key.len()),
            entry.shared,
        ));
    }
    key.truncate(entry.shared);
    key.extend_from_slice(&entries[entry.suffix.clone()]);
    Ok(())
}

fn check_internal(key: &[u8], offset: usize) -> Result<(), Damage> {
    if key.len() < TRAILER_BYTES {
        return Err(Damage::new(
            offset,
            "an internal key of at least 8 bytes",
            format_args!("{} bytes", key.len()),
        ));
    }
    Ok(())
}

/// A key that a walk lends until its next step, and a value of the block.
type KeyAndValue<'k, 'v> = (&'k [u8], &'v [u8]);

/// See [`Block::scan`].
pub(crate) struct Scan<'a> {
    entries: &'a [u8],
    next: usize,
    key: Vec<u8>,
    value: Range<usize>,
}

impl<'a> Scan<'a> {
    /// The next key and value; `None` at the end.
    pub fn next(&mut self) -> Result<Option<KeyAndValue<'_, 'a>>, Damage> {
        if self.next == self.entries.len() {
            return Ok(None);
        }
        let entry = Entry::decode(self.entries, self.next)?;
        extend_key(&mut self.key, &entry, self.entries, self.next)?;
        self.next = entry.value.end;
        self.value = entry.value.clone();
        Ok(Some((&self.key, &self.entries[entry.value])))
    }

    /// Where the last value lies in the block.
    pub fn value_range(&self) -> Range<usize> {
        self.value.clone()
    }
}

/// Walks the internal keys of a data block, both ways. Stands on an entry or on none.
///
/// Its methods are those of [`crate::cursor::Cursor`], but failures are [`Damage`]: a block knows
/// no file.
pub(crate) struct BlockCursor<B> {
    block: B,
    /// In a file whose sequence numbers were assigned at ingestion: the number every key gets.
    overlay: Option<SequenceNumber>,
    valid: bool,
    /// Where the entry it stands on begins.
    offset: usize,
    /// Where the next one begins.
    next: usize,
    /// The stored internal key. Later keys share its bytes, so the overlay is not applied here.
    stored_key: Vec<u8>,
    /// The key with its overlay; unused without one.
    shown_key: Vec<u8>,
    value: Range<usize>,
}

impl<B: Deref<Target = Block>> BlockCursor<B> {
    pub fn new(block: B, overlay: Option<SequenceNumber>) -> Self {
        BlockCursor {
            block,
            overlay,
            valid: false,
            offset: 0,
            next: 0,
            stored_key: Vec::new(),
            shown_key: Vec::new(),
            value: 0..0,
        }
    }

    /// Goes to another block, on no entry; the buffers for keys stay.
    pub fn enter(&mut self, block: B) {
        self.block = block;
        self.valid = false;
        self.next = 0;
        self.stored_key.clear();
    }

    pub fn block(&self) -> &B {
        &self.block
    }

    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.overlay {
            None => &self.stored_key,
            Some(_) => &self.shown_key,
        }
    }

    /// The trailer as it is stored, without the overlay.
    pub fn stored_trailer(&self) -> u64 {
        key::trailer(&self.stored_key)
    }

    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.block.bytes()[self.value.clone()]
    }

    /// Where the value lies in the block.
    #[inline]
    pub fn value_range(&self) -> Range<usize> {
        self.value.clone()
    }

    pub fn seek_to_first(&mut self) -> Result<(), Damage> {
        self.go_to_restart(0)?;
        self.next()
    }

    pub fn seek_to_last(&mut self) -> Result<(), Damage> {
        self.last_before(self.block.entries_end)
    }

    /// To the first entry at or after the internal key `target`.
    pub fn seek(&mut self, target: &[u8]) -> Result<(), Damage> {
        self.seek_parts(key::user_key(target), key::trailer(target))
    }

    /// As [`Self::seek`], the target given as user key and trailer.
    pub fn seek_parts(&mut self, user_key: &[u8], trailer: u64) -> Result<(), Damage> {
        self.valid = false;
        if !self.go_to_place(user_key)? {
            self.go_to_restart_before(user_key, trailer)?;
        }
        loop {
            self.next()?;
            if !self.valid || self.compare(&self.stored_key, user_key, trailer) != Ordering::Less {
                return Ok(());
            }
        }
    }

    /// By the sidecar, before the first entry that can be at or after `user_key`. `false` when that
    /// entry's key cannot be told from there.
    fn go_to_place(&mut self, user_key: &[u8]) -> Result<bool, Damage> {
        let Some(sidecar) = &self.block.sidecar else { return Ok(false) };
        let Some(place) = sidecar.place(user_key) else {
            self.next = self.block.entries_end;
            return Ok(true);
        };
        let entry = Entry::decode(self.block.entries(), place.offset)?;
        sidecar.key_start(place, &mut self.stored_key);
        self.next = place.offset;
        // The shared bytes must be those of the user key, not of its trailer or of the padding.
        Ok(entry.shared <= self.stored_key.len() && entry.suffix.len() >= TRAILER_BYTES)
    }

    /// Before the last restart point whose key is before the target; an entry sought lies after it.
    fn go_to_restart_before(&mut self, user_key: &[u8], trailer: u64) -> Result<(), Damage> {
        let (mut low, mut high) = (0, self.block.restart_count);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let order = self.compare(self.block.restart_key(middle)?, user_key, trailer);
            if order == Ordering::Less {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.go_to_restart(low)
    }

    /// To the last entry before the internal key `target`.
    pub fn seek_before(&mut self, target: &[u8]) -> Result<(), Damage> {
        self.seek(target)?;
        if self.valid { self.prev() } else { self.seek_to_last() }
    }

    #[inline]
    pub fn next(&mut self) -> Result<(), Damage> {
        match self.step() {
            Some(_) => Ok(()),
            None => self.next_of_any_form(),
        }
    }

    /// See [`crate::cursor::Cursor::step`]. To see a repeated user key is nearly free here: where
    /// blocks share what they can, the first byte not shared differs.
    #[inline(always)]
    pub fn step(&mut self) -> Option<Step> {
        let head = self.block.bytes().get(self.next..self.block.entries_end)?;
        let (shared, suffix_bytes, value_bytes, head_bytes) = match *head {
            [a, b, c, ..] if (a | b | c) < 0x80 => {
                (usize::from(a), usize::from(b), usize::from(c), 3)
            }
            // A value of 128 bytes to 16 KiB.
            [a, b, c, d, ..] if (a | b | d) < 0x80 => {
                let value_bytes = usize::from(c & 0x7f) | usize::from(d) << 7;
                (usize::from(a), usize::from(b), value_bytes, 4)
            }
            _ => return None,
        };
        let key_bytes = shared + suffix_bytes;
        let user_key_bytes = key_bytes.checked_sub(TRAILER_BYTES)?;
        let last = &mut self.stored_key;
        let entry_bytes = head_bytes + suffix_bytes + value_bytes;
        if shared > last.len() || entry_bytes > head.len() {
            return None;
        }
        let suffix = &head[head_bytes..head_bytes + suffix_bytes];
        let repeats = key_bytes == last.len()
            && (shared >= user_key_bytes
                || last[shared] == suffix[0]
                    && last[shared..user_key_bytes] == suffix[..user_key_bytes - shared]);
        last.truncate(shared);
        match head[head_bytes..].first_chunk::<SHORT_SUFFIX_BYTES>() {
            // A copy of fixed length is two moves; one of any length is a call.
            Some(chunk) if suffix_bytes <= SHORT_SUFFIX_BYTES => {
                last.extend_from_slice(chunk);
                last.truncate(key_bytes);
            }
            _ => last.extend_from_slice(suffix),
        }
        self.offset = self.next;
        self.next += entry_bytes;
        self.value = self.next - value_bytes..self.next;
        self.valid = true;
        let mut trailer = key::trailer(&self.stored_key);
        if let Some(sequence) = self.overlay {
            trailer = self.show(sequence);
        }
        Some(Step { repeats, trailer })
    }

    /// [`Self::next`] for every entry, and with evidence where it is damaged.
    fn next_of_any_form(&mut self) -> Result<(), Damage> {
        self.valid = false;
        let entries = &self.block.bytes()[..self.block.entries_end];
        if self.next == entries.len() {
            return Ok(());
        }
        self.offset = self.next;
        let entry = Entry::decode(entries, self.offset)?;
        extend_key(&mut self.stored_key, &entry, entries, self.offset)?;
        check_internal(&self.stored_key, self.offset)?;
        self.next = entry.value.end;
        self.value = entry.value;
        self.valid = true;
        if let Some(sequence) = self.overlay {
            self.show(sequence);
        }
        Ok(())
    }

    /// Makes the shown key; its trailer.
    #[inline(never)]
    fn show(&mut self, sequence: SequenceNumber) -> u64 {
        self.shown_key.clear();
        let trailer = key::pack(sequence, key::kind_byte(&self.stored_key));
        key::put_internal_key(&mut self.shown_key, key::user_key(&self.stored_key), trailer);
        trailer
    }

    /// Entries can only be read forwards: goes back to the restart point before, and forwards from
    /// there.
    pub fn prev(&mut self) -> Result<(), Damage> {
        self.last_before(self.offset)
    }

    /// To the last entry that begins before `limit`.
    fn last_before(&mut self, limit: usize) -> Result<(), Damage> {
        self.valid = false;
        let (mut low, mut high) = (0, self.block.restart_count);
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

    /// Before restart point `i`, so that [`Self::next`] reads its entry.
    fn go_to_restart(&mut self, i: usize) -> Result<(), Damage> {
        self.valid = false;
        self.next = self.block.restart(i)?;
        self.stored_key.clear();
        Ok(())
    }

    /// Where the stored key `stored`, seen with the overlay, stands to the target.
    fn compare(&self, stored: &[u8], user_key: &[u8], trailer: u64) -> Ordering {
        key::user_key(stored).cmp(user_key).then_with(|| {
            let stored_trailer = match self.overlay {
                None => key::trailer(stored),
                Some(sequence) => key::pack(sequence, key::kind_byte(stored)),
            };
            trailer.cmp(&stored_trailer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::put_fixed32;
    use crate::key::{internal_key, pack};
    use crate::table::block_builder::BlockBuilder;
    use std::collections::BTreeMap;

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    /// Keys of many shapes: empty, prefixes of each other, long, and with several versions.
    fn model() -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut users: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0xff; 300]];
        for i in 0..200u32 {
            users.push(format!("key{:04}", i * 7).into_bytes());
            users.push(format!("key{:04}/{}", i * 7, "x".repeat(i as usize)).into_bytes());
        }
        users.sort();
        let mut entries = Vec::new();
        for (i, user) in users.iter().enumerate() {
            for version in (0..=i % 4).rev() {
                let key = internal_key(user, 10 + version as u64 * 1000, 1);
                entries.push((key, format!("value {i} {version}").repeat(i % 3).into_bytes()));
            }
        }
        entries
    }

    fn build(entries: &[(Vec<u8>, Vec<u8>)], restart_interval: usize) -> Block {
        let mut builder = BlockBuilder::new(restart_interval);
        for (key, value) in entries {
            builder.add(key, value);
        }
        let estimate = builder.estimated_bytes();
        let bytes = builder.finish();
        assert_eq!(bytes.len(), estimate);
        Block::new(BlockBytes::copy_from(bytes)).unwrap()
    }

    #[test]
    fn a_cursor_walks_both_ways_and_finds_what_a_sorted_list_finds() {
        let entries = model();
        for restart_interval in [1, 2, 16, 10_000] {
            let block = build(&entries, restart_interval);
            let mut cursor = BlockCursor::new(&block, None);
            cursor.seek_to_first().unwrap();
            for (key, value) in &entries {
                assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
                cursor.next().unwrap();
            }
            assert!(!cursor.valid());
            cursor.seek_to_last().unwrap();
            for (key, _) in entries.iter().rev() {
                assert_eq!(cursor.key(), &key[..]);
                cursor.prev().unwrap();
            }
            assert!(!cursor.valid());
            let mut targets: Vec<Vec<u8>> = entries.iter().map(|e| e.0.clone()).collect();
            targets.extend((0..1500).map(|i| internal_key(format!("key{i:04}").as_bytes(), 11, 1)));
            for target in &targets {
                let at =
                    entries.partition_point(|(key, _)| key::compare(key, target) == Ordering::Less);
                cursor.seek(target).unwrap();
                assert_eq!(cursor.valid().then(|| cursor.key()), entries.get(at).map(|e| &e.0[..]));
                cursor.seek_before(target).unwrap();
                let before = at.checked_sub(1).map(|i| &entries[i].0[..]);
                assert_eq!(cursor.valid().then(|| cursor.key()), before);
            }
        }
    }

    #[test]
    fn a_step_tells_the_trailer_and_whether_the_user_key_repeats() {
        let mut entries = model();
        // Values that need two and three bytes for their length.
        for (i, (_, value)) in entries.iter_mut().enumerate().step_by(7) {
            value.resize(100 * i, 7);
        }
        entries.insert(1, (internal_key(b"", 9, 1), vec![0; 20_000]));
        entries.sort_by(|a, b| key::compare(&a.0, &b.0));
        for (restart_interval, overlay) in [(1, None), (16, None), (10_000, None), (16, Some(5))] {
            let block = build(&entries, restart_interval);
            let mut cursor = BlockCursor::new(&block, overlay);
            cursor.seek_to_first().unwrap();
            let mut steps = 0;
            for pair in entries.windows(2) {
                match cursor.step() {
                    Some(step) => {
                        steps += 1;
                        let repeats = key::user_key(&pair[0].0) == key::user_key(&pair[1].0);
                        assert_eq!(step.repeats, repeats, "{:?}", pair[1].0);
                        assert_eq!(step.trailer, key::trailer(cursor.key()));
                    }
                    None => cursor.next().unwrap(),
                }
                assert_eq!(key::user_key(cursor.key()), key::user_key(&pair[1].0));
                assert_eq!(cursor.value(), pair[1].1);
                assert!(overlay.is_some() || cursor.key() == pair[1].0);
            }
            assert!(cursor.step().is_none() && cursor.valid(), "at the end it stays for `next`");
            assert!(steps > entries.len() / 2, "the common case is common: {steps}");
        }
    }

    #[test]
    fn an_overlay_changes_sequence_numbers_but_not_the_shared_bytes() {
        // The first key's trailer begins with 01, as the second key goes on: bytes of a trailer are
        // shared.
        let entries: Vec<_> =
            [&b"a"[..], b"a\x01", b"a\x01\0\0", b"b"].map(|user| internal_key(user, 0, 1)).into();
        let pairs: Vec<_> = entries.iter().map(|key| (key.clone(), vec![])).collect();
        let block = build(&pairs, 16);
        let mut cursor = BlockCursor::new(&block, Some(77));
        cursor.seek_to_first().unwrap();
        for key in &entries {
            assert_eq!(key::user_key(cursor.key()), key::user_key(key));
            assert_eq!(key::trailer(cursor.key()), pack(77, 1));
            cursor.next().unwrap();
        }
        cursor.seek(&internal_key(b"b", 76, 1)).unwrap();
        assert!(!cursor.valid(), "an older snapshot must not see the key");
        cursor.seek(&internal_key(b"b", 77, 0xff)).unwrap();
        assert!(cursor.valid());
    }

    #[test]
    fn an_empty_block_has_one_restart_point_and_no_entry() {
        let block = build(&[], 16);
        assert_eq!(block.bytes(), [0, 0, 0, 0, 1, 0, 0, 0]);
        let mut cursor = BlockCursor::new(&block, None);
        cursor.seek_to_first().unwrap();
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        assert!(!cursor.valid());
        cursor.seek(&internal_key(b"", 0, 0)).unwrap();
        assert!(!cursor.valid());
    }

    #[test]
    fn a_hash_index_is_skipped_and_unknown_bits_are_refused() {
        let entries = model();
        let plain = build(&entries, 16);
        let tail = plain.bytes.len() - 4;
        let packed = fixed32(&plain.bytes[tail..]);
        let mut hashed = plain.bytes[..tail].to_vec();
        hashed.extend_from_slice(&[255; 31]);
        hashed.extend_from_slice(&[31, 0]);
        put_fixed32(&mut hashed, packed | HASH_INDEX_BIT | 1 << 29);
        let block = Block::new(BlockBytes::copy_from(&hashed)).unwrap();
        let mut scan = block.scan();
        let mut read = Model::new();
        while let Some((key, value)) = scan.next().unwrap() {
            read.insert(key.to_vec(), value.to_vec());
        }
        assert_eq!(read, entries.into_iter().collect());
        for bit in [28, 30] {
            let mut unknown = plain.bytes.to_vec();
            unknown[tail..].copy_from_slice(&(packed | 1 << bit).to_le_bytes());
            assert!(Block::new(BlockBytes::copy_from(&unknown)).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn damaged_blocks_never_panic_and_never_loop() {
        let entries: Vec<_> = model().into_iter().step_by(25).collect();
        let good = build(&entries, 4).bytes().to_vec();
        let walk = |bytes: &[u8]| {
            let Ok(block) = Block::new(BlockBytes::copy_from(bytes)) else { return };
            let mut scan = block.scan();
            while let Ok(Some(_)) = scan.next() {}
            let mut cursor = BlockCursor::new(&block, None);
            let _ = cursor.seek_to_first();
            while cursor.valid() && cursor.next().is_ok() {}
            let _ = cursor.seek_to_last();
            let mut steps = 0;
            while cursor.valid() && cursor.prev().is_ok() && steps < 2 * entries.len() {
                steps += 1;
            }
            for (key, _) in entries.iter().step_by(6) {
                let _ = cursor.seek(key);
                let _ = cursor.seek_before(key);
            }
        };
        for length in 0..good.len() {
            walk(&good[..length]);
        }
        for at in 0..good.len() {
            for change in [0x01, 0x80, 0xff, 0x10] {
                let mut bad = good.clone();
                bad[at] ^= change;
                walk(&bad);
            }
        }
    }
}
