//! [`Garbage`]: counts of a table's entries that some reader may need now, but that no reader will
//! need later.
//!
//! Flush and compaction drop the entries that no reader can see. Entries that they must keep for a
//! snapshot become droppable when that snapshot is released, but only a scan of the table could
//! find them. So the builder counts them while it writes, and the table stores the counts as a
//! property.
//!
//! ```text
//!   key    version             droppable
//!   ant    9 value             no: the newest version
//!          5 value             once no snapshot is in 5 .. 9, because 9 hides it
//!   bee    8 deletion          together with bee@3: it hides nothing else here
//!          3 value             once no snapshot is in 3 .. 8, because 8 hides it
//! ```
//!
//! A version is *hidden* if the table holds a newer entry of its key. Its *span* goes from its own
//! sequence number to that of the next newer entry, which hides it. [`Hidden`] sums up many hidden
//! versions: `low` is the smallest number of all their spans, and `high` is the largest. If no
//! snapshot is in `low .. high`, none is in any of the spans, so all the versions are droppable. If
//! a snapshot is in `low .. high`, it may still be in none of the spans. Then all the versions are
//! taken for needed although they are droppable, because the separate spans are not stored.
//!
//! **The counts are hints.** They decide when a table is rewritten, never which entry survives. A
//! table without counts, such as one of RocksDB, is assumed to have no hidden versions. Impossible
//! counts are treated as absent.

use crate::encoding::coding::{Decoder, put_varint};
use crate::encoding::key;
use crate::encoding::key::{EntryKind, MAX_SEQUENCE, SequenceNumber};
use crate::error::Damage;

/// The most sums ([`Hidden`]) that a table keeps. If there would be more, two neighboring sums are
/// joined.
const MAX_SUMS: usize = 8;

/// The sum of some hidden versions (see the module).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// The smallest sequence number of a hidden version.
    pub low: SequenceNumber,
    /// The largest sequence number of an entry that hides one of the versions.
    pub high: SequenceNumber,
    /// The number of entries that are droppable together: the hidden versions, and the deletions
    /// that directly hide one of them and are not hidden themselves.
    pub entries: u64,
    /// How many deletions directly hide one of the versions.
    pub deletions: u64,
    /// Bytes of the keys and values of these entries, before compression.
    pub bytes: u64,
}

impl Hidden {
    /// Whether it is certain that no snapshot needs any of the hidden versions. `snapshots` are in
    /// ascending order.
    pub fn is_droppable(&self, snapshots: &[SequenceNumber]) -> bool {
        let first = snapshots.partition_point(|&snapshot| snapshot < self.low);
        snapshots.get(first).is_none_or(|&snapshot| snapshot >= self.high)
    }

    fn add(&mut self, other: &Hidden) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.entries = self.entries.saturating_add(other.entries);
        self.deletions = self.deletions.saturating_add(other.deletions);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Garbage {
    /// In ascending order of `low`.
    pub hidden: Vec<Hidden>,
    /// About how many bytes of older tables this table's range deletions hid when it was written.
    pub range_hides_bytes: u64,
    /// When the oldest deletion was flushed, in seconds since 1970. 0 if the time is not known or
    /// there is no deletion.
    pub oldest_deletion: u64,
    /// Whether the table holds an entry of a kind that is not understood. Compactions keep such an
    /// entry and all older entries of its key, so no rewrite is sure to free anything.
    pub is_opaque: bool,
}

impl Garbage {
    /// Encodes as varints: the oldest deletion, the range bytes, 1 if opaque or else 0, then for
    /// each sum low, high - low, entries, deletions and bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.oldest_deletion);
        put_varint(&mut out, self.range_hides_bytes);
        put_varint(&mut out, self.is_opaque.into());
        for hidden in &self.hidden {
            put_varint(&mut out, hidden.low);
            put_varint(&mut out, hidden.high - hidden.low);
            put_varint(&mut out, hidden.entries);
            put_varint(&mut out, hidden.deletions);
            put_varint(&mut out, hidden.bytes);
        }
        out
    }

    /// `None` if the bytes are not what [`Garbage::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Option<Garbage> {
        Garbage::decode_checked(bytes).ok().flatten()
    }

    fn decode_checked(bytes: &[u8]) -> Result<Option<Garbage>, Damage> {
        let mut decoder = Decoder::new(bytes);
        let mut garbage = Garbage {
            oldest_deletion: decoder.varint("oldest deletion")?,
            range_hides_bytes: decoder.varint("bytes hidden by ranges")?,
            is_opaque: decoder.varint("opaque")? != 0,
            hidden: Vec::new(),
        };
        while !decoder.is_empty() {
            let low = decoder.varint("low")?;
            let high = low.saturating_add(decoder.varint("high")?);
            let entries = decoder.varint("entries")?;
            let deletions = decoder.varint("deletions")?;
            let bytes = decoder.varint("bytes")?;
            if high > MAX_SEQUENCE || deletions > entries || garbage.hidden.len() == MAX_SUMS {
                return Ok(None);
            }
            garbage.hidden.push(Hidden { low, high, entries, deletions, bytes });
        }
        Ok(Some(garbage))
    }

    /// How many of the table's `deletions` deletions hide no older version in the table.
    pub fn lone_deletions(&self, deletions: u64) -> u64 {
        let paired: u64 = self.hidden.iter().map(|hidden| hidden.deletions).sum();
        deletions.saturating_sub(paired)
    }
}

/// Counts [`Garbage`] while a table is written.
///
/// Call [`Counting::see`] for each entry, in the order of internal keys.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    sums: Vec<Hidden>,
    /// The entry before: sequence number, kind, bytes.
    last: (SequenceNumber, Option<EntryKind>, u64),
    /// Whether the entry before is counted as a hidden version.
    last_is_hidden: bool,
    /// Whether the current key has had an entry of a kind that is not understood. Compactions keep
    /// that entry and all older entries of the key, whatever hides them.
    key_is_opaque: bool,
    /// Whether any key has an entry of a kind that is not understood.
    is_opaque: bool,
}

impl Counting {
    /// Counts the next entry. `repeats`: whether the previous entry has the same user key.
    #[inline]
    pub fn see(&mut self, internal_key: &[u8], value_bytes: usize, repeats: bool) {
        let sequence = key::sequence(internal_key);
        let kind = EntryKind::of_point(key::kind_byte(internal_key));
        let bytes = (internal_key.len() + value_bytes) as u64;
        self.key_is_opaque = kind.is_none() || (repeats && self.key_is_opaque);
        self.is_opaque |= self.key_is_opaque;
        let is_hidden = repeats && !self.key_is_opaque;
        if is_hidden {
            self.hide(sequence, bytes);
        }
        self.last = (sequence, kind, bytes);
        self.last_is_hidden = is_hidden;
    }

    /// Counts a version with this sequence number, which the previous entry hides.
    #[cold]
    fn hide(&mut self, sequence: SequenceNumber, bytes: u64) {
        let (by, kind, by_bytes) = self.last;
        let mut hidden = Hidden { low: sequence, high: by, entries: 1, deletions: 0, bytes };
        if matches!(kind, Some(EntryKind::Deletion | EntryKind::SingleDeletion)) {
            hidden.deletions += 1;
            if !self.last_is_hidden {
                hidden.entries += 1;
                hidden.bytes += by_bytes;
            }
        }
        // By how much the span of a sum grows if the sum includes the version.
        let growth = |sum: &Hidden| {
            (sum.high.max(hidden.high) - sum.low.min(hidden.low)) - (sum.high - sum.low)
        };
        match self.sums.iter_mut().min_by_key(|sum| growth(sum)) {
            Some(sum) if growth(sum) == 0 => return sum.add(&hidden),
            _ => self.sums.push(hidden),
        }
        if self.sums.len() > MAX_SUMS {
            self.join_nearest();
        }
    }

    /// Joins the two neighbors whose common span is the shortest.
    fn join_nearest(&mut self) {
        self.sums.sort_unstable_by_key(|sum| sum.low);
        let span = |i: usize| self.sums[i].high.max(self.sums[i + 1].high) - self.sums[i].low;
        if let Some(i) = (0..self.sums.len() - 1).min_by_key(|&i| span(i)) {
            let next = self.sums.remove(i + 1);
            self.sums[i].add(&next);
        }
    }

    /// Writes the counts into `garbage`.
    pub fn finish(mut self, garbage: &mut Garbage) {
        self.sums.sort_unstable_by_key(|sum| sum.low);
        garbage.hidden = self.sums;
        garbage.is_opaque = self.is_opaque;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;

    fn count(entries: &[(&[u8], u64, u8)]) -> Vec<Hidden> {
        let mut counting = Counting::default();
        let mut last: &[u8] = b"";
        for &(key, sequence, kind) in entries {
            counting.see(&internal_key(key, sequence, kind), 10, key == last);
            last = key;
        }
        let mut garbage = Garbage::default();
        counting.finish(&mut garbage);
        garbage.hidden
    }

    #[test]
    fn a_version_is_droppable_once_no_snapshot_lies_between_it_and_what_hides_it() {
        let hidden = count(&[(b"ant", 9, 1), (b"ant", 5, 1)]);
        assert_eq!(hidden.len(), 1);
        assert_eq!((hidden[0].low, hidden[0].high, hidden[0].entries), (5, 9, 1));
        assert_eq!(hidden[0].bytes, 3 + 8 + 10);
        for (snapshots, droppable) in
            [(&[][..], true), (&[5], false), (&[8], false), (&[4, 9], true), (&[4, 7, 9], false)]
        {
            assert_eq!(hidden[0].is_droppable(snapshots), droppable, "{snapshots:?}");
        }
    }

    #[test]
    fn a_deletion_goes_with_the_last_version_that_it_hides() {
        let hidden = count(&[(b"bee", 8, 0), (b"bee", 3, 1), (b"cat", 2, 0)]);
        assert_eq!(hidden.len(), 1);
        assert_eq!((hidden[0].entries, hidden[0].deletions), (2, 1));
        let garbage = Garbage { hidden, ..Garbage::default() };
        assert_eq!(garbage.lone_deletions(2), 1, "that of cat hides nothing here");
    }

    /// Regression: a key was put, deleted and put again. Its deletion was counted twice: as hidden,
    /// and as hiding the first put.
    #[test]
    fn a_hidden_deletion_that_hides_a_version_counts_once() {
        let hidden = count(&[(b"ant", 9, 1), (b"ant", 7, 0), (b"ant", 5, 1)]);
        let sum = |of: fn(&Hidden) -> u64| hidden.iter().map(of).sum::<u64>();
        assert_eq!((sum(|h| h.entries), sum(|h| h.deletions)), (2, 1));
        assert_eq!(sum(|h| h.bytes), 2 * (3 + 8 + 10));
    }

    /// If a merge operand and the older entries of its key were counted, the table would be
    /// rewritten again and again, because compactions keep these entries.
    #[test]
    fn what_lies_at_or_below_an_entry_of_unknown_kind_is_not_counted() {
        assert_eq!(count(&[(b"ant", 9, 1), (b"ant", 7, 2), (b"ant", 5, 1)]), []);
        assert_eq!(
            count(&[(b"ant", 9, 2), (b"ant", 7, 1), (b"bee", 5, 1), (b"bee", 4, 1)]).len(),
            1
        );
    }

    #[test]
    fn many_spans_become_few_that_cover_them() {
        let mut counting = Counting::default();
        for i in 0..1000u64 {
            let key = i.to_be_bytes();
            counting.see(&internal_key(&key, 1000 * i + 50, 1), 0, false);
            counting.see(&internal_key(&key, 1000 * i + 10, 1), 0, true);
        }
        let mut garbage = Garbage::default();
        counting.finish(&mut garbage);
        let sums = garbage.hidden;
        assert!(sums.len() <= MAX_SUMS && sums.is_sorted_by_key(|sum| sum.low));
        assert_eq!(sums.iter().map(|sum| sum.entries).sum::<u64>(), 1000);
        for i in 0..1000u64 {
            let covers = |sum: &Hidden| sum.low <= 1000 * i + 10 && sum.high >= 1000 * i + 50;
            assert!(sums.iter().any(covers), "{i}");
        }
    }

    #[test]
    fn an_encoding_round_trips_and_nonsense_is_taken_as_absent() {
        let hidden = |low| Hidden { low, high: low + 3, entries: 9, deletions: 2, bytes: 1 << 40 };
        let garbage = Garbage {
            hidden: (0..MAX_SUMS as u64).map(hidden).collect(),
            range_hides_bytes: 77,
            oldest_deletion: 1_800_000_000,
            is_opaque: true,
        };
        let bytes = garbage.encode();
        assert_eq!(Garbage::decode(&bytes), Some(garbage.clone()));
        for cut in 0..bytes.len() {
            let _ = Garbage::decode(&bytes[..cut]);
        }
        assert_eq!(Garbage::decode(&[0; 200]), None, "more sums than are ever written");
        assert_eq!(Garbage::decode(&[0, 0, 0, 1, 1, 1, 2, 1]), None, "more deletions than entries");
        assert_eq!(Garbage::decode(b""), None);
    }
}
