use std::collections::BTreeMap;

use super::super::step04_block::KeyValue;
use super::super::step07_memtable::Memtable;
use super::super::step08_levels::Db;
use super::super::step12_cursors::{Cursor, MemtableCursor};
use super::super::step13_merging::*;
use super::{key, random};
use crate::check::{Check, Scratch};
use crate::given::{Entry, split_key};

pub const CHECKS: &[Check] = &[
    Check { says: "the entries of all sources come in one order", run: one_order },
    Check { says: "seek() moves all sources, and next() one of them", run: seeks },
    Check { says: "a scan shows the newest version of each key", run: newest },
    Check { says: "a tombstone hides its key, and only that", run: tombstones },
    Check { says: "what is newer than the scan is as if it were not there", run: too_new },
    Check { says: "a scan of the engine has every source", run: every_source },
    Check { says: "a scan shows what lookups find, after any writes", run: as_lookups },
];

/// A memtable of entries in the form "key number value", where the value `-` is a tombstone.
fn memtable(entries: &[&str]) -> Memtable {
    let mut memtable = Memtable::default();
    for entry in entries {
        let words: Vec<&str> = entry.split(' ').collect();
        let value = (words[2] != "-").then(|| words[2].as_bytes().to_vec());
        let entry = Entry { sequence: words[1].parse().unwrap(), value };
        memtable.insert(words[0].as_bytes(), entry);
    }
    memtable
}

fn merging(memtables: &[Memtable]) -> Merging<'_> {
    let cursor = |memtable| Box::new(MemtableCursor::new(memtable)) as Box<dyn Cursor>;
    Merging::new(memtables.iter().map(cursor).collect())
}

/// Key and number.
fn show(entry: Option<&KeyValue>) -> String {
    let Some((key, _)) = entry else { return "the end".into() };
    let (user_key, sequence, _) = split_key(key);
    format!("{} {sequence}", user_key.escape_ascii())
}

fn walk(cursor: &mut dyn Cursor) -> Vec<String> {
    let mut walked = Vec::new();
    while cursor.entry().is_some() {
        walked.push(show(cursor.entry()));
        cursor.next().expect("next");
        assert!(walked.len() < 1000, "the cursor does not come to an end: {:?}", &walked[990..]);
    }
    walked
}

/// The sources of the drawing in `step13_merging.rs`, and one without entries.
fn sources() -> [Memtable; 4] {
    [
        memtable(&["apple 9 -", "cherry 8 red"]),
        memtable(&["banana 5 ripe"]),
        memtable(&[]),
        memtable(&["apple 2 old", "cherry 1 green", "damson 3 blue"]),
    ]
}

const ALL: [&str; 6] = ["apple 9", "apple 2", "banana 5", "cherry 8", "cherry 1", "damson 3"];

fn one_order() {
    let mut reverse = sources();
    reverse.reverse();
    for (sources, order) in [(sources(), "as in the drawing"), (reverse, "in the reverse order")] {
        let mut cursor = merging(&sources);
        cursor.seek(b"", u64::MAX).expect("seek");
        assert_eq!(
            walk(&mut cursor),
            ALL,
            "the sources are {order}. User keys ascend, and newer versions come first. \
             Left: yours; right: expected"
        );
    }
    let mut none = merging(&[]);
    none.seek(b"", u64::MAX).expect("seek");
    assert!(none.entry().is_none(), "a merging cursor of no sources has an entry");
}

fn seeks() {
    let sources = sources();
    let mut cursor = merging(&sources);
    assert!(cursor.entry().is_none(), "a new cursor is at an entry before it seeks");
    cursor.seek(b"cherry", 8).expect("seek");
    cursor.next().expect("next");
    cursor.seek(b"", u64::MAX).expect("seek");
    let why = "`seek` to the start after one source came to its end. Left: yours; right: expected";
    assert_eq!(walk(&mut cursor), ALL, "{why}");
    for (user_key, sequence, at) in
        [("zoo", 1, 6), ("apple", 9, 0), ("cherry", 7, 4), ("apple", 8, 1), ("b", 0, 2)]
    {
        cursor.seek(user_key.as_bytes(), sequence).expect("seek");
        assert_eq!(
            walk(&mut cursor),
            ALL[at..],
            "the entries from {user_key} {sequence} on. Left: yours; right: expected"
        );
    }
}

/// What a scan shows, in the form "key value".
fn scanned(scan: Scan) -> Vec<String> {
    let mut shown = Vec::new();
    for entry in scan {
        let (key, value) = entry.expect("an entry of the scan");
        shown.push(format!("{} {}", key.escape_ascii(), value.escape_ascii()));
        assert!(shown.len() < 5000, "the scan does not end: {:?}", &shown[4990..]);
    }
    shown
}

fn scan_of(memtables: &[Memtable], from: &str, sequence: u64) -> Vec<String> {
    let scan = Scan::new(Box::new(merging(memtables)), from.as_bytes(), sequence);
    scanned(scan.expect("a scan"))
}

fn newest() {
    let sources = [
        memtable(&["a 9 nine", "c 8 eight", "c 7 seven"]),
        memtable(&[" 4 four", "a 3 three", "b 2 two", "c 1 one"]),
    ];
    let expected = [" four", "a nine", "b two", "c eight"];
    let rule = "of each key the newest version; the first key is empty";
    assert_eq!(scan_of(&sources, "", 99), expected, "{rule}. Left: yours; right: expected");
    assert_eq!(scan_of(&sources, "b", 99), expected[2..], "the keys from `b` on, with `b`");
    assert_eq!(scan_of(&sources, "bb", 99), expected[3..], "the keys from `bb` on");
    assert_eq!(scan_of(&sources, "z", 99), [""; 0], "the keys from `z` on: there is none");
}

fn tombstones() {
    let sources = [
        memtable(&["a 9 -", "c 8 -", "d 7 again"]),
        memtable(&["b 6 six", "d 5 -", "e 4 -"]),
        memtable(&["a 3 old", "c 2 old", "d 1 old"]),
    ];
    assert_eq!(
        scan_of(&sources, "", 99),
        ["b six", "d again"],
        "`a` and `c` were deleted, `d` was deleted and written again, `e` was never there. \
         Left: yours; right: expected"
    );
}

fn too_new() {
    let sources =
        [memtable(&["a 9 -", "b 8 eight", "c 7 seven"]), memtable(&["a 3 old", "b 2 two"])];
    for (sequence, expected) in [
        (9, &["b eight", "c seven"][..]),
        (8, &["a old", "b eight", "c seven"]),
        (7, &["a old", "b two", "c seven"]),
        (6, &["a old", "b two"]),
        (2, &["b two"]),
        (1, &[]),
    ] {
        assert_eq!(
            scan_of(&sources, "", sequence),
            expected,
            "a scan at number {sequence} of puts 2, 3, 7, 8 and the deletion 9 of `a`. \
             Left: yours; right: expected"
        );
    }
}

fn every_source() {
    let scratch = Scratch::new("sources");
    let mut db = Db::open(&scratch.0).expect("open");
    for kind in ["deep", "low", "new", "newer"] {
        (0..100).for_each(|i| db.put(&key(kind, i), kind.as_bytes()).expect("put"));
        db.flush().expect("flush");
        if kind == "deep" || kind == "low" {
            db.compact(0).expect("compact");
        }
        if kind == "deep" {
            db.compact(1).expect("compact");
        }
    }
    (0..100).for_each(|i| db.put(&key("mem", i), b"mem").expect("put"));
    let found = scanned(scan(&db, b"", db.last_sequence).expect("a scan"));
    for (kind, place) in [
        ("mem", "the memtable"),
        ("newer", "the newest table of level 0"),
        ("new", "the older table of level 0"),
        ("low", "level 1"),
        ("deep", "level 2"),
    ] {
        let keys = found.iter().filter(|line| line.ends_with(&format!(" {kind}"))).count();
        assert_eq!(keys, 100, "keys of {place} that the scan shows, of 100");
    }
    assert_eq!(found.len(), 500, "keys that the scan shows");
}

fn as_lookups() {
    let scratch = Scratch::new("lookups");
    let mut db = Db::open(&scratch.0).expect("open");
    let mut model = BTreeMap::new();
    for i in 0..2000u64 {
        let random = random(i);
        let name = key("key", random % 150);
        if (random / 150).is_multiple_of(5) {
            db.delete(&name).expect("delete");
            model.remove(&name);
        } else {
            db.put(&name, &i.to_string().into_bytes()).expect("put");
            model.insert(name, i);
        }
        match i % 250 {
            100 | 200 | 249 => db.flush().expect("flush"),
            150 => db.compact(0).expect("compact"),
            _ => {}
        }
        if i % 333 == 332 {
            db.compact(1).expect("compact");
        }
    }
    let found = scanned(scan(&db, b"", db.last_sequence).expect("a scan"));
    let expected: Vec<String> =
        model.iter().map(|(key, i)| format!("{} {i}", key.escape_ascii())).collect();
    let differs = (0..found.len().max(expected.len())).find(|&i| found.get(i) != expected.get(i));
    if let Some(i) = differs {
        panic!("entry {i} of the scan is {:?}, expected {:?}", found.get(i), expected.get(i));
    }
}
