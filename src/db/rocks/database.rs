//! [`RocksDb`]: the handle of an open RocksDB directory.

use std::path::{Path, PathBuf};

use crate::db::db::Db;
use crate::encoding::text::escape;
use crate::error::{Error, Result};
use crate::rocksdb::OptionsText;

/// A database of RocksDB's, opened read-only as it is: see [`RocksDb::open_read_only`].
///
/// It reads databases of RocksDB 5 and later: levelled, universal and FIFO compaction; keys in the
/// order of their bytes; write-ahead logs, also compressed and recycled ones; RocksDB's own
/// filters. Every table keeps its file open, and the entries of the logs are kept in memory.
///
/// Databases of LevelDB are read too: they have one column family, `default`, and their filters are
/// not used.
///
/// A column family is rejected, with an error that names the cause, if it has a comparator other
/// than the bytewise one, user-defined timestamps, tables in other directories, or tables in a
/// level deeper than 6. The other families stay readable. If the lookup of a key meets a merge
/// operand, a wide column or a value in a blob file, it fails with [`Error::Unsupported`].
///
/// ```no_run
/// use maypole::RocksDb;
///
/// let rocks = RocksDb::open_read_only("/var/lib/app/rocksdb")?;
/// for family in rocks.column_families() {
///     println!("{}: {} tables", maypole::text::escape(&family.name), family.tables);
/// }
/// let db = rocks.column_family("default")?;
/// println!("{:?}", db.get("key")?);
/// println!("{}", db.stats());
/// # Ok::<(), maypole::Error>(())
/// ```
#[derive(Debug)]
pub struct RocksDb {
    pub(super) path: PathBuf,
    pub(super) families: Vec<ColumnFamily>,
    /// The databases of `families`, at the same positions; `None` where a family is rejected.
    pub(super) databases: Vec<Option<Db>>,
    /// For each of `families`, the number of a table that refers to blob files, if there is one.
    pub(super) with_blobs: Vec<Option<u64>>,
    pub(super) options: Option<OptionsText>,
}

/// A column family of a [`RocksDb`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnFamily {
    /// Its name, which is bytes: some programs have names of control characters. `default` is
    /// always there.
    pub name: Vec<u8>,
    /// Its number.
    pub id: u32,
    /// The name of its comparator.
    pub comparator: String,
    /// The number of its tables.
    pub tables: usize,
    /// Bytes of all its tables.
    pub file_bytes: u64,
    /// The filter that OPTIONS requests, in RocksDB's words: `bloomfilter:10:false`. `None` where
    /// OPTIONS names none or is missing. The tables may have other filters.
    pub filter_policy: Option<String>,
    /// Why Maypole does not read the family, in words; `None` if it does.
    pub not_supported: Option<String>,
}

impl RocksDb {
    /// Opens the RocksDB database in the directory `path` with default options. See
    /// [`Builder::open_rocksdb`](crate::Builder::open_rocksdb).
    ///
    /// # Errors
    ///
    /// Those of [`Builder::open_rocksdb`](crate::Builder::open_rocksdb).
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<RocksDb> {
        Db::builder(path).open_rocksdb()
    }

    /// The number of a table of the column family `name` that refers to blob files, if there is
    /// one.
    pub(super) fn with_blobs(&self, name: &[u8]) -> Option<u64> {
        let position = self.families.iter().position(|family| family.name == name)?;
        self.with_blobs[position]
    }

    /// The column families, by their numbers. The first one is `default`.
    pub fn column_families(&self) -> &[ColumnFamily] {
        &self.families
    }

    /// An option of a column family or of its tables, as the newest OPTIONS file has it:
    /// `option("default", "filter_policy")`. `None` where the file is missing or does not name it.
    pub fn option(&self, column_family: impl AsRef<[u8]>, name: &str) -> Option<&str> {
        let (options, column_family) = (self.options.as_ref()?, column_family.as_ref());
        options.table(column_family, name).or_else(|| options.family(column_family, name))
    }

    /// A column family, as a database that is opened read-only: every call that reads works, and
    /// every call that writes returns [`Error::OpenedReadOnly`]. The returned database stays open
    /// when the [`RocksDb`] is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] where there is no family of this name, [`Error::Unsupported`]
    /// where Maypole does not read it.
    pub fn column_family(&self, name: impl AsRef<[u8]>) -> Result<Db> {
        let name = name.as_ref();
        let Some(position) = self.families.iter().position(|family| family.name == name) else {
            let names: Vec<_> = self.families.iter().map(|family| escape(&family.name)).collect();
            return Err(Error::InvalidArgument(format!(
                "{}: there is no column family \"{}\"; there are: {}",
                self.path.display(),
                escape(name),
                names.join(", ")
            )));
        };
        let reason = || self.families[position].not_supported.clone().unwrap_or_default();
        self.databases[position].clone().ok_or_else(|| Error::Unsupported {
            file: self.path.clone(),
            what: format!("the column family \"{}\": {}", escape(name), reason()),
        })
    }
}
