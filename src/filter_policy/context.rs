//! [`FilterContext`]: what a policy is told about the tree.

use crate::version::{FileMeta, LEVELS};

/// What the tree looks like when a table is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterContext {
    /// Whether no deeper level holds data.
    pub is_last: bool,
    /// 0 for level 0; 1 for the first level under it that holds data, and so on.
    pub depth: usize,
    /// Entries of each sorted run that a lookup may have to search, the new one included: every
    /// table of level 0, then every level that holds data.
    pub run_entries: Vec<u64>,
    /// Which of them the table will be part of.
    pub run: usize,
}

impl FilterContext {
    /// `new_entries` are about to join `level`, beside the tables that `levels` lists. Tables that
    /// the new one replaces must not be among them: their entries would count twice.
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
