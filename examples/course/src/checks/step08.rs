use super::super::step05_table::Table;
use super::super::step08_levels::*;
use super::{assert_near, key};
use crate::check::{Check, Scratch};

pub const CHECKS: &[Check] = &[
    Check { says: "a value is found wherever it is", run: found_everywhere },
    Check { says: "the newest value wins, and a tombstone hides", run: newest_wins },
    Check { says: "useful, full positive and full true positive are counted", run: counted },
    Check { says: "a filter that says no saves the reads of its table", run: reads_are_saved },
    Check { says: "a lookup ends at the first entry that it finds", run: ends_early },
    Check { says: "observed_rate() divides by the queries for absent keys", run: the_rate },
    Check { says: "a database that is opened again has everything", run: opened_again },
];

/// A database with 400 keys of each kind: "deep" in level 2, "low" in level 1, "new" in two tables
/// of level 0, and "mem" in the memtable.
fn tree(scratch: &Scratch) -> Db {
    let mut db = Db::open(&scratch.0).expect("open");
    for (kind, keys) in [("deep", 0..400), ("low", 0..400), ("new", 0..200), ("new", 200..400)] {
        for i in keys {
            db.put(&key(kind, i), kind.as_bytes()).expect("put");
        }
        db.flush().expect("flush");
        match kind {
            "deep" => [0, 1].into_iter().for_each(|level| db.compact(level).expect("compact")),
            "low" => db.compact(0).expect("compact"),
            _ => {}
        }
    }
    for i in 0..400 {
        db.put(&key("mem", i), b"mem").expect("put");
    }
    db
}

fn found_everywhere() {
    let scratch = Scratch::new("everywhere");
    let db = tree(&scratch);
    for kind in ["mem", "new", "low", "deep"] {
        for i in 0..400 {
            let found = db.get(&key(kind, i)).expect("get");
            assert_eq!(found.as_deref(), Some(kind.as_bytes()), "the value of {kind} {i}");
        }
    }
    assert_eq!(db.get(b"absent").expect("get"), None, "a key that was never written");
}

fn newest_wins() {
    let scratch = Scratch::new("newest");
    let mut db = tree(&scratch);
    db.put(&key("deep", 1), b"in level 0").expect("put");
    db.delete(&key("deep", 2)).expect("delete");
    db.put(&key("deep", 3), b"older").expect("put");
    db.flush().expect("flush");
    db.put(&key("deep", 3), b"newer").expect("put");
    db.flush().expect("flush");
    db.delete(&key("low", 4)).expect("delete");
    db.put(&key("deep", 5), b"in memory").expect("put");
    for compacted in [false, true] {
        let get = |key: &[u8]| db.get(key).expect("get").map(|v| String::from_utf8(v).unwrap());
        let when = if compacted { "after a compaction" } else { "in level 0" };
        assert_eq!(get(&key("deep", 1)).as_deref(), Some("in level 0"), "overwritten, {when}");
        assert_eq!(get(&key("deep", 2)), None, "deleted, {when}: the old value must stay hidden");
        assert_eq!(get(&key("deep", 3)).as_deref(), Some("newer"), "overwritten twice, {when}");
        assert_eq!(get(&key("low", 4)), None, "deleted in the memtable");
        assert_eq!(get(&key("deep", 5)).as_deref(), Some("in memory"), "the memtable is newest");
        assert_eq!(get(&key("deep", 6)).as_deref(), Some("deep"), "untouched, {when}");
        db.compact(0).expect("compact");
        db.compact(1).expect("compact");
    }
}

fn counted() {
    let scratch = Scratch::new("counted");
    let db = tree(&scratch);
    assert_eq!(db.counts(), [FilterCounts::default(); LEVELS], "before the first lookup");
    for i in 0..400 {
        db.get(&key("mem", i)).expect("get");
    }
    assert_eq!(db.counts(), [FilterCounts::default(); LEVELS], "the memtable has no filter");
    for i in 0..400 {
        db.get(&key("deep", i)).expect("get");
    }
    let counts = db.counts();
    for (level, tables) in [(0, 2), (1, 1), (2, 1), (3, 0)] {
        let FilterCounts { useful, full_positive, full_true_positive } = counts[level];
        assert_eq!(
            useful + full_positive,
            400 * tables,
            "level {level} has {tables} tables. 400 lookups query each filter once, and each query \
             is useful or a full positive"
        );
        let found = if level == 2 { 400 } else { 0 };
        assert_eq!(full_true_positive, found, "full true positives of level {level}");
    }
    assert!(counts[1].useful > 380, "level 1: {} useful of 400, expected 396", counts[1].useful);
}

fn reads_are_saved() {
    let scratch = Scratch::new("saved");
    let db = tree(&scratch);
    let reads =
        |db: &Db| -> u64 { db.levels[1].iter().map(|table: &Table| table.reads.get()).sum() };
    let before = reads(&db);
    for i in 0..400 {
        db.get(&key("deep", i)).expect("get");
    }
    let FilterCounts { useful, full_positive, .. } = db.counts()[1];
    // Each query of level 1's filter reads the filter. If it says maybe, the lookup reads the
    // table's index and a data block. (A lookup of a key after the last key of the table would read
    // no data block. But all keys "deep" are before the table's keys "low".)
    let expected = 400 + 2 * full_positive;
    assert_eq!(
        reads(&db) - before,
        expected,
        "reads of level 1 for 400 lookups, of which {useful} were useful and {full_positive} positive"
    );
}

fn ends_early() {
    let scratch = Scratch::new("early");
    let db = tree(&scratch);
    for i in 200..400 {
        db.get(&key("new", i)).expect("get");
    }
    let counts = db.counts();
    assert_eq!(counts[0].full_true_positive, 200, "keys that level 0 has");
    assert_eq!(
        counts[0].useful + counts[0].full_positive,
        200,
        "the newest table of level 0 has all 200 keys, so the older one is not queried"
    );
    assert_eq!(counts[1..], [FilterCounts::default(); LEVELS - 1], "deeper levels are not queried");
}

fn the_rate() {
    let of = |useful, full_positive, full_true_positive| {
        FilterCounts { useful, full_positive, full_true_positive }.observed_rate()
    };
    assert_eq!(of(0, 0, 0), None, "there is no rate before the first query");
    assert_eq!(of(0, 50, 50), None, "50 present keys say nothing of the rate");
    let rate = of(99, 1001, 1000);
    assert_eq!(rate, Some(0.01), "99 useful, 1001 positive, of them 1000 true: 1 of 100 absent");
    let scratch = Scratch::new("rate");
    let db = tree(&scratch);
    for i in 0..10_000 {
        db.get(&key("lack", i)).expect("get");
    }
    let observed = db.counts()[2].observed_rate().expect("10,000 absent keys were looked up");
    // 400 keys at 10 bits take 7.8 lines, rounded up to 8. So the filter has a little more than 10
    // bits a key, and a lower rate than step 3 says.
    assert_near(observed, 0.0091, "Is every query counted?");
}

fn opened_again() {
    let scratch = Scratch::new("again");
    drop(tree(&scratch));
    for _ in 0..2 {
        let db = Db::open(&scratch.0).expect("open");
        for kind in ["mem", "new", "low", "deep"] {
            for i in 0..400 {
                let found = db.get(&key(kind, i)).expect("get");
                assert_eq!(found.as_deref(), Some(kind.as_bytes()), "the value of {kind} {i}");
            }
        }
        let tables: Vec<usize> = db.levels.iter().map(Vec::len).collect();
        assert_eq!(tables, [3, 1, 1, 0], "tables by level");
    }
}
