//! [`Cleanups`]: ranges of keys in which cursors passed very many hidden entries of tables. A
//! compaction of such a range frees space, and later scans read less.
//!
//! The ranges are hints. The list is short and in memory only. When it is full, a new range is
//! dropped: the next cursor that passes the hidden entries of that range requests it again.

use std::collections::VecDeque;

use crate::compaction::{Conditions, Plan, Planner};
use crate::encoding::key::user_key;
use crate::version::FileMeta;

/// The maximum number of waiting ranges.
const MAX_CLEANUPS: usize = 8;

/// A request of a cursor that passed a range: to compact the tables of this range that existed at
/// that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::db) struct Cleanup {
    /// The range starts at the user key `from` and ends before the user key `end` (`None`: it has
    /// no upper end).
    pub from: Vec<u8>,
    pub end: Option<Vec<u8>>,
    /// Tables with this number or a larger one were written after the cursor passed the range, so
    /// the cursor did not read them.
    pub next_file: u64,
}

impl Cleanup {
    fn covers(&self, other: &Cleanup) -> bool {
        let ends_behind = match (&self.end, &other.end) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(other)) => other <= end,
        };
        self.from <= other.from && ends_behind
    }
}

/// The waiting ranges, oldest first. No range covers another.
#[derive(Debug, Default)]
pub(in crate::db) struct Cleanups(VecDeque<Cleanup>);

impl Cleanups {
    /// Adds a range, unless a waiting range covers it or the list is full. Returns whether it was
    /// added.
    pub fn request(&mut self, cleanup: Cleanup) -> bool {
        if self.0.iter().any(|waiting| waiting.covers(&cleanup)) {
            return false;
        }
        self.0.retain(|waiting| !cleanup.covers(waiting));
        let has_room = self.0.len() < MAX_CLEANUPS;
        if has_room {
            self.0.push_back(cleanup);
        }
        has_room
    }

    /// Whether the table overlaps one of the ranges, and existed when that range was requested.
    fn wants(&self, file: &FileMeta) -> bool {
        self.0.iter().any(|cleanup| {
            file.number < cleanup.next_file
                && !file.ends_before(&cleanup.from)
                && cleanup.end.as_ref().is_none_or(|end| user_key(&file.smallest) < &end[..])
        })
    }

    /// Returns the next compaction that a cursor has requested: one for the dead data of a table
    /// that existed at the request. The tables that compactions write are newer, so each request
    /// causes a finite number of compactions.
    pub fn plan(&mut self, planner: &Planner, conditions: &Conditions) -> Option<Plan> {
        if self.is_empty() {
            return None;
        }
        let plan = planner.pick_wanted(conditions, |file| self.wants(file));
        // If there is no plan, no table of the ranges can be compacted now. While a compaction
        // runs, the reason may be that it uses one of these tables, so the ranges stay in the list.
        // If no compaction runs, the ranges are dropped, and the next cursor that passes them may
        // request them again.
        if plan.is_none() && planner.unavailable.busy.is_empty() {
            self.0.clear();
        }
        plan
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;

    fn cleanup(from: &str, end: Option<&str>) -> Cleanup {
        Cleanup { from: from.into(), end: end.map(Into::into), next_file: 7 }
    }

    #[test]
    fn a_range_that_another_covers_is_not_listed() {
        let mut cleanups = Cleanups::default();
        assert!(cleanups.request(cleanup("c", Some("f"))));
        assert!(cleanups.request(cleanup("x", None)));
        // A waiting range covers each of these two.
        assert!(!cleanups.request(cleanup("d", Some("f"))));
        assert!(!cleanups.request(cleanup("y", Some("z"))));
        // Each of these two covers a waiting range, which is removed.
        assert!(cleanups.request(cleanup("a", Some("f"))));
        assert!(cleanups.request(cleanup("a", Some("g"))));
        assert_eq!(cleanups.0, [cleanup("x", None), cleanup("a", Some("g"))]);
        let file = |number, smallest: &[u8], largest: &[u8]| FileMeta {
            number,
            smallest: internal_key(smallest, 1, 1),
            largest: internal_key(largest, 1, 1),
            ..FileMeta::default()
        };
        assert!(cleanups.wants(&file(6, b"b", b"k")) && cleanups.wants(&file(6, b"z", b"zz")));
        assert!(!cleanups.wants(&file(6, b"g", b"k")), "it starts behind the range");
        assert!(!cleanups.wants(&file(7, b"b", b"k")), "it was written later");
    }

    /// A cursor requests a compaction only for hidden entries of tables that it passes one by one:
    /// neither for hidden entries of the memtable, nor for those that it jumps over by a mark,
    /// which is an interval of keys in which an earlier cursor saw nothing (`iter/marks/`).
    #[cfg(not(loom))]
    #[test]
    fn a_long_walk_over_hidden_entries_of_tables_asks_for_their_range_once() {
        let fs = std::sync::Arc::new(crate::fs::MemFs::new());
        let open = || crate::Db::builder("/db").fs(fs.clone()).open().unwrap();
        let db = open();
        let asked = |db: &crate::Db| crate::sync::lock(&db.inner.tree.cleanups).is_empty();
        let key = |n: u32| n.to_be_bytes();
        let mut batch = crate::WriteBatch::new();
        for n in 0..=12_000 {
            batch.put(key(n), "");
        }
        db.write(batch).unwrap();
        // The snapshot makes the flush keep the deleted entries.
        let snapshot = db.snapshot();
        let mut batch = crate::WriteBatch::new();
        for n in 1..=12_000 {
            batch.delete(key(n));
        }
        db.write(batch).unwrap();
        assert_eq!(db.last_key_value().unwrap().unwrap().0, &key(0)[..]);
        assert!(asked(&db), "the memtable has no tables to clean");
        db.flush().unwrap();
        assert_eq!(snapshot.iter().count(), 12_001);
        drop(snapshot);
        db.close().unwrap();

        // Opening the database again forgets all marks.
        let db = open();
        assert_eq!(db.last_key_value().unwrap().unwrap().0, &key(0)[..]);
        db.wait_for_compaction().unwrap();
        let stats = db.stats();
        assert_eq!(stats.files.iter().map(|file| file.entries).sum::<u64>(), 1);
        assert!(asked(&db), "what was asked for is done");
    }

    #[test]
    fn the_list_is_bounded() {
        let mut cleanups = Cleanups::default();
        let key = |n: u8| char::from(b'a' + n).to_string();
        let added = (0..20).filter(|&n| cleanups.request(cleanup(&key(n), Some(&key(n + 1)))));
        assert_eq!(added.count(), MAX_CLEANUPS);
        assert!(cleanups.request(cleanup("", None)));
        assert_eq!(cleanups.0, [cleanup("", None)]);
    }
}
