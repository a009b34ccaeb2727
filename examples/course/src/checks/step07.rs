use std::fs;

use super::super::step04_block::KeyValue;
use super::super::step05_table::{Table, Uncached};
use super::super::step06_rocksdb::ROCKSDB;
use super::super::step07_memtable::*;
use super::{assert_maypole_reads, key};
use crate::check::{Check, Scratch};
use crate::given::{DELETION, Entry, VALUE, split_key};

pub const CHECKS: &[Check] = &[
    Check { says: "every version of a key is kept, a tombstone too", run: versions_stay },
    Check { says: "entries_from() has the order of a table", run: in_order },
    Check { says: "flush() writes a table of all entries, in order", run: flush_writes_all },
    Check { says: "flush() writes to a temporary file and renames it", run: flush_renames },
    Check { says: "what was logged is replayed", run: replayed },
    Check { says: "a torn log is replayed up to the tear", run: torn_log },
    Check { says: "a record with a flipped bit ends the log", run: flipped_bit },
];

fn put(sequence: u64, value: &str) -> Entry {
    Entry { sequence, value: Some(value.as_bytes().to_vec()) }
}

fn tombstone(sequence: u64) -> Entry {
    Entry { sequence, value: None }
}

fn versions_stay() {
    let mut memtable = Memtable::default();
    assert!(memtable.is_empty(), "a new memtable");
    memtable.insert(b"plum", put(1, "blue"));
    memtable.insert(b"plum", put(4, "red"));
    memtable.insert(b"pear", put(3, "green"));
    memtable.insert(b"pear", tombstone(5));
    let get = |key: &[u8], sequence| memtable.get(key, sequence);
    assert_eq!(get(b"plum", 9), Some(put(4, "red")), "`plum` was written twice: the newest");
    assert_eq!(get(b"plum", 4), Some(put(4, "red")), "`plum` at 4, when it was written");
    assert_eq!(get(b"plum", 3), Some(put(1, "blue")), "`plum` at 3, before it was overwritten");
    assert_eq!(get(b"plum", 0), None, "`plum` at 0, before it was written");
    assert_eq!(get(b"pear", 9), Some(tombstone(5)), "`pear` was deleted: a tombstone is an entry");
    assert_eq!(get(b"pear", 4), Some(put(3, "green")), "`pear` at 4, before it was deleted");
    assert_eq!(get(b"pea", 9), None, "`pea` was never written, and `pear` is another key");
    assert_eq!(get(b"fig", 9), None, "`fig` was never written");
    assert_eq!(get(b"z", 9), None, "`z`, behind all keys");
}

fn in_order() {
    let mut memtable = Memtable::default();
    for (key, sequence) in [(b"plum", 1), (b"pear", 2), (b"plum", 300), (b"pear", 4)] {
        memtable.insert(key, put(sequence, "x"));
    }
    memtable.insert(b"plum", tombstone(7));
    let places = |key: &[u8], sequence| -> Vec<String> {
        let show = |(key, value): KeyValue| {
            let (user_key, sequence, kind) = split_key(&key);
            format!("{} {sequence} kind {kind} `{}`", user_key.escape_ascii(), value.escape_ascii())
        };
        memtable.entries_from(key, sequence).map(show).collect()
    };
    let all = [
        "pear 4 kind 1 `x`",
        "pear 2 kind 1 `x`",
        "plum 300 kind 1 `x`",
        "plum 7 kind 0 ``",
        "plum 1 kind 1 `x`",
    ];
    let rule = "keys ascend, and of each key the newest version comes first";
    assert_eq!(places(b"", u64::MAX), all, "all entries: {rule}. Left: yours; right: expected");
    assert_eq!(places(b"plum", 7), all[3..], "the entries from `plum` number 7 on");
    assert_eq!(places(b"pear", 3), all[1..], "the entries from `pear` number 3 on");
}

fn flush_writes_all() {
    let scratch = Scratch::new("flush");
    let path = scratch.0.join("table.sst");
    let mut memtable = Memtable::default();
    // Keys do not come in order.
    for i in 0..1000u64 {
        let i = i * 7 % 1000;
        let entry = if i % 10 == 3 { tombstone(i) } else { put(i, &format!("value {i}")) };
        memtable.insert(&key("key", i), entry);
    }
    memtable.flush(&path, 10.0).expect("flush");
    let table = Table::open(&path, 1, ROCKSDB).expect("a table with the ending ROCKSDB");
    let entries = table.entries().expect("entries");
    assert_eq!(entries.len(), 1000, "entries of the table");
    for (i, (internal, value)) in entries.iter().enumerate() {
        let (user_key, sequence, kind) = split_key(internal);
        assert_eq!(user_key, key("key", i as u64), "the key of entry {i}");
        assert_eq!(sequence, i as u64, "the sequence number of entry {i}");
        let expected = if i % 10 == 3 { DELETION } else { VALUE };
        assert_eq!(kind, expected, "the kind of entry {i}");
        assert_eq!(value.is_empty(), kind == DELETION, "the value of entry {i}");
    }
    let found = table.get(&Uncached, &key("key", 8), 1000).expect("get");
    assert_eq!(found, Some(put(8, "value 8")), "key 8");
    assert!(table.has_filter(), "the table has no filter");
    assert_maypole_reads(&path, &entries);
}

/// Regression: tables were written in place, so that a killed program left half of a table, and the
/// database of step 8 could not be opened any more.
fn flush_renames() {
    let scratch = Scratch::new("rename");
    let (path, other) = (scratch.0.join("table.sst"), scratch.0.join("other"));
    // Two names of one file: a write in place would change it under its other name too.
    fs::write(&path, "old").unwrap();
    fs::hard_link(&path, &other).unwrap();
    let mut memtable = Memtable::default();
    memtable.insert(b"plum", put(1, "blue"));
    memtable.flush(&path, 10.0).expect("flush");
    assert!(fs::read(&path).unwrap() != b"old", "flush() wrote no table");
    assert!(fs::read(&other).unwrap() == b"old", "flush() wrote in place");
    let names = fs::read_dir(&scratch.0).unwrap().count();
    assert_eq!(names, 2, "flush() left a temporary file: so many names");
}

/// Writes three entries to a log. Returns the entries and the bytes of the log.
fn log_of_three(scratch: &Scratch) -> (Vec<(Vec<u8>, Entry)>, Vec<u8>) {
    let path = scratch.0.join("log");
    let entries = vec![
        (b"plum".to_vec(), put(1, "blue")),
        (b"pear".to_vec(), tombstone(2)),
        (b"".to_vec(), put(300, "")),
    ];
    let mut log = Log::open(&path).expect("the log is opened");
    for (key, entry) in &entries {
        log.append(key, entry).expect("append");
    }
    (entries, fs::read(path).unwrap())
}

fn replayed() {
    let scratch = Scratch::new("replay");
    let (entries, bytes) = log_of_three(&scratch);
    let payload = b"\x01\x01\0\0\0\0\0\0\x04plumblue";
    let head = [crc32fast::hash(payload).to_le_bytes(), (payload.len() as u32).to_le_bytes()];
    let first = [&head.concat(), &payload[..]].concat();
    assert!(
        bytes.starts_with(&first),
        "the first record is\n{}\nexpected\n{}",
        bytes[..first.len().min(bytes.len())].escape_ascii(),
        first.escape_ascii()
    );
    assert_eq!(replay(&scratch.0.join("log")).expect("replay"), entries, "left: replayed");
    let none = replay(&scratch.0.join("other")).expect("a log that is not there");
    assert!(none.is_empty(), "a log that is not there has {} entries", none.len());
}

fn torn_log() {
    let scratch = Scratch::new("torn");
    let (entries, bytes) = log_of_three(&scratch);
    let path = scratch.0.join("log");
    let mut seen = 0;
    for length in 0..=bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let replayed = replay(&path)
            .unwrap_or_else(|e| panic!("{length} of {} bytes are an error: {e}", bytes.len()));
        assert!(entries.starts_with(&replayed), "{length} bytes: an entry that was never written");
        assert!(replayed.len() >= seen, "{length} bytes: fewer entries than in fewer bytes");
        seen = replayed.len();
    }
    assert_eq!(seen, 3, "entries of the whole log");
}

fn flipped_bit() {
    let scratch = Scratch::new("rot");
    let (entries, bytes) = log_of_three(&scratch);
    let path = scratch.0.join("log");
    assert_eq!(replay(&path).expect("replay").len(), 3, "entries of the whole log");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        fs::write(&path, damaged).unwrap();
        let replayed = replay(&path).unwrap_or_else(|e| panic!("byte {at} flipped: {e}"));
        assert!(
            replayed.len() < 3 && entries.starts_with(&replayed),
            "a bit of byte {at} was flipped, and replay does not end before that record"
        );
    }
}
