//! Measures lookups per second with caches of several sizes, and with several shares of absent
//! keys.
//!
//! A point is a cache size and a share of absent keys. At each point, the lookups are timed in
//! rounds, in which the trees take turns. The databases are opened again with each cache size. The
//! smallest cache is usually smaller than the filters, so that lookups read filters from the files.
//! Once all filters and indexes fit, a larger cache saves only reads of data blocks.

use std::time::Instant;

use maypole::{Ticker, Tickers};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::keys::KeySet;
use super::measure::check;
use super::plan::Plan;
use super::results::ThroughputRow;
use super::rounds::{self, ROUNDS, Repeated};
use super::setup::Setup;
use super::tree::Tree;
use crate::failure::Result;
use crate::progress;

/// The cache sizes to measure, as fractions of the data.
const CACHES: [f64; 8] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.6, 1.5];
/// The shares of absent lookups to measure.
const SHARES: [f64; 6] = [0.0, 0.25, 0.5, 0.75, 0.9, 1.0];
/// The share of absent lookups with which the caches of different sizes are compared.
pub const MIXED: f64 = 0.5;
/// The most timed lookups of one figure.
const LOOKUPS: usize = 20_000;

/// Cache sizes and shares; every pair is measured.
pub struct Grid {
    pub cache_bytes: Vec<u64>,
    pub shares: Vec<f64>,
}

impl Grid {
    /// What a page shows of a run without `--sweep`: all caches at the share [`MIXED`], and all
    /// shares with the usual cache.
    pub fn cross(plan: &Plan, usual_cache_bytes: u64) -> [Grid; 2] {
        let shares = SHARES.to_vec();
        [
            Grid { cache_bytes: caches(plan, &CACHES), shares: vec![MIXED] },
            Grid { cache_bytes: vec![usual_cache_bytes], shares },
        ]
    }

    pub fn points(&self) -> usize {
        self.cache_bytes.len() * self.shares.len()
    }
}

/// Sizes of the cache that are these fractions of the data.
pub fn caches(plan: &Plan, parts: &[f64]) -> Vec<u64> {
    parts.iter().map(|part| ((plan.data_bytes as f64 * part) as u64).max(4096)).collect()
}

/// Lookups that a point takes, those that fill the cache included.
pub fn lookups_of_a_point(keys: &KeySet) -> usize {
    (2 * LOOKUPS).min(keys.queries.absent.len() + keys.queries.present.len())
}

#[derive(Clone, Copy)]
pub struct Query {
    key: usize,
    present: bool,
}

/// Measures every tree at every point of the grid. Returns the trees, opened again.
pub fn run(
    mut trees: Vec<Tree>,
    setup: &Setup,
    grid: &Grid,
) -> Result<(Vec<Tree>, Vec<ThroughputRow>)> {
    let bar = progress::bar((grid.points() * trees.len()) as u64, "lookups with other caches");
    let mut rows = Vec::new();
    for &cache_bytes in &grid.cache_bytes {
        let opened = trees.into_iter().map(|tree| tree.reopen(&setup.plan, cache_bytes as usize));
        trees = opened.collect::<Result<_>>()?;
        for &share_absent in &grid.shares {
            let lookups = lookups_of_a_point(&setup.keys);
            let queries = mix(setup, share_absent, lookups, setup.seed);
            // Half of the lookups fill the cache.
            let timed = time(&trees, &setup.keys, &queries, queries.len() / 2)?;
            rows.extend(trees.iter().zip(timed).map(|(tree, timed)| {
                let Repeated { median, low, high } = Repeated::of(&timed.rates);
                ThroughputRow {
                    policy: tree.policy.to_string(),
                    cache_bytes,
                    data_bytes: setup.plan.data_bytes as u64,
                    share_absent,
                    lookups: timed.lookups,
                    rounds: timed.rates.len() as u64,
                    lookups_per_second: median,
                    lookups_per_second_low: low,
                    lookups_per_second_high: high,
                    blocks_per_get: timed.per_get(Ticker::DataBlocksExamined),
                    file_reads_per_get: timed.per_get(Ticker::FileReads),
                }
            }));
            bar.inc(trees.len() as u64);
        }
    }
    Ok((trees, rows))
}

/// Draws `lookups` queries, a fraction of about `share` of them for absent keys.
pub fn mix(setup: &Setup, share: f64, lookups: usize, seed: u64) -> Vec<Query> {
    let drawn = &setup.keys.queries;
    let mut random = SmallRng::seed_from_u64(seed ^ 3);
    (0..lookups)
        .map(|_| {
            let present = random.random::<f64>() >= share;
            let from = if present { &drawn.present } else { &drawn.absent };
            Query { key: from[random.random_range(0..from.len())], present }
        })
        .collect()
}

pub fn look_up(tree: &Tree, keys: &KeySet, queries: &[Query]) -> Result {
    for query in queries {
        let list = if query.present { &keys.present } else { &keys.absent };
        let key = list.get(query.key);
        check(tree.db.contains_key(key)?, query.present, key)?;
    }
    Ok(())
}

/// The timed lookups of one tree at one point.
pub struct Timed {
    pub lookups: u64,
    /// Lookups a second in each round.
    pub rates: Vec<f64>,
    counted: Tickers,
}

impl Timed {
    /// The mean count of `ticker` per lookup.
    pub fn per_get(&self, ticker: Ticker) -> f64 {
        self.counted.get(ticker) as f64 / self.lookups as f64
    }
}

/// Looks the queries up in all trees. The first `fill` queries fill the caches; the others are
/// timed.
pub fn time(trees: &[Tree], keys: &KeySet, queries: &[Query], fill: usize) -> Result<Vec<Timed>> {
    let (before, timed) = queries.split_at(fill);
    trees.iter().try_for_each(|tree| look_up(tree, keys, before))?;
    let counted_before: Vec<_> = trees.iter().map(|tree| tree.db.stats().tickers).collect();
    let mut rates = vec![Vec::new(); trees.len()];
    for round in 0..ROUNDS {
        let part = &timed[rounds::part(round, timed.len())];
        for turn in rounds::turns(round, trees.len()) {
            let start = Instant::now();
            look_up(&trees[turn], keys, part)?;
            let seconds = start.elapsed().as_secs_f64();
            rates[turn].extend((!part.is_empty()).then(|| part.len() as f64 / seconds));
        }
    }
    let of_tree = |((tree, before), rates): ((&Tree, Tickers), Vec<f64>)| {
        let counted = &tree.db.stats().tickers - &before;
        Timed { lookups: timed.len() as u64, rates, counted }
    };
    Ok(trees.iter().zip(counted_before).zip(rates).map(of_tree).collect())
}
