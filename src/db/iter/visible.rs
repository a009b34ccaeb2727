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
//! one key, the cursor seeks: forward past those that are hidden, or to the newest visible one;
//! backward to the newest visible one, and then before the key.

use super::cursor::{DbCursor, Position};
use super::range_del::RangeDelAggregator;
use crate::cursor::{Cursor, next_by_copy};
use crate::encoding::key;
use crate::encoding::key::{EntryKind, seek_key, user_key};
use crate::error::{Error, Result};

/// Versions of one key that are passed one by one. A seek past the others costs about as much.
const SEEK_AFTER: u32 = 8;

impl DbCursor {
    /// Moves forward from the merge's entry to the first one to show. `hidden`: a newer version was
    /// shown or is a tombstone, so this entry and the next ones of its user key are not shown.
    #[inline(never)]
    pub(super) fn find_forward(&mut self, mut hidden: bool) -> Result<()> {
        self.position = Position::NoEntry;
        // Entries of the current key that were passed.
        let mut versions = 0;
        while self.merged.valid() {
            let internal_key = self.merged.key();
            if self.bounds.is_past(user_key(internal_key)) {
                return Ok(());
            }
            if !hidden && key::sequence(internal_key) <= self.point.sequence {
                if kind(internal_key)? == EntryKind::Value {
                    if !is_deleted(&mut self.aggregator, internal_key) {
                        self.position = Position::Forward;
                        return Ok(());
                    }
                    if self.skip_deleted(Skip::Forward)? {
                        continue;
                    }
                }
                hidden = true;
            }
            self.skipped += 1;
            versions += 1;
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
                (hidden, versions) = (false, 0);
            }
        }
        Ok(())
    }

    /// Forward: moves the merge over the versions of its key that are `hidden`, or else over those
    /// that are too new.
    #[cold]
    fn skip_versions(&mut self, hidden: bool) -> Result<()> {
        let key = user_key(self.merged.key());
        let target = match hidden {
            true => seek_key(&[key, &[0]].concat(), key::MAX_SEQUENCE),
            false => seek_key(key, self.point.sequence),
        };
        self.merged.skip(&target, |_| true)
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
        // Entries met so far of the current key, which `key` holds; whether the newest visible one
        // of them is shown, which `value` holds then.
        let (mut versions, mut found) = (0, false);
        while self.merged.valid() {
            let internal_key = self.merged.key();
            let key = user_key(internal_key);
            if versions == 0 || key != self.key {
                if found || self.bounds.is_before(key) {
                    break;
                }
                self.skipped += versions;
                versions = 0;
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            versions += 1;
            if versions > SEEK_AFTER.into() {
                found = self.find_newest()?;
                continue;
            }
            if key::sequence(internal_key) <= self.point.sequence {
                let is_value = kind(internal_key)? == EntryKind::Value;
                found = is_value && !is_deleted(&mut self.aggregator, internal_key);
                if found {
                    self.value = self.merged.value_slice();
                } else if is_value && self.skip_deleted(Skip::Backward)? {
                    continue;
                }
            }
            self.merged.prev()?;
        }
        self.skipped += versions - u64::from(found);
        if found {
            self.position = Position::Backward;
        }
        Ok(())
    }

    /// Backward: finds the newest visible version of `key`, and puts the merge before the key.
    /// Whether that version is shown; `value` holds it then.
    #[cold]
    fn find_newest(&mut self) -> Result<bool> {
        self.merged.seek(&seek_key(&self.key, self.point.sequence))?;
        let mut found = false;
        if self.merged.valid() {
            let internal_key = self.merged.key();
            found = user_key(internal_key) == self.key
                && kind(internal_key)? == EntryKind::Value
                && !is_deleted(&mut self.aggregator, internal_key);
        }
        if found {
            self.value = self.merged.value_slice();
        }
        self.merged.seek_before(&seek_key(&self.key, key::MAX_SEQUENCE))?;
        Ok(found)
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
fn kind(internal_key: &[u8]) -> Result<EntryKind> {
    let byte = key::kind_byte(internal_key);
    EntryKind::from_byte(byte).ok_or_else(|| unsupported_kind(byte))
}

/// The error of an entry whose kind only RocksDB knows.
#[cold]
pub(crate) fn unsupported_kind(byte: u8) -> Error {
    Error::InvalidArgument(format!(
        "an entry of type {byte}: merge operands, blobs and wide columns are not supported"
    ))
}
