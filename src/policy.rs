//! [`FilterPolicy`]: which filter a new table gets, from where in the tree it will stand.
//!
//! The filter library knows one filter at a time ([`FilterSpec`]); the tree knows levels. A policy
//! is asked whenever a table is written, so a changed policy reaches the whole tree as compaction
//! rewrites it.
//!
//! ```text
//! bloom(10)  burr(7)  fpr(0.01, burr) …   any spec: the same filter for every table
//! ```

use std::fmt;
use std::str::FromStr;

use crate::filter::{FilterSpec, SpecError};
use crate::version::{FileMeta, LEVELS};

/// Which filter a new table gets.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterPolicy {
    spec: FilterSpec,
}

impl FilterPolicy {
    /// The same filter for every table.
    pub fn uniform(spec: FilterSpec) -> FilterPolicy {
        FilterPolicy { spec }
    }

    /// The filter of a table that is about to be written.
    pub(crate) fn spec_for(&self, _context: &FilterContext) -> FilterSpec {
        self.spec
    }
}

impl Default for FilterPolicy {
    /// `bloom(10)`.
    fn default() -> FilterPolicy {
        FilterPolicy::uniform(FilterSpec::bloom(10.0).expect("10 bits are in range"))
    }
}

impl From<FilterSpec> for FilterPolicy {
    fn from(spec: FilterSpec) -> FilterPolicy {
        FilterPolicy::uniform(spec)
    }
}

impl fmt::Display for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl FromStr for FilterPolicy {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<FilterPolicy, SpecError> {
        text.parse().map(FilterPolicy::uniform)
    }
}

/// What the tree looks like when a table is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterContext {
    /// Where the table goes.
    pub level: usize,
    /// Whether no deeper level holds data.
    pub is_last: bool,
    /// Entries of each sorted run a lookup may have to search, the new one included: every table
    /// of level 0, then every level that holds data.
    pub run_entries: Vec<u64>,
    /// Which of them the table will be part of.
    pub run: usize,
}

impl FilterContext {
    /// `new_entries` are about to join `level`. Where they come from is not taken off: a
    /// compaction's inputs are mostly the same size again within a few more.
    pub fn new(levels: &[Vec<&FileMeta>; LEVELS], level: usize, new_entries: u64) -> FilterContext {
        let entries = |l: usize| levels[l].iter().map(|file| file.entries).sum::<u64>();
        let mut run_entries: Vec<u64> = levels[0].iter().map(|file| file.entries).collect();
        let mut run = 0;
        if level == 0 {
            run = run_entries.len();
            run_entries.push(new_entries);
        }
        for l in 1..LEVELS {
            let here = if l == level { entries(l).max(new_entries) } else { entries(l) };
            if l == level {
                run = run_entries.len();
            }
            if here > 0 || l == level {
                run_entries.push(here);
            }
        }
        let is_last = (level + 1..LEVELS).all(|l| levels[l].is_empty());
        FilterContext { level, is_last, run_entries, run }
    }
}
