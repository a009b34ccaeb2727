//! [`FilterContext`]: the information about the tree that a policy gets.

use crate::version::{FileMeta, LEVELS};

/// The shape of the tree when a table is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterContext {
    /// Whether no level deeper than the table's level holds data.
    pub is_last: bool,
    /// The number of levels that hold data, from level 1 down to the table's level. 0 for level 0.
    pub depth: usize,
    /// Entries of each sorted run that a lookup may have to search, the new table included: every
    /// table of level 0, then every level that holds data.
    pub run_entries: Vec<u64>,
    /// The index of the run that the table will be part of.
    pub run: usize,
}

impl FilterContext {
    /// The context of a table with `new_entries` entries that joins `level`. `levels` lists the
    /// other tables of the tree. Tables that the new one replaces must not be among them, because
    /// their entries would count twice.
    pub fn new(levels: &[Vec<&FileMeta>; LEVELS], level: usize, new_entries: u64) -> FilterContext {
        let mut run_entries: Vec<u64> = levels[0].iter().map(|file| file.entries).collect();
        let (mut run, mut depth) = (run_entries.len(), 0);
        if level == 0 {
            run_entries.push(new_entries);
        }
        for (l, files) in levels.iter().enumerate().skip(1) {
            let mut entries: u64 = files.iter().map(|file| file.entries).sum();
            if l == level {
                run = run_entries.len();
                entries += new_entries;
            }
            if entries > 0 {
                run_entries.push(entries);
                depth += usize::from(l <= level);
            }
        }
        let is_last = levels[level + 1..].iter().all(Vec::is_empty);
        FilterContext { is_last, depth, run_entries, run }
    }
}
