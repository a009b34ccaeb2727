//! Compares walks and seeks with a sorted list. Reads damaged blocks.

use super::*;
use crate::encoding::coding::{fixed32, put_fixed32};
use crate::encoding::key::{internal_key, pack};
use crate::table::block::builder::BlockBuilder;
use crate::table::block::payload::BlockBytes;
use crate::table::block::{Block, HASH_INDEX_BIT};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of many shapes: empty, prefixes of each other, long, and with several versions.
fn model() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut users: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0xff; 300]];
    for i in 0..200u32 {
        users.push(format!("key{:04}", i * 7).into_bytes());
        users.push(format!("key{:04}/{}", i * 7, "x".repeat(i as usize)).into_bytes());
    }
    users.sort();
    let mut entries = Vec::new();
    for (i, user) in users.iter().enumerate() {
        for version in (0..=i % 4).rev() {
            let key = internal_key(user, 10 + version as u64 * 1000, 1);
            entries.push((key, format!("value {i} {version}").repeat(i % 3).into_bytes()));
        }
    }
    entries
}

fn build(entries: &[(Vec<u8>, Vec<u8>)], restart_interval: usize) -> Block {
    let mut builder = BlockBuilder::new(restart_interval);
    for (key, value) in entries {
        builder.add(key, value);
    }
    let estimate = builder.estimated_bytes();
    let bytes = builder.finish();
    assert_eq!(bytes.len(), estimate);
    Block::new(BlockBytes::copy_from(bytes)).unwrap()
}

#[test]
fn a_cursor_walks_both_ways_and_finds_what_a_sorted_list_finds() {
    let entries = model();
    for restart_interval in [1, 2, 16, 10_000] {
        let block = build(&entries, restart_interval);
        let mut cursor = BlockCursor::new(&block, None);
        cursor.seek_to_first().unwrap();
        for (key, value) in &entries {
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        for (key, _) in entries.iter().rev() {
            assert_eq!(cursor.key(), &key[..]);
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
        let mut targets: Vec<Vec<u8>> = entries.iter().map(|e| e.0.clone()).collect();
        targets.extend((0..1500).map(|i| internal_key(format!("key{i:04}").as_bytes(), 11, 1)));
        for target in &targets {
            let at =
                entries.partition_point(|(key, _)| key::compare(key, target) == Ordering::Less);
            cursor.seek(target).unwrap();
            assert_eq!(cursor.valid().then(|| cursor.key()), entries.get(at).map(|e| &e.0[..]));
            cursor.seek_before(target).unwrap();
            let before = at.checked_sub(1).map(|i| &entries[i].0[..]);
            assert_eq!(cursor.valid().then(|| cursor.key()), before);
        }
    }
}

#[test]
fn a_step_tells_the_trailer_and_whether_the_user_key_repeats() {
    let mut entries = model();
    // Values that need two and three bytes for their length.
    for (i, (_, value)) in entries.iter_mut().enumerate().step_by(7) {
        value.resize(100 * i, 7);
    }
    entries.insert(1, (internal_key(b"", 9, 1), vec![0; 20_000]));
    entries.sort_by(|a, b| key::compare(&a.0, &b.0));
    for (restart_interval, global_sequence) in
        [(1, None), (16, None), (10_000, None), (16, Some(5))]
    {
        let block = build(&entries, restart_interval);
        let mut cursor = BlockCursor::new(&block, global_sequence);
        cursor.seek_to_first().unwrap();
        let mut steps = 0;
        for pair in entries.windows(2) {
            let short = cursor.step_short();
            steps += usize::from(short.is_some());
            let step = short.or_else(|| cursor.step()).unwrap();
            let repeats = key::user_key(&pair[0].0) == key::user_key(&pair[1].0);
            assert_eq!(step.repeats, repeats, "{:?}", pair[1].0);
            assert_eq!(step.trailer, key::trailer(cursor.key()));
            assert_eq!(key::user_key(cursor.key()), key::user_key(&pair[1].0));
            assert_eq!(cursor.value(), pair[1].1);
            assert!(global_sequence.is_some() || cursor.key() == pair[1].0);
        }
        assert!(cursor.step().is_none() && cursor.valid(), "at the end it stays for `next`");
        assert!(steps > entries.len() / 8, "both forms are met: {steps}");
        assert!(steps < entries.len() * 3 / 4, "both forms are met: {steps}");
    }
}

#[test]
fn a_step_into_the_next_block_wants_a_whole_first_key() {
    let pairs = |users: &[&[u8]], sequence| -> Vec<_> {
        let key = |user: &&[u8]| (internal_key(user, sequence, 1), vec![7; 60]);
        users.iter().map(key).collect()
    };
    let first = build(&pairs(&[b"a", b"b"], 9), 16);
    let same_key = build(&pairs(&[b"b", b"c"], 8), 16);
    let other_key = build(&pairs(&[b"c"], 9), 16);
    let empty = build(&[], 16);
    let mut shares = other_key.bytes().to_vec();
    shares[0] = 1;
    let shares = Block::new(BlockBytes::copy_from(&shares)).unwrap();
    let mut cursor = BlockCursor::new(&first, None);
    cursor.seek_to_first().unwrap();
    assert!(cursor.step_into(&other_key).is_err(), "an entry is left in the block");
    cursor.next().unwrap();
    for refused in [&empty, &shares] {
        assert!(cursor.step_into(refused).is_err());
        assert!(std::ptr::eq(*cursor.block(), &first));
        assert_eq!(cursor.key(), internal_key(b"b", 9, 1));
    }
    let step = cursor.step_into(&same_key).ok().unwrap();
    assert!(step.repeats && step.trailer == pack(8, 1));
    cursor.next().unwrap();
    let step = cursor.step_into(&other_key).ok().unwrap();
    assert!(step.repeats && cursor.key() == internal_key(b"c", 9, 1));
    cursor.prev().unwrap();
    assert!(!cursor.valid(), "it is in the other block now");
}

#[test]
fn an_overlay_changes_sequence_numbers_but_not_the_shared_bytes() {
    // The trailer of the first key begins with byte 01, and the second user key has 01 after its
    // `a`, so that the second key shares a byte of the first key's trailer.
    let entries: Vec<_> =
        [&b"a"[..], b"a\x01", b"a\x01\0\0", b"b"].map(|user| internal_key(user, 0, 1)).into();
    let pairs: Vec<_> = entries.iter().map(|key| (key.clone(), vec![])).collect();
    let block = build(&pairs, 16);
    let mut cursor = BlockCursor::new(&block, Some(77));
    cursor.seek_to_first().unwrap();
    for key in &entries {
        assert_eq!(key::user_key(cursor.key()), key::user_key(key));
        assert_eq!(key::trailer(cursor.key()), pack(77, 1));
        cursor.next().unwrap();
    }
    cursor.seek(&internal_key(b"b", 76, 1)).unwrap();
    assert!(!cursor.valid(), "an older snapshot must not see the key");
    cursor.seek(&internal_key(b"b", 77, 0xff)).unwrap();
    assert!(cursor.valid());
}

#[test]
fn an_empty_block_has_one_restart_point_and_no_entry() {
    let block = build(&[], 16);
    assert_eq!(block.bytes(), [0, 0, 0, 0, 1, 0, 0, 0]);
    let mut cursor = BlockCursor::new(&block, None);
    cursor.seek_to_first().unwrap();
    assert!(!cursor.valid());
    cursor.seek_to_last().unwrap();
    assert!(!cursor.valid());
    cursor.seek(&internal_key(b"", 0, 0)).unwrap();
    assert!(!cursor.valid());
}

#[test]
fn a_hash_index_is_skipped_and_unknown_bits_are_refused() {
    let entries = model();
    let plain = build(&entries, 16);
    let tail = plain.bytes().len() - 4;
    let packed = fixed32(&plain.bytes()[tail..]);
    let mut hashed = plain.bytes()[..tail].to_vec();
    hashed.extend_from_slice(&[255; 31]);
    hashed.extend_from_slice(&[31, 0]);
    put_fixed32(&mut hashed, packed | HASH_INDEX_BIT | 1 << 29);
    let block = Block::new(BlockBytes::copy_from(&hashed)).unwrap();
    let mut scan = block.scan();
    let mut read = Model::new();
    while let Some((key, value)) = scan.next().unwrap() {
        read.insert(key.to_vec(), value.to_vec());
    }
    assert_eq!(read, entries.into_iter().collect());
    for bit in [28, 30] {
        let mut unknown = plain.bytes().to_vec();
        unknown[tail..].copy_from_slice(&(packed | 1 << bit).to_le_bytes());
        assert!(Block::new(BlockBytes::copy_from(&unknown)).is_err(), "bit {bit}");
    }
}

#[test]
fn damaged_blocks_never_panic_and_never_loop() {
    let entries: Vec<_> = model().into_iter().step_by(25).collect();
    let good = build(&entries, 4).bytes().to_vec();
    let walk = |bytes: &[u8]| {
        let Ok(block) = Block::new(BlockBytes::copy_from(bytes)) else { return };
        let mut scan = block.scan();
        while let Ok(Some(_)) = scan.next() {}
        let mut cursor = BlockCursor::new(&block, None);
        let _ = cursor.seek_to_first();
        while cursor.valid() && cursor.next().is_ok() {}
        let _ = cursor.seek_to_last();
        let mut steps = 0;
        while cursor.valid() && cursor.prev().is_ok() && steps < 2 * entries.len() {
            steps += 1;
        }
        for (key, _) in entries.iter().step_by(6) {
            let _ = cursor.seek(key);
            let _ = cursor.seek_before(key);
        }
    };
    for length in 0..good.len() {
        walk(&good[..length]);
    }
    for at in 0..good.len() {
        for change in [0x01, 0x80, 0xff, 0x10] {
            let mut bad = good.clone();
            bad[at] ^= change;
            walk(&bad);
        }
    }
}
