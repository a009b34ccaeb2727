use std::rc::Rc;

use super::super::step04_block::*;
use crate::check::Check;

pub const CHECKS: &[Check] = &[
    Check { says: "an entry stores only what differs from the key before", run: the_bytes },
    Check { says: "every 16th entry is a restart point and shares nothing", run: restart_points },
    Check { says: "the entries are read back", run: read_back },
    Check { says: "seek() finds each key, and the next one for a key between", run: seek_finds },
    Check { says: "seek() starts at a restart point and not at the start", run: seek_jumps },
    Check { says: "damaged bytes give an error and no panic", run: damage },
];

/// Keys with long common beginnings, in order.
fn key(i: usize) -> Vec<u8> {
    format!("user{:05}/name", 2 * i).into_bytes()
}

fn block_of(count: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(RESTART_INTERVAL);
    (0..count).for_each(|i| builder.add(&key(i), format!("value {i}").as_bytes()));
    builder.finish()
}

fn open(bytes: &[u8]) -> Block {
    Block::new(Rc::from(bytes)).expect("the end of the block")
}

fn the_bytes() {
    let entries = [
        ("apple", "red", &b"\x00\x05\x03applered"[..], "the first"),
        ("apricot", "orange", b"\x02\x05\x06ricotorange", "which shares 2 bytes with `apple`"),
        ("pear", "green", b"\x00\x04\x05peargreen", "which shares nothing with `apricot`"),
        ("pier", "grey", b"\x01\x03\x04iergrey", "which shares 1 byte with `pear`"),
    ];
    let mut start = 0;
    for (i, (last, _, expected, what)) in entries.iter().enumerate() {
        let mut builder = BlockBuilder::new(RESTART_INTERVAL);
        for (key, value, ..) in &entries[..=i] {
            builder.add(key.as_bytes(), value.as_bytes());
        }
        let block = builder.finish();
        let (block, end) = block.split_at(block.len() - 8);
        assert_eq!(
            block[start..].escape_ascii().to_string(),
            expected.escape_ascii().to_string(),
            "the entry of `{last}`, {what}. Left: yours; right: expected"
        );
        assert_eq!(end, [0, 0, 0, 0, 1, 0, 0, 0], "the restart points: one, at offset 0");
        start = block.len();
    }
}

fn restart_points() {
    let bytes = block_of(40);
    let number = &bytes[bytes.len() - 4..];
    assert_eq!(number, [3, 0, 0, 0], "40 entries have 3 restart points: 0, 16 and 32");
    let array = &bytes[bytes.len() - 16..bytes.len() - 4];
    for (n, offset) in array.chunks_exact(4).enumerate() {
        let offset = u32::from_le_bytes(offset.try_into().unwrap()) as usize;
        let entry = &bytes[offset..];
        assert_eq!(entry[0], 0, "the entry at restart point {n} shares bytes with the one before");
        let found = entry[3..].starts_with(&key(16 * n));
        assert!(found, "restart point {n} is offset {offset}, but entry {} is not there", 16 * n);
    }
}

fn read_back() {
    let block = open(&block_of(100));
    let entries: Vec<KeyValue> = block.entries().map(|entry| entry.expect("an entry")).collect();
    assert_eq!(entries.len(), 100, "entries that are read of 100");
    for (i, (found, value)) in entries.into_iter().enumerate() {
        assert_eq!(found.escape_ascii().to_string(), key(i).escape_ascii().to_string(), "key {i}");
        assert_eq!(value, format!("value {i}").into_bytes(), "value {i}");
    }
    let mut builder = BlockBuilder::new(RESTART_INTERVAL);
    builder.add(b"apple", &[7; 300]);
    builder.add(b"apricot", b"orange");
    let read: Vec<_> = open(&builder.finish()).entries().map(|entry| entry.ok()).collect();
    let expected = [("apple", vec![7; 300]), ("apricot", b"orange".to_vec())];
    let expected = expected.map(|(key, value)| Some((key.as_bytes().to_vec(), value)));
    assert!(
        read == expected,
        "`apricot` behind a value of 300 bytes, whose length takes two bytes"
    );
}

fn seek(block: &Block, sought: &[u8]) -> Option<String> {
    let found = block.seek(|key| key < sought).expect("seek");
    found.map(|(key, _)| key.escape_ascii().to_string())
}

fn seek_finds() {
    for count in [1, 15, 16, 17, 100] {
        let block = open(&block_of(count));
        for i in 0..count {
            let there = Some(key(i).escape_ascii().to_string());
            assert_eq!(seek(&block, &key(i)), there, "the key of entry {i} of {count}");
            let next = (i + 1 < count).then(|| key(i + 1).escape_ascii().to_string());
            let between = [&key(i)[..], b"!"].concat();
            assert_eq!(seek(&block, &between), next, "behind the key of entry {i} of {count}");
        }
        let first = Some(key(0).escape_ascii().to_string());
        assert_eq!(seek(&block, b""), first, "before all of {count} keys");
        assert_eq!(seek(&block, b"z"), None, "behind all of {count} keys");
    }
}

fn seek_jumps() {
    let mut bytes = block_of(100);
    // The second entry now shares 100 bytes with the key before it, which has only 14.
    let second = 3 + key(0).len() + "value 0".len();
    bytes[second] = 100;
    let block = open(&bytes);
    let failed = block.entries().any(|entry| entry.is_err());
    assert!(failed, "an entry that shares 100 bytes with a key of 14 is read without an error");
    let found = block.seek(|other| other < &key(90)[..]);
    assert!(
        matches!(found, Ok(Some((found, _))) if found == key(90)),
        "entry 1 was damaged, and seek() for entry 90 fell over it: it walks from the start"
    );
}

fn damage() {
    let bytes = block_of(40);
    assert!(open(&bytes).entries().all(|entry| entry.is_ok()), "a whole block has an error");
    let walk = |bytes: &[u8]| {
        if let Ok(block) = Block::new(Rc::from(bytes)) {
            let _ = block.entries().count();
            let _ = block.seek(|other| other < &key(30)[..]);
        }
    };
    for at in 0..bytes.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            walk(&damaged);
        }
        walk(&bytes[..at]);
    }
}
