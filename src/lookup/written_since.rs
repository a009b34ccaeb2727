//! [`was_written_since`]: whether tables have something of a key that is newer than a write.

use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber};
use crate::error::Result;
use crate::stats::Counters;
use crate::sync::pin;
use crate::table::LookupKey;
use crate::version::Version;

use super::probe::search_and_read;
use super::stage::{Observer, range_deletion};

/// Whether a table has an entry of `user_key`, or a range deletion that covers it, that is newer than
/// `since`. Asks only tables with newer entries. Hold no guard.
pub(crate) fn was_written_since(
    version: &Version,
    user_key: &[u8],
    since: SequenceNumber,
    counters: &Counters,
) -> Result<bool> {
    let key = &LookupKey::new(user_key, MAX_SEQUENCE);
    for run in version.all_runs() {
        for file in version.candidates(run, user_key).map(|position| run.file(position)) {
            if file.meta.largest_sequence <= since {
                continue;
            }
            if range_deletion(file, key) > since {
                return Ok(true);
            }
            let tickers = counters.on_thread(&pin());
            let found = search_and_read(&file.table, key, tickers, Observer::NONE)?;
            if found.is_some_and(|found| found.sequence > since) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
