//! Reading everything once, to know that it can be read.

use std::sync::atomic::Ordering;

use super::Inner;
use crate::error::Result;
use crate::sync::pin;
use crate::version::names;

/// What [`Db::verify`](crate::Db::verify) looked at, all of it sound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Tables read whole.
    pub tables: usize,
    /// Entries in them, range deletions not counted.
    pub entries: u64,
    /// Range deletions in them.
    pub range_deletions: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
    /// Keys that a filter denied, though they are there. Anything but 0 is a bug.
    pub filter_misses: u64,
    /// Entries that only the logs hold, range deletions included. They were checked at opening.
    pub log_entries: usize,
    /// Files whose names look like a database's and that are none of this one. They were left alone.
    pub strays: Vec<String>,
}

impl Inner {
    pub(super) fn verify(&self) -> Result<VerifyReport> {
        self.check_open()?;
        let read_state = self.read_state.load_arc(&pin());
        let mut report = VerifyReport::default();
        for (level, file) in read_state.version.files() {
            // Opened anew: the file that has the name now may not be the one that is open. Beside a
            // writer the name may lawfully be gone.
            let checked = match self.store.keeps_tables_open {
                true => file.table.verify()?,
                false => self.store.open(file.meta.clone(), level)?.table.verify()?,
            };
            report.tables += 1;
            report.entries += checked.entries;
            report.range_deletions += checked.range_deletions;
            report.file_bytes += file.meta.file_bytes;
            report.filter_misses += checked.filter_misses;
        }
        report.log_entries = read_state.memtables().map(|memtable| memtable.len()).sum();
        let most = self.store.next_file.load(Ordering::Relaxed);
        report.strays = names::strays(&self.store.fs.list(&self.store.dir)?, most);
        Ok(report)
    }
}
