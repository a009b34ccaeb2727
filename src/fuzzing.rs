//! What the fuzzers of `fuzz/` call: one function a decoder, which takes any bytes, repairs the
//! checksums so that mutations get past them, and panics where a promise is broken.
//!
//! Compiled for fuzzing, and for the tests, which feed it random bytes.

use std::path::Path;

use crate::error::{Error, Result};
use crate::filter::{FilterBuilder, FilterEncoding, FilterReader, FilterSpec};
use crate::fs::{Fs, MemFs};
use crate::table::SstReader;
use crate::version::VersionEdit;

pub use crate::wal::fuzzing::log;

/// The checksum type stands in the first byte of the footer, which is so long.
const FOOTER_BYTES: usize = 53;

/// Asks `data` as a filter block, in both encodings; its first eight bytes say what is asked. Then
/// builds filters of them and asks for every key.
pub fn filter(data: &[u8]) {
    let Some((seed, block)) = data.split_first_chunk() else { return };
    let mut hash = u64::from_le_bytes(*seed);
    let hashes: Vec<u64> = std::iter::repeat_with(|| {
        hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ 0x55;
        hash
    })
    .take(300)
    .collect();
    for encoding in [FilterEncoding::RocksDb, FilterEncoding::BumpedRibbon] {
        let reader = FilterReader::from_bytes(block, encoding);
        let answers = ask_every_way(&reader, &hashes);
        assert!(reader.untrusted().is_none() || answers.iter().all(|&maybe| maybe));
        let rate = reader.predicted_fpr(1 + block.len() as u64);
        assert!((0.0..=1.0).contains(&rate), "a rate of {rate}");
        assert!(reader.fill().is_none_or(|fill| (0.0..=1.0).contains(&fill)));
    }
    let spec = ["bloom(10)", "ribbon(7)", "burr(7)", "burr(4.5)"][hash as usize % 4];
    let mut builder = FilterBuilder::new(spec.parse::<FilterSpec>().expect("a spec"));
    hashes.iter().for_each(|&hash| builder.add(hash));
    if let Some(built) = builder.finish() {
        let reader = FilterReader::from_bytes(built.bytes(), built.encoding());
        assert!(ask_every_way(&reader, &hashes).iter().all(|&maybe| maybe), "{spec} hides a key");
    }
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

/// Reads `data` as a table. Its footer is made to name no checksum, so that none stands in the way.
pub fn table(data: &[u8]) {
    let mut bytes = data.to_vec();
    if let Some(footer) = bytes.len().checked_sub(FOOTER_BYTES) {
        bytes[footer] = 0;
    }
    let fs = MemFs::new();
    let path = Path::new("table.sst");
    let mut file = fs.create(path).expect("memory");
    file.append(&bytes).expect("memory");
    file.sync().expect("memory");
    match read_table(&fs, path) {
        Ok(()) | Err(Error::Corruption { .. } | Error::Unsupported { .. }) => {}
        Err(error) => panic!("{error}"),
    }
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

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::table::{Compression, SstWriter, TableOptions};

    #[test]
    fn any_bytes_are_answered_as_a_filter() {
        let mut random = StdRng::seed_from_u64(3);
        for _ in 0..300 {
            let mut data = vec![0; random.random_range(8..4000)];
            random.fill(&mut data[..]);
            // The trailers of the families, so that more than their markers is looked at.
            let length = data.len();
            if let Some(trailer) = data[8..].last_chunk_mut::<5>() {
                match random.random_range(0..4) {
                    0 => *trailer = [0xff, 0, random.random_range(1..30), 0, 0],
                    1 => *trailer = [0xfe, random.random(), (length / 16 / 7) as u8, 0, 0],
                    2 => trailer[0] = random.random_range(1..0x80),
                    _ => {}
                }
            }
            filter(&data);
        }
    }

    #[test]
    fn a_changed_table_is_refused_or_read_to_its_end() {
        let fs = MemFs::new();
        let path = Path::new("seed.sst");
        let options = TableOptions {
            compression: Compression::None,
            block_bytes: 128,
            filter: "burr(8)".parse().unwrap(),
            ..TableOptions::default()
        };
        let mut writer =
            SstWriter::create_in(std::sync::Arc::new(fs.clone()), path, options).unwrap();
        for n in 0..60 {
            writer.put(format!("key {n:03}").as_bytes(), &[n; 9]).unwrap();
        }
        writer.finish().unwrap();
        let file = fs.open(path).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        table(&bytes);
        let mut random = StdRng::seed_from_u64(4);
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 1 << random.random_range(0..8);
            table(&changed);
        }
    }

    #[test]
    fn any_bytes_are_read_as_an_edit() {
        let mut random = StdRng::seed_from_u64(5);
        for _ in 0..20_000 {
            let mut data = vec![0u8; random.random_range(0..60)];
            random.fill(&mut data[..]);
            data.iter_mut().for_each(|byte| *byte >>= random.random_range(0..8));
            edit(&data);
        }
    }
}
