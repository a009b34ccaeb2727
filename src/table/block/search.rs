//! Finds one key in a data block, without building the keys it passes.
//!
//! A cursor copies every key that it passes, because the next key may share its prefix. A point
//! lookup needs only `matched`, the number of bytes that the previous entry has in common with the
//! target. If the block has key heads ([`super::key_heads`]), the search starts at the first entry
//! that they do not show to be before the target, otherwise at a restart point.
//!
//! ```text
//! target          a p p l e
//! entry before    a p p | e r …         matched 3, and before the target
//! next entry
//! shared > 3      its byte after the first three is `e` too: before the target, and matched is 3
//! shared = 3      its suffix is compared with `l e`
//! shared < 3      a larger byte within the first three: after the target, which is absent
//! ```
//!
//! The drawing compares user keys, but `shared` counts bytes of internal keys. If the previous
//! entry's whole user key matches, and `shared` is larger than its length, the entry also shares
//! bytes of the previous entry's trailer. In that case a [`BlockCursor`] does the search. The tests
//! compare both kinds of search.

use std::cmp::Ordering;
use std::ops::Range;

use crate::encoding::bytes::{are_equal, cold_path, common_prefix_len};
use crate::encoding::coding::fixed64;
use crate::encoding::key;
use crate::encoding::key::{SequenceNumber, TRAILER_BYTES};
use crate::error::Damage;
use crate::memory::LINE_BYTES;

use super::cursor::BlockCursor;
use super::key_heads::Candidate;
use super::payload::Entry;
use super::{Block, SeekStart, visible_trailer};

/// The result of a search in a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// The first entry at or after the target has the target's user key, so it is the newest
    /// version that the lookup may see. The fields hold its trailer, and the range of its value in
    /// the block.
    Found { trailer: u64, value: Range<usize> },
    /// The first entry at or after the target has another user key, so the table has no match.
    Absent,
    /// All entries are before the target.
    PastEnd,
}

impl Block {
    /// Like [`Block::find_from`], from this block's [`Block::search_start`].
    #[cfg(test)]
    pub fn find(
        &self,
        user_key: &[u8],
        trailer: u64,
        global_sequence: Option<SequenceNumber>,
    ) -> Result<SearchResult, Damage> {
        self.find_from(self.search_start(user_key), user_key, trailer, global_sequence)
    }

    /// Prefetches the entry that a search from `start` will read.
    #[inline]
    pub(crate) fn prefetch_entry(&self, start: SeekStart) {
        if let SeekStart::At(Candidate { offset, same_bytes: Some(_), .. }) = start {
            self.prefetch(offset);
            self.prefetch(offset + LINE_BYTES);
        }
    }

    /// Looks for the first entry of `user_key` at or after the internal key `user_key ++ trailer`.
    /// `start` is this block's [`Block::search_start`]. `global_sequence` is the sequence number
    /// that readers see in every key of an ingested file; `None` for other files.
    #[inline(always)]
    pub(crate) fn find_from(
        &self,
        start: SeekStart,
        user_key: &[u8],
        trailer: u64,
        global_sequence: Option<SequenceNumber>,
    ) -> Result<SearchResult, Damage> {
        let (offset, same_bytes) = match start {
            SeekStart::At(Candidate { same_bytes: Some(same_bytes), offset, .. }) => {
                (offset, same_bytes)
            }
            SeekStart::At(_) => return Ok(SearchResult::Absent),
            SeekStart::PastEnd => return Ok(SearchResult::PastEnd),
            SeekStart::Unknown => {
                return cold_path(move || {
                    let start = self.restart_before(user_key, trailer, global_sequence)?;
                    self.walk(start, 0, user_key, trailer, global_sequence)
                });
            }
        };
        // The entry to which the key heads lead is nearly always the result. If it shares at most
        // `same_bytes` bytes with the previous entry, the shared bytes equal the target's, so only
        // the suffix is compared. If it shares more, or is not the result, `walk` does the search.
        let entry = Entry::decode(self.entries(), offset)?;
        if entry.shared <= same_bytes
            && let Some((suffix, stored)) = self.entries()[entry.suffix].split_last_chunk()
            && are_equal(suffix, &user_key[entry.shared..])
            && visible_trailer(u64::from_le_bytes(*stored), global_sequence) <= trailer
        {
            let trailer = visible_trailer(u64::from_le_bytes(*stored), global_sequence);
            return Ok(SearchResult::Found { trailer, value: entry.value });
        }
        cold_path(move || self.walk(offset, same_bytes, user_key, trailer, global_sequence))
    }

    /// Searches from the entry at `offset` on; all entries before it are before the target. The
    /// first `same_bytes` bytes of that entry's user key equal the target's. If that user key has
    /// fewer bytes, it is a prefix of the target.
    fn walk(
        &self,
        mut offset: usize,
        mut same_bytes: usize,
        user_key: &[u8],
        trailer: u64,
        global_sequence: Option<SequenceNumber>,
    ) -> Result<SearchResult, Damage> {
        let entries = self.entries();
        let (mut matched, mut last_user_key_bytes) = (0, 0);
        while offset < entries.len() {
            let entry = Entry::decode(entries, offset)?;
            let suffix = &entries[entry.suffix.clone()];
            if entry.shared <= same_bytes {
                // The first entry of the walk shares only bytes that equal the target's. For each
                // later entry, `same_bytes` is 0, so `shared` is 0, as at a restart point. In both
                // cases exactly the shared bytes are known to match. (A restart point may have more
                // bytes in common with the target, but its suffix, the whole key, is compared.)
                matched = entry.shared;
            }
            same_bytes = 0;
            let user_key_bytes = (entry.shared + suffix.len()).checked_sub(TRAILER_BYTES);
            match entry.shared.cmp(&matched) {
                Ordering::Less => return Ok(SearchResult::Absent),
                Ordering::Greater if last_user_key_bytes > matched => {}
                Ordering::Equal if suffix.len() >= TRAILER_BYTES => {
                    let (suffix, stored) = suffix.split_at(suffix.len() - TRAILER_BYTES);
                    let wanted = &user_key[matched..];
                    match suffix.cmp(wanted) {
                        Ordering::Greater => return Ok(SearchResult::Absent),
                        Ordering::Equal
                            if visible_trailer(fixed64(stored), global_sequence) <= trailer =>
                        {
                            let trailer = visible_trailer(fixed64(stored), global_sequence);
                            return Ok(SearchResult::Found { trailer, value: entry.value });
                        }
                        Ordering::Equal => matched = user_key.len(),
                        Ordering::Less => {
                            matched += common_prefix_len(suffix, wanted);
                        }
                    }
                }
                _ => return self.find_by_cursor(user_key, trailer, global_sequence),
            }
            let Some(user_key_bytes) = user_key_bytes else {
                return self.find_by_cursor(user_key, trailer, global_sequence);
            };
            last_user_key_bytes = user_key_bytes;
            offset = entry.value.end;
        }
        Ok(SearchResult::PastEnd)
    }

    /// The same search by a cursor, which builds each key. It is needed when entries share bytes of
    /// a trailer, as most versions of one key do.
    fn find_by_cursor(
        &self,
        user_key: &[u8],
        trailer: u64,
        global_sequence: Option<SequenceNumber>,
    ) -> Result<SearchResult, Damage> {
        let mut cursor = BlockCursor::new(self, global_sequence);
        cursor.seek_parts(user_key, trailer)?;
        if !cursor.valid() {
            return Ok(SearchResult::PastEnd);
        }
        if key::user_key(cursor.key()) != user_key {
            return Ok(SearchResult::Absent);
        }
        Ok(SearchResult::Found { trailer: key::trailer(cursor.key()), value: cursor.value_range() })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::builder::BlockBuilder;
    use super::super::payload::BlockBytes;
    use super::*;
    use crate::encoding::key::{internal_key, pack};

    fn assert_finds_as_the_cursor(mut keys: Vec<Vec<u8>>, targets: &[Vec<u8>]) {
        keys.sort_by(|a, b| key::compare(a, b));
        keys.dedup();
        for restart_interval in [1, 3, 16, 1000] {
            let mut builder = BlockBuilder::new(restart_interval);
            for (i, key) in keys.iter().enumerate() {
                builder.add(key, &i.to_le_bytes());
            }
            let block = Block::new(BlockBytes::copy_from(builder.finish())).unwrap();
            for target in targets {
                for global_sequence in [None, Some(7)] {
                    for trailer in [0, pack(2, 1), pack(2, 0xff), pack(7, 0xff), u64::MAX] {
                        let found = block.find(target, trailer, global_sequence).unwrap();
                        let expected =
                            block.find_by_cursor(target, trailer, global_sequence).unwrap();
                        assert_eq!(found, expected, "{target:?} {trailer:#x} in {keys:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_short_key_over_a_small_alphabet_is_found_as_the_cursor_finds_it() {
        // Bytes that also occur in trailers, so that keys share bytes of trailers.
        let alphabet = [0u8, 1, 2, 0xff];
        let mut users: Vec<Vec<u8>> = vec![vec![]];
        for length in 1..=3 {
            let shorter: Vec<_> = users.iter().filter(|u| u.len() == length - 1).cloned().collect();
            users.extend(shorter.iter().flat_map(|u| alphabet.map(|b| [&u[..], &[b]].concat())));
        }
        users.push(vec![1, 0, 0, 0, 0, 0, 0, 0, 1]);
        users.push(vec![2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 5]);
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..60 {
            let mut keys = Vec::new();
            for user in &users {
                for sequence in 0..4 {
                    if rng.random_bool(0.2) {
                        keys.push(internal_key(user, sequence, rng.random_range(0..2)));
                    }
                }
            }
            assert_finds_as_the_cursor(keys, &users);
        }
    }

    #[test]
    fn damage_never_panics() {
        let mut builder = BlockBuilder::new(4);
        for i in 0..40u8 {
            builder.add(&internal_key(&[b'k', i / 8, i], u64::from(i), 1), b"value");
        }
        let good = builder.finish().to_vec();
        for at in 0..good.len() {
            for change in [0x01, 0x08, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= change;
                let Ok(block) = Block::new(BlockBytes::copy_from(&bad)) else { continue };
                for i in 0..40 {
                    let _ = block.find(&[b'k', i / 8, i], pack(99, 1), None);
                }
            }
        }
    }
}
