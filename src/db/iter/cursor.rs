//! [`DbCursor`]: walks the database in key order, and lends the current entry.
//!
//! ```text
//!   DbCursor        what the user sees                              seek, next, prev
//!   MergingCursor   all versions of all sources, internal keys
//!   SourceCursor …  memtables, and levels of tables                 sources.rs
//! ```
//!
//! For each key, the cursor shows the newest version up to its own sequence number. It shows no
//! entry for the key if that version is a tombstone, or if a range deletion hides it
//! ([`RangeDelAggregator`]).
//!
//! **Forward**, the versions of a key come newest first, so the cursor stays on the entry that it
//! shows, and lends this entry from its block. **Backward**, they come oldest first, so the cursor
//! must pass all versions of a key to know which one to show. It shows a copy of that version,
//! while the merge (the `MergingCursor`) is already on the entry before the key.
//!
//! **Hidden entries** are those that the cursor does not show. A *walk* is the part of a call that
//! passes hidden entries one by one. A *mark* (`marks/`) is an interval of keys in which nothing is
//! shown, so that later calls need no walk over it. A seek forward to a key in a mark goes to the
//! end of the mark, and a seek backward goes to its start. During a walk the cursor looks for a
//! mark from time to time, and jumps over it.
//!
//! **Counting.** A step adds to a plain counter of the cursor. Each seek, and the drop of the
//! cursor, adds this counter to the tickers of the database.

use super::bounds::Bounds;
use super::range_del::RangeDelAggregator;
use super::sources::{SourceCursor, sources};
use crate::cursor::merging::MergingCursor;
use crate::cursor::{Cursor, next_by_copy};
use crate::db::read_state::ReadPoint;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, seek_key, user_key};
use crate::error::{Error, Result};
use crate::slice::Slice;
use crate::stats::Ticker;

/// A cursor over all entries of a database, as they were when it was made.
///
/// Before the first seek, past either end and after an error, a cursor is on no entry.
///
/// **Memory.** The longer a cursor continues in one direction, the more it reads at once: up to 1
/// MiB of each sorted run of tables, and up to 8 MiB of all runs together (more only if there are
/// more than 512 runs). It keeps that memory until it is dropped. A cursor or iterator with bounds
/// reads no blocks outside them, so if the end is known, [`Db::range`](crate::Db::range) and
/// [`Db::prefix`](crate::Db::prefix) read less.
///
/// A cursor continues to work when the database is closed. A cursor made afterwards returns
/// [`Error::Closed`] from every seek.
///
/// # Errors
///
/// A seek or step fails with [`Error::Corruption`] where a block is damaged, with [`Error::Io`]
/// where a block cannot be read, with [`Error::Unsupported`] where the newest version of a key is
/// of a kind that only RocksDB reads, and with [`Error::Forked`] in a forked child. Then the cursor
/// is on no entry, and may seek elsewhere.
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
    pub(super) merged: MergingCursor<SourceCursor>,
    pub(super) point: ReadPoint,
    pub(super) bounds: Bounds,
    /// Which entries range deletions hide; `None` where there are no range deletions.
    pub(super) aggregator: Option<Box<RangeDelAggregator>>,
    /// Whether the key of an entry must be checked before the entry is shown, because there is an
    /// upper bound or a range deletion.
    checks_keys: bool,
    pub(super) position: Position,
    /// The key shown, if the cursor went backward; otherwise scratch memory.
    pub(super) key: Vec<u8>,
    /// The value shown, if the cursor went backward.
    pub(super) value: Slice,
    /// Steps that no ticker counts yet.
    steps_forward: u64,
    steps_backward: u64,
    /// Entries that were passed without being shown and that no ticker counts yet.
    pub(super) skipped: u64,
    /// The first key of a walk over hidden entries: the lowest key, or the highest if the walk goes
    /// backward.
    pub(super) walked_from: Vec<u8>,
}

impl std::fmt::Debug for DbCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbCursor")
            .field("valid", &self.valid())
            .field("sequence", &self.point.sequence)
            .finish_non_exhaustive()
    }
}

/// Where a cursor is, and in which direction it came there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    NoEntry,
    /// On the current entry of the merge.
    Forward,
    /// On the entry that `key` and `value` are copies of. The merge is before all versions of this
    /// key.
    Backward,
}

/// The upper end of the keys that a walk backward passes.
#[derive(Debug, Clone, Copy)]
pub(super) enum WalkEnd<'a> {
    /// The walk starts with a seek to before this bound; `None`: to the last of all keys.
    Known(Option<&'a [u8]>),
    /// The walk continues from the entry that was shown, so its highest key is that of the first
    /// hidden entry.
    FirstPassed,
}

impl DbCursor {
    pub(crate) fn at(point: ReadPoint, bounds: Bounds) -> DbCursor {
        // In a forked child the cursor gets no sources, because the search for them may load a
        // filter, which takes locks that another thread of the parent may have held at the fork.
        let of_this_process = point.is_of_this_process();
        let aggregator = of_this_process
            .then(|| RangeDelAggregator::new(&point.state, point.sequence))
            .flatten();
        let sources = if of_this_process { sources(&point, &bounds) } else { Vec::new() };
        DbCursor {
            merged: MergingCursor::new(sources),
            checks_keys: bounds.upper().is_some() || aggregator.is_some(),
            aggregator,
            point,
            bounds,
            position: Position::NoEntry,
            key: Vec::new(),
            value: Slice::empty(),
            steps_forward: 0,
            steps_backward: 0,
            skipped: 0,
            walked_from: Vec::new(),
        }
    }

    /// Whether the blocks that this cursor reads from now on enter the block cache. Default: true.
    /// With `false`, a long scan evicts no block that lookups use. Blocks that are in the cache are
    /// used in either case.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("ant", "")?;
    /// let mut cursor = db.cursor().fill_cache(false);
    /// cursor.seek_to_first()?;
    /// assert_eq!(cursor.key(), b"ant");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fill_cache(mut self, fill_cache: bool) -> DbCursor {
        for source in self.merged.sources_mut() {
            source.set_fill_cache(fill_cache);
        }
        self
    }

    /// Whether the cursor is on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.position != Position::NoEntry
    }

    /// The key of the entry, until the cursor moves. Panics if the cursor is on no entry: check
    /// [`DbCursor::valid`] first, or call [`DbCursor::entry`] instead.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.position {
            Position::Forward => user_key(self.merged.key()),
            Position::Backward => &self.key,
            Position::NoEntry => on_no_entry(),
        }
    }

    /// The value of the entry, until the cursor moves. Panics if the cursor is on no entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.position {
            Position::Forward => self.merged.value(),
            Position::Backward => &self.value,
            Position::NoEntry => on_no_entry(),
        }
    }

    /// The value of the entry, to keep. Panics if the cursor is on no entry.
    #[inline]
    pub fn value_slice(&self) -> Slice {
        match self.position {
            Position::Forward => self.merged.value_slice(),
            Position::Backward => self.value.clone(),
            Position::NoEntry => on_no_entry(),
        }
    }

    /// Key and value of the entry, until the cursor moves; `None` if the cursor is on no entry.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// # db.put("ant", "1")?;
    /// let mut cursor = db.cursor();
    /// assert_eq!(cursor.entry(), None);
    /// cursor.seek_to_first()?;
    /// assert_eq!(cursor.entry(), Some((&b"ant"[..], &b"1"[..])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek([])
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.start_seek()?;
        let upper = self.bounds.upper().map(<[u8]>::to_vec);
        self.find_before(upper.as_deref())
    }

    /// Moves to the first entry whose key is at or after `key`.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.start_seek()?;
        let mut key = key.as_ref();
        if self.bounds.is_before(key) {
            key = self.bounds.lower().unwrap_or_default();
        }
        let jump = match self.point.state.marks.is_active() {
            false => None,
            true => self.point.state.marks.forward(key, self.point.sequence),
        };
        if let Some(end) = &jump {
            match end {
                Some(end) if !self.bounds.is_past(end) => key = end,
                _ => return Ok(()),
            }
        }
        self.key.clear();
        self.key.reserve(key.len() + key::TRAILER_BYTES);
        key::put_internal_key(&mut self.key, key, key::pack(self.point.sequence, key::SEEK_KIND));
        self.merged.seek(&self.key)?;
        self.find_forward(false, true)
    }

    /// Moves to the last entry whose key is at or before `key`.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        match self.bounds.is_past(key) {
            true => self.seek_to_last(),
            // The bound is exclusive, so it is the key right after `key`.
            false => self.seek_before(&[key, &[0]].concat()),
        }
    }

    /// Moves to the last entry whose key is before `end`.
    pub(crate) fn seek_before(&mut self, end: &[u8]) -> Result<()> {
        if self.bounds.is_past(end) {
            return self.seek_to_last();
        }
        self.start_seek()?;
        self.find_before(Some(end))
    }

    /// Leaves the cursor on no entry.
    pub(crate) fn leave(&mut self) {
        self.position = Position::NoEntry;
    }

    /// Fails in a forked child, and leaves the cursor on no entry there.
    fn check_process(&mut self) -> Result<()> {
        if self.point.is_of_this_process() {
            return Ok(());
        }
        self.position = Position::NoEntry;
        Err(Error::Forked)
    }

    fn start_seek(&mut self) -> Result<()> {
        self.position = Position::NoEntry;
        self.point.check_open()?;
        self.count_steps();
        self.point.state.counters.add(Ticker::NumberDbSeek, 1);
        Ok(())
    }

    fn count_steps(&mut self) {
        let counters = &self.point.state.counters;
        for (ticker, steps) in [
            (Ticker::NumberDbNext, &mut self.steps_forward),
            (Ticker::NumberDbPrev, &mut self.steps_backward),
            (Ticker::NumberIterSkip, &mut self.skipped),
        ] {
            if *steps > 0 {
                counters.add(ticker, std::mem::take(steps));
            }
        }
    }

    /// Moves to the last entry whose key is before `bound` (`None`: the end of all keys). The
    /// caller makes sure that `bound` is not past the cursor's upper bound.
    fn find_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.position = Position::NoEntry;
        let marks = &self.point.state.marks;
        let jump = match marks.is_active() {
            false => None,
            true => marks.backward(bound, self.point.sequence),
        };
        let bound = jump.as_deref().or(bound);
        match bound {
            Some(bound) => self.merged.seek_before(&seek_key(bound, key::MAX_SEQUENCE))?,
            None => self.merged.seek_to_last()?,
        }
        self.find_backward(WalkEnd::Known(bound))
    }

    /// Moves to the next entry.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`], and [`Error::InvalidArgument`] where the cursor is on no entry.
    #[expect(clippy::should_implement_trait, reason = "a lending cursor is no Iterator")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        self.steps_forward += 1;
        if self.position != Position::Forward || !self.point.is_of_this_process() {
            return self.turn_forward();
        }
        let Some(step) = self.merged.step() else { return self.next_by_copy() };
        // Nearly every entry is the only version of its key, and a value.
        if step.repeats || !self.is_visible(step.trailer) || self.checks_keys {
            return self.find_forward(step.repeats, false);
        }
        Ok(())
    }

    /// Whether this is the trailer (sequence number and kind) of a value that the cursor may see.
    #[inline(always)]
    fn is_visible(&self, trailer: u64) -> bool {
        trailer >> 8 <= self.point.sequence && trailer as u8 == EntryKind::Value as u8
    }

    /// The rare step that reads a block or enters another file. The block of the current entry may
    /// be dropped then, so the key of this entry is copied for the comparison with the next key.
    #[inline(never)]
    fn next_by_copy(&mut self) -> Result<()> {
        self.position = Position::NoEntry;
        let hidden = next_by_copy(&mut self.merged, &mut self.key)?;
        self.find_forward(hidden, false)
    }

    /// The step forward of a cursor that went backward, is on no entry, or is in a forked child. If
    /// it went backward, the merge is before the key shown, and first returns to it by a seek.
    #[cold]
    fn turn_forward(&mut self) -> Result<()> {
        self.check_process()?;
        if !self.valid() {
            self.steps_forward -= 1;
            return Err(cannot_step());
        }
        self.position = Position::NoEntry;
        self.merged.seek(&seek_key(&self.key, self.point.sequence))?;
        self.find_forward(true, false)
    }

    /// Moves to the previous entry. Slower than [`DbCursor::next`], most of all if the last move
    /// went forward.
    ///
    /// # Errors
    ///
    /// Those of [`DbCursor`], and [`Error::InvalidArgument`] where the cursor is on no entry.
    pub fn prev(&mut self) -> Result<()> {
        self.check_process()?;
        match self.position {
            Position::Forward => {
                self.steps_backward += 1;
                let key = self.key().to_vec();
                self.find_before(Some(&key))
            }
            Position::Backward => {
                self.steps_backward += 1;
                self.find_backward(WalkEnd::FirstPassed)
            }
            Position::NoEntry => Err(cannot_step()),
        }
    }
}

impl Drop for DbCursor {
    fn drop(&mut self) {
        if self.point.is_of_this_process() {
            return self.count_steps();
        }
        // In a forked child the merge and the range deletions are leaked, because the drop of their
        // blocks and tables takes locks.
        std::mem::forget(std::mem::replace(&mut self.merged, MergingCursor::new(Vec::new())));
        std::mem::forget(self.aggregator.take());
    }
}

const ON_NO_ENTRY: &str = "the cursor is not on an entry";

#[cold]
pub(crate) fn cannot_step() -> Error {
    Error::InvalidArgument(format!("{ON_NO_ENTRY}: seek before a step"))
}

#[cold]
pub(crate) fn on_no_entry() -> ! {
    panic!("{ON_NO_ENTRY}")
}
