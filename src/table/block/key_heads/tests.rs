//! Searches blocks with and without key heads, and compares the results. Searches damaged blocks.

use super::*;
use crate::encoding::key::{internal_key, pack};
use crate::memory::{LINE_BYTES, LineBuf};
use crate::table::block::Block;
use crate::table::block::builder::BlockBuilder;
use crate::table::block::cursor::BlockCursor;
use crate::table::block::payload::BlockBytes;
use crate::table::block::search::SearchResult;

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

struct Random(StdRng);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(0..bound)
    }

    fn bytes(&mut self, most: u64, alphabet: &[u8]) -> Vec<u8> {
        (0..self.below(most + 1))
            .map(|_| alphabet[self.below(alphabet.len() as u64) as usize])
            .collect()
    }
}

fn build(keys: &BTreeSet<(Vec<u8>, std::cmp::Reverse<u64>)>, value_bytes: usize) -> Block {
    let mut builder = BlockBuilder::new(16);
    for (i, (user, trailer)) in keys.iter().enumerate() {
        let value = (i as u32).to_le_bytes().repeat(value_bytes / 4);
        let mut key = user.clone();
        key.extend_from_slice(&trailer.0.to_le_bytes());
        builder.add(&key, &value);
    }
    Block::new(BlockBytes::copy_from(builder.finish())).unwrap()
}

/// A copy of a block's bytes with `room` bytes of room after them, and the key heads made for them.
fn heads_of(block: &Block, room: usize) -> (BlockBytes, Option<KeyHeads>) {
    let mut bytes = with_room(block.bytes(), room);
    let key_heads = KeyHeads::of(&mut bytes, block.entries().len());
    assert_eq!(*bytes, *block.bytes(), "the payload was changed");
    (bytes, key_heads)
}

fn with_room(bytes: &[u8], room: usize) -> BlockBytes {
    let mut buffer = LineBuf::zeroed(bytes.len().next_multiple_of(LINE_BYTES) + room);
    buffer.fill(0xa5);
    buffer[..bytes.len()].copy_from_slice(bytes);
    BlockBytes::new(buffer, bytes.len())
}

/// Searches a block without key heads, and copies of it with key heads in their room or in a box,
/// and compares the results.
fn assert_same_answers(plain: &Block, target: &[u8]) {
    for room in [0, plain.bytes().len() * 2 + 100] {
        let mut fast = Block::new(with_room(plain.bytes(), room)).unwrap();
        fast.add_key_heads();
        assert_same_answers_of(plain, &fast, target);
    }
}

fn assert_same_answers_of(plain: &Block, fast: &Block, target: &[u8]) {
    for global_sequence in [None, Some(7)] {
        for trailer in [0, pack(2, 1), pack(2, 0xff), pack(7, 0xff), u64::MAX] {
            let expected = plain.find(target, trailer, global_sequence).unwrap();
            assert_eq!(
                fast.find(target, trailer, global_sequence).unwrap(),
                expected,
                "{target:?}"
            );
            let mut cursors =
                [BlockCursor::new(plain, global_sequence), BlockCursor::new(fast, global_sequence)];
            for cursor in &mut cursors {
                cursor.seek_parts(target, trailer).unwrap();
            }
            // The cursors must also agree when they continue from the entry found.
            for _ in 0..3 {
                let [a, b] = &mut cursors;
                assert_eq!(a.valid(), b.valid(), "{target:?}");
                if !a.valid() {
                    break;
                }
                assert_eq!((a.key(), a.value_range()), (b.key(), b.value_range()));
                a.next().unwrap();
                b.next().unwrap();
            }
        }
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_block_with_key_heads_answers_as_one_without() {
    let mut random = Random(StdRng::seed_from_u64(1));
    // Keys of few different bytes often share a prefix. Their bytes may also look like bytes of
    // trailers, or like the zeros that pad the head of a short key.
    let alphabets: [&[u8]; 4] = [&[0, 1, 2, 0xff], &[0], b"0123456789", &[0xff, 0]];
    for round in 0..400 {
        let alphabet = alphabets[round % 4];
        let prefix = random.bytes([0, 3, 9, 40][round / 4 % 4], alphabet);
        let (most, count) = ([3, 7, 12, 30][round / 16 % 4], [1, 5, 40, 200][round / 64 % 4]);
        let (mut keys, mut targets) = (BTreeSet::new(), vec![vec![], vec![0xff; 9]]);
        for _ in 0..count {
            let user = [prefix.clone(), random.bytes(most, alphabet)].concat();
            for _ in 0..=random.below(3) {
                let trailer = pack(random.below(9), random.below(2) as u8);
                keys.insert((user.clone(), std::cmp::Reverse(trailer)));
            }
            targets.push(user.clone());
            targets.push([&user[..], &[0]].concat());
            targets.push(user[..user.len() / 2].to_vec());
            targets.push([prefix.clone(), random.bytes(most, alphabet)].concat());
            targets.push(random.bytes(most, alphabet));
        }
        let block = build(&keys, 4);
        assert!(heads_of(&block, 0).1.is_some());
        for target in targets.iter().take(60) {
            assert_same_answers(&block, target);
        }
    }
}

#[test]
fn ordinary_blocks_of_every_size_get_key_heads_that_name_each_entry() {
    for (count, value_bytes) in [(1, 4), (30, 100), (40, 40), (500, 8), (900, 200)] {
        let user = |i: usize| format!("user{:08}", i * 3).into_bytes();
        let keys = (0..count).map(|i| (user(i), std::cmp::Reverse(pack(5, 1)))).collect();
        let block = build(&keys, value_bytes);
        let (bytes, key_heads) =
            heads_of(&block, KeyHeads::room_for(count as u32, block.bytes().len()));
        let key_heads = key_heads.unwrap();
        let mut scan = block.scan();
        for i in 0..count {
            let start = scan.value_range().end;
            scan.next().unwrap().unwrap();
            assert_eq!(
                key_heads.candidate(&bytes, &user(i)).unwrap().offset,
                start,
                "{i} of {count}"
            );
            if count > 1 {
                assert_same_answers(&block, &user(i));
                assert_same_answers(&block, format!("user{:08}", i * 3 + 1).as_bytes());
            }
        }
        assert_eq!(key_heads.heap_bytes(), 0, "the room for {count} entries is too small");
    }
}

#[test]
fn a_block_out_of_order_gets_no_key_heads() {
    let mut builder = BlockBuilder::new(1);
    for user in [&b"ab"[..], b"b", b"aa", b"c"] {
        builder.add(&internal_key(user, 1, 1), b"");
    }
    let block = Block::new(BlockBytes::copy_from(builder.finish())).unwrap();
    assert!(heads_of(&block, 100).1.is_none());
    let empty = Block::new(BlockBytes::copy_from(BlockBuilder::new(1).finish())).unwrap();
    assert!(heads_of(&empty, 100).1.is_none());
}

#[test]
fn damage_never_panics_and_is_found_as_without_key_heads() {
    let mut builder = BlockBuilder::new(4);
    for i in 0..40u8 {
        builder.add(&internal_key(&[b'k', i / 8, i], u64::from(i), 1), b"value");
    }
    let good = builder.finish().to_vec();
    for at in 0..good.len() {
        for change in [0x01, 0x08, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= change;
            let Ok(mut block) = Block::new(BlockBytes::copy_from(&bad)) else { continue };
            block.add_key_heads();
            for i in 0..40 {
                if let Ok(SearchResult::Found { value, .. }) =
                    block.find(&[b'k', i / 8, i], pack(99, 1), None)
                {
                    assert!(value.end <= block.entries().len());
                }
                let _ = BlockCursor::new(&block, None).seek_parts(&[b'k', i / 8, i], 0);
            }
        }
    }
}

#[test]
fn properties_that_lie_ask_for_little_room() {
    for block_bytes in [0, 10, 4_096, 1 << 20] {
        let room = KeyHeads::room_for(u32::MAX, block_bytes);
        assert!(room < block_bytes + 2 * LINE_BYTES, "{room} bytes behind {block_bytes}");
    }
}
