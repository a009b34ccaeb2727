//! Verification: reads every table of all keyspaces, to find out whether all of them can be read,
//! and whether the order of each tree is what lookups rely on ([`crate::version::order`]).

use crate::db::background::jobs::read_in_this_thread;
use crate::db::inner::Inner;
use crate::error::Result;
use crate::fs;
use crate::sync::atomic::Ordering;
use crate::version::{Recovered, names, order};

/// What [`Db::verify`](crate::Db::verify) has read, of all keyspaces, all of it sound.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// let report = db.verify()?;
/// println!("{} tables, {} entries", report.tables, report.entries);
/// assert!(report.strays.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Tables read whole.
    pub tables: usize,
    /// Entries in them, range deletions not counted.
    pub entries: u64,
    /// Range deletions in them.
    pub range_deletions: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
    /// Keys that a table holds although its filter denies them. Any number but 0 is a bug of
    /// Maypole.
    pub filter_misses: u64,
    /// One line for each table with entries of a kind that this build does not understand, such as
    /// merge operands: the table, the first such key, and how many there are. A read of a key whose
    /// newest version is such an entry returns an error. Compactions keep these entries and all
    /// older versions of their keys.
    pub not_understood: Vec<String>,
    /// Entries that are in logs and in no table yet, range deletions included. The call does not
    /// read the logs. An opening checks the records that it replays.
    pub log_entries: usize,
    /// Files that have names of database files, but do not belong to this database. They are left
    /// alone.
    pub strays: Vec<String>,
}

pub(in crate::db) fn verify(inner: &Inner) -> Result<VerifyReport> {
    // Tables are opened by name, and another owner of the directory could have other tables there.
    let _working = read_in_this_thread(inner)?;
    let mut report = VerifyReport::default();
    for tree in inner.database.trees.all() {
        verify_tree(&inner.with_tree(tree), &mut report)?;
    }
    // The names are read before the number, because jobs may create files meanwhile.
    let names = fs::names_in(&*inner.database.store.fs, &inner.database.store.dir)?;
    let next_file = inner.database.store.next_file.load(Ordering::Relaxed);
    let most = match inner.database.store.keeps_tables_open {
        // A writer may have created files since this handle was opened.
        true => Recovered { next_file, ..Recovered::default() }.most_file_number(),
        false => next_file,
    };
    report.strays = names::strays(&names, most);
    Ok(report)
}

fn verify_tree(inner: &Inner, report: &mut VerifyReport) -> Result<()> {
    let read_state = inner.tree.reading.current();
    for (level, file) in read_state.sources.version.files() {
        // Checked for each table, so that closing the database waits for one table at most.
        inner.database.status.check_open()?;
        // Each table is opened again, so that the check notices if another file has taken its name.
        // But a read-only handle reads the files that it keeps open, because a writer may have
        // deleted their names, which is no damage.
        let survey = match inner.database.store.keeps_tables_open {
            true => file.table.survey()?,
            false => inner.database.store.open(file.meta.clone(), level)?.table.survey()?,
        };
        report.not_understood.extend(survey.not_understood(file.path()));
        let checked = survey.check;
        report.tables += 1;
        report.entries += checked.entries;
        report.range_deletions += checked.range_deletions;
        report.file_bytes += file.meta.file_bytes;
        report.filter_misses += checked.filter_misses;
    }
    let goes_on = || inner.database.status.check_open().map(drop);
    if let Some(disorder) = order::find_disorder(&read_state.sources.version, goes_on)? {
        return Err(disorder);
    }
    report.log_entries +=
        read_state.sources.memtables().map(|memtable| memtable.len()).sum::<usize>();
    Ok(())
}
