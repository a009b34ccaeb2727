//! The methods of [`Builder`] that act on the directory, such as `open`, `repair` and `destroy`.
//! They are not in `options.rs`, so that `options.rs` need not depend on all the modules that they
//! call.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::directory::refuse_lost_current;
use super::{read_only, writable};
use crate::db::background::schedule::start;
use crate::db::db::Db;
use crate::db::events;
use crate::db::inner::Inner;
use crate::db::maintenance::destroy::{DestroyReport, destroy};
use crate::db::options::{Builder, CacheChoice, lasting};
use crate::db::repair::repair;
use crate::db::repair::report::RepairReport;
use crate::db::rocks;
use crate::db::rocks::database::RocksDb;
use crate::db::stats::publish::read;
use crate::db::stats::published::PublishedStats;
use crate::db::tree_options::check_ranges;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::known_files;
use crate::sync::time::Instant;

/// The handle of a database that was just opened.
fn opened(inner: Inner, read_only: bool, began: Instant) -> Db {
    let trees = inner.database.trees.all();
    let tables = trees.iter().map(|it| it.reading.current().sources.version.files().count()).sum();
    events::opened(&inner.database.store.dir, read_only, tables, began.elapsed());
    Db::of(inner)
}

/// Opening.
impl Builder {
    /// Opens the database. Creates it if it is missing, and recovers it after a crash.
    ///
    /// # Errors
    ///
    /// - [`Error::InvalidArgument`] for an empty path or an option out of its range, before
    ///   anything is touched.
    /// - [`Error::NoDatabase`] where there is no database and [`Builder::create_if_missing`] is
    ///   off.
    /// - [`Error::Locked`] where the database is open elsewhere, also in this process.
    /// - [`Error::Corruption`], with file and offset, where bytes on disk cannot be trusted.
    /// - [`Error::Unsupported`] where a newer version wrote a file.
    /// - [`Error::Io`] where the operating system returns an error. The kind is
    ///   [`ErrorKind::NotADirectory`] where the path is that of a file.
    pub fn open(self) -> Result<Db> {
        self.check()?;
        self.at_its_path(|options| {
            let began = Instant::now();
            let inner = writable::open(options)?;
            start(&inner);
            Ok(opened(inner, false, began))
        })
    }

    /// Opens the database read-only. Nothing is written, not even a lock file, so this works where
    /// the directory cannot be written, on a full disk, and while another `Db` or process has the
    /// database open.
    ///
    /// The handle shows every write up to one point, and none after it. It does not follow a
    /// writer: open the database again to see more. The entries of the WALs are kept in memory.
    /// Every table keeps its file open, whatever [`Builder::max_open_files`] says, because a writer
    /// may delete it at any time.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::open`] except [`Error::Locked`]. Also [`Error::NoDatabase`] where there
    /// is no database, and [`Error::InvalidArgument`] where the process may not open as many files
    /// as there are tables.
    pub fn open_read_only(self) -> Result<Db> {
        self.check()?;
        self.at_its_path(|options| {
            let began = Instant::now();
            Ok(opened(read_only::open(options)?, true, began))
        })
    }

    /// Opens a database of RocksDB read-only, as it is. Nothing is written, and no lock is taken,
    /// so that RocksDB may have it open meanwhile. The handle shows every write up to one point,
    /// and none after it. RocksDB's own recovery would show the same writes.
    ///
    /// Only the options of the block cache, of pinned metadata and of the file system take effect.
    ///
    /// # Errors
    ///
    /// - [`Error::NoDatabase`] where there is none.
    /// - [`Error::Unsupported`] where the directory is another program's, or where the whole
    ///   database needs what this build lacks, for example if a log has a two-phase transaction.
    ///   Where only one column family needs something that is missing, [`RocksDb::column_family`]
    ///   returns the error.
    /// - [`Error::Corruption`] where CURRENT, the MANIFEST, a synced log or a table's end is
    ///   damaged.
    /// - [`Error::InvalidArgument`] where the process may not open as many files as there are
    ///   tables, or where a writer changed the directory during each of ten attempts to read it.
    pub fn open_rocksdb(self) -> Result<RocksDb> {
        self.check()?;
        let options = Builder { path: lasting(&*self.fs, &self.path)?, ..self };
        rocks::open::open(options)
    }

    /// Rebuilds a database that cannot be opened, from the files that are left in the directory.
    /// `CURRENT` or the MANIFEST may be lost or damaged, and tables or WALs may be damaged or
    /// missing. The call reads every byte, and changes nothing if nothing is wrong.
    ///
    /// - Where a MANIFEST is whole, the tables stay. Damaged tables are replaced by what can be
    ///   read of them.
    /// - Otherwise all tables and WALs are merged into new tables, except for those tables that a
    ///   readable part of a MANIFEST lists as removed. The new tables take as much space again as
    ///   the old ones. Deleted keys may come back from an obsolete table that a crash left over. Each
    ///   table names its keyspace, which gets the options of this builder if no part of a MANIFEST
    ///   has its own. A table that was ingested names none, and goes to the keyspace `default`.
    /// - The writes in the WALs are kept up to the first damage, so that no write comes back
    ///   without the writes before it. See [`Builder::salvage_logs`].
    ///
    /// No table, WAL or MANIFEST is deleted. Afterwards the files that are no longer part of the
    /// database are in its subdirectory `lost`: remove them when the result is good. An interrupted
    /// repair can be started again.
    ///
    /// The report says what was wrong, which keys may be missing or have an older value, and what
    /// was moved.
    ///
    /// # Errors
    ///
    /// - [`Error::NoDatabase`] where no part of a database is there.
    /// - [`Error::Locked`] where it is open elsewhere.
    /// - [`Error::Unsupported`] where a newer version wrote a file.
    /// - [`Error::Io`] where the operating system returns an error.
    pub fn repair(self) -> Result<RepairReport> {
        self.check()?;
        self.at_its_path(|options| repair(&options))
    }

    /// Removes every file of the database. The directory stays, with any other files in it, which
    /// the report names.
    ///
    /// Read-only handles hold no lock, so the call does not fail because of them. They continue
    /// with what they have in memory and the files that they have open, or return errors.
    ///
    /// An interrupted removal can be started again.
    ///
    /// # Errors
    ///
    /// - [`Error::NoDatabase`] where no part of a database is there.
    /// - [`Error::Locked`] where it is open elsewhere, also in this process.
    /// - [`Error::Corruption`] or [`Error::Unsupported`] where `CURRENT` or the MANIFEST cannot be
    ///   read as a file of Maypole, or where `CURRENT` is missing although tables or a log with
    ///   writes are there. Nothing is removed then, because the files may be another program's.
    /// - [`Error::Io`] where the operating system returns an error. Some files may already be
    ///   removed.
    pub fn destroy(self) -> Result<DestroyReport> {
        self.at_its_path(|options| destroy(&options))
    }

    /// The counters that were published last. They are published by the process that has the
    /// database open for writing, and remain after it has closed the database. `None` if no process
    /// has published any. Reads one small file and does not open the database. See
    /// [`Builder::publish_stats`].
    ///
    /// # Errors
    ///
    /// - [`Error::NoDatabase`] where there is none.
    /// - [`Error::Corruption`] where the file with the counters is damaged or not one of Maypole's.
    ///   The next owner that publishes counters replaces this file.
    /// - [`Error::Unsupported`] where a newer version wrote that file.
    /// - [`Error::Io`] where the operating system returns an error.
    pub fn published_stats(self) -> Result<Option<PublishedStats>> {
        self.at_its_path(|options| read(&options))
    }

    /// Runs `call` with the absolute path. If the path is that of a file, the error is the same on
    /// all operating systems, although each of them fails in another way.
    fn at_its_path<T>(mut self, call: impl FnOnce(Builder) -> Result<T>) -> Result<T> {
        self.path = lasting(&*self.fs, &self.path)?;
        let (fs, path) = (Arc::clone(&self.fs), self.path.clone());
        // The directories of other programs are rejected before anything is written there, even a
        // lock file.
        known_files::refuse_foreign_database(&*fs, &path)?;
        call(self).map_err(|error| match error {
            Error::NoDatabase { .. } if !is_file(&*fs, &path) => {
                let known = known_files::refuse_guest(&*fs, &path);
                known.and_then(|()| refuse_lost_current(&*fs, &path)).err().unwrap_or(error)
            }
            Error::Io { .. } | Error::NoDatabase { .. } if is_file(&*fs, &path) => {
                let mut what = "this is a file, and a database is a directory".to_string();
                if let Some(known) = known_files::of_file(&*fs, &path) {
                    what += &format!("; {known}");
                }
                let source = io::Error::new(ErrorKind::NotADirectory, what);
                Error::io(&path, "open the database", source)
            }
            error => error,
        })
    }

    fn check(&self) -> Result<()> {
        if let Some(error) = &self.filter_error {
            return Err(Error::InvalidArgument(error.clone()));
        }
        if let CacheChoice::Shared(cache) = &self.cache {
            cache.process().check()?;
        }
        let publish_millis = self.publish_interval.map_or(1000, |interval| interval.as_millis());
        let publish_millis = u64::try_from(publish_millis).unwrap_or(u64::MAX);
        self.tree.check()?;
        check_ranges(&[
            ("compaction_threads", self.compaction_threads as u64, 1, 64),
            ("max_open_files", self.max_open_files.unwrap_or(1) as u64, 1, 1 << 20),
            ("milliseconds of publish_stats", publish_millis, 10, 24 * 60 * 60 * 1000),
        ])
    }
}

/// Whether the path is that of a file and not of a directory.
fn is_file(fs: &dyn Fs, path: &Path) -> bool {
    let no_directory = |error: Error| match error {
        Error::Io { source, .. } => source.kind() == ErrorKind::NotADirectory,
        _ => false,
    };
    fs.exists(path).unwrap_or(false) && fs.list(path).is_err_and(no_directory)
}
