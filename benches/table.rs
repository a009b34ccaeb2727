//! The cost of building a table, as a whole and by its parts, in bytes of keys and values a second.
//!
//! ```sh
//! cargo bench --bench table                     # everything (a minute)
//! cargo bench --bench table -- compress         # one group
//! ```
//!
//! | group | work |
//! |---|---|
//! | `blocks` | sorted entries into data blocks of 4096 bytes |
//! | `checksum` | computing the checksums of the finished blocks |
//! | `compress` | compressing them |
//! | `filter` | hashing every key, building the filter, and querying it once for each key |
//! | `table` | all of it: a table into memory, and into a file that is synced |
//! | `form` | a table into memory, with filter and index whole and in parts |
//!
//! Keys have 20 bytes, values 100; half of a value repeats the other half. Every group divides the
//! bytes of all keys and values by its own time, so the figures are comparable: the times of the
//! other groups together are about the time of `table`.
//!
//! The modules that build, checksum and compress blocks are not public, so this file compiles them.

#![allow(missing_docs, dead_code, unused_imports)]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use maypole::filter::{FilterBuilder, FilterSpec};
use maypole::fs::{Fs, MemFs, RealFs};
use maypole::hash64;
use maypole::table::{MetadataForm, SstWriter, TableOptions};
use rand::{Rng, SeedableRng, rngs::StdRng};

#[path = "../src/table/block/builder.rs"]
mod block_builder;
#[path = "../src/table/format/checksum.rs"]
mod checksum;
#[path = "../src/table/format/compression/write.rs"]
mod compression;
#[path = "../src/encoding/mod.rs"]
mod encoding;
#[path = "../src/error.rs"]
mod error;

use block_builder::BlockBuilder;
use checksum::ChecksumKind;
use compression::{Compression, Compressor};

/// About 24 MB of keys and values, which fill the default memtable twice.
const ENTRIES: u64 = 200_000;
const ENTRY_BYTES: u64 = 20 + 100;
const BLOCK_BYTES: usize = 4096;
const RESTART_INTERVAL: usize = 16;

struct Entry {
    key: [u8; 20],
    value: [u8; 100],
}

/// Sorted entries. Adjacent keys share a few bytes, as in a large set.
fn entries() -> Vec<Entry> {
    let mut rng = StdRng::seed_from_u64(1);
    let mut entries: Vec<Entry> = (0..ENTRIES)
        .map(|_| {
            let mut key = *b"user0000000000000000";
            key[4..].copy_from_slice(format!("{:016x}", rng.next_u64()).as_bytes());
            let mut value = [0; 100];
            rng.fill_bytes(&mut value[..50]);
            value.copy_within(..50, 50);
            Entry { key, value }
        })
        .collect();
    entries.sort_unstable_by_key(|entry| entry.key);
    entries
}

/// Builds data blocks with the table builder's [`BlockBuilder`]; `take` gets each block when it is
/// finished. A block is finished when it has [`BLOCK_BYTES`] bytes, so the last entries may be left
/// in an unfinished one.
fn build_blocks(entries: &[Entry], mut take: impl FnMut(&[u8])) {
    let mut builder = BlockBuilder::new(RESTART_INTERVAL);
    let mut internal_key = Vec::new();
    for entry in entries {
        internal_key.clear();
        internal_key.extend_from_slice(&entry.key);
        internal_key.extend_from_slice(&1u64.to_le_bytes());
        builder.add(&internal_key, &entry.value);
        if builder.estimated_bytes() >= BLOCK_BYTES {
            take(builder.finish());
            builder.clear();
        }
    }
}

fn blocks_of(entries: &[Entry]) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    build_blocks(entries, |block| blocks.push(block.to_vec()));
    blocks
}

fn parts(criterion: &mut Criterion) {
    let entries = entries();
    let bytes = Throughput::BytesDecimal(ENTRIES * ENTRY_BYTES);

    let mut group = criterion.benchmark_group("blocks");
    group.throughput(bytes.clone());
    group.bench_function("build", |bencher| {
        bencher.iter(|| {
            build_blocks(&entries, |block| {
                black_box(block);
            });
        });
    });
    group.finish();

    let blocks = blocks_of(&entries);
    let mut group = criterion.benchmark_group("checksum");
    group.throughput(bytes.clone());
    for kind in [ChecksumKind::Xxh3, ChecksumKind::Crc32c] {
        group.bench_function(kind.name(), |bencher| {
            bencher.iter(|| blocks.iter().fold(0, |sum, block| sum ^ kind.of(block)));
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("compress");
    group.throughput(bytes.clone());
    for compression in Compression::ALL {
        if compression == Compression::None || !compression.is_built_in() {
            continue;
        }
        let mut compressor = Compressor::new(compression).expect("it is built in");
        let mut out = Vec::new();
        group.bench_function(compression.name(), |bencher| {
            bencher.iter(|| {
                for block in &blocks {
                    let stored = compressor.compress(block, &mut out);
                    assert_eq!(stored, compression, "these values compress");
                }
            });
        });
    }
    group.finish();

    // Criterion prints the time of a filter of all keys; divided by the 200,000 keys, it is the
    // time of one key.
    let mut group = criterion.benchmark_group("filter");
    group.throughput(bytes);
    for text in ["bloom(10)", "ribbon(7)", "burr(7)"] {
        let spec: FilterSpec = text.parse().expect("a spec of this file");
        group.bench_function(text, |bencher| {
            bencher.iter(|| {
                let mut builder = FilterBuilder::new(spec);
                entries.iter().for_each(|entry| builder.add(hash64(&entry.key)));
                builder.finish().expect("keys were added").bytes().len()
            });
        });
    }
    group.finish();
}

fn build_table(fs: Arc<dyn Fs>, path: &Path, options: &TableOptions, entries: &[Entry]) -> u64 {
    let mut writer = SstWriter::create_in(fs, path, options.clone()).expect("a new file");
    for entry in entries {
        writer.put(&entry.key, &entry.value).expect("ascending keys");
    }
    writer.finish().expect("a finished table").file_bytes
}

fn tables(criterion: &mut Criterion) {
    let entries = entries();
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let mut group = criterion.benchmark_group("table");
    group.throughput(Throughput::BytesDecimal(ENTRIES * ENTRY_BYTES));
    for compression in [maypole::Compression::None, maypole::Compression::default()] {
        for filter in ["none", "bloom(10)", "burr(7)"] {
            let filter_spec = filter.parse().expect("a spec of this file");
            let options =
                TableOptions { compression, filter: filter_spec, ..TableOptions::default() };
            let name = format!("{}, {filter}", compression.name());
            group.bench_function(format!("memory, {name}"), |bencher| {
                bencher.iter_batched(
                    || Arc::new(MemFs::new()),
                    |fs| build_table(fs, Path::new("/table.sst"), &options, &entries),
                    BatchSize::PerIteration,
                );
            });
            let path = dir.path().join("table.sst");
            group.bench_function(format!("file, {name}"), |bencher| {
                bencher.iter(|| build_table(Arc::new(RealFs), &path, &options, &entries));
            });
        }
    }
    group.finish();
}

fn forms(criterion: &mut Criterion) {
    let entries = entries();
    let mut group = criterion.benchmark_group("form");
    group.throughput(Throughput::BytesDecimal(ENTRIES * ENTRY_BYTES));
    for filter in ["bloom(10)", "burr(7)"] {
        for metadata in [MetadataForm::Whole, MetadataForm::Parts] {
            let filter_spec = filter.parse().expect("a spec of this file");
            let compression = maypole::Compression::None;
            let options = TableOptions {
                compression,
                filter: filter_spec,
                metadata,
                ..TableOptions::default()
            };
            group.bench_function(format!("{metadata:?}, {filter}"), |bencher| {
                bencher.iter_batched(
                    || Arc::new(MemFs::new()),
                    |fs| build_table(fs, Path::new("/table.sst"), &options, &entries),
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = parts, tables, forms
}
criterion_main!(benches);
