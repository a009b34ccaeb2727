//! Measures structures, side by side.

use std::hint::black_box;
use std::time::Instant;

use maypole::filter::textbook::{BloomFilter, Layout, mix};

use super::subjects::{self, Filter, Make, Subject};
use crate::failure::{Failure, Result};
use crate::progress;
use crate::show::text::percent;

/// Every time is the best of this many rounds, because other work of the machine only adds to it.
pub const ROUNDS: usize = 3;
/// Queries of a timed round: too many for a branch predictor to learn their answers.
const QUERIES: usize = 1 << 18;
/// The most keys, as a multiple of those planned.
const MAX_TIMES: usize = 5;

/// Hashes of keys: those that are present, and others that are not.
pub struct Hashes {
    seed: u64,
}

impl Hashes {
    pub fn new(seed: u64) -> Hashes {
        Hashes { seed: mix(seed, 0x5eed) }
    }

    /// Random hashes. They are distinct, because mixing maps no two numbers to one hash.
    fn numbered(&self, numbers: std::ops::Range<u64>) -> Vec<u64> {
        numbers.map(|number| mix(number, self.seed)).collect()
    }

    pub fn present(&self, count: usize) -> Vec<u64> {
        self.numbered(0..count as u64)
    }

    /// `count` keys that are never present.
    pub fn absent(&self, count: usize) -> Vec<u64> {
        self.numbered(1 << 40..(1 << 40) + count as u64)
    }

    /// Bytes of the hashes and the filters of a run; 40 bytes a key are enough for the filters.
    pub fn memory(keys: usize) -> u64 {
        (keys * ((MAX_TIMES + 2) * 8 + 40)) as u64 + (64 << 20)
    }
}

pub struct Row {
    pub name: String,
    pub deletes: bool,
    pub keys: usize,
    pub bytes: usize,
    pub build_ns: f64,
    pub absent_ns: f64,
    pub present_ns: f64,
    pub queries: usize,
    pub false_positives: usize,
    /// What became of the structure with two and with five times the planned keys.
    pub over: [Over; 2],
}

/// What became of a structure that was given more keys than planned.
pub enum Over {
    Rate(f64),
    /// It was full with this many keys.
    Full(usize),
    /// It is built once, from all its keys.
    Static,
}

impl Row {
    pub fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.keys as f64
    }

    pub fn rate(&self) -> f64 {
        self.false_positives as f64 / self.queries as f64
    }

    /// Bits per key divided by the fewest that this rate can take. `None` if the filter was never
    /// wrong.
    pub fn over_bound(&self) -> Option<f64> {
        self.bound().map(|bound| self.bits_per_key() / bound)
    }

    /// The fewest bits a key that this rate can take.
    pub fn bound(&self) -> Option<f64> {
        (self.false_positives > 0).then(|| -self.rate().log2())
    }

    /// What became of the structure, in words, with two (`which` is 0) or five times (1) the
    /// planned keys.
    pub fn over_text(&self, which: usize) -> String {
        match self.over[which] {
            Over::Rate(rate) => percent(rate),
            Over::Full(held) => format!("full at {:.2}", held as f64 / self.keys as f64),
            Over::Static => "static".into(),
        }
    }
}

/// Nanoseconds for each of `count` pieces of work, and the result of the work.
pub fn timed<T>(count: usize, work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let made = work();
    (start.elapsed().as_nanos() as f64 / count as f64, made)
}

/// Builds the filter that `subject` plans for `keys.len()` keys at `rate`.
fn build(subject: &Subject, keys: &[u64], rate: f64, absent: &[u64]) -> Result<Box<dyn Filter>> {
    match subject.make {
        Make::Static(make) => make(keys, rate, absent),
        Make::Own(family) => subjects::own(keys, rate, family),
        Make::Dynamic(make) => {
            let mut filter = make(keys.len(), rate);
            match filter.add(keys) {
                added if added == keys.len() => Ok(filter),
                added => Err(Failure::new(format_args!(
                    "{}: full with {added} of {} planned keys",
                    subject.name,
                    keys.len()
                ))),
            }
        }
    }
}

/// The approximate nanoseconds that a whole page will take, computed from the time of a step:
/// adding one key to a small filter, or querying it once. The factors, which were measured, are the
/// numbers of steps for each key, for each absent query and for everything else.
pub fn expected_ns(keys: usize, rate: f64) -> f64 {
    const KEYS: usize = 1 << 16;
    let hashes = Hashes::new(0);
    let (present, absent) = (hashes.present(KEYS), hashes.absent(KEYS));
    let step = || {
        let mut filter = BloomFilter::for_rate(Layout::Shared, KEYS, 0.01);
        Filter::add(&mut filter, &present);
        black_box(filter.count_in_a_chain(&absent));
    };
    let best = (0..ROUNDS).map(|_| timed(2 * KEYS, step).0).fold(f64::INFINITY, f64::min);
    best * (65e6 + 80.0 * queries(rate) as f64 + 1600.0 * keys as f64)
}

/// The number of absent keys that measure a rate to about a hundredth of it, or less precisely if
/// the rate is below 0.25 %.
fn queries(rate: f64) -> usize {
    ((10_000.0 / rate) as usize).clamp(QUERIES, 4_000_000)
}

/// Measures structures. They take turns in every round, so that other work of the machine affects
/// all of them equally.
pub fn rows(subjects: &[Subject], keys: usize, rate: f64, seed: u64) -> Result<Vec<Row>> {
    let bar = progress::bar((subjects.len() * 2 * ROUNDS) as u64, "");
    let hashes = Hashes::new(seed);
    let (present, absent) = (hashes.present(keys), hashes.absent(queries(rate)));

    let (mut filters, mut build_ns) = (Vec::new(), vec![f64::INFINITY; subjects.len()]);
    for round in (0..ROUNDS as u64).rev() {
        // Every round has fresh keys, because a set that was seen before trains the branch
        // predictor. The keys of the last round are those that are queried.
        let fresh = Hashes::new(mix(seed, round)).present(keys);
        let present = if round == 0 { &present } else { &fresh };
        filters.clear();
        for (subject, best) in subjects.iter().zip(&mut build_ns) {
            bar.set_message(format!("building: {}", subject.name));
            let (ns, filter) = timed(keys, || build(subject, present, rate, &absent));
            filters.push(filter?);
            *best = best.min(ns);
            bar.inc(1);
        }
    }

    let some_present = shuffled(&present);
    let asked = [&absent[..QUERIES], &some_present];
    let mut query_ns = vec![[f64::INFINITY; 2]; subjects.len()];
    for _ in 0..ROUNDS {
        for ((subject, filter), best) in subjects.iter().zip(&filters).zip(&mut query_ns) {
            bar.set_message(format!("querying: {}", subject.name));
            for (best, hashes) in best.iter_mut().zip(asked) {
                // The first pass brings the filter into the processor's cache.
                black_box(filter.count_in_a_chain(hashes));
                let round = || black_box(filter.count_in_a_chain(hashes));
                *best = best.min(timed(hashes.len(), round).0);
            }
            bar.inc(1);
        }
    }

    bar.set_message("adding more keys");
    let more = hashes.present(MAX_TIMES * keys);
    let measured = subjects.iter().zip(filters).zip(build_ns).zip(query_ns);
    let rows = measured.map(|(((subject, mut filter), build_ns), [absent_ns, present_ns])| {
        // A filter that forgets a key is a failure.
        if filter.count(&present) != keys {
            return Err(Failure::new(format_args!("{}: a key was not found", subject.name)));
        }
        Ok(Row {
            name: subject.name.clone(),
            deletes: subject.deletes,
            keys,
            bytes: filter.bytes(),
            build_ns,
            absent_ns,
            present_ns,
            queries: absent.len(),
            false_positives: filter.count(&absent),
            over: match subject.make {
                Make::Static(_) | Make::Own(_) => [Over::Static, Over::Static],
                Make::Dynamic(_) => overfill(&mut *filter, &more, keys, &absent),
            },
        })
    });
    let rows = rows.collect();
    bar.finish_and_clear();
    rows
}

/// [`QUERIES`] present keys, in a random order that is not that of insertion.
fn shuffled(present: &[u64]) -> Vec<u64> {
    let pick = |i| ((u128::from(mix(i, 7)) * present.len() as u128) >> 64) as usize;
    (0..QUERIES as u64).map(|i| present[pick(i)]).collect()
}

/// Adds keys to a filter of the first `planned` of `present`, until it has two and five times as
/// many.
fn overfill(filter: &mut dyn Filter, present: &[u64], planned: usize, absent: &[u64]) -> [Over; 2] {
    let mut held = planned;
    [2, MAX_TIMES].map(|times| {
        let wanted = times * planned;
        held += filter.add(&present[held..wanted]);
        match held == wanted {
            true => Over::Rate(filter.count(absent) as f64 / absent.len() as f64),
            false => Over::Full(held),
        }
    })
}
