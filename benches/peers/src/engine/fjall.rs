//! fjall, with its defaults except for the sizes of cache and memtable.

use std::path::Path;

use super::{Compression, Engine, Held, Result};
use crate::Options;
use crate::keys::{Key, Run};

pub struct Fjall {
    database: fjall::Database,
    keyspace: fjall::Keyspace,
}

impl Fjall {
    pub fn open(dir: &Path, options: &Options) -> Result<Fjall> {
        if options.compression != Compression::None {
            return Err("fjall is built without compression here".into());
        }
        let database =
            fjall::Database::builder(dir).cache_size(options.cache_bytes() as u64).open()?;
        let settings = fjall::KeyspaceCreateOptions::default()
            .max_memtable_size(options.memtable_bytes() as u64);
        let keyspace = database.keyspace("default", || settings)?;
        Ok(Fjall { database, keyspace })
    }
}

impl Engine for Fjall {
    fn ingest(&self, _scratch: &Path, run: &Run) -> Result<()> {
        let mut ingestion = self.keyspace.start_ingestion()?;
        run.for_each(|key, value| Ok(ingestion.write(key, value)?))?;
        Ok(ingestion.finish()?)
    }
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
    fn multi_get(&self, keys: &[Key]) -> Result<usize> {
        // fjall has no batched lookup.
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
    fn compact(&self) -> Result<()> {
        Ok(self.keyspace.major_compact()?)
    }
    fn flush(&self) -> Result<()> {
        Ok(self.keyspace.rotate_memtable_and_wait()?)
    }
    fn settle(&self) -> Result<()> {
        while self.database.outstanding_flushes() > 0 || self.database.active_compactions() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(())
    }
    fn shape(&self) -> String {
        let (l0, all) = (self.keyspace.l0_table_count(), self.keyspace.table_count());
        format!("L0: {l0}, below: {}", all - l0)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.keyspace.remove(key)?)
    }
    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        // fjall has no range deletions.
        for entry in self.keyspace.range(begin..end) {
            self.keyspace.remove(entry.key()?)?;
        }
        Ok(())
    }
    fn first(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = self.keyspace.range(from..).next().map(|entry| entry.key()).transpose()?;
        Ok(key.map(|key| key.to_vec()))
    }
    fn last(&self, count: usize) -> Result<usize> {
        let mut bytes = 0;
        for entry in self.keyspace.iter().rev().take(count) {
            let (key, value) = entry.into_inner()?;
            bytes += key.len() + value.len();
        }
        Ok(bytes)
    }
    fn snapshot(&self) -> Box<dyn Held + '_> {
        Box::new(self.database.snapshot())
    }
    fn tables(&self) -> Result<u64> {
        Ok(self.keyspace.table_count() as u64)
    }
}
