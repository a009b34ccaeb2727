//! Filters and indexes in parts whose parts or tops were replaced, with right checksums. A filter
//! that cannot be understood answers "maybe", an index that cannot be right is an error, and no
//! lookup returns a wrong value.
//!
//! Some forgeries cannot be recognized. In format_version 5, which this crate writes, a checksum
//! does not depend on the place of its block (from format_version 6 on it does), and nothing in a
//! filter part names the keys of the part. So a part in the place of another hides the keys that it
//! does not hold, as any filter with wrong bits does. [`Table::verify`] counts these keys.

use super::layout::Listed;
use super::parts::{forged, in_parts, keys_of, layout_of, numbered, opened};
use super::*;
use crate::cursor::Cursor;
use crate::encoding::coding::put_varint;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::Error;
use crate::stats::Ticker;
use crate::table::block::HASH_INDEX_BIT;
use crate::table::{ScanOptions, TableCursor};

/// The size of a part in these tests, in bytes. A filter part of this size has up to 480 keys.
const PART_BYTES: usize = 600;

/// The last filter part has nearly as many keys as the others, so that each family can build it.
fn entries() -> Entries {
    numbered(4300, 20)
}

fn with_filter(filter: &str) -> Vec<u8> {
    let options = TableOptions { filter: filter.parse().unwrap(), ..options(Compression::None) };
    in_parts(&entries(), options, PART_BYTES).0
}

fn block_of(bytes: &[u8], handle: BlockHandle) -> &[u8] {
    &bytes[handle.offset as usize..][..handle.bytes as usize]
}

/// The handle as a top stores it, in `len` bytes. A varint may have more bytes than it needs.
fn encoded(handle: BlockHandle, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    handle.encode(&mut out);
    while out.len() < len {
        *out.last_mut().unwrap() |= 0x80;
        out.push(0);
    }
    out
}

/// The file after the top of the filter says that part `part` is at `new`.
fn with_filter_handle(bytes: &[u8], sound: &Layout, part: usize, new: BlockHandle) -> Vec<u8> {
    let old = encoded(sound.filter_parts[part].handle, 0);
    forged(bytes, sound.filter(), |top| {
        let at = top.windows(old.len()).position(|found| found == old).unwrap();
        top[at..at + old.len()].copy_from_slice(&encoded(new, old.len()));
    })
}

/// The file after part `part` of the filter was replaced by `content`, which is not longer.
fn with_filter_part(bytes: &[u8], sound: &Layout, part: usize, content: &[u8]) -> Vec<u8> {
    let old = sound.filter_parts[part].handle;
    let new = BlockHandle { bytes: content.len() as u64, ..old };
    assert!(new.bytes <= old.bytes);
    let (mut bad, start) = (bytes.to_vec(), old.offset as usize);
    bad[start..start + content.len()].copy_from_slice(content);
    // The first byte of the trailer says that the block is not compressed.
    bad[start + content.len()] = 0;
    with_filter_handle(&forged(&bad, new, |_| {}), sound, part, new)
}

/// What the lookups of all entries, and of one absent key next to each entry, have found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// The user keys of the entries that were not found.
    lost: Vec<Vec<u8>>,
    /// The number of entries whose lookups returned an error.
    failed: usize,
    untrusted: u64,
}

/// Looks up all entries, and absent keys next to them. `is_touched`: whether a filter part that was
/// forged is responsible for a key. The other parts must exclude the absent keys.
fn look_up(bytes: &[u8], is_touched: impl Fn(&LookupKey<'_>) -> bool) -> Found {
    let context = context(4 << 20);
    let table = opened(bytes, &context);
    let ticker = |ticker| context.counters.sums().get(ticker);
    let mut found = Found::default();
    let (mut excluded, mut others) = (0, 0);
    for (key, value) in entries() {
        let user_key = key::user_key(&key);
        match get(&table, &LookupKey::new(user_key, MAX_SEQUENCE)) {
            Ok(Some((_, stored))) => assert_eq!(stored, value),
            Ok(None) => found.lost.push(user_key.to_vec()),
            Err(Error::Corruption { .. }) => found.failed += 1,
            Err(error) => panic!("{error}"),
        }
        let absent = [user_key, b"?"].concat();
        let absent = LookupKey::new(&absent, MAX_SEQUENCE);
        let before = ticker(Ticker::BloomUseful);
        match get(&table, &absent) {
            Ok(found) => assert!(found.is_none()),
            Err(Error::Corruption { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if !is_touched(&absent) {
            others += 1;
            excluded += ticker(Ticker::BloomUseful) - before;
        }
    }
    assert!(excluded * 100 >= others * 95, "{excluded} of {others}");
    found.untrusted = ticker(Ticker::BloomUntrusted);
    found
}

/// If a filter part has no bytes, is all zeros, or has another format, only lookups of its own keys
/// go without a filter. A Bloom filter and a ribbon filter share a format, whose trailer says which
/// of the two it is, so one part of a filter may be a Bloom filter and another a ribbon filter.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_filter_part_that_is_no_filter_is_felt_in_its_range_only() {
    for (filter, other, is_understood) in [
        ("bloom(10)", "burr(7)", false),
        ("bloom(10)", "fuse(8)", false),
        ("burr(7)", "bloom(5)", false),
        ("burr(7)", "ribbon(6)", false),
        ("bloom(10)", "ribbon(7)", true),
        ("ribbon(7)", "bloom(5)", true),
    ] {
        let bytes = with_filter(filter);
        let sound = layout_of(&bytes);
        let other_bytes = with_filter(other);
        let other_layout = layout_of(&other_bytes);
        assert_eq!(sound.filter_format() == other_layout.filter_format(), is_understood);
        assert_eq!(look_up(&bytes, |_| false), Found::default(), "{filter}");
        for part in [0, 3, sound.filter_parts.len() - 1] {
            let is_in_part = |key: &LookupKey<'_>| sound.filter_part_of(key.user_key) == part;
            let in_part = entries().into_iter().filter(|(key, _)| {
                let user_key = key::user_key(key);
                let absent = [user_key, b"?"].concat();
                assert_eq!(
                    is_in_part(&LookupKey::new(user_key, MAX_SEQUENCE)),
                    is_in_part(&LookupKey::new(&absent, MAX_SEQUENCE)),
                );
                is_in_part(&LookupKey::new(user_key, MAX_SEQUENCE))
            });
            let untrusted = 2 * in_part.count() as u64;
            assert!(untrusted > 0);
            let own = sound.filter_parts[part].handle;
            let others = block_of(&other_bytes, other_layout.filter_parts[part].handle);
            let zeros = vec![0; own.bytes as usize];
            for (content, untrusted) in [
                (&[][..], untrusted),
                (&zeros, untrusted),
                (others, if is_understood { 0 } else { untrusted }),
            ] {
                let bad = with_filter_part(&bytes, &sound, part, content);
                let expected = Found { untrusted, ..Found::default() };
                let what = format!("{filter}, part {part}: {} bytes", content.len());
                assert_eq!(look_up(&bad, is_in_part), expected, "{what}");
                assert_eq!(opened(&bad, &context(0)).verify().unwrap().filter_misses, 0, "{what}");
            }
        }
    }
}

/// A top of the filter with a part beyond the end of the file counts as absent, so all lookups go
/// without a filter.
#[test]
fn a_filter_part_beyond_the_end_of_the_file_makes_all_parts_untrusted() {
    let bytes = with_filter("bloom(10)");
    let sound = layout_of(&bytes);
    for part in [0, 3, sound.filter_parts.len() - 1] {
        let own = sound.filter_parts[part].handle;
        let beyond = BlockHandle { offset: (1 << 21) - 1, ..own };
        assert!(beyond.offset > bytes.len() as u64);
        let longer = BlockHandle { bytes: (1 << 14) - 1, ..own };
        for forged in [beyond, longer] {
            let bad = with_filter_handle(&bytes, &sound, part, forged);
            let expected = Found { untrusted: 2 * entries().len() as u64, ..Found::default() };
            assert_eq!(look_up(&bad, |_| true), expected, "part {part} at {forged:?}");
        }
    }
}

/// A part that is in the place of another part of the same filter cannot be recognized, so it hides
/// keys. Keys of other parts are found, and `verify` counts the hidden keys.
#[test]
fn a_filter_part_in_the_place_of_another_hides_keys_that_verify_counts() {
    for filter in ["bloom(10)", "ribbon(7)", "burr(7)"] {
        let bytes = with_filter(filter);
        let sound = layout_of(&bytes);
        let content = block_of(&bytes, sound.filter_parts[4].handle);
        let bad = with_filter_part(&bytes, &sound, 3, content);
        let is_in_part = |key: &LookupKey<'_>| sound.filter_part_of(key.user_key) == 3;
        let found = look_up(&bad, is_in_part);
        assert_eq!((found.failed, found.untrusted), (0, 0), "{filter}");
        assert!(found.lost.iter().all(|key| is_in_part(&LookupKey::new(key, MAX_SEQUENCE))));
        assert!(!found.lost.is_empty(), "{filter}");
        let misses = opened(&bad, &context(0)).verify().unwrap().filter_misses;
        assert_eq!(misses, found.lost.len() as u64, "{filter}");
    }
}

/// A top with these separators and parts, in exactly `bytes` bytes.
fn top_of(entries: &[(Vec<u8>, BlockHandle)], bytes: usize) -> Vec<u8> {
    let (mut top, mut restarts) = (Vec::new(), Vec::new());
    let least: usize = entries.iter().map(|(key, at)| 2 + key.len() + encoded(*at, 0).len()).sum();
    let mut spare = bytes - least - 4 * (entries.len() + 1);
    for (key, handle) in entries {
        restarts.push(top.len() as u32);
        // No byte of the separator is shared with the one before.
        put_varint(&mut top, 0);
        put_varint(&mut top, key.len() as u64);
        top.extend_from_slice(key);
        let padding = spare.min(8);
        spare -= padding;
        top.extend(encoded(*handle, encoded(*handle, 0).len() + padding));
    }
    restarts.push(restarts.len() as u32);
    restarts.iter().for_each(|number| top.extend_from_slice(&number.to_le_bytes()));
    assert_eq!(top.len(), bytes);
    top
}

/// The file with another top of the filter or of the index. `change` gets the entries of the top.
fn with_top(
    bytes: &[u8],
    sound: &Layout,
    of_filter: bool,
    change: impl FnOnce(&mut Vec<(Vec<u8>, BlockHandle)>),
) -> Vec<u8> {
    let (top, parts) = match of_filter {
        true => (sound.filter(), &sound.filter_parts),
        false => (sound.index, &sound.index_parts),
    };
    let mut entries: Vec<_> = parts.iter().map(|it| (it.user_key.clone(), it.handle)).collect();
    assert_eq!(top_of(&entries, top.bytes as usize), block_of(bytes, top));
    change(&mut entries);
    let forged_top = top_of(&entries, top.bytes as usize);
    forged(bytes, top, |block| block.copy_from_slice(&forged_top))
}

/// A top that lists a part twice, or parts that overlap, counts as absent: without the top of the
/// filter all lookups go without a filter, and without the top of the index lookups and cursors
/// return an error.
#[test]
fn tops_whose_parts_overlap_count_as_absent() {
    let bytes = with_filter("bloom(10)");
    let sound = layout_of(&bytes);
    let all = entries().len();
    let repeat: fn(&mut BlockHandle, BlockHandle) = |handle, before| *handle = before;
    let overlap: fn(&mut BlockHandle, BlockHandle) = |handle, before| {
        handle.offset = before.offset + before.bytes;
    };
    for change in [repeat, overlap] {
        for part in [1, 4] {
            let bad = |of_filter| {
                with_top(&bytes, &sound, of_filter, |entries| {
                    let before = entries[part - 1].1;
                    change(&mut entries[part].1, before);
                })
            };
            let expected = Found { untrusted: 2 * all as u64, ..Found::default() };
            assert_eq!(look_up(&bad(true), |_| true), expected, "filter, part {part}");
            let expected = Found { failed: all, ..Found::default() };
            let bad = bad(false);
            assert_eq!(look_up(&bad, |_| false), expected, "index, part {part}");
            let table = opened(&bad, &context(0));
            assert!(matches!(table.verify(), Err(Error::Corruption { .. })));
            let mut cursor = TableCursor::new(table, ScanOptions::default());
            assert!(matches!(cursor.seek_to_first(), Err(Error::Corruption { .. })));
        }
    }
}

/// A top that lacks a part is like an index that lacks a block: lookups and cursors do not find the
/// keys of this part, and find all other keys. If the top of the filter lacks a part, the next part
/// is queried in its place, or the last one. `verify` finds both.
#[test]
fn a_top_without_one_of_its_parts_hides_the_keys_of_this_part_only() {
    let bytes = with_filter("bloom(10)");
    let sound = layout_of(&bytes);
    for part in [0, 3, sound.filter_parts.len() - 1] {
        let is_in_part = |key: &LookupKey<'_>| sound.filter_part_of(key.user_key) == part;
        let bad = with_top(&bytes, &sound, true, |entries| drop(entries.remove(part)));
        let found = look_up(&bad, is_in_part);
        assert_eq!((found.failed, found.untrusted), (0, 0), "part {part}");
        assert!(found.lost.iter().all(|key| is_in_part(&LookupKey::new(key, MAX_SEQUENCE))));
        let misses = opened(&bad, &context(0)).verify().unwrap().filter_misses;
        assert_eq!(misses, found.lost.len() as u64, "part {part}");
    }
    for part in [0, 3, sound.index_parts.len() - 1] {
        let bad = with_top(&bytes, &sound, false, |entries| drop(entries.remove(part)));
        let is_lost = |key: &[u8]| sound.index_part_of(key, u64::MAX) == part;
        let keys = entries().into_iter().map(|(key, _)| key);
        let (lost, kept): (Vec<_>, Vec<_>) = keys.partition(|key| is_lost(key::user_key(key)));
        let lost: Vec<_> = lost.iter().map(|key| key::user_key(key).to_vec()).collect();
        assert!(!lost.is_empty());
        assert_eq!(look_up(&bad, |_| false), Found { lost, ..Found::default() }, "part {part}");
        let table = opened(&bad, &context(0));
        assert_eq!(keys_of(&table), kept, "part {part}");
        assert!(matches!(table.verify(), Err(Error::Corruption { .. })));
    }
}

/// A part of an index may end between two versions of a key, with a separator that lies between the
/// two. No part of a table written here does, so this table is forged. A lookup that sees only the
/// older version is led to the part of the newer one, and goes on in the next part.
#[test]
fn a_key_whose_versions_are_in_two_parts_is_found_in_the_second() {
    // Versions of the first key fill several blocks, so all separators are internal keys.
    let versions = (100..110).map(|sequence| internal_key(b"key0000", sequence, 1));
    let others = (1..300).map(|i| internal_key(format!("key{i:04}").as_bytes(), 100, 1));
    let entries = sorted(versions.chain(others).map(|key| (key, vec![7; 300])).collect());
    let options = TableOptions { filter: "none".parse().unwrap(), ..options(Compression::None) };
    let (bytes, _) = in_parts(&entries, options, 60);
    let sound = layout_of(&bytes);
    let newest = key::pack(100, 1);
    let parts =
        (1..sound.index_parts.len() - 1).filter(|&part| sound.index_parts[part].trailer == newest);
    let mut forgeries = 0;
    for part in parts {
        // The key at the end of the part gets an older version, in the place of the next key.
        let user_key = sound.index_parts[part].user_key.clone();
        let last = internal_key(&user_key, 100, 1);
        let at = entries.iter().position(|(key, _)| *key == last).unwrap();
        let next = &entries[at + 1].0;
        let replace = |bytes: &[u8], handle, old: &[u8], new: &[u8]| {
            forged(bytes, handle, |block| {
                let start = block.windows(old.len()).position(|found| found == old).unwrap();
                block[start..start + new.len()].copy_from_slice(new);
            })
        };
        // The first block of the next part.
        let older = sound.data_block_of(&user_key, newest) + 1;
        let older = sound.data[older].handle;
        let bad = replace(&bytes, older, next, &internal_key(&user_key, 10, 1));
        let separator = internal_key(&user_key, 50, 1);
        let bad = replace(&bad, sound.index_parts[part].handle, &last, &separator);
        let bad = replace(&bad, sound.index, &last, &separator);
        // At first nothing is in memory, or only the second part. In the second round everything
        // is, if the cache has room for anything.
        for (cache_bytes, has_second) in [(0, false), (4 << 20, false), (4 << 20, true)] {
            let table = opened(&bad, &context(cache_bytes));
            if has_second {
                let in_second = &sound.index_parts[part + 1].user_key;
                get(&table, &LookupKey::new(in_second, MAX_SEQUENCE)).unwrap();
            }
            for _ in 0..2 {
                for (sequence, is_there) in [(60, true), (50, true), (100, true), (9, false)] {
                    let found = get(&table, &LookupKey::new(&user_key, sequence)).unwrap();
                    assert_eq!(found.is_some(), is_there, "part {part}, sequence {sequence}");
                }
            }
        }
        forgeries += 1;
    }
    assert!(forgeries > 10, "{forgeries}");
}

/// Reads reject a part whose first block has no entries. But `verify` called the table sound, and
/// another filter was written whose parts began one part too late: it denied the keys behind that
/// block.
#[test]
fn a_part_that_begins_without_entries_is_damage_for_verify_and_for_another_filter() {
    let bytes = with_filter("bloom(10)");
    let sound = layout_of(&bytes);
    for part in [1, sound.index_parts.len() - 1] {
        let before = &sound.index_parts[part - 1];
        let (user_key, trailer) = (&before.user_key[..], before.trailer);
        let is_behind = |it: &&Listed| (&it.user_key[..], trailer) > (user_key, it.trailer);
        let first = sound.data.iter().find(is_behind).unwrap().handle;
        let bad = forged(&bytes, first, |block| {
            // Restart points, a hash index that takes what is left of the block, and the tail.
            let len = block.len();
            let buckets = (len - 6) % 4;
            let restarts = (len - 6 - buckets) / 4;
            block.fill(0);
            block[len - 6..len - 4].copy_from_slice(&(buckets as u16).to_le_bytes());
            block[len - 4..].copy_from_slice(&(restarts as u32 | HASH_INDEX_BIT).to_le_bytes());
        });
        let table = opened(&bad, &context(4 << 20));
        let refiltered = refiltered(&table, FilterSpec::bloom(12.0).unwrap(), FilterKeys::Whole);
        for error in [table.verify().unwrap_err(), refiltered.unwrap_err()] {
            assert!(error.to_string().contains("a data block with entries"), "{error}");
        }
    }
}

/// Walks backward and seeks read restart points that a walk forward does not need.
#[test]
fn verify_names_a_block_with_wrong_restart_points() {
    let bytes = with_filter("none");
    let block = layout_of(&bytes).data[3].handle;
    let verify = |bytes: &[u8]| opened(bytes, &context(4 << 20)).verify();
    verify(&bytes).unwrap();
    let content = block_of(&bytes, block);
    let count = u32::from_le_bytes(*content.last_chunk().unwrap()) as usize;
    assert!(count > 1, "{count}");
    let array = content.len() - 4 * (count + 1);
    let restart = |i: usize| array + 4 * i..array + 4 * (i + 1);
    for change in 0..4 {
        let bad = forged(&bytes, block, |block| match change {
            0 => block[restart(0).start] = 1,
            1 => block[restart(1).start] ^= 1,
            2 => block.copy_within(restart(0), restart(1).start),
            _ => block.copy_within(restart(1), restart(0).start),
        });
        let error = verify(&bad).unwrap_err().to_string();
        assert!(error.contains("the offset of an entry with a whole key"), "{change}: {error}");
    }
}
