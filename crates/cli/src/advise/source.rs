//! The database that is examined: RocksDB's or Maypole's, opened without writing anything.

use std::path::Path;

use maypole::{Db, Error, RocksDb};

use super::log_file::LogFile;
use super::wanted::Wanted;
use crate::args::{self, Bytes};
use crate::failure::Result;
use crate::show::text::escape;

/// The size of this process's block cache, which holds filters and indexes of the tables that are
/// queried.
const CACHE_BYTES: usize = 256 << 20;

/// The engine that wrote the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    RocksDb,
    Maypole,
}

/// A column family of RocksDB, or a keyspace of Maypole, that can be read.
pub struct Family {
    /// Its name with escapes, as it is printed.
    pub name: String,
    pub db: Db,
    pub wanted: Wanted,
    /// Capacity of the column family's block cache in bytes, as RocksDB's LOG states it.
    pub cache_bytes: Option<u64>,
}

pub struct Source {
    pub engine: Engine,
    pub families: Vec<Family>,
    /// The names of the column families that are not read, with escapes, and why.
    pub refused: Vec<(String, String)>,
    pub log: LogFile,
}

/// Opens the database in `dir`, with the column family or keyspace `only`, or with all of them if
/// `only` is `None`.
pub fn open(dir: &Path, only: Option<&Bytes>) -> Result<Source> {
    let options = Db::builder(dir).block_cache_bytes(CACHE_BYTES);
    match options.clone().open_read_only() {
        Ok(db) => of_maypole(&db, only),
        // A LevelDB database could be opened as RocksDB's, but is rejected, because its filters
        // could not be read.
        Err(error @ Error::Unsupported { .. })
            if error.to_string().contains("this is a database of LevelDB") =>
        {
            Err(error.into())
        }
        Err(error) => of_rocksdb(&args::open_rocksdb(options, error)?, dir, only),
    }
}

/// The keyspace `only`, or all that have tables; `default` if none has.
fn of_maypole(db: &Db, only: Option<&Bytes>) -> Result<Source> {
    let mut opened = match only {
        Some(only) => vec![args::existing_keyspace(db, &only.0)?],
        None => {
            let all = db.keyspaces().into_iter().map(|name| db.keyspace(name));
            all.collect::<std::result::Result<_, _>>()?
        }
    };
    if only.is_none() && opened.len() > 1 {
        opened.retain(|keyspace| !keyspace.stats().files.is_empty());
        if opened.is_empty() {
            opened.push(db.clone());
        }
    }
    let family = |db: Db| Family {
        name: escape(db.keyspace_name()),
        db,
        wanted: Wanted::default(),
        cache_bytes: None,
    };
    Ok(Source {
        engine: Engine::Maypole,
        families: opened.into_iter().map(family).collect(),
        refused: Vec::new(),
        log: LogFile::default(),
    })
}

fn of_rocksdb(rocks: &RocksDb, dir: &Path, only: Option<&Bytes>) -> Result<Source> {
    let mut log = LogFile::read(dir);
    // LOG counts all column families together. So its counters are used only if there is just one.
    log.counters = log.counters.filter(|_| rocks.column_families().len() == 1);
    let mut source =
        Source { engine: Engine::RocksDb, families: Vec::new(), refused: Vec::new(), log };
    if let Some(name) = only {
        // If there is no such family, this fails with a list of the names.
        rocks.column_family(&name.0)?;
    }
    for family in rocks.column_families() {
        let name = &family.name;
        if only.is_some_and(|only| only.0 != *name) {
            continue;
        }
        match rocks.column_family(name) {
            Ok(db) => source.families.push(Family {
                name: escape(name),
                db,
                wanted: Wanted::of(|option| rocks.option(name, option)),
                cache_bytes: source.log.capacity_bytes(name),
            }),
            Err(error) => source.refused.push((escape(name), error.to_string())),
        }
    }
    Ok(source)
}
