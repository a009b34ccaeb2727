//! The fuzz targets of a table's blocks and of its footer. Each target decodes arbitrary bytes.
//! Searches and walks of blocks and indexes are compared with the simplest implementation.

use std::path::Path;

use super::block::Block;
use super::block::cursor::BlockCursor;
use super::block::payload::{BlockBytes, Entry, Scan};
use super::format::footer::{BlockHandle, FOOTER_BYTES, Footer};
use super::format::properties::{IndexForm, TableProperties};
use super::index::{Index, IndexParser};
use crate::encoding::key;
use crate::encoding::key::TRAILER_BYTES;
use crate::error::Error;
use crate::memory::LineBuf;

/// A block whose keys together have more bytes than this is not tested. The list with which it
/// would be compared holds whole keys, and could take megabytes if entries share a long key.
const MAX_KEY_BYTES: usize = 1 << 20;

fn block_of(bytes: &[u8]) -> Option<Block> {
    Block::new(BlockBytes::new(LineBuf::copy_from(bytes), bytes.len())).ok()
}

/// Walks a data block forward and backward and searches it, with key heads (the first bytes of all
/// keys in one array) and without. The first byte of `data` says whether a global sequence number
/// replaces those of the entries. The other bytes are the block.
pub fn block(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    let global_sequence = (how & 1 != 0).then_some(7);
    let (Some(plain), Some(mut fast)) = (block_of(bytes), block_of(bytes)) else { return };
    fast.add_key_heads();
    let Some((entries, whole)) = plain_entries(&plain) else { return };
    for block in [&plain, &fast] {
        let mut cursor = BlockCursor::new(block, global_sequence);
        let mut result = cursor.seek_to_first();
        if plain.restart(0).is_ok_and(|first| first == 0) {
            for (offset, key, value) in &entries {
                assert!(result.is_ok() && cursor.valid(), "a walk is cut short at {offset}");
                assert_eq!(key::user_key(cursor.key()), key::user_key(key), "at {offset}");
                assert_eq!(cursor.value(), *value, "at {offset}");
                result = cursor.next();
            }
            assert!(!cursor.valid() && result.is_ok() == whole, "a walk has another end");
        }
        // A backward walk must end, whatever the restart points say.
        let mut result = cursor.seek_to_last();
        let mut steps = 0;
        while result.is_ok() && cursor.valid() {
            steps += 1;
            assert!(steps <= bytes.len(), "a walk backwards has no end");
            result = cursor.prev();
        }
    }
    if whole && is_sound(&plain, &entries) {
        for block in [&plain, &fast] {
            assert_searched_as_a_list(block, &entries);
        }
    } else {
        for (_, target, _) in entries.iter().take(50) {
            for block in [&plain, &fast] {
                let _ = BlockCursor::new(block, global_sequence).seek(target);
                let _ = BlockCursor::new(block, global_sequence).seek_before(target);
                let (user_key, trailer) = (key::user_key(target), key::trailer(target));
                let start = block.search_start(user_key);
                let _ = block.find_from(start, user_key, trailer, global_sequence);
            }
        }
    }
}

/// The offset, the key and the value of an entry.
type PlainEntry<'a> = (usize, Vec<u8>, &'a [u8]);

/// The entries before the first entry that does not decode or has no internal key, and whether all
/// entries decode and have one. `None` if the keys exceed [`MAX_KEY_BYTES`].
fn plain_entries(block: &Block) -> Option<(Vec<PlainEntry<'_>>, bool)> {
    let (mut entries, mut key_bytes) = (Vec::new(), 0);
    let mut scan = Scan::new(block.entries());
    loop {
        let offset = scan.value_range().end;
        match scan.next() {
            Ok(Some((key, value))) if key.len() >= TRAILER_BYTES => {
                entries.push((offset, key.to_vec(), value));
                key_bytes += key.len();
                if key_bytes > MAX_KEY_BYTES {
                    return None;
                }
            }
            Ok(None) => return Some((entries, true)),
            _ => return Some((entries, false)),
        }
    }
}

/// Whether the keys ascend, the first restart point is the first entry, and each restart point is a
/// later entry than the one before and shares no bytes.
fn is_sound(block: &Block, entries: &[PlainEntry<'_>]) -> bool {
    let ascends = entries.windows(2).all(|pair| key::compare(&pair[0].1, &pair[1].1).is_lt());
    let restarts: Vec<usize> =
        (0..block.restart_count()).filter_map(|i| block.restart(i).ok()).collect();
    ascends
        && restarts.len() == block.restart_count()
        && restarts[0] == 0
        && restarts.windows(2).all(|pair| pair[0] < pair[1])
        && restarts.iter().all(|&restart| {
            entries.binary_search_by_key(&restart, |entry| entry.0).is_ok()
                && Entry::decode(block.entries(), restart).is_ok_and(|entry| entry.shared == 0)
        })
}

/// Asserts that searches and a backward walk of a sound block agree with the list of its entries.
fn assert_searched_as_a_list(block: &Block, entries: &[PlainEntry<'_>]) {
    let mut cursor = BlockCursor::new(block, None);
    cursor.seek_to_last().expect("a sound block");
    for (_, key, _) in entries.iter().rev() {
        assert_eq!(cursor.key(), key, "backwards");
        cursor.prev().expect("a sound block");
    }
    assert!(!cursor.valid());
    for (_, near, _) in entries.iter().take(100) {
        let user_key = key::user_key(near);
        for user_key in [user_key, &user_key[..user_key.len() / 2], &[user_key, b"\0"].concat()] {
            let target = key::seek_key(user_key, key::sequence(near));
            let at = entries.partition_point(|(_, key, _)| key::compare(key, &target).is_lt());
            let expected = entries.get(at).map(|entry| &entry.1[..]);
            cursor.seek(&target).expect("a sound block");
            assert_eq!(cursor.valid().then(|| cursor.key()), expected, "{target:?}");
            cursor.seek_before(&target).expect("a sound block");
            let before = at.checked_sub(1).map(|at| &entries[at].1[..]);
            assert_eq!(cursor.valid().then(|| cursor.key()), before, "before {target:?}");
        }
    }
}

/// Decodes an index block in both forms that an index can have in memory: parsed, and as it is
/// stored. Either both forms must accept the block, or both must reject it. A search must find the
/// first separator that is not before the target. The first byte of `data` states how the entries
/// are encoded, and the size of the file. The other bytes are the block.
pub fn index(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    let Some(block) = block_of(bytes) else { return };
    let form = IndexForm {
        two_level: false,
        first_keys: how & 1 != 0,
        user_keys: how & 2 != 0,
        delta_values: how & 4 != 0,
    };
    let file_bytes = 1 << (how >> 3);
    let mut parser = IndexParser::new(form, file_bytes);
    let parsed = parser.add(&block).map(|()| parser.finish(LineBuf::zeroed));
    for has_heads in [true, false] {
        let Some(block) = block_of(bytes) else { return };
        let kept = Index::of_block(block, form, file_bytes, has_heads, LineBuf::zeroed);
        assert_eq!(parsed.is_ok(), kept.is_ok(), "the two forms in memory are not checked alike");
        let (Ok(parsed), Ok(kept)) = (&parsed, kept) else { return };
        assert_eq!(parsed.len(), kept.len());
        for i in 0..parsed.len() {
            assert_eq!(parsed.separator(i), kept.separator(i), "separator {i}");
            assert_eq!(parsed.handle(i), kept.handle(i), "block {i}");
        }
        check_index(&kept, file_bytes);
    }
    if let Ok(parsed) = parsed {
        check_index(&parsed, file_bytes);
    }
}

fn check_index(index: &Index, file_bytes: u64) {
    let mut end = 0;
    for i in 0..index.len() {
        let handle = index.handle(i);
        assert!(handle.offset >= end && handle.fits(file_bytes), "block {i} is out of order");
        end = handle.end().expect("it fits");
    }
    let keys: usize = (0..index.len()).map(|i| index.user_key(i).len()).sum();
    assert!(keys <= 16 * file_bytes as usize + (1 << 20), "{keys} bytes of separators");
    for i in (0..index.len()).take(100) {
        let near = index.user_key(i);
        for user_key in [near, &near[..near.len() / 2], &[near, b"\0"].concat()] {
            for trailer in [0, key::pack(9, 1), u64::MAX] {
                let found = index.find(user_key, trailer);
                let is_before = |i: usize| index.is_before(i, user_key, trailer);
                assert!((0..found).all(is_before) && !(found..index.len()).any(is_before));
            }
        }
    }
}

/// Reads `data` as a properties block, prints each property, and decodes some of them.
pub fn properties(data: &[u8]) {
    let Some(block) = block_of(data) else { return };
    let Ok(properties) = TableProperties::decode(&block, data.len() as u64) else { return };
    for (name, value) in properties.iter() {
        assert!(!value.to_string().contains('\n'), "{name:?} prints on two lines");
    }
    let _ = (properties.index_form(), properties.prefix_extractor(), properties.entries());
    let _ = super::filter::info::FilterInfo::of(&properties);
    let range = TableProperties::global_sequence_range(data);
    assert!(range.is_none_or(|range| range.len() == 8 && range.end <= data.len()));
}

/// Decodes `data` as the end of a file. The first byte says how long the file is, and whether the
/// footer's checksum type is set to "none".
pub fn footer(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    let mut tail = bytes[bytes.len().saturating_sub(FOOTER_BYTES)..].to_vec();
    if how & 1 != 0 && tail.len() == FOOTER_BYTES {
        tail[0] = 0;
    }
    let file_bytes = tail.len() as u64 + (1 << (how >> 2)) - 1;
    match Footer::decode(&tail, file_bytes, Path::new("t.sst"), false) {
        Ok(footer) => {
            let limit = file_bytes - FOOTER_BYTES as u64;
            let handles: [Option<BlockHandle>; 2] = [Some(footer.metaindex), footer.index];
            assert!(handles.into_iter().flatten().all(|handle| handle.fits(limit)));
        }
        Err(Error::Corruption { .. } | Error::Unsupported { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::block::builder::BlockBuilder;
    use super::super::format::properties::names;
    use super::*;
    use crate::encoding::key::internal_key;
    use crate::fuzzing::mutations;

    fn data_block(restart_interval: usize) -> Vec<u8> {
        let mut builder = BlockBuilder::new(restart_interval);
        for i in 0..30u64 {
            let user = format!("key{:03}{}", i / 2, "/x".repeat(i as usize % 3));
            builder.add(&internal_key(user.as_bytes(), 90 - i, 1), &vec![i as u8; i as usize * 5]);
        }
        builder.finish().to_vec()
    }

    #[test]
    #[ignore = "takes seconds; .ci/run runs it"]
    fn a_changed_block_is_walked_as_it_stands() {
        for restart_interval in [1, 4, 16] {
            let good = [&[0][..], &data_block(restart_interval)].concat();
            mutations(1, 20_000, &good, block);
        }
    }

    #[test]
    #[ignore = "takes seconds; .ci/run runs it"]
    fn a_changed_index_is_refused_or_searched_as_a_list() {
        for how in [0b0110_0110u8, 0b0110_0010, 0b0110_0100] {
            let mut builder = match how & 4 {
                0 => BlockBuilder::new(1),
                _ => BlockBuilder::for_index(),
            };
            for i in 0..30u64 {
                let user = format!("key{i:03}").into_bytes();
                let separator = if how & 2 != 0 { user } else { internal_key(&user, i, 1) };
                let mut value = Vec::new();
                BlockHandle { offset: i * 105, bytes: 100 }.encode(&mut value);
                builder.add(&separator, &value);
            }
            let good = [&[how][..], builder.finish()].concat();
            mutations(2, 10_000, &good, index);
        }
    }

    #[test]
    fn changed_properties_and_footers_are_read_without_a_panic() {
        let mut builder = BlockBuilder::new(usize::MAX);
        builder.add(names::INDEX_TYPE.as_bytes(), &[0; 4]);
        builder.add(names::GLOBAL_SEQUENCE.as_bytes(), &[9; 8]);
        builder.add(b"rocksdb.num.entries", &[0xac, 2]);
        builder.add(b"rocksdb.prefix.extractor.name", b"rocksdb.FixedPrefix.4");
        let good = builder.finish().to_vec();
        mutations(3, 20_000, &good, properties);
        let handle = BlockHandle { offset: 300, bytes: 50 };
        let good = [&[40 << 2][..], &Footer::written(handle, handle).encode(351)].concat();
        mutations(4, 20_000, &good, footer);
        let mut random = StdRng::seed_from_u64(5);
        for _ in 0..20_000 {
            let mut data = vec![0u8; random.random_range(0..80)];
            random.fill(&mut data[..]);
            footer(&data);
            properties(&data);
            index(&data);
            block(&data);
        }
    }
}
