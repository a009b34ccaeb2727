//! [`LookupTrace`]: the steps of one lookup, and the time of each.
//!
//! ```text
//! LookupTrace
//!   memtables   MemtableTrace     newest first
//!   levels      LevelTrace        each file of level 0, newest first; then each deeper level
//!     file        FileTrace         the one file whose range holds the key
//!       table       TableTrace        filter, index, blocks: see `lookup::explain::trace`
//! ```

use crate::encoding::key::SequenceNumber;
use crate::filter::KeyHash;
use crate::lookup::explain::trace::TableTrace;
use crate::slice::Slice;

/// The steps of one lookup in their order, and the time of each; see
/// [`Db::explain`](crate::Db::explain). Its `Display` is the report of the command `explain`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// db.put("tree", "maypole")?;
/// db.flush()?;
/// let trace = db.explain("tree")?;
/// assert_eq!(trace.value.as_ref().unwrap(), b"maypole");
/// for level in &trace.levels {
///     let Some(file) = &level.file else { continue };
///     println!("level {}: {:?}", level.level, file.table.filter);
/// }
/// assert_eq!(trace.cost().blocks, 1);
/// println!("{trace}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LookupTrace {
    /// What was looked up.
    pub key: Vec<u8>,
    /// The hash with which filters are queried. Only filters in the format of LevelDB and of early
    /// RocksDB are queried with another hash.
    pub hash: KeyHash,
    /// The sequence number of the last write that the lookup sees.
    pub sequence: SequenceNumber,
    /// The memtables that the lookup searched. Empty if no memtable has an entry.
    pub memtables: Vec<MemtableTrace>,
    /// One trace for each file of level 0 and for each deeper level that the lookup reached.
    pub levels: Vec<LevelTrace>,
    /// The number of files of level 0 and of deeper levels that the lookup did not reach, because
    /// it had ended before.
    pub levels_spared: usize,
    /// How the lookup ended.
    pub outcome: LookupOutcome,
    /// The value. It may share the cached block it was found in.
    pub value: Option<Slice>,
}

/// How a lookup ends.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// use maypole::explain::LookupOutcome;
///
/// assert_eq!(db.explain("key")?.outcome, LookupOutcome::Absent);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupOutcome {
    /// The newest entry of the key is a value.
    Value,
    /// The newest entry of the key is a tombstone.
    Tombstone,
    /// A range deletion covers the key, and the lookup found no newer entry of the key.
    RangeDeletion,
    /// The lookup found no entry of the key, and no range deletion that covers it.
    #[default]
    Absent,
}

impl LookupOutcome {
    /// The name of the outcome in reports.
    pub fn name(self) -> &'static str {
        match self {
            LookupOutcome::Value => "value",
            LookupOutcome::Tombstone => "tombstone",
            LookupOutcome::RangeDeletion => "range deletion",
            LookupOutcome::Absent => "absent",
        }
    }
}

/// A memtable that was searched; see [`LookupTrace`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// db.put("key", "value")?;
/// let trace = db.explain("key")?;
/// assert_eq!((trace.memtables[0].entries, trace.memtables[0].found), (1, Some(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemtableTrace {
    /// Entries in the memtable.
    pub entries: usize,
    /// Bytes of memory that the memtable takes.
    pub bytes: usize,
    /// The kind of the newest entry of the key that the lookup sees: 1 value, 0 tombstone.
    pub found: Option<u8>,
    /// The largest sequence number of those range deletions in the memtable that cover the key.
    pub range_deletion: Option<SequenceNumber>,
    /// Nanoseconds of the search.
    pub nanos: u64,
}

/// A file of level 0, or a deeper level; see [`LookupTrace`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// db.put("key", "value")?;
/// db.flush()?;
/// let level = &db.explain("zebra")?.levels[0];
/// assert!(level.file.is_none(), "the key lies behind the range of the only file");
/// assert_eq!(level.smallest, b"key");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LevelTrace {
    /// The number of the level, from 0 to 6.
    pub level: usize,
    /// The number of files: 1 for a file of level 0, and otherwise all files of the level. In a
    /// tree that Maypole wrote, the files of a deeper level share no user key, so at most one of
    /// them is searched. In a tree of another engine several may be searched. Then each has a
    /// [`LevelTrace`] of its own.
    pub files: usize,
    /// The first user key of the first of these files.
    pub smallest: Vec<u8>,
    /// The last user key of the last of these files.
    pub largest: Vec<u8>,
    /// The file whose range holds the key; `None` if the key is outside the ranges of all files.
    pub file: Option<FileTrace>,
    /// Nanoseconds of comparing the key with the ranges.
    pub range_check_nanos: u64,
}

/// A file whose range holds the key; see [`LevelTrace`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// db.put("key", "value")?;
/// db.flush()?;
/// let trace = db.explain("key")?;
/// let file = trace.levels[0].file.as_ref().unwrap();
/// assert_eq!((&file.smallest[..], &file.largest[..]), (&b"key"[..], &b"key"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FileTrace {
    /// Its file number: `000012.sst` is 12.
    pub number: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Entries, tombstones and old versions included.
    pub entries: u64,
    /// Its first user key.
    pub smallest: Vec<u8>,
    /// Its last user key, or the end of a range deletion that reaches further.
    pub largest: Vec<u8>,
    /// What the lookup did in the file's table.
    pub table: TableTrace,
}

/// What a lookup searches in tables; see [`LookupTrace::cost`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// let trace = db.explain("key")?;
/// assert_eq!(trace.cost(), trace.cost_without_filters());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LookupCost {
    /// Tables whose index is searched.
    pub tables: u64,
    /// Data blocks that are searched.
    pub blocks: u64,
    /// Bytes of these data blocks as stored in their files. The lookup reads only those blocks that
    /// are not in memory.
    pub block_bytes: u64,
}

impl LookupTrace {
    /// What the lookup searched in tables.
    pub fn cost(&self) -> LookupCost {
        self.tables().filter(|table| table.index.is_some()).fold(
            LookupCost::default(),
            |sum, table| LookupCost {
                tables: sum.tables + 1,
                blocks: sum.blocks + table.blocks.len() as u64,
                block_bytes: sum.block_bytes
                    + table.blocks.iter().map(|block| block.stored_bytes).sum::<u64>(),
            },
        )
    }

    /// What the lookup would have searched without filters. For a table that was skipped because of
    /// its filter, this counts one data block of the table's average size.
    pub fn cost_without_filters(&self) -> LookupCost {
        self.tables().filter(|table| table.was_skipped()).fold(self.cost(), |sum, table| {
            LookupCost {
                tables: sum.tables + 1,
                blocks: sum.blocks + 1,
                block_bytes: sum.block_bytes + table.mean_block_bytes,
            }
        })
    }

    /// Nanoseconds of all steps.
    pub fn nanos(&self) -> u64 {
        let memtables = self.memtables.iter().map(|memtable| memtable.nanos);
        let levels = self.levels.iter().map(|level| {
            let table = level.file.as_ref().map_or(0, |file| file.table.nanos());
            level.range_check_nanos + table
        });
        memtables.chain(levels).sum()
    }

    /// The tables whose range holds the key, in the order of the search.
    pub fn tables(&self) -> impl Iterator<Item = &TableTrace> {
        self.levels.iter().filter_map(|level| level.file.as_ref()).map(|file| &file.table)
    }
}
