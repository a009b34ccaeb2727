//! Verification: reads every table of all keyspaces, to find out whether all of them can be read,
//! and whether the order of each tree is what lookups rely on ([`crate::version::order`]).

use crate::db::background::jobs::read_in_this_thread;
use crate::db::inner::Inner;
use crate::error::{Damage, Result};
use crate::fs;
use crate::sync::atomic::Ordering;
use crate::table::Survey;
use crate::version::{Recovered, TableFile, names, order};

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
        check_sequences(file, &survey)?;
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

/// Checks that no entry has a larger sequence number than the MANIFEST states of the table. Whether a
/// snapshot sees an entry, and which of two tables is newer, is decided by these numbers.
fn check_sequences(file: &TableFile, survey: &Survey) -> Result<()> {
    let stated = file.meta.largest_sequence;
    match survey.sequences {
        Some((_, largest)) if largest > stated => {
            let expected = format_args!("sequence numbers up to {stated}").to_string();
            Err(Damage::new(0, expected, largest).in_file(file.path(), 0))
        }
        _ => Ok(()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use crate::error::Error;
    use crate::fs::{Fs, MemFs};
    use crate::memory::LineBuf;
    use crate::table::format::checksum::ChecksumKind;
    use crate::{Compression, Db};

    /// An entry whose number is above that of its table is hidden at first, and is shown later above
    /// newer ones. The checksum of its block is right.
    #[test]
    fn an_entry_that_is_newer_than_its_table_is_named() {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let open = || {
            Db::builder("/db").fs(Arc::clone(&fs)).compression(Compression::None).open().unwrap()
        };
        let db = open();
        ["ant", "bee", "cat"].iter().for_each(|key| db.put(key, "").unwrap());
        db.flush().unwrap();
        let read_state = db.inner.tree.reading.current();
        let (_, file) = read_state.sources.version.files().next().unwrap();
        let path = file.path().to_owned();
        let index = file.table.read_index(LineBuf::zeroed).unwrap();
        let end = index.handle(0).bytes as usize;
        db.verify().unwrap();
        drop(read_state);
        db.close().unwrap();

        let mut bytes = fs.read(&path).unwrap();
        let bee = bytes.windows(3).position(|key| key == b"bee").unwrap();
        assert_eq!(bytes[bee + 3..bee + 5], [1, 2], "kind and sequence number");
        bytes[bee + 4] = 4;
        let sum = ChecksumKind::Xxh3.of(&bytes[..=end]);
        bytes[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
        let mut file = fs.create(&path).unwrap();
        file.append(&bytes).unwrap();
        file.flush().unwrap();
        let error = open().verify().unwrap_err();
        assert!(matches!(&error, Error::Corruption { file, .. } if *file == path), "{error}");
        assert!(error.to_string().contains("sequence numbers up to 3"), "{error}");
    }
}
