//! What the figures mean, in words: which policy to take, and when to take another one.
//!
//! ```text
//! reads      data blocks a lookup reads when none is cached, with their 95 % interval
//! enough     a policy saves enough if it saves 98 % of what the best one saves
//! take       the smallest that saves enough; of those of its size the one with the fewest reads
//! unless     RocksDB uses the filters; memory is short; a few microseconds are worth more memory
//! ```
//!
//! The sentences are a pure function of the results. In tables of few keys, chance and rounding
//! give filters unusual rates, and these tables are queried as often as large ones. So the verdict
//! leaves out the reads of a level if its tables have few keys, or got too few queries to know the
//! rate. It says which levels these are. What it says of the other levels holds for a larger tree
//! too. If this rule would leave out all levels, none is left out.

#[cfg(test)]
pub mod tests;

use maypole::wilson_interval_95;

use super::{PolicyRow, ReadCost, Results};
use crate::args::USUAL_READ_MICROS;
use crate::show::text::{count, counted, percent, size};

impl ReadCost {
    /// The time of lookups of present keys, divided by their reads from files. Lookups of present
    /// keys are taken, because each needs at least one block, that of the key.
    pub fn measured(rows: &[PolicyRow]) -> ReadCost {
        let cold = || rows.iter().filter(|row| row.cold == Some(true));
        let nanos: f64 = cold().map(|row| row.get_present_ns.mean).sum();
        let reads: f64 = cold().map(|row| row.file_reads_per_present_get).sum();
        match reads > 0.0 {
            true => ReadCost::Measured(nanos / reads / 1e3),
            false => ReadCost::NotReached,
        }
    }

    fn micros(self) -> f64 {
        match self {
            ReadCost::Measured(micros) | ReadCost::Given(micros) => micros,
            ReadCost::Usual | ReadCost::NotReached => USUAL_READ_MICROS,
        }
    }

    fn name(self) -> String {
        let cost = micros(self.micros());
        match self {
            ReadCost::Measured(_) => format!("{cost} a read, measured with --cold"),
            ReadCost::Given(_) => format!("{cost} a read, which --read-cost gives"),
            ReadCost::Usual => format!("{cost} a read, usual for flash (--read-cost gives yours)"),
            ReadCost::NotReached => {
                format!("{cost} a read, usual for flash: --cold did not reach the device")
            }
        }
    }
}

/// A table with fewer keys than this counts as small: the rate of its filter may differ by over a
/// tenth from that of a large filter.
const FEW_KEYS: u64 = 2000;
/// If absent lookups queried the filters of a level fewer times than this, the observed rate says
/// little.
const FEW_QUERIES: u64 = 1000;
/// A policy saves enough if it saves at least this fraction of what the best policy saves.
const ENOUGH: f64 = 0.98;
/// Sizes that differ by at most this fraction count as equal.
const SAME_SIZE: f64 = 0.01;
/// A policy that takes less memory than the chosen one, by more than this fraction, is suggested if
/// memory is short.
const MUCH_LESS: f64 = 0.1;
/// The policy that is suggested if memory is short must save at least this fraction of the best
/// saving.
const HALF: f64 = 0.5;
/// A saving of fewer microseconds a lookup than this is not worth any memory.
const MIN_MICROS: f64 = 0.5;
/// At most this many other policies get a sentence.
const MAX_OTHERS: usize = 6;

/// The data blocks that a lookup reads with one policy.
struct Reads<'a> {
    policy: &'a str,
    bytes: u64,
    reads: f64,
    /// The bounds of the 95 % interval.
    low: f64,
    high: f64,
}

impl Reads<'_> {
    /// Whether the intervals overlap.
    fn is_tied_with(&self, other: &Reads) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    fn is_as_large_as(&self, other: &Reads) -> bool {
        self.bytes.abs_diff(other.bytes) as f64 <= SAME_SIZE * self.bytes.max(other.bytes) as f64
    }

    fn is_known_to_rocksdb(&self) -> bool {
        !self.policy.contains("burr") && !self.policy.contains("fuse")
    }
}

/// The verdict, a sentence or a few on each line.
pub fn lines(results: &Results) -> Vec<String> {
    let verdict = Verdict::new(results);
    let Some(chosen) = verdict.choose(|_| true).filter(|_| verdict.saves_something()) else {
        return vec![verdict.nothing_saved(), verdict.scope()];
    };
    let mut lines = vec![verdict.advice(chosen), verdict.saving(chosen)];
    lines.extend(verdict.others(chosen));
    lines.extend(verdict.tiny_tables(chosen));
    lines.push(verdict.scope());
    lines
}

/// For each policy, the mean number of data blocks that an absent lookup reads, and its 95 %
/// interval. The levels that the verdict leaves out are not counted.
pub fn absent_reads(results: &Results) -> Vec<(f64, (f64, f64))> {
    let verdict = Verdict::new(results);
    let of = |row: &PolicyRow| {
        let Reads { reads, low, high, .. } = verdict.reads(row, 1.0);
        (reads, (low, high))
    };
    results.policies.iter().map(of).collect()
}

/// Whether tables of few keys are left out of the reads.
pub fn leaves_out_tables(results: &Results) -> bool {
    !tiny_levels(results).is_empty()
}

struct Verdict<'a> {
    results: &'a Results,
    /// The levels that are left out, because their tables have few keys or few queries.
    tiny: Vec<u64>,
    /// The policies with filters, the smallest first.
    all: Vec<Reads<'a>>,
    /// The data blocks that a lookup reads without filters.
    without: f64,
}

impl<'a> Verdict<'a> {
    fn new(results: &'a Results) -> Verdict<'a> {
        let mut verdict =
            Verdict { results, tiny: tiny_levels(results), all: vec![], without: 0.0 };
        let rows = &results.policies;
        let share = verdict.share_absent();
        let with_filters = rows.iter().filter(|row| row.filter_bytes > 0);
        let mut all: Vec<Reads> = with_filters.map(|row| verdict.reads(row, share)).collect();
        // The sort is stable: of two policies of one size, the one that was named first stays
        // first.
        all.sort_by_key(|reads| reads.bytes);
        verdict.all = all;
        let absent = rows.iter().map(|row| verdict.absent_reads(row) + verdict.spared(row));
        let present = rows.iter().map(|row| row.blocks_per_present_get);
        verdict.without =
            share * absent.fold(0.0, f64::max) + (1.0 - share) * present.fold(0.0, f64::max);
        verdict
    }

    /// The share of absent keys among the lookups of the verdict. Without a file of queries, the
    /// verdict is about absent keys only.
    fn share_absent(&self) -> f64 {
        self.results.about.share_absent.unwrap_or(1.0)
    }

    fn micros(&self, reads: f64) -> f64 {
        reads * self.results.about.read_cost.micros()
    }

    /// How often absent lookups queried the filters of one policy's tree, and how many of these
    /// queries were false positives. If `tiny`, only the levels in [`Verdict::tiny`] are counted,
    /// else only the others.
    fn asked(&self, row: &PolicyRow, tiny: bool) -> (f64, f64) {
        let levels = self.results.levels.iter().filter(|level| level.policy == row.policy);
        let levels = levels.filter(|level| self.tiny.contains(&level.level) == tiny);
        levels.fold((0.0, 0.0), |(asked, wrong), level| {
            let here = level.filters_asked as f64;
            (asked + here, wrong + here * level.observed_fpr.unwrap_or(0.0))
        })
    }

    /// The mean number of tables that an absent lookup did not search because a filter said no.
    /// Tables of the levels in [`Verdict::tiny`] are not counted.
    fn spared(&self, row: &PolicyRow) -> f64 {
        if self.tiny.is_empty() {
            return row.spared_per_get();
        }
        let (asked, wrong) = self.asked(row, false);
        (asked - wrong) / row.absent_gets as f64
    }

    /// The mean number of data blocks that an absent lookup read. Blocks of the levels in
    /// [`Verdict::tiny`] are not counted.
    fn absent_reads(&self, row: &PolicyRow) -> f64 {
        let gets = row.absent_gets as f64;
        let of_level = |&level: &u64| {
            let own = |found: &&super::LevelRow| found.policy == row.policy;
            let levels = self.results.levels.iter().filter(|found| found.level == level);
            match levels.clone().find(own) {
                Some(own) if own.filter_bytes > 0 => {
                    own.filters_asked as f64 * own.observed_fpr.unwrap_or(0.0)
                }
                // If this policy has no filter in the level, each absent lookup that reached a
                // table of the level read it in vain. How many lookups reached one is known from a
                // policy with filters in the level: each of these lookups queried a filter.
                _ => levels.map(|found| found.filters_asked).max().unwrap_or(0) as f64,
            }
        };
        let of_tiny: f64 = self.tiny.iter().map(of_level).sum();
        (row.blocks_per_absent_get - of_tiny / gets).max(0.0)
    }

    /// What a lookup reads with one policy, if `share` of the lookups are of absent keys.
    fn reads<'r>(&self, row: &'r PolicyRow, share: f64) -> Reads<'r> {
        let between = |reads: f64, gets: u64| {
            let read = (reads * gets as f64).round() as u64;
            // In each level that counts, each lookup could have read one data block in vain.
            let trials = read.max(gets * row.levels.saturating_sub(self.tiny.len() as u64).max(1));
            let (low, high) = wilson_interval_95(read, trials).unwrap_or((0.0, 1.0));
            let times = trials as f64 / gets.max(1) as f64;
            (low * times, high * times)
        };
        let absent = self.absent_reads(row);
        let absent_between = between(absent, row.absent_gets);
        // The block of the key itself is read for certain.
        let vain = (row.blocks_per_present_get - 1.0).max(0.0);
        let (low, high) = between(vain, row.present_gets);
        let certain = row.blocks_per_present_get - vain;
        let mix = |absent: f64, present: f64| share * absent + (1.0 - share) * (certain + present);
        Reads {
            policy: &row.policy,
            bytes: row.filter_bytes,
            reads: mix(absent, vain),
            low: mix(absent_between.0, low),
            high: mix(absent_between.1, high),
        }
    }

    fn saved(&self, of: &Reads) -> f64 {
        self.without - of.reads
    }

    fn saves_something(&self) -> bool {
        self.all.iter().any(|of| self.micros(self.saved(of)) >= MIN_MICROS)
    }

    /// Chooses one of the policies that `may` accepts. The smallest policy that saves enough, or
    /// that is tied with the best, determines the size. Of the policies of about this size, the
    /// first one whose reads are tied with the fewest is chosen.
    fn choose(&self, may: impl Fn(&Reads) -> bool) -> Option<&Reads<'a>> {
        let all = || self.all.iter().filter(|of| may(of));
        let best = all().min_by(|a, b| a.reads.total_cmp(&b.reads))?;
        let is_enough =
            |of: &Reads| self.saved(of) >= ENOUGH * self.saved(best) || of.is_tied_with(best);
        let smallest = all().find(|of| is_enough(of))?;
        let same = || all().filter(|of| of.is_as_large_as(smallest));
        let fewest = same().min_by(|a, b| a.reads.total_cmp(&b.reads))?;
        same().find(|of| of.is_tied_with(fewest))
    }

    fn nothing_saved(&self) -> String {
        if self.all.is_empty() {
            return "There is nothing to choose: no policy with filters was measured.".to_string();
        }
        format!(
            "Take none: no filter saves as much as {} a lookup at {}.",
            micros(MIN_MICROS),
            self.results.about.read_cost.name()
        )
    }

    /// The sentence "Take …, unless …": the chosen policy, and the cases in which to take another.
    fn advice(&self, chosen: &Reads) -> String {
        let mut unless = Vec::new();
        if !chosen.is_known_to_rocksdb()
            && let Some(other) = self.choose(|of| of.is_known_to_rocksdb())
        {
            unless.push(format!("RocksDB is to use the filters (then {})", other.policy));
        }
        let best = self.all.iter().map(|of| self.saved(of)).fold(0.0, f64::max);
        let is_much_smaller = |of: &&Reads| {
            (of.bytes as f64) < (1.0 - MUCH_LESS) * chosen.bytes as f64
                && self.saved(of) >= HALF * best
        };
        if let Some(smaller) = self.all.iter().rev().find(is_much_smaller) {
            let less = 1.0 - smaller.bytes as f64 / chosen.bytes as f64;
            unless.push(format!(
                "memory is short (then {}, which takes {} less)",
                smaller.policy,
                percent(less)
            ));
        }
        let gain = |of: &Reads| self.micros(chosen.reads - of.reads);
        let is_better = |of: &&Reads| !of.is_tied_with(chosen) && gain(of) >= MIN_MICROS;
        // The smallest of the better policies.
        if let Some(better) = self.all.iter().find(is_better) {
            unless.push(format!(
                "{} a lookup are worth {} of memory (then {})",
                micros(gain(better)),
                size(better.bytes.saturating_sub(chosen.bytes)),
                better.policy
            ));
        }
        let unless = match unless.split_last() {
            None => String::new(),
            Some((last, [])) => format!(", unless {last}"),
            Some((last, first)) => format!(", unless {} or {last}", first.join(", ")),
        };
        format!("Take {}{unless}.", chosen.policy)
    }

    /// What the chosen policy saves, and how much memory it takes.
    fn saving(&self, chosen: &Reads) -> String {
        let about = &self.results.about;
        let lookup = match about.share_absent {
            None => "absent lookup".to_string(),
            Some(share) => format!("lookup of these queries ({} absent)", percent(share)),
        };
        let lookup = match self.tiny.is_empty() {
            true => format!("A{} {lookup}", if lookup.starts_with('a') { "n" } else { "" }),
            false => format!("Tables of few keys aside, each {lookup}"),
        };
        let saved = self.saved(chosen);
        format!(
            "{lookup} reads {:.2} data blocks without filters when none is cached. {} saves {saved:.2} of \
             them: {} at {}. Its filters take {} of memory, {} of the data.",
            self.without,
            chosen.policy,
            micros(self.micros(saved)),
            about.read_cost.name(),
            size(chosen.bytes),
            percent(chosen.bytes as f64 / about.data_bytes.max(1) as f64)
        )
    }

    /// A sentence for each other policy, which compares it with the chosen one.
    fn others(&self, chosen: &Reads) -> Vec<String> {
        let others = || self.all.iter().filter(|of| of.policy != chosen.policy);
        let is_beaten = |of: &Reads| {
            self.all.iter().any(|other| {
                other.bytes < of.bytes && other.reads < of.reads && !other.is_tied_with(of)
            })
        };
        let mut shown: Vec<&Reads> = others().collect();
        let mut lines = Vec::new();
        if shown.len() > MAX_OTHERS {
            shown.retain(|of| !is_beaten(of));
            // Those nearest in size are the most informative.
            shown.sort_by_key(|of| of.bytes.abs_diff(chosen.bytes));
            shown.truncate(MAX_OTHERS);
            shown.sort_by_key(|of| of.bytes);
            let beaten = others().filter(|of| is_beaten(of)).count();
            lines.push(format!(
                "Of {} more, {} take more memory than another and read more blocks; of the rest, the \
                 nearest in size:",
                counted(others().count() as u64, "policy"),
                count(beaten as u64)
            ));
        }
        lines.extend(shown.into_iter().map(|of| self.against(of, chosen)));
        lines
    }

    fn against(&self, of: &Reads, chosen: &Reads) -> String {
        let memory = match of.bytes as f64 - chosen.bytes as f64 {
            _ if of.is_as_large_as(chosen) => "takes as much memory".to_string(),
            more if more > 0.0 => format!("takes {} more", size(more as u64)),
            less => format!("takes {} less", size(-less as u64)),
        };
        if of.is_tied_with(chosen) {
            let name = if of.is_as_large_as(chosen) { "is a tie: it " } else { "" };
            return format!(
                "{} {name}{memory}, and its reads cannot be told from those of {} (95 % intervals overlap).",
                of.policy, chosen.policy
            );
        }
        let more = of.reads - chosen.reads;
        let word = if more > 0.0 { "more" } else { "fewer" };
        let time = if more > 0.0 { "more" } else { "less" };
        format!(
            "{} {memory} and reads {:.3} blocks {word} than {}: {} {time}.",
            of.policy,
            more.abs(),
            chosen.policy,
            micros(self.micros(more.abs()))
        )
    }

    /// The levels that were left out, and the rates of their filters.
    fn tiny_tables(&self, chosen: &Reads) -> Vec<String> {
        let of_level = |&level: &u64| {
            let of_policy = |policy: &str| {
                let mut levels = self.results.levels.iter();
                levels.find(|found| found.level == level && found.policy == policy)
            };
            let own = of_policy(chosen.policy)?;
            let tables = match own.files {
                1 => format!("table of {}", counted(own.entries, "key")),
                files => format!("{} of {}", counted(files, "table"), counted(own.entries, "key")),
            };
            let rates = self.all.iter().filter_map(|of| {
                let rate = of_policy(of.policy)?.observed_fpr?;
                Some(format!("{} with {}", percent(rate), of.policy))
            });
            let mut rates: Vec<String> = rates.take(MAX_OTHERS).collect();
            if rates.is_empty() {
                rates.push("not observed".to_string());
            }
            Some(format!(
                "Left out of the reads of absent lookups: level {level}'s {tables}, whose rate is {}.",
                rates.join(", ")
            ))
        };
        let mut lines: Vec<String> = self.tiny.iter().filter_map(of_level).collect();
        if let Some(last) = lines.last_mut() {
            last.push_str(" So small a filter has a rate of its own.");
        }
        lines
    }

    /// The last sentence: how many keys were measured, and whether the tables had too few keys, or
    /// got too few lookups, to say much.
    fn scope(&self) -> String {
        let keys = counted(self.results.about.keys, "key");
        let gets = self.results.policies.iter().map(|row| row.absent_gets).max().unwrap_or(0);
        let with_filters = || self.results.levels.iter().filter(|level| level.filter_bytes > 0);
        let few = match self.tiny.is_empty() && with_filters().any(is_tiny) {
            true if gets < FEW_QUERIES => {
                format!(" by {}, which say little", counted(gets, "absent lookup"))
            }
            true => {
                ", all in tables of few keys, whose filters have rates of their own".to_string()
            }
            false => String::new(),
        };
        format!("Measured on {keys}{few}; maypole size --keys N computes other sizes.")
    }
}

fn is_tiny(level: &super::LevelRow) -> bool {
    level.entries < FEW_KEYS * level.files.max(1) || level.filters_asked < FEW_QUERIES
}

/// The levels that the reads leave out. If all levels are tiny, none is left out.
fn tiny_levels(results: &Results) -> Vec<u64> {
    let with_filters = || results.levels.iter().filter(|level| level.filter_bytes > 0);
    let mut tiny: Vec<u64> =
        with_filters().filter(|level| is_tiny(level)).map(|level| level.level).collect();
    tiny.sort_unstable();
    tiny.dedup();
    match with_filters().all(|level| tiny.contains(&level.level)) {
        true => Vec::new(),
        false => tiny,
    }
}

/// Formats microseconds, with more decimals the fewer they are.
fn micros(micros: f64) -> String {
    match micros {
        ..0.095 => format!("{micros:.3} µs"),
        ..9.95 => format!("{micros:.1} µs"),
        _ => format!("{micros:.0} µs"),
    }
}
