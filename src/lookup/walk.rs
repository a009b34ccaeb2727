//! [`Walk`]: the files of a tree that may hold a key.

use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::sync::Guard;
use crate::table::LookupKey;
use crate::version::{TableFile, Version};

use super::filter::{self, AfterFilter, Membership};
use super::found::{Found, hit_ticker, is_live, range_deletion};
use super::in_table::{InTable, search_index, search_without_filter};
use super::scope::Scope;
use super::sources::FileRun;

/// A walk through the files that may hold a key, in the order of the runs, newest first.
pub(crate) struct Walk<'g> {
    version: &'g Version,
    runs: std::slice::Iter<'g, FileRun>,
    /// The key's head ([`Version::head`]).
    head: u64,
}

/// A file that may hold the key: its range holds the key, and its filter has not answered "no".
pub(crate) struct Candidate<'g> {
    pub run: &'g FileRun,
    pub file: &'g TableFile,
    /// The sequence number of the newest range deletion of the file that covers the key; 0 if there
    /// is none.
    pub deleted_at: SequenceNumber,
    /// What the search knows after the filter, or the number of the filter's part that is not in
    /// memory.
    pub(super) after: std::result::Result<AfterFilter, usize>,
}

impl<'g> Walk<'g> {
    /// A walk through the runs from number `first` on. `None`: the key lies outside the ranges of
    /// all files.
    #[inline(always)]
    pub fn new(version: &'g Version, first: usize, key: &LookupKey<'_>) -> Option<Walk<'g>> {
        let head = version.head(key.user_key)?;
        Some(Walk { version, runs: version.runs()[first..].iter(), head })
    }

    /// Starts to fetch the filter of the deepest run. It is the largest, so its cache line is the
    /// least likely to be in the CPU's caches.
    #[inline(always)]
    pub fn prefetch(&self, key: &LookupKey<'_>, guard: &Guard) {
        if let [_, .., deepest] = self.runs.as_slice()
            && let Some(file) = deepest.file_of(self.head, key.user_key)
        {
            filter::prefetch(&file.table, [key], guard);
        }
    }

    /// The next file that may hold the key.
    #[inline(always)]
    pub fn next(&mut self, key: &LookupKey<'_>, scope: &Scope<'_>) -> Option<Candidate<'g>> {
        for run in &mut self.runs {
            let Some(file) = run.file_of(self.head, key.user_key) else {
                scope.observer.tell(|it| it.run_passed(run));
                continue;
            };
            let deleted_at = match self.version.has_range_deletions {
                true => range_deletion(file, key),
                false => 0,
            };
            scope.observer.tell(|it| it.file_reached(file, deleted_at));
            let after = match filter::query(&file.table, key, scope) {
                Membership::Maybe(after) => Ok(after),
                Membership::Absent(part) => Err(part),
                Membership::No => {
                    scope.observer.tell(|it| it.file_left(run, file, None));
                    if deleted_at > 0 {
                        return None;
                    }
                    continue;
                }
            };
            return Some(Candidate { run, file, deleted_at, after });
        }
        None
    }
}

impl<'g> Candidate<'g> {
    /// Searches the file, after its filter.
    #[inline(always)]
    pub fn search(&self, key: &LookupKey<'_>, scope: &Scope<'g>) -> Result<InTable<'g>> {
        let table = &*self.file.table;
        match self.after {
            Ok(after) => search_index(table, key, after, scope),
            Err(part) => search_without_filter(table, part, key, scope),
        }
    }

    /// The search has found an entry. Returns whether it shows a value.
    #[inline(always)]
    pub fn end_with(
        &self,
        found: &Found<'_>,
        key: &LookupKey<'_>,
        scope: &Scope<'_>,
    ) -> Result<bool> {
        scope.observer.tell(|it| it.file_left(self.run, self.file, Some(found)));
        scope.tickers.add(hit_ticker(self.run.level), 1);
        is_live(&self.file.table, key, found, self.deleted_at)
    }

    /// The search has found no entry. Returns whether the walk ends here: every version of the key
    /// in a deeper file is older than the range deletion, so it is deleted too.
    #[inline(always)]
    pub fn end(&self, scope: &Scope<'_>) -> bool {
        scope.observer.tell(|it| it.file_left(self.run, self.file, None));
        self.deleted_at > 0
    }
}
