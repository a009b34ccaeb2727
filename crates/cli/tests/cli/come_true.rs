//! The circle of advice: lookups are recorded, `advise` predicts the data blocks that they search in
//! vain, with the stored filters and with those that it advises; the advice is applied; and other
//! lookups of the same distribution come to what was predicted.
//!
//! The tree is made so that no weight may be left out: most lookups come to a range of which level
//! 0 holds a part, keys are asked for with very different frequencies, half of the lookups are of
//! present keys, and a memtable answers a part of them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use maypole::explain::LookupOutcome;
use maypole::{Compression, Db};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

/// How lookups choose among the keys.
#[derive(Debug, Clone, Copy)]
enum Load {
    Uniform,
    /// Zipf's law with the exponent 0.99, over keys in no order.
    Zipf,
    /// Nine of ten lookups are in a tenth of the key range, which moves on while they run.
    MovingTenth,
}

/// A run of lookups. Of `keys` keys every second one is present.
struct Run {
    load: Load,
    keys: u64,
    /// The sums of the frequencies of Zipf's law.
    sums: Vec<f64>,
    random: SmallRng,
}

impl Run {
    fn new(load: Load, keys: u64, seed: u64) -> Run {
        let mut sum = 0.0;
        let mut next = |rank: u64| {
            sum += (rank as f64).powf(-0.99);
            sum
        };
        let sums = match load {
            Load::Zipf => (1..=keys).map(&mut next).collect(),
            _ => Vec::new(),
        };
        Run { load, keys, sums, random: SmallRng::seed_from_u64(seed) }
    }

    /// The key to look up when this share of the run is over.
    fn draw(&mut self, over: f64) -> Vec<u8> {
        let keys = self.keys;
        let n = match self.load {
            Load::Uniform => self.random.random_range(0..keys),
            Load::Zipf => {
                let at = self.random.random_range(0.0..self.sums[self.sums.len() - 1]);
                let rank = self.sums.partition_point(|&sum| sum <= at) as u64;
                // Keys of near ranks lie anywhere. The factor is prime and divides no `keys`.
                rank.wrapping_mul(1_000_000_007) % keys
            }
            Load::MovingTenth if self.random.random_range(0..10) == 0 => {
                self.random.random_range(0..keys)
            }
            Load::MovingTenth => {
                let start = (over * 0.9 * keys as f64) as u64;
                start + self.random.random_range(0..keys / 10)
            }
        };
        key(n)
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("user{n:012}").into_bytes()
}

fn open(path: &Path, policy: &str) -> Db {
    Db::builder(path)
        .filter(policy)
        .compression(Compression::None)
        .memtable_bytes(1 << 20)
        .table_bytes(1 << 18)
        .level_base_bytes(1 << 18)
        .publish_stats(std::time::Duration::from_secs(1))
        .open()
        .unwrap()
}

/// Writes the even ones of `keys` keys. Those in a twentieth of the range are in level 0 too.
fn fill(path: &Path, policy: &str, keys: u64) -> Db {
    let db = open(path, policy);
    let half = keys / 2;
    for i in 0..half {
        db.put(key(2 * (i.wrapping_mul(7919) % half)), [7; 20]).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    for n in (keys / 2..keys / 2 + keys / 20).step_by(6) {
        db.put(key(n / 2 * 2), [8; 20]).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    remember(&db, keys);
    db
}

/// Writes some keys again, which stay in the memtable.
fn remember(db: &Db, keys: u64) {
    for n in (0..keys / 4).step_by(50) {
        db.put(key(n / 2 * 2), [9; 20]).unwrap();
    }
}

/// Looks keys up. Returns the data blocks searched in vain by a lookup, and how many there were.
fn look_up(db: &Db, run: &mut Run, lookups: u64) -> (f64, u64) {
    let before = in_vain(db);
    for n in 0..lookups {
        db.get(run.draw(n as f64 / lookups as f64)).unwrap();
    }
    let searched = in_vain(db) - before;
    (searched as f64 / lookups as f64, searched)
}

/// A record of lookups, with what came of each.
fn record(db: &Db, run: &mut Run, lookups: u64) -> String {
    let mut record = String::new();
    for n in 0..lookups {
        let key = run.draw(n as f64 / lookups as f64);
        let outcome = outcome(db, &key);
        writeln!(record, "{}\t{outcome}", str::from_utf8(&key).unwrap()).unwrap();
    }
    record
}

/// What came of a lookup, as `Db::record_lookups` names it.
fn outcome(db: &Db, key: &[u8]) -> String {
    let trace = db.explain(key).unwrap();
    let level = trace
        .levels
        .iter()
        .find(|level| level.file.as_ref().is_some_and(|file| file.table.found.is_some()));
    match (trace.outcome, level) {
        (LookupOutcome::Absent, _) => "absent".into(),
        (LookupOutcome::Value, Some(level)) => format!("L{}", level.level),
        (LookupOutcome::Value, None) => "memtable".into(),
        _ => "deleted".into(),
    }
}

/// The data blocks that lookups have searched in vain.
fn in_vain(db: &Db) -> u64 {
    let counts = db.stats().counts();
    counts.filter.false_positive() + counts.unfiltered
}

/// What `advise` predicts in the row of a policy: the mean, and the bounds of its interval.
fn predicted(family: &Value, policy: &str) -> [f64; 3] {
    let rows = family["policies"].as_array().unwrap();
    let row = rows.iter().find(|row| row["policy"] == policy);
    let row = row.unwrap_or_else(|| panic!("{policy}: {family}"));
    ["in_vain_per_get", "in_vain_low", "in_vain_high"]
        .map(|name| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}")))
}

/// Runs the circle once. Returns, for the stored filters and then for the advised ones, the
/// predicted and the observed searches in vain of a lookup.
fn circle(load: Load, policy: &str, keys: u64, lookups: u64) -> [(f64, f64); 2] {
    let dir = tempfile::tempdir().unwrap();
    let [path, copy, file] = ["db", "copy", "recorded"].map(|name| dir.path().join(name));
    let run = &mut Run::new(load, keys, 1);
    let db = fill(&path, policy, keys);
    fs::write(&file, record(&db, run, lookups)).unwrap();
    // What the memtable answered is in a table when `advise` looks.
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    db.checkpoint(&copy).unwrap();
    db.close().unwrap();
    circle_of(&[&path, &copy, &file], policy, run, lookups)
}

/// The rest of the circle: advice, its application, other lookups. `copy` is a copy of the database
/// for lookups with the stored filters.
fn circle_of(
    [path, copy, file]: &[&Path; 3],
    stored: &str,
    run: &mut Run,
    lookups: u64,
) -> [(f64, f64); 2] {
    let start = std::time::Instant::now();
    let done =
        crate::run(&[Path::new("advise"), path, "--json".as_ref(), "--query-file".as_ref(), file]);
    assert_eq!(done.code, 0, "{}", done.err);
    eprintln!("advise took {:.1} s", start.elapsed().as_secs_f64());
    let found: Value = serde_json::from_str(&done.out).unwrap();
    let family = &found["families"][0];
    let take = family["verdict"]["take"].as_str().unwrap();
    let rows = family["policies"].as_array().unwrap();
    let advised = rows.iter().find(|row| row["policy"] == take).unwrap();
    let advised = advised["maypole"].as_str().unwrap();

    [("NOW, as stored", copy, stored), (take, path, advised)].map(|(row, path, policy)| {
        // With the options of `fill`, so that no compaction gives the tree another shape.
        let db = open(path, policy);
        db.apply_filter_policy().unwrap();
        remember(&db, run.keys);
        let (observed, searches) = look_up(&db, run, lookups);
        db.close().unwrap();
        let [value, low, high] = predicted(family, row);
        eprintln!(
            "{:?}, {row}: predicted {value:.5} ({low:.5} to {high:.5}), observed {observed:.5} \
             ({searches} searches), {:+.1} %",
            run.load,
            100.0 * (value / observed - 1.0)
        );
        (value, observed)
    })
}

/// A smaller run of the measurement below.
#[test]
fn advice_comes_true() {
    for load in [Load::Uniform, Load::Zipf, Load::MovingTenth] {
        for (predicted, observed) in circle(load, "bloom(3)", 60_000, 200_000) {
            assert!((predicted / observed - 1.0).abs() < 0.1, "{load:?}: {predicted}, {observed}");
        }
    }
}

/// The measurement: `cargo test --release -p maypole-cli --test cli -- --ignored --nocapture a_million`.
#[test]
#[ignore = "a measurement, which takes minutes"]
fn a_million_lookups_come_to_what_was_predicted() {
    for load in [Load::Uniform, Load::Zipf, Load::MovingTenth] {
        for (predicted, observed) in circle(load, "bloom(4)", 1_000_000, 1_500_000) {
            assert!((predicted / observed - 1.0).abs() < 0.05, "{load:?}: {predicted}, {observed}");
        }
    }
}
