//! Measures lookups with caches of 0.05 to 2 times the size of the filters and indexes, for each
//! form in which these may be stored and read.
//!
//! ```text
//! FORM          FILTERS AND INDEXES                       THE TREE
//! whole         one block each                            the tree of the policy's other figures
//! parts         parts of about 4 KiB                      a copy of a base with indexes in parts
//! always read   the same, but lookups skip no filter      links to the tables of "parts"
//! no filter     an index in parts                         links to the tables of that base
//! ```
//!
//! A policy has four trees, one of each form, which are measured in turns. The sizes of the cache
//! are multiples of what the policy's whole filters and indexes need.
//!
//! At each cache size, `warm_up` first loads filters and indexes into the cache, as far as they
//! fit. Lookups of absent keys are timed before lookups of present keys. Just before each kind is
//! timed, untimed lookups of the same kind bring the filters and indexes that it uses into the
//! cache. If the cache does not hold all filters and indexes, a lookup in the tree of the form
//! "parts" may pass by a filter part that is not in memory: it reads the data block without
//! querying the filter. The credit of the part decides this (`src/cache/policy.rs`), and
//! lookups of present keys lower it. So in such a cache, untimed lookups of present keys let the
//! credits of this tree settle before present keys are timed.

use std::path::Path;

use maypole::filter::FilterSpec;
use maypole::table::{MetadataForm, SstReader};
use maypole::{FilterPolicy, Ticker};

use super::results::FormRow;
use super::rounds::Repeated;
use super::setup::Setup;
use super::throughput::{self, Timed};
use super::tree::Tree;
use crate::failure::Result;
use crate::progress;

pub const WHOLE: &str = "whole";
pub const PARTS: &str = "parts";
pub const ALWAYS_READ: &str = "always read";
pub const NO_FILTER: &str = "no filter";
/// The forms of the four trees of a policy, in the order of the trees.
pub const FORMS: [&str; 4] = [WHOLE, PARTS, ALWAYS_READ, NO_FILTER];
/// The most databases that this module opens at one time: the base, and a policy's trees of three
/// forms. The policies' trees of the form [`WHOLE`] do not count, because they are open already.
pub const DATABASES: u64 = 4;
/// The cache sizes to measure, as multiples of what filters and indexes need.
pub const CACHES: [f64; 5] = [0.05, 0.2, 0.5, 1.0, 2.0];
/// The kinds of lookups, with their share of absent keys.
const LOOKUPS: [(&str, f64); 2] = [("absent", 1.0), ("present", 0.0)];
/// The number of timed lookups for one figure. It is small, because each policy has 40 figures.
const TIMED: usize = 1000;
/// The fewest lookups before the timed ones.
const FILL: usize = 500;
/// At least [`FILL`] untimed lookups come before the timed ones. If the cache does not hold all
/// filters and indexes, there is also at least one untimed lookup for this many bytes of the cache.
/// This makes four lookups for each part of a filter or index that fits, because a part takes four
/// times as many bytes.
const BYTES_OF_A_FILLING_LOOKUP: u64 = 1024;
/// To lower the credits, one present key is looked up for this many loaded keys. A filter part has
/// about 3,300 keys, so about 33 of these lookups need it. About eight are enough to use up the
/// credit that the part starts with.
const KEYS_OF_A_SETTLING_LOOKUP: usize = 100;

/// What the measurements of all policies share.
struct Forms<'a> {
    /// The tree without filters, whose indexes are in parts.
    base: Tree,
    setup: &'a Setup,
    scratch: &'a Path,
}

/// Measures every tree that has filters, in all forms, in directories in `scratch`. Returns all
/// trees; those that were measured have been closed and opened again, with other caches. A policy
/// whose filters are too small to have parts gets no rows.
pub fn run(trees: Vec<Tree>, setup: &Setup, scratch: &Path) -> Result<(Vec<Tree>, Vec<FormRow>)> {
    let has_filters = |tree: &Tree| tree.db.stats().filter_bytes() > 0;
    let with_filters = trees.iter().filter(|tree| has_filters(tree)).count();
    if with_filters == 0 {
        return Ok((trees, Vec::new()));
    }
    let base = Tree::base(scratch.join("base-in-parts"), setup, MetadataForm::Parts)?;
    let forms = Forms { base, setup, scratch };
    let bar = progress::bar(with_filters as u64, "lookups with larger filters");
    let (mut measured, mut rows) = (Vec::new(), Vec::new());
    for mut tree in trees {
        if has_filters(&tree) {
            tree = forms.measure(tree, &mut rows)?;
            bar.inc(1);
        }
        measured.push(tree);
    }
    forms.base.remove()?;
    Ok((measured, rows))
}

impl Forms<'_> {
    /// Measures a policy. Returns `whole`, the policy's tree with whole filters and indexes.
    fn measure(&self, whole: Tree, rows: &mut Vec<FormRow>) -> Result<Tree> {
        let Forms { base, setup, scratch } = self;
        let plan = &setup.plan;
        let copy = |policy: &FilterPolicy, name: &str| {
            base.with_filters(policy, scratch.join(name), plan, 0)
        };
        let parts = copy(&whole.policy, "parts")?;
        if !has_parts(&parts)? {
            parts.remove()?;
            return Ok(whole);
        }
        let always_read = parts.reading_every_filter(scratch.join("always-read"), plan)?;
        let no_filter = copy(&FilterPolicy::uniform(FilterSpec::NONE), "no-filter")?;
        let metadata_bytes = whole.db.stats().metadata_bytes as u64;
        let policy = whole.policy.to_string();
        let mut trees = vec![whole, parts, always_read, no_filter];
        for multiple in CACHES {
            let cache_bytes = (metadata_bytes as f64 * multiple) as u64;
            let reopened = trees.into_iter().map(|tree| tree.reopen(plan, cache_bytes as usize));
            trees = reopened.collect::<Result<_>>()?;
            for tree in &trees {
                tree.db.warm_up()?;
            }
            let fits = multiple >= 1.0;
            for (lookups, share) in LOOKUPS {
                if share == 0.0 && !fits {
                    self.settle(&trees[1])?;
                }
                let more = (cache_bytes / BYTES_OF_A_FILLING_LOOKUP) as usize;
                let fill = if fits { FILL } else { FILL.max(more) };
                let queries = throughput::mix(setup, share, fill + TIMED, setup.seed);
                let timed = throughput::time(&trees, &setup.keys, &queries, fill)?;
                rows.extend(FORMS.into_iter().zip(timed).map(|(form, timed)| {
                    let of = (policy.clone(), form.to_string(), lookups.to_string());
                    row(of, (cache_bytes, metadata_bytes), &timed)
                }));
            }
        }
        let whole = trees.swap_remove(0);
        trees.into_iter().try_for_each(Tree::remove)?;
        Ok(whole)
    }

    /// Looks up enough present keys for the credits of the tree's filter parts to settle. A part
    /// that is read for a present key loses credit. If the same read loads the key's part of the
    /// index, it costs an eighth of the initial credit, so about eight lookups use up the credit. A
    /// filter of a single part is stored whole and is never read together with the index: its first
    /// read costs the whole initial credit.
    fn settle(&self, parts: &Tree) -> Result {
        let Setup { keys, seed, .. } = self.setup;
        let lookups = keys.present.len() / KEYS_OF_A_SETTLING_LOOKUP;
        let queries = throughput::mix(self.setup, 0.0, lookups, seed.wrapping_add(1));
        throughput::look_up(parts, keys, &queries)
    }
}

/// Whether the filter of any table is in parts. A filter that would have a single part is stored
/// whole.
fn has_parts(tree: &Tree) -> Result<bool> {
    for file in tree.db.stats().files {
        let table = SstReader::open(&file.path)?;
        if table.metaindex().iter().any(|(name, _)| name.starts_with("partitionedfilter.")) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn row(
    (policy, form, lookups): (String, String, String),
    (cache_bytes, metadata_bytes): (u64, u64),
    timed: &Timed,
) -> FormRow {
    let ns: Vec<f64> = timed.rates.iter().map(|rate| 1e9 / rate).collect();
    let Repeated { median, low, high } = Repeated::of(&ns);
    let tenths = |ns: f64| (ns * 10.0).round() / 10.0;
    FormRow {
        policy,
        form,
        lookups,
        cache_bytes,
        metadata_bytes,
        gets: timed.lookups,
        rounds: timed.rates.len() as u64,
        get_ns: tenths(median),
        get_ns_low: tenths(low),
        get_ns_high: tenths(high),
        file_reads_per_get: timed.per_get(Ticker::FileReads),
        filter_reads_per_get: timed.per_get(Ticker::BlockCacheFilterMiss),
        filters_passed_by_per_get: timed.per_get(Ticker::BloomPassedBy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In this test, the tables of the last level are large enough for filters of a few parts.
    #[test]
    fn without_admission_present_keys_read_more_filters() {
        let setup = Setup::generated(20_000, 2000, 8);
        let root = tempfile::tempdir().unwrap();
        let whole = Tree::base(root.path().join("base"), &setup, MetadataForm::Whole);
        let (whole, dir) = (whole.unwrap(), |name: &str| root.path().join(name));
        let trees = ["none", "bloom(16)"].map(|policy| {
            whole.with_filters(&policy.parse().unwrap(), dir(policy), &setup.plan, 1 << 20).unwrap()
        });
        let (trees, rows) = run(trees.into(), &setup, root.path()).unwrap();
        let policies: Vec<String> = trees.iter().map(|tree| tree.policy.to_string()).collect();
        assert_eq!(policies, ["none", "bloom(16)"], "the trees come back");

        assert_eq!(rows.len(), FORMS.len() * CACHES.len() * LOOKUPS.len());
        let of = |form: &'static str| rows.iter().filter(move |row| row.form == form);
        for (parts, always) in of(PARTS).zip(of(ALWAYS_READ)) {
            assert_eq!(always.filters_passed_by_per_get, 0.0, "{always:?}");
            let fits = parts.cache_bytes >= parts.metadata_bytes;
            if parts.lookups == "present" && !fits {
                assert!(parts.filters_passed_by_per_get > 0.5, "{parts:?}");
                let more = always.filter_reads_per_get - parts.filter_reads_per_get;
                assert!(more > 0.5, "{parts:?} {always:?}");
            }
        }
        assert!(of(NO_FILTER).all(|row| row.filter_reads_per_get == 0.0), "{rows:?}");
    }
}
