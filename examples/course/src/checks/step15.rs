use super::super::step08_levels::{Db, LEVELS};
use super::super::step14_snapshots::{Snapshot, Snapshots};
use super::super::step15_compaction::*;
use super::{assert_maypole_reads, key, random, sst_dump};
use crate::check::{Check, Scratch, remark};
use crate::given::split_key;

pub const CHECKS: &[Check] = &[
    Check { says: "pick() takes a level that is too large, and no other", run: picks },
    Check { says: "compactions end, and every level is within its limit", run: ends },
    Check {
        says: "a byte is written few times, and a lookup comes to few tables",
        run: amplification,
    },
    Check { says: "compact() keeps the newest entries, and what a snapshot sees", run: keeps },
    Check { says: "compact() drops what nobody can see", run: drops },
    Check { says: "a tombstone stays as long as it hides something", run: tombstones },
    Check { says: "your engine settles, and Maypole reads all tables", run: settles },
    Check { says: "RocksDB's sst_dump reads versions and tombstones", run: rocksdb_reads_versions },
    Check { says: "every snapshot sees its state, whatever is compacted", run: every_snapshot },
];

const SMALL: Limits = Limits { level0_tables: 4, level1_bytes: 1000, ratio: 10 };

fn picks() {
    let none: Vec<u64> = Vec::new();
    for (sizes, expected, why) in [
        ([none.clone(), none.clone(), none.clone(), none.clone()], None, "the tree is empty"),
        ([vec![900; 3], none.clone(), none.clone(), none.clone()], None, "level 0 has 3 tables"),
        ([vec![1; 4], none.clone(), none.clone(), none.clone()], Some(0), "level 0 has 4 tables"),
        ([vec![1; 9], none.clone(), none.clone(), none.clone()], Some(0), "level 0 has 9 tables"),
        ([none.clone(), vec![1000], none.clone(), none.clone()], None, "level 1 has 1000 bytes"),
        ([none.clone(), vec![1001], none.clone(), none.clone()], Some(1), "level 1 has 1001 bytes"),
        ([none.clone(), vec![1000], vec![10_000], none.clone()], None, "level 2 has 10,000 bytes"),
        ([vec![5], vec![7], vec![10_001], none.clone()], Some(2), "level 2 has 10,001 bytes"),
        ([none.clone(), none.clone(), none, vec![1 << 40]], None, "the last level has no limit"),
    ] {
        assert_eq!(
            pick(&sizes, SMALL),
            expected,
            "{why}: sizes {sizes:?}; level 1 may have 1000 bytes, level 2 10,000, level 0 3 tables"
        );
    }
}

/// Flushes of different sizes.
fn simulate(limits: Limits, flushes: u64) -> Simulator {
    let mut simulator = Simulator::default();
    for i in 0..flushes {
        simulator.flush(80 + i * 37 % 41, limits);
    }
    simulator
}

fn ends() {
    for (level1_bytes, ratio) in [(1000, 10), (300, 4), (1000, 2), (1, 10)] {
        let limits = Limits { level1_bytes, ratio, ..SMALL };
        let mut simulator = Simulator::default();
        for i in 0..2000 {
            simulator.flush(80 + i * 37 % 41, limits);
            let tables = simulator.sizes[0].len();
            assert!(tables < 4, "{tables} tables are left in level 0, expected at most 3");
            let mut most = level1_bytes;
            for level in 1..LEVELS - 1 {
                let bytes: u64 = simulator.sizes[level].iter().sum();
                assert!(bytes <= most, "level {level} is left with {bytes} bytes, of {most}");
                most *= ratio;
            }
        }
    }
}

fn amplification() {
    let simulator = simulate(SMALL, 1000);
    let written = simulator.write_amplification();
    // A level is rewritten by each batch that comes into it, until it is full. Level 1 takes about
    // three batches, level 2 ten, and level 3 has taken ten. A byte is there for half of them.
    assert!(
        written < 20.0,
        "each byte is written {written:.1} times, expected fewer than 20. Is a level merged \
         although it is within its limit?\n{}",
        last_lines(&simulator.log)
    );
    let most = 3 + LEVELS - 1;
    let runs = simulator.runs();
    assert!(runs <= most, "a lookup comes to {runs} tables, expected at most {most}");
    remark(format!("{written:.1} bytes written for each byte, at most {most} tables to search"));
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// User key, sequence number and kind of all entries of a level.
fn entries_of(db: &Db, level: usize) -> Vec<String> {
    let entries = db.levels[level].iter().flat_map(|table| table.entries().expect("entries"));
    let show = |key: &[u8]| {
        let (user_key, sequence, kind) = split_key(key);
        let kind = if kind == 0 { " deleted" } else { "" };
        format!("{} {sequence}{kind}", user_key.escape_ascii())
    };
    entries.map(|(key, _)| show(&key)).collect()
}

/// A database whose level 0 has versions 1 to 3 of `a`, a put 4 and a deletion 5 of `b`, and a
/// deletion 6 of `c`, in two tables.
fn versions(scratch: &Scratch) -> Db {
    let mut db = Db::open(&scratch.0).expect("open");
    (0..3).for_each(|_| db.put(b"a", b"x").expect("put"));
    db.put(b"b", b"x").expect("put");
    db.flush().expect("flush");
    db.delete(b"b").expect("delete");
    db.delete(b"c").expect("delete");
    db.flush().expect("flush");
    db
}

/// The entries of level 1 after a compaction with these snapshots.
fn compacted(snapshots: &[u64]) -> Vec<String> {
    let scratch = Scratch::new("compacted");
    let mut db = versions(&scratch);
    compact(&mut db, 0, snapshots).expect("compact");
    let tables: Vec<usize> = db.levels.iter().map(Vec::len).collect();
    assert!(tables[0] == 0 && tables[1] <= 1, "tables by level after compact(0): {tables:?}");
    entries_of(&db, 1)
}

const WRITES: &str = "The writes are puts 1, 2 and 3 of `a`, put 4 and deletion 5 of `b`, and \
                      deletion 6 of `c`. Left: yours; right: expected";

fn keeps() {
    for (snapshots, expected) in [
        (&[1][..], &["a 3", "a 1"][..]),
        (&[2], &["a 3", "a 2"]),
        (&[1, 2], &["a 3", "a 2", "a 1"]),
        (&[3], &["a 3"]),
    ] {
        let found = compacted(snapshots);
        let found: Vec<&String> = found.iter().filter(|entry| entry.starts_with('a')).collect();
        assert_eq!(
            found, expected,
            "versions of `a` in level 1 after a compaction with snapshots {snapshots:?}. {WRITES}"
        );
    }
    // Level 1 has older versions than level 0.
    let scratch = Scratch::new("two-levels");
    let mut db = versions(&scratch);
    compact(&mut db, 0, &[2]).expect("compact");
    db.put(b"a", b"x").expect("put");
    db.flush().expect("flush");
    compact(&mut db, 0, &[2, 6]).expect("compact");
    assert_eq!(db.levels[1].len(), 1, "tables of level 1: both levels become one table");
    let found = entries_of(&db, 1);
    assert_eq!(
        found[..3],
        ["a 7", "a 3", "a 2"],
        "level 1 after a second compaction with snapshots 2 and 6; put 7 of `a` came from level 0"
    );
}

fn drops() {
    assert_eq!(
        compacted(&[]),
        ["a 3"],
        "level 1 after a compaction without snapshots; nothing is below it. {WRITES}"
    );
    assert_eq!(
        compacted(&[6]),
        ["a 3"],
        "the snapshot 6 sees the same as a reader without a snapshot. {WRITES}"
    );
}

fn tombstones() {
    // The deletion 6 of `c` hides nothing, and may stay as long as a snapshot is older.
    let of_b = |snapshots: &[u64]| {
        let mut entries = compacted(snapshots);
        entries.retain(|entry| entry.starts_with('b'));
        entries
    };
    assert_eq!(
        of_b(&[4]),
        ["b 5 deleted", "b 4"],
        "`b` with a snapshot 4, which sees put 4. A reader without a snapshot must not see it: \
         deletion 5 hides it. {WRITES}"
    );
    assert_eq!(
        of_b(&[4, 6]),
        ["b 5 deleted", "b 4"],
        "`b` with the snapshots 4, which sees put 4, and 6, which must not see it: deletion 5 hides \
         it. {WRITES}"
    );
    assert_eq!(
        of_b(&[5]),
        [""; 0],
        "`b` with a snapshot 5, which sees the deletion. So nobody sees put 4, and there is nothing \
         to hide. {WRITES}"
    );
    let scratch = Scratch::new("below");
    let mut db = Db::open(&scratch.0).expect("open");
    db.put(b"a", b"old").expect("put");
    db.put(b"b", b"old").expect("put");
    db.flush().expect("flush");
    (0..2).for_each(|level| compact(&mut db, level, &[]).expect("compact"));
    db.delete(b"a").expect("delete");
    db.flush().expect("flush");
    compact(&mut db, 0, &[]).expect("compact");
    assert_eq!(
        entries_of(&db, 1),
        ["a 3 deleted"],
        "level 1: the tombstone of `a` must stay, because it hides the entry in level 2"
    );
    compact(&mut db, 1, &[]).expect("compact");
    assert_eq!(
        entries_of(&db, 2),
        ["b 2"],
        "level 2, and no deeper level has a table: the tombstone of `a` has nothing to hide"
    );
}

/// Level 1 may have 4 KB, level 2 16 KB.
const TINY: Limits = Limits { level0_tables: 3, level1_bytes: 4_000, ratio: 4 };

fn settles() {
    let scratch = Scratch::new("settles");
    let mut db = Db::open(&scratch.0).expect("open");
    for i in 0..6000u64 {
        db.put(&key("key", i * 7919 % 1500), &i.to_le_bytes()).expect("put");
        if i % 50 == 49 {
            db.flush().expect("flush");
            settle(&mut db, TINY, &[]).expect("settle");
            let sizes = sizes(&db);
            assert!(pick(&sizes, TINY).is_none(), "settle() left a level too large: {sizes:?}");
        }
    }
    let tables: Vec<usize> = db.levels.iter().map(Vec::len).collect();
    assert!(tables[1..].iter().all(|&tables| tables <= 1), "tables by level: {tables:?}");
    assert_eq!(tables[3], 1, "tables of the last level, into which all keys must have come");
    for i in 0..1500u64 {
        // The last write of this key: 7919 times its number is the key, modulo 1500.
        let last = (4500..6000).find(|j| j * 7919 % 1500 == i).unwrap();
        let found = db.get(&key("key", i)).expect("get");
        assert_eq!(found, Some(last.to_le_bytes().to_vec()), "the value of key {i}");
    }
    for table in db.levels.iter().flatten() {
        assert_maypole_reads(&db.path(table.number), &table.entries().expect("entries"));
    }
}

fn rocksdb_reads_versions() {
    let scratch = Scratch::new("rocksdb-versions");
    let mut db = versions(&scratch);
    compact(&mut db, 0, &[1, 4]).expect("compact");
    let table = &db.levels[1][0];
    let path = db.path(table.number);
    assert_maypole_reads(&path, &table.entries().expect("entries"));
    let Some(scanned) = sst_dump(&path, "--command=scan") else {
        remark("sst_dump is not installed: Maypole's reader read them");
        return;
    };
    let lines =
        ["'a' seq:3, type:1", "'a' seq:1, type:1", "'b' seq:5, type:0", "'b' seq:4, type:1"];
    let places = lines.map(|line| scanned.find(line));
    assert!(
        places.is_sorted() && places[0].is_some(),
        "after a compaction with snapshots 1 and 4, sst_dump does not print {lines:?} in this order. \
         It says:\n{scanned}"
    );
}

type State = Vec<(Vec<u8>, Vec<u8>)>;

/// What a snapshot shows: all keys and values.
fn state(db: &Db, snapshot: &Snapshot) -> State {
    let scan = snapshot.scan(db, b"").expect("a scan");
    scan.map(|entry| entry.expect("an entry")).collect()
}

/// Asserts that a snapshot shows `shown`.
fn assert_shows(db: &Db, snapshot: &Snapshot, shown: &State, when: &str) {
    let now = state(db, snapshot);
    let differs = (0..now.len().max(shown.len())).find(|&i| now.get(i) != shown.get(i));
    let name = |state: &State| {
        let entry = differs.and_then(|i| state.get(i));
        entry.map_or("the end".into(), |(key, _)| key.escape_ascii().to_string())
    };
    assert!(
        differs.is_none(),
        "after write {}, a scan at number {} shows {} where it showed {} {when}",
        db.last_sequence,
        snapshot.sequence,
        name(&now),
        name(shown)
    );
}

fn every_snapshot() {
    let scratch = Scratch::new("every");
    let mut db = Db::open(&scratch.0).expect("open");
    let snapshots = Snapshots::default();
    let mut held = Vec::new();
    for i in 0..3000u64 {
        let random = random(i);
        let name = key("key", random % 60);
        match random / 60 % 3 {
            0 => db.delete(&name).expect("delete"),
            _ => db.put(&name, &i.to_le_bytes()).expect("put"),
        }
        if i % 70 == 69 {
            let snapshot = snapshots.take(db.last_sequence);
            let shown = state(&db, &snapshot);
            held.push((snapshot, shown));
        }
        // The snapshots are dropped in another order than they were taken in.
        if held.len() > 8 {
            held.remove((random % 8) as usize);
        }
        if i % 40 == 39 {
            db.flush().expect("flush");
            let before = state(&db, &snapshots.take(db.last_sequence));
            settle(&mut db, TINY, &snapshots.sequences()).expect("settle");
            if i % 400 == 399 {
                let levels = 0..LEVELS - 1;
                let all = snapshots.sequences();
                levels.for_each(|level| compact(&mut db, level, &all).expect("compact"));
            }
            for (snapshot, shown) in &held {
                assert_shows(&db, snapshot, shown, "when the snapshot was taken");
            }
            assert_shows(&db, &snapshots.take(db.last_sequence), &before, "before a compaction");
        }
    }
    held.clear();
    (0..LEVELS - 1).for_each(|level| compact(&mut db, level, &[]).expect("compact"));
    let last = entries_of(&db, LEVELS - 1);
    assert!(
        last.len() <= 60,
        "without snapshots, {} entries of 60 keys are left after all levels were merged",
        last.len()
    );
}
