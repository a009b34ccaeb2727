//! Measures structures side by side: the memory, the times and the false-positive rate of each.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use maypole_filter::textbook::{BloomFilter, Layout, mix};

use super::subjects::{Filter, Subject};
use crate::compare::Repeated;
use crate::failure::{Failure, Result};
use crate::progress;
use crate::show::record::record;
use crate::show::text::percent;

/// How often work of `count` steps is timed. Every time is the shortest of the rounds, because
/// other work of the machine can only make a round longer. Short work gets more rounds, because a
/// busy machine may interrupt each of a few.
fn rounds(count: usize) -> usize {
    (1_500_000 / count.max(1)).clamp(3, 20)
}

/// The times of the same work in several rounds.
#[derive(Debug, Clone, Default)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// Times work of `count` steps; the times are nanoseconds a step. Returns its last result too.
    pub fn of<T>(count: usize, mut work: impl FnMut() -> T) -> (Rounds, T) {
        let (first, mut made) = timed(count, &mut work);
        let mut times = Rounds(vec![first]);
        for _ in 1..rounds(count) {
            let (ns, again) = timed(count, &mut work);
            times.0.push(ns);
            made = again;
        }
        (times, made)
    }

    pub fn shortest(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The time of a usual round as a multiple of the shortest: far above 1 if other work of the
    /// machine interrupted most of them.
    pub fn noise(&self) -> f64 {
        Repeated::of(&self.0).median / self.shortest()
    }
}

/// Queries of a timed round: too many for a branch predictor to learn their answers.
const QUERIES: usize = 1 << 18;
/// The most keys that are added to a filter, as a multiple of the planned keys.
const MAX_TIMES: usize = 5;

/// Random hashes. They are distinct, because mixing maps no two numbers to one hash.
fn hashes(seed: u64, numbers: Range<u64>) -> Vec<u64> {
    let seed = mix(seed, 0x5eed);
    numbers.map(|number| mix(number, seed)).collect()
}

pub fn present_hashes(seed: u64, count: usize) -> Vec<u64> {
    hashes(seed, 0..count as u64)
}

/// Hashes of `count` keys that are never present.
pub fn absent_hashes(seed: u64, count: usize) -> Vec<u64> {
    hashes(seed, 1 << 40..(1 << 40) + count as u64)
}

/// Bytes of the hashes and the filters of a run; 40 bytes a key are enough for all filters
/// together.
pub fn memory_bytes(keys: usize) -> u64 {
    (keys * ((MAX_TIMES + 2) * 8 + 40)) as u64 + (64 << 20)
}

record! {
    /// The figures of a structure.
    pub struct Row {
        structure: String,
        deletes: bool,
        /// Whether it is built once, from all its keys.
        is_static: bool,
        planned_keys: u64,
        bytes: u64,
        bits_per_key: f64,
        /// Bits per key divided by log2(1/rate), the fewest with which a filter can have this rate.
        /// `None` if the filter was never wrong.
        bits_over_bound: Option<f64>,
        build_ns_per_key: f64,
        query_absent_ns: f64,
        query_present_ns: f64,
        /// The largest [`Rounds::noise`] of these times.
        noise: f64,
        absent_queries: u64,
        rate: f64,
        /// The rates with two and five times the planned keys. `None` if the structure is static,
        /// or was full before it held so many keys.
        rate_at_2_times: Option<f64>,
        rate_at_5_times: Option<f64>,
        /// The number of keys with which the structure was full.
        full_at_keys: Option<u64>,
    }
}

impl Row {
    /// The text of `rate`, one of the rates with more keys than planned. If there is no rate, the
    /// text says why: `full at N` if the structure was full with N times the planned keys, or else
    /// `static`.
    pub fn over_text(&self, rate: Option<f64>) -> String {
        match (rate, self.full_at_keys) {
            (Some(rate), _) => percent(rate),
            (None, Some(held)) => format!("full at {:.2}", held as f64 / self.planned_keys as f64),
            (None, None) => "static".into(),
        }
    }
}

/// The time of `work` in nanoseconds, divided by `count`, and its result.
fn timed<T>(count: usize, work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let made = work();
    (start.elapsed().as_nanos() as f64 / count as f64, made)
}

/// The approximate time that a whole page will take: the number of steps, times the time of a step,
/// which is measured here. A step adds one key to a small filter, or queries it once. The number of
/// steps is a sum of three terms, whose factors were measured earlier: one grows with the keys, one
/// with the absent queries, and one is constant.
pub fn expected_time(keys: usize, rate: f64) -> Duration {
    const KEYS: usize = 1 << 16;
    let (present, absent) = (present_hashes(0, KEYS), absent_hashes(0, KEYS));
    let step = || {
        let mut filter = BloomFilter::for_rate(Layout::Shared, KEYS, 0.01);
        Filter::add(&mut filter, &present);
        black_box(filter.count_in_a_chain(&absent));
    };
    let best = Rounds::of(2 * KEYS, step).0.shortest();
    let steps = 95e6 + 80.0 * queries(rate) as f64 + 1600.0 * keys as f64;
    Duration::from_secs_f64(best * steps / 1e9)
}

/// The number of queries for absent keys that measures a rate with an error of about a hundredth of
/// the rate. For rates below 0.25 %, the limit of 4 million queries makes the error larger.
fn queries(rate: f64) -> usize {
    ((10_000.0 / rate) as usize).clamp(QUERIES, 4_000_000)
}

/// Measures structures. They take turns in every round, so that other work of the machine affects
/// all of them equally.
pub fn rows(subjects: &[Subject], keys: usize, rate: f64, seed: u64) -> Result<Vec<Row>> {
    let (builds, lookups) = (rounds(keys), rounds(QUERIES));
    let bar = progress::bar((subjects.len() * (builds + lookups)) as u64, "");
    let (present, absent) = (present_hashes(seed, keys), absent_hashes(seed, queries(rate)));

    let (mut filters, mut build_ns) = (Vec::new(), vec![Rounds::default(); subjects.len()]);
    for round in (0..builds as u64).rev() {
        // Every round has other keys, because the branch predictor learns keys that it sees
        // repeatedly. The filters of the last round are kept for the queries, so its keys are
        // `present`.
        let fresh = present_hashes(mix(seed, round), keys);
        let present = if round == 0 { &present } else { &fresh };
        filters.clear();
        for (subject, times) in subjects.iter().zip(&mut build_ns) {
            bar.set_message(format!("building: {}", subject.name));
            let (ns, filter) = timed(keys, || (subject.make)(present, rate, &absent));
            filters.push(filter?);
            times.0.push(ns);
            bar.inc(1);
        }
    }

    let some_present = shuffled(&present);
    let asked = [&absent[..QUERIES], &some_present];
    let mut query_ns = vec![[Rounds::default(), Rounds::default()]; subjects.len()];
    for _ in 0..lookups {
        for ((subject, filter), times) in subjects.iter().zip(&filters).zip(&mut query_ns) {
            bar.set_message(format!("querying: {}", subject.name));
            for (times, hashes) in times.iter_mut().zip(asked) {
                // The first pass is not timed: it brings the filter into the processor's caches.
                black_box(filter.count_in_a_chain(hashes));
                let round = || black_box(filter.count_in_a_chain(hashes));
                times.0.push(timed(hashes.len(), round).0);
            }
            bar.inc(1);
        }
    }

    bar.set_message("adding more keys");
    let more = present_hashes(seed, MAX_TIMES * keys);
    let measured = subjects.iter().zip(filters).zip(build_ns).zip(query_ns);
    let rows = measured.map(|(((subject, mut filter), build_ns), [absent_ns, present_ns])| {
        // A filter that does not find one of its keys is broken.
        if filter.count(&present) != keys {
            return Err(Failure::new(format_args!("{}: a key was not found", subject.name)));
        }
        let (bytes, rate) = (filter.bytes(), rate_of(&*filter, &absent));
        let bits_per_key = bytes as f64 * 8.0 / keys as f64;
        let mut row = Row {
            structure: subject.name.clone(),
            deletes: subject.deletes,
            is_static: subject.is_static,
            planned_keys: keys as u64,
            bytes: bytes as u64,
            bits_per_key,
            bits_over_bound: (rate > 0.0).then(|| bits_per_key / -rate.log2()),
            build_ns_per_key: hundredths(build_ns.shortest()),
            query_absent_ns: hundredths(absent_ns.shortest()),
            query_present_ns: hundredths(present_ns.shortest()),
            noise: build_ns.noise().max(absent_ns.noise()).max(present_ns.noise()),
            absent_queries: absent.len() as u64,
            rate,
            ..Row::default()
        };
        if !subject.is_static {
            overfill(&mut *filter, &more, &absent, &mut row);
        }
        Ok(row)
    });
    rows.collect()
}

/// [`QUERIES`] present keys, drawn at random with repetition, so that they are not in the order of
/// insertion.
fn shuffled(present: &[u64]) -> Vec<u64> {
    let pick = |i| ((u128::from(mix(i, 7)) * present.len() as u128) >> 64) as usize;
    (0..QUERIES as u64).map(|i| present[pick(i)]).collect()
}

fn rate_of(filter: &dyn Filter, absent: &[u64]) -> f64 {
    filter.count(absent) as f64 / absent.len() as f64
}

fn hundredths(nanos: f64) -> f64 {
    (nanos * 100.0).round() / 100.0
}

/// Measures the rate of a filter with two and with five times the planned keys, unless the filter
/// is full before. The filter already holds the planned number of keys, the first ones of
/// `present`; the keys that follow them are added.
fn overfill(filter: &mut dyn Filter, present: &[u64], absent: &[u64], row: &mut Row) {
    let planned = row.planned_keys as usize;
    let mut held = planned;
    for (times, rate) in [(2, &mut row.rate_at_2_times), (MAX_TIMES, &mut row.rate_at_5_times)] {
        held += filter.add(&present[held..times * planned]);
        if held < times * planned {
            row.full_at_keys = Some(held as u64);
            return;
        }
        *rate = Some(rate_of(filter, absent));
    }
}
