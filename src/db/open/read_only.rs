//! Opens a database read-only, even while a writer has it open.
//!
//! ```text
//!   names ─► CURRENT ─► MANIFEST ─► tables ─► WALs    nothing is written, nothing is locked
//!     ▲                                        │
//!     └── a file is gone, a gap, something looks damaged: look again
//! ```
//!
//! A writer may continue meanwhile. It may delete a table or a WAL that the MANIFEST lists. It
//! copies a record into its log piece by piece, so that a reader may see half of one record with a
//! whole record after it. All this looks like damage, but is none. So after any such *obstacle*,
//! everything except the open tables is read again. The obstacle is *believed*,
//! which means that no writer is taken to be its cause, if [`BELIEVED_AFTER`] attempts in a row
//! meet it while nothing in the directory changes, or after [`MAX_LOOKS`] attempts. If the obstacle
//! is a gap in the sequence numbers, the opening then succeeds with the writes before the gap.
//! Otherwise the opening fails. An error that a writer cannot cause is returned at once.
//!
//! **Why the result is one state of the database.** The WALs must continue the sequence numbers of
//! the MANIFEST without a gap, and its keyspaces must be those that there are after the logs are
//! read. So all writes up to the last one found are in the tables or in the WALs that were read,
//! whatever the writer has deleted since. The head of `directory.rs` says why every write that was
//! acknowledged before the opening is among them.

use std::time::Duration;

use super::directory::{Directory, OpenTables, no_database, table_store};
use super::recover::Replay;
use super::writable::only_read;
use crate::db::inner::Inner;
use crate::db::options::Builder;
use crate::error::{Error, Result};
use crate::fs::{self, OpenFilesLimit, open_files_limit, raise_open_files_limit};
use crate::sync::thread;
use crate::table::TableContext;
use crate::version::{Recovered, read_current};

/// An obstacle is believed after this number of consecutive attempts have met it.
const BELIEVED_AFTER: u32 = 6;
/// The maximum number of attempts. A writer is unlikely to change the directory during each of
/// them.
const MAX_LOOKS: u32 = 1000;
/// The number of descriptors that the limit of open files must allow in addition to those of the
/// tables, for the rest of the program.
const OTHER_OPEN_FILES: u64 = 32;
/// After the n-th consecutive attempt that met the same obstacle, the reader waits for `FIRST_WAIT`
/// × 2^n, at most for `MAX_WAIT`.
const FIRST_WAIT: Duration = Duration::from_micros(500);
const MAX_WAIT: Duration = Duration::from_millis(20);

/// An obstacle, and the state of the directory when it was met.
#[derive(PartialEq)]
struct Obstacle {
    what: String,
    /// Number of the MANIFEST and the bytes read of it; `None` where it could not be read.
    manifest: Option<(u64, u64)>,
    files: Vec<String>,
}

pub(crate) fn open(options: Builder) -> Result<Inner> {
    if !options.fs.exists(&options.path)? {
        return Err(no_database(&options.path));
    }
    let options = options.anchored()?;
    let mut kept = OpenedTables::default();
    let mut last: Option<Obstacle> = None;
    let mut met = 0;
    for look in 1.. {
        let mut manifest = None;
        let (what, otherwise) = match attempt(&options, &mut kept, &mut manifest) {
            Ok(Attempt { inner, gap: None }) => return Ok(inner),
            // A changed keyspace may be missing among the writes that came after it. A gap has two
            // possible causes: a power loss took the end of a log, which is no
            // damage, or an active writer deleted a log after this process had listed the
            // directory. So the directory is read again.
            Ok(Attempt { inner, gap: Some(gap) }) => (gap, Ok(inner)),
            Err(error) if error.is_damage() => (error.to_string(), Err(error)),
            Err(error) => return Err(error),
        };
        let files = fs::names_in(&*options.fs, &options.path)?;
        let obstacle = Obstacle { what, manifest, files };
        met = if last.as_ref() == Some(&obstacle) { met + 1 } else { 1 };
        if met >= BELIEVED_AFTER || look >= MAX_LOOKS {
            return otherwise;
        }
        last = Some(obstacle);
        drop(otherwise);
        thread::sleep(MAX_WAIT.min(FIRST_WAIT * 2u32.pow(met)));
    }
    unreachable!("the last look answers")
}

/// What one attempt keeps for the next. An open table stays open, even when its name is deleted, so
/// the next attempt opens only new tables. Without this, a writer that deletes tables faster than a
/// reader opens them could make every attempt fail.
#[derive(Default)]
pub(in crate::db) struct OpenedTables {
    /// The cache and the counters of the open tables.
    pub context: Option<TableContext>,
    pub tables: OpenTables,
}

struct Attempt {
    inner: Inner,
    /// Where the sequence numbers of the WALs have a gap.
    gap: Option<String>,
}

fn attempt(
    options: &Builder,
    kept: &mut OpenedTables,
    manifest: &mut Option<(u64, u64)>,
) -> Result<Attempt> {
    let directory = Directory::read(&*options.fs, &options.path)?;
    directory.refuse_lost_current(&*options.fs, &options.path)?;
    let Some(recovered) = &directory.recovered else { return Err(no_database(&options.path)) };
    *manifest = Some(recovered.manifest);
    allow_open_files(recovered.files.len() as u64)?;
    let mut store = table_store(options, &directory, true);
    store.context = kept.context.get_or_insert(store.context).clone();
    let (replayed, gap) = Replay::run(&store, options, &directory, &mut kept.tables, false)?;
    let gap = match gap {
        Some(gap) => Some(gap.to_string()),
        // The logs may have writes that came after the drop or the creation of a keyspace. After the
        // creation of the first one they may not: the MANIFEST lists it before a log is started for
        // what comes later, and the names were read before the MANIFEST.
        None if recovered.next_keyspace > 0 => {
            let current = read_current(&*options.fs, &options.path)?;
            let is_same = |it: Recovered| it.keyspaces.keys().eq(recovered.keyspaces.keys());
            let is_changed = !current.is_some_and(is_same);
            is_changed.then(|| "a keyspace was created or dropped".to_owned())
        }
        None => None,
    };
    Ok(Attempt { inner: only_read(options.clone(), store, replayed), gap })
}

/// Raises the limit of open files of the process if necessary, because every table keeps its file
/// open.
pub(in crate::db) fn allow_open_files(tables: u64) -> Result<()> {
    let needed = tables.saturating_add(OTHER_OPEN_FILES);
    let allows = |limit: OpenFilesLimit| needed <= limit.soft;
    if allows(open_files_limit()) || allows(raise_open_files_limit()) {
        return Ok(());
    }
    let limit = open_files_limit();
    Err(Error::InvalidArgument(format!(
        "a read-only handle keeps all tables open: {tables} tables and {OTHER_OPEN_FILES} other files need \
         {needed} descriptors, but the process may open {} (ulimit -n); raise the limit",
        limit.soft
    )))
}
