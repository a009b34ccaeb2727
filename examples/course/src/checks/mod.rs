//! What must hold when a step is done. This folder is compiled into the program twice: as a module
//! of the skeleton, and as a module of the solution. So in its files `super::super` is the
//! learner's engine in one copy and the solution in the other.

pub mod judge;
mod step01;
mod step02;
mod step03;
mod step04;
mod step05;
mod step06;
mod step07;
mod step08;
mod step09;
mod step10;
mod step11;
mod step12;
mod step13;
mod step14;
mod step15;
mod step16;
mod step17;
pub mod tour;

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use maypole::hash64;
use maypole::table::SstReader;

use super::step04_block::KeyValue;
use crate::check::Check;
use crate::given::internal_key;

/// The checks of each step.
pub const STEPS: [&[Check]; 17] = [
    step01::CHECKS,
    step02::CHECKS,
    step03::CHECKS,
    step04::CHECKS,
    step05::CHECKS,
    step06::CHECKS,
    step07::CHECKS,
    step08::CHECKS,
    step09::CHECKS,
    step10::CHECKS,
    step11::CHECKS,
    step12::CHECKS,
    step13::CHECKS,
    step14::CHECKS,
    step15::CHECKS,
    step16::CHECKS,
    step17::CHECKS,
];

/// Key number `i` of the keys that begin with the word `kind`.
pub fn key(kind: &str, i: u64) -> Vec<u8> {
    format!("{kind}{i:06}").into_bytes()
}

/// Number `i` of a sequence that looks random. Choices that must not depend on each other need
/// different digits of it, such as `% 20` and `/ 20 % 4`. With `% 20` and `% 4` some keys would only
/// be deleted, and the others never.
pub fn random(i: u64) -> u64 {
    hash64(&i.to_le_bytes())
}

/// Asserts that Maypole reads the table at `path`, and finds these entries in it.
pub fn assert_maypole_reads(path: &Path, entries: &[KeyValue]) {
    let read = || -> maypole::Result<Vec<KeyValue>> {
        let reader = SstReader::open(path)?;
        reader.verify()?;
        let (mut cursor, mut read) = (reader.entries(), Vec::new());
        while let Some(entry) = cursor.next_entry()? {
            let key = internal_key(entry.user_key, entry.sequence, entry.kind);
            read.push((key, entry.value.to_vec()));
        }
        Ok(read)
    };
    let read = read().unwrap_or_else(|error| panic!("Maypole cannot read the table: {error}"));
    assert!(read == entries, "Maypole reads other entries from the table than you do");
}

/// What `sst_dump` prints of a file, or `None` if it is not installed.
pub fn sst_dump(path: &Path, command: &str) -> Option<String> {
    let file = format!("--file={}", path.display());
    let dumped = Command::new("sst_dump").args([&file, command, "--verify_checksum"]).output();
    match dumped {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        // The exit status is not checked, because it is 0 for a damaged table too.
        dumped => {
            let dumped = dumped.expect("sst_dump is run");
            let printed = [dumped.stdout, dumped.stderr].concat();
            Some(String::from_utf8_lossy(&printed).into_owned())
        }
    }
}

/// The share of `count` absent keys for which `passes` is true.
pub fn rate(count: u64, passes: impl Fn(&[u8]) -> bool) -> f64 {
    let passed = (0..count).filter(|&i| passes(&key("absent", i))).count();
    passed as f64 / count as f64
}

pub fn percent(rate: f64) -> String {
    format!("{:.2} %", 100.0 * rate)
}

/// Asserts that a rate is within 20 % of the expected one.
pub fn assert_near(observed: f64, expected: f64, why: &str) {
    assert!(
        (0.8 * expected..1.2 * expected).contains(&observed),
        "{} of the absent keys pass, expected {}. {why}",
        percent(observed),
        percent(expected)
    );
}
