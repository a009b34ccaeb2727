//! How a database is opened: few options, each with its unit, its default and advice. The advice
//! makes the file long.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::tree_options::TreeOptions;
use super::write::durability::Durability;
use crate::cache::{BlockCache, PinMetadata};
use crate::error::{Error, Result};
use crate::filter_policy::FilterPolicy;
use crate::fs::{Fs, RealFs};
use crate::table::{Compression, FilterKeys, MetadataForm};
use crate::version::ROLL_AFTER_BYTES;

/// Options of a database, all with defaults: `Db::builder(path).open()`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::Db;
///
/// let db = Db::builder(dir.path())
///     .filter("bloom(12)")
///     .block_cache_bytes(256 << 20)
///     .open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    pub(crate) path: PathBuf,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) create_if_missing: bool,
    pub(crate) tree: TreeOptions,
    /// Why the text given to [`Builder::filter`] was not understood.
    pub(crate) filter_error: Option<String>,
    pub(crate) cache: CacheChoice,
    pub(crate) pin_metadata: PinMetadata,
    pub(crate) reads_every_filter: bool,
    pub(crate) compaction_threads: usize,
    pub(crate) durability: Durability,
    pub(crate) salvage_logs: bool,
    pub(crate) manifest_roll_bytes: u64,
    pub(crate) max_open_files: Option<usize>,
    pub(crate) publish_interval: Option<Duration>,
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
            tree: TreeOptions::default(),
            filter_error: None,
            cache: CacheChoice::Own(64 << 20),
            pin_metadata: PinMetadata::default(),
            reads_every_filter: false,
            compaction_threads: thread::available_parallelism().map_or(2, usize::from).clamp(2, 8),
            durability: Durability::default(),
            salvage_logs: false,
            manifest_roll_bytes: ROLL_AFTER_BYTES,
            max_open_files: None,
            publish_interval: None,
        }
    }

    /// The filter of new tables. Default `bloom(10)`, which returns "maybe" for about 1 % of the
    /// absent keys. Changing it later is safe: old tables keep their filter until they are
    /// compacted.
    #[doc(alias = "filter_policy")]
    #[doc(alias = "bits_per_key")]
    ///
    /// The policy is a [`FilterPolicy`], a [`FilterSpec`](crate::filter::FilterSpec), or the text
    /// of either. If the text has a mistake, [`Builder::open`] returns [`Error::InvalidArgument`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = maypole::Db::builder(dir.path()).filter("budget(64MiB, burr)").open()?;
    /// let typo = maypole::Db::builder(dir.path()).filter("blom(12)").open();
    /// assert!(matches!(typo, Err(maypole::Error::InvalidArgument(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn filter<P>(mut self, policy: P) -> Builder
    where
        P: TryInto<FilterPolicy, Error: std::fmt::Display>,
    {
        match policy.try_into() {
            Ok(policy) => (self.tree.filter, self.filter_error) = (policy, None),
            Err(error) => self.filter_error = Some(error.to_string()),
        }
        self
    }

    /// What the filter of a new table holds: whole keys (the default), prefixes, or both.
    ///
    /// With prefixes, [`Db::prefix`](crate::Db::prefix), and other reads of a range inside one
    /// prefix, skip each table whose filter denies the prefix. This saves reads if such ranges are
    /// often empty, or if most of the tables whose key range includes such a range hold no key in
    /// it.
    ///
    /// - [`FilterKeys::Both`] does not change point lookups, and adds one hash to the filter for
    ///   each prefix. Take it unless memory is short.
    /// - [`FilterKeys::Prefix`] holds prefixes only: the fewer there are, the smaller the filter. A
    ///   point lookup then skips a table only if no key of the table has the prefix of the sought
    ///   key.
    ///
    /// A range query whose prefix is shorter than the prefixes in the filter, for example
    /// `prefix("us")` with prefixes of four bytes, uses no filter. With [`FilterKeys::Prefix`], the
    /// lookup of a key that has no prefix uses none either.
    ///
    /// Changing the option later is safe, because each table records how its prefixes were cut.
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
        self.tree.tables.filter_keys = keys;
        self
    }

    /// The capacity of the block cache in bytes. Default 64 MiB.
    ///
    /// Data blocks, indexes **and filters** are charged to it. Give it room for all filters (bits
    /// per key × keys / 8), for all indexes (about 1 % of the data), and for hot data. An open
    /// table is charged about 3 KiB. If the open tables alone exceed the capacity, the cache keeps
    /// nothing else.
    pub fn block_cache_bytes(self, bytes: usize) -> Builder {
        Builder { cache: CacheChoice::Own(bytes), ..self }
    }

    /// A block cache that this database shares with others, instead of a cache of its own.
    pub fn block_cache(self, cache: Arc<BlockCache>) -> Builder {
        Builder { cache: CacheChoice::Shared(cache), ..self }
    }

    /// The tables whose filters and indexes stay in memory once they are loaded. Default
    /// [`PinMetadata::None`]: a full cache may evict the filters and indexes of any table.
    ///
    /// Even with [`PinMetadata::None`], the cache prefers to keep filters and indexes. To take in a
    /// filter or an index, it evicts data blocks first. To take in a data block, it evicts other
    /// data blocks. It evicts filters and indexes for a data block only if they were not used
    /// lately, and only while data blocks take less than 1/8 of the cache's capacity. If all
    /// filters and indexes together would take more than 7/8 of the capacity, this protection ends,
    /// and a data block may displace any of them.
    #[doc(alias = "pin_l0_filter_and_index_blocks_in_cache")]
    pub fn pin_metadata(self, pin: PinMetadata) -> Builder {
        Builder { pin_metadata: pin, ..self }
    }

    /// Whether new tables have whole filters and indexes, or filters and indexes in parts of about
    /// 4 KiB. Default [`MetadataForm::Auto`]: whole ones while the filters and indexes of all
    /// tables fit into 7/8 of the block cache, parts from then on.
    ///
    /// There is seldom a reason to change it. [`MetadataForm::Parts`] is for a database that will
    /// be opened with a much smaller cache than it is written with.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use maypole::Db;
    /// use maypole::table::MetadataForm;
    ///
    /// let db = Db::builder(dir.path()).metadata(MetadataForm::Parts).open()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "partition_filters")]
    #[doc(alias = "kTwoLevelIndexSearch")]
    #[doc(alias = "metadata_block_size")]
    pub fn metadata(mut self, form: MetadataForm) -> Builder {
        self.tree.tables.metadata = form;
        self
    }

    /// Whether a lookup reads every filter that is not in memory, and whole filters and indexes are
    /// evicted as parts are. Default false: a lookup passes by a part of a filter if reading it would
    /// cost more than it saves, and whole ones stay (`docs/filters.md`). Only measurements of these
    /// rules need `true`.
    #[doc(hidden)]
    pub fn reads_every_filter(mut self, reads: bool) -> Builder {
        self.reads_every_filter = reads;
        self
    }

    /// How data blocks are compressed. Default: LZ4 if the crate has the feature `lz4`, which is on
    /// by default, and otherwise none.
    pub fn compression(mut self, compression: Compression) -> Builder {
        self.tree.tables.compression = compression;
        self
    }

    /// The size at which a data block is full, in bytes before compression. Default 4096. Larger
    /// blocks compress better and need a smaller index, but a lookup that reaches the disk reads
    /// more.
    pub fn block_bytes(mut self, bytes: usize) -> Builder {
        self.tree.tables.block_bytes = bytes;
        self
    }

    /// The size at which a memtable is full and is flushed. Default 16 MiB. A memtable with 32,768
    /// range deletions is full too. Up to three memtables exist at a time: the one that takes
    /// writes, and two that wait for their flush. A flushed memtable stays in memory only while a
    /// reader uses it. Larger memtables mean fewer, larger flushes and a longer recovery.
    #[doc(alias = "write_buffer_size")]
    pub fn memtable_bytes(mut self, bytes: usize) -> Builder {
        self.tree.set_memtable_bytes(bytes);
        self
    }

    /// The size at which a table of level 1 or deeper is full. Default 64 MiB.
    #[doc(alias = "target_file_size_base")]
    pub fn table_bytes(mut self, bytes: u64) -> Builder {
        self.tree.shape.table_bytes = bytes;
        self
    }

    /// The least target size of the base level, which is the level into which level 0 is compacted.
    /// Default 64 MiB, which is four memtables. Each level may hold a tenth of the next deeper one.
    /// In a small tree the last level is the base. As the data grows, the level above the base
    /// becomes the new base as soon as its target, a tenth of the old base's, is at least this
    /// size.
    #[doc(alias = "max_bytes_for_level_base")]
    pub fn level_base_bytes(mut self, bytes: u64) -> Builder {
        self.tree.shape.level_base_bytes = bytes;
        self
    }

    /// How many threads may compact this database at a time. Default: one for each processor, 2 to
    /// 8.
    ///
    /// All databases of the process share one pool of compaction threads, which grows as needed. An
    /// idle database uses none of them. Flushes run on threads of another pool. Compactions of
    /// different files run at the same time. A large compaction of level 0 is split by key range
    /// over the idle threads.
    #[doc(alias = "max_background_jobs")]
    #[doc(alias = "max_subcompactions")]
    pub fn compaction_threads(self, threads: usize) -> Builder {
        Builder { compaction_threads: threads, ..self }
    }

    /// About the longest time from the flush of a deletion until it reaches the last level. Then
    /// what it deletes has left the disk. Default: 30 days.
    ///
    /// Compaction removes deleted data sooner where this frees enough bytes. For a table and the
    /// older tables in its key range, it compares the bytes that their rewrite would free with all
    /// bytes of these tables. A share of one third is enough, or one tenth while there are no
    /// writes. While the deletions are recent, two thirds are needed, because the next deletions
    /// often empty the rest of the same tables.
    ///
    /// The age matters for deletions that never reach these shares: few deletions in much data. The
    /// tables that hold such deletions at this age are merged downward, at worst with all other
    /// tables, as soon as compactions keep up with the writes. A snapshot may keep what was deleted
    /// after it for longer. Ordinary compactions move most deletions down earlier. In a simulation
    /// (`src/compaction/ages.rs`) the default adds 2 % to the bytes written if a thirtieth of the
    /// data is written each day, 5 % for a hundredth, and 27 % for a three-hundredth.
    #[doc(alias = "ttl")]
    #[doc(alias = "periodic_compaction_seconds")]
    pub fn max_deletion_age(mut self, age: Duration) -> Builder {
        self.tree.max_deletion_age = age;
        self
    }

    /// How many of its tables the database keeps open, 1 to 1048576. Each other table is opened
    /// when it is read. Opening a table takes a few microseconds, and checks that its file is still
    /// the same.
    ///
    /// Default: half of the file descriptors that the process may have, shared by all of its
    /// databases that do not set this option. The process may have as many as its soft limit allows
    /// when a database is opened. The other half is for the program, and for logs and new tables,
    /// which need a handful for each database. To have more tables open, raise the limit of the
    /// process. If the program itself needs more descriptors, set a lower number here.
    ///
    /// A read never waits for a descriptor, so more tables than this are open while more are being
    /// read. Iterators and cursors that outlive the database also keep their tables open, all of
    /// them together up to a quarter of the descriptors that the process may have. Tables beyond
    /// this quarter are opened when they are read. If such a table has been deleted by then, the
    /// read fails with an error that names it.
    pub fn max_open_files(self, files: usize) -> Builder {
        Builder { max_open_files: Some(files), ..self }
    }

    /// Publishes the counters for other processes, in the small file `STATS` of the database's
    /// directory. Default: never. After each `interval`, the file is written again if a counter,
    /// the tree or the oldest snapshot has changed since the last time. It is also written at
    /// closing. `maypole stats` and [`Db::published_stats`](crate::Db::published_stats) read it. A
    /// second is a good interval; 10 milliseconds to a day are accepted.
    ///
    /// While databases are open, one thread of the process writes the `STATS` files of all of them.
    /// A write that fails, for example on a full disk, disturbs nothing and is tried again after
    /// the next interval. The write at closing is tried only once. The file is not synced. A
    /// database that is opened read-only never writes it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use std::time::Duration;
    ///
    /// let db = maypole::Db::builder(dir.path()).publish_stats(Duration::from_secs(1)).open()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "stats_dump_period_sec")]
    pub fn publish_stats(self, interval: Duration) -> Builder {
        Builder { publish_interval: Some(interval), ..self }
    }

    /// What each write survives before it is acknowledged, unless the call names another
    /// [`Durability`]. Default [`Durability::Buffered`]: a killed process, but not a power loss.
    /// [`Durability::Sync`] costs a sync of the device for each group of writes, which takes about a
    /// millisecond or longer. Threads that write at the same time share a sync.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use maypole::{Db, Durability};
    ///
    /// let db = Db::builder(dir.path()).durability(Durability::Sync).open()?;
    /// db.put("account/7", "100")?; // survives a power loss
    /// db.put_opt("hits/7", "12", Durability::Buffered)?; // the next synced write makes it durable
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "set_sync")]
    #[doc(alias = "WriteOptions")]
    pub fn durability(self, durability: Durability) -> Builder {
        Builder { durability, ..self }
    }

    /// Whether a missing database is created. Default true.
    pub fn create_if_missing(self, create: bool) -> Builder {
        Builder { create_if_missing: create, ..self }
    }

    /// The least number of bytes by which a MANIFEST grows before it is rewritten. Only tests have
    /// a reason to change it.
    #[doc(hidden)]
    pub fn manifest_roll_bytes(self, bytes: u64) -> Builder {
        Builder { manifest_roll_bytes: bytes, ..self }
    }

    /// The file system that holds the database. Default: that of the operating system. Tests use
    /// one in memory.
    pub fn fs(self, fs: Arc<dyn Fs>) -> Builder {
        Builder { fs, ..self }
    }

    /// Whether [`Builder::repair`] also keeps the writes that follow damage in a log. Such writes
    /// may depend on writes that are lost. Default false.
    pub fn salvage_logs(self, salvage: bool) -> Builder {
        Builder { salvage_logs: salvage, ..self }
    }

    /// The name of an option of the database, and not of a keyspace, that differs from `before`.
    pub(super) fn changed_of_database(&self, before: &Builder) -> Option<&'static str> {
        let is_same_cache = match (&self.cache, &before.cache) {
            (CacheChoice::Own(bytes), CacheChoice::Own(other)) => bytes == other,
            (CacheChoice::Shared(cache), CacheChoice::Shared(other)) => Arc::ptr_eq(cache, other),
            _ => false,
        };
        let same = [
            ("the path", self.path == before.path),
            ("create_if_missing", self.create_if_missing == before.create_if_missing),
            ("the block cache", is_same_cache),
            ("pin_metadata", self.pin_metadata == before.pin_metadata),
            ("reads_every_filter", self.reads_every_filter == before.reads_every_filter),
            ("compaction_threads", self.compaction_threads == before.compaction_threads),
            ("durability", self.durability == before.durability),
            ("salvage_logs", self.salvage_logs == before.salvage_logs),
            ("manifest_roll_bytes", self.manifest_roll_bytes == before.manifest_roll_bytes),
            ("max_open_files", self.max_open_files == before.max_open_files),
            ("publish_stats", self.publish_interval == before.publish_interval),
        ];
        same.into_iter().find(|(_, is_same)| !is_same).map(|(name, _)| name)
    }

    /// Binds the file system to the directory that has the path now, so that renaming directories
    /// later does not matter.
    pub(super) fn anchored(mut self) -> Result<Builder> {
        if let Some(anchored) = self.fs.anchored(&self.path)? {
            self.fs = anchored;
        }
        Ok(self)
    }
}

/// Makes a path of the caller absolute, because the process may change its working directory while
/// the path is in use.
pub(crate) fn lasting(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(Error::InvalidArgument(
            "the path is empty; the directory of the process is \".\"".into(),
        ));
    }
    fs.absolute(path)
}
