//! [`DbIterator`]: an iterator with items of its own, from both ends. It is two cursors.

pub(crate) mod bounds;
pub(crate) mod cursor;
pub(crate) mod range_del;
pub(crate) mod sources;

use std::ops::RangeBounds;
use std::sync::Arc;

use self::bounds::Bounds;
use self::cursor::DbCursor;
use self::sources::Moment;
use super::Inner;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::slice::{Slice, SlicePacker};

/// The entries of a database, or of a range of it, from either end, as they were when it was made.
///
/// Keys are copied, many into one allocation: one that is kept keeps up to 4 KiB. Values share the
/// block they were found in. After an error it ends. It goes on when the database is closed; the
/// only item of one that is made afterwards is [`Error::Closed`](crate::Error::Closed).
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
    pub(crate) fn over_range<K: AsRef<[u8]>>(
        inner: &Arc<Inner>,
        sequence: Option<SequenceNumber>,
        range: impl RangeBounds<K>,
    ) -> DbIterator {
        DbIterator::new(inner, sequence, Bounds::of(range))
    }

    pub(crate) fn over_prefix(
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

    /// The next entry of the front.
    #[inline(always)]
    fn next_entry(&mut self) -> Result<Option<(Slice, Slice)>> {
        let front = match &mut self.front {
            Some(front) => {
                front.next()?;
                front
            }
            None => {
                let front = self.front.insert(start(&self.moment, &self.bounds));
                front.seek_to_first()?;
                front
            }
        };
        if !front.valid() || self.back.as_ref().is_some_and(|back| front.key() >= back.key()) {
            return Ok(None);
        }
        Ok(Some((self.keys.pack(front.key()), front.value_slice())))
    }

    /// The next entry of the back.
    fn next_back_entry(&mut self) -> Result<Option<(Slice, Slice)>> {
        let back = match &mut self.back {
            Some(back) => {
                back.prev()?;
                back
            }
            None => {
                let back = self.back.insert(start(&self.moment, &self.bounds));
                back.seek_to_last()?;
                back
            }
        };
        if !back.valid() || self.front.as_ref().is_some_and(|front| back.key() <= front.key()) {
            return Ok(None);
        }
        Ok(Some((self.keys.pack(back.key()), back.value_slice())))
    }

    /// Whichever end runs out, or into the other, there is nothing between them any more.
    #[cold]
    fn finish(&mut self, last: Result<Option<(Slice, Slice)>>) -> Option<Result<(Slice, Slice)>> {
        self.finished = true;
        last.transpose()
    }
}

#[cold]
fn start(moment: &Moment, bounds: &Bounds) -> DbCursor {
    DbCursor::at(moment.clone(), bounds.clone())
}

impl Iterator for DbIterator {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        match self.next_entry() {
            Ok(Some(entry)) => Some(Ok(entry)),
            last => self.finish(last),
        }
    }
}

impl DoubleEndedIterator for DbIterator {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        match self.next_back_entry() {
            Ok(Some(entry)) => Some(Ok(entry)),
            last => self.finish(last),
        }
    }
}

impl std::iter::FusedIterator for DbIterator {}
