//! Internal keys: the form of a user key inside the store; and [`LookupKey`], a user key that is
//! looked up.
//!
//! ```text
//! internal key = user key (any bytes, also none) | trailer: fixed64 = sequence << 8 | kind
//! ```
//!
//! Order: user keys ascending bytewise, then trailers **descending**, so that the newest version of
//! a key comes first. This is RocksDB's order (`db/dbformat.h`), so tables need no translation.
//!
//! Invariant: an internal key has at least [`TRAILER_BYTES`] bytes. Decoders check this once, where
//! bytes are read; [`user_key`] and [`trailer`] rely on it.

use std::cmp::Ordering;

use maypole_filter::KeyHash;
use maypole_filter::hash::hash64;

use super::coding::{fixed64, put_fixed64};

/// A sequence number: the position of a write in the order of all writes. It is below 2^56.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::{Db, SequenceNumber};
///
/// let db = Db::open(dir.path())?;
/// let before: SequenceNumber = db.snapshot().sequence();
/// db.put("apple", "red")?;
/// db.put("pear", "green")?;
/// assert_eq!(db.snapshot().sequence(), before + 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SequenceNumber = u64;

/// The largest sequence number. A lookup at it sees the newest version of every key.
pub(crate) const MAX_SEQUENCE: SequenceNumber = (1 << 56) - 1;

/// Bytes of an internal key after the user key.
pub(crate) const TRAILER_BYTES: usize = 8;

/// The kind byte that, at equal sequence numbers, sorts before every kind that a table can hold. So
/// a seek to `(key, sequence, SEEK_KIND)` finds the newest version of `key` at or below `sequence`.
pub(crate) const SEEK_KIND: u8 = 0xff;

/// The kinds of entry that Maypole understands. Tables of other programs may hold more kinds, for
/// which [`EntryKind::from_byte`] returns `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// A tombstone for one key (RocksDB's type: deletion).
    Deletion = 0,
    /// A value.
    Value = 1,
    /// A tombstone for a key that was put at most once since its previous deletion. Maypole reads
    /// this kind and never writes it.
    SingleDeletion = 7,
    /// A tombstone for the user keys in `[start, end)`. A table stores it in a separate block.
    RangeDeletion = 0x0f,
}

impl EntryKind {
    /// The kind of a stored byte, if this engine supports it.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<EntryKind> {
        match byte {
            0 => Some(EntryKind::Deletion),
            1 => Some(EntryKind::Value),
            7 => Some(EntryKind::SingleDeletion),
            0x0f => Some(EntryKind::RangeDeletion),
            _ => None,
        }
    }

    /// Like [`EntryKind::from_byte`], but returns `None` for a range deletion, which has no single
    /// key.
    #[inline]
    pub fn of_point(byte: u8) -> Option<EntryKind> {
        match byte {
            0 => Some(EntryKind::Deletion),
            1 => Some(EntryKind::Value),
            7 => Some(EntryKind::SingleDeletion),
            _ => None,
        }
    }
}

/// The kind in words. The numbers are RocksDB's types, except 18, which is a type of Pebble.
pub(crate) fn kind_name(kind: u8) -> &'static str {
    match kind {
        0 => "deletion",
        1 => "value",
        2 => "merge operand",
        7 => "single deletion",
        15 => "range deletion",
        17 => "reference to a blob file",
        18 => "Pebble's value behind a deletion",
        20 => "deletion with a timestamp",
        22 => "wide-column entity",
        24 => "value with a preferred sequence number",
        _ => "unknown",
    }
}

/// A user key and a kind in words, for messages about an entry.
pub(crate) fn entry_in_words(user_key: &[u8], kind: u8) -> String {
    /// Longer keys are cut.
    const MAX_KEY_BYTES: usize = 200;
    let cut = &user_key[..user_key.len().min(MAX_KEY_BYTES)];
    let dots = if cut.len() < user_key.len() { "…" } else { "" };
    format!(
        "the key \"{}\"{dots} has an entry of type {kind} ({})",
        cut.escape_ascii(),
        kind_name(kind)
    )
}

/// `sequence << 8 | kind`.
#[inline]
pub(crate) fn pack(sequence: SequenceNumber, kind: u8) -> u64 {
    debug_assert!(sequence <= MAX_SEQUENCE);
    sequence << 8 | u64::from(kind)
}

#[inline]
pub(crate) fn put_internal_key(out: &mut Vec<u8>, user_key: &[u8], trailer: u64) {
    out.extend_from_slice(user_key);
    put_fixed64(out, trailer);
}

pub(crate) fn internal_key(user_key: &[u8], sequence: SequenceNumber, kind: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(user_key.len() + TRAILER_BYTES);
    put_internal_key(&mut out, user_key, pack(sequence, kind));
    out
}

/// The seek target that finds the newest version of `user_key` at or below `sequence`.
pub(crate) fn seek_key(user_key: &[u8], sequence: SequenceNumber) -> Vec<u8> {
    internal_key(user_key, sequence, SEEK_KIND)
}

/// The internal key that a file records as its largest if a range deletion up to `end` extends past
/// all of its keys. `end` is exclusive, so this internal key sorts before every entry whose user
/// key is `end`, and no entry has it. RocksDB does the same.
pub(crate) fn range_end(end: &[u8]) -> Vec<u8> {
    internal_key(end, MAX_SEQUENCE, EntryKind::RangeDeletion as u8)
}

/// Whether a file whose largest internal key is `largest` has neither an entry nor a part of a
/// range deletion at or after `user_key`.
#[inline]
pub(crate) fn ends_before(largest: &[u8], user_key: &[u8]) -> bool {
    match self::user_key(largest).cmp(user_key) {
        Ordering::Less => true,
        Ordering::Equal => is_range_end(largest),
        Ordering::Greater => false,
    }
}

/// The exclusive end of a file whose largest internal key is `largest`: the smallest user key after
/// all its keys and range deletions.
pub(crate) fn user_key_behind(largest: &[u8]) -> Vec<u8> {
    let mut end = user_key(largest).to_vec();
    if !is_range_end(largest) {
        // The successor of `key` is `key` with a zero byte appended.
        end.push(0);
    }
    end
}

/// Whether an internal key is a [`range_end`].
pub(crate) fn is_range_end(internal_key: &[u8]) -> bool {
    trailer(internal_key) == pack(MAX_SEQUENCE, EntryKind::RangeDeletion as u8)
}

/// The user key of a checked internal key.
#[inline]
pub(crate) fn user_key(internal_key: &[u8]) -> &[u8] {
    &internal_key[..internal_key.len() - TRAILER_BYTES]
}

/// Whether two user keys are equal. Adjacent keys of a table differ most often in the last byte, so
/// the last bytes are compared first.
#[inline]
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.last() == b.last() && a == b
}

/// The trailer of a checked internal key.
#[inline]
pub(crate) fn trailer(internal_key: &[u8]) -> u64 {
    fixed64(&internal_key[internal_key.len() - TRAILER_BYTES..])
}

/// The sequence number of a checked internal key.
#[inline]
pub(crate) fn sequence(internal_key: &[u8]) -> SequenceNumber {
    trailer(internal_key) >> 8
}

/// The kind byte of a checked internal key.
#[inline]
pub(crate) fn kind_byte(internal_key: &[u8]) -> u8 {
    trailer(internal_key) as u8
}

/// The order of the store: user key ascending, then trailer descending.
#[inline]
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    user_key(a).cmp(user_key(b)).then_with(|| trailer(b).cmp(&trailer(a)))
}

/// What is looked up: a user key as a snapshot sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookupKey<'a> {
    pub user_key: &'a [u8],
    /// The snapshot's sequence number: the snapshot sees no entry with a larger one.
    pub sequence: SequenceNumber,
    /// The key's hash, computed once for the filters of all tables.
    pub hash: KeyHash,
}

impl<'a> LookupKey<'a> {
    #[inline(always)]
    pub fn new(user_key: &'a [u8], sequence: SequenceNumber) -> LookupKey<'a> {
        LookupKey { user_key, sequence, hash: hash64(user_key) }
    }

    /// The trailer (sequence number and kind) of the internal key at which a search begins: this
    /// internal key sorts before all versions of the user key that the snapshot sees, and after all
    /// newer versions.
    pub fn trailer(&self) -> u64 {
        pack(self.sequence, SEEK_KIND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_come_first_and_a_prefix_before_its_extensions() {
        let ordered = [
            internal_key(b"", 9, 1),
            internal_key(b"a", 7, 1),
            internal_key(b"a", 7, 0),
            internal_key(b"a", 3, 1),
            internal_key(b"a\0", 99, 1),
            internal_key(b"b", 1, 1),
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{i} {j}");
            }
        }
    }

    #[test]
    fn the_end_of_a_range_stands_before_every_entry_of_its_key_and_counts_as_outside() {
        let end = range_end(b"k");
        assert_eq!(compare(&end, &internal_key(b"k", MAX_SEQUENCE - 1, 1)), Ordering::Less);
        assert_eq!(compare(&end, &internal_key(b"j\xff", 0, 0)), Ordering::Greater);
        assert!(ends_before(&end, b"k") && ends_before(&end, b"l") && !ends_before(&end, b"j"));
        let entry = internal_key(b"k", 7, 15);
        assert!(!ends_before(&entry, b"k") && ends_before(&entry, b"k\0"));
    }

    #[test]
    fn a_seek_key_stands_before_every_kind_at_its_sequence() {
        let target = seek_key(b"k", 5);
        assert_eq!(compare(&target, &internal_key(b"k", 5, 0x18)), Ordering::Less);
        assert_eq!(compare(&target, &internal_key(b"k", 6, 0)), Ordering::Greater);
    }
}
