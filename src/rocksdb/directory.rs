//! [`Directory`]: the current files of a RocksDB database.
//!
//! ```text
//! CURRENT ─► MANIFEST ─► families, tables
//! names   ─► NNNNNN.log from the first one that a family needs     OPTIONS-NNNNNN, the newest
//! ```

use std::collections::BTreeSet;
use std::io::ErrorKind;
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

    /// Rejects a database whose own directory has no log that a family may need, if the logs may be
    /// in the directory that the option `wal_dir` names.
    fn check_logs_are_here(&self, fs: &dyn Fs) -> Result<()> {
        let wal_dir = self.options.as_ref().and_then(|options| options.database("wal_dir"));
        let Some(wal_dir) = wal_dir.filter(|dir| !dir.is_empty()).map(Path::new) else {
            return Ok(());
        };
        if !self.logs.is_empty() || self.is_named(wal_dir) {
            return Ok(());
        }
        let how = match is_absolute(wal_dir) {
            true if self.has_its_logs_in(fs, wal_dir)? => "",
            // A writer may have started a log here after `self.logs` were listed.
            false if !self.has_live_log(&fs.list(&self.dir)?) => {
                ", or if there are none, remove wal_dir from the newest OPTIONS file: only the \
                 program that wrote this relative path knows where it leads"
            }
            _ => return Ok(()),
        };
        Err(Error::Unsupported {
            file: self.dir.clone(),
            what: format!(
                "write-ahead logs in another directory ({}, wal_dir); copy or link its .log files \
                 into the database's directory{how}",
                wal_dir.display()
            ),
        })
    }

    /// Whether `wal_dir` is a name of the database's own directory. RocksDB may store it even then,
    /// as the program wrote it, perhaps relative to where the program ran.
    fn is_named(&self, wal_dir: &Path) -> bool {
        let name = wal_dir.strip_prefix(".").unwrap_or(wal_dir);
        !name.as_os_str().is_empty() && self.dir.ends_with(name)
    }

    /// Whether the directory of an absolute path has the logs of this database. The options of a
    /// copied database may name the directory of the original, which may be gone. Therefore a
    /// directory that is missing has no logs, and one with a `CURRENT` is taken for the original,
    /// whose logs are ignored. Any other failure does not tell whether logs are there.
    fn has_its_logs_in(&self, fs: &dyn Fs, wal_dir: &Path) -> Result<bool> {
        match fs.list(wal_dir) {
            Ok(names) => Ok(!names.iter().any(|it| it == "CURRENT") && self.has_live_log(&names)),
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
            Err(Error::Io { path, source, .. }) => {
                let operation = "look for write-ahead logs here (wal_dir in the OPTIONS file)";
                Err(Error::Io { path, operation, source })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether one of these names is that of a log that a family may need.
    fn has_live_log(&self, names: &[String]) -> bool {
        let first = self.manifest.first_log();
        names.iter().any(|name| number_before(".log", name) >= Some(first))
    }
}

/// Whether the path is absolute, here or on Windows, from where the database may have been copied.
fn is_absolute(path: &Path) -> bool {
    let on_windows = |text: &[u8]| match text {
        [b'\\', b'\\', ..] => true,
        [drive, b':', b'\\' | b'/', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    };
    path.has_root() || on_windows(path.as_os_str().as_encoded_bytes())
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
    use std::sync::Arc;

    use super::super::fuzzing::{EditBytes, LogBytes, put_file};
    use super::*;
    use crate::fs::{Fault, FaultFs, MemFs, Operation, Target};

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

    /// A database without a log, whose options have this `wal_dir`.
    fn without_log(wal_dir: &str) -> MemFs {
        let options = format!("[DBOptions]\n  wal_dir={wal_dir}\n");
        directory(&[
            ("CURRENT", b"MANIFEST-000005\n"),
            ("MANIFEST-000005", &manifest()),
            ("OPTIONS-000004", options.as_bytes()),
        ])
    }

    /// A database without a log is not rejected, because a checkpoint may have none. Nor is a
    /// database rejected whose `wal_dir` is the directory of the database from which it was copied.
    #[test]
    fn logs_in_another_directory_are_missed_only_where_they_are_alone() {
        let fs = without_log("/logs");
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

    /// Every failure to list `wal_dir` was once taken for a directory without logs.
    #[test]
    fn a_wal_dir_that_cannot_be_listed_is_an_error_that_names_it() {
        let mem = without_log("/logs");
        let fs = FaultFs::new(Arc::new(mem.clone()));
        let open = || Directory::read(&fs, Path::new("/db"));
        open().unwrap();
        fs.fail_files_from("logs", Target::Only(Operation::List), 0, Fault::Io);
        let error = open().unwrap_err();
        assert!(matches!(&error, Error::Io { path, .. } if path == Path::new("/logs")), "{error}");
        assert!(error.to_string().contains("wal_dir"), "{error}");
        put_file(&mem, Path::new("/db/000007.log"), b"");
        open().unwrap();
    }

    /// A relative `wal_dir` was once looked for in the directory where the reader ran.
    #[test]
    fn a_relative_wal_dir_needs_a_log_that_is_as_new_as_the_manifest_asks() {
        for wal_dir in ["wal", "./wal/", ".", "..", "../db", "b", "wal/db"] {
            let fs = without_log(wal_dir);
            let open = || Directory::read(&fs, Path::new("/db"));
            put_file(&fs, Path::new("/db/000006.log"), b"");
            let error = open().unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{wal_dir}: {error}");
            assert!(error.to_string().contains("remove wal_dir"), "{wal_dir}: {error}");
            put_file(&fs, Path::new("/db/000007.log"), b"");
            open().unwrap();
        }
    }

    /// RocksDB 5 stored the path of the database itself: `small` in the fixture `5.3-small`.
    #[test]
    fn a_wal_dir_that_is_the_database_itself_or_on_windows_is_no_other_directory() {
        for wal_dir in ["db", "./db/", "/db", "/db/.", r"C\:\\db", "C\\:/db", r"\\\\server\\db"] {
            Directory::read(&without_log(wal_dir), Path::new("/db")).unwrap();
        }
    }
}
