//! Which entry a cursor shows: the newest visible version of a key, if that is a value which no
//! range deletion hides.
//!
//! ```text
//!   cursor at 7, forward ──►      bee@9  bee@6  bee@2   cat@5 tombstone   cat@3   dog@1
//!                                 not    shown  older   hides ──────────► older   shown
//!                                 visible
//! ```
//!
//! A key may have very many versions, most of them hidden. So after a few steps over versions of
//! one key, the cursor seeks. Forward, it seeks past the hidden versions, or to the newest visible
//! one. Backward, it seeks to the newest visible one, and then before the key.
//!
//! The *merge* is the cursor below this one, over all versions of all sources (`cursor.rs`). A
//! *walk* is the part of a call that passes hidden entries one by one. A *mark* is an interval of
//! keys in which nothing is shown ([`super::marks`]). After a long walk the cursor proposes a mark,
//! over which later cursors jump.

use std::path::Path;

use super::cursor::{DbCursor, Position, WalkEnd};
use super::marks::Proposal;
use super::range_del::RangeDelAggregator;
use crate::cursor::merging::Direction;
use crate::cursor::{Cursor, next_by_copy};
use crate::db::read_state::ReadState;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, seek_key, user_key};
use crate::error::{Error, Result};
use crate::lookup::Sources;
use crate::table::unsupported_entry;

/// At most this many versions of one key are passed one by one. A seek past the other versions
/// costs about as much as this many steps.
const SEEK_AFTER: u64 = 8;

/// After each group of this many hidden entries, a walking cursor looks for a mark to jump over.
const LOOK_EVERY: u64 = 32;

/// After a walk over this number of hidden entries, the cursor proposes a mark over them. The
/// number is smaller for a walk that follows a seek, because seeks tend to be repeated. It is
/// larger for a walk that follows a step, because a single scan should not make a mark at every
/// gap.
const PROPOSE_AFTER_SEEK: u64 = 32;
const PROPOSE_AFTER_STEP: u64 = 256;

/// A walk that passes this number of hidden entries in the memtable requests a flush of the
/// memtable, if it has passed at least half of the memtable's entries. A walk that passes this
/// number of hidden entries in tables requests a compaction of the range.
const CLEAN_UP_AFTER: u64 = 10_000;

/// The entries that a walk passed.
#[derive(Debug, Clone, Copy)]
struct Passed {
    /// The number of hidden entries.
    entries: u64,
    /// About how many of these were in the merge's first source. This source is the memtable,
    /// unless the cursor is older than all entries of the memtable, and then the number is not
    /// used. It may exceed `entries`, because a walk backward also counts older versions of the
    /// entry that it shows.
    in_first: u64,
}

impl DbCursor {
    /// Moves forward from the merge's entry to the first one to show. With `hidden`, the cursor was
    /// already on the user key of this entry, so no entry of this key is shown any more. With
    /// `sought`, the merge came here by a seek to `self.key`.
    #[inline(never)]
    pub(super) fn find_forward(&mut self, hidden: bool, sought: bool) -> Result<()> {
        // Nearly always the first entry is shown.
        if !hidden && self.aggregator.is_none() && self.merged.valid() {
            let internal_key = self.merged.key();
            if key::sequence(internal_key) <= self.point.sequence
                && key::kind_byte(internal_key) == EntryKind::Value as u8
                && !self.bounds.is_past(user_key(internal_key))
            {
                self.position = Position::Forward;
                return Ok(());
            }
        }
        self.walk_forward(hidden, sought)
    }

    #[inline(never)]
    fn walk_forward(&mut self, mut hidden: bool, sought: bool) -> Result<()> {
        self.position = Position::NoEntry;
        let mut follows_visible = hidden;
        // After a seek, the walk's start is copied at the walk's first entry. After a step, it is
        // copied only at the second entry, because most steps pass only one older version.
        let start_at = u64::from(!sought);
        // Entries that were passed: all, those of the first source, and those of the current key.
        let (mut passed, mut in_first, mut versions) = (0, 0, 0);
        let mut look_at = LOOK_EVERY;
        while self.merged.valid() {
            let internal_key = self.merged.key();
            if self.bounds.is_past(user_key(internal_key)) {
                break;
            }
            if !hidden && key::sequence(internal_key) <= self.point.sequence {
                let kind = kind(internal_key);
                if !matches!(kind, Some(EntryKind::Deletion | EntryKind::SingleDeletion)) {
                    if !is_deleted(&mut self.aggregator, internal_key) {
                        if kind.is_none() {
                            return Err(unknown_entry(&self.merged));
                        }
                        self.position = Position::Forward;
                        break;
                    }
                    if self.skip_deleted(Direction::Forward)? {
                        continue;
                    }
                }
                hidden = true;
            }
            if passed == start_at {
                self.start_walk(sought, follows_visible);
            }
            passed += 1;
            in_first += u64::from(self.merged.current_source() == 0);
            versions += 1;
            if passed >= look_at && self.point.state.marks.is_active() {
                look_at = passed + LOOK_EVERY;
                match self.jump_forward()? {
                    Jump::None => {}
                    Jump::Done => {
                        (hidden, versions) = (false, 0);
                        continue;
                    }
                    Jump::ToTheEnd => break,
                }
            }
            if versions == SEEK_AFTER {
                self.skip_versions(hidden)?;
                (hidden, versions) = (false, 0);
                continue;
            }
            let repeats = match self.merged.step() {
                Some(step) => step.repeats,
                None => next_by_copy(&mut self.merged, &mut self.key)?,
            };
            if !repeats {
                (hidden, versions, follows_visible) = (false, 0, false);
            }
        }
        if passed > 0 {
            self.skipped += passed;
            if passed >= if sought { PROPOSE_AFTER_SEEK } else { PROPOSE_AFTER_STEP } {
                self.end_long_walk_forward(Passed { entries: passed, in_first });
            }
        }
        Ok(())
    }

    /// Copies the first key of a walk forward. `follows_visible`: the walk's entries so far are
    /// older versions of a key that was visible.
    fn start_walk(&mut self, sought: bool, follows_visible: bool) {
        self.walked_from.clear();
        let from = if sought { &self.key } else { self.merged.key() };
        self.walked_from.extend_from_slice(user_key(from));
        if follows_visible {
            // That key is shown, so the walk starts right after it.
            self.walked_from.push(0);
        }
    }

    /// Forward: moves the merge to the end of the mark that contains its key.
    #[cold]
    fn jump_forward(&mut self) -> Result<Jump> {
        let key = user_key(self.merged.key());
        match self.point.state.marks.forward(key, self.point.sequence) {
            None => Ok(Jump::None),
            Some(None) => Ok(Jump::ToTheEnd),
            Some(Some(end)) => {
                self.merged.skip(&seek_key(&end, key::MAX_SEQUENCE), |_| true)?;
                Ok(Jump::Done)
            }
        }
    }

    /// Called when a walk forward has passed many entries. Nothing is shown from the start of the
    /// walk to the entry where it has stopped, or to the end of the range.
    #[cold]
    fn end_long_walk_forward(&self, passed: Passed) {
        let end = match self.position {
            Position::Forward => Some(self.key()),
            _ => self.bounds.upper(),
        };
        self.end_long_walk(&self.walked_from, end, passed);
    }

    /// Called when a walk has passed many entries from `from` to before `end`, where nothing is
    /// shown. Proposes a mark there, and requests a flush or a compaction if the walk has passed
    /// very many entries in the memtable or in tables ([`CLEAN_UP_AFTER`]).
    fn end_long_walk(&self, from: &[u8], end: Option<&[u8]>, passed: Passed) {
        // A walk of a snapshot proves nothing about the present, because entries that the snapshot
        // does not see may have been written since.
        if self.point.is_snapshot {
            return;
        }
        let ReadState { marks, sources: Sources { memtable, .. }, .. } = &*self.point.state;
        // A cursor whose sequence number is smaller than that of all entries of the memtable has no
        // source for the memtable, so its first source is another one.
        let reads_memtable = memtable.smallest_sequence() <= self.point.sequence;
        let in_first = passed.in_first.min(passed.entries);
        let in_memtable = if reads_memtable { in_first } else { 0 };
        if in_memtable >= CLEAN_UP_AFTER && 2 * in_memtable >= memtable.len() as u64 {
            marks.ask_for_flush(memtable.smallest_sequence());
        }
        if let Some(proposal) = Proposal::new(from, end, self.point.sequence) {
            if passed.entries - in_memtable >= CLEAN_UP_AFTER {
                marks.ask_for_cleanup(from, end);
            }
            marks.propose(proposal);
        }
    }

    /// Forward: if `hidden`, moves the merge to the next user key. Otherwise moves it to the newest
    /// version of its key that the cursor may see, or to the next user key if there is none.
    #[cold]
    fn skip_versions(&mut self, hidden: bool) -> Result<()> {
        let key = user_key(self.merged.key());
        let target = match hidden {
            true => seek_key(&[key, &[0]].concat(), key::MAX_SEQUENCE),
            false => seek_key(key, self.point.sequence),
        };
        self.merged.skip(&target, |_| true)
    }

    /// Called after a range deletion hid an entry. At the `SKIP_AFTER`-th hidden entry of a stretch
    /// of keys ([`RangeDelAggregator`]), moves the sources that are older than this range deletion
    /// past the stretch. Returns whether it did so.
    #[cold]
    fn skip_deleted(&mut self, direction: Direction) -> Result<bool> {
        let Some(aggregator) = &mut self.aggregator else { return Ok(false) };
        let Some((start, end, deleted_at)) = aggregator.stretch_to_skip() else {
            return Ok(false);
        };
        let user_key = match direction {
            Direction::Forward => end,
            Direction::Backward => start,
        };
        let target = key::internal_key(user_key, key::MAX_SEQUENCE, key::SEEK_KIND);
        self.merged.skip(&target, |source| source.is_older_than(deleted_at))?;
        Ok(true)
    }

    /// Moves backward from the merge's entry to the first one to show.
    pub(super) fn find_backward(&mut self, start: WalkEnd<'_>) -> Result<()> {
        self.position = Position::NoEntry;
        // `versions` is the number of entries met so far of the current key, which `self.key`
        // holds. If `found`, the newest visible one of them is shown, and `self.value` holds its
        // value.
        let (mut versions, mut found) = (0, false);
        let (mut passed, mut in_first, mut look_at) = (0, 0, LOOK_EVERY);
        while self.merged.valid() {
            let internal_key = self.merged.key();
            let key = user_key(internal_key);
            if versions == 0 || key != self.key {
                if found || self.bounds.is_before(key) {
                    break;
                }
                if versions > 0 {
                    // No version of the previous key is shown.
                    if passed == 0 {
                        self.walked_from.clear();
                        self.walked_from.extend_from_slice(&self.key);
                    }
                    passed += versions;
                    versions = 0;
                    if passed >= look_at && self.point.state.marks.is_active() {
                        look_at = passed + LOOK_EVERY;
                        self.jump_backward()?;
                    }
                    continue;
                }
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            versions += 1;
            if versions > SEEK_AFTER {
                found = self.find_newest()?;
                continue;
            }
            if key::sequence(internal_key) <= self.point.sequence {
                match kind(internal_key) {
                    Some(EntryKind::Deletion | EntryKind::SingleDeletion) => found = false,
                    _ if is_deleted(&mut self.aggregator, internal_key) => {
                        found = false;
                        if self.skip_deleted(Direction::Backward)? {
                            continue;
                        }
                    }
                    Some(_) => {
                        found = true;
                        self.value = self.merged.value_slice();
                    }
                    // This entry is of an unknown kind. That is an error, unless a newer version
                    // hides it.
                    None => {
                        found = self.find_newest()?;
                        continue;
                    }
                }
            }
            if !found {
                in_first += u64::from(self.merged.current_source() == 0);
            }
            self.merged.prev()?;
        }
        if found {
            self.position = Position::Backward;
        }
        self.skipped += passed + versions - u64::from(found);
        if passed >= PROPOSE_AFTER_SEEK {
            self.end_long_walk_backward(start, Passed { entries: passed, in_first });
        }
        Ok(())
    }

    /// Backward: moves the merge to before the mark that contains its key, if there is one.
    #[cold]
    fn jump_backward(&mut self) -> Result<()> {
        let after = [user_key(self.merged.key()), &[0]].concat();
        match self.point.state.marks.backward(Some(&after), self.point.sequence) {
            Some(from) => self.merged.skip(&seek_key(&from, key::MAX_SEQUENCE), |_| true),
            None => Ok(()),
        }
    }

    /// Called when a walk backward has passed many entries. Nothing is shown from the key after the
    /// entry where it has stopped, or from the start of the range, to the start of the walk.
    #[cold]
    fn end_long_walk_backward(&mut self, start: WalkEnd<'_>, passed: Passed) {
        let end = match start {
            WalkEnd::Known(bound) => bound,
            WalkEnd::FirstPassed if passed.entries < PROPOSE_AFTER_STEP => return,
            WalkEnd::FirstPassed => {
                self.walked_from.push(0);
                Some(&self.walked_from[..])
            }
        };
        match self.position {
            Position::Backward => {
                self.end_long_walk(&[&self.key[..], &[0]].concat(), end, passed);
            }
            _ => self.end_long_walk(self.bounds.lower().unwrap_or_default(), end, passed),
        }
    }

    /// Backward: finds the newest visible version of `self.key`, and puts the merge before this
    /// key. Returns whether that version is shown. If it is, `self.value` holds its value.
    #[cold]
    fn find_newest(&mut self) -> Result<bool> {
        self.merged.seek(&seek_key(&self.key, self.point.sequence))?;
        let mut found = false;
        if self.merged.valid() && user_key(self.merged.key()) == self.key {
            let internal_key = self.merged.key();
            found = match kind(internal_key) {
                Some(EntryKind::Deletion | EntryKind::SingleDeletion) => false,
                _ if is_deleted(&mut self.aggregator, internal_key) => false,
                Some(_) => true,
                None => return Err(unknown_entry(&self.merged)),
            };
        }
        if found {
            self.value = self.merged.value_slice();
        }
        self.merged.seek_before(&seek_key(&self.key, key::MAX_SEQUENCE))?;
        Ok(found)
    }
}

/// The result of a jump over a mark.
enum Jump {
    /// No mark contains the merge's key.
    None,
    /// The merge has left the mark.
    Done,
    /// The mark has no end, so no entry follows.
    ToTheEnd,
}

/// Whether a range deletion hides the entry.
#[inline]
fn is_deleted(aggregator: &mut Option<Box<RangeDelAggregator>>, internal_key: &[u8]) -> bool {
    let aggregator = aggregator.as_mut();
    aggregator.is_some_and(|aggregator| {
        aggregator.hides(user_key(internal_key), key::sequence(internal_key))
    })
}

#[inline]
fn kind(internal_key: &[u8]) -> Option<EntryKind> {
    EntryKind::of_point(key::kind_byte(internal_key))
}

/// The error of the merge's current entry, which is of a kind that this build does not understand.
#[cold]
fn unknown_entry<C: Cursor>(merged: &C) -> Error {
    let internal_key = merged.key();
    let file = merged.file().unwrap_or(Path::new("the log"));
    unsupported_entry(file, user_key(internal_key), key::kind_byte(internal_key))
}
