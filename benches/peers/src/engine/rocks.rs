//! RocksDB through its crate: pinned values, its fastest cache (HyperClockCache), batched lookups.

use std::path::Path;
use std::sync::Once;

use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};

use super::{Compression, Engine, Held, Kind, NO_LIMIT, Result, Scan, TABLE_BYTES};
use crate::Options;
use crate::keys::{Key, Run};

/// RocksDB compacts a table if half of this many consecutive entries are tombstones, or if half of
/// all its entries are ([`DELETION_RATIO`]).
const DELETION_WINDOW: usize = 1000;
const DELETION_RATIO: f64 = 0.5;
/// This option of RocksDB flushes the memtable when one operation of an iterator has stepped over
/// [`SCAN_TRIGGER_ENTRIES`] tombstones or hidden versions in it.
const SCAN_TRIGGER: &str = "memtable_op_scan_flush_trigger";
const SCAN_TRIGGER_ENTRIES: &str = "100";

pub struct Rocks {
    db: rocksdb::DB,
    options: rocksdb::Options,
    unsynced: rocksdb::WriteOptions,
    synced: rocksdb::WriteOptions,
    async_io: bool,
}

impl Rocks {
    pub fn open(kind: Kind, dir: &Path, options: &Options) -> Result<Rocks> {
        Rocks::open_with(settings(kind, options), dir, options)
    }

    /// Opens with the options for trees with many deletions, each as its documentation advises, and
    /// with statistics, which cost some nanoseconds an operation.
    pub fn open_for_deletions(kind: Kind, dir: &Path, options: &Options) -> Result<Rocks> {
        let mut db = settings(kind, options);
        db.add_compact_on_deletion_collector_factory(
            DELETION_WINDOW,
            DELETION_WINDOW / 2,
            DELETION_RATIO,
        );
        db.set_level_compaction_dynamic_level_bytes(true);
        db.enable_statistics();
        let rocks = Rocks::open_with(db, dir, options)?;
        // Versions 9 and older do not have this option.
        if let Err(error) = rocks.db.set_options(&[(SCAN_TRIGGER, SCAN_TRIGGER_ENTRIES)]) {
            static TOLD: Once = Once::new();
            TOLD.call_once(|| eprintln!("rocksdb: without {SCAN_TRIGGER}: {error}"));
        }
        Ok(rocks)
    }

    fn open_with(db: rocksdb::Options, dir: &Path, options: &Options) -> Result<Rocks> {
        let (options, async_io) = (db, options.async_io);
        let db = rocksdb::DB::open_cf_with_opts(&options, dir, [("default", options.clone())])?;
        let mut synced = rocksdb::WriteOptions::default();
        synced.set_sync(true);
        Ok(Rocks { db, options, unsynced: rocksdb::WriteOptions::default(), synced, async_io })
    }

    fn read_options(&self) -> rocksdb::ReadOptions {
        let mut options = rocksdb::ReadOptions::default();
        options.set_async_io(self.async_io);
        options
    }
}

/// The settings of a database with optimistic transactions.
pub fn transaction_settings(options: &Options) -> rocksdb::Options {
    settings(Kind::Rocksdb, options)
}

fn settings(kind: Kind, options: &Options) -> rocksdb::Options {
    let mut table = rocksdb::BlockBasedOptions::default();
    table.set_block_cache(&match kind {
        Kind::RocksdbLru => {
            // The cache has one shard, because a few filters could overfill one of several small
            // shards.
            let mut lru = rocksdb::LruCacheOptions::default();
            lru.set_capacity(options.cache_bytes());
            lru.set_num_shard_bits(0);
            rocksdb::Cache::new_lru_cache_opts(&lru)
        }
        _ => rocksdb::Cache::new_hyper_clock_cache(options.cache_bytes(), 4096),
    });
    table.set_cache_index_and_filter_blocks(options.charge_metadata);
    if options.charge_metadata {
        set_perf_stats(PerfStatsLevel::EnableCount);
    }
    if kind == Kind::RocksdbParts {
        table.set_index_type(rocksdb::BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_metadata_block_size(4096);
        table.set_pin_top_level_index_and_filter(true);
    }
    table.set_bloom_filter(10.0, false);
    table.set_format_version(5);
    let mut db = rocksdb::Options::default();
    db.create_if_missing(true);
    db.set_compression_type(match options.compression {
        Compression::None => rocksdb::DBCompressionType::None,
        Compression::Lz4 => rocksdb::DBCompressionType::Lz4,
        Compression::Zstd => rocksdb::DBCompressionType::Zstd,
    });
    db.set_write_buffer_size(options.memtable_bytes());
    db.set_max_bytes_for_level_base(match options.keeps_runs() {
        true => NO_LIMIT,
        false => 4 * options.memtable_bytes() as u64,
    });
    db.set_max_background_jobs(3);
    db.set_use_direct_reads(options.direct);
    db.set_block_based_table_factory(&table);
    if let Some(threads) = options.compaction_threads {
        db.set_max_subcompactions(threads as u32);
    }
    db
}

impl Engine for Rocks {
    fn ingest(&self, scratch: &Path, run: &Run) -> Result<()> {
        let (mut files, mut writer) = (Vec::new(), None::<rocksdb::SstFileWriter>);
        run.for_each(|key, value| {
            if writer.as_ref().is_some_and(|writer| writer.file_size() >= TABLE_BYTES) {
                writer.take().map_or(Ok(()), |mut writer| writer.finish())?;
            }
            if writer.is_none() {
                files.push(scratch.join(format!("{}.sst", files.len())));
                let new = rocksdb::SstFileWriter::create(&self.options);
                new.open(&files[files.len() - 1])?;
                writer = Some(new);
            }
            Ok(writer.as_mut().expect("made above").put(key, value)?)
        })?;
        writer.map_or(Ok(()), |mut writer| writer.finish())?;
        let mut options = rocksdb::IngestExternalFileOptions::default();
        options.set_move_files(true);
        Ok(self.db.ingest_external_file_opts(&options, files)?)
    }
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let options = if sync { &self.synced } else { &self.unsynced };
        Ok(self.db.put_opt(key, value, options)?)
    }
    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.db.get_pinned(key)?.map(|value| value.len()))
    }
    fn multi_get(&self, keys: &[Key]) -> Result<usize> {
        let family = self.db.cf_handle("default").ok_or("no default column family")?;
        let mut found = 0;
        let options = self.read_options();
        for value in self.db.batched_multi_get_cf_opt(&family, keys, false, &options) {
            found += usize::from(value?.is_some());
        }
        Ok(found)
    }
    fn seek(&self, key: &[u8], count: usize) -> Result<usize> {
        let mut iterator = self.db.raw_iterator();
        iterator.seek(key);
        let mut bytes = 0;
        for _ in 0..count {
            let Some((key, value)) = iterator.item() else { break };
            bytes += key.len() + value.len();
            iterator.next();
        }
        Ok(bytes)
    }
    fn scan(&self) -> Result<(u64, usize)> {
        let mut iterator = self.db.raw_iterator();
        let (mut entries, mut bytes) = (0, 0);
        iterator.seek_to_first();
        while let Some((key, value)) = iterator.item() {
            entries += 1;
            bytes += key.len() + value.len();
            iterator.next();
        }
        Ok((entries, bytes))
    }
    fn iterate(&self) -> Result<Option<(u64, usize)>> {
        let (mut entries, mut bytes) = (0, 0);
        for entry in self.db.iterator(rocksdb::IteratorMode::Start) {
            let (key, value) = entry?;
            entries += 1;
            bytes += key.len() + value.len();
        }
        Ok(Some((entries, bytes)))
    }
    fn blocks_read(&self) -> Result<u64> {
        Ok(PerfContext::default().metric(PerfMetric::BlockReadCount))
    }
    fn metadata_bytes(&self) -> Result<u64> {
        let properties = self.db.property_value("rocksdb.aggregated-table-properties")?;
        let properties = properties.ok_or("no properties of tables")?;
        // The property of the index is named `index block size (user-key? 1, delta-value? 1)`,
        // where the figures vary. So only the beginning of a name is compared.
        let bytes = |name: &str| -> Result<u64> {
            let property = properties.split("; ").find(|text| text.starts_with(name));
            let (_, bytes) = property.and_then(|text| text.rsplit_once('=')).ok_or(name)?;
            Ok(bytes.parse()?)
        };
        Ok(bytes("index block size")? + bytes("filter block size")?)
    }
    fn cache_bytes(&self) -> Result<u64> {
        let bytes = self.db.property_int_value("rocksdb.block-cache-usage")?;
        Ok(bytes.ok_or("no usage of the cache")?)
    }
    fn scan_from_start(&self, fills_cache: bool) -> Result<Box<dyn Scan + '_>> {
        let mut options = rocksdb::ReadOptions::default();
        options.fill_cache(fills_cache);
        let mut iterator = self.db.raw_iterator_opt(options);
        iterator.seek_to_first();
        Ok(Box::new(iterator))
    }
    fn compact(&self) -> Result<()> {
        let mut options = rocksdb::CompactOptions::default();
        options.set_bottommost_level_compaction(rocksdb::BottommostLevelCompaction::Force);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }
    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }
    fn settle(&self) -> Result<()> {
        let mut options = rocksdb::WaitForCompactOptions::default();
        options.set_flush(true);
        Ok(self.db.wait_for_compact(&options)?)
    }
    fn shape(&self) -> String {
        let files = |level| {
            let property = format!("rocksdb.num-files-at-level{level}");
            self.db.property_value(&property).ok().flatten().filter(|count| count != "0")
        };
        let levels = (0..7).filter_map(|level| Some(format!("L{level}: {}", files(level)?)));
        levels.collect::<Vec<_>>().join(", ")
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete_opt(key, &self.unsynced)?)
    }
    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        let family = self.db.cf_handle("default").ok_or("no default column family")?;
        Ok(self.db.delete_range_cf_opt(&family, begin, end, &self.unsynced)?)
    }
    fn delete_files(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        Ok(self.db.delete_file_in_range(begin, end)?)
    }
    fn first(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut options = self.read_options();
        options.set_iterate_lower_bound(from);
        let mut iterator = self.db.raw_iterator_opt(options);
        iterator.seek_to_first();
        iterator.status()?;
        Ok(iterator.key().map(<[u8]>::to_vec))
    }
    fn last(&self, count: usize) -> Result<usize> {
        let mut iterator = self.db.raw_iterator();
        iterator.seek_to_last();
        let mut bytes = 0;
        for _ in 0..count {
            let Some((key, value)) = iterator.item() else { break };
            bytes += key.len() + value.len();
            iterator.prev();
        }
        Ok(bytes)
    }
    fn snapshot(&self) -> Box<dyn Held + '_> {
        Box::new(self.db.snapshot())
    }
    fn checkpoint(&self, dir: &Path) -> Result<()> {
        Ok(rocksdb::checkpoint::Checkpoint::new(&self.db)?.create_checkpoint(dir)?)
    }
    fn tables(&self) -> Result<u64> {
        Ok(self.db.live_files()?.len() as u64)
    }
    fn table_bytes_written(&self) -> Result<Option<u64>> {
        // The statistics are read as text, because the enum values of tickers differ between
        // versions.
        let Some(statistics) = self.options.get_statistics() else { return Ok(None) };
        let count = |name: &str| {
            let line = statistics.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().last()?.parse::<u64>().ok()
        };
        let flushed = count("rocksdb.flush.write.bytes COUNT").ok_or("no bytes of flushes")?;
        let compacted =
            count("rocksdb.compact.write.bytes COUNT").ok_or("no bytes of compactions")?;
        Ok(Some(flushed + compacted))
    }
}

impl Scan for rocksdb::DBRawIterator<'_> {
    fn step(&mut self, entries: u64) -> Result<u64> {
        let mut stepped = 0;
        while stepped < entries && self.valid() {
            self.next();
            stepped += 1;
        }
        Ok(stepped)
    }
}

#[cfg(test)]
mod tests {
    use maypole::table::{MetadataForm, SstWriter, TableOptions};
    use rocksdb::statistics::Ticker;

    const KEYS: u64 = 20_000;

    /// RocksDB takes over a table of Maypole whose filter and index are in parts: it finds all keys,
    /// and its counters show that it queries the parts of the filter.
    #[test]
    fn rocksdb_queries_the_filters_of_tables_in_parts() {
        for filter in ["bloom(10)", "ribbon(7)"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("parts.sst");
            let options = TableOptions {
                filter: filter.parse().unwrap(),
                metadata: MetadataForm::Parts,
                ..TableOptions::default()
            };
            let mut writer = SstWriter::create(&path, options).unwrap();
            (0..KEYS).for_each(|n| writer.put(&(2 * n).to_be_bytes(), b"value").unwrap());
            writer.finish().unwrap();
            let mut table = rocksdb::BlockBasedOptions::default();
            // With any policy, RocksDB queries the filters of all families that it knows.
            table.set_bloom_filter(10.0, false);
            let mut options = rocksdb::Options::default();
            options.create_if_missing(true);
            options.enable_statistics();
            options.set_block_based_table_factory(&table);
            let db = rocksdb::DB::open(&options, dir.path().join("db")).unwrap();
            db.ingest_external_file(vec![&path]).unwrap();
            let properties = db.property_value("rocksdb.aggregated-table-properties").unwrap();
            let properties = properties.unwrap();
            assert!(!properties.contains("# index partitions=0"), "{properties}");
            for n in 0..KEYS {
                let found = db.get((2 * n).to_be_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(&b"value"[..]));
                // The last absent key lies beyond the range of the table.
                assert_eq!(db.get((2 * n + 1).to_be_bytes()).unwrap(), None);
            }
            let useful = options.get_ticker_count(Ticker::BloomFilterUseful);
            assert!((KEYS * 49 / 50..KEYS).contains(&useful), "{filter}: {useful}");
            assert_eq!(options.get_ticker_count(Ticker::BloomFilterFullTruePositive), KEYS);
        }
    }
}
