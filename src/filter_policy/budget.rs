//! Divides the memory for filters among sorted runs, so that lookups of absent keys read as few
//! blocks as possible.
//!
//! A lookup of an absent key queries every sorted run. The filter of run *i* gives a false positive
//! with probability ε_i, so the lookup reads Σ ε_i blocks in vain on average. Bits are worth most
//! in small runs: one bit a key less in the last level, which holds most keys, pays for several
//! bits a key in all the other runs. Run *i* has n_i keys, so the filters take Σ n_i · bits(ε_i).
//! Minimising Σ ε_i for a given sum of bits gives ε_i = λ n_i, at most 1, with one factor λ for all
//! runs: the rate of a run is proportional to its size (Dayan, Athanassoulis and Idreos, "Monkey",
//! SIGMOD 2017).
//!
//! ```text
//! run         1        2        3         4
//! keys        n        10 n     100 n     1000 n       each ten times the run before
//! ε           λ n      10 λ n   100 λ n   1000 λ n
//! bits a key  b + 3 d  b + 2 d  b + d     b            d: the bits for a tenth of the rate
//! ```
//!
//! The sizes of the runs include the new table. The factor λ is found by bisection: for each λ
//! tried, the bits are those that filters of the policy's family ([`Family`]) really store. A tree
//! with fewer than four runs, such as one just loaded, will get smaller runs by later writes. The
//! bits for these runs are left free.
//!
//! A table keeps its filter until it is rewritten, but the bits a key that the budget allows it
//! become fewer as the tree grows. So when all filters together exceed the budget by a twentieth
//! ([`SLACK`]), tables whose filters exceed what the budget allows them by a twentieth are
//! rewritten as soon as no other compaction is due.

use super::context::FilterContext;
use crate::filter::{Family, FilterSpec};
use crate::version::{FileMeta, LEVELS};

/// Memory for all filters of a tree together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    Bytes(u64),
    BitsPerKey(f64),
}

/// A filter with a higher false-positive rate than this is not worth its queries, so the table gets
/// none.
pub const WORST_FPR: f64 = 0.6;

/// The lowest rate of a run: more bits bring no measurable gain.
const BEST_FPR: f64 = 1e-4;

/// Tables are rewritten when all filters together take more than the budget times this factor.
pub const SLACK: f64 = 1.05;

impl Budget {
    /// The bits that the budget allows in a tree of this many entries.
    pub fn bits(self, entries: u64) -> f64 {
        match self {
            Budget::Bytes(bytes) => bytes as f64 * 8.0,
            Budget::BitsPerKey(bits) => bits * entries as f64,
        }
    }
}

/// The false-positive rate that the budget gives to the run that the table of `context` joins.
pub fn share(budget: Budget, family: Family, context: &FilterContext) -> f64 {
    let rates = divide(budget, family, &with_runs_to_come(&context.run_entries));
    rates.get(context.run).copied().unwrap_or(1.0)
}

/// The entries of the runs that later writes will add to a tree with these runs, so that it has four.
/// Levels aim at a tenth of the next larger level, so the second run, if it is missing, gets a tenth
/// of the largest run, the third a hundredth, and the fourth a thousandth.
pub fn entries_to_come(run_entries: &[u64]) -> impl Iterator<Item = u64> + use<> {
    let largest = run_entries.iter().copied().max().unwrap_or(0);
    (run_entries.len() as u32..4).map(move |run| largest / 10u64.pow(run))
}

fn with_runs_to_come(run_entries: &[u64]) -> Vec<u64> {
    run_entries.iter().copied().chain(entries_to_come(run_entries)).collect()
}

/// The false-positive rate of each run. Their sum is the least that the budget allows.
pub fn divide(budget: Budget, family: Family, run_entries: &[u64]) -> Vec<f64> {
    let factor = factor_of(budget, family, run_entries);
    run_entries.iter().map(|&keys| factor.rate(keys as f64, 1.0)).collect()
}

fn factor_of(budget: Budget, family: Family, run_entries: &[u64]) -> Factor {
    let runs: Vec<(f64, f64)> = run_entries.iter().map(|&keys| (keys as f64, 1.0)).collect();
    let bits = |rate| stored_bits(rate, family);
    Factor::filling(budget.bits(run_entries.iter().sum()), &bits, &runs)
}

/// A budget divided among the runs of a tree whose tables are only written again, with other
/// filters. One division tells the rates of all tables.
pub struct Division {
    factor: Factor,
    level_entries: [u64; LEVELS],
}

impl Division {
    pub fn of_all(budget: Budget, family: Family, levels: &[Vec<&FileMeta>; LEVELS]) -> Division {
        // The runs are the same whichever level from 1 on a table without entries joins.
        let runs = FilterContext::new(levels, 1, 0).run_entries;
        let factor = factor_of(budget, family, &with_runs_to_come(&runs));
        let entries = |files: &Vec<&FileMeta>| files.iter().map(|file| file.entries).sum();
        Division { factor, level_entries: levels.each_ref().map(entries) }
    }

    /// The false-positive rate of a table of this level, if it is written again.
    pub fn rate(&self, level: usize, file: &FileMeta) -> f64 {
        // A table of level 0 is a run of its own.
        let of_run = if level == 0 { file.entries } else { self.level_entries[level] };
        self.factor.rate(of_run as f64, 1.0)
    }
}

/// The factor λ, as its logarithm.
#[derive(Debug, Clone, Copy)]
pub struct Factor {
    log2: f64,
}

impl Factor {
    /// The factor with which filters fill a budget. `bits` tells the bits a key that a rate takes.
    /// `tables` has the keys of each table, or of several together, and its weight: how much its rate
    /// counts.
    pub fn filling(budget_bits: f64, bits: &dyn Fn(f64) -> f64, tables: &[(f64, f64)]) -> Factor {
        // A larger λ costs fewer bits. With the smallest λ every rate is `BEST_FPR`, and with the
        // largest λ every rate is 1.
        let (mut low, mut high) = (-80.0, 40.0);
        for _ in 0..60 {
            let log2 = (low + high) / 2.0;
            match (Factor { log2 }).bits(bits, tables) > budget_bits {
                true => low = log2,
                false => high = log2,
            }
        }
        Factor { log2: high }
    }

    /// The bits of all filters together.
    pub fn bits(self, bits: &dyn Fn(f64) -> f64, tables: &[(f64, f64)]) -> f64 {
        tables.iter().map(|&(keys, weight)| keys * bits(self.rate(keys, weight))).sum()
    }

    /// The false-positive rate of a table.
    pub fn rate(self, keys: f64, weight: f64) -> f64 {
        (self.log2.exp2() * keys.max(1.0) / weight.max(f64::MIN_POSITIVE)).clamp(BEST_FPR, 1.0)
    }
}

/// The filter of a table with this false-positive rate.
pub fn spec_of_rate(rate: f64, family: Family) -> FilterSpec {
    match rate > WORST_FPR {
        true => FilterSpec::NONE,
        false => FilterSpec::fpr(rate, family).unwrap_or(FilterSpec::NONE),
    }
}

/// The bits a key that a filter of `family` stores for a false-positive rate; 0 for a rate above
/// [`WORST_FPR`], because there is no filter then. The estimate is within 2 % of the true value for
/// filters of at least ten thousand keys.
pub fn stored_bits(rate: f64, family: Family) -> f64 {
    if rate > WORST_FPR {
        return 0.0;
    }
    family.bits_for_rate(rate)
}
