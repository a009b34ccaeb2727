//! Walking the database in key order: one lending cursor, and iterators on top of it.
//!
//! ```text
//!   DbIterator      owns its items, from both ends        Iterator + DoubleEndedIterator
//!   DbCursor        lends keys and values                 seek, next, prev
//!   MergingCursor   all versions of all sources, internal keys
//! ```
//!
//! [`DbCursor`] turns internal entries into what the user sees at one sequence number: of each key
//! the newest visible version, and nothing where that is a tombstone.
//!
//! Going forward it stands **on** the entry it shows, in the block. Going backward the versions of
//! a key come oldest first, so the one to show is known only when the key has been passed: the
//! cursor keeps it aside and the merge stands before it.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Inner, View};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key::{self, EntryKind, SequenceNumber, seek_key, user_key};
use crate::memtable::MemtableCursor;
use crate::merge::MergingCursor;
use crate::slice::Slice;
use crate::sync::pin;
use crate::table::ScanOptions;
use crate::version::{LevelCursor, Version};

/// Where entries come from.
#[expect(
    clippy::large_enum_variant,
    reason = "there are few, and a box would cost each step a load"
)]
enum Source {
    Memtable(MemtableCursor),
    Level(LevelCursor),
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
    fn next(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.next())
    }
    fn prev(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.prev())
    }
    fn key(&self) -> &[u8] {
        each_source!(self, cursor => cursor.key())
    }
    fn value(&self) -> &[u8] {
        each_source!(self, cursor => cursor.value())
    }
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
    direction: Direction,
    valid: bool,
    /// Going forward: the user key whose remaining versions are hidden. Going backward: the key
    /// shown.
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
        DbCursor {
            merged: MergingCursor::new(sources(&moment.view, &bounds)),
            moment,
            bounds,
            direction: Direction::Forward,
            valid: false,
            key: Vec::new(),
            value: Slice::empty(),
        }
    }

    /// Whether the cursor stands on an entry.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key of the entry, until the cursor moves. Panics when it stands on none.
    pub fn key(&self) -> &[u8] {
        assert!(self.valid, "the cursor stands on no entry");
        match self.direction {
            Direction::Forward => user_key(self.merged.key()),
            Direction::Backward => &self.key,
        }
    }

    /// The value of the entry, until the cursor moves. Panics when it stands on none.
    pub fn value(&self) -> &[u8] {
        assert!(self.valid, "the cursor stands on no entry");
        match self.direction {
            Direction::Forward => self.merged.value(),
            Direction::Backward => &self.value,
        }
    }

    /// The value of the entry, to keep. Panics when the cursor stands on none.
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
        self.valid = false;
        if self.direction == Direction::Backward {
            // The merge stands before all versions of the key shown: go back to it, then past it.
            let target = seek_key(&self.key, self.moment.sequence);
            self.direction = Direction::Forward;
            self.merged.seek(&target)?;
        } else {
            self.key.clear();
            self.key.extend_from_slice(user_key(self.merged.key()));
            self.merged.next()?;
        }
        self.find_forward(true)
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

    /// From where the merge stands to the first entry to show. `hidden`: versions of `self.key`
    /// are hidden, by a version that was shown or by a tombstone.
    fn find_forward(&mut self, mut hidden: bool) -> Result<()> {
        while self.merged.valid() {
            let internal_key = self.merged.key();
            let key = user_key(internal_key);
            if self.bounds.is_past(key) {
                return Ok(());
            }
            if key::sequence(internal_key) <= self.moment.sequence && !(hidden && key == self.key) {
                match kind(internal_key)? {
                    EntryKind::Value => {
                        self.valid = true;
                        return Ok(());
                    }
                    _ => {
                        hidden = true;
                        self.key.clear();
                        self.key.extend_from_slice(key);
                    }
                }
            }
            self.merged.next()?;
        }
        Ok(())
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
                    EntryKind::Value => {
                        found = true;
                        self.key.clear();
                        self.key.extend_from_slice(key);
                        self.value = self.merged.value_slice();
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

fn kind(internal_key: &[u8]) -> Result<EntryKind> {
    let byte = key::kind_byte(internal_key);
    EntryKind::from_byte(byte).ok_or_else(|| unsupported_kind(byte))
}

/// An entry of a kind that only RocksDB gives a meaning to.
pub(super) fn unsupported_kind(byte: u8) -> Error {
    Error::InvalidArgument(format!(
        "an entry of type {byte}: merge operands, blobs and wide columns are not supported"
    ))
}

fn sources(view: &View, bounds: &Bounds) -> Vec<Source> {
    let options = ScanOptions::default();
    let mut sources = vec![Source::Memtable(view.memtable.cursor())];
    sources.extend(view.frozen.iter().map(|memtable| Source::Memtable(memtable.cursor())));
    let version: &Version = &view.version;
    for level in 0..version.levels.len() {
        let files = version.overlapping(level, bounds.lower(), bounds.upper());
        let files =
            files.filter(|file| file.range_may_match(&bounds.lower, bounds.upper())).cloned();
        if level == 0 {
            sources.extend(files.map(|file| Source::Level(LevelCursor::new(vec![file], options))));
        } else {
            let files: Vec<_> = files.collect();
            if !files.is_empty() {
                sources.push(Source::Level(LevelCursor::new(files, options)));
            }
        }
    }
    sources
}

/// The entries of a database, or of a range of it, from either end, as they were when it was made.
///
/// Keys are copied; values share the block they were found in. After an error it ends.
pub struct DbIterator {
    moment: Moment,
    bounds: Bounds,
    front: End,
    back: End,
    finished: bool,
}

/// One end of an iterator: its cursor, made when first asked, and the last key it gave.
#[derive(Default)]
struct End {
    cursor: Option<DbCursor>,
    last_key: Option<Slice>,
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
        DbIterator { moment, bounds, front: End::default(), back: End::default(), finished: false }
    }

    /// The next entry of an end, if the other end has not given it.
    fn step(&mut self, direction: Direction) -> Result<Option<(Slice, Slice)>> {
        let (end, other) = match direction {
            Direction::Forward => (&mut self.front, &self.back),
            Direction::Backward => (&mut self.back, &self.front),
        };
        let cursor = match &mut end.cursor {
            Some(cursor) => {
                match direction {
                    Direction::Forward => cursor.next()?,
                    Direction::Backward => cursor.prev()?,
                }
                cursor
            }
            None => {
                let cursor =
                    end.cursor.insert(DbCursor::at(self.moment.clone(), self.bounds.clone()));
                match direction {
                    Direction::Forward => cursor.seek_to_first()?,
                    Direction::Backward => cursor.seek_to_last()?,
                }
                cursor
            }
        };
        if !cursor.valid() {
            return Ok(None);
        }
        let met = other.last_key.as_deref().is_some_and(|last| match direction {
            Direction::Forward => cursor.key() >= last,
            Direction::Backward => cursor.key() <= last,
        });
        if met {
            return Ok(None);
        }
        let key = Slice::copy_from(cursor.key());
        end.last_key = Some(key.clone());
        Ok(Some((key, cursor.value_slice())))
    }

    fn step_or_end(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        if self.finished {
            return None;
        }
        let item = self.step(direction).transpose();
        // Whichever end runs out, or into the other, there is nothing between them any more.
        self.finished = !matches!(item, Some(Ok(_)));
        item
    }
}

impl Iterator for DbIterator {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step_or_end(Direction::Forward)
    }
}

impl DoubleEndedIterator for DbIterator {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step_or_end(Direction::Backward)
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
