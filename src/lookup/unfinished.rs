//! [`Unfinished`]: a lookup that needs a read, after its guard.

use std::sync::Arc;

use crate::error::Result;
use crate::stats::ThreadTickers;
use crate::sync::pin;
use crate::table::LookupKey;
use crate::version::Version;

use super::filter::{AfterFilter, FilterUse};
use super::mixed::find_in_mixed;
use super::need::Need;
use super::probe::Probe;
use super::search::{Candidate, InTable, Walk};
use super::stage::{FileRun, Found, Observer, Scope, Sources, range_deletion};

/// A lookup that goes on from where it stopped. It holds no guard while it reads.
pub(crate) struct Unfinished {
    version: Arc<Version>,
    /// The number of the run in which the lookup has stopped, and the search of its file. `None`:
    /// the lookup has stopped in front of the tables of a mixed version.
    at: Option<(usize, Probe)>,
}

impl Unfinished {
    /// A lookup that has stopped in the file of `run`, because it needs something. `sources` are those of the
    /// lookup.
    #[cold]
    #[inline(never)]
    pub fn in_file(sources: &Sources, run: &FileRun, need: Need, filter: FilterUse) -> Unfinished {
        let version = Arc::clone(&sources.version);
        let run = number_of(run, &version);
        Unfinished { version, at: Some((run, Probe::new(need, filter))) }
    }

    /// A lookup that has stopped in front of the tables of a mixed version.
    pub fn in_mixed(sources: &Sources) -> Unfinished {
        Unfinished { version: Arc::clone(&sources.version), at: None }
    }

    /// Ends the lookup, and returns the newest entry of the key if it is a value. `key` and
    /// `observer` are those with which the lookup began. Hold no guard.
    #[cold]
    #[inline(never)]
    pub fn run(
        &mut self,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
        observer: Observer<'_>,
    ) -> Result<Option<Found<'static>>> {
        let version = &*self.version;
        let Some((mut number, mut probe)) = self.at.take() else {
            return find_in_mixed(version, key, tickers, observer);
        };
        loop {
            let run = &version.runs()[number];
            let file = version.head(key.user_key).and_then(|head| run.file_of(head, key.user_key));
            let file = file.expect("the lookup has stopped in a file");
            let deleted_at = range_deletion(file, key);
            let after = Ok(AfterFilter::IMPOSSIBLE);
            let mut candidate = Candidate { run, file, deleted_at, after };
            let mut step = match probe.run(&file.table, key, tickers, observer)? {
                Some(found) => InTable::Found(found),
                None => InTable::Absent,
            };
            let guard = pin();
            let scope = &Scope { guard: &guard, tickers, observer };
            let mut walk = Walk::new(version, number + 1, key).expect("a key in a file's range");
            let needed = loop {
                match step {
                    InTable::Found(found) => {
                        let is_live = candidate.end_with(&found, key, scope)?;
                        return Ok(is_live.then(|| found.into_owned()));
                    }
                    InTable::Absent if candidate.end(scope) => return Ok(None),
                    InTable::Absent => {}
                    InTable::Needs(need, filter) => break Probe::new(need, filter),
                }
                let Some(next) = walk.next(key, scope) else { return Ok(None) };
                step = next.search(key, scope)?;
                candidate = next;
            };
            (number, probe) = (number_of(candidate.run, version), needed);
        }
    }

    /// Drops the result of the lookup. If nothing else holds its block, the cache uses the block's
    /// memory for a later block.
    pub fn recycle(&self, found: Found<'static>) {
        if let Some(run) = self.version.all_runs().first() {
            found.block.recycle(run.file(0).table.cache());
        }
    }
}

/// The number of a run of `version`.
fn number_of(run: &FileRun, version: &Version) -> usize {
    let mut runs = version.runs().iter();
    runs.position(|other| std::ptr::eq(other, run)).expect("a run of the version")
}
