//! [`Cover`]: what range deletions hide from one cursor.
//!
//! A walk meets the entries of all sources in one order, so it must know the range deletions of all
//! of them: an entry is hidden when any source has one that is newer, holds its key, and is seen by
//! the cursor. Sources that the walk leaves out, because a filter says that they hold no entry for
//! it, are asked too.
//!
//! ```text
//!   memtables, files of level 0     each is asked
//!   levels 1 and up                 their files are disjoint: the one that reaches the key is asked
//! ```
//!
//! The answer holds for a whole stretch of keys, the common part of all sources' fragments. It is
//! kept until the walk leaves it, so that most entries cost two comparisons of keys. When many entries
//! of a stretch were hidden, the sources that are older than its range deletion skip the rest.

use std::sync::Arc;

use crate::encoding::key::SequenceNumber;
use crate::range_tombstones::{Fragment, RangeTombstones};
use crate::version::Version;

use crate::db::View;

pub(crate) struct Cover {
    /// What the cursor sees.
    snapshot: SequenceNumber,
    /// Those of the memtables.
    memtables: Vec<Arc<RangeTombstones>>,
    version: Arc<Version>,
    /// The stretch around the last key asked: from `begin` to before `end` (`None`: to the last key)
    /// entries older than `deleted_at` are hidden.
    begin: Vec<u8>,
    end: Option<Vec<u8>>,
    deleted_at: SequenceNumber,
    is_known: bool,
    /// How many entries were hidden there.
    hidden: usize,
}

/// So many entries are walked over one by one before it is worth looking for the end of the stretch.
const SKIP_AFTER: usize = 16;

impl Cover {
    /// `None`, nearly always: there are no range deletions.
    pub fn new(view: &View, snapshot: SequenceNumber) -> Option<Box<Cover>> {
        let mut sets = Vec::new();
        for memtable in view.memtables().filter(|memtable| memtable.has_ranges()) {
            sets.extend(memtable.ranges().iter().cloned());
        }
        if sets.is_empty() && !view.version.has_range_deletions {
            return None;
        }
        Some(Box::new(Cover {
            snapshot,
            memtables: sets,
            version: Arc::clone(&view.version),
            begin: Vec::new(),
            end: None,
            deleted_at: 0,
            is_known: false,
            hidden: 0,
        }))
    }

    /// Whether the entry of `user_key` with this sequence number, which the cursor sees, is deleted
    /// by a range deletion that it sees too.
    pub fn hides(&mut self, user_key: &[u8], sequence: SequenceNumber) -> bool {
        let is_inside = self.is_known
            && &self.begin[..] <= user_key
            && self.end.as_ref().is_none_or(|end| user_key < &end[..]);
        if !is_inside {
            self.find(user_key);
        }
        let hides = sequence < self.deleted_at;
        self.hidden += usize::from(hides);
        hides
    }

    /// After an entry was hidden: whether it is time, once a stretch, to leave out the rest of it.
    /// The user keys that it begins and ends with, and the sequence number from which on entries
    /// there are not hidden.
    pub fn stretch_to_skip(&mut self) -> Option<(&[u8], &[u8], SequenceNumber)> {
        if self.hidden != SKIP_AFTER {
            return None;
        }
        self.hidden += 1;
        self.end.as_ref().map(|end| (&self.begin[..], &end[..], self.deleted_at))
    }

    #[cold]
    fn find(&mut self, user_key: &[u8]) {
        let memtables = self.memtables.iter().map(|set| set.fragment_at(user_key, self.snapshot));
        let tables = self.version.range_fragments(user_key, self.snapshot);
        let common = memtables.chain(tables).fold(Fragment::EVERYTHING, Fragment::meet);
        self.begin.clear();
        self.begin.extend_from_slice(common.begin.unwrap_or_default());
        self.end = common.end.map(<[u8]>::to_vec);
        self.deleted_at = common.sequence;
        self.is_known = true;
        self.hidden = 0;
    }
}
