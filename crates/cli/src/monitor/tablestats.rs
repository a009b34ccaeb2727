//! `stats --format tablestats`: the lines of Cassandra's `nodetool tablestats`, for scripts and
//! people that know them.
//!
//! A line whose figure Maypole does not have is left out, because an invented 0 would be taken for
//! a measurement. The *false ratio* is that of Cassandra 4: false positives divided by all queries.
//! In older versions of Cassandra, it is false positives divided by the positive answers. Neither
//! ratio is the false-positive rate, which is false positives divided by the queries for absent
//! keys.

use std::io::Write;
use std::path::Path;

use maypole::{PublishedStats, Ticker};

use super::Source;
use super::figures::{Figures, ReadCost, ratio};
use crate::failure::Result;

pub fn print(source: &Source, stats: &PublishedStats, out: &mut dyn Write) -> Result {
    let figures = Figures::new(stats, ReadCost::Usual);
    let (reads, writes) =
        (stats.tickers.get(Ticker::NumberKeysRead), stats.tickers.get(Ticker::NumberKeysWritten));
    let path = Path::new(&source.name);
    let keyspace = path.parent().unwrap_or(path).display().to_string();
    let table =
        path.file_name().map_or_else(|| source.name.clone(), |name| name.display().to_string());
    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
    let live: u64 = stats.levels.iter().map(|level| level.file_bytes).sum();
    let mut files = vec![0; stats.levels.iter().map(|level| level.level + 1).max().unwrap_or(0)];
    stats.levels.iter().for_each(|level| files[level.level] = level.files);
    let levels: Vec<String> = files.iter().map(ToString::to_string).collect();
    let count: usize = files.iter().sum();
    let false_ratio = ratio(figures.false_positive, figures.asked).unwrap_or(0.0);
    let of_table = [
        ("Table", table),
        ("SSTable count", count.to_string()),
        ("SSTables in each level", format!("[{}]", levels.join(", "))),
        ("Space used (live)", live.to_string()),
        ("Number of partitions (estimate)", (entries + stats.memtable_entries).to_string()),
        ("Memtable cell count", stats.memtable_entries.to_string()),
        ("Memtable data size", stats.memtable_bytes.to_string()),
        ("Memtable switch count", stats.tickers.get(Ticker::FlushCount).to_string()),
        ("Local read count", reads.to_string()),
        ("Local write count", writes.to_string()),
        ("Bloom filter false positives", figures.false_positive.to_string()),
        ("Bloom filter false ratio", format!("{false_ratio:.5}")),
        ("Bloom filter space used", stats.filter_bytes().to_string()),
        ("Bloom filter off heap memory used", figures.resident_filter_bytes.to_string()),
    ];
    writeln!(out, "Total number of tables: 1\n----------------\nKeyspace : {keyspace}")?;
    writeln!(out, "\tRead Count: {reads}\n\tWrite Count: {writes}")?;
    for (name, value) in of_table {
        writeln!(out, "\t\t{name}: {value}")?;
    }
    writeln!(out, "\n----------------")?;
    Ok(())
}
