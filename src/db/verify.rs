//! Reading everything once, to know that it can be read.

use super::Inner;
use crate::error::Result;
use crate::sync::pin;

/// What [`Db::verify`](crate::Db::verify) looked at, all of it sound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
}

impl Inner {
    pub(super) fn verify(&self) -> Result<VerifyReport> {
        self.check_open()?;
        let view = self.view.load_arc(&pin());
        let mut report = VerifyReport::default();
        for (_, file) in view.version.files() {
            let checked = file.table.verify()?;
            report.tables += 1;
            report.entries += checked.entries;
            report.range_deletions += checked.range_deletions;
            report.file_bytes += file.meta.file_bytes;
            report.filter_misses += checked.filter_misses;
        }
        Ok(report)
    }
}
