//! The lookup in a *mixed* version, in which several files of a level may hold a key.

use crate::error::Result;
use crate::stats::ThreadTickers;
use crate::table::{LookupKey, Table};
use crate::version::Version;

use super::probe::search_and_read;
use super::stage::{Found, Observer, hit_ticker, is_live, range_deletion};

/// Returns the newest entry of the key if it is a value. In each level it searches all tables that
/// may hold the key, and the largest sequence number wins. Hold no guard.
pub(super) fn find_in_mixed(
    version: &Version,
    key: &LookupKey<'_>,
    tickers: ThreadTickers<'_>,
    observer: Observer<'_>,
) -> Result<Option<Found<'static>>> {
    for level in version.all_runs().chunk_by(|one, other| one.level == other.level) {
        let (mut newest, mut deleted_at) = (None::<(Found<'static>, &Table)>, 0);
        for run in level {
            let candidates = version.candidates(run, key.user_key);
            if candidates.is_empty() {
                observer.tell(|it| it.run_passed(run));
            }
            for file in candidates.map(|position| run.file(position)) {
                let deleted_here = range_deletion(file, key);
                deleted_at = deleted_at.max(deleted_here);
                observer.tell(|it| it.file_reached(file, deleted_here));
                let found = search_and_read(&file.table, key, tickers, observer)?;
                observer.tell(|it| it.file_left(run, file, found.as_ref()));
                if let Some(found) = found
                    && newest.as_ref().is_none_or(|(newest, _)| newest.sequence < found.sequence)
                {
                    newest = Some((found, &file.table));
                }
            }
        }
        if let Some((found, table)) = newest {
            tickers.add(hit_ticker(level[0].level), 1);
            return Ok(is_live(table, key, &found, deleted_at)?.then_some(found));
        }
        if deleted_at > 0 {
            return Ok(None);
        }
    }
    Ok(None)
}
