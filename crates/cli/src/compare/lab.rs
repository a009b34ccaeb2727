//! Measures filters without a tree: their false positives, the cost of building them, and the time
//! of a query. A filter sees only the hashes of keys, so random hashes represent any keys.
//!
//! ```text
//! accuracy   one filter for each family and size, queried for hashes that were never added
//! speed      one filter at a rate of 1 % for each family and number of keys. Each has a process of
//!            its own, because a process cannot reset its peak of memory, and reuses freed memory
//! ```

use std::hint::black_box;
use std::io::Write;
use std::process::Command;
use std::time::Instant;

use clap::Args;
use maypole::filter::{Family, FilterBlock, FilterBuilder, FilterReader, FilterSpec};
use maypole::wilson_interval_95;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::results::{AccuracyRow, SpeedRow};
use super::rounds::Repeated;
use crate::failure::{Failure, Result};
use crate::show::record::{self, Record};
use crate::{progress, space};

/// The bits per key of the filters whose accuracy is measured.
const BITS: [f64; 12] = [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0];
/// The keys of the largest filter whose accuracy is measured: more keys would change only the time
/// that measuring takes.
const MAX_ACCURACY_KEYS: u64 = 1_000_000;
/// Keys of the smallest and the largest filter whose speed is measured. The largest Bloom filter
/// takes about 20 MiB, more than the L2 cache of a processor.
const SPEED_KEYS: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 24;
/// False-positive rate of the filters whose speed is measured.
pub const SPEED_FPR: f64 = 0.01;
/// The number of absent queries of one timed pass over a filter of up to 2 MiB. In a larger filter,
/// the pass has two queries for each cache line, because with fewer queries a processor's cache
/// could hold all lines that they read.
const QUERIES: u64 = 1 << 16;
const PASSES: usize = 5;
/// The number of builds whose median is taken. Filters of more than [`MAX_REPEATED_KEYS`] keys are
/// built only once, because one such build takes long enough to be measured.
const BUILDS: usize = 3;
const MAX_REPEATED_KEYS: u64 = 1 << 20;

/// Measures the false positives of a filter for each family and each of [`BITS`]. Each filter gets
/// `queries` queries for hashes that were not added.
pub fn accuracy(keys: u64, queries: u64, seed: u64) -> Result<Vec<AccuracyRow>> {
    let keys = keys.min(MAX_ACCURACY_KEYS);
    let bar = progress::bar((Family::written().count() * BITS.len()) as u64, "filters: accuracy");
    let mut rows = Vec::new();
    for family in Family::written() {
        for bits in BITS {
            let block = FilterSpec::stored(bits, family).ok();
            let block = block.and_then(|spec| build(spec, keys, seed));
            // For few keys, a Bloom filter may have been built instead. Such a filter gets no row.
            if let Some(block) = block.filter(|block| block.family() == family) {
                rows.push(accuracy_of(&block, queries, seed));
            }
            bar.inc(1);
        }
    }
    Ok(rows)
}

/// A filter of `keys` random keys.
pub fn build(spec: FilterSpec, keys: u64, seed: u64) -> Option<FilterBlock> {
    filled(spec, keys, seed).finish()
}

fn filled(spec: FilterSpec, keys: u64, seed: u64) -> FilterBuilder {
    let mut hashes = SmallRng::seed_from_u64(seed);
    let mut builder = FilterBuilder::new(spec);
    (0..keys).for_each(|_| builder.add(hashes.next_u64()));
    builder
}

/// A stream of hashes that differs from that of the keys.
fn absent_hashes(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed ^ 0x5eed_0fab_5e47_0000)
}

fn accuracy_of(block: &FilterBlock, queries: u64, seed: u64) -> AccuracyRow {
    let reader = FilterReader::from_bytes(block.bytes(), block.encoding());
    let mut absent = absent_hashes(seed);
    let positive = (0..queries).filter(|_| reader.may_contain(absent.next_u64())).count() as u64;
    let (fpr_low, fpr_high) = wilson_interval_95(positive, queries).unwrap_or((0.0, 1.0));
    AccuracyRow {
        family: block.family().to_string(),
        keys: block.keys(),
        bits_per_key: block.bits_per_key(),
        predicted_fpr: block.predicted_fpr(),
        observed_fpr: positive as f64 / queries as f64,
        fpr_low,
        fpr_high,
        queries,
    }
}

/// Measures each family from a thousand keys up to sixteen times `keys`, but at most to the end of
/// [`SPEED_KEYS`]. Each filter is measured in a process of its own.
pub fn speed(keys: u64, seed: u64) -> Result<Vec<SpeedRow>> {
    let program = std::env::current_exe().map_err(Failure::new)?;
    let (first, most) = (*SPEED_KEYS.start(), (*SPEED_KEYS.end()).min(keys.saturating_mul(16)));
    let sizes: Vec<u64> =
        std::iter::successors(Some(first), |n| Some(n * 4)).take_while(|&n| n <= most).collect();
    let all = Family::written().count() as u64 * sizes.iter().sum::<u64>();
    let bar = progress::bar(all, "filters: speed");
    let mut rows = Vec::new();
    for family in Family::written() {
        for &keys in &sizes {
            let mut command = Command::new(&program);
            command.args(["filter-speed", family.name()]);
            command.args([keys.to_string(), seed.to_string()]);
            let output = command.output().map_err(Failure::new)?;
            let row = serde_json::from_slice(&output.stdout).ok();
            let row = row.and_then(|row| SpeedRow::from_json(&row)).ok_or_else(|| {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                Failure::new(format_args!("measuring {family} of {keys} keys failed: {said}"))
            })?;
            if row.family == family.name() {
                rows.push(row);
            }
            bar.inc(keys);
        }
    }
    Ok(rows)
}

/// Measure one filter without a tree; `compare --out` starts this command for each filter.
#[derive(Args)]
pub struct FilterSpeed {
    family: String,
    keys: u64,
    seed: u64,
}

impl FilterSpeed {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let spec: FilterSpec =
            format!("fpr({SPEED_FPR}, {})", self.family).parse().map_err(Failure::new)?;
        // The first build brings the code into memory, so that the memory of the code is not
        // counted as memory of the filter.
        build(spec, 1000, self.seed);
        let before = space::of_process("VmRSS:");
        let (block, nanos) = self.timed_build(spec)?;
        let peak = space::of_process("VmHWM:")
            .zip(before)
            .map(|(peak, before)| peak.saturating_sub(before));
        let mut build_nanos = vec![nanos];
        while build_nanos.len() < BUILDS && self.keys <= MAX_REPEATED_KEYS {
            build_nanos.push(self.timed_build(spec)?.1);
        }

        let reader = FilterReader::from_bytes(block.bytes(), block.encoding());
        let queries = QUERIES.max(block.bytes().len() as u64 / 32);
        let absent = hashes_of(absent_hashes(self.seed), queries, 1);
        let every = (self.keys / queries).max(1);
        let present = hashes_of(SmallRng::seed_from_u64(self.seed), self.keys, every);
        let row = SpeedRow {
            family: block.family().to_string(),
            keys: self.keys,
            filter_bytes: block.bytes().len() as u64,
            build_ns_per_key: Repeated::of(&build_nanos).median / self.keys as f64,
            peak_bytes: peak.filter(|&bytes| bytes >= 1 << 20),
            query_absent_ns: query_ns(&reader, &absent),
            query_present_ns: query_ns(&reader, &present),
        };
        writeln!(out, "{}", record::to_json(&row))?;
        Ok(())
    }

    /// Builds a filter. Returns it and the nanoseconds from hashes to the finished block.
    fn timed_build(&self, spec: FilterSpec) -> Result<(FilterBlock, f64)> {
        let builder = filled(spec, self.keys, self.seed);
        let start = Instant::now();
        let block = builder.finish().ok_or_else(|| Failure::new("no filter was built"))?;
        Ok((block, start.elapsed().as_nanos() as f64))
    }
}

/// Every `every`-th of the first `count` hashes.
fn hashes_of(mut stream: SmallRng, count: u64, every: u64) -> Vec<u64> {
    (0..count).map(|_| stream.next_u64()).step_by(every as usize).collect()
}

/// Nanoseconds of a query that waits for the result of the query before it: the median of a few
/// passes.
fn query_ns(reader: &FilterReader, hashes: &[u64]) -> f64 {
    let nothing = black_box(0u64);
    let passes: Vec<f64> = (0..=PASSES)
        .map(|_| {
            let (mut answer, start) = (false, Instant::now());
            for &hash in hashes {
                answer = reader.may_contain(hash ^ (u64::from(answer) & nothing));
            }
            black_box(answer);
            start.elapsed().as_nanos() as f64 / hashes.len() as f64
        })
        // The first pass brings the filter into the processor's caches, as far as it fits.
        .skip(1)
        .collect();
    Repeated::of(&passes).median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_filters_let_through_is_what_was_predicted() {
        let rows = accuracy(10_000, 200_000, 3).unwrap();
        assert!(rows.len() >= 30, "{}", rows.len());
        for row in rows {
            // At a rate of 0, the interval may start above 0 by a rounding error.
            assert!(row.fpr_low - 1e-12 <= row.observed_fpr && row.observed_fpr <= row.fpr_high);
            // The prediction is the mean of many filters, and one small filter can differ from it.
            // So the prediction may be outside the 95 % interval, by the width of the interval plus
            // a tenth of the prediction.
            let slack = row.fpr_high - row.fpr_low + 0.1 * row.predicted_fpr;
            let (low, high) = (row.fpr_low - slack, row.fpr_high + slack);
            assert!((low..=high).contains(&row.predicted_fpr), "{row:?}");
        }
    }
}
