//! The figures of a comparison: a list of rows for each table.

use maypole::wilson_interval_95;
use serde_json::{Value, json};

use crate::recommend::Estimate;
use crate::show::about::Origin;
use crate::show::record::{Field, record};
use crate::show::text::percent;

/// The command that pages name as their maker.
pub const MAKER: &str = "maypole compare";

#[derive(Default)]
pub struct Results {
    pub about: About,
    pub policies: Vec<PolicyRow>,
    pub levels: Vec<LevelRow>,
    pub latency: Vec<LatencyRow>,
    pub throughput: Vec<ThroughputRow>,
    pub forms: Vec<FormRow>,
    pub accuracy: Vec<AccuracyRow>,
    pub speed: Vec<SpeedRow>,
}

/// What a reader must know to trust the figures and to reproduce them.
#[derive(Default)]
pub struct About {
    pub origin: Origin,
    pub keys: u64,
    pub data_bytes: u64,
    /// What a read of a block costs, for the verdict.
    pub read_cost: ReadCost,
    /// The share of absent keys among the queries, if a file of queries was given.
    pub share_absent: Option<f64>,
    /// Which keys are looked up, and how often.
    pub workload: String,
    /// Nanoseconds that reading the clock took.
    pub clock_ns: u64,
    pub notes: Vec<String>,
}

/// What a data block's read costs, and how that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum ReadCost {
    /// Microseconds: the mean of this run, with `--cold`.
    Measured(f64),
    /// Microseconds, given by the user.
    Given(f64),
    /// Neither given nor measured.
    #[default]
    Usual,
    /// `--cold` was to measure the cost, but fewer than nine of ten bytes came from the device, or
    /// the system does not tell how many did.
    NotReached,
}

/// Mean, median and 99th percentile of single lookups, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    /// The median of the rounds' means and its interval, as
    /// [`Repeated`](crate::compare::rounds::Repeated) computes them. Unlike `mean`, it does not
    /// change if one round stalls, so that policies are ranked by it.
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Times {
    pub fn of_rounds(&self) -> Estimate {
        Estimate { value: self.median, low: self.low, high: self.high }
    }
}

impl Field for Times {
    fn to_value(&self) -> Value {
        let Times { mean, p50, p99, median, low, high } = self;
        json!({
            "mean": mean, "p50": p50, "p99": p99, "median": median, "low": low, "high": high
        })
    }

    fn from_value(value: &Value) -> Option<Times> {
        let number = |name: &str| value[name].as_f64();
        Some(Times {
            mean: number("mean")?,
            p50: number("p50")?,
            p99: number("p99")?,
            median: number("median")?,
            low: number("low")?,
            high: number("high")?,
        })
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
        /// Bytes of memory that all filters and indexes need.
        metadata_bytes: u64,
        /// Bytes that filters and indexes take in the block cache after the last lookup.
        resident_metadata_bytes: u64,
        build_ns_per_key: Option<f64>,
        /// The mean of the tables' predictions, weighted by how often each table's filter was
        /// queried.
        predicted_fpr: Option<f64>,
        observed_fpr: Option<f64>,
        /// Queries of filters by absent lookups: the sum of the next two.
        filters_asked: u64,
        /// Queries that a filter answered with no.
        useful: u64,
        /// All other queries. Those for keys that the table holds are also in the next count.
        full_positive: u64,
        full_true_positive: u64,
        absent_gets: u64,
        present_gets: u64,
        /// Data blocks that a lookup examines, cached or not.
        blocks_per_absent_get: f64,
        blocks_per_present_get: f64,
        /// Reads from table files per lookup.
        file_reads_per_absent_get: f64,
        file_reads_per_present_get: f64,
        get_absent_ns: Times,
        get_present_ns: Times,
        /// Whether nearly all bytes that lookups read came from the device. `None` without
        /// `--cold`.
        cold: Option<bool>,
    }
}

impl PolicyRow {
    /// The range that holds the true false-positive rate with a confidence of 95 %.
    pub fn interval_95(&self) -> Option<(f64, f64)> {
        let false_positive = self.full_positive - self.full_true_positive;
        wilson_interval_95(false_positive, false_positive + self.useful)
    }

    /// Whether the prediction lies outside the observed interval.
    pub(super) fn is_surprising(&self) -> bool {
        self.predicted_fpr
            .zip(self.interval_95())
            .is_some_and(|(predicted, (low, high))| !(low..=high).contains(&predicted))
    }

    /// Whether, despite `--cold`, lookups of present keys read no file, because the block cache
    /// holds everything.
    pub fn reads_are_unseen(&self) -> bool {
        self.cold.is_some() && self.file_reads_per_present_get == 0.0
    }
}

/// A machine is too noisy if at least half of the intervals are wider than this fraction of their
/// figures.
const NOISY: f64 = 0.3;

impl Results {
    /// A warning if the machine was too noisy for the times to be believed.
    pub fn noise(&self) -> Option<String> {
        let of_times = |times: &Times| (times.high - times.low) / times.median.max(1.0);
        let singles =
            self.policies.iter().flat_map(|row| [&row.get_absent_ns, &row.get_present_ns]);
        let mixed = self.throughput.iter().map(|row| {
            (row.lookups_per_second_high - row.lookups_per_second_low) / row.lookups_per_second
        });
        let mut spreads: Vec<f64> = singles.map(of_times).chain(mixed).collect();
        spreads.sort_unstable_by(f64::total_cmp);
        let usual = *spreads.get(spreads.len() / 2)?;
        (usual > NOISY).then(|| {
            format!(
                "the machine is noisy: half of the times spread over more than {} of themselves from \
                 round to round, and {} are tolerable; measure again when it is idle, or for longer",
                percent(usual),
                percent(NOISY)
            )
        })
    }

    /// A warning if predictions lie outside the observed intervals.
    pub fn surprises(&self) -> Option<String> {
        let rows = self.policies.iter().filter(|row| row.is_surprising());
        let names: Vec<&str> = rows.map(|row| &*row.policy).collect();
        (!names.is_empty()).then(|| {
            format!(
                "the prediction lies outside the 95 % interval for {}: a prediction is the mean of many \
                 filters, and each has a rate of its own; the interval knows this run's filters alone",
                names.join(", ")
            )
        })
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
        /// Queries of filters by present lookups for keys that the table does not hold, and how
        /// many of them were false positives.
        present_asked: u64,
        present_wrong: u64,
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
        /// The approximate bytes of all tables before compression. `cache_bytes` is a fixed
        /// fraction of them, except where the cache is the one that the [`PolicyRow`]s were
        /// measured with.
        data_bytes: u64,
        share_absent: f64,
        lookups: u64,
        /// The number of rounds. Lookups per second are the median of the rounds, with its
        /// interval.
        rounds: u64,
        lookups_per_second: f64,
        lookups_per_second_low: f64,
        lookups_per_second_high: f64,
        blocks_per_get: f64,
        file_reads_per_get: f64,
    }
}

impl ThroughputRow {
    /// Whether `other` is the row of another policy with the same cache and the same share of
    /// absent keys, and the intervals of both rows overlap.
    pub fn is_tied_with(&self, other: &ThroughputRow) -> bool {
        self.policy != other.policy
            && (self.cache_bytes, self.share_absent) == (other.cache_bytes, other.share_absent)
            && self.lookups_per_second_low <= other.lookups_per_second_high
            && other.lookups_per_second_low <= self.lookups_per_second_high
    }
}

record! {
    /// Lookups with filters and indexes of one form, one thread.
    pub struct FormRow {
        policy: String,
        /// One of [`FORMS`](crate::compare::forms::FORMS).
        form: String,
        /// `absent` or `present`.
        lookups: String,
        cache_bytes: u64,
        /// What the policy's whole filters and indexes need in memory. `cache_bytes` is a multiple
        /// of it.
        metadata_bytes: u64,
        gets: u64,
        rounds: u64,
        /// The time of a get in nanoseconds: the median of the rounds, and the bounds of its 95 %
        /// confidence interval.
        get_ns: f64,
        get_ns_low: f64,
        get_ns_high: f64,
        file_reads_per_get: f64,
        /// Filters, or parts of filters, that a lookup reads from files.
        filter_reads_per_get: f64,
        /// Filters, or parts of filters, that were not in memory and that a lookup passed by
        /// without reading them.
        filters_passed_by_per_get: f64,
    }
}

impl FormRow {
    /// Whether `other` is the row of another form, with the same policy, lookups and cache, and the
    /// intervals of both rows overlap.
    pub fn is_tied_with(&self, other: &FormRow) -> bool {
        let point = |row: &FormRow| (row.policy.clone(), row.lookups.clone(), row.cache_bytes);
        self.form != other.form
            && point(self) == point(other)
            && self.get_ns_low <= other.get_ns_high
            && other.get_ns_low <= self.get_ns_high
    }
}

record! {
    /// A filter without a tree, queried for keys that it does not hold.
    pub struct AccuracyRow {
        family: String,
        keys: u64,
        /// Stored bits, trailer included.
        bits_per_key: f64,
        predicted_fpr: f64,
        observed_fpr: f64,
        /// The bounds of the 95 % interval.
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
        /// Memory that the build took at its peak, key hashes and filter included. `None` if the
        /// system does not report it. Also `None` below 1 MiB, because the system counts whole
        /// pages, which is too coarse for less.
        peak_bytes: Option<u64>,
        query_absent_ns: f64,
        query_present_ns: f64,
    }
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use super::*;

    fn results(filters: &[(&str, u64, f64)]) -> Results {
        Results::computed(About::default(), 100_000, filters)
    }

    fn timed(results: &mut Results, times: &[(f64, f64, f64)]) {
        for (row, &(low, median, high)) in results.policies.iter_mut().zip(times) {
            // One stalled round makes the mean of all lookups larger than any interval.
            let mean = 10.0 * high;
            row.get_absent_ns = Times { mean, p50: median, p99: mean, median, low, high };
            row.get_present_ns = row.get_absent_ns;
        }
    }

    /// The same command gave 4.3 and then 1.2 million lookups a second, and reported both as facts.
    /// Later it named the policy with the least mean, which was another one each time, and widened
    /// an interval until it held this mean. Now policies are ranked by the median of the rounds, and
    /// if their intervals overlap, it is said that the noise exceeds the difference.
    #[test]
    fn policies_whose_intervals_overlap_are_not_distinguishable() {
        let mut results = results(&[("a", 0, 0.1), ("b", 9, 0.1), ("c", 9, 0.1)]);
        timed(&mut results, &[(90.0, 100.0, 110.0), (105.0, 120.0, 130.0), (111.0, 120.0, 130.0)]);
        let said = report::fastest(&results.policies);
        assert_eq!(
            said[0],
            "Absent lookups: the rounds vary more than these policies differ, so that none is the \
             fastest: a (100 ns), b (120 ns)."
        );
        timed(&mut results, &[(90.0, 100.0, 101.0), (105.0, 120.0, 130.0), (111.0, 120.0, 130.0)]);
        assert_eq!(
            report::fastest(&results.policies)[1],
            "Present lookups take the least time with a, 100 ns (95 %: 90 to 101); every other one takes \
             more."
        );
        assert!(report::fastest(&results.policies[..1]).is_empty(), "nothing to compare");
    }

    #[test]
    fn a_noisy_machine_is_said_to_be_one() {
        let mut results = results(&[("a", 0, 0.1), ("b", 9, 0.1)]);
        timed(&mut results, &[(95.0, 100.0, 110.0), (95.0, 100.0, 110.0)]);
        assert_eq!(results.noise(), None);
        timed(&mut results, &[(70.0, 100.0, 110.0), (70.0, 100.0, 110.0)]);
        assert!(results.noise().is_some_and(|said| said.contains("more than 40.0 %")));
    }

    /// In an earlier version, 6 of 26 seeds gave a prediction outside the interval, and no output
    /// said why this can happen. Now a note explains it.
    #[test]
    fn a_prediction_outside_the_interval_is_explained() {
        let mut results = results(&[("a", 9, 0.01), ("b", 9, 0.01)]);
        for (row, times) in results.policies.iter_mut().zip([1.0, 2.0]) {
            row.predicted_fpr = Some(times * 0.01);
        }
        let said = results.surprises().unwrap();
        assert!(said.contains("for b: ") && said.contains("a rate of its own"), "{said}");
    }
}
