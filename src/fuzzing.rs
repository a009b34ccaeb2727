//! What the fuzzers of `fuzz/` call: one function a target, which takes any bytes, repairs the
//! checksums so that mutations get past them, and panics where a promise is broken.
//!
//! ```text
//! filter_*   decode of one family            filter_round_trip   a built filter against its keys
//! block  index  properties  footer           the parts of a table
//! table      a whole table, no checksum      log  edit           the parts of WAL and MANIFEST
//! wal  manifest   a database whose WAL or MANIFEST is the input
//! operations      writes, reads and reopenings against a BTreeMap
//! policy          the text of filter policies and prefix extractors
//! ```
//!
//! Compiled for fuzzing, and for the tests, which feed all of them random bytes and the seeds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::db::{Db, WriteBatch};
use crate::error::{Error, Result};
use crate::filter::{Family, FilterBuilder, FilterEncoding, FilterReader, FilterSpec};
use crate::filter_policy::{FilterContext, FilterPolicy};
use crate::fs::{Fs, MemFs};
use crate::table::{PrefixExtractor, SstReader};
use crate::version::{FileMeta, VersionEdit};
use crate::wal::LogKind;

pub use crate::table::fuzzing::{block, footer, index, properties};
pub use crate::wal::fuzzing::log;

/// The checksum type stands in the first byte of the footer, which is so long.
const FOOTER_BYTES: usize = 53;

/// Hashes to ask for, from the first eight bytes of the input.
fn hashes(seed: [u8; 8], count: usize) -> Vec<u64> {
    let mut hash = u64::from_le_bytes(seed);
    let next = || {
        hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ 0x55;
        hash
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Asks the rest of `data` as a Bloom filter block.
pub fn filter_bloom(data: &[u8]) {
    filter_of(Family::Bloom, data);
}

/// As a Bloom filter block of old tables.
pub fn filter_legacy_bloom(data: &[u8]) {
    filter_of(Family::LegacyBloom, data);
}

/// As a ribbon filter block.
pub fn filter_ribbon(data: &[u8]) {
    filter_of(Family::Ribbon, data);
}

/// As a bumped ribbon filter block.
pub fn filter_burr(data: &[u8]) {
    filter_of(Family::Burr, data);
}

/// The first eight bytes say what is asked; the trailer is repaired if the first is even.
fn filter_of(family: Family, data: &[u8]) {
    let Some((&seed, block)) = data.split_first_chunk() else { return };
    let mut block = block.to_vec();
    if seed[0] & 1 == 0 {
        crate::filter::fuzzing::repair(family, &mut block);
    }
    let encoding = match family {
        Family::Burr => FilterEncoding::BumpedRibbon,
        _ => FilterEncoding::RocksDb,
    };
    let reader = FilterReader::from_bytes(&block, encoding);
    let answers = ask_every_way(&reader, &hashes(seed, 100));
    assert!(reader.untrusted().is_none() || answers.iter().all(|&maybe| maybe));
    let rate = reader.predicted_fpr(1 + block.len() as u64);
    assert!((0.0..=1.0).contains(&rate), "a rate of {rate}");
    assert!(reader.fill().is_none_or(|fill| (0.0..=1.0).contains(&fill)));
}

/// All ways to ask must agree.
fn ask_every_way(reader: &FilterReader, hashes: &[u64]) -> Vec<bool> {
    let one_by_one: Vec<bool> = hashes.iter().map(|&hash| reader.may_contain(hash)).collect();
    let in_steps: Vec<bool> =
        hashes.iter().map(|&hash| reader.finish(reader.prepare(hash))).collect();
    let mut together = vec![false; hashes.len()];
    reader.may_contain_many(hashes, &mut together);
    assert!(one_by_one == in_steps && one_by_one == together, "the ways to ask disagree");
    one_by_one
}

/// Builds a filter of a family, size and set of keys that `data` says, and asks for every key: each
/// four bytes are one, and a number of others follow.
pub fn filter_round_trip(data: &[u8]) {
    let Some((&[family, bits, more, less], keys)) = data.split_first_chunk() else { return };
    let family = [Family::Bloom, Family::Ribbon, Family::Burr][usize::from(family) % 3];
    let bits = 1.0 + f64::from(bits) / 10.0;
    let Ok(spec) = FilterSpec::fpr(0.5f64.powf(bits / 1.44).clamp(1e-6, 0.9), family) else {
        return;
    };
    let mut set: Vec<u64> = keys
        .as_chunks::<4>()
        .0
        .iter()
        .map(|key| u64::from(u32::from_le_bytes(*key)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let more_keys = usize::from(u16::from_le_bytes([more, less]) & 0x3ff);
    set.extend(hashes([family as u8, more, less, 0, 0, 0, 0, 1], more_keys));
    let mut builder = FilterBuilder::new(spec).verify(false);
    // Every third brings the one before as its prefix.
    for (i, &hash) in set.iter().enumerate() {
        match i % 3 {
            2 => builder.add_pair(hash, set[i - 1]),
            _ => builder.add(hash),
        }
    }
    if let Some(built) = builder.finish() {
        let reader = FilterReader::from_bytes(built.bytes(), built.encoding());
        assert_eq!(reader.untrusted(), None, "{spec} of {} keys", set.len());
        assert!(ask_every_way(&reader, &set).iter().all(|&maybe| maybe), "{spec} hides a key");
    }
}

/// Reads `data` as a table. Its footer is made to name no checksum, so that none stands in the way.
pub fn table(data: &[u8]) {
    let mut bytes = data.to_vec();
    if let Some(footer) = bytes.len().checked_sub(FOOTER_BYTES) {
        bytes[footer] = 0;
    }
    let fs = MemFs::new();
    let path = Path::new("table.sst");
    put_file(&fs, path, &bytes);
    match read_table(&fs, path) {
        Ok(()) | Err(Error::Corruption { .. } | Error::Unsupported { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn put_file(fs: &dyn Fs, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).expect("memory");
    file.append(bytes).expect("memory");
    file.sync().expect("memory");
}

fn read_table(fs: &dyn Fs, path: &Path) -> Result<()> {
    let reader = SstReader::open_in(fs, path)?;
    let verified = reader.verify();
    // What follows must come to an end, whether or not the table is sound.
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut entries = reader.entries();
    let scanned = loop {
        match entries.next_entry() {
            Ok(Some(entry)) if keys.len() < 1000 => keys.push(entry.user_key.to_vec()),
            Ok(Some(_)) => {}
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    assert!(verified.is_err() || scanned.is_ok(), "verified, but not readable to its end");
    for key in keys.iter().map(Vec::as_slice).chain([&b""[..], b"\xff"]) {
        let maybe = reader.may_contain(key);
        let is_there = keys.iter().any(|there| there == key);
        let hides = verified.as_ref().is_ok_and(|check| check.filter_misses == 0)
            && is_there
            && matches!(maybe, Ok(false));
        assert!(!hides, "a verified filter hides a key");
        reader.range_may_match(key, Some(b"m"));
    }
    let _ = (reader.filter(), reader.range_deletions());
    scanned
}

/// Reads `data` as the payload of a MANIFEST record. What is accepted must survive being written.
pub fn edit(data: &[u8]) {
    if let Ok(edit) = VersionEdit::decode(data) {
        assert!(VersionEdit::decode(&edit.encode()).is_ok_and(|again| again == edit));
    }
}

/// A killed database of a few tables and a WAL that holds more; the names of its MANIFEST and its
/// newest WAL with bytes.
struct Image {
    fs: MemFs,
    manifest: String,
    wal: String,
}

const DIR: &str = "/db";

fn open(fs: &MemFs) -> Result<Db> {
    Db::builder(DIR)
        .fs(Arc::new(fs.clone()))
        .filter("burr(7)".parse().expect("a policy"))
        .memtable_bytes(4096)
        .block_bytes(256)
        .table_bytes(4096)
        .level_base_bytes(8192)
        .block_cache_bytes(1 << 20)
        .compaction_threads(1)
        .open()
}

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let fs = MemFs::new();
        let db = open(&fs).expect("memory");
        for n in 0..120u32 {
            db.put(format!("key{:03}", n * 7 % 100), [n as u8; 40]).expect("memory");
            if n % 40 == 39 {
                db.flush().expect("memory");
            }
        }
        db.delete_range("key030", "key040").expect("memory");
        db.wait_for_compaction().expect("memory");
        db.put("last", "one").expect("memory");
        db.persist().expect("memory");
        let killed = fs.kill();
        drop(db);
        let names = killed.list(Path::new(DIR)).expect("memory");
        let newest = |wanted: &str| {
            let mut named: Vec<_> = names.iter().filter(|name| name.contains(wanted)).collect();
            named.sort();
            named.last().expect("there is one").to_string()
        };
        Image { manifest: newest("MANIFEST-"), wal: newest(".wal"), fs: killed }
    })
}

/// The number in a file's name.
fn number(name: &str) -> u64 {
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("names of logs hold a number")
}

/// Opens a database whose MANIFEST is `data`, its checksums repaired.
pub fn manifest(data: &[u8]) {
    let Image { fs, manifest, .. } = image();
    let bytes = crate::wal::fuzzing::repaired(data, LogKind::Manifest, number(manifest));
    open_with(fs.kill(), manifest, &bytes);
}

/// Opens a database whose WAL is `data`, its checksums repaired.
pub fn wal(data: &[u8]) {
    let Image { fs, wal, .. } = image();
    let bytes = crate::wal::fuzzing::repaired(data, LogKind::Wal, number(wal));
    open_with(fs.kill(), wal, &bytes);
}

/// What opens reads to its end, and the same again after it was closed and reopened.
fn open_with(fs: MemFs, name: &str, bytes: &[u8]) {
    put_file(&fs, &Path::new(DIR).join(name), bytes);
    let Ok(db) = open(&fs) else { return };
    let first = everything(&db);
    if db.close().is_err() {
        return;
    }
    if let Ok(first) = first {
        let again = open(&fs).expect("what was opened and closed opens again");
        assert_eq!(everything(&again).expect("what was read is read again"), first);
    }
}

fn everything(db: &Db) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut all, mut cursor) = (Vec::new(), db.cursor());
    cursor.seek_to_first()?;
    while cursor.valid() {
        all.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next()?;
    }
    Ok(all)
}

/// Runs the operations that `data` says against a database and a `BTreeMap`: writes, batches, range
/// deletions, flushes, compactions, reopenings after a close and after a kill. Reads are compared on
/// the way, everything at the end.
pub fn operations(data: &[u8]) {
    /// Longer inputs take too long each.
    const MOST_OPERATIONS: usize = 400;
    let mut fs = MemFs::new();
    let mut db = open(&fs).expect("memory");
    let mut map = BTreeMap::<Vec<u8>, Vec<u8>>::new();
    let mut batch = WriteBatch::new();
    let mut in_batch: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
    let key = |byte: u8| -> Vec<u8> {
        match byte % 8 {
            0 => vec![byte; usize::from(byte) / 16],
            _ => format!("key{:03}", byte % 200).into_bytes(),
        }
    };
    for &[operation, a, b] in data.as_chunks::<3>().0.iter().take(MOST_OPERATIONS) {
        match operation % 32 {
            0..12 => {
                let value = vec![b; usize::from(b) * 2];
                db.put(key(a), &value).expect("memory");
                map.insert(key(a), value);
            }
            12..15 => {
                db.delete(key(a)).expect("memory");
                map.remove(&key(a));
            }
            15 => {
                let (begin, end) = (key(a).min(key(b)), key(a).max(key(b)));
                db.delete_range(&begin, &end).expect("memory");
                map.retain(|key, _| *key < begin || *key >= end);
            }
            16..20 => {
                batch.put(key(a), [b; 9]);
                in_batch.push((key(a), Some(vec![b; 9])));
            }
            20 => {
                batch.delete(key(a));
                in_batch.push((key(a), None));
            }
            21..23 => {
                db.write(std::mem::take(&mut batch)).expect("memory");
                for (key, value) in in_batch.drain(..) {
                    match value {
                        Some(value) => map.insert(key, value),
                        None => map.remove(&key),
                    };
                }
            }
            23..27 => {
                let found = db.get(key(a)).expect("memory");
                assert_eq!(found.as_deref(), map.get(&key(a)).map(Vec::as_slice), "{:?}", key(a));
            }
            27 => {
                let (begin, end) = (key(a).min(key(b)), key(a).max(key(b)));
                let found: Vec<_> = db
                    .range(begin.clone()..end.clone())
                    .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                    .collect::<Result<_>>()
                    .expect("memory");
                let expected = map.range(begin..end).map(|(k, v)| (k.clone(), v.clone()));
                assert!(found.into_iter().eq(expected), "a range");
            }
            28 => db.flush().expect("memory"),
            29 => db.compact_range(key(a.min(b))..).expect("memory"),
            30 => {
                db.close().expect("memory");
                db = open(&fs).expect("a closed database opens");
            }
            _ => {
                // What was acknowledged outlives the process.
                let killed = fs.kill();
                drop(db);
                fs = killed;
                db = open(&fs).expect("a killed database opens");
            }
        }
    }
    let expected: Vec<_> = map.into_iter().collect();
    assert_eq!(everything(&db).expect("memory"), expected);
    assert_eq!(db.verify().expect("memory").filter_misses, 0);
}

/// Parses `data` as the text of a filter policy, of a filter and of a prefix extractor. What is
/// accepted prints as text that means the same, and serves every tree.
pub fn policy(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<FilterPolicy>() {
        Ok(policy) => {
            let printed = policy.to_string();
            let again = printed.parse::<FilterPolicy>().expect("what was printed parses");
            assert_eq!(again.to_string(), printed, "{text:?}");
            let file = |entries| FileMeta { entries, file_bytes: entries, ..FileMeta::default() };
            let (small, large) = (file(0), file(u64::from(u32::MAX)));
            for metas in [
                [const { Vec::new() }; 7],
                std::array::from_fn(|level| vec![if level % 2 == 0 { &small } else { &large }]),
            ] {
                for level in 0..7 {
                    for entries in [0, 1, 1 << 20, 1 << 40] {
                        // Panics where the spec cannot be had.
                        policy.spec_for(&FilterContext::new(&metas, level, entries)).to_string();
                    }
                }
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
    if let Ok(extractor) = text.parse::<PrefixExtractor>() {
        let named = PrefixExtractor::from_name(&extractor.name());
        assert_eq!(named, Some(extractor), "{text:?}");
        assert!(extractor.prefix_of(data).is_none_or(|prefix| data.starts_with(prefix)));
    }
}

/// Feeds `target` random changes of `good`: bits flipped, bytes replaced, cut out, doubled.
#[cfg(test)]
pub(crate) fn mutations(seed: u64, count: usize, good: &[u8], target: fn(&[u8])) {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    target(good);
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..count {
        let mut data = good.to_vec();
        for _ in 0..random.random_range(1..5) {
            if data.is_empty() {
                break;
            }
            let at = random.random_range(0..data.len());
            let end = (at + random.random_range(1..9)).min(data.len());
            match random.random_range(0..6) {
                0 | 1 => data[at] ^= 1 << random.random_range(0..8),
                2 => data[at] = random.random(),
                3 => data[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
                4 => drop(data.drain(at..end)),
                _ => {
                    let piece = data[at..end].to_vec();
                    data.splice(at..at, piece);
                }
            }
        }
        target(&data);
    }
}

#[cfg(test)]
mod tests;
