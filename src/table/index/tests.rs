//! Compares every form of an index with a sorted list. Reads damaged indexes.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::encoding::coding::{put_fixed32, put_varint};
use crate::encoding::key::internal_key;
use crate::table::block::payload::BlockBytes;

const LIMIT: u64 = 1 << 40;

fn form(user_keys: bool, delta_values: bool, first_keys: bool) -> IndexForm {
    IndexForm { two_level: false, first_keys, user_keys, delta_values }
}

/// An index block, encoded as the format describes it. Every `restart_interval`-th entry, from the
/// first on, is a restart point.
fn encode(entries: &[(Vec<u8>, BlockHandle)], form: IndexForm, restart_interval: usize) -> Block {
    let (mut out, mut restarts) = (Vec::new(), Vec::new());
    for (i, (key, handle)) in entries.iter().enumerate() {
        let mut shared = 0;
        if i % restart_interval == 0 {
            restarts.push(out.len() as u32);
        } else {
            let last = &entries[i - 1].0;
            shared = common_prefix_len(last, key);
        }
        let mut value = Vec::new();
        if form.delta_values && shared > 0 {
            let difference = handle.bytes as i64 - entries[i - 1].1.bytes as i64;
            put_varint(&mut value, (difference << 1 ^ difference >> 63) as u64);
        } else {
            handle.encode(&mut value);
        }
        if form.first_keys {
            value.extend_from_slice(b"\x03key");
        }
        put_varint(&mut out, shared as u64);
        put_varint(&mut out, (key.len() - shared) as u64);
        if !form.delta_values {
            put_varint(&mut out, value.len() as u64);
        }
        out.extend_from_slice(&key[shared..]);
        out.extend_from_slice(&value);
    }
    restarts.iter().for_each(|&restart| put_fixed32(&mut out, restart));
    put_fixed32(&mut out, restarts.len() as u32);
    Block::new(BlockBytes::copy_from(&out)).unwrap()
}

fn adjacent_handles(count: usize) -> Vec<BlockHandle> {
    let mut offset = 0;
    (0..count)
        .map(|i| {
            let handle = BlockHandle { offset, bytes: 4000 + (i as u64 * 37) % 200 };
            offset = handle.end().unwrap();
            handle
        })
        .collect()
}

#[test]
fn every_form_is_read_and_searched_as_a_sorted_list_is() {
    let users: Vec<Vec<u8>> = ["", "com", "common/", "common/a"]
        .iter()
        .map(|key| key.as_bytes().to_vec())
        .chain((0..150u32).map(|i| format!("common/key/{:05}", i * 3).into_bytes()))
        .chain([b"common/key/00449".to_vec(), vec![0xff; 20]])
        .collect();
    for skip in [0, 4] {
        let users = &users[skip..users.len() - usize::from(skip > 0)];
        for (user_keys, delta, first) in
            [(true, true, false), (true, false, false), (false, true, true), (false, false, false)]
        {
            let form = form(user_keys, delta, first);
            let entries: Vec<_> = users
                .iter()
                .map(|user| if user_keys { user.clone() } else { internal_key(user, 50, 1) })
                .zip(adjacent_handles(users.len()))
                .collect();
            for restart_interval in [1, 16] {
                let block = || encode(&entries, form, restart_interval);
                let mut parser = IndexParser::new(form, LIMIT);
                parser.add(&block()).unwrap();
                let kept = [true, false].map(|has_heads| {
                    let kept = Index::of_block(block(), form, LIMIT, has_heads, LineBuf::zeroed);
                    let kept = kept.unwrap();
                    let is_kept = matches!(kept.entries, Entries::Stored(_));
                    assert_eq!(is_kept, restart_interval == 1 && !first);
                    assert_eq!(kept.heads.is_some(), has_heads || !is_kept);
                    kept
                });
                for index in [parser.finish(LineBuf::zeroed)].into_iter().chain(kept) {
                    assert_eq!(index.len(), users.len());
                    let trailer = if user_keys { 0 } else { key::pack(50, 1) };
                    for (i, (_, handle)) in entries.iter().enumerate() {
                        assert_eq!(index.handle(i), *handle);
                        assert_eq!(index.separator(i), (&users[i][..], trailer));
                    }
                    let wanted = users.iter().cloned().chain(users.iter().flat_map(|user| {
                        [[user, &b"\0"[..]].concat(), user[..user.len() / 2].to_vec()]
                    }));
                    for user_key in wanted {
                        for wanted_trailer in [0, key::pack(50, 1), key::pack(51, 0), u64::MAX] {
                            let expected = users.partition_point(|user| {
                                user.cmp(&user_key).then(wanted_trailer.cmp(&trailer)).is_lt()
                            });
                            assert_eq!(index.find(&user_key, wanted_trailer), expected);
                        }
                    }
                }
            }
        }
    }
}

/// An index whose separators are internal keys with the user keys `users` and the sequence number
/// 50.
fn index_of(users: &[Vec<u8>]) -> Index {
    let form = form(false, true, false);
    let entries: Vec<_> = users
        .iter()
        .map(|user| internal_key(user, 50, 1))
        .zip(adjacent_handles(users.len()))
        .collect();
    let mut parser = IndexParser::new(form, LIMIT);
    if !entries.is_empty() {
        parser.add(&encode(&entries, form, 16)).unwrap();
    }
    parser.finish(LineBuf::zeroed)
}

#[test]
fn whole_groups_of_heads_and_parts_of_them_are_searched_alike() {
    for count in 0..=3 * GROUP as u64 + 1 {
        let users: Vec<Vec<u8>> = (0..count).map(|i| (2 * i).to_be_bytes().to_vec()).collect();
        let index = index_of(&users);
        for target in 0..=2 * count {
            let find = index.find(&target.to_be_bytes(), u64::MAX);
            assert_eq!(find, target.div_ceil(2) as usize, "{target} among {count}");
            let first = index.find_group(&target.to_be_bytes()).first;
            assert!((first..=first + GROUP).contains(&find), "{target} among {count}");
        }
    }
}

#[test]
fn equal_heads_may_fill_groups() {
    for before in 0..=GROUP {
        let mut users: Vec<Vec<u8>> = (0..before as u8).map(|i| vec![b'a', i]).collect();
        users.extend((0..3 * GROUP).map(|i| format!("same head {i:02}").into_bytes()));
        users.push(b"z".to_vec());
        let index = index_of(&users);
        for (i, user) in users.iter().enumerate() {
            assert_eq!(index.find(user, u64::MAX), i);
            assert_eq!(index.find(&[user, &b"\0"[..]].concat(), u64::MAX), i + 1);
        }
    }
}

#[test]
fn versions_of_one_key_may_span_blocks() {
    let form = form(false, true, false);
    let keys = [(b"a", 9), (b"k", 30), (b"k", 20), (b"k", 10), (b"z", 1)];
    let entries: Vec<_> = keys
        .iter()
        .map(|(user, sequence)| internal_key(*user, *sequence, 1))
        .zip(adjacent_handles(5))
        .collect();
    let mut parser = IndexParser::new(form, LIMIT);
    parser.add(&encode(&entries, form, 1)).unwrap();
    let index = parser.finish(LineBuf::zeroed);
    for (sequence, block) in [(99, 1), (30, 1), (29, 2), (20, 2), (12, 3), (9, 4)] {
        assert_eq!(index.find(b"k", key::pack(sequence, 0xff)), block, "{sequence}");
    }
}

/// The check of usual entries must accept nothing that the check of all forms refuses, because
/// searches suppose that each entry was checked.
#[test]
fn both_checks_of_stored_entries_agree() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut usual, mut refused, mut others) = (0, 0, 0);
    for _ in 0..if cfg!(miri) { 50 } else { 5_000 } {
        let common = vec![b'p'; rng.random_range(0..=9)];
        let tail = |rng: &mut StdRng| {
            let bytes = rng.random_range(0..12);
            (0..bytes).map(|_| rng.random_range(b'a'..b'd')).collect::<Vec<u8>>()
        };
        let keys = (0..rng.random_range(1..40)).map(|_| [&common[..], &tail(&mut rng)].concat());
        let mut keys: Vec<_> = keys.collect();
        keys.sort();
        let most_bytes = 1 << rng.random_range(1..33);
        let mut offset = rng.random_range(0..LIMIT) >> rng.random_range(0..40);
        let handles = (0..keys.len()).map(|_| {
            let handle = BlockHandle { offset, bytes: rng.random_range(0..most_bytes) };
            offset = handle.end().unwrap();
            handle
        });
        let entries: Vec<_> = keys.into_iter().zip(handles).collect();
        let form = form(true, true, false);
        let block = encode(&entries, form, 1);
        let mut bytes = block.bytes().to_vec();
        if rng.random_bool(0.5) {
            let at = rng.random_range(0..bytes.len() - 4);
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        let stored =
            StoredEntries { block: Block::new(BlockBytes::copy_from(&bytes)).unwrap(), form };
        let ends = [0, entries.len() - 1].map(|i| stored.decode(i));
        let [Some(first), Some(last)] = ends else { continue };
        let (first, last) = (first.key.user_key, last.key.user_key);
        let prefix = Prefix::new(&first[..common_prefix_len(first, last)]);
        let (mut heads, mut usual_heads) = (Vec::new(), Vec::new());
        let is_right = stored.check_each(prefix.bytes(), LIMIT, |head| heads.push(head)).is_some();
        match stored.check_usual(&prefix, LIMIT, |head| usual_heads.push(head)) {
            true => {
                assert!(is_right, "{bytes:?}");
                assert_eq!(usual_heads, heads, "{bytes:?}");
                usual += 1;
            }
            false if is_right => others += 1,
            false => refused += 1,
        }
    }
    let least = if cfg!(miri) { 1 } else { 300 };
    assert!(usual > least && refused > least && others > least, "{usual}, {refused}, {others}");
}

#[test]
fn the_first_number_of_a_word_is_that_of_the_varint() {
    for shift in 0..64 {
        for number in [1 << shift, u64::MAX >> shift, 0x5a5a_5a5a_5a5a_5a5a >> shift] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let count = bytes.len();
            bytes.resize(16, 0xd5);
            let word = u64::from_le_bytes(*bytes.first_chunk().unwrap());
            let expected = (count <= 8).then_some((number, count));
            assert_eq!(first_number(word), expected, "{number:#x}");
        }
    }
}

#[test]
fn unsorted_and_impossible_entries_are_refused() {
    let handle = BlockHandle { offset: 0, bytes: 10 };
    let next = BlockHandle { offset: 15, bytes: 10 };
    let parse = |entries: &[(Vec<u8>, BlockHandle)], form: IndexForm, limit| {
        IndexParser::new(form, limit).add(&encode(entries, form, 1))
    };
    let user_form = form(true, true, false);
    let pair = |a: &[u8], b: &[u8]| [(a.to_vec(), handle), (b.to_vec(), next)];
    assert!(parse(&pair(b"a", b"b"), user_form, 30).is_ok());
    assert!(parse(&pair(b"b", b"a"), user_form, 30).is_err());
    assert!(parse(&pair(b"a", b"b"), user_form, 29).is_err(), "past the end");
    assert!(parse(&pair(b"a", b"b"), form(false, true, false), 30).is_err(), "no trailer");
    for offset in [0, 14] {
        let overlapping = BlockHandle { offset, bytes: 10 };
        let entries = [(b"a".to_vec(), handle), (b"b".to_vec(), overlapping)];
        assert!(parse(&entries, user_form, 30).is_err(), "{offset}: overlaps");
    }
}

/// If an index has one long separator, and a thousand that share its bytes, it takes a thousand
/// times as much memory as its block has bytes. Such an index in a file of a kilobyte could once
/// take 64 MiB. Now the size of the file bounds the memory of the separators.
#[test]
fn separators_that_share_a_prefix_are_bounded_by_the_file() {
    let separators = |long: usize| -> Vec<_> {
        let users = (0..1000u32).map(|i| [&vec![b'x'; long], &i.to_be_bytes()[..]].concat());
        users.zip(adjacent_handles(1000)).collect()
    };
    let form = form(true, true, false);
    let parse = |long, file_bytes| {
        let block = encode(&separators(long), form, usize::MAX);
        let mut parser = IndexParser::new(form, file_bytes);
        parser.add(&block).map(|()| parser.finish(LineBuf::zeroed).heap_bytes())
    };
    let end = separators(0).last().unwrap().1.end().unwrap();
    assert!(parse(1000, end).is_ok());
    let most = crate::table::format::limits::most_metadata_bytes(end) as usize;
    assert!(parse(most / 1000 - 10, end).is_ok_and(|bytes| bytes < 2 * most));
    let damage = parse(most / 1000, end).unwrap_err();
    assert!(damage.expected.contains("bytes of keys"), "{damage:?}");
}

#[test]
fn separators_are_short_and_lie_between() {
    let cases: [(&[u8], &[u8], &[u8]); 9] = [
        (b"abcdef", b"abzz", b"abd"),
        (b"abc", b"abcd", b"abc"),
        (b"ab\x01", b"ab\x02", b"ab\x01"),
        (b"ab\x01xyz", b"ab\x02", b"ab\x01y"),
        (b"ab\x01\xff\xffx", b"ab\x02", b"ab\x01\xff\xffy"),
        (b"ab\x01\xff\xff", b"ab\x02", b"ab\x01\xff\xff"),
        (b"ab\x01zz", b"ab\x02\0", b"ab\x02"),
        (b"", b"a", b""),
        (b"a\xff", b"b", b"a\xff"),
    ];
    for (last, next, expected) in cases {
        let mut out = Vec::new();
        let separator = shortest_separator(last, next, &mut out);
        assert_eq!(separator, expected, "{last:?} {next:?}");
        assert!(last <= separator && separator < next);
    }
}
