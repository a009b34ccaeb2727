//! What RocksDB's LOG says: the capacity of block caches, which OPTIONS does not store, and the
//! last counters of the filters, if statistics were switched on.
//!
//! ```text
//! … --------------- Options for column family [default]:
//!     capacity : 8388608
//! … rocksdb.bloom.filter.useful COUNT : 635465
//! ```
//!
//! Everything here is a hint: a figure that cannot be read counts as unknown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use maypole::FilterCounts;

/// The bytes of a LOG that are read: at its start for the options, and at its end for the last
/// counters.
const HEAD_BYTES: u64 = 4 << 20;
const TAIL_BYTES: u64 = 4 << 20;

#[derive(Debug, Default, PartialEq)]
pub struct LogFile {
    capacities: BTreeMap<String, u64>,
    /// How the filters answered queries since the database was opened, counted over all column
    /// families.
    pub counters: Option<FilterCounts>,
}

impl LogFile {
    pub fn read(dir: &Path) -> LogFile {
        let Ok(mut file) = File::open(dir.join("LOG")) else { return LogFile::default() };
        let mut part = |from: u64, bytes: u64| {
            let mut text = Vec::new();
            file.seek(SeekFrom::Start(from)).ok()?;
            file.by_ref().take(bytes).read_to_end(&mut text).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        };
        let head = part(0, HEAD_BYTES).unwrap_or_default();
        let bytes = std::fs::metadata(dir.join("LOG")).map_or(0, |about| about.len());
        let tail = part(bytes.saturating_sub(TAIL_BYTES), TAIL_BYTES).unwrap_or_default();
        LogFile { capacities: capacities(&head), counters: counters(&tail) }
    }

    pub fn capacity_bytes(&self, family: &[u8]) -> Option<u64> {
        self.capacities.get(&*String::from_utf8_lossy(family)).copied()
    }
}

fn capacities(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut family = None;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Options for column family [") {
            family = rest.rsplit_once(']').map(|(name, _)| name.to_owned());
        } else if let Some(value) = line.trim().strip_prefix("capacity : ")
            && let (Some(family), Ok(bytes)) = (&family, value.trim().parse())
        {
            // The first capacity in the options of a column family is that of the block cache.
            // Those of its compressed cache and its blob cache follow, and are ignored.
            found.entry(family.clone()).or_insert(bytes);
        }
    }
    found
}

fn counters(text: &str) -> Option<FilterCounts> {
    let last = |name: &str| -> Option<u64> {
        let lines = text.lines().rev().map(str::trim);
        let mut values =
            lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(" COUNT : "));
        // The limit keeps sums from overflowing.
        values.next()?.trim().parse().ok().map(|count: u64| count.min(1 << 60))
    };
    Some(FilterCounts {
        useful: last("rocksdb.bloom.filter.useful")?,
        full_positive: last("rocksdb.bloom.filter.full.positive")?,
        full_true_positive: last("rocksdb.bloom.filter.full.true.positive")?,
        untrusted: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_belong_to_their_families_and_the_last_counters_count() {
        let text = "\
2026 --------------- Options for column family [a b]:
    block_cache_options:
    capacity : 33554432
    capacity : 7
2026 --------------- Options for column family [default]:
2026 --------------- Options for column family [x]:
    capacity : many
rocksdb.bloom.filter.useful COUNT : 1
rocksdb.bloom.filter.full.positive COUNT : 2
rocksdb.bloom.filter.full.true.positive COUNT : 2
rocksdb.bloom.filter.useful COUNT : 990
rocksdb.bloom.filter.full.positive COUNT : 110
rocksdb.bloom.filter.full.true.positive COUNT : 100
";
        assert_eq!(capacities(text), BTreeMap::from([("a b".to_owned(), 33_554_432)]));
        let found = counters(text).unwrap();
        assert_eq!((found.useful, found.observed_fpr()), (990, Some(0.01)));
        assert_eq!(counters("rocksdb.bloom.filter.useful COUNT : 1"), None);
    }
}
