//! [`Directory`]: the current files of a RocksDB database.
//!
//! ```text
//! CURRENT ─► MANIFEST ─► families, tables
//! names   ─► NNNNNN.log from the first one that a family needs     OPTIONS-NNNNNN, the newest
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Manifest, OptionsText};
use crate::error::{Error, Result};
use crate::fs::{self, Fs};
use crate::known_files::{MAYPOLE_LOG, refuse_foreign_database};
use crate::version::{current_manifest, names};

/// The current files of a database's directory, and the contents of its MANIFEST and OPTIONS.
#[derive(Debug)]
pub(crate) struct Directory {
    pub dir: PathBuf,
    pub manifest: Manifest,
    /// Numbers of the logs that a family may need, ascending.
    pub logs: Vec<u64>,
    /// `None` if there is no OPTIONS file, or if it cannot be read.
    pub options: Option<OptionsText>,
    /// Numbers of the tables whose names end in `.ldb`, as in LevelDB.
    ldb_tables: BTreeSet<u64>,
}

impl Directory {
    /// # Errors
    /// [`Error::NoDatabase`] if there is no database; [`Error::Unsupported`] for a database of
    /// Maypole's own, for one without `CURRENT`, and for features that this build does not have;
    /// [`Error::Corruption`] for damage.
    pub fn read(fs: &dyn Fs, dir: &Path) -> Result<Directory> {
        let number = current(fs, dir)?;
        let path = dir.join(names::manifest_name(number));
        let listed = fs::names_in(fs, dir)?;
        refuse_own(fs, dir, &path)?;
        let manifest = Manifest::read(fs, &path, number)?;
        let first = manifest.first_log();
        let numbers = |ending: &'static str| {
            listed.iter().filter_map(move |name| number_before(ending, name))
        };
        let mut logs: Vec<u64> = numbers(".log").collect();
        logs.retain(|&log| log >= first);
        logs.sort_unstable();
        let directory = Directory {
            dir: dir.to_owned(),
            manifest,
            options: OptionsText::newest(fs, dir, &listed),
            ldb_tables: numbers(".ldb").collect(),
            logs,
        };
        directory.check_logs_are_here(fs)?;
        Ok(directory)
    }

    /// Whether `CURRENT` names another MANIFEST than when the directory was read, or the MANIFEST
    /// has another length. In both cases a program has written to the database since then, and may
    /// have overwritten logs while they were read.
    pub fn has_changed(&self, fs: &dyn Fs) -> Result<bool> {
        Ok(current(fs, &self.dir)? != self.manifest.number
            || fs.open(&self.manifest.path)?.len() != self.manifest.file_bytes)
    }

    pub fn log_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:06}.log"))
    }

    pub fn table_path(&self, number: u64) -> PathBuf {
        match self.ldb_tables.contains(&number) {
            true => self.dir.join(format!("{number:06}.ldb")),
            false => names::table_path(&self.dir, number),
        }
    }

    /// Rejects a database whose logs are in another directory: its own directory has no log that a
    /// family may need, and the option `wal_dir` names a directory that has some. RocksDB stores
    /// `wal_dir` even if it is the database's own directory, so the options of a copied database
    /// name the directory of the original. Therefore a `wal_dir` with a `CURRENT` is taken for the
    /// original, and its logs are ignored.
    fn check_logs_are_here(&self, fs: &dyn Fs) -> Result<()> {
        let wal_dir = self.options.as_ref().and_then(|options| options.database("wal_dir"));
        let Some(wal_dir) = wal_dir.filter(|dir| !dir.is_empty()).map(Path::new) else {
            return Ok(());
        };
        if !self.logs.is_empty() || wal_dir == self.dir {
            return Ok(());
        }
        let first = self.manifest.first_log();
        let holds_logs = |names: Vec<String>| {
            let is_live = |name: &String| number_before(".log", name) >= Some(first);
            !names.iter().any(|name| name == "CURRENT") && names.iter().any(is_live)
        };
        match fs.list(wal_dir).is_ok_and(holds_logs) {
            false => Ok(()),
            true => Err(Error::Unsupported {
                file: self.dir.clone(),
                what: format!(
                    "write-ahead logs in another directory ({}, wal_dir); copy or link its .log files \
                     into the database's directory",
                    wal_dir.display()
                ),
            }),
        }
    }
}

/// The number of the MANIFEST that `CURRENT` names. If there is no `CURRENT`, the error says what
/// the directory is, as far as that is known.
fn current(fs: &dyn Fs, dir: &Path) -> Result<u64> {
    let Some(number) = current_manifest(fs, dir)? else {
        refuse_foreign_database(fs, dir)?;
        return Err(Error::NoDatabase { path: dir.to_owned() });
    };
    Ok(number)
}

/// Rejects a database of Maypole's own, whose files have the same names.
fn refuse_own(fs: &dyn Fs, dir: &Path, manifest: &Path) -> Result<()> {
    if fs::head(fs, manifest, MAYPOLE_LOG.len() as u64)? != MAYPOLE_LOG {
        return Ok(());
    }
    let what = "this is a database of Maypole's own; Db::open and the other commands read it";
    Err(Error::Unsupported { file: dir.to_owned(), what: what.into() })
}

/// The number in a name that consists of a number and `ending`.
fn number_before(ending: &str, name: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    let number = digits.parse().ok()?;
    (format!("{number:06}") == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::{EditBytes, LogBytes, put_file};
    use super::*;
    use crate::fs::MemFs;

    fn manifest() -> Vec<u8> {
        let mut edit = EditBytes::default();
        edit.number(2, 7).number(3, 9).number(4, 0);
        let mut log = LogBytes::new(None);
        log.add(&edit.0);
        log.bytes
    }

    fn directory(files: &[(&str, &[u8])]) -> MemFs {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/db")).unwrap();
        for (name, bytes) in files {
            put_file(&fs, &Path::new("/db").join(name), bytes);
        }
        fs
    }

    #[test]
    fn the_logs_that_a_family_needs_are_found_and_strangers_are_not() {
        let manifest = manifest();
        let fs = directory(&[
            ("CURRENT", b"MANIFEST-000005\n"),
            ("MANIFEST-000005", &manifest),
            ("000006.log", b""),
            ("000012.log", b""),
            ("000007.log", b""),
            ("7.log", b""),
            ("1234567.log", b""),
            ("000008.sst", b""),
            ("LOG", b""),
        ]);
        let read = Directory::read(&fs, Path::new("/db")).unwrap();
        assert_eq!(read.logs, [7, 12, 1_234_567]);
        assert!(read.options.is_none() && !read.has_changed(&fs).unwrap());
        // First the MANIFEST has another length; then `CURRENT` names another MANIFEST.
        put_file(&fs, Path::new("/db/MANIFEST-000005"), &manifest[..manifest.len() - 1]);
        assert!(read.has_changed(&fs).unwrap());
        put_file(&fs, Path::new("/db/CURRENT"), b"MANIFEST-000010\n");
        assert!(read.has_changed(&fs).unwrap());
    }

    #[test]
    fn a_current_of_any_other_form_is_damage() {
        let manifest = manifest();
        for current in
            ["", "MANIFEST-000005", "MANIFEST-5\n", "MANIFEST-000005\n\n", "000005.sst\n"]
        {
            let fs = directory(&[("CURRENT", current.as_bytes()), ("MANIFEST-000005", &manifest)]);
            let error = Directory::read(&fs, Path::new("/db")).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{current:?}: {error}");
        }
        let error = Directory::read(&directory(&[]), Path::new("/db")).unwrap_err();
        assert!(matches!(error, Error::NoDatabase { .. }), "{error}");
    }

    #[test]
    fn a_database_of_maypoles_is_refused_by_name() {
        let own = [&MAYPOLE_LOG[..], &[0; 40]].concat();
        let fs = directory(&[("CURRENT", b"MANIFEST-000005\n"), ("MANIFEST-000005", &own)]);
        let error = Directory::read(&fs, Path::new("/db")).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("Maypole"), "{error}");
    }

    #[test]
    fn tables_are_found_with_the_ending_of_leveldb_too() {
        let manifest = manifest();
        let fs = directory(&[
            ("CURRENT", b"MANIFEST-000005\n"),
            ("MANIFEST-000005", &manifest),
            ("000003.ldb", b""),
            ("000004.sst", b""),
            ("5.ldb", b""),
        ]);
        let read = Directory::read(&fs, Path::new("/db")).unwrap();
        let name = |number| read.table_path(number).file_name().unwrap().to_owned();
        assert_eq!([3, 4, 5].map(name), ["000003.ldb", "000004.sst", "000005.sst"]);
    }

    /// A database without a log is not rejected, because a checkpoint may have none. Nor is a
    /// database rejected whose `wal_dir` is the directory of the database from which it was copied.
    #[test]
    fn logs_in_another_directory_are_missed_only_where_they_are_alone() {
        let manifest = manifest();
        let options = b"[DBOptions]\n  wal_dir=/logs\n";
        let fs = directory(&[
            ("CURRENT", b"MANIFEST-000005\n"),
            ("MANIFEST-000005", &manifest),
            ("OPTIONS-000004", options),
        ]);
        let open = || Directory::read(&fs, Path::new("/db"));
        open().unwrap();
        fs.create_dir_all(Path::new("/logs")).unwrap();
        put_file(&fs, Path::new("/logs/000006.log"), b"");
        open().unwrap();
        put_file(&fs, Path::new("/logs/000007.log"), b"");
        assert!(open().unwrap_err().to_string().contains("/logs"));
        put_file(&fs, Path::new("/logs/CURRENT"), b"MANIFEST-000001\n");
        open().unwrap();
    }
}
