//! Compares filters: Maypole's families and three crates that a Rust program might use instead.
//!
//! ```sh
//! cargo bench --bench filter                    # everything (a few minutes)
//! cargo bench --bench filter -- hot/10000       # one group
//! ```
//!
//! The groups:
//!
//! ```text
//! build/KEYS            from ready hashes
//! hot-absent/KEYS       one filter; each query waits for the result of the query before
//! hot-present/KEYS      the same for present keys
//! hot-many/KEYS         one filter, all queries in one call
//! memory-one/KEYS       a random one of 100 MB of filters, one query after the other
//! memory-batched/KEYS   the same, 32 queries at a time
//! ```
//!
//! `hot-many`, `memory-one` and `memory-batched` query absent keys. The filters have different
//! sizes and false-positive rates. So when you compare their times, compare sizes and rates too.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use maypole_filter::{FilterBuilder, FilterEncoding, FilterReader, FilterSpec, PreparedQuery};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const SPECS: &[&str] = &["bloom(10)", "ribbon(7)", "burr(7)"];
const KEYS: &[usize] = &[10_000, 1_000_000];
/// With this number of queries, a branch predictor cannot learn the answers.
const QUERIES: usize = 1 << 18;
const BATCH: usize = 32;
const FILTERS_BYTES: usize = 100 << 20;

/// The operations of a filter under test, each made by the fastest call of the filter's crate.
trait Subject: Sized {
    fn ask(&self, hash: u64) -> bool;
    /// Many queries of one filter.
    fn ask_many(&self, hashes: &[u64], answers: &mut [bool]) {
        for (answer, &hash) in answers.iter_mut().zip(hashes) {
            *answer = self.ask(hash);
        }
    }
    /// Queries each of several filters once; returns how many answered "maybe".
    fn ask_each(filters: &[&Self; BATCH], hashes: &[u64; BATCH]) -> usize {
        filters.iter().zip(hashes).filter(|(filter, hash)| filter.ask(**hash)).count()
    }
    fn bytes(&self) -> usize;
    fn copy(&self) -> Self;
}

struct Maypole(FilterReader, FilterEncoding);

impl Subject for Maypole {
    #[inline]
    fn ask(&self, hash: u64) -> bool {
        self.0.may_contain(hash)
    }

    fn ask_many(&self, hashes: &[u64], answers: &mut [bool]) {
        self.0.may_contain_many(hashes, answers);
    }

    #[inline]
    fn ask_each(filters: &[&Self; BATCH], hashes: &[u64; BATCH]) -> usize {
        let queries: [PreparedQuery; BATCH] =
            std::array::from_fn(|i| filters[i].0.prepare(hashes[i]));
        filters.iter().zip(queries).filter(|(filter, query)| filter.0.finish(*query)).count()
    }

    fn bytes(&self) -> usize {
        self.0.bytes().len()
    }

    fn copy(&self) -> Self {
        Maypole(FilterReader::from_bytes(self.0.bytes(), self.1), self.1)
    }
}

impl Subject for fastbloom::BloomFilter {
    #[inline]
    fn ask(&self, hash: u64) -> bool {
        self.contains_hash(hash)
    }

    fn bytes(&self) -> usize {
        self.num_bits() / 8
    }

    fn copy(&self) -> Self {
        self.clone()
    }
}

impl Subject for sbbf_rs_safe::Filter {
    #[inline]
    fn ask(&self, hash: u64) -> bool {
        self.contains_hash(hash)
    }

    fn bytes(&self) -> usize {
        self.as_bytes().len()
    }

    fn copy(&self) -> Self {
        sbbf_rs_safe::Filter::from_bytes(self.as_bytes()).expect("its own bytes")
    }
}

impl Subject for xorf::BinaryFuse8 {
    #[inline]
    fn ask(&self, hash: u64) -> bool {
        xorf::Filter::contains(self, &hash)
    }

    fn bytes(&self) -> usize {
        xorf::Filter::len(self)
    }

    fn copy(&self) -> Self {
        self.clone()
    }
}

fn random(seed: u64, count: usize) -> Vec<u64> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..count).map(|_| rng.random()).collect()
}

/// Queries all hashes one after the other; returns how many answers were "maybe". Each query waits
/// for the results of the queries before it: the sum of these results is ANDed with a zero that the
/// compiler does not know, and XORed into the hash.
fn in_a_chain(hashes: &[u64], mut ask: impl FnMut(u64) -> bool) -> u64 {
    let zero = black_box(0);
    hashes
        .iter()
        .fold(0, |found: u64, &hash| found.wrapping_add(u64::from(ask(hash ^ (found & zero)))))
}

fn bench<S: Subject>(c: &mut Criterion, name: &str, build: impl Fn(&[u64]) -> S) {
    for &keys in KEYS {
        let hashes = random(keys as u64, keys);
        let mut group = c.benchmark_group(format!("build/{keys}"));
        group.throughput(Throughput::Elements(keys as u64));
        let mut run = 0;
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            // New keys every time, because a repeated set trains the branch predictor.
            let fresh = || {
                run += 1;
                random(run, keys)
            };
            b.iter_batched(fresh, |hashes| build(&hashes), criterion::BatchSize::LargeInput);
        });
        group.finish();

        let filter = build(&hashes);
        let absent = random(0xab5e, QUERIES);
        let mut rng = StdRng::seed_from_u64(1);
        let present: Vec<u64> = (0..QUERIES).map(|_| hashes[rng.random_range(0..keys)]).collect();
        let mut measure = |group: &str, work: &mut dyn FnMut() -> u64| {
            let mut group = c.benchmark_group(format!("{group}/{keys}"));
            group.throughput(Throughput::Elements(QUERIES as u64));
            group.bench_function(BenchmarkId::from_parameter(name), |b| b.iter(&mut *work));
            group.finish();
        };
        measure("hot-absent", &mut || in_a_chain(&absent, |hash| filter.ask(hash)));
        measure("hot-present", &mut || in_a_chain(&present, |hash| filter.ask(hash)));
        let mut answers = vec![false; QUERIES];
        measure("hot-many", &mut || {
            filter.ask_many(&absent, &mut answers);
            u64::from(answers[0])
        });
        let filters: Vec<S> =
            (0..FILTERS_BYTES.div_ceil(filter.bytes())).map(|_| filter.copy()).collect();
        // Chooses a key's filter by the high bits of a product of the key's hash, because these are
        // hardly correlated with the bits of the hash that the filters use.
        let pick = |hash: u64| {
            let mixed = u128::from(hash.wrapping_mul(0xd6e8_feb8_6659_fd93));
            &filters[((mixed * filters.len() as u128) >> 64) as usize]
        };
        measure("memory-one", &mut || in_a_chain(&absent, |hash| pick(hash).ask(hash)));
        measure("memory-batched", &mut || {
            let batches = absent.as_chunks().0.iter();
            batches.map(|batch| S::ask_each(&batch.map(pick), batch) as u64).sum()
        });
    }
}

fn filters(c: &mut Criterion) {
    for text in SPECS {
        let spec: FilterSpec = text.parse().expect("a spec of this file");
        bench(c, text, |hashes| {
            let mut builder = FilterBuilder::new(spec).verify(false);
            hashes.iter().for_each(|&hash| builder.add(hash));
            let block = builder.finish().expect("keys were added");
            let encoding = block.encoding();
            Maypole(block.into_reader(), encoding)
        });
    }
    bench(c, "fastbloom, 10 bits", |hashes| {
        let mut filter =
            fastbloom::BloomFilter::with_num_bits(10 * hashes.len()).expected_items(hashes.len());
        hashes.iter().for_each(|&hash| {
            filter.insert_hash(hash);
        });
        filter
    });
    bench(c, "sbbf-rs-safe, 10 bits", |hashes| {
        let mut filter = sbbf_rs_safe::Filter::new(10, hashes.len());
        hashes.iter().for_each(|&hash| {
            filter.insert_hash(hash);
        });
        filter
    });
    bench(c, "xorf BinaryFuse8", |hashes| {
        xorf::BinaryFuse8::try_from(hashes).expect("distinct hashes")
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = filters
}
criterion_main!(benches);
