//! The data blocks that recorded lookups search in vain: what to expect of the stored filters, and
//! of others.
//!
//! A lookup *comes to* a table if the table's range holds the key and no newer source has ended the
//! lookup. If the table does not hold the key, the lookup searches a data block in vain, unless the
//! filter says no. So each table counts as often as lookups come to it without finding their key,
//! and hot ranges and the mix of present and absent keys are those of the recorded lookups.
//!
//! ```text
//! rate       of one key in one table: the chance that the filter says maybe; 1 without a filter
//! mean       Σ count · rate / lookups
//! variance   of the sample: what differs between lookups / lookups
//!            of the filters: Σ count² · rate · (1 - rate) / lookups²
//! ```
//!
//! The second variance is large if few keys make up many lookups, as under Zipf's law: a filter lets
//! such a key through always or never, and no rate says which. So for a key that comes again the
//! answer of the filter itself, 0 or 1, takes the place of the rate: for the stored filters always,
//! and for those that are advised by [`Searches::query_built`].

use std::collections::{BTreeMap, HashMap};

use maypole::explain::{FilterVerdict, LookupTrace};

use super::scanned::agrees;
use super::tables::{Form, Table};
use crate::compare::KeyList;
use crate::failure::Result;
use crate::progress;
use crate::recommend::Estimate;

/// Filters are built of at most this many bytes of tables, and of no more than the scan has read.
const MAX_BUILT_BYTES: u64 = 1 << 30;
/// No filters are built if the chance of the filters adds at most this share of the mean to the
/// standard deviation.
const LITTLE: f64 = 0.003;

/// The lookups of one key that come to one table which does not hold it.
struct Search {
    /// The position of the key, and in the next field of the table.
    key: u32,
    table: u32,
    /// How many of the lookups are of this key.
    count: u32,
    /// What the stored filter is predicted to let through, and whether it lets this key through.
    predicted: f64,
    is_maybe: bool,
}

/// The searches in vain of recorded lookups, if there were no filters.
#[derive(Default)]
pub struct Searches {
    /// All lookups, those that a memtable answered included.
    pub lookups: u64,
    /// The distinct keys.
    keys: KeyList,
    /// Key by key.
    all: Vec<Search>,
}

impl Searches {
    /// Adds `count` lookups of the key of this trace. `positions`: those of the tables by number.
    pub fn add(&mut self, trace: &LookupTrace, count: u32, positions: &HashMap<u64, usize>) {
        let key = self.keys.len() as u32;
        self.keys.push(&trace.key);
        self.lookups += u64::from(count);
        for file in trace.levels.iter().filter_map(|level| level.file.as_ref()) {
            let Some(&table) = positions.get(&file.number) else { continue };
            if file.table.found.is_some() {
                continue;
            }
            let filter = file.table.filter.as_ref();
            self.all.push(Search {
                key,
                table: table as u32,
                count,
                predicted: filter.and_then(|filter| filter.predicted_fpr).unwrap_or(1.0),
                is_maybe: filter.is_none_or(|filter| filter.verdict != FilterVerdict::No),
            });
        }
    }

    /// For each level of the tree, how often a mean lookup comes to a table which does not hold its
    /// key.
    pub fn by_level(&self, tables: &[Table]) -> Vec<f64> {
        let mut sums = vec![0.0; tables.iter().map(|table| table.level + 1).max().unwrap_or(0)];
        for search in &self.all {
            sums[tables[search.table as usize].level] += f64::from(search.count);
        }
        sums.into_iter().map(|sum| sum / self.lookups.max(1) as f64).collect()
    }

    /// With filters of these rates, one for each table.
    pub fn with(&self, of_tables: &[f64]) -> Estimate {
        self.estimate(&self.rates(of_tables))
    }

    fn rates(&self, of_tables: &[f64]) -> Vec<f64> {
        self.all.iter().map(|search| of_tables[search.table as usize]).collect()
    }

    /// With the stored filters. The predicted rates hold where the lookups do not contradict them,
    /// as they do if legacy filters are weak on such keys, or filters hold prefixes alone.
    pub fn stored(&self, tables: &[Table]) -> Estimate {
        let level_of = |search: &Search| tables[search.table as usize].level;
        let is_once = |search: &&Search| search.count == 1 && search.predicted < 1.0;
        let mut levels: BTreeMap<usize, (u64, f64, u64)> = BTreeMap::new();
        for search in self.all.iter().filter(is_once) {
            let (searches, expected, maybe) = levels.entry(level_of(search)).or_default();
            *searches += 1;
            *expected += search.predicted;
            *maybe += u64::from(search.is_maybe);
        }
        let rate = |search: &Search| match levels.get(&level_of(search)) {
            Some(&(searches, expected, maybe)) if is_once(&search) => {
                let is_as_predicted = agrees(maybe, expected);
                if is_as_predicted { search.predicted } else { maybe as f64 / searches as f64 }
            }
            _ => f64::from(u8::from(search.is_maybe)),
        };
        self.estimate(&self.all.iter().map(rate).collect::<Vec<_>>())
    }

    /// The mean and its interval. `rates`: for each search, the chance that it takes place.
    fn estimate(&self, rates: &[f64]) -> Estimate {
        let lookups = self.lookups.max(1) as f64;
        let (mut sum, mut squares, mut luck, mut at) = (0.0, 0.0, 0.0, 0);
        for of_key in self.all.chunk_by(|a, b| a.key == b.key) {
            let rates = &rates[at..at + of_key.len()];
            at += of_key.len();
            let (count, searches) = (f64::from(of_key[0].count), rates.iter().sum::<f64>());
            sum += count * searches;
            squares += count * searches * searches;
            luck += count * count * rates.iter().map(|rate| rate * (1.0 - rate)).sum::<f64>();
        }
        let mean = sum / lookups;
        let variance = (squares / lookups - mean * mean).max(0.0) / lookups;
        interval(mean, variance + luck / lookups / lookups, lookups)
    }

    /// With other filters of these rates, one for each table. If that matters, takes the answers of
    /// the filters of the tables to which keys come again: `answers` builds the filter of a table, as
    /// a writer of tables would, and queries it with keys. It returns `None` if the rate is to remain,
    /// and reads at most `most_bytes` of tables.
    pub fn query_built(
        &self,
        tables: &[Table],
        answers: impl Fn(&Table, &[&[u8]]) -> Result<Option<Vec<bool>>>,
        of_tables: &[f64],
        most_bytes: u64,
    ) -> Result<Estimate> {
        let mut rates = self.rates(of_tables);
        let mut of_table: BTreeMap<u32, (f64, Vec<usize>)> = BTreeMap::new();
        for (i, search) in self.all.iter().enumerate().filter(|(_, search)| search.count > 1) {
            let (luck, searches) = of_table.entry(search.table).or_default();
            *luck += f64::from(search.count).powi(2) * rates[i] * (1.0 - rates[i]);
            searches.push(i);
        }
        let mut by_luck: Vec<(u32, f64, Vec<usize>)> =
            of_table.into_iter().map(|(table, (luck, searches))| (table, luck, searches)).collect();
        by_luck.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut luck: f64 = by_luck.iter().map(|(_, luck, _)| luck).sum();
        let mean = self.estimate(&rates).value * self.lookups as f64;
        let mut left = most_bytes.min(MAX_BUILT_BYTES);
        let bar = progress::bar(by_luck.len() as u64, "building filters as advised");
        for (table, of_table, searches) in by_luck {
            let table = &tables[table as usize];
            bar.inc(1);
            if luck.sqrt() <= LITTLE * mean {
                break;
            }
            // Parts hold other keys together than a whole filter does.
            if table.form == Some(Form::Partitioned) || table.file_bytes > left {
                continue;
            }
            left -= table.file_bytes;
            luck -= of_table;
            let keys: Vec<&[u8]> =
                searches.iter().map(|&i| self.keys.get(self.all[i].key as usize)).collect();
            if let Some(answers) = answers(table, &keys)? {
                for (i, is_maybe) in searches.into_iter().zip(answers) {
                    rates[i] = f64::from(u8::from(is_maybe));
                }
            }
        }
        Ok(self.estimate(&rates))
    }
}

/// The score interval, at 95 %, of a mean with this variance: that of a Poisson count of
/// `mean² / variance`. Unlike the usual interval it is usable for means near 0.
fn interval(mean: f64, variance: f64, lookups: f64) -> Estimate {
    const Z: f64 = 1.959963984540054;
    if mean == 0.0 {
        return Estimate { value: 0.0, low: 0.0, high: Z * Z / lookups };
    }
    if variance == 0.0 {
        return Estimate::exact(mean);
    }
    let (count, scale) = (mean * mean / variance, variance / mean);
    let (center, spread) = (count + Z * Z / 2.0, Z * (count + Z * Z / 4.0).sqrt());
    Estimate { value: mean, low: (center - spread) * scale, high: (center + spread) * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a hundred lookups in vain a filter lets through about ten, whoever they are of: as many
    /// keys, or one key. Then it is all or none.
    #[test]
    fn an_interval_is_wide_if_few_keys_make_up_the_lookups() {
        let with = |keys: u32| {
            let search =
                |key| Search { key, table: 0, count: 100 / keys, predicted: 0.1, is_maybe: false };
            Searches { lookups: 200, all: (0..keys).map(search).collect(), ..Searches::default() }
        };
        let [many, one] = [100, 1].map(|keys| with(keys).with(&[0.1]));
        assert!((many.value - 0.05).abs() < 1e-12 && (one.value - 0.05).abs() < 1e-12);
        assert!(0.02 < many.low && many.high < 0.1, "{many:?}");
        assert!(one.low < 0.01 && one.high > 0.5, "{one:?}");
        let certain = with(1).with(&[1.0]);
        assert!(certain.value == 0.5 && 0.4 < certain.low && certain.high < 0.62, "{certain:?}");
        let none = with(1).with(&[0.0]);
        assert!(none.low == 0.0 && none.value == 0.0 && none.high < 0.02, "{none:?}");
    }
}
