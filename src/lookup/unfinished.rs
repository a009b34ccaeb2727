//! [`Unfinished`] and [`Continued`]: a lookup that needs a read, under the guard and after it.

use std::sync::Arc;

use crate::error::Result;
use crate::stats::ThreadTickers;
use crate::sync::pin;
use crate::table::LookupKey;
use crate::version::Version;

use super::filter::FilterUse;
use super::found::{Found, hit_ticker, range_deletion, shows_value};
use super::mixed::find_in_mixed;
use super::need::Need;
use super::observer::TreeObserver;
use super::probe::Probe;
use super::sources::Sources;
use super::{FileRun, Outcome, find_in_runs};

/// Where a lookup has stopped.
pub(crate) enum Unfinished<'g> {
    /// In the file of `run` whose range holds the key.
    InTable { run: &'g FileRun, need: Need, filter: FilterUse },
    /// In front of the tables of a mixed version.
    Mixed,
}

/// A lookup that goes on from where it stopped, without a guard while it reads.
pub(crate) struct Continued {
    version: Arc<Version>,
    /// The run in which the lookup has stopped, and the search of its file. `None`: the version is
    /// mixed.
    at: Option<(usize, Probe)>,
}

impl Unfinished<'_> {
    /// The lookup, to go on after the guard is dropped. `sources` are those of the lookup.
    #[cold]
    #[inline(never)]
    pub fn keep(self, sources: &Sources) -> Continued {
        let version = Arc::clone(&sources.version);
        let at = match self {
            Unfinished::Mixed => None,
            Unfinished::InTable { run, need, filter } => {
                let number = version.runs().iter().position(|other| std::ptr::eq(other, run));
                Some((number.expect("a run of the version"), Probe::new(need, filter)))
            }
        };
        Continued { version, at }
    }
}

impl Continued {
    /// Ends the lookup, and returns the newest entry of the key if it is a value. `key` is that with
    /// which the lookup began. Hold no guard.
    #[cold]
    pub fn run(
        &mut self,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
    ) -> Result<Option<Found<'static>>> {
        self.run_with(key, tickers, ())
    }

    /// [`Continued::run`] with the observer with which the lookup began.
    pub fn run_with(
        &mut self,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
        observer: impl TreeObserver,
    ) -> Result<Option<Found<'static>>> {
        let version = &*self.version;
        let Some((mut number, mut probe)) = self.at.take() else {
            return find_in_mixed(version, key, tickers, observer);
        };
        let Some(head) = version.head(key.user_key) else { return Ok(None) };
        loop {
            let run = &version.runs()[number];
            let file = run.file_of(head, key.user_key).expect("the lookup has stopped in a file");
            let deleted_at = range_deletion(file, key);
            let found = probe.run(&file.table, key, tickers, observer.in_table())?;
            observer.file_left(run, file, found.as_ref());
            if let Some(found) = found {
                tickers.add(hit_ticker(run.level), 1);
                return Ok(shows_value(&file.table, key, &found, deleted_at)?.then_some(found));
            }
            if deleted_at > 0 {
                return Ok(None);
            }
            let guard = pin();
            match find_in_runs(version, number + 1, head, key, &guard, tickers, observer)? {
                Outcome::InBlock(found) => return Ok(Some(found.into_owned())),
                Outcome::Unfinished(Unfinished::InTable { run, need, filter }) => {
                    let runs = version.runs().iter();
                    let next = runs.skip(number).position(|other| std::ptr::eq(other, run));
                    number += next.expect("a later run of the version");
                    probe = Probe::new(need, filter);
                }
                _ => return Ok(None),
            }
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
