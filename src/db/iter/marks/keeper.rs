//! [`Keeper`]: the part of the marks that only the leader of the writers uses, under their lock.
//! Only the keeper changes the marks.
//!
//! A *mark* is an interval of keys in which cursors show nothing. Cursors propose marks after walks
//! over hidden entries. A mark has up to three *extents*, each with a sequence number: the newest,
//! and shorter ones for readers with smaller numbers. The *watch* of a mark is an interval in which
//! no key was put lately. It tells which part of a late proposal still holds ([`super`]).
//!
//! ```text
//!   before a group      take_in(proposals, last sequence number)
//!   each put of it      wrote(key, key)
//!   before publishing   publish                  does nothing if no mark has changed
//! ```

use std::sync::Arc;

use super::shared::{Extent, Interval, MAX_KEY_BYTES, MAX_MARKS, Mark, Marks, Proposal};
use crate::encoding::key::SequenceNumber;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::collect;

/// The maximum number of extents of a mark.
const MAX_EXTENTS: usize = 3;

/// Once a growing mark has three extents, the sequence number of the oldest one is at least this
/// much smaller than that of the newest one. So a reader that is less than this number of writes
/// behind the newest extent can use at least the oldest one. It passes one by one only the hidden
/// entries outside the extent that it uses.
const LATE_BY: u64 = 1 << 14;

/// A mark that is cut more often than this in a row, without being used in between, is dropped,
/// because its keys are being filled again.
const MAX_IDLE_CUTS: u32 = 4;

/// Readers use a list of marks that the keeper replaces at each change. After each group of this
/// many replacements, the old lists are freed.
const COLLECT_EVERY: u32 = 64;

/// A mark with its watch.
struct WatchedMark {
    /// The newest extent of the mark lies within `watch`. The mark is empty if only the watch
    /// exists so far.
    mark: Mark,
    /// No key of this interval was put after `since`.
    watch: Interval,
    since: SequenceNumber,
    idle_cuts: u32,
}

/// The leader's state of the marks.
#[derive(Default)]
pub(crate) struct Keeper {
    kept: Vec<WatchedMark>,
    /// Whether the list that readers see is out of date.
    changed: bool,
    /// How many lists were published so far.
    pub(super) published: u32,
}

impl Keeper {
    /// Whether [`Keeper::wrote`] must be called for each put.
    #[inline]
    pub fn is_watching(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Takes in what cursors proposed. `last` is the sequence number of the last write. For each
    /// put up to it, [`Keeper::wrote`] was called if [`Keeper::is_watching`] returned true.
    pub fn take_in(&mut self, marks: &Marks, last: SequenceNumber) {
        for proposal in marks.take_proposals() {
            self.consider(proposal, last);
        }
        self.publish(marks);
    }

    pub(super) fn consider(&mut self, proposal: Proposal, last: SequenceNumber) {
        let Proposal { interval, sequence } = proposal;
        if sequence == last {
            // Nothing was written since the walk.
            let found =
                self.kept.iter().position(|it| it.mark.newest().interval.touches(&interval));
            return self.extend(found, interval, sequence, last);
        }
        let touches = |it: &WatchedMark| it.mark.newest().interval.touches(&interval);
        if let Some(i) = self.kept.iter().position(|it| it.since <= sequence && touches(it)) {
            let sure = self.kept[i].watch.meet(&interval);
            self.extend(Some(i), sure, sequence, last);
        } else if !self.kept.iter().any(touches) {
            // Starts a watch without a mark.
            let nothing = Interval { end: Some(Arc::clone(&interval.from)), from: interval.from };
            self.add(nothing, last, last);
        }
    }

    /// Starts a new watch of all keys, and adds `interval`, in which no read at `sequence` or later
    /// sees anything. If `found` is the index of a mark that touches the interval, that mark grows
    /// by it. If `found` is `None`, the interval becomes a new mark.
    fn extend(
        &mut self,
        found: Option<usize>,
        interval: Interval,
        sequence: SequenceNumber,
        last: SequenceNumber,
    ) {
        let Some(mut i) = found else { return self.add(interval, sequence, last) };
        let kept = &mut self.kept[i];
        (kept.watch, kept.since) = (Interval::everything(), last);
        self.changed |= kept.mark.grow(&interval, sequence);
        // The mark may now touch other marks. These are joined with it.
        let touching = |kept: &[WatchedMark], i: usize| {
            let interval = &kept[i].mark.newest().interval;
            (0..kept.len()).find(|&j| j != i && kept[j].mark.newest().interval.touches(interval))
        };
        while let Some(j) = touching(&self.kept, i) {
            let other = self.kept.remove(j);
            i -= usize::from(j < i);
            let Extent { interval, sequence } = other.mark.newest();
            self.kept[i].mark.grow(interval, *sequence);
            self.changed = true;
        }
    }

    fn add(&mut self, interval: Interval, sequence: SequenceNumber, last: SequenceNumber) {
        if self.kept.len() == MAX_MARKS {
            let is_idle = |it: &WatchedMark| !it.mark.used.load(Ordering::Relaxed);
            let idle = self.kept.iter().position(is_idle).unwrap_or_else(|| {
                // All marks were used, so the oldest is dropped. The flag `used` of every mark is
                // cleared, so that at the next such moment it tells which marks were used since.
                self.kept.iter().for_each(|it| it.mark.used.store(false, Ordering::Relaxed));
                0
            });
            self.kept.remove(idle);
        }
        self.changed = true;
        let used = Arc::new(AtomicBool::new(false));
        let mark = Mark { extents: vec![Extent { interval, sequence }], used };
        self.kept.push(WatchedMark {
            mark,
            watch: Interval::everything(),
            since: last,
            idle_cuts: 0,
        });
    }

    /// Notes that keys from `first` to `last`, both included, are put. Afterwards
    /// [`Keeper::publish`] must be called, and only then may the puts become visible to readers.
    pub fn wrote(&mut self, first: &[u8], last: &[u8]) {
        let mut i = 0;
        while let Some(kept) = self.kept.get_mut(i) {
            let Interval { from, end } = &kept.mark.newest().interval;
            if !kept.watch.ends_after(first) || *last < *kept.watch.from {
                // The keys lie outside the watch, as those of most puts do, so nothing changes.
            } else if first.len().max(last.len()) > MAX_KEY_BYTES {
                self.kept.remove(i);
                self.changed = true;
                continue;
            } else if end.as_ref().is_some_and(|end| **end <= *first) {
                kept.watch.end = Some(first.into());
            } else if *last < **from {
                kept.watch = kept.watch.meet(&Interval::after(last));
            } else if !self.cut(i, first, last) {
                continue;
            }
            i += 1;
        }
    }

    /// Cuts the keys from `first` to `last` out of the mark of index `i`. Returns whether a part of
    /// this mark is left at the index.
    #[cold]
    fn cut(&mut self, i: usize, first: &[u8], last: &[u8]) -> bool {
        self.changed = true;
        let kept = &mut self.kept[i];
        let was_used = kept.mark.used.swap(false, Ordering::Relaxed);
        kept.idle_cuts = if was_used { 0 } else { kept.idle_cuts + 1 };
        let (low, high) =
            (kept.within(&Interval::before(first)), kept.within(&Interval::after(last)));
        let is_worn = kept.idle_cuts > MAX_IDLE_CUTS;
        match (low, high) {
            _ if is_worn => {}
            (Some(low), high) => {
                self.kept[i] = low;
                if self.kept.len() < MAX_MARKS {
                    self.kept.extend(high);
                }
                return true;
            }
            (None, Some(high)) => {
                self.kept[i] = high;
                return true;
            }
            (None, None) => {}
        }
        self.kept.remove(i);
        false
    }

    /// Replaces the list of marks that readers see, if any mark has changed.
    pub fn publish(&mut self, marks: &Marks) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let visible = self.kept.iter().map(|kept| &kept.mark);
        let list: Vec<Mark> =
            visible.filter(|mark| !mark.newest().interval.is_empty()).cloned().collect();
        let is_active = !list.is_empty();
        marks.list.replace(Arc::new(list));
        marks.is_active.store(is_active, Ordering::Relaxed);
        self.published += 1;
        if self.published.is_multiple_of(COLLECT_EVERY) {
            collect();
        }
    }
}

impl WatchedMark {
    /// The mark and its watch, limited to `interval`; `None` if no part of the mark lies in it.
    fn within(&self, interval: &Interval) -> Option<WatchedMark> {
        let extents = self.mark.extents.iter().map(|extent| Extent {
            interval: extent.interval.meet(interval),
            sequence: extent.sequence,
        });
        let extents: Vec<Extent> = extents.filter(|extent| !extent.interval.is_empty()).collect();
        if extents.is_empty() {
            return None;
        }
        let used = Arc::new(AtomicBool::new(self.mark.used.load(Ordering::Relaxed)));
        Some(WatchedMark {
            mark: Mark { extents, used },
            watch: self.watch.meet(interval),
            since: self.since,
            idle_cuts: self.idle_cuts,
        })
    }
}

impl Mark {
    /// Adds an interval that shows nothing from `sequence` on, if it touches the mark. Returns
    /// whether the mark has changed.
    fn grow(&mut self, interval: &Interval, sequence: SequenceNumber) -> bool {
        let newest = self.newest();
        if interval.is_empty() || !newest.interval.touches(interval) {
            return false;
        }
        let joined = newest.interval.join(interval);
        if joined == newest.interval {
            return false;
        }
        let sequence = sequence.max(newest.sequence);
        let grown = Extent { interval: joined, sequence };
        let keeps = match &self.extents[..] {
            [only] => !only.interval.is_empty(),
            [_, older, ..] => sequence - older.sequence.min(sequence) >= LATE_BY,
            [] => false,
        };
        if keeps {
            self.extents.insert(0, grown);
            self.extents.truncate(MAX_EXTENTS);
        } else {
            self.extents[0] = grown;
        }
        true
    }
}
