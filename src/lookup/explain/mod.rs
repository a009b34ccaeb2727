//! The trace of a lookup in one table: [`TableTrace`], which
//! [`recorder::Recorder`] writes, and its [`text`]. The trace of a lookup in a whole database is in
//! `src/db/explain/`.

pub(crate) mod recorder;
pub(crate) mod text;
pub(crate) mod trace;

use crate::encoding::key::MAX_SEQUENCE;
use crate::error::Result;
use crate::sync::pin;
use crate::table::{LookupKey, SstReader};

use self::recorder::Recorder;
use self::trace::TableTrace;
use super::probe::search_and_read;
use super::stage::Observer;

impl SstReader {
    /// Looks up the newest entry of a key in this table, as a database would, and returns the
    /// trace. A range deletion that covers the key is reported but not applied.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or a block that the lookup needs is damaged. A damaged filter
    /// is no error: the trace says that it could not be trusted.
    pub fn explain(&self, user_key: &[u8]) -> Result<TableTrace> {
        let table = self.checked_table()?;
        let counters = &table.block_file().counters;
        let tickers = counters.on_thread(&pin());
        let key = LookupKey::new(user_key, MAX_SEQUENCE);
        let deleted_at = table.ranges().map_or(0, |r| r.covering(user_key, key.sequence));
        let recorder = Recorder::new(counters);
        recorder.begin(table, deleted_at);
        let found = search_and_read(table, &key, tickers, Observer::new(&recorder))?;
        Ok(recorder.finish(found.as_ref()))
    }
}
