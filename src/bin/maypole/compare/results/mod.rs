//! Every figure of a comparison. The terminal, the page, JSON and CSV show these and compute none
//! of their own, but for sums and shares of them.
//!
//! ```text
//! report   tables on the terminal, or JSON       verdict   the same in words
//! save     page, JSON and CSV into a directory   page/     the page
//! ```

mod page;
pub mod report;
pub mod save;
pub mod verdict;

use maypole::wilson_interval_95;
use serde_json::{Value, json};

use crate::show::about::Origin;
use crate::show::record::{Field, record};

/// All of a run.
#[derive(Default)]
pub struct Results {
    pub about: About,
    pub policies: Vec<PolicyRow>,
    pub levels: Vec<LevelRow>,
    pub latency: Vec<LatencyRow>,
    pub throughput: Vec<ThroughputRow>,
    pub accuracy: Vec<AccuracyRow>,
    pub speed: Vec<SpeedRow>,
}

/// What a reader must know to believe the figures, and to make them again.
#[derive(Default)]
pub struct About {
    pub origin: Origin,
    pub keys: u64,
    pub data_bytes: u64,
    /// What a read of a block costs, for the verdict.
    pub read_cost: verdict::ReadCost,
    /// The part of absent keys among the queries, where these were given.
    pub share_absent: Option<f64>,
    /// Which keys are looked up how often.
    pub workload: String,
    /// Nanoseconds that reading the clock took.
    pub clock_ns: u64,
    pub notes: Vec<String>,
}

/// Mean, median and 99th percentile of single lookups, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
}

impl Field for Times {
    fn to_value(&self) -> Value {
        json!({ "mean": self.mean, "p50": self.p50, "p99": self.p99 })
    }

    fn from_value(value: &Value) -> Option<Times> {
        let time = |name: &str| value[name].as_f64();
        Some(Times { mean: time("mean")?, p50: time("p50")?, p99: time("p99")? })
    }
}

record! {
    /// One policy. Undefined figures are `None`.
    pub struct PolicyRow {
        policy: String,
        keys: u64,
        tables: u64,
        /// Levels that hold data.
        levels: u64,
        /// Stored bytes of all filters.
        filter_bytes: u64,
        bits_per_key: f64,
        build_ns_per_key: Option<f64>,
        /// Weighted by how often each table's filter was queried.
        predicted_fpr: Option<f64>,
        observed_fpr: Option<f64>,
        filters_asked: u64,
        useful: u64,
        full_positive: u64,
        full_true_positive: u64,
        absent_gets: u64,
        present_gets: u64,
        /// Data blocks examined a lookup, cached or not.
        blocks_per_absent_get: f64,
        blocks_per_present_get: f64,
        /// Reads from table files a lookup.
        file_reads_per_absent_get: f64,
        file_reads_per_present_get: f64,
        get_absent_ns: Times,
        get_present_ns: Times,
        /// Of a run that is to read from the device: whether it did.
        cold: Option<bool>,
    }
}

impl PolicyRow {
    /// The range that holds the true false-positive rate with a confidence of 95 %.
    pub fn interval_95(&self) -> Option<(f64, f64)> {
        let false_positive = self.full_positive - self.full_true_positive;
        wilson_interval_95(false_positive, false_positive + self.useful)
    }

    /// Whether the run was to read from the device and read nothing at all: the block cache holds
    /// everything.
    pub fn reads_are_unseen(&self) -> bool {
        self.cold.is_some() && self.file_reads_per_present_get == 0.0
    }

    /// Tables an absent lookup was spared.
    pub fn spared_per_get(&self) -> f64 {
        self.useful as f64 / self.absent_gets as f64
    }
}

#[cfg(test)]
impl Results {
    /// The results of a tree of three levels of `keys` keys each, with these filters: name, bytes,
    /// rate.
    pub fn computed(about: About, keys: u64, filters: &[(&str, u64, f64)]) -> Results {
        let levels = |rate| [(4, keys, rate), (5, keys, rate), (6, keys, rate)];
        let all: Vec<_> =
            filters.iter().map(|&(name, bytes, rate)| (name, bytes, levels(rate))).collect();
        let policies: Vec<verdict::tests::Policy> = all
            .iter()
            .map(|(name, bytes, levels)| (*name, *bytes, &levels[..], 1.0 + 2.0 * levels[0].2))
            .collect();
        verdict::tests::results(&policies, about)
    }
}

record! {
    /// One level of one policy's tree.
    pub struct LevelRow {
        policy: String,
        level: u64,
        files: u64,
        file_bytes: u64,
        entries: u64,
        filter_bytes: u64,
        bits_per_key: f64,
        predicted_fpr: Option<f64>,
        observed_fpr: Option<f64>,
        filters_asked: u64,
    }
}

record! {
    /// One point of a policy's percentile curve.
    pub struct LatencyRow {
        policy: String,
        /// `absent` or `present`.
        lookups: String,
        percentile: f64,
        ns: u64,
    }
}

record! {
    /// Lookups of absent and present keys mixed, one thread.
    pub struct ThroughputRow {
        policy: String,
        cache_bytes: u64,
        /// What the cache was sized by: bytes of all tables.
        data_bytes: u64,
        share_absent: f64,
        lookups: u64,
        lookups_per_second: f64,
        blocks_per_get: f64,
        file_reads_per_get: f64,
    }
}

record! {
    /// A filter without a tree, queried for keys that it does not hold.
    pub struct AccuracyRow {
        family: String,
        keys: u64,
        /// Stored, trailer included.
        bits_per_key: f64,
        predicted_fpr: f64,
        observed_fpr: f64,
        /// Of 95 % confidence.
        fpr_low: f64,
        fpr_high: f64,
        queries: u64,
    }
}

record! {
    /// The cost of building a filter, and of a query.
    pub struct SpeedRow {
        family: String,
        keys: u64,
        filter_bytes: u64,
        build_ns_per_key: f64,
        /// Memory that the build took at its peak, key hashes and filter included. `None` where the
        /// system does not tell, and below a mebibyte, where pages are too coarse.
        peak_bytes: Option<u64>,
        query_absent_ns: f64,
        query_present_ns: f64,
    }
}
