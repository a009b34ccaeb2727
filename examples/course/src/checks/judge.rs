//! `maypole compare` judges the policy of step 17. This writes what it needs: first keys and
//! lookups, then, from its report on them, the policy.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::step17_policy::{Asked, bits_by_what_is_asked, text};
use super::key;
use crate::check::{Check, remark};
use crate::given::damaged;

const KEYS: u64 = 400_000;
const LOOKUPS: u64 = 200_000;
/// The mean of all filters.
const BITS_PER_KEY: f64 = 4.0;

/// The command as a check, whose remark is what it says.
pub const CHECK: Check = Check {
    says: "your policy",
    run: || {
        let directory = PathBuf::from(std::env::args().nth(2).unwrap_or_default());
        remark(next(&directory).unwrap_or_else(|error| panic!("{error}")));
    },
};

/// Returns what to do next.
fn next(directory: &Path) -> io::Result<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    let (keys, lookups) = (file("keys.txt"), file("lookups.txt"));
    let compare = |policies: &str| {
        format!(
            "cargo maypole compare --key-file {keys} --query-file {lookups} --policies '{policies}'"
        )
    };
    let uniform = format!("bloom({BITS_PER_KEY})");
    let Ok(report) = fs::read_to_string(directory.join("first/levels.csv")) else {
        write_lookups(directory)?;
        return Ok(format!(
            "Keys and lookups are written. Let `maypole compare` look them up:\n\n{} --out {}\n\n\
             Then run this command again.",
            compare(&uniform),
            file("first")
        ));
    };
    let asked = asked_in(&report).ok_or_else(|| damaged("first/levels.csv"))?;
    let bits = bits_by_what_is_asked(&asked, BITS_PER_KEY);
    let mut out = String::from("    keys  absent keys asked for  bits a key\n");
    for (level, bits) in asked.iter().zip(&bits) {
        writeln!(out, "{:>8}  {:>21}  {bits:>10.1}", level.keys, level.absent).unwrap();
    }
    let policies = format!("{uniform},budget({BITS_PER_KEY}/key, bloom),{}", text(&bits));
    write!(
        out,
        "\nYour policy against the same bits everywhere, and against Monkey:\n\n{}",
        compare(&policies)
    )
    .unwrap();
    Ok(out)
}

/// Writes the keys of a database and lookups: 97 of 100 are of its keys.
fn write_lookups(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let line = |kind: &str, i: u64| [&key("key", i)[..], kind.as_bytes(), b"\n"].concat();
    let keys: Vec<u8> = (0..KEYS).flat_map(|i| line("", i)).collect();
    fs::write(directory.join("keys.txt"), keys)?;
    let lookups = (0..LOOKUPS).flat_map(|i| {
        // The high bits of products with an odd number look random.
        let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        line(if i % 100 < 97 { "" } else { "x" }, random % KEYS)
    });
    fs::write(directory.join("lookups.txt"), lookups.collect::<Vec<u8>>())
}

/// What the filters of each level were asked, in a report on one policy.
fn asked_in(levels: &str) -> Option<Vec<Asked>> {
    let mut asked = Vec::new();
    for line in levels.lines().skip(1) {
        // policy, level, files, file_bytes, entries, filter_bytes, bits_per_key, predicted_fpr,
        // observed_fpr, filters_asked, present_asked, present_wrong
        let fields: Vec<&str> = line.split(',').collect();
        let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
        // Lookups of keys that are nowhere, and of keys that are in another level.
        asked.push(Asked { keys: number(4)?, absent: number(9)? + number(10)? });
    }
    Some(asked)
}
