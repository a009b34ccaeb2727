//! The parsed index: which data block can hold a key.
//!
//! An index entry is a separator and a block handle. A separator is at or after the last key of its
//! block, and before the first key of the next block. So a key is in the block of the first
//! separator at or after the key, or nowhere.
//!
//! ```text
//! stored     shared | non_shared | [value_len] | key suffix | handle | [first key of the block]
//! handle     shared == 0 or full form: varint64 offset, varint64 size
//!            delta form, shared > 0:   zigzag varint of size - previous size; the block starts
//!                                      where the previous one's trailer ends
//! memory     heads    [u64 u64 u64 …]   8 bytes of each separator after the common prefix
//!            ends of groups  [u64 …]    every 16th head once more, after all heads
//!                                       (a part in a small cache has no heads)
//!            entries  the stored block, or parsed:
//! parsed     keys     the separators' user keys back to back; ends[i] is where the i-th ends
//!            trailers the separators' sequence numbers and kinds; none when they are user keys
//!            handles  where the blocks are (`handles`)
//! ```
//!
//! The heads are searched as plain integers in one array. That is faster than decoding stored
//! entries, and most separators differ in their heads. If heads are equal, the whole keys are
//! compared.
//!
//! **Large trees.** The heads of all tables together do not fit into the processor's fast caches.
//! In a binary search over all heads of a table, each step would have to wait for its cache miss
//! before the next step can begin. So the search has two steps. The first is a binary search over
//! the ends of groups, which are few enough to stay in a fast cache. It leads to one group of 16
//! heads, whose two cache lines are then fetched at the same time. A point lookup then also fetches
//! the slots of the group's blocks, by which it finds the blocks in the block cache.
//!
//! A separator that is a user key sorts after every version of that key, as an internal key with
//! trailer 0 does. So both forms of separators are searched in the same way.
//!
//! In a two-level index ([`super::parts`]), the upper level, the *top*, is an index of the parts,
//! and each part is an index of data blocks. Both levels have this form. A part is small, and is
//! often loaded and evicted, so loading it must be cheap. So if each of its entries is a restart
//! point, a part keeps its stored form in memory ([`Index::of_block`]): it is checked, but not
//! parsed.
//!
//! Where filters and indexes fill the cache, parts of indexes have no heads, because the heads would
//! take a quarter of their memory. More parts then fit into the cache, and each read
//! that this saves would cost more than a slower search. Such a part is searched by a binary search
//! over its stored entries.

pub(super) mod builder;
pub(super) mod handles;

use std::cmp::Ordering;
use std::ops::Range;

use crate::encoding::bytes::{Prefix, common_prefix_len, count_below, head_within, strip_prefix};
use crate::encoding::coding::Decoder;
use crate::encoding::key;
use crate::encoding::key::TRAILER_BYTES;
use crate::error::Damage;
use crate::memory::{LINE_BYTES, LineArray, LineBuf, prefetch};

use super::block::Block;
use super::format::footer::{BLOCK_TRAILER_BYTES, BlockHandle};
use super::format::limits::KeyBytes;
use super::format::properties::IndexForm;
use handles::Handles;

/// Heads in a group: two cache lines. A search finds the group first, and then searches its heads.
pub(crate) const GROUP: usize = 16;

/// What [`Index::find_group`] returns for a key: the group of separators in which to search.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    /// The number of the group's first block.
    pub first: usize,
    /// The key's head.
    target: u64,
}

/// Index entries, read from one or more index blocks in order.
pub(crate) struct IndexParser {
    form: IndexForm,
    /// Blocks must end at or before this offset of the file.
    limit: u64,
    key_bytes: KeyBytes,
    keys: Vec<u8>,
    ends: Vec<u32>,
    trailers: Vec<u64>,
    handles: Vec<BlockHandle>,
}

impl IndexParser {
    pub fn new(form: IndexForm, limit: u64) -> IndexParser {
        IndexParser {
            form,
            limit,
            key_bytes: KeyBytes::new(limit),
            keys: Vec::new(),
            ends: Vec::new(),
            trailers: Vec::new(),
            handles: Vec::new(),
        }
    }

    /// Reads the entries of one index block.
    pub fn add(&mut self, block: &Block) -> Result<(), Damage> {
        let mut decoder = Decoder::new(block.entries());
        let mut key = Vec::new();
        let mut previous: Option<BlockHandle> = None;
        while !decoder.is_empty() {
            let start = decoder.position();
            let shared = decoder.varint32("shared key bytes")? as usize;
            let non_shared = decoder.varint32("key suffix bytes")? as usize;
            if !self.form.delta_values {
                decoder.varint32("value bytes")?;
            }
            if shared > key.len() {
                let expected = format!("at most {} shared key bytes", key.len());
                return Err(Damage::new(start, expected, shared));
            }
            key.truncate(shared);
            key.extend_from_slice(decoder.bytes(non_shared, "separator")?);
            let handle = match previous {
                Some(previous) if self.form.delta_values && shared > 0 => {
                    let difference = unzigzag(decoder.varint("block size difference")?);
                    let bytes = previous.bytes.checked_add_signed(difference);
                    // `check` below rejects a size that is out of range.
                    BlockHandle {
                        offset: previous.offset + previous.bytes + BLOCK_TRAILER_BYTES as u64,
                        bytes: bytes.unwrap_or(u64::MAX),
                    }
                }
                _ => BlockHandle::decode(&mut decoder)?,
            };
            handle.check(self.limit, start)?;
            // This check ensures that no block is listed twice, and that the size of the file
            // bounds the number of blocks.
            let behind = self.handles.last().map_or(0, |last| last.end().unwrap_or(u64::MAX));
            if handle.offset < behind {
                return Err(Damage::new(
                    start,
                    format_args!("a block behind the one before, which ends at {behind}"),
                    format_args!("one at {}", handle.offset),
                ));
            }
            if self.form.first_keys {
                decoder.length_prefixed("first key of a block")?;
            }
            previous = Some(handle);
            self.push(&key, handle).map_err(|damage| damage.moved_by(start))?;
        }
        Ok(())
    }

    fn push(&mut self, separator: &[u8], handle: BlockHandle) -> Result<(), Damage> {
        let Some((user_key, trailer)) = split(separator, self.form) else {
            let found = format!("{} bytes", separator.len());
            return Err(Damage::new(0, "an internal key of at least 8 bytes", found));
        };
        if let Some(&end) = self.ends.last() {
            let start = self.ends.len().checked_sub(2).map_or(0, |i| self.ends[i] as usize);
            let last = &self.keys[start..end as usize];
            let last_trailer = self.trailers.last().copied().unwrap_or(0);
            if last.cmp(user_key).then(trailer.cmp(&last_trailer)) == Ordering::Greater {
                return Err(Damage::new(0, "separators in ascending order", "a smaller one"));
            }
        }
        self.key_bytes.take(user_key.len())?;
        let Ok(end) = u32::try_from(self.keys.len() + user_key.len()) else {
            return Err(Damage::new(0, "less than 4 GiB of separators", "more"));
        };
        self.keys.extend_from_slice(user_key);
        self.ends.push(end);
        if !self.form.user_keys {
            self.trailers.push(trailer);
        }
        self.handles.push(handle);
        Ok(())
    }

    /// The handles read so far. In the upper level of a two-level index they lead to index blocks.
    pub fn handles(&self) -> &[BlockHandle] {
        &self.handles
    }

    /// The separators of entry `first` and of the last entry, as user keys and trailers. `None` if
    /// there are no more than `first` entries.
    pub fn separators_from(&self, first: usize) -> Option<[(&[u8], u64); 2]> {
        let last = self.ends.len().checked_sub(1).filter(|&last| last >= first)?;
        let separator = |i: usize| {
            let trailer = self.trailers.get(i).copied().unwrap_or(0);
            (nth_key(&self.keys, &self.ends, i), trailer)
        };
        Some([separator(first), separator(last)])
    }

    /// The index. Its heads are in memory that `buffer` makes.
    pub fn finish(mut self, buffer: impl FnOnce(usize) -> LineBuf) -> Index {
        self.keys.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.trailers.shrink_to_fit();
        let (keys, ends) = (self.keys, self.ends);
        let count = ends.len();
        let user_key = |i| nth_key(&keys, &ends, i);
        // The keys are sorted, so all of them share the bytes that the first and the last key
        // share.
        let common_prefix = match count {
            0 => Prefix::default(),
            _ => {
                let (first, last) = (user_key(0), user_key(count - 1));
                Prefix::new(&first[..common_prefix_len(first, last)])
            }
        };
        let head_of = |i| common_prefix.head_after(user_key(i)).expect("all begin with it");
        let heads = with_ends_of_groups(count, head_of, buffer);
        Index {
            heads: Some(heads),
            common_prefix,
            len: count,
            has_trailers: !self.form.user_keys,
            entries: Entries::Parsed {
                keys,
                ends,
                trailers: self.trailers,
                handles: Handles::new(&self.handles),
            },
        }
    }
}

/// Makes [`Index::heads`].
fn with_ends_of_groups(
    count: usize,
    head_of: impl Fn(usize) -> u64,
    buffer: impl FnOnce(usize) -> LineBuf,
) -> LineArray<u64> {
    let total = count + count / GROUP;
    let memory = buffer(LineArray::<u64>::needed_bytes(total));
    let separator = |i: usize| i.checked_sub(count).map_or(i, |group| (group + 1) * GROUP - 1);
    LineArray::new(memory, total, |i| head_of(separator(i)))
}

/// User key and trailer of a stored separator. `None`: it is too short.
fn split(separator: &[u8], form: IndexForm) -> Option<(&[u8], u64)> {
    match form.user_keys {
        true => Some((separator, 0)),
        false if separator.len() < TRAILER_BYTES => None,
        false => Some((key::user_key(separator), key::trailer(separator))),
    }
}

/// Key `i` of keys that are stored back to back.
fn nth_key<'a>(keys: &'a [u8], ends: &[u32], i: usize) -> &'a [u8] {
    let start = i.checked_sub(1).map_or(0, |before| ends[before]);
    &keys[start as usize..ends[i] as usize]
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// An index, or a part of one, in memory. Entry `i` leads to data block `i` of this index or part.
/// A top also has this type: its entry `i` leads to part `i`.
pub(crate) struct Index {
    /// The common prefix of all separators' user keys.
    common_prefix: Prefix,
    /// The heads of all separators, and then again the head of the last separator of each whole
    /// group.
    heads: Option<LineArray<u64>>,
    len: usize,
    /// Whether separators are internal keys.
    has_trailers: bool,
    entries: Entries,
}

/// The separators and handles. If the index has heads, a search needs these data only if it finds
/// equal heads, or if it must read a block.
enum Entries {
    Parsed {
        keys: Vec<u8>,
        ends: Vec<u32>,
        /// Empty when separators are user keys.
        trailers: Vec<u64>,
        handles: Handles,
    },
    Stored(StoredEntries),
}

/// A block of entries, each of which is a restart point and so has a whole key and a whole handle.
struct StoredEntries {
    block: Block,
    form: IndexForm,
}

struct StoredEntry<'a> {
    key: StoredKey<'a>,
    handle: BlockHandle,
    /// Where the entry ends.
    end: usize,
}

/// Decodes a varint of up to 56 bits at `at`, and moves `at` after it. `None` if there is no
/// varint, or a longer one. Inlined, because a part of an index has hundreds of varints.
#[inline(always)]
fn short_number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..56).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A separator of [`StoredEntries`].
struct StoredKey<'a> {
    user_key: &'a [u8],
    /// Where the user key starts.
    start: usize,
    trailer: u64,
    /// Where the separator ends.
    end: usize,
}

/// The separator of the entry that starts at `start` and shares nothing with the previous entry.
/// `None` if it is malformed.
#[inline(always)]
fn decode_key(entries: &[u8], form: IndexForm, start: usize) -> Option<StoredKey<'_>> {
    let mut at = start;
    let shared = short_number(entries, &mut at)?;
    let non_shared = short_number(entries, &mut at)? as usize;
    if !form.delta_values {
        short_number(entries, &mut at)?;
    }
    let (user_key, trailer) = split(entries[at..].get(..non_shared)?, form)?;
    let key = StoredKey { user_key, start: at, trailer, end: at + non_shared };
    (shared == 0).then_some(key)
}

/// The entry that starts at `start` and shares nothing with the previous entry. `None` if it is
/// malformed.
#[inline(always)]
fn decode_whole(entries: &[u8], form: IndexForm, start: usize) -> Option<StoredEntry<'_>> {
    let key = decode_key(entries, form, start)?;
    let mut end = key.end;
    let offset = short_number(entries, &mut end)?;
    let handle = BlockHandle { offset, bytes: short_number(entries, &mut end)? };
    Some(StoredEntry { key, handle, end })
}

/// The varint at the start of `word`, which is in little-endian order, and the number of its bytes.
/// `None` if the varint has more than 8 bytes.
#[inline(always)]
fn first_number(word: u64) -> Option<(u64, usize)> {
    // Most sizes of blocks take two bytes.
    if word & 0x8080 == 0x0080 {
        return Some((word & 0x7f | word >> 1 & 0x3f80, 2));
    }
    // Most offsets take three or four bytes.
    let last = !word as u32 & 0x8080_8080;
    if last != 0 {
        let bytes = word as u32 & (last ^ (last - 1)) & 0x7f7f_7f7f;
        let pairs = bytes & 0x007f_007f | (bytes & 0x7f00_7f00) >> 1;
        let number = pairs & 0x3fff | pairs >> 16 << 14;
        return Some((u64::from(number), last.trailing_zeros() as usize / 8 + 1));
    }
    let last = !word & 0x8080_8080_8080_8080;
    if last == 0 {
        return None;
    }
    // The bytes after the varint become 0, and so does the highest bit of each byte.
    let bytes = word & (last ^ (last - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    // Joins groups of 7 bits to groups of 14, then of 28, then of 56.
    let pairs = bytes & 0x007f_007f_007f_007f | (bytes & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    let number = fours & 0x0fff_ffff | fours >> 32 << 28;
    Some((number, last.trailing_zeros() as usize / 8 + 1))
}

/// What [`usual_entry`] reads of an entry.
struct UsualEntry {
    key_bytes: usize,
    handle: BlockHandle,
    /// Where the entry ends.
    end: usize,
}

/// The entry that starts at `start`, if it is a usual one: it shares nothing with the previous
/// entry, its separator has fewer than 128 bytes, and it does not store the length of its value.
/// Like [`decode_whole`], with fewer instructions. Reads up to 16 bytes beyond the end of the entry,
/// and returns `None` if `bytes` ends before them.
#[inline(always)]
fn usual_entry(bytes: &[u8], start: usize) -> Option<UsualEntry> {
    let &[0, key_bytes @ ..0x80, ref rest @ ..] = bytes.get(start..)? else { return None };
    let key_bytes = usize::from(key_bytes);
    let numbers: &[u8; 16] = rest.get(key_bytes..)?.first_chunk()?;
    let number_at = |at: usize| {
        let word = numbers.get(at..)?.first_chunk()?;
        first_number(u64::from_le_bytes(*word))
    };
    let (offset, offset_bytes) = number_at(0)?;
    let (bytes, size_bytes) = number_at(offset_bytes)?;
    let end = start + 2 + key_bytes + offset_bytes + size_bytes;
    Some(UsualEntry { key_bytes, handle: BlockHandle { offset, bytes }, end })
}

impl StoredEntries {
    /// The entry at restart point `i`. `None`: it is malformed.
    #[inline(always)]
    fn decode(&self, i: usize) -> Option<StoredEntry<'_>> {
        decode_whole(self.block.entries(), self.form, self.block.restart(i).ok()?)
    }

    /// Entry `i` of a block that was checked.
    fn entry(&self, i: usize) -> StoredEntry<'_> {
        self.decode(i).expect("all entries were checked")
    }

    /// The separator of entry `i` of a block that was checked.
    #[inline(always)]
    fn key(&self, i: usize) -> StoredKey<'_> {
        let start = self.block.restart(i).ok();
        let key = start.and_then(|start| decode_key(self.block.entries(), self.form, start));
        key.expect("all entries were checked")
    }

    /// The [`head`](crate::encoding::bytes::head) of the bytes of a separator after the first
    /// `prefix_bytes` bytes, which all separators share.
    #[inline(always)]
    fn head(&self, key: &StoredKey<'_>, prefix_bytes: usize) -> u64 {
        let end = key.start + key.user_key.len();
        head_within(self.block.bytes(), key.start + prefix_bytes..end)
    }

    /// Checks the entries. Returns the separators' common prefix, and their heads if `has_heads` is
    /// set. `None` if the entries also hold the first keys of their blocks, if some entry is not a
    /// restart point, or if the block is damaged. [`Index::of_block`] then parses the block by
    /// [`IndexParser::add`], which reports damage.
    fn check(&self, limit: u64, has_heads: bool) -> Option<(Prefix, Vec<u64>)> {
        if self.form.first_keys {
            return None;
        }
        let count = self.block.restart_count();
        let (first, last) = (self.decode(0)?.key.user_key, self.decode(count - 1)?.key.user_key);
        let prefix = &first[..common_prefix_len(first, last)];
        let prefix = Prefix::new(prefix);
        let mut heads = Vec::with_capacity(if has_heads { count } else { 0 });
        let is_right = match has_heads {
            true => self.check_usual(&prefix, limit, |head| heads.push(head)),
            false => self.check_usual(&prefix, limit, |_| {}),
        };
        if !is_right {
            heads.clear();
            let see = |head| {
                if has_heads {
                    heads.push(head)
                }
            };
            self.check_each(prefix.bytes(), limit, see)?;
        }
        Some((prefix, heads))
    }

    /// Checks the entries, and calls `see` for the head of each separator. `None`: as for
    /// [`Self::check`].
    fn check_each(&self, prefix: &[u8], limit: u64, mut see: impl FnMut(u64)) -> Option<()> {
        let entries = self.block.entries();
        let (mut before, mut before_head, mut end, mut behind) = (None, 0, 0, 0);
        // Each entry begins where the previous entry ends, and its restart point must have the same
        // offset.
        for restart in self.block.restarts() {
            let entry = decode_whole(entries, self.form, end)?;
            let (key, handle) = (&entry.key, entry.handle);
            strip_prefix(key.user_key, prefix)?;
            let head = self.head(key, prefix.len());
            // In most cases the heads decide.
            let ascends =
                before_head < head || before.is_none_or(|before| self.ascends(before, end));
            if restart as usize != end || handle.offset < behind || !ascends || !handle.fits(limit)
            {
                return None;
            }
            see(head);
            (before, before_head) = (Some(end), head);
            (end, behind) = (entry.end, handle.end()?);
        }
        (end == entries.len()).then_some(())
    }

    /// Like [`Self::check_each`], with 0.7 of the instructions, but for usual entries only:
    /// separators are user keys of fewer than 128 bytes, of which the first 8 or fewer are common to
    /// all. A lookup that reads a part of an index waits for this check. Returns `false` if an entry
    /// is unusual or wrong.
    ///
    /// The loop reads words beyond the end of an entry, so it is given the whole block.
    #[inline(never)]
    fn check_usual(&self, prefix: &Prefix, limit: u64, mut see: impl FnMut(u64)) -> bool {
        let (bytes, prefix_bytes) = (self.block.bytes(), prefix.bytes().len());
        if !self.form.user_keys || !self.form.delta_values || prefix_bytes > 8 {
            return false;
        }
        let (mut before, mut before_head, mut end, mut behind) = (None, 0, 0, 0);
        // Wrong bits of restart points, and the bits of all sizes.
        let (mut wrong, mut sizes) = (0, 0);
        for restart in self.block.restarts() {
            let Some(entry) = usual_entry(bytes, end) else { return false };
            let key = &bytes[end + 2..];
            let (Some(front), Some(next), Some(own_bytes)) = (
                key.first_chunk(),
                key[prefix_bytes..].first_chunk(),
                entry.key_bytes.checked_sub(prefix_bytes),
            ) else {
                return false;
            };
            let word = u64::from_be_bytes(*next);
            let head = if own_bytes < 8 { word & !(u64::MAX >> (8 * own_bytes)) } else { word };
            let ascends =
                before_head < head || before.is_none_or(|before| self.ascends(before, end));
            if !prefix.begins(front) || entry.handle.offset < behind || !ascends {
                return false;
            }
            see(head);
            wrong |= restart as usize ^ end;
            sizes |= entry.handle.bytes;
            (before, before_head) = (Some(end), head);
            end = entry.end;
            // Numbers of at most 56 bits, so the sum does not overflow.
            behind = entry.handle.offset + entry.handle.bytes + BLOCK_TRAILER_BYTES as u64;
        }
        // Each block ends before the next one begins, so all fit if the last one does. The entries
        // end one after the other, so none ends beyond the last one.
        wrong == 0
            && behind <= limit
            && sizes < u64::from(u32::MAX)
            && end == self.block.entries().len()
    }

    /// Whether the separator of the entry that starts at `before` is not after that of the entry
    /// that starts at `start`.
    #[cold]
    #[inline(never)]
    fn ascends(&self, before: usize, start: usize) -> bool {
        let key = |start| decode_key(self.block.entries(), self.form, start);
        let (Some(before), Some(key)) = (key(before), key(start)) else { return false };
        let order = before.user_key.cmp(key.user_key);
        order.then(key.trailer.cmp(&before.trailer)).is_le()
    }
}

impl Index {
    /// The memory of the stored entries, for reuse in the cache. `None` if the entries were parsed.
    pub fn into_memory(self) -> Option<LineBuf> {
        match self.entries {
            Entries::Parsed { .. } => None,
            Entries::Stored(stored) => Some(stored.block.into_memory()),
        }
    }

    /// The index that this block holds. The block is kept as it is if all its entries are restart
    /// points, and none holds the first key of its data block. Otherwise the block is parsed. A
    /// block that is kept gets heads only if `has_heads` is set. The blocks to which the index
    /// leads must end at or before the offset `limit` of the file. `buffer` makes the memory of the
    /// heads.
    pub fn of_block(
        block: Block,
        form: IndexForm,
        limit: u64,
        has_heads: bool,
        buffer: impl FnOnce(usize) -> LineBuf,
    ) -> Result<Index, Damage> {
        let stored = StoredEntries { block, form };
        let Some((common_prefix, heads)) = stored.check(limit, has_heads) else {
            let mut parser = IndexParser::new(form, limit);
            parser.add(&stored.block)?;
            return Ok(parser.finish(buffer));
        };
        let heads = has_heads.then(|| with_ends_of_groups(heads.len(), |i| heads[i], buffer));
        Ok(Index::of_stored(stored, common_prefix, heads))
    }

    fn of_stored(
        stored: StoredEntries,
        common_prefix: Prefix,
        heads: Option<LineArray<u64>>,
    ) -> Index {
        Index {
            common_prefix,
            heads,
            len: stored.block.restart_count(),
            has_trailers: !stored.form.user_keys,
            entries: Entries::Stored(stored),
        }
    }

    /// Number of data blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn handle(&self, i: usize) -> BlockHandle {
        match &self.entries {
            Entries::Parsed { handles, .. } => handles.get(i),
            Entries::Stored(stored) => stored.entry(i).handle,
        }
    }

    /// Prefetches handle `i` into the processor's cache, for a lookup that is about to read the
    /// block. Does nothing if the entries are kept as they are stored.
    #[inline]
    pub fn prefetch_handle(&self, i: usize) {
        if let Entries::Parsed { handles, .. } = &self.entries {
            handles.prefetch(i);
        }
    }

    pub fn user_key(&self, i: usize) -> &[u8] {
        match &self.entries {
            Entries::Parsed { keys, ends, .. } => nth_key(keys, ends, i),
            Entries::Stored(stored) => stored.key(i).user_key,
        }
    }

    fn trailer(&self, i: usize) -> u64 {
        match &self.entries {
            Entries::Parsed { trailers, .. } => trailers.get(i).copied().unwrap_or(0),
            Entries::Stored(stored) => stored.key(i).trailer,
        }
    }

    pub fn separator(&self, i: usize) -> (&[u8], u64) {
        (self.user_key(i), self.trailer(i))
    }

    /// Whether this index has at least as many separators as `other`, and begins with the same
    /// separators. The last separator of `other` is not compared, because `other` is the top of a
    /// filter, and keys past its last separator also belong to the filter's last part.
    pub fn begins_as(&self, other: &Index) -> bool {
        let common = other.len().saturating_sub(1);
        self.len() > common && (0..common).all(|i| self.separator(i) == other.separator(i))
    }

    /// The first block that can hold an entry at or after the target, the internal key of
    /// `user_key` and `trailer`; [`Self::len`] when none can.
    #[inline(always)]
    pub fn find(&self, user_key: &[u8], trailer: u64) -> usize {
        self.find_in_group(self.find_group(user_key), user_key, trailer)
    }

    /// The first step of [`Index::find`]: the group that most likely has the block. The block can
    /// only be in a later group if the head of the group's last separator equals that of the key.
    /// Prefetches the group's heads. Without heads there is one group, which has all blocks.
    #[inline(always)]
    pub fn find_group(&self, user_key: &[u8]) -> Group {
        let Some(target) = self.common_prefix.head_after(user_key) else {
            // The key does not begin with the prefix that all separators share, so it is before all
            // of them or after all of them.
            let is_before = user_key < self.common_prefix.bytes();
            return Group { first: if is_before { 0 } else { self.len() }, target: 0 };
        };
        let Some(heads) = &self.heads else { return Group { first: 0, target } };
        let (heads, group_ends) = heads.split_at(self.len());
        let first = group_ends.partition_point(|&head| head < target) * GROUP;
        for line in (0..GROUP).step_by(LINE_BYTES / size_of::<u64>()) {
            prefetch(heads.as_ptr().wrapping_add(first + line));
        }
        Group { first, target }
    }

    /// The second step of [`Index::find`], for the same key.
    #[inline(always)]
    pub fn find_in_group(&self, group: Group, user_key: &[u8], trailer: u64) -> usize {
        let Some(heads) = &self.heads else { return self.find_stored(group, user_key, trailer) };
        let Group { first, target } = group;
        let heads = &heads[..self.len()];
        let group = &heads[first..heads.len().min(first + GROUP)];
        let below = match group.try_into() {
            Ok(group) => count_below::<GROUP>(group, target),
            // The separators after the last whole group.
            Err(_) => group.partition_point(|&head| head < target),
        };
        let i = first + below;
        match heads.get(i) == Some(&target) {
            true => self.settle_tie(heads, i, user_key, trailer),
            false => i,
        }
    }

    /// Searches separator `low` and the separators after it that have the same head. Returns the
    /// first of them that is not before the target. If all of them are before the target, returns
    /// the separator after them.
    #[cold]
    #[inline(never)]
    fn settle_tie(&self, heads: &[u64], low: usize, user_key: &[u8], trailer: u64) -> usize {
        let same = heads[low..].partition_point(|&other| other == heads[low]);
        self.find_between(low..low + same, user_key, trailer)
    }

    /// [`Index::find_in_group`] without heads. Computes the head of each separator that the binary
    /// search meets.
    #[inline(never)]
    fn find_stored(&self, group: Group, user_key: &[u8], trailer: u64) -> usize {
        let Entries::Stored(stored) = &self.entries else { unreachable!("it would have heads") };
        let prefix_bytes = self.common_prefix.bytes().len();
        let head = |i| stored.head(&stored.key(i), prefix_bytes);
        let low = partition_point_in(group.first..self.len(), |i| head(i) < group.target);
        match low < self.len() && head(low) == group.target {
            true => self.find_between(low..self.len(), user_key, trailer),
            false => low,
        }
    }

    /// The first separator of `among` that is not before the target; the end of `among` if all of
    /// its separators are before the target.
    #[inline(always)]
    fn find_between(&self, among: Range<usize>, user_key: &[u8], trailer: u64) -> usize {
        partition_point_in(among, |i| self.is_before(i, user_key, trailer))
    }

    /// Returns damage if, by the separators, the first key of `block` does not belong to block `i`.
    /// After a misdirected write, a block may be at another block's offset, where it would hide
    /// that block's keys. Up to format_version 5 the checksum does not detect this, because it does
    /// not depend on the offset.
    pub fn check_position(&self, i: usize, block: &Block) -> Result<(), Damage> {
        if block.entries().is_empty() {
            return Ok(());
        }
        let first = block.restart_key(0)?;
        let (user_key, trailer) = (key::user_key(first), key::trailer(first));
        // In most cases the heads of the two separators next to the block decide. The lookup that
        // needs the block has just read these heads, so that they are in the processor's cache.
        let is_between = |(heads, head): (&LineArray<u64>, u64)| {
            (i == 0 || heads[i - 1] < head) && head < heads[i]
        };
        let head = self.heads.as_ref().zip(self.common_prefix.head_after(user_key));
        let is_before = |i| self.is_before(i, user_key, trailer);
        if head.is_some_and(is_between) || (i == 0 || is_before(i - 1)) && !is_before(i) {
            return Ok(());
        }
        let found = format_args!("\"{}\"", user_key.escape_ascii()).to_string();
        Err(Damage::new(0, "a key between its block's separators", found))
    }

    /// Whether the block after block `i` may begin with entries of `user_key`. It may if the
    /// separator of block `i` is an internal key of `user_key`. A separator without a trailer sorts
    /// after all versions, so no version follows.
    pub fn may_continue(&self, i: usize, user_key: &[u8]) -> bool {
        self.has_trailers && self.user_key(i) == user_key
    }

    /// Whether separator `i` is before the target.
    #[inline(always)]
    pub fn is_before(&self, i: usize, user_key: &[u8], trailer: u64) -> bool {
        // Of two equal user keys, the one with the larger trailer sorts first.
        self.user_key(i).cmp(user_key).then_with(|| trailer.cmp(&self.trailer(i))).is_lt()
    }

    /// Bytes of memory that the index takes.
    pub fn heap_bytes(&self) -> usize {
        let entries_bytes = match &self.entries {
            Entries::Parsed { keys, ends, trailers, handles } => {
                keys.capacity()
                    + size_of::<u64>() * trailers.capacity()
                    + size_of::<u32>() * ends.capacity()
                    + handles.heap_bytes()
            }
            Entries::Stored(stored) => stored.block.heap_bytes(),
        };
        let heads_bytes = self.heads.as_ref().map_or(0, LineArray::heap_bytes);
        self.common_prefix.bytes().len() + heads_bytes + entries_bytes
    }
}

/// Like [`slice::partition_point`], but for the numbers of a range.
#[inline(always)]
fn partition_point_in(among: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let Range { start: mut low, end: mut high } = among;
    while low < high {
        let middle = low + (high - low) / 2;
        match is_before(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// A short separator between `last`, the last user key of a block, and `next`, the first user key
/// of the next block, where `last < next`. The separator is at or after `last`, and before `next`.
/// The rule is RocksDB's, so that the same data give the same index.
pub(crate) fn shortest_separator<'a>(
    last: &'a [u8],
    next: &[u8],
    out: &'a mut Vec<u8>,
) -> &'a [u8] {
    let common = common_prefix_len(last, next);
    let (Some(&a), Some(&b)) = (last.get(common), next.get(common)) else { return last };
    if a >= b {
        return last;
    }
    out.clear();
    if common + 1 < next.len() || a + 1 < b {
        out.extend_from_slice(&last[..=common]);
    } else {
        // Incrementing byte `common` would give `next` itself, so a later byte is incremented.
        let Some(i) = (common + 1..last.len()).find(|&i| last[i] != 0xff) else { return last };
        out.extend_from_slice(&last[..=i]);
    }
    let end = out.len() - 1;
    out[end] += 1;
    out
}

#[cfg(test)]
mod tests;
