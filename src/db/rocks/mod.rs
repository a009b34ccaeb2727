//! RocksDB's databases, read as they are.
//!
//! ```text
//!   RocksDb                            the directory (`crate::rocksdb`), opened without a trace
//!     ├─ column family ─► Db           a version of its tables, memtables of what is in logs: the
//!     └─ …                             same lookups, cursors, checks and counters as Maypole's own
//! ```
//!
//! Each family is a [`Db`] that is opened read-only. Only its opening differs (`open.rs`), and the
//! lookups in a tree whose tables have no order (`groups.rs`). `import.rs` makes a database of
//! Maypole's of one, with `merge.rs` where tables cannot stay as they are, and `export.rs` one of
//! RocksDB's of a database of Maypole's.
//!
//! A directory of LevelDB is one of RocksDB's with one family, older tables and fewer fields.

mod export;
mod groups;
mod import;
#[cfg(test)]
mod leveldb_tests;
mod merge;
mod open;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use export::ExportReport;
pub use import::ImportReport;

use super::{Builder, Db};
use crate::error::{Error, Result};
use crate::rocksdb::OptionsText;

/// A database of RocksDB's, opened read-only as it stands: see [`RocksDb::open_read_only`].
///
/// Read: RocksDB 5 and later; levelled, universal and FIFO compaction; keys in the order of their
/// bytes; write-ahead logs, also compressed and recycled ones; RocksDB's own filters. Every table
/// keeps its file open, and the entries of the logs are kept in memory.
///
/// Databases of LevelDB are read too: they have one column family, `default`, and their filters are
/// not used.
///
/// Refused by name, each for its column family alone: other comparators, user-defined timestamps,
/// tables in other directories, and tables below level 6. Merge operands, wide columns and values
/// in blob files are [`Error::Unsupported`] at the read of their key.
///
/// ```no_run
/// use maypole::RocksDb;
///
/// let rocks = RocksDb::open_read_only("/var/lib/app/rocksdb")?;
/// for family in rocks.column_families() {
///     println!("{}: {} tables", family.name, family.tables);
/// }
/// let db = rocks.column_family("default")?;
/// println!("{:?}", db.get("key")?);
/// println!("{}", db.stats());
/// # Ok::<(), maypole::Error>(())
/// ```
#[derive(Debug)]
pub struct RocksDb {
    path: PathBuf,
    families: Vec<ColumnFamily>,
    /// Of the same positions; `None` where a family is refused.
    databases: Vec<Option<Db>>,
    /// Of the same positions: the number of a table that refers to blob files.
    with_blobs: Vec<Option<u64>>,
    options: Option<OptionsText>,
}

/// A column family of a [`RocksDb`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnFamily {
    /// Its name; `default` is always there.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// The name of its comparator.
    pub comparator: String,
    /// Its tables.
    pub tables: usize,
    /// Bytes of all its tables.
    pub file_bytes: u64,
    /// The filter that OPTIONS asks for, in RocksDB's words: `bloomfilter:10:false`. `None` where
    /// OPTIONS names none or is missing. The tables may have others.
    pub filter_policy: Option<String>,
    /// Why this build does not read it, in words; `None`: it does.
    pub not_supported: Option<String>,
}

impl RocksDb {
    /// Opens the RocksDB database in the directory `path` with default options. See
    /// [`Builder::open_rocksdb`].
    ///
    /// # Errors
    ///
    /// As [`Builder::open_rocksdb`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<RocksDb> {
        Db::builder(path).open_rocksdb()
    }

    pub(super) fn open_with(options: Builder) -> Result<RocksDb> {
        open::open(options)
    }

    /// The number of a table of a column family that refers to blob files.
    fn with_blobs(&self, name: &str) -> Option<u64> {
        let position = self.families.iter().position(|family| family.name == name)?;
        self.with_blobs[position]
    }

    /// The column families, by their numbers. The first one is `default`.
    pub fn column_families(&self) -> &[ColumnFamily] {
        &self.families
    }

    /// An option of a column family or of its tables, as the newest OPTIONS file has it:
    /// `option("default", "filter_policy")`. `None` where the file is missing or does not name it.
    pub fn option(&self, column_family: &str, name: &str) -> Option<&str> {
        let options = self.options.as_ref()?;
        options.table(column_family, name).or_else(|| options.family(column_family, name))
    }

    /// A column family, as a database that is opened read-only: every call that reads serves, and
    /// every call that writes answers [`Error::OpenedReadOnly`]. It stays open when the [`RocksDb`]
    /// is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] where there is none of this name, [`Error::Unsupported`] where
    /// this build does not read it.
    pub fn column_family(&self, name: &str) -> Result<Db> {
        let Some(position) = self.families.iter().position(|family| family.name == name) else {
            let names: Vec<_> = self.families.iter().map(|family| &family.name[..]).collect();
            return Err(Error::InvalidArgument(format!(
                "{}: there is no column family \"{}\"; there are: {}",
                self.path.display(),
                name.escape_debug(),
                names.join(", ").escape_debug()
            )));
        };
        let reason = || self.families[position].not_supported.clone().unwrap_or_default();
        self.databases[position].clone().ok_or_else(|| Error::Unsupported {
            file: self.path.clone(),
            what: format!("the column family \"{}\": {}", name.escape_debug(), reason()),
        })
    }
}
