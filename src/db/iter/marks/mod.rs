//! Marks: "nothing is shown from here to here". A cursor that passed many hidden entries leaves a
//! mark, and later cursors jump over them.
//!
//! ```text
//!   a queue:      † † † † † † † † † † a b c d            †: tombstones of what was popped
//!   mark          [──────────────────)                   seek_to_first goes to its end
//!   watch       ( … … … … … … … … … … … … )              no put since the mark, up to here
//!                                       └ the first put since
//! ```
//!
//! | part | what it does |
//! |---|---|
//! | `DbCursor` | jumps over marks; proposes an interval in which it saw nothing |
//! | [`Marks`] | what cursors and the leader of the writers share |
//! | [`Keeper`] | the leader's own: takes proposals in, cuts marks where somebody puts |
//!
//! # The invariant, and its proof
//!
//! A mark of the user keys `[from, end)` at sequence number q says: **no read at r ≥ q sees an
//! entry in `[from, end)`**, as long as the reader finds the mark. It holds by four steps.
//!
//! 1. A walk at s that showed nothing in the interval proves it for r = s. Whether an entry is
//!    visible at s never changes: flush, compaction and later writes keep what s sees, for as long
//!    as somebody reads at s.
//! 2. Between s and r only a *put* inside the interval can add what a read sees. Deletions and
//!    range deletions only hide. An ingested table counts as a put of its whole range of keys.
//! 3. The leader cuts the mark before it publishes such a put (`Keeper::wrote`). The cut list is
//!    stored before `visible`, which is stored with `Release`. A reader loads `visible` with
//!    `Acquire` before it looks at marks. So a reader at or after the put finds the mark cut.
//! 4. A proposal arrives after its walk, and puts after s may already be published. The whole
//!    proposal becomes a mark only if the last sequence number is still s. Otherwise a *watch*
//!    decides: an interval that has received no put since a number t, as the leader knows. If t ≤
//!    s, the intersection of watch and proposal has received no put after s, so 1 and 2 hold for
//!    it. A proposal that no watch covers starts one, for the walks after it.
//!
//! A queue that many threads push to and pop from is never at rest. Its watch reaches from the
//! start to the first push after t, and the next walk extends the mark up to there. Then a new
//! watch of all keys starts.
//!
//! **Readers that come late.** A longer mark has a larger q. A reader at a number just before it
//! would ignore the whole mark and pass everything in it. So a mark keeps up to three *extents*:
//! the newest, and shorter ones of smaller numbers.
//!
//! Absent on purpose: a mark on disk. Marks are hints in memory, and a database opens with none.

mod keeper;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::{Arc, OnceLock, Weak};

pub(crate) use keeper::Keeper;

use crate::db::Inner;
use crate::encoding::key::SequenceNumber;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{ArcCell, Mutex, Retired, lock, pin};

/// The most marks of a database. Each costs every put one or two comparisons.
const MAX_MARKS: usize = 16;

/// Longer keys bound no mark, so that all marks together take little memory.
const MAX_KEY_BYTES: usize = 1 << 10;

/// The most proposals that wait for a leader. Further ones are dropped, because the next walk
/// proposes again.
const MAX_PROPOSALS: usize = 8;

/// The user keys from `from` to before `end`; `None`: to the last key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interval {
    from: Arc<[u8]>,
    end: Option<Arc<[u8]>>,
}

impl Interval {
    fn everything() -> Interval {
        Interval { from: Arc::default(), end: None }
    }

    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.from)
    }

    fn contains(&self, key: &[u8]) -> bool {
        *self.from <= *key && self.ends_after(key)
    }

    fn ends_after(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| *key < **end)
    }

    /// Whether two intervals overlap, or one ends where the other starts.
    fn touches(&self, other: &Interval) -> bool {
        let starts_within =
            |a: &Interval, b: &Interval| b.end.as_ref().is_none_or(|end| a.from <= *end);
        starts_within(self, other) && starts_within(other, self)
    }

    fn meet(&self, other: &Interval) -> Interval {
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.as_ref().or(b.as_ref()),
        };
        Interval { from: Arc::clone((&self.from).max(&other.from)), end: end.cloned() }
    }

    /// The union of two intervals that touch.
    fn join(&self, other: &Interval) -> Interval {
        let end = self.end.as_ref().zip(other.end.as_ref()).map(|(a, b)| Arc::clone(a.max(b)));
        Interval { from: Arc::clone((&self.from).min(&other.from)), end }
    }

    /// The keys before `key`.
    fn before(key: &[u8]) -> Interval {
        Interval { from: Arc::default(), end: Some(key.into()) }
    }

    /// The keys after `key`.
    fn after(key: &[u8]) -> Interval {
        Interval { from: [key, &[0]].concat().into(), end: None }
    }
}

/// "A read at `sequence` saw nothing in `interval`."
#[derive(Debug, Clone)]
pub(crate) struct Proposal {
    interval: Interval,
    sequence: SequenceNumber,
}

impl Proposal {
    /// `None` where the interval is empty, or where its bounds are too long.
    pub fn new(from: &[u8], end: Option<&[u8]>, sequence: SequenceNumber) -> Option<Proposal> {
        let longest = from.len().max(end.map_or(0, <[u8]>::len));
        if longest > MAX_KEY_BYTES || end.is_some_and(|end| end <= from) {
            return None;
        }
        let interval = Interval { from: from.into(), end: end.map(Arc::from) };
        Some(Proposal { interval, sequence })
    }
}

/// An interval in which no read at `sequence` or later sees anything.
#[derive(Debug, Clone)]
struct Extent {
    interval: Interval,
    sequence: SequenceNumber,
}

/// What readers see of a mark.
#[derive(Debug, Clone)]
struct Mark {
    /// The newest first. Each lies within the one before, and has a smaller number. Never empty.
    extents: Vec<Extent>,
    /// Whether a reader has jumped over it recently.
    used: Arc<AtomicBool>,
}

impl Mark {
    /// The largest interval that holds for a read at `sequence`.
    fn at(&self, sequence: SequenceNumber) -> Option<&Interval> {
        self.extents.iter().find(|extent| extent.sequence <= sequence).map(|it| &it.interval)
    }

    fn newest(&self) -> &Extent {
        &self.extents[0]
    }
}

impl Retired for Vec<Mark> {}

/// The marks of a database, as cursors and the leader of the writers share them.
pub(crate) struct Marks {
    /// Whether there are any.
    is_active: AtomicBool,
    list: ArcCell<Vec<Mark>>,
    /// Whether a leader should look at `proposals`.
    has_proposals: AtomicBool,
    proposals: Mutex<Vec<Proposal>>,
    /// The smallest sequence number of a memtable that should be flushed, since most of it is
    /// hidden; 0: none.
    flush_wanted: AtomicU64,
    /// The database, through which a cursor reaches the lock of the writers.
    owner: OnceLock<Weak<Inner>>,
}

impl Marks {
    pub fn new() -> Marks {
        Marks {
            is_active: AtomicBool::new(false),
            list: ArcCell::new(Arc::default()),
            has_proposals: AtomicBool::new(false),
            proposals: Mutex::new(Vec::new()),
            flush_wanted: AtomicU64::new(0),
            owner: OnceLock::new(),
        }
    }

    /// To be called once, before the first read.
    pub fn belong_to(&self, owner: Weak<Inner>) {
        let _ = self.owner.set(owner);
    }

    /// Whether there are any marks. A read must know its sequence number before it calls this or
    /// any of the following.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// The mark that `key` lies in, for a read at `sequence`.
    pub fn around(&self, key: &[u8], sequence: SequenceNumber) -> Option<Interval> {
        self.find(sequence, |interval| interval.contains(key))
    }

    /// The mark that the last keys before `bound` lie in (`None`: the last of all keys).
    fn around_last(&self, bound: Option<&[u8]>, sequence: SequenceNumber) -> Option<Interval> {
        self.find(sequence, |interval| match bound {
            None => interval.end.is_none(),
            Some(bound) => {
                *interval.from < *bound && interval.end.as_ref().is_none_or(|end| *bound <= **end)
            }
        })
    }

    /// The key to which a seek to `key` may go instead. `None`: to `key` itself; `Some(None)`:
    /// there is nothing at or after `key`.
    pub fn forward(&self, key: &[u8], sequence: SequenceNumber) -> Option<Option<Arc<[u8]>>> {
        let mut end = self.around(key, sequence)?.end;
        while let Some(key) = &end
            && let Some(next) = self.around(key, sequence)
        {
            end = next.end;
        }
        Some(end)
    }

    /// The key before which a seek to the last entry before `bound` may look instead.
    pub fn backward(&self, bound: Option<&[u8]>, sequence: SequenceNumber) -> Option<Arc<[u8]>> {
        let mut from = self.around_last(bound, sequence)?.from;
        while let Some(next) = self.around_last(Some(&from), sequence) {
            from = next.from;
        }
        Some(from)
    }

    fn find(
        &self,
        sequence: SequenceNumber,
        is_wanted: impl Fn(&Interval) -> bool,
    ) -> Option<Interval> {
        let guard = pin();
        self.list.load(&guard).iter().find_map(|mark| {
            let interval = mark.at(sequence).filter(|interval| is_wanted(interval))?;
            // An unconditional store by each reader would take the cache line from the others.
            if !mark.used.load(Ordering::Relaxed) {
                mark.used.store(true, Ordering::Relaxed);
            }
            Some(interval.clone())
        })
    }

    /// Submits a proposal, which is taken in at once if no writer leads, else by the next leader.
    pub fn propose(&self, proposal: Proposal) {
        let mut proposals = lock(&self.proposals);
        if proposals.len() < MAX_PROPOSALS {
            proposals.push(proposal);
        }
        self.has_proposals.store(true, Ordering::Relaxed);
        drop(proposals);
        if let Some(owner) = self.owner.get().and_then(Weak::upgrade) {
            owner.try_take_in_marks();
        }
    }

    /// Requests that the next writer freezes the memtable with this smallest sequence number.
    pub fn ask_for_flush(&self, memtable: SequenceNumber) {
        self.flush_wanted.store(memtable, Ordering::Relaxed);
    }

    /// Takes the memtable that should be flushed; 0: none.
    pub fn take_flush_wanted(&self) -> SequenceNumber {
        match self.flush_wanted.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.flush_wanted.swap(0, Ordering::Relaxed),
        }
    }

    /// Requests a compaction of the tables of a range.
    pub fn ask_for_cleanup(&self, from: &[u8], end: Option<&[u8]>) {
        if let Some(owner) = self.owner.get().and_then(Weak::upgrade) {
            owner.request_cleanup(from, end);
        }
    }

    /// Whether the leader should take proposals in, or flush. May be late.
    #[inline]
    pub fn has_proposals(&self) -> bool {
        self.has_proposals.load(Ordering::Relaxed)
    }

    fn take_proposals(&self) -> Vec<Proposal> {
        let mut proposals = lock(&self.proposals);
        // Only a writer flushes, so a cursor that takes proposals in leaves the flush to it.
        let wants_flush = self.flush_wanted.load(Ordering::Relaxed) != 0;
        self.has_proposals.store(wants_flush, Ordering::Relaxed);
        std::mem::take(&mut proposals)
    }
}
