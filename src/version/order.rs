//! What *newer* means for the tables of a tree, why it stays true, and a check of it.
//!
//! ```text
//!   source      L0 [place 90] [place 75] [place 75] [place 40]   L1   …   L6
//!               newest ──────────────────────────────────────────────► oldest
//! ```
//!
//! The *sources* of a tree are the files of level 0, from the largest place to the smallest, and then
//! the deeper levels. The *place* of a file is its largest sequence number, and then its file number
//! ([`FileMeta::place`]).
//!
//! **Invariant.** Of each user key, every version in a newer source has a larger sequence number
//! than every version in an older source, or is the same entry. A range deletion is a version of
//! each key that it covers. Files of level 0 with the same largest sequence number share no key.
//!
//! Why it holds:
//!
//! - *A flush* writes the oldest memtable, whose entries are newer than those of all tables, except
//!   for tables that were ingested later. These share no key with the memtable. The tables of one
//!   flush have disjoint key ranges. Their places are between those of the flushes before and after.
//! - *An ingestion* gets the next sequence number. Its files have disjoint key ranges.
//! - *A merge within level 0* takes neighbours in the order of level 0, all of them older than every
//!   unflushed memtable, and its output **takes their place**: it records the largest sequence
//!   number of the inputs, even if it has dropped the entry with this number. A newer file that
//!   stays has a larger number (`compaction/level0.rs`), an older file that stays has a smaller one,
//!   or the same one and no key of the output that is not its own flush's.
//! - *A compaction to a deeper level* takes with each file all older files of level 0 that overlap
//!   it, and all files of the output level that it overlaps. The levels between are empty there.
//! - *An opening* reads places from the MANIFEST, where they do not change. *A repair* keeps the
//!   places of salvaged and renamed tables, and an import those of merged tables.
//!
//! Trees of other engines that break the invariant are mixed ([`Version::mixed`]), and no rule above
//! applies to them.

use std::sync::Arc;

use super::{FileMeta, LevelCursor, TableFile, Version};
use crate::cursor::Cursor;
use crate::cursor::merging::MergingCursor;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, MAX_SEQUENCE, SequenceNumber, user_key};
use crate::error::{Damage, Error, Result};
use crate::range_tombstones::{RangeTombstones, fragment_of_disjoint};
use crate::table::ScanOptions;

/// Reads all tables once, to find a key of which a lookup could find an old version before a newer
/// one. Returns an error that names the key and its two tables; `None` if there is no such key.
/// `goes_on` is called before each entry, and may end the search by an error.
pub(crate) fn find_disorder(
    version: &Version,
    mut goes_on: impl FnMut() -> Result<()>,
) -> Result<Option<Error>> {
    let checked = CheckedRuns::of(version);
    if version.is_mixed() || checked.runs.len() < 2 {
        return Ok(None);
    }
    let mut cursor = checked.cursor();
    // The versions of the current key that were read, newest first: the deepest source of any of
    // them, and the sequence number of its newest version.
    let mut seen: Option<(Vec<u8>, usize, SequenceNumber)> = None;
    let mut last_key: Vec<u8> = Vec::new();
    cursor.seek_to_first()?;
    while cursor.valid() {
        goes_on()?;
        let (internal_key, source) = (cursor.key(), cursor.current_source());
        // Of the same entry in several sources only the newest copy counts, which comes first.
        if internal_key != &last_key[..] {
            let (key, sequence) = (user_key(internal_key), key::sequence(internal_key));
            match &mut seen {
                Some((last, deepest, newest)) if key::is_same(last, key) => {
                    if source < *deepest {
                        let (newer, older) = ((source, sequence), (*deepest, *newest));
                        return Ok(Some(checked.misordered(key, newer, older)));
                    }
                    if source > *deepest {
                        (*deepest, *newest) = (source, sequence);
                    }
                }
                _ => seen = Some((key.to_vec(), source, sequence)),
            }
            let disorder = checked.compare_with_ranges(key, source, sequence);
            if disorder.is_some() {
                return Ok(disorder);
            }
            last_key.clear();
            last_key.extend_from_slice(internal_key);
        }
        cursor.next()?;
    }
    Ok(None)
}

/// The files of each source of a version, newest source first.
struct CheckedRuns {
    runs: Vec<Vec<Arc<TableFile>>>,
    /// The sources with range deletions: each with the range deletions of its files, in the order of
    /// the files.
    ranges: Vec<(usize, Vec<Arc<RangeTombstones>>)>,
}

impl CheckedRuns {
    fn of(version: &Version) -> CheckedRuns {
        let [level_0, deeper @ ..] = &version.levels;
        let runs = level_0.iter().map(|file| vec![Arc::clone(file)]);
        let runs = runs.chain(deeper.iter().filter(|files| !files.is_empty()).cloned());
        let runs: Vec<_> = runs.collect();
        let ranges = runs.iter().enumerate().filter_map(|(source, files)| {
            let sets: Vec<_> =
                files.iter().filter_map(|file| file.table.ranges().cloned()).collect();
            (!sets.is_empty()).then_some((source, sets))
        });
        CheckedRuns { ranges: ranges.collect(), runs }
    }

    fn cursor(&self) -> MergingCursor<LevelCursor> {
        let options = ScanOptions::for_compaction(self.runs.len(), (None, None));
        let runs = self.runs.iter();
        MergingCursor::new(
            runs.map(|files| LevelCursor::new(files.clone(), options.clone())).collect(),
        )
    }

    /// The newest range deletion of source `sets` that covers the key and is not above `sequence`; 0
    /// if there is none.
    fn covering(
        sets: &[Arc<RangeTombstones>],
        key: &[u8],
        sequence: SequenceNumber,
    ) -> SequenceNumber {
        fragment_of_disjoint(sets, key, sequence).sequence
    }

    /// Compares one entry with the range deletions of all other sources.
    fn compare_with_ranges(
        &self,
        key: &[u8],
        source: usize,
        sequence: SequenceNumber,
    ) -> Option<Error> {
        for (other, sets) in &self.ranges {
            let (other, newest) = (*other, Self::covering(sets, key, MAX_SEQUENCE));
            if other > source && newest > sequence {
                // The same range deletion may be in the entry's source too, or in a newer one.
                let mut newer = self.ranges.iter().take_while(|(newer, _)| *newer <= source);
                if !newer.any(|(_, sets)| Self::covering(sets, key, newest) == newest) {
                    return Some(self.misordered(key, (source, sequence), (other, newest)));
                }
            }
            if other < source && sequence > 0 {
                let older = Self::covering(sets, key, sequence - 1);
                if older > 0 {
                    return Some(self.misordered(key, (other, older), (source, sequence)));
                }
            }
        }
        None
    }

    /// The error for a key whose version in the newer source is older than that in the older source.
    fn misordered(
        &self,
        key: &[u8],
        newer: (usize, SequenceNumber),
        older: (usize, SequenceNumber),
    ) -> Error {
        let file = |(source, _): (usize, SequenceNumber)| {
            let files = self.runs[source].iter();
            let mut files = files.filter(|file| holds(&file.meta, key));
            files.next().unwrap_or(&self.runs[source][0])
        };
        let name = |at| file(at).path().display();
        let expected = format_args!("only entries that are newer than those of {}", name(older));
        let found = format!(
            "\"{}\" with sequence number {} here and {} there: a lookup may return an old value, or a \
             deleted one; close the database and repair it",
            key.escape_ascii(),
            newer.1,
            older.1
        );
        Damage::new(0, expected, found).in_file(file(newer).path(), 0)
    }
}

/// Whether the key is in the file's range.
fn holds(meta: &FileMeta, key: &[u8]) -> bool {
    user_key(&meta.smallest) <= key && !meta.ends_before(key)
}

/// The largest tree, in bytes of keys and values, that [`assert_change`] reads.
const MAX_CHECKED_BYTES: u64 = 256 << 10;

/// Panics if the tree `new`, which has replaced `old`, breaks the invariant, or if a change that
/// only compacted has added or removed something that a reader sees: the newest one, or one of
/// `snapshots`. Does nothing if the tree is not small, if a table cannot be read, or in a build
/// without debug assertions.
pub(crate) fn assert_change(
    old: &Version,
    new: &Version,
    only_compacts: bool,
    snapshots: impl FnOnce() -> Vec<SequenceNumber>,
) {
    let bytes = |version: &Version| -> u64 {
        let contents = version.files().map(|(_, file)| &file.meta.contents);
        contents.map(|it| it.raw_key_bytes.saturating_add(it.raw_value_bytes)).sum()
    };
    if !cfg!(debug_assertions) || bytes(new).max(bytes(old)) > MAX_CHECKED_BYTES {
        return;
    }
    if let Ok(Some(error)) = find_disorder(new, || Ok(())) {
        panic!("a change of the tree broke its order: {error}");
    }
    if !only_compacts {
        return;
    }
    for sequence in snapshots().into_iter().chain([MAX_SEQUENCE]) {
        if let (Ok(before), Ok(after)) = (visible(old, sequence), visible(new, sequence)) {
            assert!(before == after, "a compaction changed what a reader at {sequence} sees");
        }
    }
}

/// The keys that a reader at `sequence` sees in the tables, each with the sequence number of the
/// version that it sees.
fn visible(version: &Version, sequence: SequenceNumber) -> Result<Vec<(Vec<u8>, SequenceNumber)>> {
    let checked = CheckedRuns::of(version);
    let mut cursor = checked.cursor();
    let (mut keys, mut last) = (Vec::new(), None);
    cursor.seek_to_first()?;
    while cursor.valid() {
        let (key, own) = (user_key(cursor.key()), key::sequence(cursor.key()));
        if own <= sequence && last.as_deref() != Some(key) {
            last = Some(key.to_vec());
            let kind = EntryKind::of_point(key::kind_byte(cursor.key()));
            let is_tombstone =
                matches!(kind, Some(EntryKind::Deletion | EntryKind::SingleDeletion));
            let mut ranges = checked.ranges.iter();
            let is_hidden =
                ranges.any(|(_, sets)| CheckedRuns::covering(sets, key, sequence) > own);
            if !is_tombstone && !is_hidden {
                keys.push((key.to_vec(), own));
            }
        }
        cursor.next()?;
    }
    Ok(keys)
}
