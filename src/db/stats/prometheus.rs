//! The counters in the text format that Prometheus scrapes, version 0.0.4.
//!
//! ```text
//! # HELP maypole_bloom_filter_useful_total A filter said no: a table was skipped.
//! # TYPE maypole_bloom_filter_useful_total counter
//! maypole_bloom_filter_useful_total{database="/var/lib/shop"} 1886
//! ```
//!
//! An unknown ratio has no sample, because 0 would be wrong and `NaN` spoils sums.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::keyspaces::KeyspaceStats;
use super::published::PublishedStats;
use super::report::{LevelStats, Stats};
use crate::db::inner::trees::DEFAULT_NAME;
use crate::encoding::text::escape;
use crate::sync::time::system_time;

impl Stats {
    /// The counters and sizes in Prometheus' text format. A service can return this text at the path
    /// that Prometheus scrapes, usually `/metrics`, with the content type `text/plain;
    /// version=0.0.4`.
    ///
    /// Every sample has the label `database` with [`Stats::path`]. The text of each database has the
    /// same names, so a service with several databases returns each text at a path of its own. The
    /// text of `default` has the sums of the other keyspaces, with their names as the label
    /// `keyspace`; those of the keyspaces that are not named lack the label. The text of another
    /// keyspace has this label at every sample. The
    /// series are those of [`PublishedStats::prometheus`], apart from the three about the process
    /// that has published the counters.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let metrics = db.stats().prometheus();
    /// assert!(metrics.contains("maypole_number_keys_read_total{database="));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "metrics")]
    pub fn prometheus(&self) -> String {
        let written = system_time();
        let stats = PublishedStats { written, ..PublishedStats::of_nobody(self.clone()) };
        text(&stats, false, &self.keyspace)
    }
}

impl PublishedStats {
    /// The counters and sizes in Prometheus' text format, like [`Stats::prometheus`], and when the
    /// owner opened the database and published them.
    pub fn prometheus(&self) -> String {
        text(self, true, DEFAULT_NAME)
    }
}

/// `has_owner`: whether the fields about the owner are set. `keyspace`: of which the statistics are.
fn text(stats: &PublishedStats, has_owner: bool, keyspace: &[u8]) -> String {
    let mut database = format!("database=\"{}\"", label(&stats.path.display().to_string()));
    if keyspace != DEFAULT_NAME {
        database += &keyspace_label(keyspace);
    }
    let mut metrics = Metrics { database, text: String::new() };
    metrics.tickers(stats);
    if has_owner {
        metrics.owner(stats);
    }
    metrics.whole(stats);
    metrics.levels(&stats.levels);
    if !stats.keyspaces.is_empty() {
        metrics.keyspaces(&stats.keyspaces);
    }
    metrics.text
}

struct Metrics {
    /// The label that all samples have.
    database: String,
    text: String,
}

/// A figure of a level: its name, its help text, and the function that reads it.
type LevelCount = (&'static str, &'static str, fn(&LevelStats) -> u64);

const LEVEL_GAUGES: [LevelCount; 6] = [
    ("files", "Tables of a level.", |level| level.files as u64),
    ("file_bytes", "Bytes of the tables of a level.", |level| level.file_bytes),
    ("entries", "Entries in the tables of a level.", |level| level.entries),
    ("dead_entries", "Entries that a compaction of a level would remove, about.", |level| {
        level.dead_entries
    }),
    ("dead_bytes", "Bytes that a compaction of a level would free, about.", |level| {
        level.dead_bytes
    }),
    ("filter_bytes", "Stored bytes of the filters of a level.", |level| level.filter_bytes),
];

const LEVEL_COUNTERS: [LevelCount; 5] = [
    ("filter_useful", "Filters of a level that said no.", |level| level.counts.filter.useful),
    ("filter_full_positive", "Filters of a level that said maybe.", |level| {
        level.counts.filter.full_positive
    }),
    (
        "filter_full_true_positive",
        "Filters of a level that said maybe, of a key that was there.",
        |level| level.counts.filter.full_true_positive,
    ),
    ("filter_untrusted", "Answers of a level's filters that could not be trusted.", |level| {
        level.counts.filter.untrusted
    }),
    ("unfiltered", "Searches in vain of a level's tables without a filter's answer.", |level| {
        level.counts.unfiltered
    }),
];

/// A figure of a keyspace, like a [`LevelCount`].
type KeyspaceCount = (&'static str, &'static str, fn(&KeyspaceStats) -> u64);

const KEYSPACE_GAUGES: [KeyspaceCount; 5] = [
    ("files", "Tables of a keyspace.", |keyspace| keyspace.files as u64),
    ("file_bytes", "Bytes of the tables of a keyspace.", |keyspace| keyspace.file_bytes),
    ("entries", "Entries in the tables of a keyspace.", |keyspace| keyspace.entries),
    ("filter_bytes", "Stored bytes of the filters of a keyspace.", |keyspace| {
        keyspace.filter_bytes
    }),
    ("memtable_bytes", "Bytes of the memtables of a keyspace.", |keyspace| keyspace.memtable_bytes),
];

const KEYSPACE_COUNTERS: [KeyspaceCount; 4] = [
    ("filter_useful", "Filters of a keyspace that said no.", |keyspace| {
        keyspace.counts.filter.useful
    }),
    ("filter_full_positive", "Filters of a keyspace that said maybe.", |keyspace| {
        keyspace.counts.filter.full_positive
    }),
    (
        "filter_full_true_positive",
        "Filters of a keyspace that said maybe, of a key that was there.",
        |keyspace| keyspace.counts.filter.full_true_positive,
    ),
    ("unfiltered", "Searches in vain of a keyspace's tables without a filter's answer.", |it| {
        it.counts.unfiltered
    }),
];

impl Metrics {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.text, "# HELP maypole_{name} {help}\n# TYPE maypole_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "maypole_{name}{{{}{labels}}} {value}", self.database);
    }

    fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.head(name, "gauge", help);
            self.sample(name, "", value);
        }
    }

    fn tickers(&mut self, stats: &PublishedStats) {
        for (ticker, count) in stats.tickers.iter() {
            let name = format!("{}_total", ticker.name().replace(['.', '-'], "_"));
            self.head(&name, "counter", ticker.meaning());
            self.sample(&name, "", count);
        }
    }

    fn owner(&mut self, stats: &PublishedStats) {
        let is_open = Some(f64::from(u8::from(stats.is_open)));
        self.gauge("open", "Whether the owner had the database open when it last wrote.", is_open);
        let help = "When the owner opened the database: all counters begin there.";
        self.gauge("opened_timestamp_seconds", help, Some(seconds(stats.opened)));
        let help = "When the owner last wrote, which it does only after it counted something.";
        self.gauge("published_timestamp_seconds", help, Some(seconds(stats.written)));
    }

    fn whole(&mut self, stats: &PublishedStats) {
        let bytes = |bytes: u64| Some(bytes as f64);
        let filter = stats.counts().filter;
        let help = "The share of filter queries that were answered with no.";
        self.gauge("filter_hit_ratio", help, ratio(filter.useful, filter.asked()));
        let help = "The share of queries for absent keys that were answered with maybe.";
        self.gauge("filter_observed_false_positive_ratio", help, filter.observed_fpr());
        let help = "The false-positive rate to expect.";
        self.gauge("filter_predicted_false_positive_ratio", help, stats.predicted_fpr);
        let help = "Stored bytes of all filters.";
        self.gauge("filter_bytes", help, bytes(stats.filter_bytes()));
        let help = "Filters as a share of block cache and memtables.";
        let memory = stats.cache_capacity_bytes + stats.memtable_bytes;
        self.gauge("filter_memory_ratio", help, ratio(stats.filter_bytes(), memory));
        let help = "Bytes of all memtables.";
        self.gauge("memtable_bytes", help, bytes(stats.memtable_bytes));
        let help = "Bytes that callbacks of the process still read, and nothing else needs.";
        self.gauge("held_by_readers_bytes", help, bytes(stats.held_by_readers_bytes));
        let held = &stats.held_by_cursors;
        let help = "Bytes of flushed memtables that iterators and cursors keep.";
        self.gauge("held_by_cursors_memtable_bytes", help, bytes(held.memtable_bytes));
        let help = "Bytes of obsolete tables that iterators and cursors keep.";
        self.gauge("held_by_cursors_table_bytes", help, bytes(held.table_bytes));
        let help = "Iterators and cursors that hold earlier states of the tree.";
        self.gauge("holding_cursors", help, Some(held.cursors as f64));
        let help = "When the oldest of the held states of the tree was replaced.";
        let replaced = stats.written.checked_sub(held.oldest).filter(|_| held.states > 0);
        self.gauge("oldest_held_state_timestamp_seconds", help, replaced.map(seconds));
        let help = "The most bytes that the block cache may hold.";
        self.gauge("block_cache_capacity_bytes", help, bytes(stats.cache_capacity_bytes));
        let help = "Bytes of the block cache that open tables and slots take.";
        self.gauge("block_cache_tables_bytes", help, bytes(stats.cache_tables_bytes));
        let help = "Bytes of memory that all filters and indexes need.";
        self.gauge("metadata_bytes", help, bytes(stats.metadata_bytes));
        let help =
            "Bytes of whole filters and indexes that stay although metadata fills the cache.";
        self.gauge("pinned_metadata_bytes", help, bytes(stats.pinned_metadata_bytes));
        let help = "Bytes that compaction must still rewrite.";
        self.gauge("compaction_debt_bytes", help, bytes(stats.compaction_debt_bytes));
        let help = "When the oldest snapshot was made.";
        let made = stats.oldest_snapshot.and_then(|age| stats.written.checked_sub(age));
        self.gauge("oldest_snapshot_timestamp_seconds", help, made.map(seconds));
        let help = "Bytes in tables that would be dead without snapshots, about.";
        self.gauge("held_by_snapshots_bytes", help, bytes(stats.held_by_snapshots_bytes));
        self.head("block_cache_bytes", "gauge", "Resident bytes of each kind of block.");
        for (kind, usage) in &stats.cache {
            let kind = format!(",kind=\"{}\"", format!("{kind:?}").to_lowercase());
            self.sample("block_cache_bytes", &kind, usage.bytes);
        }
    }

    fn levels(&mut self, levels: &[LevelStats]) {
        let label = |level: &LevelStats| format!(",level=\"{}\"", level.level);
        let gauges = LEVEL_GAUGES.map(|count| (count, "gauge", ""));
        let counters = LEVEL_COUNTERS.map(|count| (count, "counter", "_total"));
        for ((name, help, value), kind, end) in gauges.into_iter().chain(counters) {
            let name = format!("level_{name}{end}");
            self.head(&name, kind, help);
            levels.iter().for_each(|level| self.sample(&name, &label(level), value(level)));
        }
        let name = "level_bits_per_key";
        self.head(name, "gauge", "Stored bits of the filters of a level for each of its entries.");
        for level in levels {
            if let Some(bits) = ratio(level.filter_bytes * 8, level.entries) {
                self.sample(name, &label(level), bits);
            }
        }
    }

    /// The sums of the other keyspaces. Those of the ones that are not named have no label, which is
    /// to Prometheus the same as an empty one.
    fn keyspaces(&mut self, keyspaces: &[KeyspaceStats]) {
        let label = |keyspace: &KeyspaceStats| match keyspace.name.is_empty() {
            true => String::new(),
            false => keyspace_label(&keyspace.name),
        };
        let gauges = KEYSPACE_GAUGES.map(|count| (count, "gauge", ""));
        let counters = KEYSPACE_COUNTERS.map(|count| (count, "counter", "_total"));
        for ((name, help, value), kind, end) in gauges.into_iter().chain(counters) {
            let name = format!("keyspace_{name}{end}");
            self.head(&name, kind, help);
            keyspaces.iter().for_each(|it| self.sample(&name, &label(it), value(it)));
        }
    }
}

/// The label of the keyspace `name`.
fn keyspace_label(name: &[u8]) -> String {
    format!(",keyspace=\"{}\"", label(&escape(name)))
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A label's value: backslash, quote and line feed are escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
