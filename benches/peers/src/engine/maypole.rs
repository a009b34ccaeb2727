//! Maypole through its public calls, as any program would use it.

use std::path::Path;
use std::sync::Arc;

use maypole::fs::{DirectFs, Fs, RealFs};
use maypole::table::{MetadataForm, SstReader, SstWriter, TableOptions};
use maypole::{Builder, Db, Durability, FilterPolicy, Ticker, WriteBatch};

use super::{Compression, Engine, Held, Kind, NO_LIMIT, Result, Scan, TABLE_BYTES};
use crate::Options;
use crate::keys::{Key, Run};

pub struct Maypole {
    db: Db,
    compression: maypole::Compression,
    filter: String,
    metadata: MetadataForm,
}

impl Maypole {
    pub fn open(kind: Kind, dir: &Path, options: &Options) -> Result<Maypole> {
        let fs: Arc<dyn Fs> = match options.direct {
            true => Arc::new(DirectFs),
            false => Arc::new(RealFs),
        };
        let compression = match options.compression {
            Compression::None => maypole::Compression::None,
            Compression::Lz4 => maypole::Compression::Lz4,
            Compression::Zstd => maypole::Compression::Zstd,
        };
        let metadata = match kind {
            Kind::MaypoleParts => MetadataForm::Parts,
            Kind::MaypoleWhole | Kind::MaypoleWholeNone => MetadataForm::Whole,
            _ => MetadataForm::Auto,
        };
        let filter = match kind {
            Kind::MaypoleNone | Kind::MaypoleWholeNone => "none".to_string(),
            _ => options.filter.clone(),
        };
        let mut builder: Builder = Db::builder(dir)
            .metadata(metadata)
            .fs(fs)
            .filter(filter.parse::<FilterPolicy>()?)
            .compression(compression)
            .block_cache_bytes(options.cache_bytes())
            .memtable_bytes(options.memtable_bytes())
            .level_base_bytes(match options.keeps_runs() {
                true => NO_LIMIT,
                false => 4 * options.memtable_bytes() as u64,
            });
        if let Some(threads) = options.compaction_threads {
            builder = builder.compaction_threads(threads);
        }
        Ok(Maypole { db: builder.open()?, compression, filter, metadata })
    }
}

impl Engine for Maypole {
    fn ingest(&self, scratch: &Path, run: &Run) -> Result<()> {
        let options = TableOptions {
            compression: self.compression,
            filter: self.filter.parse()?,
            metadata: self.metadata,
            ..TableOptions::default()
        };
        let (mut files, mut writer) = (Vec::new(), None::<SstWriter>);
        run.for_each(|key, value| {
            if writer.as_ref().is_some_and(|writer| writer.estimated_file_bytes() >= TABLE_BYTES) {
                writer.take().map(SstWriter::finish).transpose()?;
            }
            if writer.is_none() {
                files.push(scratch.join(format!("{}.sst", files.len())));
                writer = Some(SstWriter::create(&files[files.len() - 1], options.clone())?);
            }
            Ok(writer.as_mut().expect("made above").put(key, value)?)
        })?;
        writer.map(SstWriter::finish).transpose()?;
        Ok(self.db.ingest(&files)?)
    }
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        let durability = match sync {
            true => Durability::Sync,
            false => Durability::Buffered,
        };
        Ok(self.db.write_opt(batch, durability)?)
    }
    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.db.get_with(key, <[u8]>::len)?)
    }
    fn multi_get(&self, keys: &[Key]) -> Result<usize> {
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
    fn blocks_read(&self) -> Result<u64> {
        Ok(self.db.stats().tickers.get(Ticker::FileReads))
    }
    fn metadata_bytes(&self) -> Result<u64> {
        let tables =
            self.db.stats().files.into_iter().filter_map(|file| self.db.table(file.number));
        let bytes = |table: SstReader| {
            let names = ["rocksdb.filter.size", "rocksdb.index.size"];
            names.map(|name| table.properties().number(name).unwrap_or(0)).iter().sum::<u64>()
        };
        Ok(tables.map(bytes).sum())
    }
    fn cache_bytes(&self) -> Result<u64> {
        Ok(self.db.stats().cache.iter().map(|(_, usage)| usage.bytes as u64).sum())
    }
    fn scan_from_start(&self, fills_cache: bool) -> Result<Box<dyn Scan + '_>> {
        let mut cursor = self.db.cursor().fill_cache(fills_cache);
        cursor.seek_to_first()?;
        Ok(Box::new(cursor))
    }
    fn compact(&self) -> Result<()> {
        Ok(self.db.compact_all()?)
    }
    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }
    fn settle(&self) -> Result<()> {
        Ok(self.db.wait_for_compaction()?)
    }
    fn shape(&self) -> String {
        let levels = self.db.stats().levels;
        let levels = levels.iter().map(|level| format!("L{}: {}", level.level, level.files));
        levels.collect::<Vec<_>>().join(", ")
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete(key)?)
    }
    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        Ok(self.db.delete_range(begin..end)?)
    }
    fn first(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.db.cursor();
        cursor.seek(from)?;
        Ok(cursor.valid().then(|| cursor.key().to_vec()))
    }
    fn pop_first(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        match from {
            [] => Ok(self.db.pop_first()?.map(|(key, _)| key.to_vec())),
            _ => Err("pop_first begins at the first key".into()),
        }
    }
    fn last(&self, count: usize) -> Result<usize> {
        let mut cursor = self.db.cursor();
        cursor.seek_to_last()?;
        let mut bytes = 0;
        for _ in 0..count {
            if !cursor.valid() {
                break;
            }
            bytes += cursor.key().len() + cursor.value().len();
            cursor.prev()?;
        }
        Ok(bytes)
    }
    fn snapshot(&self) -> Box<dyn Held + '_> {
        Box::new(self.db.snapshot())
    }
    fn checkpoint(&self, dir: &Path) -> Result<()> {
        Ok(self.db.checkpoint(dir)?)
    }
    fn tables(&self) -> Result<u64> {
        Ok(self.db.stats().files.len() as u64)
    }
    fn table_bytes_written(&self) -> Result<Option<u64>> {
        let tickers = self.db.stats().tickers;
        let kinds = [Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
        Ok(Some(kinds.into_iter().map(|kind| tickers.get(kind)).sum()))
    }
}

impl Scan for maypole::DbCursor {
    fn step(&mut self, entries: u64) -> Result<u64> {
        let mut stepped = 0;
        while stepped < entries && self.valid() {
            self.next()?;
            stepped += 1;
        }
        Ok(stepped)
    }
}
