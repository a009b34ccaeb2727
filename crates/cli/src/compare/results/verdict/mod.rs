//! What the figures mean, in words: the recommendation of [`recommend`], and what it follows from.
//!
//! The sentences are a pure function of the results. In tables of few keys, chance and rounding
//! give filters unusual rates, and these tables are queried as often as large ones. So the verdict
//! leaves out the reads of a level if its tables have few keys, or got too few queries to know the
//! rate. It says which levels these are. What it says of the other levels holds for a larger tree
//! too. If this would leave out all levels, none is left out.

#[cfg(test)]
pub mod tests;

use maypole::{FilterPolicy, wilson_interval_95};

use super::{LevelRow, PolicyRow, ReadCost, Results};
use crate::args::USUAL_READ_MICROS;
use crate::recommend::words::{self, micros};
use crate::recommend::{Estimate, Filter, Recommendation, Situation, recommend};
use crate::show::text::{count, counted, percent};

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

    pub fn micros(self) -> f64 {
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
/// If lookups queried the filters of a level fewer times than this, the observed rate says little.
const FEW_QUERIES: u64 = 1000;
/// At most this many other policies get a sentence.
const MAX_OTHERS: usize = 6;

/// The verdict in words.
pub struct Words {
    /// What to take, what it saves, what it costs, and when to take another policy.
    pub sentence: String,
    /// What that follows from: the reads, the other policies, the levels that were left out.
    pub details: Vec<String>,
}

pub fn words(results: &Results) -> Words {
    let seen = Seen::new(results);
    let situation = seen.situation();
    if situation.filters.is_empty() {
        let sentence = "There is nothing to choose: no policy with filters was measured.".into();
        return Words { sentence, details: vec![seen.scope()] };
    }
    let recommended = recommend(&situation);
    let mut details = vec![seen.saving(&situation, &recommended)];
    if recommended.take.bytes > 0.0 {
        details.extend(others(&situation, recommended.take));
        details.extend(seen.tiny_tables(&situation, recommended.take));
    }
    details.extend(seen.not_measured());
    details.push(seen.scope());
    Words { sentence: words::sentence(&situation, &recommended) + ".", details }
}

/// The recommendation as JSON; `null` if there is nothing to choose.
pub fn json(results: &Results) -> String {
    let situation = situation(results);
    match situation.filters.is_empty() {
        true => "null".into(),
        false => words::json(&situation, &recommend(&situation)),
    }
}

/// What the rule knows of a comparison.
pub fn situation(results: &Results) -> Situation {
    Seen::new(results).situation()
}

/// For each policy, the mean number of data blocks that an absent lookup reads, and its 95 %
/// interval. The levels that the verdict leaves out are not counted.
pub fn absent_reads(results: &Results) -> Vec<(f64, (f64, f64))> {
    let seen = Seen::new(results);
    let of = |row: &PolicyRow| {
        let Estimate { value, low, high } = seen.reads(row, Lookups::Absent);
        (value, (low, high))
    };
    results.policies.iter().map(of).collect()
}

/// Whether tables of few keys are left out of the reads.
pub fn leaves_out_tables(results: &Results) -> bool {
    !tiny_levels(results).is_empty()
}

#[derive(Clone, Copy)]
enum Lookups {
    Absent,
    Present,
}

impl Lookups {
    fn gets(self, row: &PolicyRow) -> f64 {
        let gets = match self {
            Lookups::Absent => row.absent_gets,
            Lookups::Present => row.present_gets,
        };
        gets.max(1) as f64
    }

    /// How often these lookups queried the filters of a level for keys that the table does not
    /// hold, and how often the answer was "maybe".
    fn asked(self, level: &LevelRow) -> (f64, f64) {
        match self {
            Lookups::Absent => {
                let asked = level.filters_asked as f64;
                (asked, asked * level.observed_fpr.unwrap_or(0.0))
            }
            Lookups::Present => (level.present_asked as f64, level.present_wrong as f64),
        }
    }
}

struct Seen<'a> {
    results: &'a Results,
    /// The levels that are left out, because their tables have few keys or few queries.
    tiny: Vec<u64>,
}

impl<'a> Seen<'a> {
    fn new(results: &'a Results) -> Seen<'a> {
        Seen { results, tiny: tiny_levels(results) }
    }

    fn situation(&self) -> Situation {
        let Results { policies, about, .. } = self.results;
        let filter = |row: &PolicyRow| Filter {
            name: row.policy.clone(),
            bytes: row.filter_bytes as f64,
            absent: self.reads(row, Lookups::Absent),
            present: self.reads(row, Lookups::Present),
            is_for_rocksdb: !row.policy.contains("burr") && !row.policy.contains("fuse"),
            is_usual: row.policy == FilterPolicy::default().to_string(),
            build_seconds: row.build_ns_per_key.map(|nanos| nanos * row.keys as f64 / 1e9),
        };
        let without = |lookups| {
            let reads = |row| self.reads(row, lookups).value + self.spared(row, lookups);
            Estimate::exact(policies.iter().map(reads).fold(0.0, f64::max))
        };
        let with_filters = policies.iter().filter(|row| row.filter_bytes > 0);
        Situation {
            keys: about.keys as f64,
            filters: with_filters.map(filter).collect(),
            without: Filter {
                name: "none".into(),
                absent: without(Lookups::Absent),
                present: without(Lookups::Present),
                is_for_rocksdb: true,
                ..Filter::default()
            },
            share_absent: about.share_absent,
            read_micros: about.read_cost.micros(),
            ..Situation::default()
        }
    }

    fn levels(&self, row: &PolicyRow, tiny: bool) -> impl Iterator<Item = &LevelRow> {
        let levels = self.results.levels.iter().filter(move |level| level.policy == row.policy);
        levels.filter(move |level| self.tiny.contains(&level.level) == tiny)
    }

    /// The mean number of tables that a lookup did not search because a filter said no. Tables of
    /// the levels in `tiny` are not counted.
    fn spared(&self, row: &PolicyRow, lookups: Lookups) -> f64 {
        let asked = self.levels(row, false).map(|level| lookups.asked(level));
        asked.map(|(asked, wrong)| asked - wrong).sum::<f64>() / lookups.gets(row)
    }

    /// The mean number of data blocks that a lookup read in vain in the levels in `tiny`.
    fn in_vain_in_tiny(&self, row: &PolicyRow, lookups: Lookups) -> f64 {
        let of_level = |own: &LevelRow| match own.filter_bytes > 0 {
            true => lookups.asked(own).1,
            // If this policy has no filter in the level, each lookup that reached a table of the
            // level without the key read it in vain. How many lookups reached one is known from a
            // policy with filters in the level: each of these lookups queried a filter.
            false => {
                let same = self.results.levels.iter().filter(|level| level.level == own.level);
                same.map(|level| lookups.asked(level).0).fold(0.0, f64::max)
            }
        };
        self.levels(row, true).map(of_level).sum::<f64>() / lookups.gets(row)
    }

    /// The data blocks that a lookup reads. Blocks of the levels in `tiny` are not counted.
    fn reads(&self, row: &PolicyRow, lookups: Lookups) -> Estimate {
        // The block of a present key itself is read for certain.
        let (counted, certain) = match lookups {
            Lookups::Absent => (row.blocks_per_absent_get, 0.0),
            Lookups::Present => (row.blocks_per_present_get, row.blocks_per_present_get.min(1.0)),
        };
        let vain = (counted - certain - self.in_vain_in_tiny(row, lookups)).max(0.0);
        let gets = lookups.gets(row);
        let read = (vain * gets).round() as u64;
        // In each level that counts, each lookup could have read one data block in vain.
        let levels = row.levels.saturating_sub(self.tiny.len() as u64).max(1);
        let trials = read.max(gets as u64 * levels);
        let (low, high) = wilson_interval_95(read, trials).unwrap_or((0.0, 1.0));
        let times = trials as f64 / gets;
        Estimate { value: certain + vain, low: certain + low * times, high: certain + high * times }
    }

    /// What the recommended policy saves, and its share of the data.
    fn saving(&self, s: &Situation, recommended: &Recommendation) -> String {
        let about = &self.results.about;
        let lookup = match about.share_absent {
            None => "absent lookup".to_string(),
            Some(share) => format!("lookup of these queries ({} absent)", percent(share)),
        };
        let lookup = match self.tiny.is_empty() {
            true => format!("A{} {lookup}", if lookup.starts_with('a') { "n" } else { "" }),
            false => format!("Tables of few keys aside, each {lookup}"),
        };
        let (take, without) = (recommended.take, s.reads(&s.without).value);
        let saves = match take.bytes > 0.0 {
            false => String::new(),
            true => format!(
                " {} saves {:.2} of them; its filters take {} of the data.",
                take.name,
                without - s.reads(take).value,
                percent(take.bytes / about.data_bytes.max(1) as f64)
            ),
        };
        format!(
            "{lookup} reads {without:.2} data blocks without filters when none is cached, at {}.{saves}",
            about.read_cost.name()
        )
    }

    /// The levels that were left out, and the rates of their filters.
    fn tiny_tables(&self, s: &Situation, chosen: &Filter) -> Vec<String> {
        let of_level = |&level: &u64| {
            let of_policy = |policy: &str| {
                let mut levels = self.results.levels.iter();
                levels.find(|found| found.level == level && found.policy == policy)
            };
            let own = of_policy(&chosen.name)?;
            let tables = match own.files {
                1 => format!("table of {}", counted(own.entries, "key")),
                files => format!("{} of {}", counted(files, "table"), counted(own.entries, "key")),
            };
            let rates = by_size(s).into_iter().filter_map(|of| {
                let rate = of_policy(&of.name)?.observed_fpr?;
                Some(format!("{} with {}", percent(rate), of.name))
            });
            let mut rates: Vec<String> = rates.take(MAX_OTHERS).collect();
            if rates.is_empty() {
                rates.push("not observed".to_string());
            }
            Some(format!("Left out: level {level}'s {tables}, whose rate is {}.", rates.join(", ")))
        };
        let mut lines: Vec<String> = self.tiny.iter().filter_map(of_level).collect();
        if let Some(last) = lines.last_mut() {
            last.push_str(" So small a filter has a rate of its own.");
        }
        lines
    }

    /// A sentence if the file of queries has no lookup of one kind.
    fn not_measured(&self) -> Option<String> {
        match self.results.about.share_absent? {
            0.0 => Some("No absent lookups were measured: the queries have none.".into()),
            1.0 => Some("No present lookups were measured: the queries have none.".into()),
            _ => None,
        }
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

fn is_tiny(level: &LevelRow) -> bool {
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

/// The filters, the smallest first.
fn by_size(s: &Situation) -> Vec<&Filter> {
    let mut all: Vec<&Filter> = s.filters.iter().collect();
    all.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    all
}

/// A sentence for each other policy, which compares it with the chosen one.
fn others(s: &Situation, chosen: &Filter) -> Vec<String> {
    let others: Vec<&Filter> = by_size(s).into_iter().filter(|of| of.name != chosen.name).collect();
    let is_beaten = |of: &Filter| {
        s.filters.iter().any(|other| {
            let (reads, theirs) = (s.reads(of), s.reads(other));
            other.bytes < of.bytes && theirs.value < reads.value && !theirs.is_tied_with(&reads)
        })
    };
    let mut shown = others.clone();
    let mut lines = Vec::new();
    if shown.len() > MAX_OTHERS {
        shown.retain(|of| !is_beaten(of));
        // Those nearest in size are the most informative.
        let distance = |of: &Filter| (of.bytes - chosen.bytes).abs();
        shown.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        shown.truncate(MAX_OTHERS);
        shown.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
        let beaten = others.iter().filter(|of| is_beaten(of)).count();
        lines.push(format!(
            "Of {} more, {} take more memory than another and read more blocks; of the rest, the nearest \
             in size:",
            counted(others.len() as u64, "policy"),
            count(beaten as u64)
        ));
    }
    lines.extend(shown.into_iter().map(|of| words::against(s, of, chosen)));
    lines
}
