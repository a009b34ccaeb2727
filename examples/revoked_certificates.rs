//! Revoked certificates in a filter cascade, as CRLite brought it to browsers. All certificates are
//! known in advance, so the false positives of each filter can be listed, and the next filter of
//! the cascade corrects them.
//!
//! ```text
//! cargo run --release --example revoked_certificates
//! ```

use std::error::Error;
use std::io::{Write, stdout};

use maypole::hash64;
use maypole_filter::textbook::{BloomFilter, Cascade, Layout};

const REVOKED: usize = 5_000;
const GOOD: usize = 500_000;
/// Bytes of a certificate's serial number.
const SERIAL_BYTES: usize = 16;
const LAYERS_SHOWN: usize = 5;

fn certificates(kind: &str, count: usize) -> Vec<u64> {
    (0..count).map(|i| hash64(format!("{kind} {i}").as_bytes())).collect()
}

/// Runs the example, and prints to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let (revoked, good) = (certificates("revoked", REVOKED), certificates("good", GOOD));
    let cascade = Cascade::new(&revoked, &good).ok_or("a certificate is revoked and good")?;
    writeln!(out, "layer    holds     bits   rate")?;
    for (n, layer) in cascade.layers().enumerate().take(LAYERS_SHOWN) {
        writeln!(out, "{:>5} {:>8} {:>8}  {:.4}", n + 1, layer.keys, layer.bits, layer.rate)?;
    }
    let (layers, last) = (cascade.layers().count(), cascade.layers().last());
    writeln!(
        out,
        "    … {layers} layers; the last one holds {}",
        last.map_or(0, |layer| layer.keys)
    )?;

    let wrong = revoked.iter().filter(|&&hash| !cascade.contains(hash)).count()
        + good.iter().filter(|&&hash| cascade.contains(hash)).count();
    writeln!(out, "{} certificates queried, {wrong} wrong answers", REVOKED + GOOD)?;

    // A single filter whose expected number of false positives among all good certificates is 1.
    let single = BloomFilter::for_rate(Layout::Shared, REVOKED, 1.0 / GOOD as f64);
    writeln!(out, "bytes: {:>6} the cascade, never wrong", cascade.bytes())?;
    writeln!(out, "       {:>6} one Bloom filter, about 1 wrong answer in {GOOD}", single.bytes())?;
    writeln!(out, "       {:>6} a list of serial numbers", REVOKED * SERIAL_BYTES)?;

    // Certificates that were unknown when the cascade was built get arbitrary answers, and must be
    // checked elsewhere.
    let new = certificates("issued today", 10_000);
    let called_revoked = new.iter().filter(|&&hash| cascade.contains(hash)).count();
    writeln!(
        out,
        "{} certificates issued today: {called_revoked} are called revoked without reason",
        new.len()
    )?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut stdout().lock())
}
