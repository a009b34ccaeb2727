//! How a database is opened: few options, each with its unit, its default and advice.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::{Db, RepairReport};
use crate::cache::{BlockCache, PinMetadata};
use crate::compaction::TreeShape;
use crate::error::{Error, Result};
use crate::filter_policy::FilterPolicy;
use crate::fs::{Fs, RealFs};
use crate::table::{Compression, FilterKeys};
use crate::version::ROLL_AFTER_BYTES;

/// Options of a database, all with defaults: `Db::builder(path).open()`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::{Db, FilterPolicy};
///
/// let db = Db::builder(dir.path())
///     .filter("bloom(12)".parse::<FilterPolicy>()?)
///     .block_cache_bytes(256 << 20)
///     .open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    pub(crate) path: PathBuf,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) create_if_missing: bool,
    pub(crate) filter: FilterPolicy,
    pub(crate) filter_keys: FilterKeys,
    pub(crate) cache: CacheChoice,
    pub(crate) pin_metadata: PinMetadata,
    pub(crate) compression: Compression,
    pub(crate) block_bytes: usize,
    pub(crate) memtable_bytes: usize,
    pub(crate) shape: TreeShape,
    pub(crate) compaction_threads: usize,
    pub(crate) salvage_logs: bool,
    pub(crate) manifest_roll_bytes: u64,
    pub(crate) max_open_files: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum CacheChoice {
    Own(usize),
    Shared(Arc<BlockCache>),
}

impl Builder {
    pub(crate) fn new(path: &Path) -> Builder {
        Builder {
            path: path.to_owned(),
            fs: Arc::new(RealFs),
            create_if_missing: true,
            filter: FilterPolicy::default(),
            filter_keys: FilterKeys::Whole,
            cache: CacheChoice::Own(64 << 20),
            pin_metadata: PinMetadata::default(),
            compression: Compression::default(),
            block_bytes: 4096,
            memtable_bytes: 16 << 20,
            shape: TreeShape {
                l0_trigger: 4,
                level_base_bytes: 64 << 20,
                level_multiplier: 10,
                table_bytes: 64 << 20,
            },
            compaction_threads: thread::available_parallelism().map_or(2, usize::from).clamp(2, 8),
            salvage_logs: false,
            manifest_roll_bytes: ROLL_AFTER_BYTES,
            max_open_files: None,
        }
    }

    /// Which filter a new table gets. Default `bloom(10)`: about 1 % of absent lookups read a
    /// block. Changing it later is safe: old tables keep the filter they have until they are
    /// compacted.
    #[doc(alias = "filter_policy")]
    #[doc(alias = "bits_per_key")]
    pub fn filter(mut self, policy: FilterPolicy) -> Builder {
        self.filter = policy;
        self
    }

    /// What the filter of a new table holds: whole keys (the default), prefixes, or both.
    ///
    /// With prefixes, [`Db::prefix`] and ranges inside one prefix skip the tables whose filter denies
    /// it. That pays where such ranges are often empty, or their keys lie in few of the tables that
    /// span them.
    ///
    /// - [`FilterKeys::Both`] keeps point lookups as they are and adds one hash for each prefix. Take
    ///   it unless memory is short.
    /// - [`FilterKeys::Prefix`] makes the filter as small as there are few prefixes. A point lookup
    ///   then skips a table only where no key at all shares the key's prefix.
    ///
    /// A prefix as long as what is asked for helps; a shorter query (`prefix("us")` where prefixes
    /// have four bytes) asks no filter, and keys out of the domain are read as without one.
    ///
    /// Changing it later is safe: each table says how its prefixes were cut, and is asked so.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use maypole::{Db, FilterKeys, PrefixExtractor};
    ///
    /// let user = PrefixExtractor::delimiter(b'/', 1)?;
    /// let db = Db::builder(dir.path()).filter_keys(FilterKeys::Both(user)).open()?;
    /// db.put("user7/name", "Ada")?;
    /// assert_eq!(db.prefix("user7/").count(), 1);
    /// assert_eq!(db.prefix("user8/").count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "prefix_extractor")]
    #[doc(alias = "whole_key_filtering")]
    pub fn filter_keys(mut self, keys: FilterKeys) -> Builder {
        self.filter_keys = keys;
        self
    }

    /// The most bytes of the block cache. Default 64 MiB. Data blocks, indexes **and filters** are
    /// charged to it; give it at least the filters (bits per key × keys / 8) and the indexes
    /// (about 1 % of the data), and what is left to hot data. An open table itself is charged about 3 KiB:
    /// where the open tables alone exceed the capacity, nothing is kept beside them.
    pub fn block_cache_bytes(mut self, bytes: usize) -> Builder {
        self.cache = CacheChoice::Own(bytes);
        self
    }

    /// Shares one block cache between several databases.
    pub fn block_cache(mut self, cache: Arc<BlockCache>) -> Builder {
        self.cache = CacheChoice::Shared(cache);
        self
    }

    /// Which tables' filters and indexes stay in memory once they are loaded. Default
    /// [`PinMetadata::None`]: they leave the cache, after all data, when room is short.
    #[doc(alias = "pin_l0_filter_and_index_blocks_in_cache")]
    pub fn pin_metadata(mut self, pin: PinMetadata) -> Builder {
        self.pin_metadata = pin;
        self
    }

    /// How data blocks are compressed. Default LZ4 when the crate is built with it (the default).
    pub fn compression(mut self, compression: Compression) -> Builder {
        self.compression = compression;
        self
    }

    /// Where a data block is cut, in bytes before compression. Default 4096. Larger blocks compress
    /// better and need a smaller index; each lookup that reaches the disk reads more.
    pub fn block_bytes(mut self, bytes: usize) -> Builder {
        self.block_bytes = bytes;
        self
    }

    /// How large the memtable grows before it is flushed. Default 16 MiB. Up to three exist at a
    /// time. Larger ones mean fewer, larger flushes and a longer recovery.
    #[doc(alias = "write_buffer_size")]
    pub fn memtable_bytes(mut self, bytes: usize) -> Builder {
        self.memtable_bytes = bytes;
        self
    }

    /// Where a table of level 1 and deeper is cut, in bytes. Default 64 MiB.
    #[doc(alias = "target_file_size_base")]
    pub fn table_bytes(mut self, bytes: u64) -> Builder {
        self.shape.table_bytes = bytes;
        self
    }

    /// From how many bytes on a further level is worth having. Default 64 MiB, four memtables: the
    /// tree gets its next level when a tenth of its first level under level 0 is that large. Each
    /// deeper level may hold ten times the one above.
    #[doc(alias = "max_bytes_for_level_base")]
    pub fn level_base_bytes(mut self, bytes: u64) -> Builder {
        self.shape.level_base_bytes = bytes;
        self
    }

    /// How many threads may compact this database at a time. Default: one for each processor, 2 to 8.
    /// It is a share, not a reserve: all databases of the process take their threads from one pool,
    /// which grows as needed, and an idle database uses none. A flush takes one more, at once.
    /// Compactions of different files run beside each other; a large one is split by key range over
    /// what is left of the share.
    #[doc(alias = "max_background_jobs")]
    #[doc(alias = "max_subcompactions")]
    pub fn compaction_threads(mut self, threads: usize) -> Builder {
        self.compaction_threads = threads;
        self
    }

    /// How many of its tables the database has open at a time, 1 to 1048576. The others are opened when
    /// they are read, for a few microseconds more, and checked to be the same files.
    ///
    /// Default: all databases of the process that do not set it share half of the descriptors that
    /// the process may have (the soft limit, asked at each opening). The other half is the
    /// program's, and that of logs and of tables being written, a handful for each database. So
    /// raise the limit of the process rather than this; lower this for a program that needs more
    /// of it. Reads go beyond it rather than wait: by as many tables as are being read at one
    /// moment.
    ///
    /// Iterators and cursors that outlive the database keep the tables they need open, beyond this,
    /// up to a quarter of what the process may have. Tables beyond that are opened when they are
    /// read, and an error names the one that is gone by then.
    pub fn max_open_files(mut self, files: usize) -> Builder {
        self.max_open_files = Some(files);
        self
    }

    /// Whether a missing database is created. Default true.
    pub fn create_if_missing(mut self, create: bool) -> Builder {
        self.create_if_missing = create;
        self
    }

    /// By how much a MANIFEST grows before it is written anew. Only tests have a reason to change it.
    #[doc(hidden)]
    pub fn manifest_roll_bytes(mut self, bytes: u64) -> Builder {
        self.manifest_roll_bytes = bytes;
        self
    }

    /// The file system. Default the operating system's; tests use one in memory.
    pub fn fs(mut self, fs: Arc<dyn Fs>) -> Builder {
        self.fs = fs;
        self
    }

    /// Opens the database, creating or recovering it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an empty path or an option out of its range, before anything is
    /// touched;
    /// [`Error::Locked`] when it is open elsewhere, also in this process; [`Error::Corruption`]
    /// with file and offset when what is on disk cannot be trusted.
    pub fn open(mut self) -> Result<Db> {
        self.check()?;
        self.path = lasting(&*self.fs, &self.path)?;
        Db::open_with(self)
    }

    /// Opens the database to read it: nothing is written, not even a lock, so it works where the directory
    /// cannot be written, on a full disk, and while another `Db` or process has the database open.
    ///
    /// What it shows is the database at one moment: every write up to a certain one, and none after. It
    /// does not follow a writer; open it again to see more. What the logs hold is kept in memory, and
    /// each table keeps its file open, whatever [`Builder`] says of open files: a writer may delete it at
    /// any time. Writing answers [`Error::OpenedReadOnly`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] where there is no database, or for an option out of its range;
    /// [`Error::Corruption`] with file and offset when what is on disk cannot be trusted.
    pub fn open_read_only(mut self) -> Result<Db> {
        self.check()?;
        self.path = lasting(&*self.fs, &self.path)?;
        Db::read_with(self)
    }

    /// Makes a database of what is left in the directory, where it does not open any more: `CURRENT` or
    /// the MANIFEST are lost or damaged, tables or logs are damaged or missing. Every byte is read. Where
    /// nothing is wrong nothing is changed.
    ///
    /// - Where a MANIFEST is whole the tables stay where they are. Damaged ones are replaced by what can
    ///   be read of them.
    /// - Else all tables and logs are merged into new ones, but for tables that a readable part of a
    ///   MANIFEST removed. That takes as much space again, and deleted keys may be there again: a table
    ///   left over by a crash may hold them.
    /// - Of the logs the prefix that can be read is kept, so that no write comes back without those before
    ///   it. See [`Builder::salvage_logs`].
    ///
    /// Nothing is deleted: what is no longer part of the database is in its subdirectory `lost` afterwards,
    /// and may be removed when the result is found good. A repair that is interrupted can be started again.
    ///
    /// The report says what was found, which keys may be missing or have an older value, and what was moved.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] where there is nothing of a database; [`Error::Locked`] when it is open
    /// elsewhere; [`Error::Unsupported`] when a newer version wrote it.
    pub fn repair(mut self) -> Result<RepairReport> {
        self.check()?;
        self.path = lasting(&*self.fs, &self.path)?;
        super::repair::repair(&self)
    }

    /// Whether [`Builder::repair`] also keeps writes of the logs that stand behind a hole, whose writer
    /// had seen those that are missing. Default false.
    pub fn salvage_logs(mut self, salvage: bool) -> Builder {
        self.salvage_logs = salvage;
        self
    }

    fn check(&self) -> Result<()> {
        let ranges: [(&str, u64, u64, u64); 6] = [
            ("block_bytes", self.block_bytes as u64, 64, 16 << 20),
            ("memtable_bytes", self.memtable_bytes as u64, 4096, 2 << 30),
            ("table_bytes", self.shape.table_bytes, 4096, 1 << 40),
            ("level_base_bytes", self.shape.level_base_bytes, 4096, 1 << 50),
            ("compaction_threads", self.compaction_threads as u64, 1, 64),
            ("max_open_files", self.max_open_files.unwrap_or(1) as u64, 1, 1 << 20),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(Error::InvalidArgument(format!(
                    "{name} must be between {least} and {most}, not {value}"
                )));
            }
        }
        Ok(())
    }
}

/// A path of the caller as it stays valid: the process may change its directory while it is in use.
pub(crate) fn lasting(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(Error::InvalidArgument(
            "the path is empty; the directory of the process is \".\"".into(),
        ));
    }
    fs.absolute(path)
}
