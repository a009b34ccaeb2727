//! What tables are asked in vain, for filter policies that learn: counted when a table is about to be
//! written, and kept in the file `ASKED` while the database is closed.
//!
//! ```text
//! maypole asked 1              what this is, and the version of the format
//! 12 80517.25                  number of a table, and how often it was asked in vain
//! 15 94.5
//! crc32c 1a2b3c4d              of all bytes before this line
//! ```
//!
//! **Old asks fade** by lookups and not by time, so that a database that rests forgets nothing: an
//! ask counts half after each [`HALF_LIFE`] lookups.
//!
//! **No data depends on `ASKED`.** It may be missing, damaged or old: then tables that it does not
//! name count as not asked, and policies begin with what they assume. It is not synced. Failures of
//! its writing are ignored.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::checked_text::{checked_lines, with_checksum};
use super::inner::database::Database;
use super::inner::tree::Tree;
use crate::fs::{self, Fs};
use crate::stats::Ticker;
use crate::sync::lock;
use crate::version::{Version, names};

/// After this many lookups an ask counts half: enough that a thousand tables get a thousand asks
/// each, and few enough that a change of the workload shows within minutes.
const HALF_LIFE: f64 = (1 << 20) as f64;
/// The file is written again after this many lookups.
const WRITE_EVERY: u64 = 1 << 18;
/// A larger file is not read: one line for each of some million tables.
const MAX_BYTES: u64 = 64 << 20;
const FIRST_LINE: &str = "maypole asked 1\n";

/// Brings the asks of the tables of `version`, one of the tree, up to date, if the policy uses them.
pub(in crate::db) fn count(database: &Database, tree: &Tree, version: &Version) {
    if !tree.options().filter.learns() {
        return;
    }
    let mut asking = lock(&tree.asking);
    let lookups = database.counters().sums().get(Ticker::NumberKeysRead);
    let since = lookups.saturating_sub(asking.counted_at);
    let keep = 0.5f64.powf(since as f64 / HALF_LIFE);
    for (_, file) in version.files() {
        file.asked.count(file.table.block_file().file_counters.sums(), keep);
    }
    asking.counted_at = lookups;
    if lookups >= asking.written_at + WRITE_EVERY {
        asking.written_at = lookups;
        write(database);
    }
}

/// Leaves the asks for the next opening.
pub(in crate::db) fn keep(database: &Database) {
    let trees = database.trees.all();
    let learning: Vec<_> = trees.iter().filter(|tree| tree.options().filter.learns()).collect();
    if learning.is_empty() || database.status.failure().is_some() {
        return;
    }
    for tree in learning {
        count(database, tree, &tree.reading.current().sources.version);
    }
    write(database);
}

fn write(database: &Database) {
    let (fs, dir) = (&*database.store.fs, &database.store.dir);
    let mut text = FIRST_LINE.to_string();
    for tree in database.trees.all() {
        for (_, file) in tree.reading.current().sources.version.files() {
            text += &format!("{} {}\n", file.meta.number, file.asked.get());
        }
    }
    // After a failure an older file stays, which may be used all the same.
    let _ = fs::replace_unsynced(fs, &names::asked_path(dir), with_checksum(text).as_bytes());
}

/// Sets the asks of the tables to those that the last owner of the directory left, if a policy uses
/// them.
pub(in crate::db) fn restore(fs: &dyn Fs, dir: &Path, trees: &[Arc<Tree>]) {
    if !trees.iter().any(|tree| tree.options().filter.learns()) {
        return;
    }
    let asked = read(fs, &names::asked_path(dir)).unwrap_or_default();
    for tree in trees {
        for (_, file) in tree.reading.current().sources.version.files() {
            if let Some(&asked) = asked.get(&file.meta.number) {
                file.asked.set(asked);
            }
        }
    }
}

/// The asks by the number of the table. `None` if the file is missing or damaged.
fn read(fs: &dyn Fs, path: &Path) -> Option<BTreeMap<u64, f64>> {
    let file = fs.open(path).ok()?;
    let bytes = usize::try_from(file.len()).ok().filter(|_| file.len() <= MAX_BYTES)?;
    let mut text = vec![0; bytes];
    file.read_exact_at(0, &mut text).ok()?;
    parse(&text)
}

fn parse(bytes: &[u8]) -> Option<BTreeMap<u64, f64>> {
    let line = |(_, line): (usize, &str)| {
        let (number, asked) = line.split_once(' ')?;
        let asked = asked.parse().ok().filter(|asked: &f64| asked.is_finite() && *asked >= 0.0)?;
        Some((number.parse().ok()?, asked))
    };
    checked_lines(bytes.starts_with(FIRST_LINE.as_bytes()).then_some(bytes)?)?.map(line).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn with_crc(text: &str) -> Vec<u8> {
        format!("{text}crc32c {:08x}\n", crc32c::crc32c(text.as_bytes())).into_bytes()
    }

    #[test]
    fn only_a_whole_file_with_sound_numbers_is_used() {
        let whole = with_crc("maypole asked 1\n12 80517.25\n15 0\n");
        let asked: BTreeMap<u64, f64> = [(12, 80517.25), (15, 0.0)].into();
        assert_eq!(parse(&whole), Some(asked));
        assert_eq!(parse(&with_crc("maypole asked 1\n")), Some(BTreeMap::new()));
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "the first {end} bytes");
        }
        for line in ["1 -1", "1 NaN", "1 inf", "1", "-1 1", "x 1", "1 1 1"] {
            assert_eq!(parse(&with_crc(&format!("maypole asked 1\n{line}\n"))), None, "{line}");
        }
        assert_eq!(parse(&with_crc("maypole asked 2\n12 1\n")), None);
    }
}
