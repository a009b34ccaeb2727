//! [`newest_in_tables`]: when a key was last written, as tables show it.

use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber};
use crate::error::Result;
use crate::stats::Counters;
use crate::sync::pin;
use crate::table::LookupKey;
use crate::version::Version;

use super::found::range_deletion;
use super::observer::Observer;
use super::probe::search_and_read;

/// The sequence number of an entry of `user_key` in a table, or of a range deletion that covers the
/// key, if one is larger than `since`; otherwise `since`. Asks only tables with newer entries. Hold
/// no guard.
pub(crate) fn newest_in_tables(
    version: &Version,
    user_key: &[u8],
    since: SequenceNumber,
    counters: &Counters,
) -> Result<SequenceNumber> {
    let key = &LookupKey::new(user_key, MAX_SEQUENCE);
    for run in version.all_runs() {
        for file in version.candidates(run, user_key).map(|position| run.file(position)) {
            if file.meta.largest_sequence <= since {
                continue;
            }
            let deleted_at = range_deletion(file, key);
            if deleted_at > since {
                return Ok(deleted_at);
            }
            let tickers = counters.on_thread(&pin());
            if let Some(found) = search_and_read(&file.table, key, tickers, Observer::NONE)?
                && found.sequence > since
            {
                return Ok(found.sequence);
            }
        }
    }
    Ok(since)
}
