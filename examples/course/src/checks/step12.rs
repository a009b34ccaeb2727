use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use super::super::step04_block::{Block, BlockBuilder, KeyValue, RESTART_INTERVAL};
use super::super::step05_table::{Table, TableBuilder, Uncached, is_before};
use super::super::step06_rocksdb::ROCKSDB;
use super::super::step12_cursors::*;
use super::key;
use crate::check::{Check, Scratch};
use crate::given::{VALUE, internal_key, split_key};

pub const CHECKS: &[Check] = &[
    Check { says: "a block's cursor walks all entries", run: block_walks },
    Check {
        says: "seek() of a block goes to the place, and next() goes on there",
        run: block_seeks,
    },
    Check { says: "seek() starts at a restart point and not at the start", run: block_jumps },
    Check { says: "a table's cursor walks from block to block", run: table_walks },
    Check { says: "seek() of a table finds each place, in any order", run: table_seeks },
    Check { says: "a cursor reads a block when it comes to it, and once", run: reads },
    Check { says: "damage is an error and not an end", run: damage },
];

/// Two versions of each of `count / 2` keys, in order.
fn entries(count: u64) -> Vec<KeyValue> {
    let entry = |i| {
        let sequence = if i % 2 == 0 { 9 } else { 5 };
        (internal_key(&key("key", i / 2), sequence, VALUE), format!("{i:0100}").into_bytes())
    };
    (0..count).map(entry).collect()
}

fn block_of(entries: &[KeyValue]) -> Vec<u8> {
    let mut builder = BlockBuilder::new(RESTART_INTERVAL);
    entries.iter().for_each(|(key, value)| builder.add(key, value));
    builder.finish()
}

fn cursor_of(block: &[u8]) -> BlockCursor {
    BlockCursor::new(Block::new(Rc::from(block)).expect("a block"))
}

/// User key and sequence number.
fn show(entry: Option<&KeyValue>) -> String {
    let Some((key, _)) = entry else { return "the end".into() };
    let (user_key, sequence, _) = split_key(key);
    show_place(user_key, sequence)
}

fn show_place(user_key: &[u8], sequence: u64) -> String {
    match user_key {
        [] => format!("the empty key, number {sequence}"),
        _ => format!("{} number {sequence}", user_key.escape_ascii()),
    }
}

/// Asserts that the cursor is at `expected[0]` and then walks all entries of `expected`.
fn assert_walks(cursor: &mut dyn Cursor, expected: &[KeyValue], what: &str) {
    for (i, entry) in expected.iter().enumerate() {
        let found = cursor.entry();
        assert!(
            found == Some(entry),
            "{what}: after a seek to the start and {i} calls of next() the cursor is at {}, \
             expected {}",
            show(found),
            show(Some(entry))
        );
        cursor.next().expect("next");
    }
    let found = cursor.entry();
    assert!(found.is_none(), "{what}: behind the last entry the cursor is at {}", show(found));
}

fn block_walks() {
    for count in [1, 15, 16, 17, 100] {
        let entries = entries(count);
        let mut cursor = cursor_of(&block_of(&entries));
        assert!(cursor.entry().is_none(), "a new cursor is at an entry before it seeks");
        cursor.seek(b"", u64::MAX).expect("seek");
        assert_walks(&mut cursor, &entries, &format!("a block of {count} entries"));
    }
}

/// Asserts that the cursor finds the places of all entries, those between them, and the ends.
fn assert_seeks(cursor: &mut dyn Cursor, entries: &[KeyValue], what: &str) {
    let mut places = vec![(b"".to_vec(), 0), (b"z".to_vec(), 0)];
    for (key, _) in entries {
        let (user_key, sequence, _) = split_key(key);
        places.extend([-1, 0, 1].map(|d| (user_key.to_vec(), sequence.wrapping_add_signed(d))));
        places.push(([user_key, b"!"].concat(), sequence));
    }
    // Not in order, so that each seek goes somewhere else.
    for i in 0..places.len() {
        let (user_key, sequence) = &places[i * 7919 % places.len()];
        cursor.seek(user_key, *sequence).expect("seek");
        let at = entries.partition_point(|(key, _)| is_before(key, user_key, *sequence));
        let (found, expected) = (cursor.entry(), entries.get(at));
        let place = show_place(user_key, *sequence);
        assert!(
            found == expected,
            "{what}: seek to {place} goes to {}, expected {}",
            show(found),
            show(expected)
        );
        if expected.is_some() {
            cursor.next().expect("next");
            let (found, expected) = (cursor.entry(), entries.get(at + 1));
            assert!(
                found == expected,
                "{what}: next() after the seek to {place} goes to {}, expected {}",
                show(found),
                show(expected)
            );
        }
    }
}

fn block_seeks() {
    for count in [1, 15, 16, 17, 100] {
        let entries = entries(count);
        let mut cursor = cursor_of(&block_of(&entries));
        assert_seeks(&mut cursor, &entries, &format!("a block of {count} entries"));
    }
}

fn block_jumps() {
    let entries = entries(100);
    let mut bytes = block_of(&entries);
    // The second entry now shares 100 bytes with the key before it, which has only 17.
    let second = 3 + entries[0].0.len() + entries[0].1.len();
    bytes[second] = 100;
    let mut cursor = cursor_of(&bytes);
    let sought = cursor.seek(&key("key", 40), 9);
    assert!(
        sought.is_ok() && cursor.entry() == Some(&entries[80]),
        "entry 1 is damaged, and seek() does not find entry 80: it walks from the start"
    );
    let sought = cursor.seek(&key("key", 1), 9);
    assert!(sought.is_err(), "seek() walks over a damaged entry without an error");
}

fn table_of(scratch: &Scratch, entries: &[KeyValue]) -> (Table, PathBuf) {
    let mut builder = TableBuilder::new(ROCKSDB);
    entries.iter().for_each(|(key, value)| builder.add(key, value));
    let path = scratch.0.join("table.sst");
    fs::write(&path, builder.finish(10.0)).unwrap();
    (Table::open(&path, 1, ROCKSDB).expect("the table is opened"), path)
}

fn table_walks() {
    let scratch = Scratch::new("walks");
    for count in [1, 30, 1000] {
        let entries = entries(count);
        let (table, _) = table_of(&scratch, &entries);
        let mut cursor = TableCursor::new(&table, &Uncached);
        assert!(cursor.entry().is_none(), "a new cursor is at an entry before it seeks");
        cursor.seek(b"", u64::MAX).expect("seek");
        assert_walks(&mut cursor, &entries, &format!("a table of {count} entries"));
    }
}

fn table_seeks() {
    let scratch = Scratch::new("seeks");
    let entries = entries(400);
    let (table, _) = table_of(&scratch, &entries);
    let mut cursor = TableCursor::new(&table, &Uncached);
    assert_seeks(&mut cursor, &entries, "a table of 400 entries");
}

fn reads() {
    let scratch = Scratch::new("reads");
    let entries = entries(1000);
    let (table, _) = table_of(&scratch, &entries);
    table.entries().expect("entries");
    let all = table.reads.take();
    let mut cursor = TableCursor::new(&table, &Uncached);
    assert_eq!(table.reads.get(), 0, "blocks that a new cursor reads, before it seeks");
    cursor.seek(&key("key", 250), 9).expect("seek");
    assert_eq!(table.reads.get(), 2, "blocks that a seek reads: the index and a data block");
    cursor.next().expect("next");
    assert_eq!(table.reads.get(), 2, "blocks after one next(), which stays in its data block");
    cursor.seek(b"", u64::MAX).expect("seek");
    table.reads.set(1);
    while cursor.entry().is_some() {
        cursor.next().expect("next");
    }
    assert_eq!(table.reads.get() + 1, all, "blocks that a walk reads: the index, each data block");
}

fn damage() {
    let scratch = Scratch::new("damaged");
    let entries = entries(200);
    let (_, path) = table_of(&scratch, &entries);
    let mut bytes = fs::read(&path).unwrap();
    // A byte of the second data block.
    bytes[6000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let table = Table::open(&path, 1, ROCKSDB).expect("the table is opened");
    let mut cursor = TableCursor::new(&table, &Uncached);
    cursor.seek(b"", u64::MAX).expect("seek in the first block");
    let mut walked = 0;
    let failed = loop {
        match cursor.next() {
            Err(_) => break true,
            Ok(()) if cursor.entry().is_none() => break false,
            Ok(()) => walked += 1,
        }
    };
    assert!(
        failed,
        "the second block is damaged, and after {walked} entries next() says that there are no more"
    );
    let sought = cursor.seek(split_key(&entries[60].0).0, 9);
    assert!(sought.is_err(), "the second block is damaged, and seek() in it gives no error");
}
