//! Walking the database in key order: one lending cursor, and iterators on top of it.
//!
//! ```text
//!   DbIterator      owns its items, from both ends        Iterator + DoubleEndedIterator
//!   DbCursor        lends keys and values                 seek, next, prev
//!   MergingCursor   all versions of all sources, internal keys
//! ```
//!
//! [`DbCursor`] turns internal entries into what the user sees at one sequence number: of each key
//! the newest visible version, and nothing where that is a tombstone or a range deletion hides it
//! ([`Cover`]).
//!
//! Going forward it stands **on** the entry it shows, in the block. Going backward the versions of
//! a key come oldest first, so the one to show is known only when the key has been passed: the
//! cursor keeps it aside and the merge stands before it.

use std::ops::{Bound, Deref, Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cover::Cover;
use super::{Inner, View};
use crate::cursor::{Cursor, Step, next_by_copy};
use crate::error::{Error, Result};
use crate::key::{self, EntryKind, SequenceNumber, seek_key, user_key};
use crate::memtable::MemtableCursor;
use crate::merge::MergingCursor;
use crate::slice::{Slice, SlicePacker};
use crate::sync::pin;
use crate::table::ScanOptions;
use crate::version::{LevelCursor, TableFile, Version};

/// The most that a scan reads at once.
const READ_AHEAD_BYTES: usize = 256 << 10;

/// Where entries come from.
#[expect(
    clippy::large_enum_variant,
    reason = "there are few, and a box would cost each step a load"
)]
enum Source {
    Memtable(MemtableCursor),
    Level(LevelCursor<LevelFiles>),
}

/// Files of a level that follow each other. Holding the version is one count, not one a file.
struct LevelFiles {
    version: Arc<Version>,
    level: usize,
    range: Range<usize>,
}

impl Deref for LevelFiles {
    type Target = [Arc<TableFile>];

    fn deref(&self) -> &[Arc<TableFile>] {
        &self.version.levels[self.level][self.range.clone()]
    }
}

impl Source {
    /// Whether all entries have smaller sequence numbers. A memtable may always have larger ones.
    fn is_older_than(&self, sequence: SequenceNumber) -> bool {
        match self {
            Source::Memtable(_) => false,
            Source::Level(cursor) => cursor.newest_sequence() < sequence,
        }
    }
}

macro_rules! each_source {
    ($self:ident, $cursor:ident => $body:expr) => {
        match $self {
            Source::Memtable($cursor) => $body,
            Source::Level($cursor) => $body,
        }
    };
}

impl Cursor for Source {
    #[inline]
    fn valid(&self) -> bool {
        each_source!(self, cursor => cursor.valid())
    }
    fn seek_to_first(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.seek_to_first())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.seek_to_last())
    }
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        each_source!(self, cursor => cursor.seek(target))
    }
    fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        each_source!(self, cursor => cursor.seek_before(target))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.next())
    }
    #[inline(always)]
    fn step(&mut self) -> Option<Step> {
        each_source!(self, cursor => cursor.step())
    }
    fn prev(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.prev())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each_source!(self, cursor => cursor.key())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each_source!(self, cursor => cursor.value())
    }
    #[inline]
    fn value_slice(&self) -> Slice {
        each_source!(self, cursor => cursor.value_slice())
    }
}

/// The user keys from `lower` (inclusive) to `upper` (exclusive; `None` = to the end).
#[derive(Debug, Clone, Default)]
pub(super) struct Bounds {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl Bounds {
    pub fn of<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> Bounds {
        // The key right after `key` is `key` with a zero byte appended.
        let after = |key: &K| [key.as_ref(), &[0]].concat();
        Bounds {
            lower: match range.start_bound() {
                Bound::Included(key) => key.as_ref().to_vec(),
                Bound::Excluded(key) => after(key),
                Bound::Unbounded => Vec::new(),
            },
            upper: match range.end_bound() {
                Bound::Included(key) => Some(after(key)),
                Bound::Excluded(key) => Some(key.as_ref().to_vec()),
                Bound::Unbounded => None,
            },
        }
    }

    fn of_prefix(prefix: &[u8]) -> Bounds {
        // The first key after all that start with the prefix: the prefix without its trailing
        // 0xff bytes, its last byte one up. There is none when all bytes are 0xff.
        let upper = prefix.iter().rposition(|&byte| byte != 0xff).map(|last| {
            let mut upper = prefix[..=last].to_vec();
            upper[last] += 1;
            upper
        });
        Bounds { lower: prefix.to_vec(), upper }
    }

    pub fn lower(&self) -> Option<&[u8]> {
        Some(&self.lower)
    }

    pub fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    #[inline]
    fn is_past(&self, key: &[u8]) -> bool {
        self.upper.as_deref().is_some_and(|upper| key >= upper)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// What somebody who walks sees: a view, and the last write in it that counts.
#[derive(Clone)]
struct Moment {
    view: Arc<View>,
    sequence: SequenceNumber,
}

impl Moment {
    fn now(inner: &Inner, sequence: Option<SequenceNumber>) -> Moment {
        let view = inner.view.load_arc(&pin());
        // After the view: what this number counts is in the view, or was written later.
        let sequence = sequence.unwrap_or_else(|| inner.visible.load(Ordering::Acquire));
        Moment { view, sequence }
    }
}

/// A cursor over the entries of a database, or of a range of it, as they were when it was made.
///
/// It stands on an entry or, past either end and after an error, on none.
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
    direction: Direction,
    valid: bool,
    /// Going backward: the key shown. Going forward: scratch.
    key: Vec<u8>,
    /// Going backward: the value shown.
    value: Slice,
}

impl std::fmt::Debug for DbCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbCursor")
            .field("valid", &self.valid)
            .field("sequence", &self.moment.sequence)
            .finish_non_exhaustive()
    }
}

impl DbCursor {
    pub(super) fn new(inner: &Arc<Inner>, sequence: Option<SequenceNumber>) -> DbCursor {
        DbCursor::at(Moment::now(inner, sequence), Bounds::default())
    }

    fn at(moment: Moment, bounds: Bounds) -> DbCursor {
        let cover = Cover::new(&moment.view, moment.sequence);
        DbCursor {
            merged: MergingCursor::new(sources(&moment, &bounds)),
            checks_keys: bounds.upper.is_some() || cover.is_some(),
            cover,
            moment,
            bounds,
            direction: Direction::Forward,
            valid: false,
            key: Vec::new(),
            value: Slice::empty(),
        }
    }

    /// Whether the cursor stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key of the entry, until the cursor moves. Panics when it stands on none.
    #[inline]
    pub fn key(&self) -> &[u8] {
        assert!(self.valid, "the cursor stands on no entry");
        match self.direction {
            Direction::Forward => user_key(self.merged.key()),
            Direction::Backward => &self.key,
        }
    }

    /// The value of the entry, until the cursor moves. Panics when it stands on none.
    #[inline]
    pub fn value(&self) -> &[u8] {
        assert!(self.valid, "the cursor stands on no entry");
        match self.direction {
            Direction::Forward => self.merged.value(),
            Direction::Backward => &self.value,
        }
    }

    /// The value of the entry, to keep. Panics when the cursor stands on none.
    #[inline]
    pub fn value_slice(&self) -> Slice {
        assert!(self.valid, "the cursor stands on no entry");
        match self.direction {
            Direction::Forward => self.merged.value_slice(),
            Direction::Backward => self.value.clone(),
        }
    }

    /// To the first entry.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek([])
    }

    /// To the last entry.
    pub fn seek_to_last(&mut self) -> Result<()> {
        match self.bounds.upper.clone() {
            Some(upper) => self.seek_before(&upper),
            None => {
                self.start(Direction::Backward);
                self.merged.seek_to_last()?;
                self.find_backward()
            }
        }
    }

    /// To the first entry whose key is at or after `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let target = seek_key(key.as_ref().max(&self.bounds.lower), self.moment.sequence);
        self.start(Direction::Forward);
        self.merged.seek(&target)?;
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
        self.start(Direction::Backward);
        self.merged.seek_before(&key::internal_key(key, key::MAX_SEQUENCE, key::SEEK_KIND))?;
        self.find_backward()
    }

    /// To the next entry. Panics when the cursor stands on none.
    #[expect(clippy::should_implement_trait, reason = "a lending cursor is no Iterator")]
    pub fn next(&mut self) -> Result<()> {
        assert!(self.valid, "the cursor stands on no entry");
        if self.direction == Direction::Forward
            && let Some(step) = self.merged.step()
        {
            // Nearly every entry is the only version of its key, and a value.
            if step.repeats || !self.is_shown(step.trailer) || self.checks_keys {
                return self.find_forward(step.repeats);
            }
            return Ok(());
        }
        self.next_of_any_form()
    }

    /// Whether this is the trailer of a value that the cursor may see.
    #[inline]
    fn is_shown(&self, trailer: u64) -> bool {
        trailer >> 8 <= self.moment.sequence && trailer as u8 == EntryKind::Value as u8
    }

    #[inline(never)]
    fn next_of_any_form(&mut self) -> Result<()> {
        self.valid = false;
        let hidden = match self.direction {
            Direction::Forward => next_by_copy(&mut self.merged, &mut self.key)?,
            Direction::Backward => {
                // The merge stands before all versions of the key shown: go back to it.
                let target = seek_key(&self.key, self.moment.sequence);
                self.direction = Direction::Forward;
                self.merged.seek(&target)?;
                true
            }
        };
        self.find_forward(hidden)
    }

    /// To the entry before. Panics when the cursor stands on none.
    pub fn prev(&mut self) -> Result<()> {
        assert!(self.valid, "the cursor stands on no entry");
        self.valid = false;
        if self.direction == Direction::Forward {
            let key = user_key(self.merged.key()).to_vec();
            return self.seek_before(&key);
        }
        self.find_backward()
    }

    fn start(&mut self, direction: Direction) {
        self.direction = direction;
        self.valid = false;
    }

    /// From where the merge stands to the first entry to show. `hidden`: a version that was shown,
    /// or a tombstone, hides this entry and those of the same user key that follow it.
    #[inline(never)]
    fn find_forward(&mut self, mut hidden: bool) -> Result<()> {
        self.valid = false;
        while self.merged.valid() {
            let internal_key = self.merged.key();
            if self.bounds.is_past(user_key(internal_key)) {
                return Ok(());
            }
            if !hidden && key::sequence(internal_key) <= self.moment.sequence {
                if kind(internal_key)? == EntryKind::Value {
                    if !is_deleted(&mut self.cover, internal_key) {
                        self.valid = true;
                        return Ok(());
                    }
                    if self.skip_deleted(Direction::Forward)? {
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
    fn skip_deleted(&mut self, direction: Direction) -> Result<bool> {
        let Some(cover) = &mut self.cover else { return Ok(false) };
        let Some((begin, end, deleted_at)) = cover.stretch_to_skip() else { return Ok(false) };
        let user_key = match direction {
            Direction::Forward => end,
            Direction::Backward => begin,
        };
        let target = key::internal_key(user_key, key::MAX_SEQUENCE, key::SEEK_KIND);
        self.merged.skip(&target, |source| source.is_older_than(deleted_at))?;
        Ok(true)
    }

    /// From where the merge stands, backward, to the last entry to show.
    fn find_backward(&mut self) -> Result<()> {
        // Whether `key` and `value` hold the newest visible version met of a key that has one.
        let mut found = false;
        while self.merged.valid() {
            let internal_key = self.merged.key();
            let key = user_key(internal_key);
            if found && key != self.key {
                break;
            }
            if key < &self.bounds.lower[..] {
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
                        if self.skip_deleted(Direction::Backward)? {
                            continue;
                        }
                    }
                    _ => found = false,
                }
            }
            self.merged.prev()?;
        }
        self.valid = found;
        Ok(())
    }
}

/// Whether a range deletion hides the entry.
#[inline]
fn is_deleted(cover: &mut Option<Box<Cover>>, internal_key: &[u8]) -> bool {
    let cover = cover.as_mut();
    cover.is_some_and(|cover| cover.hides(user_key(internal_key), key::sequence(internal_key)))
}

#[inline]
fn kind(internal_key: &[u8]) -> Result<EntryKind> {
    let byte = key::kind_byte(internal_key);
    EntryKind::from_byte(byte).ok_or_else(|| unsupported_kind(byte))
}

/// An entry of a kind that only RocksDB gives a meaning to.
#[cold]
pub(super) fn unsupported_kind(byte: u8) -> Error {
    Error::InvalidArgument(format!(
        "an entry of type {byte}: merge operands, blobs and wide columns are not supported"
    ))
}

fn sources(Moment { view, sequence }: &Moment, bounds: &Bounds) -> Vec<Source> {
    let sequence = *sequence;
    let options = ScanOptions { fill_cache: true, read_ahead_bytes: READ_AHEAD_BYTES };
    // A memtable without an entry up to this sequence number stays without one: those that are
    // inserted later have larger ones.
    let memtables = std::iter::once(&view.memtable).chain(&view.frozen);
    let seen = memtables.filter(|memtable| memtable.smallest_sequence() <= sequence);
    let mut sources: Vec<_> = seen.map(|memtable| Source::Memtable(memtable.cursor())).collect();
    let version = &view.version;
    for level in 0..version.levels.len() {
        let files = &version.levels[level];
        let mut add = |range: Range<usize>| {
            if !range.is_empty() {
                let files = LevelFiles { version: Arc::clone(version), level, range };
                sources.push(Source::Level(LevelCursor::new(files, options)));
            }
        };
        let may_match = |i: usize| files[i].range_may_match(&bounds.lower, bounds.upper());
        if level == 0 {
            for (i, file) in files.iter().enumerate() {
                if file.overlaps(bounds.lower(), bounds.upper()) && may_match(i) {
                    add(i..i + 1);
                }
            }
            continue;
        }
        // A filter is asked only where the range lies inside one file.
        let range = version.overlapping_range(level, bounds.lower(), bounds.upper());
        if range.len() != 1 || may_match(range.start) {
            add(range);
        }
    }
    sources
}

/// The entries of a database, or of a range of it, from either end, as they were when it was made.
///
/// Keys are copied, many into one allocation: one that is kept keeps up to 4 KiB. Values share the
/// block they were found in. After an error it ends.
pub struct DbIterator {
    moment: Moment,
    bounds: Bounds,
    /// Each end has a cursor, made when first asked, on the last entry it gave.
    front: Option<DbCursor>,
    back: Option<DbCursor>,
    keys: SlicePacker,
    finished: bool,
}

impl std::fmt::Debug for DbIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbIterator").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl DbIterator {
    pub(super) fn over_range<K: AsRef<[u8]>>(
        inner: &Arc<Inner>,
        sequence: Option<SequenceNumber>,
        range: impl RangeBounds<K>,
    ) -> DbIterator {
        DbIterator::new(inner, sequence, Bounds::of(range))
    }

    pub(super) fn over_prefix(
        inner: &Arc<Inner>,
        sequence: Option<SequenceNumber>,
        prefix: &[u8],
    ) -> DbIterator {
        DbIterator::new(inner, sequence, Bounds::of_prefix(prefix))
    }

    fn new(inner: &Arc<Inner>, sequence: Option<SequenceNumber>, bounds: Bounds) -> DbIterator {
        let moment = Moment::now(inner, sequence);
        let keys = SlicePacker::default();
        DbIterator { moment, bounds, front: None, back: None, keys, finished: false }
    }

    /// Moves an end to its next entry. Whether there is one that the other end has not given.
    #[inline(always)]
    fn advance(&mut self, direction: Direction) -> Result<bool> {
        let (end, other) = match direction {
            Direction::Forward => (&mut self.front, &self.back),
            Direction::Backward => (&mut self.back, &self.front),
        };
        let cursor = match end {
            Some(cursor) => {
                match direction {
                    Direction::Forward => cursor.next()?,
                    Direction::Backward => cursor.prev()?,
                }
                cursor
            }
            None => {
                let cursor = end.insert(DbCursor::at(self.moment.clone(), self.bounds.clone()));
                match direction {
                    Direction::Forward => cursor.seek_to_first()?,
                    Direction::Backward => cursor.seek_to_last()?,
                }
                cursor
            }
        };
        Ok(cursor.valid()
            && other.as_ref().is_none_or(|other| match direction {
                Direction::Forward => cursor.key() < other.key(),
                Direction::Backward => cursor.key() > other.key(),
            }))
    }

    #[inline(always)]
    fn give(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        if self.finished {
            return None;
        }
        let moved = self.advance(direction);
        // Whichever end runs out, or into the other, there is nothing between them any more.
        self.finished = !matches!(moved, Ok(true));
        let end = match direction {
            Direction::Forward => &self.front,
            Direction::Backward => &self.back,
        };
        match (moved, end) {
            (Ok(true), Some(cursor)) => {
                Some(Ok((self.keys.pack(cursor.key()), cursor.value_slice())))
            }
            (Ok(_), _) => None,
            (Err(error), _) => Some(Err(error)),
        }
    }
}

impl Iterator for DbIterator {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.give(Direction::Forward)
    }
}

impl DoubleEndedIterator for DbIterator {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.give(Direction::Backward)
    }
}

impl std::iter::FusedIterator for DbIterator {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_last_byte_below_ff_goes_one_up() {
        let upper = |prefix: &[u8]| Bounds::of_prefix(prefix).upper;
        assert_eq!(upper(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(upper(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(upper(b"\xff"), None);
        assert_eq!(upper(b""), None);
    }

    #[test]
    fn bounds_become_inclusive_below_and_exclusive_above() {
        let bounds = Bounds::of::<&str>((Bound::Excluded("a"), Bound::Included("c")));
        assert_eq!((&bounds.lower[..], bounds.upper.as_deref()), (&b"a\0"[..], Some(&b"c\0"[..])));
        let all = Bounds::of::<&str>(..);
        assert_eq!((all.lower.len(), all.upper), (0, None));
    }
}
