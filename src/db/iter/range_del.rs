//! [`RangeDelAggregator`]: which of a cursor's entries are hidden by range deletions.
//!
//! A cursor merges the entries of all sources, so for each entry it must know the range deletions
//! of all sources. An entry is hidden when any source has a range deletion that is newer, covers
//! its key, and is visible to the cursor. The range deletions of a source count even if the cursor
//! skips the source's entries because the source's filter denies the prefix.
//!
//! ```text
//!   memtables, files of level 0     each is checked
//!   levels 1 and up                 disjoint files: the one whose range has the key is checked
//!
//!   memtable     ───────[■■■■■■■■ 9 ■■■■■■■■)──────────
//!   level 1      ──[■■■ 5 ■■■)───────[■■■■■ 4 ■■■■■)───
//!   stretch        |    |    |       |      |      |         one result holds up to the next bound
//!                                                           5, 9, 4: sequence numbers
//! ```
//!
//! What the cursor has found for one key holds for a *stretch* of keys around it, in which no range
//! deletion of any source begins or ends. The cursor keeps this result until it leaves the stretch,
//! so most entries cost two comparisons of keys. Once many entries of a stretch were hidden by one
//! range deletion, the sources that are older than this range deletion skip the rest of the
//! stretch.

use std::sync::Arc;

use crate::db::read_state::ReadState;
use crate::encoding::key::SequenceNumber;
use crate::range_tombstones::{Fragment, RangeTombstones};
use crate::version::Version;

pub(crate) struct RangeDelAggregator {
    /// The last sequence number that the cursor sees.
    sequence: SequenceNumber,
    /// The range deletions of the memtables.
    memtables: Vec<Arc<RangeTombstones>>,
    version: Arc<Version>,
    /// The stretch around the last key that was checked. From `start` to before `end` (`None`: to
    /// the last key), entries older than `deleted_at` are hidden.
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    deleted_at: SequenceNumber,
    is_known: bool,
    /// How many entries were hidden in the stretch.
    hidden: usize,
    /// Whether [`Self::stretch_to_skip`] has returned the stretch.
    is_skipped: bool,
}

/// A cursor passes this number of hidden entries of a stretch one by one, before it skips to the
/// end of the stretch, because a skip costs more than passing a few entries.
const SKIP_AFTER: usize = 16;

impl RangeDelAggregator {
    /// `None` where there are no range deletions, which is nearly always.
    pub fn new(
        read_state: &ReadState,
        sequence: SequenceNumber,
    ) -> Option<Box<RangeDelAggregator>> {
        let mut sets = Vec::new();
        for memtable in read_state.sources.memtables().filter(|memtable| memtable.has_ranges()) {
            sets.extend(memtable.ranges().iter().cloned());
        }
        if sets.is_empty() && !read_state.sources.version.has_range_deletions {
            return None;
        }
        Some(Box::new(RangeDelAggregator {
            sequence,
            memtables: sets,
            version: Arc::clone(&read_state.sources.version),
            start: Vec::new(),
            end: None,
            deleted_at: 0,
            is_known: false,
            hidden: 0,
            is_skipped: false,
        }))
    }

    /// Whether a range deletion that is visible to the cursor hides this entry, which is visible
    /// too.
    pub fn hides(&mut self, user_key: &[u8], sequence: SequenceNumber) -> bool {
        let is_inside = self.is_known
            && &self.start[..] <= user_key
            && self.end.as_ref().is_none_or(|end| user_key < &end[..]);
        if !is_inside {
            self.find(user_key);
        }
        let hides = sequence < self.deleted_at;
        self.hidden += usize::from(hides);
        hides
    }

    /// Called after an entry was hidden. Returns the stretch when `SKIP_AFTER` of its entries were
    /// hidden, and otherwise `None`, so that the cursor skips the rest of a stretch once. The
    /// result is the first user key of the stretch, its end, and the sequence number below which
    /// entries are hidden.
    pub fn stretch_to_skip(&mut self) -> Option<(&[u8], &[u8], SequenceNumber)> {
        if self.hidden < SKIP_AFTER || self.is_skipped {
            return None;
        }
        self.is_skipped = true;
        self.end.as_ref().map(|end| (&self.start[..], &end[..], self.deleted_at))
    }

    #[cold]
    fn find(&mut self, user_key: &[u8]) {
        let memtables = self.memtables.iter().map(|set| set.fragment_at(user_key, self.sequence));
        let tables = self.version.range_fragments(user_key, self.sequence);
        let common = memtables.chain(tables).fold(Fragment::EVERYTHING, Fragment::meet);
        self.start.clear();
        self.start.extend_from_slice(common.start.unwrap_or_default());
        self.end = common.end.map(<[u8]>::to_vec);
        self.deleted_at = common.sequence;
        self.is_known = true;
        self.hidden = 0;
        self.is_skipped = false;
    }
}
