//! The fuzz targets: one function for each fuzzer of `fuzz/`. Each target takes any bytes and
//! panics if a guarantee is broken. If the input's format has checksums, most targets first repair
//! the checksums or switch them off, because otherwise nearly every mutated input would be rejected
//! for a wrong checksum.
//!
//! ```text
//! block  index  properties  footer           the parts of a table
//! table      a whole table, no checksum      log  edit           the parts of WAL and MANIFEST
//! wal  manifest   a database whose WAL or MANIFEST is the input
//! rocksdb_*  a database of RocksDB's whose MANIFEST or log is the input
//! operations      writes, reads and reopenings against a BTreeMap
//! policy          the text of filter policies and prefix extractors
//! ```
//!
//! The targets of filters are in the package `maypole-filter`.
//!
//! This module is compiled only for fuzzing and for tests. The tests run every target on the inputs
//! in `fuzz/seeds`, and most targets on random bytes or on mutations of valid inputs.

mod databases;
mod rocks;

use std::path::Path;

use crate::error::{Error, Result};
use crate::filter_policy::{FilterContext, FilterPolicy};
use crate::fs::{Fs, MemFs};
use crate::rocksdb::fuzzing::put_file;
use crate::table::{PrefixExtractor, SstReader};
use crate::version::{FileMeta, VersionEdit};

pub use self::databases::{manifest, operations, wal};
pub use self::rocks::{rocksdb_log, rocksdb_manifest};
pub use crate::table::fuzzing::{block, footer, index, properties};
pub use crate::wal::fuzzing::log;

/// The length of a table's footer, whose first byte is the type of the table's checksums.
const FOOTER_BYTES: usize = 53;

/// Reads `data` as a table. First sets the type of the checksums in the footer to "none", so that
/// mutated blocks are decoded and not rejected.
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

fn read_table(fs: &dyn Fs, path: &Path) -> Result<()> {
    let reader = SstReader::open_in(fs, path)?;
    let verified = reader.verify();
    // The scan must end even if the table is damaged.
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
        let found = reader.explain(key).map(|trace| trace.found.is_some());
        let is_sound = verified.as_ref().is_ok_and(|check| check.filter_misses == 0);
        if is_sound && keys.iter().any(|there| there == key) {
            assert!(!matches!(maybe, Ok(false)), "a verified filter hides a key");
            assert!(matches!(found, Ok(true)), "a verified table loses a key");
        }
        reader.range_may_match(key, Some(b"m"));
    }
    let _ = (reader.filter(), reader.range_deletions());
    scanned
}

/// Decodes `data` as the payload of a MANIFEST record. An accepted edit must survive encoding and
/// decoding unchanged.
pub fn edit(data: &[u8]) {
    if let Ok(edit) = VersionEdit::decode(data) {
        assert!(VersionEdit::decode(&edit.encode()).is_ok_and(|again| again == edit));
    }
}

/// Parses `data` as a filter policy and as a prefix extractor. If the text is valid, the parsed
/// value must print as text with the same meaning. A parsed policy must choose a filter for every
/// level of a tree without a panic.
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
                        // Neither `spec_for` nor `to_string` may panic.
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

/// Runs `target` on `good` and on `count` copies of it, each with one to four random changes: a bit
/// flipped, a byte replaced, or a few bytes cut out or doubled.
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
