use std::fs;

use super::super::step05_table::Table;
use super::super::step08_levels::*;
use super::{assert_maypole_reads, assert_near, key};
use crate::check::{Check, Scratch};
use crate::given::split_key;

pub const CHECKS: &[Check] = &[
    Check { says: "a lookup at a sequence number finds what was there", run: at_a_number },
    Check { says: "compact() keeps the newest entry of each key", run: compact_keeps_newest },
    Check { says: "compact() drops a tombstone when nothing is below it", run: tombstones_go },
    Check { says: "compact() leaves one table, which Maypole reads", run: one_table },
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
        "reads of level 1 for 400 lookups: {useful} were useful and {full_positive} positive"
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

fn at_a_number() {
    let scratch = Scratch::new("number");
    let mut db = Db::open(&scratch.0).expect("open");
    // Each write is in another table, and the last one in the memtable.
    for value in [b"one", b"two", b"six"] {
        db.put(b"plum", value).expect("put");
        db.flush().expect("flush");
    }
    db.delete(b"plum").expect("delete");
    let expected = [None, Some(&b"one"[..]), Some(b"two"), Some(b"six"), None];
    for place in ["the memtable", "level 0"] {
        for (sequence, expected) in (0..).zip(expected) {
            let found = db.get_at(b"plum", sequence).expect("get_at");
            let useful = db.counts()[0].useful;
            assert_eq!(useful, 0, "a filter denies `plum`. Does it get the hash of the user key?");
            assert_eq!(
                found.as_deref().map(|value| value.escape_ascii().to_string()),
                expected.map(|value| value.escape_ascii().to_string()),
                "`plum` at number {sequence}: 1, 2 and 3 are puts, 4 is its deletion, in {place}"
            );
        }
        db.flush().expect("flush");
    }
}

/// User key, sequence number and kind of all entries of a level.
fn entries_of(db: &Db, level: usize) -> Vec<String> {
    let entries = db.levels[level].iter().flat_map(|table| table.entries().expect("entries"));
    let show = |key: &[u8]| {
        let (user_key, sequence, kind) = split_key(key);
        format!("{} {sequence} kind {kind}", user_key.escape_ascii())
    };
    entries.map(|(key, _)| show(&key)).collect()
}

fn compact_keeps_newest() {
    let scratch = Scratch::new("keeps");
    let mut db = Db::open(&scratch.0).expect("open");
    // Level 1 has 1 to 3, level 0 a table with 4 to 6 and one with 7 to 9.
    for round in 0..3 {
        for key in [b"a", b"b", b"c"] {
            db.put(key, b"x").expect("put");
            if round == 2 {
                db.put(key, b"twice").expect("put");
            }
        }
        db.flush().expect("flush");
        if round == 0 {
            db.compact(0).expect("compact");
            let tables: Vec<usize> = db.levels.iter().map(Vec::len).collect();
            assert_eq!(tables, [0, 1, 0, 0], "tables by level, after compact(0) of one table");
        }
    }
    db.compact(0).expect("compact");
    let newest = ["a 8 kind 1", "b 10 kind 1", "c 12 kind 1"];
    assert_eq!(
        entries_of(&db, 1),
        newest,
        "level 1 after the newest table of level 0, the older one and level 1 were merged. \
         Left: yours; right: the newest entry of each key"
    );
    assert_eq!(db.get(b"b").expect("get").as_deref(), Some(&b"twice"[..]), "the value of `b`");
}

fn tombstones_go() {
    let scratch = Scratch::new("tombstones");
    let mut db = Db::open(&scratch.0).expect("open");
    for key in [b"a", b"b"] {
        db.put(key, b"old").expect("put");
    }
    db.flush().expect("flush");
    [0, 1].into_iter().for_each(|level| db.compact(level).expect("compact"));
    db.delete(b"a").expect("delete");
    db.flush().expect("flush");
    db.compact(0).expect("compact");
    assert_eq!(
        entries_of(&db, 1),
        ["a 3 kind 0"],
        "level 1: the tombstone of `a` must stay, because it hides the entry in level 2"
    );
    assert_eq!(db.get(b"a").expect("get"), None, "`a` was deleted; level 2 has an old entry of it");
    db.compact(1).expect("compact");
    assert_eq!(
        entries_of(&db, 2),
        ["b 2 kind 1"],
        "level 2, and no deeper level has a table: the tombstone of `a` has nothing to hide"
    );
    db.delete(b"b").expect("delete");
    db.flush().expect("flush");
    (0..3).for_each(|level| db.compact(level).expect("compact"));
    let tables: Vec<usize> = db.levels.iter().map(Vec::len).collect();
    assert_eq!(tables, [0; LEVELS], "tables by level: all keys were deleted, so nothing is left");
}

fn one_table() {
    let scratch = Scratch::new("one");
    let mut db = tree(&scratch);
    for i in 0..100 {
        db.delete(&key("deep", i)).expect("delete");
    }
    db.flush().expect("flush");
    for level in 0..2 {
        db.compact(level).expect("compact");
        let tables: Vec<usize> = db.levels.iter().map(Vec::len).collect();
        assert_eq!(
            (tables[level], tables[level + 1]),
            (0, 1),
            "tables of level {level} and of level {}, after compact({level})",
            level + 1
        );
        let table = &db.levels[level + 1][0];
        assert_maypole_reads(&db.path(table.number), &table.entries().expect("entries"));
        let files = fs::read_dir(&scratch.0).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|e| e == "sst")).count();
        assert_eq!(files, tables.iter().sum::<usize>(), "files with tables, and tables by level");
    }
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
