//! A budget that follows the lookups: bits go to the tables that are asked most for keys that they
//! lack.
//!
//! A *vain ask* of a table is a lookup that reaches the table, for a key that the table does not
//! hold. Only for these its filter matters. A table with *n* keys and *a* vain asks costs *a ε* block
//! reads. Minimising Σ a ε for a given Σ n · bits(ε) gives ε = λ n / a, at most 1, with one factor λ
//! for all tables. [`super::budget`] is the special case in which each run is asked alike, and within
//! a run each key.
//!
//! ```text
//! counted                 a   vain asks, the old ones weighted less (stats/asked.rs)
//! assumed                 p   1 for each run, divided among its tables by their keys
//! weight                  w   R a / Σa, with a twentieth of p: for what was not asked yet
//! rate                    ε   λ n / w
//! ```
//!
//! R is the number of runs, so that weights have the scale of what is assumed. Before the first
//! lookups, every weight is what is assumed, and the policy gives what `budget` gives.
//!
//! **What a new table will be asked.** It is asked what the tables are asked that it replaces in the
//! deepest of their levels: these are the lookups that reach its place. The vain asks of the upper
//! tables are not added, because they are the same lookups, or end in the new table. A table divides
//! its asks among new tables by the bytes of it that lie in their ranges. A flushed table replaces
//! nothing. It is asked as much as the tables of level 0 that it overlaps, if there are any.
//!
//! **The budget holds for all tables together.** The factor is the one that divides the budget among
//! all tables. If the tables that stay hold more than their shares, the new ones get less, but not
//! less than half of their own shares. If that exceeds the budget by a twentieth, tables that exceed
//! their shares are rewritten, as those of `budget` are ([`crate::compaction`]'s `overspent`).
//! Nothing is rewritten only because it is asked more or less than before.

use std::collections::BTreeSet;

use super::budget::{Budget, Factor, entries_to_come, spec_of_rate, stored_bits};
use crate::filter::{Family, FilterSpec};
use crate::version::{ChooseFilter, Chosen, LEVELS, NewKeys, TableFile, Version};

/// The part of the weights that is assumed, in parts of what was counted.
const ASSUMED: f64 = 0.05 / 0.95;
/// What is assumed counts as at least this many asks for each table, so that the first lookups do
/// not decide.
const LEAST_ASKS: f64 = 16.0;

/// Some tables, or one: their keys, what is assumed of them, and their vain asks if they are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub keys: f64,
    pub assumed: f64,
    pub asked: Option<f64>,
    /// Whether the table is in level 0, where it is a run of its own.
    pub is_run: bool,
}

/// Turns asks into weights.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    runs: f64,
    asked: f64,
    /// The asks that are assumed.
    assumed: f64,
}

impl Scale {
    pub fn of(tables: &[Share]) -> Scale {
        let runs: f64 = tables.iter().map(|table| table.assumed).sum();
        let asked: f64 = tables.iter().filter_map(|table| table.asked).sum();
        let assumed = (ASSUMED * asked).max(LEAST_ASKS * tables.len().max(1) as f64);
        Scale { runs, asked, assumed }
    }

    pub fn weight(&self, table: Share) -> f64 {
        let Some(asked) = table.asked else { return table.assumed };
        (self.runs * asked + self.assumed * table.assumed) / (self.asked + self.assumed)
    }
}

/// The bits that [`super::budget`] gives to all tables together, and the factor that divides these
/// bits by weight. So the bits for the runs that are still to come stay free, as under a budget.
pub(super) fn divide(
    budget: Budget,
    family: Family,
    tables: &[Share],
    run_entries: &[u64],
) -> (f64, Factor) {
    let to_come: Vec<u64> = entries_to_come(run_entries).collect();
    let budget_bits = budget.bits(run_entries.iter().chain(&to_come).sum());
    let of_rate = |rate| stored_bits(rate, family);
    let alike: Vec<(f64, f64)> = tables.iter().map(|table| (table.keys, table.assumed)).collect();
    let to_come = to_come.into_iter().map(|keys| (keys as f64, 1.0));
    let all: Vec<(f64, f64)> = alike.iter().copied().chain(to_come).collect();
    let bits = Factor::filling(budget_bits, &of_rate, &all).bits(&of_rate, &alike);
    (bits, Factor::filling(bits, &of_rate, &weighted(tables, Scale::of(tables))))
}

/// The keys and the weight of each table.
fn weighted(tables: &[Share], scale: Scale) -> Vec<(f64, f64)> {
    tables.iter().map(|&table| (table.keys, scale.weight(table))).collect()
}

/// The filters of new tables, or of all tables, under a learned budget.
pub(crate) struct LearnedFilters<'v> {
    family: Family,
    scale: Scale,
    factor: Factor,
    /// The entries of each level, those of new tables included.
    level_entries: [u64; LEVELS],
    /// The level of the new tables, and the tables that they replace, with their levels.
    level: usize,
    replaced: Vec<(usize, &'v TableFile)>,
    /// Level 0, if nothing is replaced.
    level_0: Vec<&'v TableFile>,
}

impl<'v> LearnedFilters<'v> {
    /// The filters that all tables of the tree get if they are written again.
    pub fn of_all(budget: Budget, family: Family, version: &'v Version) -> LearnedFilters<'v> {
        let mut filters = LearnedFilters::unfilled(family, version, 0, &BTreeSet::new(), 0);
        let tables: Vec<Share> =
            version.files().map(|(level, file)| filters.share_of(level, file)).collect();
        filters.fill(budget, &tables);
        filters
    }

    /// The filters of tables that a job writes to `level`. They replace `inputs`, or have
    /// `new_entries` entries that no table has.
    pub fn of_job(
        budget: Budget,
        family: Family,
        version: &'v Version,
        level: usize,
        inputs: &BTreeSet<u64>,
        new_entries: u64,
    ) -> LearnedFilters<'v> {
        let mut filters = LearnedFilters::unfilled(family, version, level, inputs, new_entries);
        let stay = || version.files().filter(|(_, file)| !inputs.contains(&file.meta.number));
        let mut tables: Vec<Share> = stay().map(|(l, file)| filters.share_of(l, file)).collect();
        let new = filters.new_shares(new_entries);
        tables.extend(&new);
        let bits = filters.fill(budget, &tables);

        let held = stay().filter_map(|(_, file)| file.table.filter_info());
        let held: f64 = held.map(|info| info.bytes as f64 * 8.0).sum();
        let new = weighted(&new, filters.scale);
        let of_rate = |rate| stored_bits(rate, family);
        let share = filters.factor.bits(&of_rate, &new);
        let left = (bits - held).max(share / 2.0);
        if left < share {
            filters.factor = Factor::filling(left, &of_rate, &new);
        }
        filters
    }

    fn unfilled(
        family: Family,
        version: &'v Version,
        level: usize,
        inputs: &BTreeSet<u64>,
        new_entries: u64,
    ) -> LearnedFilters<'v> {
        let mut level_entries = [0; LEVELS];
        let mut replaced = Vec::new();
        for (from, file) in version.files() {
            let is_replaced = inputs.contains(&file.meta.number);
            level_entries[if is_replaced { level } else { from }] += file.meta.entries;
            if is_replaced {
                replaced.push((from, &**file));
            }
        }
        level_entries[level] += new_entries;
        let level_0 = match replaced.is_empty() {
            true => version.levels[0].iter().map(|file| &**file).collect(),
            false => Vec::new(),
        };
        let scale = Scale::of(&[]);
        let factor = Factor::filling(0.0, &|_| 0.0, &[]);
        LearnedFilters { family, scale, factor, level_entries, level, replaced, level_0 }
    }

    /// Divides the budget among `tables`. Returns the bits of all of them.
    fn fill(&mut self, budget: Budget, tables: &[Share]) -> f64 {
        let mut runs: Vec<u64> = self.level_entries[1..].to_vec();
        runs.retain(|&entries| entries > 0);
        // A table of level 0 is a run of its own.
        let of_level_0 = tables.iter().filter(|table| table.is_run).map(|table| table.keys as u64);
        runs.extend(of_level_0);
        self.scale = Scale::of(tables);
        let (bits, factor) = divide(budget, self.family, tables, &runs);
        self.factor = factor;
        bits
    }

    /// A table with so many keys in this level.
    fn share(&self, level: usize, keys: f64, asked: Option<f64>) -> Share {
        let is_run = level == 0;
        let of_run = self.level_entries[level].max(1) as f64;
        Share { keys, assumed: if is_run { 1.0 } else { keys / of_run }, asked, is_run }
    }

    fn share_of(&self, level: usize, file: &TableFile) -> Share {
        self.share(level, file.meta.entries as f64, Some(file.asked.get()))
    }

    /// An estimate of the new tables: each like one that it replaces in the deepest of their levels.
    fn new_shares(&self, new_entries: u64) -> Vec<Share> {
        let Some(deepest) = self.replaced.iter().map(|(level, _)| *level).max() else {
            return vec![self.share(self.level, new_entries as f64, None)];
        };
        let all: u64 = self.replaced.iter().map(|(_, file)| file.meta.entries).sum();
        let models = self.replaced.iter().filter(|(level, _)| *level == deepest);
        let of_models: u64 = models.clone().map(|(_, file)| file.meta.entries).sum();
        let grown = all as f64 / of_models.max(1) as f64;
        let share = |(_, file): &(usize, &TableFile)| {
            self.share(self.level, file.meta.entries as f64 * grown, Some(file.asked.get()))
        };
        models.map(share).collect()
    }

    /// How much a table with these keys will be asked in vain; `None` if that is not known.
    fn asked_of(&self, keys: &NewKeys<'_>) -> Option<f64> {
        let overlaps = |file: &TableFile| file.overlaps(Some(keys.smallest), Some(keys.largest));
        let replaced = || self.replaced.iter().filter(|(_, file)| overlaps(file));
        if let Some(deepest) = replaced().map(|(level, _)| *level).max() {
            let upper = [keys.largest, &[0]].concat();
            let part = |file: &TableFile| {
                let bytes = file.bytes_between(Some(keys.smallest), Some(&upper));
                let bytes = bytes.unwrap_or(file.meta.file_bytes);
                file.asked.get() * bytes as f64 / file.meta.file_bytes.max(1) as f64
            };
            let of_deepest = replaced().filter(|(level, _)| *level == deepest);
            return Some(of_deepest.map(|(_, file)| part(file)).sum());
        }
        let above: Vec<f64> = self
            .level_0
            .iter()
            .filter(|file| overlaps(file))
            .map(|file| file.asked.get())
            .collect();
        (!above.is_empty()).then(|| above.iter().sum::<f64>() / above.len() as f64)
    }

    fn rate(&self, share: Share) -> f64 {
        self.factor.rate(share.keys, self.scale.weight(share))
    }

    /// The bits a key that a table of the tree gets if it is written again.
    pub fn bits_per_key(&self, level: usize, file: &TableFile) -> f64 {
        stored_bits(self.rate(self.share_of(level, file)), self.family)
    }

    /// The filter that a table of the tree gets if it is written again.
    pub fn spec_at(&self, level: usize, file: &TableFile) -> FilterSpec {
        spec_of_rate(self.rate(self.share_of(level, file)), self.family)
    }
}

impl ChooseFilter for LearnedFilters<'_> {
    fn choose(&self, keys: &NewKeys<'_>) -> Chosen {
        let asked = self.asked_of(keys);
        let rate = self.rate(self.share(self.level, keys.entries as f64, asked));
        let spec = spec_of_rate(rate, self.family);
        Chosen { spec, asked: asked.unwrap_or(0.0) }
    }
}
