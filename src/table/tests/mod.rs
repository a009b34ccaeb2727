//! Tables written here and read back: by this crate, and by RocksDB's own tools.

mod cache;
mod damage;
mod forged_parts;
mod layout;
mod parts;
mod prefix;
mod range_del;
mod read_ahead;
mod refilter;
mod round_trip;
mod salvage;
mod tools;
mod walk;

use std::path::Path;
use std::sync::Arc;

use self::layout::Layout;
use super::format::footer::BlockHandle;
use super::format::identity::Creator;
use super::{
    Compression, Dialect, FilterKeys, LookupKey, MetadataForm, Refilter, Table, TableBuilder,
    TableContext, TableOptions, TableSummary,
};
use crate::cache::BlockCache;
use crate::encoding::key;
use crate::encoding::key::{SequenceNumber, internal_key};
use crate::error::Result;
use crate::filter::FilterSpec;
use crate::fs::{Fs, MemFs};
use crate::slice::Slice;
use crate::stats::Counters;
use crate::sync::pin;

/// Internal keys and values, in the order of a table.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn sorted(mut entries: Entries) -> Entries {
    entries.sort_by(|a, b| key::compare(&a.0, &b.0));
    entries
}

/// Entries of every sort that a table of a tree may hold: the empty key, keys that are prefixes of
/// other keys, binary keys, long keys, several versions, tombstones, empty values. The sequence
/// numbers of the versions of one key are 10,000 apart.
fn mixed_entries(count: usize) -> Entries {
    let mut users: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0xff], vec![0xff; 9]];
    users.push(b"long/".repeat(60));
    for i in 0..count {
        users.push(match i % 5 {
            0 => format!("user{:06}", i * 3).into_bytes(),
            1 => format!("user{:06}/x", i * 3).into_bytes(),
            2 => (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
            3 => format!("user{:06}", i * 3).repeat(3).into_bytes(),
            _ => vec![b'z'; i % 200 + 1],
        });
    }
    users.sort();
    users.dedup();
    let mut entries = Entries::new();
    for (i, user) in users.iter().enumerate() {
        for version in 0..1 + (i % 7) / 3 {
            let kind = u8::from((i + version) % 5 != 0);
            let value = format!("value {i} {version} ").repeat(i % 9).into_bytes();
            let value = if kind == 0 { vec![] } else { value };
            entries.push((internal_key(user, (1 + i + 10_000 * version) as u64, kind), value));
        }
    }
    sorted(entries)
}

fn options(compression: Compression) -> TableOptions {
    TableOptions { block_bytes: 700, compression, ..TableOptions::default() }
}

/// The creator of the tables of [`range_del::table_bytes`] and of [`parts::in_parts`].
fn creator() -> Creator {
    Creator { db: "a database".into(), session: "0123456789ABCDEFGHIJ".into(), keyspace: None }
}

/// The bytes of a table that has got another filter. They have the identity of a table that
/// [`creator`] writes as file 7.
fn refiltered(table: &Table, filter: FilterSpec, filter_keys: FilterKeys) -> Result<Vec<u8>> {
    let (fs, path) = (MemFs::new(), Path::new("t.sst"));
    let to = Refilter { filter, filter_keys, creator: &creator(), number: 7 };
    let summary = table.refilter(|| fs.create(path), &to, || Ok(()))?;
    let bytes = fs.read(path).unwrap();
    assert_eq!(summary.file_bytes, bytes.len() as u64);
    Ok(bytes)
}

/// The data blocks of a table, as its index lists them.
fn data_blocks(table: &Table) -> Vec<BlockHandle> {
    Layout::of(table).data.iter().map(|block| block.handle).collect()
}

fn write(
    fs: &dyn Fs,
    path: &str,
    entries: &[(Vec<u8>, Vec<u8>)],
    options: TableOptions,
) -> TableSummary {
    let dialect = Dialect::Database { file_number: 7 };
    let mut builder =
        TableBuilder::new(fs.create(Path::new(path)).unwrap(), options, dialect).unwrap();
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    builder.finish().unwrap()
}

fn context(cache_bytes: usize) -> TableContext {
    TableContext {
        cache: BlockCache::new(cache_bytes),
        counters: Arc::new(Counters::new()),
        pin_metadata: false,
        reads_every_filter: false,
        global_sequence: None,
        sequence_if_ingested: None,
        tail_bytes: 0,
        key_bounds: None,
        takes_leveldbs: false,
    }
}

fn open(fs: &dyn Fs, path: &str, context: &TableContext) -> Result<Arc<Table>> {
    Table::open(fs.open(Path::new(path))?, context.clone())
}

/// A table of `entries` in a new file system.
fn table(
    entries: &[(Vec<u8>, Vec<u8>)],
    options: TableOptions,
    context: &TableContext,
) -> Arc<Table> {
    let fs = MemFs::new();
    write(&fs, "t.sst", entries, options);
    open(&fs, "t.sst", context).unwrap()
}

fn bloom() -> FilterSpec {
    FilterSpec::bloom(10.0).unwrap()
}

/// Looks a key up, and reads what is not in memory. Returns kind and value of the entry that the
/// lookup finds.
fn get(table: &Table, lookup: &LookupKey<'_>) -> Result<Option<(u8, Slice)>> {
    let tickers = table.block_file().counters.on_thread(&pin());
    let found = crate::lookup::get_in_table(table, lookup, tickers, crate::lookup::Observer::NONE)?;
    Ok(found.map(|found| {
        assert_eq!(found.value_slice(), found.value());
        (found.kind, found.value_slice())
    }))
}

/// What a lookup must find: kind and value.
fn expected_get<'a>(
    entries: &'a [(Vec<u8>, Vec<u8>)],
    user_key: &[u8],
    sequence: SequenceNumber,
) -> Option<(u8, &'a [u8])> {
    let target = key::seek_key(user_key, sequence);
    let at = entries.partition_point(|(key, _)| key::compare(key, &target).is_lt());
    let (found, value) = entries.get(at)?;
    (key::user_key(found) == user_key).then(|| (key::kind_byte(found), &value[..]))
}
