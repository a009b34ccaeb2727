//! [`LookupRecording`]: what a program looks up, and what came of it, for the advice on filters.

pub(in crate::db) mod recorder;

use std::path::Path;

use super::db::Db;
use super::inner::Inner;
use crate::error::{Error, Result};
use crate::fs::{Fs, RealFs};

/// A recording of lookups, which [`Db::record_lookups`] has begun. It ends when this value is
/// dropped, when the database is closed, or at the first error.
pub struct LookupRecording {
    inner: Inner,
    number: u64,
}

impl Db {
    /// Records one of `one_in` lookups, drawn at random, in the text file `path`. The file says what
    /// the program really asks for, and `maypole advise --query-file` and `maypole compare
    /// --query-file` say what each filter would do for it.
    ///
    /// Each line is a key, a tab, and what came of the lookup:
    ///
    /// ```text
    /// user:4711<TAB>L3           found in level 3; memtable: found before it was flushed
    /// user:4712<TAB>absent       no table and no memtable has the key
    /// a\\x00\xff<TAB>deleted     the lookup has found that the key is deleted
    /// ```
    ///
    /// In keys `\xNN` is a byte that is not printable, and `\\` a backslash. Recorded are the
    /// lookups of [`Db::get`], [`Db::get_with`], [`Db::contains_key`], [`Db::multi_get`], of updates,
    /// and of snapshots and transactions, but not those of iterators.
    ///
    /// Lines are written when a buffer of 64 KiB is full, and when the recording ends. The file
    /// grows to 32 MiB. Then it is renamed to `path` with `.old` appended, in place of an earlier one,
    /// and a new file begins. If `path` exists already, it is renamed too. The files are files of the
    /// operating system, whatever file system the database has.
    ///
    /// A lookup never fails because of the recording. The first error ends the recording. It is
    /// counted by [`Ticker::LookupRecordErrors`](crate::Ticker::LookupRecordErrors), and
    /// [`LookupRecording::finish`] returns it. With one lookup in 64, a lookup in memory takes at
    /// most a few per cent longer.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path().join("db"))?;
    /// db.put("key", "value")?;
    /// db.flush()?;
    /// let path = dir.path().join("lookups.tsv");
    /// let recording = db.record_lookups(&path, 1)?;
    /// db.get("key")?;
    /// db.get("ke\ty")?;
    /// assert_eq!(recording.finish()?, 2);
    /// assert_eq!(std::fs::read_to_string(&path)?, "key\tL0\nke\\x09y\tabsent\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`]; [`Error::InvalidArgument`] if lookups are being recorded already, if `one_in`
    /// is 0, or if `path` is a directory, a device, or a file in the directory of the database.
    pub fn record_lookups(&self, path: impl AsRef<Path>, one_in: u32) -> Result<LookupRecording> {
        let recorder = &self.inner.open_reading()?.recorder;
        let path = RealFs.absolute(path.as_ref())?;
        if path.parent() == Some(&self.inner.database.store.dir) {
            let text = format!("{}: the directory is the database's own", path.display());
            return Err(Error::InvalidArgument(text));
        }
        let number = recorder.begin(&path, one_in)?;
        Ok(LookupRecording { inner: self.inner.clone(), number })
    }
}

impl LookupRecording {
    /// Ends the recording. Returns the number of lookups that were recorded.
    ///
    /// # Errors
    ///
    /// The error that has ended the recording before, or that ends it now. What was written before
    /// the error stays. [`Error::Forked`] in a forked child.
    pub fn finish(self) -> Result<u64> {
        self.end()
    }

    fn end(&self) -> Result<u64> {
        self.inner.database.status.process().check()?;
        let reading = &self.inner.tree.reading;
        reading.recorder.end(Some(self.number), reading.counters())
    }
}

/// Ends the recording.
impl Drop for LookupRecording {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl std::fmt::Debug for LookupRecording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LookupRecording").finish_non_exhaustive()
    }
}
