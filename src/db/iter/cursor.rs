//! [`DbCursor`]: walks the database in key order, and lends what it stands on.
//!
//! ```text
//!   DbCursor        what the user sees                              seek, next, prev
//!   MergingCursor   all versions of all sources, internal keys
//!   Source …        memtables, and levels of tables                 sources.rs
//! ```
//!
//! It turns internal entries into what the user sees at one sequence number: of each key the newest
//! visible version, and nothing where that is a tombstone or a range deletion hides it ([`Cover`]).
//!
//! Going forward it stands **on** the entry it shows, in the block. Going backward the versions of
//! a key come oldest first, so the one to show is known only when the key has been passed: the
//! cursor keeps it aside and the merge stands before it.

use std::sync::Arc;

use super::bounds::Bounds;
use super::range_del::Cover;
use super::sources::{Moment, Source, sources};
use crate::cursor::merging::MergingCursor;
use crate::cursor::{Cursor, next_by_copy};
use crate::db::Inner;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, SequenceNumber, seek_key, user_key};
use crate::error::{Error, Result};
use crate::slice::Slice;

/// A cursor over the entries of a database, or of a range of it, as they were when it was made.
///
/// It stands on an entry or, past either end and after an error, on none. It goes on when the
/// database is closed; one that is made afterwards answers [`Error::Closed`] to every seek.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// # for key in ["ant", "bee", "cat"] { db.put(key, "")?; }
/// let mut cursor = db.cursor();
/// cursor.seek("b")?;
/// while cursor.valid() {
///     println!("{:?} = {:?}", cursor.key(), cursor.value());
///     cursor.next()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DbCursor {
    merged: MergingCursor<Source>,
    moment: Moment,
    bounds: Bounds,
    /// What range deletions hide.
    cover: Option<Box<Cover>>,
    /// Whether there is more to ask of an entry than what its trailer says.
    checks_keys: bool,
    standing: Standing,
    /// Going backward: the key shown. Otherwise: scratch.
    key: Vec<u8>,
    /// Going backward: the value shown.
    value: Slice,
}

impl std::fmt::Debug for DbCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbCursor")
            .field("valid", &self.valid())
            .field("sequence", &self.moment.sequence)
            .finish_non_exhaustive()
    }
}

/// Where a cursor stands, and which way it went there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Nowhere,
    /// On the entry that the merge stands on.
    Forward,
    /// On an entry kept aside. The merge stands before all versions of its key.
    Backward,
}

impl DbCursor {
    pub(crate) fn new(inner: &Arc<Inner>, sequence: Option<SequenceNumber>) -> DbCursor {
        DbCursor::at(Moment::now(inner, sequence), Bounds::default())
    }

    pub(crate) fn at(moment: Moment, bounds: Bounds) -> DbCursor {
        let cover = Cover::new(&moment.view, moment.sequence);
        DbCursor {
            merged: MergingCursor::new(sources(&moment, &bounds)),
            checks_keys: bounds.upper().is_some() || cover.is_some(),
            cover,
            moment,
            bounds,
            standing: Standing::Nowhere,
            key: Vec::new(),
            value: Slice::empty(),
        }
    }

    /// Whether the cursor stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.standing != Standing::Nowhere
    }

    /// The key of the entry, until the cursor moves. Panics when it stands on none.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.standing {
            Standing::Forward => user_key(self.merged.key()),
            Standing::Backward => &self.key,
            Standing::Nowhere => on_no_entry(),
        }
    }

    /// The value of the entry, until the cursor moves. Panics when it stands on none.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.standing {
            Standing::Forward => self.merged.value(),
            Standing::Backward => &self.value,
            Standing::Nowhere => on_no_entry(),
        }
    }

    /// The value of the entry, to keep. Panics when the cursor stands on none.
    #[inline]
    pub fn value_slice(&self) -> Slice {
        match self.standing {
            Standing::Forward => self.merged.value_slice(),
            Standing::Backward => self.value.clone(),
            Standing::Nowhere => on_no_entry(),
        }
    }

    /// To the first entry.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek([])
    }

    /// To the last entry.
    pub fn seek_to_last(&mut self) -> Result<()> {
        match self.bounds.upper().map(<[u8]>::to_vec) {
            Some(upper) => self.seek_before(&upper),
            None => {
                self.standing = Standing::Nowhere;
                self.moment.check_open()?;
                self.merged.seek_to_last()?;
                self.find_backward()
            }
        }
    }

    /// To the first entry whose key is at or after `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.moment.check_open()?;
        let mut key = key.as_ref();
        if self.bounds.is_before(key) {
            key = self.bounds.lower().unwrap_or_default();
        }
        self.standing = Standing::Nowhere;
        self.key.clear();
        self.key.reserve(key.len() + key::TRAILER_BYTES);
        key::put_internal_key(&mut self.key, key, key::pack(self.moment.sequence, key::SEEK_KIND));
        self.merged.seek(&self.key)?;
        self.find_forward(false)
    }

    /// To the last entry whose key is at or before `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        match self.bounds.is_past(key) {
            true => self.seek_to_last(),
            // All versions of `key` itself stand before the key right after it.
            false => self.seek_before(&[key, &[0]].concat()),
        }
    }

    /// To the last entry whose key is before `key`, which is not past the upper bound.
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.standing = Standing::Nowhere;
        self.moment.check_open()?;
        self.merged.seek_before(&key::internal_key(key, key::MAX_SEQUENCE, key::SEEK_KIND))?;
        self.find_backward()
    }

    /// To the next entry. Panics when the cursor stands on none.
    #[expect(clippy::should_implement_trait, reason = "a lending cursor is no Iterator")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if self.standing != Standing::Forward {
            return self.turn_forward();
        }
        let Some(step) = self.merged.step() else { return self.next_of_any_form() };
        // Nearly every entry is the only version of its key, and a value.
        if step.repeats || !self.is_shown(step.trailer) || self.checks_keys {
            return self.find_forward(step.repeats);
        }
        Ok(())
    }

    /// Whether this is the trailer of a value that the cursor may see.
    #[inline(always)]
    fn is_shown(&self, trailer: u64) -> bool {
        trailer >> 8 <= self.moment.sequence && trailer as u8 == EntryKind::Value as u8
    }

    #[inline(never)]
    fn next_of_any_form(&mut self) -> Result<()> {
        self.standing = Standing::Nowhere;
        let hidden = next_by_copy(&mut self.merged, &mut self.key)?;
        self.find_forward(hidden)
    }

    /// The next entry of a cursor that went backward: the merge stands before all versions of the
    /// key shown, and goes back to it.
    #[cold]
    fn turn_forward(&mut self) -> Result<()> {
        assert!(self.valid(), "{ON_NO_ENTRY}");
        self.standing = Standing::Nowhere;
        self.merged.seek(&seek_key(&self.key, self.moment.sequence))?;
        self.find_forward(true)
    }

    /// To the entry before. Panics when the cursor stands on none.
    pub fn prev(&mut self) -> Result<()> {
        match self.standing {
            Standing::Forward => {
                let key = self.key().to_vec();
                self.seek_before(&key)
            }
            Standing::Backward => self.find_backward(),
            Standing::Nowhere => on_no_entry(),
        }
    }

    /// From where the merge stands to the first entry to show. `hidden`: a version that was shown,
    /// or a tombstone, hides this entry and those of the same user key that follow it.
    #[inline(never)]
    fn find_forward(&mut self, mut hidden: bool) -> Result<()> {
        self.standing = Standing::Nowhere;
        while self.merged.valid() {
            let internal_key = self.merged.key();
            if self.bounds.is_past(user_key(internal_key)) {
                return Ok(());
            }
            if !hidden && key::sequence(internal_key) <= self.moment.sequence {
                if kind(internal_key)? == EntryKind::Value {
                    if !is_deleted(&mut self.cover, internal_key) {
                        self.standing = Standing::Forward;
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

    /// After a range deletion hid an entry: whether the merge was moved, as files that hold nothing
    /// newer left out the rest of what it hides.
    #[cold]
    fn skip_deleted(&mut self, skip: Skip) -> Result<bool> {
        let Some(cover) = &mut self.cover else { return Ok(false) };
        let Some((begin, end, deleted_at)) = cover.stretch_to_skip() else { return Ok(false) };
        let user_key = match skip {
            Skip::Forward => end,
            Skip::Backward => begin,
        };
        let target = key::internal_key(user_key, key::MAX_SEQUENCE, key::SEEK_KIND);
        self.merged.skip(&target, |source| source.is_older_than(deleted_at))?;
        Ok(true)
    }

    /// From where the merge stands, backward, to the last entry to show.
    fn find_backward(&mut self) -> Result<()> {
        self.standing = Standing::Nowhere;
        // Whether `key` and `value` hold the newest visible version met of a key that has one.
        let mut found = false;
        while self.merged.valid() {
            let internal_key = self.merged.key();
            let key = user_key(internal_key);
            if found && key != self.key {
                break;
            }
            if self.bounds.is_before(key) {
                break;
            }
            if key::sequence(internal_key) <= self.moment.sequence {
                match kind(internal_key)? {
                    EntryKind::Value if !is_deleted(&mut self.cover, internal_key) => {
                        found = true;
                        self.key.clear();
                        self.key.extend_from_slice(key);
                        self.value = self.merged.value_slice();
                    }
                    EntryKind::Value => {
                        found = false;
                        if self.skip_deleted(Skip::Backward)? {
                            continue;
                        }
                    }
                    _ => found = false,
                }
            }
            self.merged.prev()?;
        }
        if found {
            self.standing = Standing::Backward;
        }
        Ok(())
    }
}

/// Which end of a deleted stretch to leap to.
#[derive(Debug, Clone, Copy)]
enum Skip {
    Forward,
    Backward,
}

/// Whether a range deletion hides the entry.
#[inline]
fn is_deleted(cover: &mut Option<Box<Cover>>, internal_key: &[u8]) -> bool {
    let cover = cover.as_mut();
    cover.is_some_and(|cover| cover.hides(user_key(internal_key), key::sequence(internal_key)))
}

const ON_NO_ENTRY: &str = "the cursor stands on no entry";

#[cold]
fn on_no_entry() -> ! {
    panic!("{ON_NO_ENTRY}")
}

#[inline]
fn kind(internal_key: &[u8]) -> Result<EntryKind> {
    let byte = key::kind_byte(internal_key);
    EntryKind::from_byte(byte).ok_or_else(|| unsupported_kind(byte))
}

/// An entry of a kind that only RocksDB gives a meaning to.
#[cold]
pub(crate) fn unsupported_kind(byte: u8) -> Error {
    Error::InvalidArgument(format!(
        "an entry of type {byte}: merge operands, blobs and wide columns are not supported"
    ))
}
