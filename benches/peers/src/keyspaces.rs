//! Four keyspaces, which RocksDB calls column families, filled and read in turns.
//!
//! ```text
//! put          a random key of the next keyspace is overwritten
//! get          a random key of the next keyspace is read
//! batch        three puts in one keyspace
//! across       three puts, each in another keyspace
//! ```
//!
//! One thread. All engines run in this process, and take turns in each round. Their interfaces for
//! keyspaces are types of their own, so this workload does not use [`crate::engine`].

use std::path::Path;
use std::time::Instant;

use crate::engine::{Kind, Result, transaction_settings};
use crate::keys::{Key, Numbers, Run};
use crate::{Options, median, median_ratio};

const KEYSPACES: usize = 4;
const NAMES: [&str; KEYSPACES] = ["users", "sessions", "events", "names"];

/// A store with four keyspaces, which are named by their places.
trait Store {
    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()>;
    fn get(&self, keyspace: usize, key: &[u8]) -> Result<bool>;
    /// Writes the keys together, each to the keyspace before it.
    fn batch(&self, keys: &[(usize, &Key)], value: &[u8]) -> Result<()>;
    /// Writes everything to tables.
    fn settle(&self) -> Result<()>;
}

struct Maypole {
    keyspaces: [maypole::Db; KEYSPACES],
}

impl Store for Maypole {
    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspaces[keyspace].put(key, value)?)
    }
    fn get(&self, keyspace: usize, key: &[u8]) -> Result<bool> {
        Ok(self.keyspaces[keyspace].get(key)?.is_some())
    }
    fn batch(&self, keys: &[(usize, &Key)], value: &[u8]) -> Result<()> {
        let mut batch = maypole::WriteBatch::new();
        for (keyspace, key) in keys {
            batch.keyspace(&self.keyspaces[*keyspace]).put(key, value);
        }
        Ok(self.keyspaces[0].write(batch)?)
    }
    fn settle(&self) -> Result<()> {
        self.keyspaces.iter().try_for_each(|keyspace| Ok(keyspace.compact_all()?))
    }
}

struct Rocks(rocksdb::DB);

impl Rocks {
    fn family(&self, keyspace: usize) -> &rocksdb::ColumnFamily {
        self.0.cf_handle(NAMES[keyspace]).expect("the families were created")
    }
}

impl Store for Rocks {
    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put_cf(self.family(keyspace), key, value)?)
    }
    fn get(&self, keyspace: usize, key: &[u8]) -> Result<bool> {
        Ok(self.0.get_pinned_cf(self.family(keyspace), key)?.is_some())
    }
    fn batch(&self, keys: &[(usize, &Key)], value: &[u8]) -> Result<()> {
        let mut batch = rocksdb::WriteBatch::default();
        for (keyspace, key) in keys {
            batch.put_cf(self.family(*keyspace), key, value);
        }
        Ok(self.0.write(batch)?)
    }
    fn settle(&self) -> Result<()> {
        for keyspace in 0..KEYSPACES {
            self.0.flush_cf(self.family(keyspace))?;
            self.0.compact_range_cf(self.family(keyspace), None::<&[u8]>, None::<&[u8]>);
        }
        Ok(())
    }
}

struct Fjall {
    database: fjall::Database,
    keyspaces: Vec<fjall::Keyspace>,
}

impl Store for Fjall {
    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspaces[keyspace].insert(key, value)?)
    }
    fn get(&self, keyspace: usize, key: &[u8]) -> Result<bool> {
        Ok(self.keyspaces[keyspace].get(key)?.is_some())
    }
    fn batch(&self, keys: &[(usize, &Key)], value: &[u8]) -> Result<()> {
        let mut batch = self.database.batch();
        for (keyspace, key) in keys {
            batch.insert(&self.keyspaces[*keyspace], &key[..], value);
        }
        Ok(batch.commit()?)
    }
    fn settle(&self) -> Result<()> {
        for keyspace in &self.keyspaces {
            keyspace.rotate_memtable_and_wait()?;
            keyspace.major_compact()?;
        }
        Ok(())
    }
}

fn open(kind: Kind, dir: &Path, options: &Options) -> Result<Box<dyn Store>> {
    std::fs::create_dir_all(dir)?;
    Ok(match kind {
        Kind::Maypole => {
            let builder = maypole::Db::builder(dir).compression(maypole::Compression::None);
            let builder = builder.block_cache_bytes(options.cache_bytes());
            let db = builder.memtable_bytes(options.memtable_bytes()).open()?;
            let keyspaces: Result<Vec<_>> =
                NAMES.iter().map(|name| Ok(db.keyspace(name)?)).collect();
            let Ok(keyspaces) = keyspaces?.try_into() else { unreachable!("as many as names") };
            Box::new(Maypole { keyspaces })
        }
        Kind::Rocksdb => {
            let mut settings = transaction_settings(options);
            settings.create_missing_column_families(true);
            let families = NAMES.map(|name| (name, transaction_settings(options)));
            Box::new(Rocks(rocksdb::DB::open_cf_with_opts(&settings, dir, families)?))
        }
        Kind::Fjall => {
            let builder = fjall::Database::builder(dir);
            let database = builder.cache_size(options.cache_bytes() as u64).open()?;
            let settings = || {
                fjall::KeyspaceCreateOptions::default()
                    .max_memtable_size(options.memtable_bytes() as u64)
            };
            let keyspaces: Result<Vec<_>> =
                NAMES.iter().map(|name| Ok(database.keyspace(name, settings)?)).collect();
            let keyspaces = keyspaces?;
            Box::new(Fjall { database, keyspaces })
        }
        other => return Err(format!("{} has no keyspaces here", other.name()).into()),
    })
}

const WORKLOADS: [&str; 4] = ["put", "get", "batch", "across"];

/// The rounds of one engine: nanoseconds of each workload.
struct Measured {
    kind: Kind,
    store: Box<dyn Store>,
    ns: [Vec<f64>; WORKLOADS.len()],
}

pub fn compare(options: &Options) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let dir = options.dir.as_deref().unwrap_or(scratch.path());
    let mut engines = Vec::new();
    for &kind in &options.engines {
        eprintln!("{}: load", kind.name());
        let store = open(kind, &dir.join(kind.name()), options)?;
        let run = Run::new(options.keys(), options.values(), options.entries, 0, 1);
        // Each keyspace has all keys.
        run.for_each(|key, value| {
            (0..KEYSPACES).try_for_each(|keyspace| store.put(keyspace, key, value))
        })?;
        store.settle()?;
        engines.push(Measured { kind, store, ns: Default::default() });
    }
    let value = vec![7; options.value_bytes];
    // One round more than requested, because the first one is the warm-up.
    for round in 0..=options.rounds as u64 {
        let mut numbers = Numbers::new(round + 1);
        let keys = options.keys().random(0, options.entries, &mut numbers);
        // Other keys for each, because what was read just now is in the processor's caches.
        let count = options.operations as usize;
        let keys: Vec<Key> = keys.take(WORKLOADS.len() * count).collect();
        for Measured { store, ns, .. } in &mut engines {
            for (workload, (keys, ns)) in keys.chunks(count).zip(ns).enumerate() {
                let took = timed(&**store, WORKLOADS[workload], keys, &value)?;
                if round > 0 {
                    ns.push(took);
                }
            }
        }
    }
    print(&engines);
    Ok(())
}

/// Nanoseconds of an operation, or of a batch.
fn timed(store: &dyn Store, workload: &str, keys: &[Key], value: &[u8]) -> Result<f64> {
    let start = Instant::now();
    let mut operations = keys.len();
    match workload {
        "put" => {
            for (i, key) in keys.iter().enumerate() {
                store.put(i % KEYSPACES, key, value)?;
            }
        }
        "get" => {
            for (i, key) in keys.iter().enumerate() {
                if !store.get(i % KEYSPACES, key)? {
                    return Err("a present key was not found".into());
                }
            }
        }
        _ => {
            let apart = usize::from(workload == "across");
            operations = keys.len() / 3;
            for (i, of_batch) in keys.chunks_exact(3).enumerate() {
                let keyspace = |n: usize| (i + n * apart) % KEYSPACES;
                let keys = [0, 1, 2].map(|n| (keyspace(n), &of_batch[n]));
                store.batch(&keys, value)?;
            }
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / operations as f64)
}

fn print(engines: &[Measured]) {
    let Some(first) = engines.first() else { return };
    let head = WORKLOADS.map(|workload| format!("{workload:>10}")).concat();
    let of = format!("of {}'s", first.kind.name());
    println!("{:<12}{head}{:>16}  {of:>14}", "ns", "across/batch");
    for Measured { kind, ns, .. } in engines {
        let times = ns.each_ref().map(|ns| format!("{:>10.0}", median(ns.clone()))).concat();
        let ratios =
            ns.iter().zip(&first.ns).map(|(own, base)| format!("{:.3}", median_ratio(own, base)));
        let ratios = ratios.collect::<Vec<_>>().join(" ");
        println!("{:<12}{times}{:>16.2}  {ratios}", kind.name(), median_ratio(&ns[3], &ns[2]));
    }
}
