//! The filter family that the chapter `family.md` builds: a table of fingerprints.
//!
//! ```text
//! line 0            line 1            line 2            …   | trailer
//! | 64 fingerprints | 64 fingerprints | 64 fingerprints     | count of lines, fixed32
//! ```
//!
//! A key's hash chooses a line and a fingerprint, a byte from 1 to 255. The line holds the
//! fingerprints of its keys in any order. A byte of 0 is free. If a line gets more than 64
//! different fingerprints, no filter is built.

use std::fmt::Write;

use maypole::filter::{FilterBuilder, FilterReader, FilterSpec};

use super::keys::{key_hash, rate};

/// The number of keys that a line gets on average: small enough that a full line is rare.
const LOAD: usize = 40;

/// The line and the fingerprint of a key.
fn split(hash: u64, lines: usize) -> (usize, u8) {
    let line = ((u128::from(hash) * lines as u128) >> 64) as usize;
    // The low bits, which did not choose the line. 0 means "free", so it is no fingerprint.
    (line, (hash as u8).max(1))
}

/// The whole block, or `None` when it cannot serve these keys.
pub fn build(hashes: &[u64]) -> Option<Vec<u8>> {
    let lines = hashes.len().div_ceil(LOAD).max(1);
    let mut block = vec![0; 64 * lines];
    for &hash in hashes {
        let (line, fingerprint) = split(hash, lines);
        let line = &mut block[64 * line..64 * (line + 1)];
        let free = line.iter().position(|&byte| byte == 0 || byte == fingerprint)?;
        line[free] = fingerprint;
    }
    block.extend_from_slice(&(lines as u32).to_le_bytes());
    Some(block)
}

/// The shape of a stored filter: its number of lines.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    lines: usize,
}

/// Reads the shape from any bytes at all, or says why they cannot be trusted.
pub fn parse(block: &[u8]) -> Result<Geometry, &'static str> {
    let (lines, trailer) = block.split_last_chunk::<4>().ok_or("shorter than its trailer")?;
    let count = u32::from_le_bytes(*trailer) as usize;
    if count == 0 || lines.len() % 64 != 0 || lines.len() / 64 != count {
        return Err("a length that is not what the trailer says");
    }
    Ok(Geometry { lines: count })
}

impl Geometry {
    /// `false` only when no key with this hash was added.
    pub fn may_contain(&self, block: &[u8], hash: u64) -> bool {
        let (line, fingerprint) = split(hash, self.lines);
        block[64 * line..64 * (line + 1)].contains(&fingerprint)
    }

    /// The rate to expect: a fingerprint on the line equals the queried one in 1 of 255 cases.
    pub fn predicted_fpr(&self, keys: u64) -> f64 {
        1.0 - (-(keys as f64) / self.lines as f64 / 255.0).exp()
    }
}

pub fn family() -> String {
    let keys = 20_000;
    let hashes: Vec<u64> = (0..keys).map(|i| key_hash("present", i)).collect();
    let block = build(&hashes).expect("no line is full");
    let shape = parse(&block).expect("what was built is trusted");
    let missed = hashes.iter().filter(|&&hash| !shape.may_contain(&block, hash)).count();
    let observed = rate("absent", 200_000, |hash| shape.may_contain(&block, hash));
    let predicted = shape.predicted_fpr(keys);
    let mut out = String::from("filter        bits/key   predicted    observed   keys missed\n");
    let bits = block.len() as f64 * 8.0 / keys as f64;
    let (p, o) = (predicted * 100.0, observed * 100.0);
    writeln!(out, "fingerprints {bits:>9.2} {p:>9.3} % {o:>9.3} % {missed:>13}").unwrap();
    for spec in ["bloom(12.8)", "burr(12.8)", "fpr(0.145, burr)"] {
        let mut builder = FilterBuilder::new(spec.parse::<FilterSpec>().unwrap());
        hashes.iter().for_each(|&hash| builder.add(hash));
        let block = builder.finish().unwrap();
        let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
        let observed = rate("absent", 200_000, |hash| filter.may_contain(hash)) * 100.0;
        let missed = hashes.iter().filter(|&&hash| !filter.may_contain(hash)).count();
        let (bits, p) = (block.bits_per_key(), block.predicted_fpr() * 100.0);
        let name = spec.split('(').next().unwrap();
        let name = if name == "fpr" { "burr" } else { name };
        writeln!(out, "{name:<12} {bits:>9.2} {p:>9.3} % {observed:>9.3} % {missed:>13}").unwrap();
    }
    out
}
