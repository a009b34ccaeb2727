//! The engines behind one interface, each set up the same way: no compression, a 10-bit Bloom
//! filter, the same cache and memtable, WAL on, no sync.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;

use crate::Options;

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Kind {
    Rocksdb,
    Maypole,
    Fjall,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Rocksdb => "rocksdb",
            Kind::Maypole => "maypole",
            Kind::Fjall => "fjall",
        }
    }

    pub fn open(self, dir: &Path, options: &Options) -> Result<Arc<dyn Engine>> {
        Ok(match self {
            Kind::Rocksdb => Arc::new(Rocks::open(dir, options)?),
            Kind::Maypole => Arc::new(Maypole::open(dir, options)?),
            Kind::Fjall => Arc::new(Fjall::open(dir, options)?),
        })
    }
}

/// What the workloads ask of an engine. Answers are summed by the caller so that no work can be
/// left out.
pub trait Engine: Send + Sync {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;
    /// Bytes of the value, or `None`.
    fn get(&self, key: &[u8]) -> Result<Option<usize>>;
    /// How many of the keys are there.
    fn multi_get(&self, keys: &[[u8; 20]]) -> Result<usize>;
    /// Reads up to `count` entries from `key` on; answers their bytes.
    fn seek(&self, key: &[u8], count: usize) -> Result<usize>;
    /// Entries and bytes of everything, by the engine's cheapest way to walk.
    fn scan(&self) -> Result<(u64, usize)>;
    /// The same through an iterator that hands out owned items; `None` where there is none.
    fn iterate(&self) -> Result<Option<(u64, usize)>>;
    /// Writes the memtable to a table.
    fn flush(&self) -> Result<()>;
    /// Compacts everything.
    fn compact(&self) -> Result<()>;
    /// Waits until the background is idle.
    fn settle(&self) -> Result<()>;
}

struct Maypole {
    db: maypole::Db,
}

impl Maypole {
    fn open(dir: &Path, options: &Options) -> Result<Maypole> {
        let db = maypole::Db::builder(dir)
            .filter("bloom(10)".parse::<maypole::FilterPolicy>()?)
            .compression(maypole::Compression::None)
            .block_cache_bytes(options.cache_bytes)
            .memtable_bytes(options.memtable_bytes)
            .level_base_bytes(4 * options.memtable_bytes as u64)
            .open()?;
        Ok(Maypole { db })
    }
}

impl Engine for Maypole {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let mut batch = maypole::WriteBatch::new();
        batch.put(key, value);
        let durability = match sync {
            true => maypole::Durability::Sync,
            false => maypole::Durability::Buffered,
        };
        Ok(self.db.write_opt(batch, durability)?)
    }
    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.db.get_with(key, <[u8]>::len)?)
    }
    fn multi_get(&self, keys: &[[u8; 20]]) -> Result<usize> {
        Ok(self.db.multi_get(keys)?.iter().flatten().count())
    }
    fn seek(&self, key: &[u8], count: usize) -> Result<usize> {
        let mut cursor = self.db.cursor();
        cursor.seek(key)?;
        let mut bytes = 0;
        for _ in 0..count {
            if !cursor.valid() {
                break;
            }
            bytes += cursor.key().len() + cursor.value().len();
            cursor.next()?;
        }
        Ok(bytes)
    }
    fn scan(&self) -> Result<(u64, usize)> {
        let mut cursor = self.db.cursor();
        let (mut entries, mut bytes) = (0, 0);
        cursor.seek_to_first()?;
        while cursor.valid() {
            entries += 1;
            bytes += cursor.key().len() + cursor.value().len();
            cursor.next()?;
        }
        Ok((entries, bytes))
    }
    fn iterate(&self) -> Result<Option<(u64, usize)>> {
        let (mut entries, mut bytes) = (0, 0);
        for entry in self.db.iter() {
            let (key, value) = entry?;
            entries += 1;
            bytes += key.len() + value.len();
        }
        Ok(Some((entries, bytes)))
    }
    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }
    fn compact(&self) -> Result<()> {
        Ok(self.db.compact_range::<&[u8]>(..)?)
    }
    fn settle(&self) -> Result<()> {
        Ok(self.db.wait_for_compaction()?)
    }
}

struct Rocks {
    db: rocksdb::DB,
    unsynced: rocksdb::WriteOptions,
    synced: rocksdb::WriteOptions,
}

impl Rocks {
    fn open(dir: &Path, options: &Options) -> Result<Rocks> {
        let mut table = rocksdb::BlockBasedOptions::default();
        table.set_block_cache(&rocksdb::Cache::new_hyper_clock_cache(options.cache_bytes, 4096));
        table.set_bloom_filter(10.0, false);
        table.set_format_version(5);
        let mut db = rocksdb::Options::default();
        db.create_if_missing(true);
        db.set_compression_type(rocksdb::DBCompressionType::None);
        db.set_write_buffer_size(options.memtable_bytes);
        db.set_max_bytes_for_level_base(4 * options.memtable_bytes as u64);
        db.set_max_background_jobs(3);
        db.set_block_based_table_factory(&table);
        let db = rocksdb::DB::open_cf_with_opts(&db, dir, [("default", db.clone())])?;
        let mut synced = rocksdb::WriteOptions::default();
        synced.set_sync(true);
        Ok(Rocks { db, unsynced: rocksdb::WriteOptions::default(), synced })
    }
}

impl Engine for Rocks {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let options = if sync { &self.synced } else { &self.unsynced };
        Ok(self.db.put_opt(key, value, options)?)
    }
    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.db.get_pinned(key)?.map(|value| value.len()))
    }
    fn multi_get(&self, keys: &[[u8; 20]]) -> Result<usize> {
        let family = self.db.cf_handle("default").ok_or("no default column family")?;
        let mut found = 0;
        for value in self.db.batched_multi_get_cf(&family, keys, false) {
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
    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }
    fn compact(&self) -> Result<()> {
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        Ok(())
    }
    fn settle(&self) -> Result<()> {
        let mut options = rocksdb::WaitForCompactOptions::default();
        options.set_flush(true);
        Ok(self.db.wait_for_compact(&options)?)
    }
}

struct Fjall {
    database: fjall::Database,
    keyspace: fjall::Keyspace,
}

impl Fjall {
    fn open(dir: &Path, options: &Options) -> Result<Fjall> {
        let database =
            fjall::Database::builder(dir).cache_size(options.cache_bytes as u64).open()?;
        let settings = fjall::KeyspaceCreateOptions::default()
            .max_memtable_size(options.memtable_bytes as u64);
        let keyspace = database.keyspace("default", || settings)?;
        Ok(Fjall { database, keyspace })
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.keyspace.insert(key, value)?;
        if sync {
            self.database.persist(fjall::PersistMode::SyncData)?;
        }
        Ok(())
    }
    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.keyspace.get(key)?.map(|value| value.len()))
    }
    fn multi_get(&self, keys: &[[u8; 20]]) -> Result<usize> {
        // It has no batched lookup.
        let mut found = 0;
        for key in keys {
            found += usize::from(self.keyspace.get(key)?.is_some());
        }
        Ok(found)
    }
    fn seek(&self, key: &[u8], count: usize) -> Result<usize> {
        let mut bytes = 0;
        for entry in self.keyspace.range(key..).take(count) {
            let (key, value) = entry.into_inner()?;
            bytes += key.len() + value.len();
        }
        Ok(bytes)
    }
    fn scan(&self) -> Result<(u64, usize)> {
        let (mut entries, mut bytes) = (0, 0);
        for entry in self.keyspace.iter() {
            let (key, value) = entry.into_inner()?;
            entries += 1;
            bytes += key.len() + value.len();
        }
        Ok((entries, bytes))
    }
    fn iterate(&self) -> Result<Option<(u64, usize)>> {
        self.scan().map(Some)
    }
    fn flush(&self) -> Result<()> {
        Ok(self.keyspace.rotate_memtable_and_wait()?)
    }
    fn compact(&self) -> Result<()> {
        Ok(self.keyspace.major_compact()?)
    }
    fn settle(&self) -> Result<()> {
        while self.database.outstanding_flushes() > 0 || self.database.active_compactions() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(())
    }
}
