//! Transactions of one read and one write, next to the same read and write without one.
//!
//! ```text
//! get + put     the value of a random key is read and written, with nothing between the two
//! transaction   the same in an optimistic transaction, which commits
//! ```
//!
//! One thread, so that no transaction conflicts. All engines run in this process, and take turns in
//! each round. Their interfaces for transactions are types of their own, so this workload does not
//! use [`crate::engine`].

use std::path::Path;
use std::time::Instant;

use crate::engine::{Kind, Result, transaction_settings};
use crate::keys::{Key, Numbers, Run};
use crate::{Options, median, median_ratio};

/// A store with optimistic transactions.
trait Store {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    fn get(&self, key: &[u8]) -> Result<bool>;
    /// Reads and writes the key in a transaction. Returns whether it was there.
    fn transact(&self, key: &[u8], value: &[u8]) -> Result<bool>;
    /// Writes everything to tables.
    fn settle(&self) -> Result<()>;
}

struct Maypole(maypole::Db);

impl Store for Maypole {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }
    fn get(&self, key: &[u8]) -> Result<bool> {
        Ok(self.0.get(key)?.is_some())
    }
    fn transact(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let mut tx = self.0.transaction();
        let is_there = tx.get(key)?.is_some();
        tx.put(key, value);
        tx.commit()?;
        Ok(is_there)
    }
    fn settle(&self) -> Result<()> {
        Ok(self.0.compact_all()?)
    }
}

struct Rocks(rocksdb::OptimisticTransactionDB);

impl Store for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }
    fn get(&self, key: &[u8]) -> Result<bool> {
        Ok(self.0.get_pinned(key)?.is_some())
    }
    fn transact(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let tx = self.0.transaction();
        // Only a read for update is validated.
        let is_there = tx.get_for_update(key, true)?.is_some();
        tx.put(key, value)?;
        tx.commit()?;
        Ok(is_there)
    }
    fn settle(&self) -> Result<()> {
        self.0.flush()?;
        self.0.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }
}

struct Fjall {
    database: fjall::OptimisticTxDatabase,
    keyspace: fjall::OptimisticTxKeyspace,
}

impl Store for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        // Not through the transactional keyspace, which makes a transaction of it.
        Ok(self.keyspace.inner().insert(key, value)?)
    }
    fn get(&self, key: &[u8]) -> Result<bool> {
        Ok(self.keyspace.get(key)?.is_some())
    }
    fn transact(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        use fjall::Readable;
        let mut tx = self.database.write_tx()?;
        let is_there = tx.get(&self.keyspace, key)?.is_some();
        tx.insert(&self.keyspace, key, value);
        tx.commit()?.map_err(|_| "a conflict, although nobody else writes")?;
        Ok(is_there)
    }
    fn settle(&self) -> Result<()> {
        self.keyspace.inner().rotate_memtable_and_wait()?;
        Ok(self.keyspace.inner().major_compact()?)
    }
}

fn open(kind: Kind, dir: &Path, options: &Options) -> Result<Box<dyn Store>> {
    std::fs::create_dir_all(dir)?;
    Ok(match kind {
        Kind::Maypole => {
            let builder = maypole::Db::builder(dir).compression(maypole::Compression::None);
            let builder = builder.block_cache_bytes(options.cache_bytes());
            Box::new(Maypole(builder.memtable_bytes(options.memtable_bytes()).open()?))
        }
        Kind::Rocksdb => Box::new(Rocks(rocksdb::OptimisticTransactionDB::open(
            &transaction_settings(options),
            dir,
        )?)),
        Kind::Fjall => {
            let builder = fjall::OptimisticTxDatabase::builder(dir);
            let database = builder.cache_size(options.cache_bytes() as u64).open()?;
            let settings = fjall::KeyspaceCreateOptions::default()
                .max_memtable_size(options.memtable_bytes() as u64);
            let keyspace = database.keyspace("default", || settings)?;
            Box::new(Fjall { database, keyspace })
        }
        other => return Err(format!("{} has no transactions here", other.name()).into()),
    })
}

/// The rounds of one engine.
struct Measured {
    kind: Kind,
    store: Box<dyn Store>,
    get_put: Vec<f64>,
    transaction: Vec<f64>,
}

pub fn compare(options: &Options) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let dir = options.dir.as_deref().unwrap_or(scratch.path());
    let mut engines = Vec::new();
    for &kind in &options.engines {
        eprintln!("{}: load", kind.name());
        let store = open(kind, &dir.join(kind.name()), options)?;
        let run = Run::new(options.keys(), options.values(), options.entries, 0, 1);
        run.for_each(|key, value| store.put(key, value))?;
        store.settle()?;
        engines.push(Measured { kind, store, get_put: Vec::new(), transaction: Vec::new() });
    }
    let value = vec![7; options.value_bytes];
    // One round more than requested, because the first one is the warm-up.
    for round in 0..=options.rounds as u64 {
        let mut numbers = Numbers::new(round + 1);
        let keys = options.keys().random(0, options.entries, &mut numbers);
        // Other keys for each, because what was read just now is in the processor's caches.
        let keys: Vec<Key> = keys.take(2 * options.operations as usize).collect();
        let (first, second) = keys.split_at(options.operations as usize);
        for Measured { store, get_put, transaction, .. } in &mut engines {
            let read_and_put = |key: &Key| {
                let is_there = store.get(key)?;
                store.put(key, &value)?;
                Ok(is_there)
            };
            let ns =
                [timed(first, read_and_put)?, timed(second, |key| store.transact(key, &value))?];
            if round > 0 {
                get_put.push(ns[0]);
                transaction.push(ns[1]);
            }
        }
    }
    print(&engines);
    Ok(())
}

/// Nanoseconds of an operation. Every key must be there.
fn timed(keys: &[Key], work: impl Fn(&Key) -> Result<bool>) -> Result<f64> {
    let start = Instant::now();
    for key in keys {
        if !work(key)? {
            return Err("a present key was not found".into());
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / keys.len() as f64)
}

fn print(engines: &[Measured]) {
    let Some(first) = engines.first() else { return };
    println!(
        "{:<12}{:>14}{:>16}{:>8}{:>24}",
        "ns",
        "get + put",
        "transaction",
        "ratio",
        format!("of {}'s", first.kind.name())
    );
    for Measured { kind, get_put, transaction, .. } in engines {
        println!(
            "{:<12}{:>14.0}{:>16.0}{:>8.2}{:>24.3}",
            kind.name(),
            median(get_put.clone()),
            median(transaction.clone()),
            median_ratio(transaction, get_put),
            median_ratio(transaction, &first.transaction)
        );
    }
}
