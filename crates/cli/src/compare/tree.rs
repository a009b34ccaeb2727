//! One database for each policy, all with the same tree.
//!
//! The keys are loaded once, into a tree without filters ([`Tree::base`]). Each policy gets a copy
//! of this tree, in which each table has the filter that the policy gives it at its level.
//!
//! A tree that has grown for a long time has a few tables in level 0, a tenth of its data in the
//! level above the last one, and a hundredth in the level above that. Growing such a tree naturally
//! would rewrite the data about ten times, and leave levels that depend on how threads were
//! scheduled. So the levels are filled from the last one up, each in a stage of its own. The
//! `level_base_bytes` of a stage determines into which level, the base level, compaction merges
//! level 0. It is chosen so that later stages do not move the data of this stage again:
//!
//! ```text
//! stage   keys               level_base_bytes         base level
//! 1       ≈ 93 %, sorted     more than the data       6
//! 2       7 % of stage 1     a fiftieth of level 6    5 (may hold a tenth of level 6)
//! 3       0.7 % of stage 1   1/500 of level 6         4 (may hold a hundredth of level 6)
//! 4       0.2 % of stage 1   the same                 the keys stay in level 0, in one table
//! ```
//!
//! The stage of each key is random, so every level spans the whole range of keys, and a lookup of
//! an absent key searches one table in each.

use std::fs;
use std::path::PathBuf;

use maypole::table::MetadataForm;
use maypole::{Db, FilterPolicy, Ticker, WriteBatch};

use super::plan::{L0_TRIGGER, Plan, chunk_bytes, no_filters};
use super::setup::Setup;
use crate::commands::entries::load::BATCH_BYTES;
use crate::failure::{Failure, Result};
use crate::progress;
use crate::scratch::{making, remove};

/// The block cache of databases that serve no lookups: the base, and a copy that is opened again
/// before it is measured.
const BASE_CACHE_BYTES: usize = 8 << 20;

/// The database of one policy, or the base: the database without filters from which those of the
/// policies are copied.
pub struct Tree {
    pub policy: FilterPolicy,
    pub db: Db,
    pub dir: PathBuf,
    /// The `level_base_bytes` at which compaction leaves the data where it is.
    base_bytes: u64,
    /// Whether lookups read every filter that is not in memory, even if its read is likely to cost
    /// more than the filter saves.
    reads_every_filter: bool,
    /// Nanoseconds per key that building filters from hashes took, including one query for each
    /// key. `None` without filters.
    pub build_ns_per_key: Option<f64>,
}

impl Tree {
    /// Loads all keys into a tree without filters and waits until compaction has settled. Its
    /// tables, and those of all trees that are copied from it, have indexes and filters of this
    /// form.
    pub fn base(dir: PathBuf, setup: &Setup, form: MetadataForm) -> Result<Tree> {
        let Setup { keys: set, plan, .. } = setup;
        let (keys, policy) = (&set.present, no_filters());
        let open = |base_bytes| {
            let options = plan.options(&dir, &policy, BASE_CACHE_BYTES, base_bytes);
            making(|| options.metadata(form).open())
        };
        let bar = progress::bar(keys.len() as u64, "loading");
        let mut loaded = 0;
        let mut base_bytes = 1 << 50;
        for (stage, &count) in plan.stages.iter().enumerate() {
            let indexes = &plan.order[loaded..(loaded + count).min(keys.len())];
            loaded += indexes.len();
            let db = open(base_bytes)?;
            // The keys of the last stage stay in level 0.
            let bytes = plan.data_bytes / keys.len() * indexes.len();
            let chunks =
                if stage == 3 { 1 } else { bytes.div_ceil(chunk_bytes(bytes)).max(L0_TRIGGER) };
            load(&db, setup, indexes, chunks, &bar)?;
            let levels = db.stats().levels;
            let last = levels.iter().map(|level| level.file_bytes).max().unwrap_or(0);
            base_bytes = if stage == 0 { last / 50 } else { last / 500 };
            db.close()?;
        }
        let db = open(base_bytes)?;
        let (reads_every_filter, build_ns_per_key) = (false, None);
        Ok(Tree { policy, db, dir, base_bytes, reads_every_filter, build_ns_per_key })
    }

    /// A copy of this tree with the filters of a policy, in a new directory.
    pub fn with_filters(
        &self,
        policy: &FilterPolicy,
        dir: PathBuf,
        plan: &Plan,
        cache_bytes: usize,
    ) -> Result<Tree> {
        let before = self.db.stats().tickers;
        if *policy == no_filters() {
            // The checkpoint has links to the same tables, which take no space.
            making(|| self.db.checkpoint(&dir))?;
        } else {
            making(|| fs::create_dir(&dir))
                .map_err(|error| Failure::of_file(&dir, "make this directory", &error))?;
            let copy = || self.db.copy_with_filters(&dir, policy);
            progress::during(format!("{policy}: building filters"), copy)?;
        }
        let after = self.db.stats().tickers;
        let more = |ticker| after.get(ticker) - before.get(ticker);
        let (keys, nanos) = (more(Ticker::FilterBuildKeys), more(Ticker::FilterBuildNanos));
        let build_ns_per_key = (keys > 0).then(|| nanos as f64 / keys as f64);
        let options = plan.options(&dir, policy, cache_bytes, self.base_bytes);
        let db = making(|| options.open())?;
        Ok(Tree { policy: policy.clone(), db, dir, build_ns_per_key, ..*self })
    }

    /// The same database with a new, empty cache.
    pub fn reopen(self, plan: &Plan, cache_bytes: usize) -> Result<Tree> {
        self.db.close()?;
        let options = plan.options(&self.dir, &self.policy, cache_bytes, self.base_bytes);
        let options = options.reads_every_filter(self.reads_every_filter);
        Ok(Tree { db: making(|| options.open())?, ..self })
    }

    /// The same tree in a new directory, where lookups read every filter that is not in memory. Its
    /// tables are links, which take no space.
    pub fn reading_every_filter(&self, dir: PathBuf, plan: &Plan) -> Result<Tree> {
        making(|| self.db.checkpoint(&dir))?;
        let options = plan.options(&dir, &self.policy, BASE_CACHE_BYTES, self.base_bytes);
        let db = making(|| options.reads_every_filter(true).open())?;
        let (policy, reads_every_filter) = (self.policy.clone(), true);
        Ok(Tree { policy, db, dir, reads_every_filter, ..*self })
    }

    /// Closes the database and removes its directory. A tree does not need the tree that it was
    /// copied from.
    pub fn remove(self) -> Result {
        self.db.close()?;
        remove(&self.dir)
    }
}

/// Writes the keys in `chunks` memtables. Lets compaction settle after every fourth memtable, and
/// at the end.
fn load(
    db: &Db,
    setup: &Setup,
    indexes: &[usize],
    chunks: usize,
    bar: &indicatif::ProgressBar,
) -> Result {
    let Setup { keys: set, plan, .. } = setup;
    let mut batch = WriteBatch::new();
    for (n, chunk) in cut(indexes, chunks).enumerate() {
        for &i in chunk {
            let value = set.values.as_ref().map(|values| values.get(i));
            batch.put(set.present.get(i), value.unwrap_or_else(|| plan.values.of(i as u64)));
            if batch.size_bytes() >= BATCH_BYTES {
                bar.inc(batch.len() as u64);
                db.write(std::mem::take(&mut batch))?;
            }
        }
        bar.inc(batch.len() as u64);
        db.write(std::mem::take(&mut batch))?;
        db.flush()?;
        if (n + 1).is_multiple_of(L0_TRIGGER) {
            db.wait_for_compaction()?;
        }
    }
    Ok(db.wait_for_compaction()?)
}

/// Cuts the indexes into `count` parts of nearly equal size.
fn cut(indexes: &[usize], count: usize) -> impl Iterator<Item = &[usize]> {
    (0..count).map(move |n| &indexes[indexes.len() * n / count..indexes.len() * (n + 1) / count])
}

// These tests recognise a file with two names by its inode.
#[cfg(all(test, unix))]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::MetadataExt;

    use std::path::Path;

    use super::super::plan::CHUNK_BYTES;
    use super::*;

    /// The bytes of the tables of all databases in a directory. A table with two names counts once.
    fn table_bytes(root: &Path) -> u64 {
        let mut tables = BTreeMap::new();
        for dir in fs::read_dir(root).unwrap() {
            for file in fs::read_dir(dir.unwrap().path()).unwrap() {
                let file = file.unwrap();
                if file.path().extension().is_some_and(|end| end == "sst") {
                    let metadata = file.metadata().unwrap();
                    tables.insert(metadata.ino(), metadata.len());
                }
            }
        }
        tables.values().sum()
    }

    /// The estimate of disk space also holds if filters are a large part of a table: here values
    /// are empty, and the filters of the first list take 12 bytes per key.
    #[test]
    fn all_databases_together_take_at_most_what_is_said() {
        let setup = Setup::generated(40_000, 1, 0);
        let plan = &setup.plan;
        for policies in [
            "bloom(100),bloom(99),bloom(98),bloom(97),bloom(96),levels(bloom(95), bloom(94))",
            "none,budget(7/key, burr)",
        ] {
            let policies = super::super::policies::of(policies, &[8.0]).unwrap();
            let root = tempfile::tempdir().unwrap();
            let base = Tree::base(root.path().join("base"), &setup, MetadataForm::Whole).unwrap();
            let mut most_of_one = 0;
            let trees: Vec<Tree> = policies
                .iter()
                .enumerate()
                .map(|(n, policy)| {
                    let before = table_bytes(root.path());
                    let dir = root.path().join(n.to_string());
                    let tree = base.with_filters(policy, dir, plan, 1 << 20).unwrap();
                    most_of_one = most_of_one.max(table_bytes(root.path()) - before);
                    tree
                })
                .collect();
            let (all, said) = (table_bytes(root.path()), plan.disk_bytes(&policies, false));
            assert!((said / 2..=said).contains(&all), "{all} taken, {said} said");
            let base_bytes = plan.data_bytes as u64;
            assert!(most_of_one + base_bytes <= plan.disk_bytes(&policies, true), "{most_of_one}");
            trees.into_iter().for_each(|tree| tree.db.close().unwrap());
            base.remove().unwrap();
        }
    }

    #[test]
    fn every_key_is_loaded_once() {
        for n in [3, 4, 5, 99, 10_000] {
            let plan = Setup::generated(n, 1, 100).plan;
            assert_eq!(plan.stages.iter().sum::<usize>(), n);
            let mut order = plan.order.clone();
            order.sort_unstable();
            assert!(order.iter().copied().eq(0..n));
            for count in [1, 4, 8] {
                assert_eq!(cut(&plan.order, count).flatten().count(), n);
            }
        }
    }

    #[test]
    fn memtables_come_in_fours_and_stay_below_their_limit() {
        for bytes in [1, 1000, 130 << 20, 5 << 30] {
            let chunk = chunk_bytes(bytes);
            assert!(chunk <= CHUNK_BYTES);
            assert!(bytes < 8 || bytes.div_ceil(chunk).is_multiple_of(L0_TRIGGER), "{bytes}");
        }
    }
}
