//! [`PublishedStats`]: counters that the *owner* of a database leaves in the file `STATS`, for
//! other processes to read. The owner is the process that has opened the database for writing.
//!
//! ```text
//!   the owner   publish_stats ─► STATS.tmp ─► rename ─► STATS            unsynced
//!   a reader    Builder::published_stats ─► STATS                        opens nothing else
//! ```
//!
//! Invariants:
//!
//! - The database does not depend on `STATS`: it continues whatever happens to the file, and
//!   nothing is ever recovered from it.
//! - Only the holder of the directory's lock writes `STATS`, one write at a time.
//! - A reader never sees half of a write, because each write replaces the file by a rename. Only a
//!   power loss may damage the file, which is not synced. The checksum is then wrong, and the
//!   reader gets an error.
//!
//! The counts of single tables are absent, because a file with all tables would grow with the
//! database and be rewritten at each interval. Counts are published by level, and there are at most
//! seven levels. Those of other keyspaces are published as one line for each, and for a hundred at
//! most.

use std::path::PathBuf;
use std::sync::Weak;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::keyspaces::KeyspaceStats;
use super::report::{HeldByCursors, LevelStats, Stats};
use crate::cache::{BlockKind, KindUsage};
use crate::db::read_state::ReadState;
use crate::stats::{FileCounts, Tickers};
use crate::sync::time::Instant;
use crate::sync::time::system_time;
use crate::sync::{Mutex, rank};

/// The counters of a database, as its owner publishes them while it has the database open. The
/// owner is the process that has opened the database for writing. What is of one keyspace in a
/// [`Stats`] is of `default` here. The counters remain after the database is closed; see
/// [`Builder::publish_stats`](crate::Builder::publish_stats).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use std::time::Duration;
/// use maypole::{Db, Ticker};
///
/// let db = Db::builder(dir.path()).publish_stats(Duration::from_secs(1)).open()?;
/// db.get("absent")?;
/// db.close()?;
/// let stats = Db::published_stats(dir.path())?.expect("the owner has published");
/// assert_eq!(stats.tickers.get(Ticker::NumberKeysRead), 1);
/// assert!(!stats.is_open);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PublishedStats {
    /// The directory of the database, where the counters were read.
    pub path: PathBuf,
    /// Whether the owner had the database open when it wrote this. After a crash this stays true.
    pub is_open: bool,
    /// The process ID of the owner.
    pub process_id: u32,
    /// When the owner opened the database. All counters count from then on.
    pub opened: SystemTime,
    /// When this was written, by the owner's clock. Nothing is written while nothing is counted and
    /// the trees, the oldest snapshot and what cursors hold stay the same.
    pub written: SystemTime,
    /// How often the owner looks whether there is something to write.
    pub interval: Duration,
    /// See [`Stats::keyspaces`]. Empty if the file does not state it.
    pub keyspaces: Vec<KeyspaceStats>,
    /// See [`Stats::tickers`].
    pub tickers: Tickers,
    /// See [`Stats::levels`].
    pub levels: Vec<LevelStats>,
    /// See [`Stats::predicted_fpr`].
    pub predicted_fpr: Option<f64>,
    /// See [`Stats::cache`].
    pub cache: Vec<(BlockKind, KindUsage)>,
    /// See [`Stats::cache_tables_bytes`]. 0 if the file does not state it.
    pub cache_tables_bytes: u64,
    /// See [`Stats::cache_capacity_bytes`].
    pub cache_capacity_bytes: u64,
    /// See [`Stats::metadata_bytes`]. 0 if the file does not state it.
    pub metadata_bytes: u64,
    /// See [`Stats::pinned_metadata_bytes`]. 0 if the file does not state it.
    pub pinned_metadata_bytes: u64,
    /// See [`Stats::memtable_bytes`].
    pub memtable_bytes: u64,
    /// See [`Stats::memtable_entries`].
    pub memtable_entries: u64,
    /// See [`Stats::held_by_readers_bytes`]. 0 if the file does not state it.
    pub held_by_readers_bytes: u64,
    /// See [`Stats::held_by_cursors`], when this was written. 0 if the file does not state it.
    pub held_by_cursors: HeldByCursors,
    /// See [`Stats::compaction_debt_bytes`].
    pub compaction_debt_bytes: u64,
    /// See [`Stats::oldest_snapshot`], when this was written.
    pub oldest_snapshot: Option<Duration>,
    /// See [`Stats::held_by_snapshots_bytes`].
    pub held_by_snapshots_bytes: u64,
}

impl PublishedStats {
    /// What lookups counted in all tables, obsolete ones included.
    pub fn counts(&self) -> FileCounts {
        self.levels.iter().fold(FileCounts::default(), |sum, level| sum + level.counts)
    }

    /// Stored bytes of all filters.
    pub fn filter_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.filter_bytes).sum()
    }

    pub(super) fn new(stats: Stats, publishing: &Publishing, is_open: bool) -> PublishedStats {
        PublishedStats {
            is_open,
            process_id: std::process::id(),
            opened: publishing.opened,
            written: now(),
            interval: publishing.interval,
            ..PublishedStats::of_nobody(stats)
        }
    }

    /// The counters of `stats`. The fields about the owner are empty, and the caller sets them.
    pub(super) fn of_nobody(stats: Stats) -> PublishedStats {
        PublishedStats {
            is_open: false,
            process_id: 0,
            opened: UNIX_EPOCH,
            written: UNIX_EPOCH,
            interval: Duration::ZERO,
            predicted_fpr: stats.predicted_fpr(),
            path: stats.path,
            keyspaces: stats.keyspaces,
            tickers: stats.tickers,
            levels: stats.levels,
            cache: stats.cache,
            cache_tables_bytes: stats.cache_tables_bytes as u64,
            cache_capacity_bytes: stats.cache_capacity_bytes as u64,
            metadata_bytes: stats.metadata_bytes as u64,
            pinned_metadata_bytes: stats.pinned_metadata_bytes as u64,
            memtable_bytes: stats.memtable_bytes as u64,
            memtable_entries: stats.memtable_entries as u64,
            held_by_readers_bytes: stats.held_by_readers_bytes as u64,
            held_by_cursors: HeldByCursors {
                oldest: in_millis(stats.held_by_cursors.oldest),
                ..stats.held_by_cursors
            },
            compaction_debt_bytes: stats.compaction_debt_bytes,
            oldest_snapshot: stats.oldest_snapshot.map(in_millis),
            held_by_snapshots_bytes: stats.held_by_snapshots_bytes,
        }
    }
}

/// The duration, rounded down to the milliseconds that the file stores.
fn in_millis(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis() as u64)
}

/// The time of the clock, rounded down to the milliseconds that the file stores.
fn now() -> SystemTime {
    let millis = system_time().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    UNIX_EPOCH + Duration::from_millis(millis as u64)
}

/// What a database that publishes remembers.
pub(crate) struct Publishing {
    pub(super) interval: Duration,
    opened: SystemTime,
    /// The values at the last successful write; `None` before the first one.
    pub(super) written: Mutex<Option<WrittenStats>, rank::PublishedStats>,
}

/// The values that are compared with those of the last write: `STATS` is written again if one has
/// changed.
pub(super) struct WrittenStats {
    pub(super) tickers: Tickers,
    /// When the oldest snapshot was made.
    pub(super) oldest_snapshot: Option<Instant>,
    /// How many earlier read states are held.
    pub(super) earlier_states: usize,
    /// The read state of each tree. It is compared because a flush is counted before its table is in
    /// the tree, so without it `STATS` could lack the table until something else is counted. The
    /// references are weak, so that they keep no table alive.
    pub(super) trees: Vec<Weak<ReadState>>,
}

impl PartialEq for WrittenStats {
    fn eq(&self, other: &WrittenStats) -> bool {
        self.tickers == other.tickers
            && self.oldest_snapshot == other.oldest_snapshot
            && self.earlier_states == other.earlier_states
            && self.trees.len() == other.trees.len()
            && self.trees.iter().zip(&other.trees).all(|(one, other)| Weak::ptr_eq(one, other))
    }
}

impl Publishing {
    pub fn new(interval: Duration) -> Publishing {
        Publishing { interval, opened: now(), written: Mutex::new(None) }
    }
}
