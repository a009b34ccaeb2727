//! Which entry a cursor shows: the newest visible version of a key, if that is a value which no
//! range deletion hides.
//!
//! ```text
//!   cursor at 7, forward ──►      bee@9  bee@6  bee@2   cat@5 tombstone   cat@3   dog@1
//!                                 not    shown  older   hides ──────────► older   shown
//!                                 visible
//! ```

use std::path::Path;

use super::cursor::{DbCursor, Position};
use super::range_del::RangeDelAggregator;
use crate::cursor::{Cursor, next_by_copy};
use crate::encoding::key;
use crate::encoding::key::{EntryKind, user_key};
use crate::error::{Error, Result};
use crate::table::unsupported_entry;

impl DbCursor {
    /// Moves forward from the merge's entry to the first one to show. `hidden`: a newer version was
    /// shown or is a tombstone, so this entry and the next ones of its user key are not shown.
    #[inline(never)]
    pub(super) fn find_forward(&mut self, mut hidden: bool) -> Result<()> {
        self.position = Position::NoEntry;
        while self.merged.valid() {
            let internal_key = self.merged.key();
            if self.bounds.is_past(user_key(internal_key)) {
                return Ok(());
            }
            if !hidden && key::sequence(internal_key) <= self.point.sequence {
                let kind = kind(internal_key);
                if !matches!(kind, Some(EntryKind::Deletion | EntryKind::SingleDeletion)) {
                    if !is_deleted(&mut self.aggregator, internal_key) {
                        if kind.is_none() {
                            return Err(unknown_entry(&self.merged));
                        }
                        self.position = Position::Forward;
                        return Ok(());
                    }
                    if self.skip_deleted(Skip::Forward)? {
                        continue;
                    }
                }
                hidden = true;
            }
            hidden &= match self.merged.step() {
                Some(step) => step.repeats,
                None => next_by_copy(&mut self.merged, &mut self.key)?,
            };
        }
        Ok(())
    }

    /// After a range deletion hid an entry: moves the sources that are older than it to the end of
    /// what it hides. Whether it did so.
    #[cold]
    fn skip_deleted(&mut self, skip: Skip) -> Result<bool> {
        let Some(aggregator) = &mut self.aggregator else { return Ok(false) };
        let Some((start, end, deleted_at)) = aggregator.stretch_to_skip() else {
            return Ok(false);
        };
        let user_key = match skip {
            Skip::Forward => end,
            Skip::Backward => start,
        };
        let target = key::internal_key(user_key, key::MAX_SEQUENCE, key::SEEK_KIND);
        self.merged.skip(&target, |source| source.is_older_than(deleted_at))?;
        Ok(true)
    }

    /// Moves backward from the merge's entry to the first one to show.
    pub(super) fn find_backward(&mut self) -> Result<()> {
        self.position = Position::NoEntry;
        // Whether `key` and `value` hold the newest visible version met so far of the current key.
        let mut found = false;
        // That version, of the key `key`, is not understood. A newer one may still hide it.
        let mut unknown = None;
        while self.merged.valid() {
            let internal_key = self.merged.key();
            let key = user_key(internal_key);
            if (found || unknown.is_some()) && key != self.key {
                break;
            }
            if self.bounds.is_before(key) {
                break;
            }
            if key::sequence(internal_key) <= self.point.sequence {
                unknown = None;
                match kind(internal_key) {
                    Some(EntryKind::Deletion | EntryKind::SingleDeletion) => found = false,
                    _ if is_deleted(&mut self.aggregator, internal_key) => {
                        found = false;
                        if self.skip_deleted(Skip::Backward)? {
                            continue;
                        }
                    }
                    kind => {
                        found = kind.is_some();
                        self.key.clear();
                        self.key.extend_from_slice(key);
                        match found {
                            true => self.value = self.merged.value_slice(),
                            false => unknown = Some(unknown_entry(&self.merged)),
                        }
                    }
                }
            }
            self.merged.prev()?;
        }
        if let Some(error) = unknown {
            return Err(error);
        }
        if found {
            self.position = Position::Backward;
        }
        Ok(())
    }
}

/// Which end of a deleted stretch to skip to.
#[derive(Debug, Clone, Copy)]
enum Skip {
    Forward,
    Backward,
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

/// The error of the entry that the merge stands on, whose kind this build does not understand.
#[cold]
fn unknown_entry<C: Cursor>(merged: &C) -> Error {
    let internal_key = merged.key();
    let file = merged.file().unwrap_or(Path::new("the log"));
    unsupported_entry(file, user_key(internal_key), key::kind_byte(internal_key))
}
