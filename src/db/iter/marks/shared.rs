//! [`Marks`]: the part of the marks that cursors and the leader of the writers share. A *mark* is
//! an interval of keys in which cursors show nothing. Cursors propose marks, and the leader accepts
//! them (see the [module](super)).

use std::sync::{Arc, OnceLock};

use crate::encoding::key::SequenceNumber;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{ArcCell, Mutex, Retired, lock, pin, rank};

/// The maximum number of marks of a database. Each mark costs one or two comparisons of keys at
/// every put.
pub(super) const MAX_MARKS: usize = 16;

/// A bound of a mark has at most this many bytes, so that all marks together take little memory.
pub(super) const MAX_KEY_BYTES: usize = 1 << 10;

/// The maximum number of proposals that wait for a leader. Further proposals are dropped. That does
/// no harm, because the next cursor that walks over the same hidden entries proposes the mark
/// again.
pub(super) const MAX_PROPOSALS: usize = 8;

/// The user keys from `from` to before `end`; `None`: to the last key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(super) from: Arc<[u8]>,
    pub(super) end: Option<Arc<[u8]>>,
}

impl Interval {
    pub(super) fn everything() -> Interval {
        Interval { from: Arc::default(), end: None }
    }

    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.from)
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        *self.from <= *key && self.ends_after(key)
    }

    pub(super) fn ends_after(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| *key < **end)
    }

    /// Whether two intervals overlap, or one ends where the other starts.
    pub(super) fn touches(&self, other: &Interval) -> bool {
        let starts_within =
            |a: &Interval, b: &Interval| b.end.as_ref().is_none_or(|end| a.from <= *end);
        starts_within(self, other) && starts_within(other, self)
    }

    /// The intersection of two intervals; an empty interval if they share no key.
    pub(super) fn meet(&self, other: &Interval) -> Interval {
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.as_ref().or(b.as_ref()),
        };
        Interval { from: Arc::clone((&self.from).max(&other.from)), end: end.cloned() }
    }

    /// The union of two intervals that touch.
    pub(super) fn join(&self, other: &Interval) -> Interval {
        let end = self.end.as_ref().zip(other.end.as_ref()).map(|(a, b)| Arc::clone(a.max(b)));
        Interval { from: Arc::clone((&self.from).min(&other.from)), end }
    }

    /// The keys before `key`.
    pub(super) fn before(key: &[u8]) -> Interval {
        Interval { from: Arc::default(), end: Some(key.into()) }
    }

    /// The keys after `key`.
    pub(super) fn after(key: &[u8]) -> Interval {
        Interval { from: [key, &[0]].concat().into(), end: None }
    }
}

/// What a cursor proposes to the leader of the writers: a read at `sequence` saw nothing in
/// `interval`.
#[derive(Debug, Clone)]
pub(crate) struct Proposal {
    pub(super) interval: Interval,
    pub(super) sequence: SequenceNumber,
}

impl Proposal {
    /// `None` if the interval is empty, or if one of its bounds is too long.
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
pub(super) struct Extent {
    pub(super) interval: Interval,
    pub(super) sequence: SequenceNumber,
}

/// What readers see of a mark.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    /// The newest first. Each extent lies within the previous one, and its sequence number is not
    /// larger than that of the previous one. Never empty.
    pub(super) extents: Vec<Extent>,
    /// Whether a reader has found the mark since the keeper last cleared this flag.
    pub(super) used: Arc<AtomicBool>,
}

impl Mark {
    /// The largest interval that holds for a read at `sequence`.
    pub(super) fn at(&self, sequence: SequenceNumber) -> Option<&Interval> {
        self.extents.iter().find(|extent| extent.sequence <= sequence).map(|it| &it.interval)
    }

    pub(super) fn newest(&self) -> &Extent {
        &self.extents[0]
    }
}

impl Retired for Vec<Mark> {}

/// What cursors request of the database.
pub(crate) trait Owner: Send + Sync {
    /// Takes in what was proposed, if no writer leads.
    fn take_in_marks(&self);

    /// Requests a compaction of the tables of a range, because a walk passed many hidden entries
    /// there.
    fn request_cleanup(&self, from: &[u8], end: Option<&[u8]>);
}

/// The marks of a database, as cursors and the leader of the writers share them.
pub(crate) struct Marks {
    /// Whether there are any marks.
    pub(super) is_active: AtomicBool,
    pub(super) list: ArcCell<Vec<Mark>>,
    /// Whether a leader should look at `proposals` and `flush_wanted`.
    has_proposals: AtomicBool,
    pub(super) proposals: Mutex<Vec<Proposal>, rank::Proposals>,
    /// The memtable that the next leader should freeze, because at least half of its entries are
    /// hidden. It is named by its smallest sequence number; 0: none.
    flush_wanted: AtomicU64,
    /// The database, through which a cursor reaches the lock of the writers.
    owner: OnceLock<Box<dyn Owner>>,
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
    pub fn belong_to(&self, owner: Box<dyn Owner>) {
        let _ = self.owner.set(owner);
    }

    /// Whether there are any marks. A read must know its sequence number before it calls this
    /// method or looks for a mark, because only then is every mark that it finds cut by all puts
    /// that it can see (step 3 of the proof in [`super`]).
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// The mark that `key` lies in, for a read at `sequence`.
    pub fn around(&self, key: &[u8], sequence: SequenceNumber) -> Option<Interval> {
        self.find(sequence, |interval| interval.contains(key))
    }

    /// The mark that contains the keys right before `bound`. With `None`, the mark that contains
    /// the last of all keys.
    fn around_last(&self, bound: Option<&[u8]>, sequence: SequenceNumber) -> Option<Interval> {
        self.find(sequence, |interval| match bound {
            None => interval.end.is_none(),
            Some(bound) => {
                *interval.from < *bound && interval.end.as_ref().is_none_or(|end| *bound <= **end)
            }
        })
    }

    /// The key to which a seek to `key` may jump. `None`: no mark contains `key`. `Some(None)`:
    /// nothing is shown at or after `key`.
    pub fn forward(&self, key: &[u8], sequence: SequenceNumber) -> Option<Option<Arc<[u8]>>> {
        let mut end = self.around(key, sequence)?.end;
        while let Some(key) = &end
            && let Some(next) = self.around(key, sequence)
        {
            end = next.end;
        }
        Some(end)
    }

    /// The bound to which a seek to before `bound` may jump: nothing is shown between the two.
    /// `None`: no mark contains the keys right before `bound`.
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
            // The flag is stored only if it is not set, because each store would take the cache
            // line from the other readers.
            if !mark.used.load(Ordering::Relaxed) {
                mark.used.store(true, Ordering::Relaxed);
            }
            Some(interval.clone())
        })
    }

    /// Submits a proposal, unless too many wait. It is taken in at once if no writer leads, and
    /// otherwise by the current or the next leader.
    pub fn propose(&self, proposal: Proposal) {
        let mut proposals = lock(&self.proposals);
        if proposals.len() < MAX_PROPOSALS {
            proposals.push(proposal);
        }
        self.has_proposals.store(true, Ordering::Relaxed);
        drop(proposals);
        if let Some(owner) = self.owner.get() {
            owner.take_in_marks();
        }
    }

    /// Requests that the next writer freezes the memtable with this smallest sequence number.
    pub fn ask_for_flush(&self, memtable: SequenceNumber) {
        // `take_proposals` clears the flag under this lock if it sees no request.
        let _proposals = lock(&self.proposals);
        self.flush_wanted.store(memtable, Ordering::Relaxed);
        self.has_proposals.store(true, Ordering::Relaxed);
    }

    /// Takes the request for a flush: the smallest sequence number of the memtable; 0: there is no
    /// request.
    pub fn take_flush_wanted(&self) -> SequenceNumber {
        match self.flush_wanted.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.flush_wanted.swap(0, Ordering::Relaxed),
        }
    }

    /// Requests a compaction of the tables of a range.
    pub fn ask_for_cleanup(&self, from: &[u8], end: Option<&[u8]>) {
        if let Some(owner) = self.owner.get() {
            owner.request_cleanup(from, end);
        }
    }

    /// Whether the leader should take in proposals, or freeze a memtable that a cursor named. The
    /// result may be out of date.
    #[inline]
    pub fn has_proposals(&self) -> bool {
        self.has_proposals.load(Ordering::Relaxed)
    }

    pub(super) fn take_proposals(&self) -> Vec<Proposal> {
        let mut proposals = lock(&self.proposals);
        // The flag stays set while a memtable is to be frozen, because only a writer freezes it,
        // and the caller may be a cursor.
        let wants_flush = self.flush_wanted.load(Ordering::Relaxed) != 0;
        self.has_proposals.store(wants_flush, Ordering::Relaxed);
        std::mem::take(&mut proposals)
    }
}
