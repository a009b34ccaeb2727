//! Measures many policies, one after the other. The database of a policy is removed before the next
//! one is made.
//!
//! The finished policies are kept in a small file in the directory of the results, so that a run
//! that was interrupted can continue. The file is removed when the results are saved.
//!
//! ```text
//! DIR/sweep.state   {"columns": "…", "settings": "…"}   names of figures, and what they depend on
//!                   {"row": {…}, "levels": […], …}      one line for each finished policy
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use maypole::table::MetadataForm;
use maypole::{Compression, FilterPolicy};
use serde_json::{Value, json};

use super::keys::{KeySet, Request};
use super::plan::Plan;
use super::results::{LatencyRow, LevelRow, PolicyRow, Results, ThroughputRow};
use super::rows;
use super::setup::Setup;
use super::throughput::{self, Grid};
use super::tree::Tree;
use crate::failure::{Failure, Result};
use crate::monitor::span;
use crate::output::{json_list, object, tell};
use crate::progress;
use crate::show::record::{self, Record};
use crate::show::text::counted;

/// The sizes of the cache, as fractions of the data.
const CACHES: [f64; 5] = [0.005, 0.02, 0.1, 0.4, 1.5];
const SHARES: [f64; 4] = [0.0, throughput::MIXED, 0.9, 1.0];

/// Measures all policies except those that an interrupted run has kept in the file `state`.
/// Returns the results of all policies.
pub fn run(
    setup: &Setup,
    policies: &[FilterPolicy],
    scratch: &Path,
    state: &Path,
    settings: &str,
) -> Result<Results> {
    let cache_bytes = throughput::caches(&setup.plan, &CACHES);
    let settings = format!("{settings}; caches {cache_bytes:?}; absent {SHARES:?}");
    // With `--cold`, each point would take long, because lookups wait for the device.
    let grid = (!setup.cold && setup.has_both_kinds())
        .then(|| Grid { cache_bytes, shares: SHARES.to_vec() });
    let grid = grid.as_ref();
    let mut state = State::open(state, &settings)?;
    let done = |state: &State| policies.iter().filter(|policy| state.of(policy).is_some()).count();
    let already = done(&state);
    if already > 0 {
        tell(format_args!(
            "note: taken up again: {already} of {} done",
            counted(policies.len() as u64, "policy")
        ));
    }
    let left = policies.len() - already;
    let (loading, each) = estimate(setup, grid, scratch)?;
    let mixes = grid.map(|grid| {
        let mixes = counted(grid.points() as u64, "mix");
        format!(", looked up with {mixes} of cache and absent keys")
    });
    tell(format_args!(
        "note: about {}: {}, each a database of {}{}",
        span(loading + each * left as u32),
        counted(left as u64, "policy"),
        counted(setup.keys.present.len() as u64, "key"),
        mixes.unwrap_or_default()
    ));
    // If all policies are finished and only the page is missing, the keys are not loaded.
    let base = match left {
        0 => None,
        _ => Some(Tree::base(scratch.join("base"), setup, MetadataForm::Whole)?),
    };
    let start = Instant::now();
    for (n, policy) in policies.iter().enumerate() {
        let Some(base) = base.as_ref().filter(|_| state.of(policy).is_none()) else { continue };
        let done = done(&state);
        let each = match done - already {
            0 => each,
            measured => start.elapsed() / measured as u32,
        };
        let left = span(each * (policies.len() - done) as u32);
        progress::set_whole(format!("{} of {}, {left} left: ", done + 1, policies.len()));
        state.add(measure(setup, base, policy, &scratch.join(n.to_string()), grid)?)?;
    }
    progress::set_whole("");
    if let Some(base) = base {
        base.remove()?;
    }
    let mut results = Results::default();
    for unit in policies.iter().filter_map(|policy| state.of(policy)) {
        results.policies.extend_from_slice(&unit.policies);
        results.levels.extend_from_slice(&unit.levels);
        results.latency.extend_from_slice(&unit.latency);
        results.throughput.extend_from_slice(&unit.throughput);
    }
    Ok(results)
}

/// Measures one policy, in a database that is removed afterwards.
fn measure(
    setup: &Setup,
    base: &Tree,
    policy: &FilterPolicy,
    dir: &Path,
    grid: Option<&Grid>,
) -> Result<Results> {
    let mut trees =
        vec![base.with_filters(policy, dir.to_owned(), &setup.plan, setup.cache_bytes)?];
    let mut results = rows::of(setup, &trees)?;
    if let Some(grid) = grid {
        (trees, results.throughput) = throughput::run(trees, setup, grid)?;
    }
    trees.into_iter().try_for_each(Tree::remove)?;
    Ok(results)
}

/// The most keys of the database that is measured to estimate the time.
const SAMPLE: usize = 20_000;

/// Estimates how long loading takes and how long each policy takes: measures a small database, and
/// scales the times by the numbers of keys and lookups.
fn estimate(setup: &Setup, grid: Option<&Grid>, scratch: &Path) -> Result<(Duration, Duration)> {
    let keys = SAMPLE.min(setup.keys.present.len()).max(3);
    let set = KeySet::new(&Request::generated(keys, keys, 1))?;
    let key_bytes = setup.plan.data_bytes / setup.keys.present.len();
    let plan = Plan::new(&set, key_bytes, Compression::None, 1);
    let sample = Setup { keys: set, plan, ..*setup };
    let dir = scratch.join("estimate");
    let start = Instant::now();
    let base = Tree::base(scratch.join("estimate-base"), &sample, MetadataForm::Whole)?;
    let loading = start.elapsed() / keys as u32;
    let start = Instant::now();
    let tree = base.with_filters(&FilterPolicy::default(), dir, &sample.plan, setup.cache_bytes)?;
    let copying = start.elapsed() / keys as u32;
    base.remove()?;
    let trees = [tree];
    let start = Instant::now();
    super::measure::run(&sample, &trees)?;
    // The run looks up every key once to warm up, then as many present and as many absent keys.
    let lookup = start.elapsed() / (3 * keys) as u32;
    trees.into_iter().try_for_each(Tree::remove)?;

    let queries = &setup.keys.queries;
    let lookups = setup.keys.present.len() + queries.present.len() + queries.absent.len();
    let points = grid.map_or(0, Grid::points);
    let mixed = points * throughput::lookups_of_a_point(&setup.keys);
    // Compared with the sample, a lookup is assumed to take twice as long in the larger tree, and
    // four times as long if the cache is small, because then it mostly reads files.
    let present = setup.keys.present.len() as u32;
    let each = copying * present + lookup * 2 * lookups as u32 + lookup * 4 * mixed as u32;
    Ok((loading * present, each))
}

/// The finished policies, in memory and in the file.
struct State {
    file: File,
    /// The results of each finished policy.
    units: Vec<Results>,
}

impl State {
    /// Reads the finished policies. A last line that an interrupted run left incomplete is dropped.
    fn open(path: &Path, settings: &str) -> Result<State> {
        let failed = |operation: &str, error| Failure::of_file(path, operation, &error);
        let options = OpenOptions::new().read(true).append(true).create(true).clone();
        let mut file = options.open(path).map_err(|error| failed("open", error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(format_args!(
                    "{}: another call writes its sweep here: wait for it, or take another directory",
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock", error)),
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| failed("read", error))?;
        let mut lines = text.lines();
        let head = json!({ "columns": columns(), "settings": settings }).to_string();
        if let Some(first) = lines.next().filter(|first| *first != head) {
            let before: Value = serde_json::from_str(first).unwrap_or_default();
            let of_whom = match before["columns"] == columns() {
                true => "a sweep with other settings",
                false => "a sweep of another version of maypole",
            };
            return Err(Failure::new(format_args!(
                "{}: belongs to {of_whom}: finish that one, take another directory, or remove the file",
                path.display()
            )));
        }
        let units: Vec<Results> = lines.map_while(from_line).collect();
        let mut kept = head + "\n";
        units.iter().for_each(|unit| kept += &to_line(unit));
        let replaced = file.set_len(0).and_then(|()| file.write_all(kept.as_bytes()));
        replaced.map_err(|error| failed("write", error))?;
        Ok(State { file, units })
    }

    fn of(&self, policy: &FilterPolicy) -> Option<&Results> {
        let policy = policy.to_string();
        self.units.iter().find(|unit| unit.policies[0].policy == policy)
    }

    fn add(&mut self, unit: Results) -> Result {
        let written = self.file.write_all(to_line(&unit).as_bytes());
        written.map_err(|error| Failure::new(format_args!("the state of the sweep: {error}")))?;
        self.units.push(unit);
        Ok(())
    }
}

/// Removes the state of a sweep whose results were saved.
pub fn finish(state: &Path) -> Result {
    fs::remove_file(state).map_err(|error| Failure::of_file(state, "remove", &error))
}

/// Where the state of a sweep is.
pub fn state_file(dir: &Path) -> PathBuf {
    dir.join("sweep.state")
}

/// The names of all figures. A state file with other names comes from another version of the
/// program and is rejected. Without this check, a figure that is missing in a line of the file
/// could be read as a figure without a value.
fn columns() -> String {
    let columns =
        [PolicyRow::COLUMNS, LevelRow::COLUMNS, LatencyRow::COLUMNS, ThroughputRow::COLUMNS];
    columns.concat().join(" ")
}

fn to_line(unit: &Results) -> String {
    let line = object! {
        row = record::to_json(&unit.policies[0]), levels = json_records(&unit.levels),
        latency = json_records(&unit.latency), throughput = json_records(&unit.throughput)
    };
    line + "\n"
}

fn from_line(line: &str) -> Option<Results> {
    let unit: Value = serde_json::from_str(line).ok()?;
    Some(Results {
        policies: vec![PolicyRow::from_json(&unit["row"])?],
        levels: rows_of(&unit["levels"])?,
        latency: rows_of(&unit["latency"])?,
        throughput: rows_of(&unit["throughput"])?,
        ..Results::default()
    })
}

fn json_records<R: Record>(rows: &[R]) -> String {
    json_list(rows.iter().map(record::to_json))
}

fn rows_of<R: Record>(rows: &Value) -> Option<Vec<R>> {
    rows.as_array()?.iter().map(R::from_json).collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::Times;
    use super::*;

    fn unit(policy: &str) -> Results {
        let times = Times { mean: 1.5, p50: 1.0, p99: 9.0, median: 1.4, low: 1.0, high: 9.0 };
        let row = PolicyRow {
            policy: policy.into(),
            keys: 9,
            tables: 1,
            levels: 1,
            filter_bytes: 0,
            bits_per_key: 0.0,
            metadata_bytes: 0,
            resident_metadata_bytes: 0,
            build_ns_per_key: None,
            predicted_fpr: None,
            observed_fpr: Some(0.25),
            filters_asked: 4,
            useful: 3,
            full_positive: 1,
            full_true_positive: 0,
            absent_gets: 4,
            present_gets: 4,
            blocks_per_absent_get: 1.0 / 3.0,
            blocks_per_present_get: 1.0,
            file_reads_per_absent_get: 0.0,
            file_reads_per_present_get: 0.0,
            get_absent_ns: times,
            get_present_ns: times,
            cold: Some(false),
        };
        let latency =
            LatencyRow { policy: policy.into(), lookups: "absent".into(), percentile: 50.0, ns: 1 };
        Results { policies: vec![row], latency: vec![latency], ..Results::default() }
    }

    #[test]
    fn a_sweep_is_taken_up_where_it_was_interrupted() {
        let dir = tempfile::tempdir().unwrap();
        let path = state_file(dir.path());
        let mut state = State::open(&path, "a").unwrap();
        state.add(unit("none")).unwrap();
        state.add(unit("bloom(10)")).unwrap();
        // The program ended while it wrote.
        state.file.write_all(b"{\"row\": {\"policy\": \"bu").unwrap();
        drop(state);

        let mut state = State::open(&path, "a").unwrap();
        assert_eq!(state.units.len(), 2);
        let found = state.of(&"bloom:10".parse().unwrap()).unwrap();
        assert_eq!(
            (&found.policies, &found.latency),
            (&unit("bloom(10)").policies, &unit("bloom(10)").latency)
        );
        assert!(state.of(&"burr(7)".parse().unwrap()).is_none());
        state.add(unit("burr(7)")).unwrap();
        drop(state);
        assert_eq!(State::open(&path, "a").unwrap().units.len(), 3);

        let Failure::Message(message) = State::open(&path, "b").err().unwrap() else { panic!() };
        assert!(message.contains("other settings"), "{message}");
        // Two files are rejected: that of a version in which a figure had another name, and that of
        // a version that wrote no names.
        let written = fs::read_to_string(&path).unwrap();
        let (_, rest) = written.split_once(",\"settings\"").unwrap();
        for old in [written.replacen("cold", "chilled", 1), format!("{{\"settings\"{rest}")] {
            fs::write(&path, &old).unwrap();
            let Failure::Message(message) = State::open(&path, "a").err().unwrap() else {
                panic!()
            };
            assert!(message.contains("another version"), "{message}");
            assert_eq!(fs::read_to_string(&path).unwrap(), old, "it was touched");
        }
        finish(&path).unwrap();
        assert!(State::open(&path, "b").unwrap().units.is_empty());
    }
}
