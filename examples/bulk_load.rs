//! Bulk load: a complete data set is sorted, divided into ranges, and written as one table for each
//! range, each by its own thread. The database ingests the tables as they are. For comparison, the
//! same data is written by `put`.
//!
//! ```text
//! cargo run --release --example bulk_load
//! ```

use std::error::Error;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::thread;

use maypole::table::{SstWriter, TableOptions};
use maypole::{Compression, Db, Ticker, WriteBatch, hash64};

const ENTRIES: u64 = 100_000;
const VALUE_BYTES: usize = 100;
const PARTS: usize = 4;
const ENTRIES_A_FLUSH: usize = 5_000;

fn entries() -> Vec<(u64, [u8; VALUE_BYTES])> {
    let value = |i: u64| [hash64(&i.to_be_bytes()) as u8; VALUE_BYTES];
    (0..ENTRIES).map(|i| (hash64(&i.to_le_bytes()), value(i))).collect()
}

/// Writes the table of one range of keys. This needs no data of the other ranges, so each table
/// could be written on another machine. Returns the length of the file.
fn write_part(path: &Path, entries: &[(u64, [u8; VALUE_BYTES])]) -> maypole::Result<u64> {
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let mut writer = SstWriter::create(path, options)?;
    for (key, value) in entries {
        writer.put(&key.to_be_bytes(), value)?;
    }
    Ok(writer.finish()?.file_bytes)
}

fn builder(dir: &Path) -> maypole::Builder {
    let small_levels = Db::builder(dir).table_bytes(1 << 20).level_base_bytes(2 << 20);
    small_levels.compression(Compression::None).compaction_threads(1)
}

/// Writes the data in batches and flushes after each batch, like a program that receives its data
/// in pieces.
fn put_all(dir: &Path, entries: &[(u64, [u8; VALUE_BYTES])]) -> maypole::Result<Db> {
    let db = builder(dir).open()?;
    for part in entries.chunks(ENTRIES_A_FLUSH) {
        let mut batch = WriteBatch::new();
        part.iter().for_each(|(key, value)| {
            batch.put(key.to_be_bytes(), value);
        });
        db.write(batch)?;
        db.flush()?;
        db.wait_for_compaction()?;
    }
    Ok(db)
}

fn report(name: &str, db: &Db, user_bytes: u64, out: &mut dyn Write) -> std::io::Result<()> {
    let stats = db.stats();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let [log, flushed, compacted] =
        [Ticker::WalFileBytes, Ticker::FlushWriteBytes, Ticker::CompactWriteBytes]
            .map(|ticker| stats.tickers.get(ticker));
    let tables: u64 = stats.files.iter().map(|file| file.file_bytes).sum();
    // If no flush wrote anything, all tables were ingested. Each of these was written twice: by its
    // `SstWriter`, and when `ingest` copied it into the database.
    let written = if flushed == 0 { 2 * tables } else { log + flushed + compacted };
    writeln!(
        out,
        "{name:<6} log {:>5.1} MiB, flushed {:>5.1}, compacted {:>5.1}: each byte written {:.1} times",
        mib(log),
        mib(flushed),
        mib(compacted),
        written as f64 / user_bytes as f64
    )
}

/// Runs the example, and prints to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let mut entries = entries();
    let user_bytes = ENTRIES * (8 + VALUE_BYTES as u64);
    let by_put = put_all(&dir.path().join("put"), &entries)?;
    report("put", &by_put, user_bytes, out)?;

    // The entries are sorted before they are divided into parts. So each part is in order, and no
    // two parts have a key in common.
    entries.sort_unstable();
    let files: Vec<PathBuf> =
        (0..PARTS).map(|part| dir.path().join(format!("part{part}.sst"))).collect();
    let parts = entries.chunks(entries.len().div_ceil(PARTS));
    thread::scope(|scope| {
        let writers: Vec<_> = files
            .iter()
            .zip(parts)
            .map(|(file, part)| scope.spawn(move || write_part(file, part)))
            .collect();
        writers.into_iter().try_for_each(|writer| match writer.join() {
            Ok(written) => written.map(drop),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let by_table = builder(&dir.path().join("tables")).open()?;
    by_table.ingest(&files)?;
    report("tables", &by_table, user_bytes, out)?;

    let level = by_table.stats().files.iter().map(|file| file.level).collect::<Vec<_>>();
    writeln!(out, "the {} tables are in levels {level:?}", level.len())?;
    let same = by_put.iter().zip(by_table.iter()).all(|(a, b)| a.unwrap() == b.unwrap());
    writeln!(out, "both hold the same {} entries: {same}", by_table.iter().count())?;
    by_put.close()?;
    Ok(by_table.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut stdout().lock())
}
