//! Makes a read-only database for each column family of a RocksDB directory.
//!
//! ```text
//!   CURRENT ─► MANIFEST ─► tables, all of them opened ─► logs ─► is CURRENT still the same, has the
//!        ▲                        │                       │      MANIFEST its length?
//!        └────────────────────────┴───────────────────────┴── no, or a file is gone: once more
//! ```
//!
//! Nothing is written and no lock is taken, so a writer may continue meanwhile. It may delete
//! tables and logs, and it may write a new log over the file of an old one, which then seems to end
//! early. Before each of these steps, the writer adds a record to the MANIFEST. So what was read
//! counts only if the MANIFEST did not grow while it was read.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::sync::Arc;
use std::time::Duration;

use super::database::{ColumnFamily, RocksDb};
use super::groups::is_mixed;
use crate::cache::BlockCache;
use crate::db::db::Db;
use crate::db::open::directory::{Directory as NoFiles, check_disjoint, no_database, table_store};
use crate::db::open::read_only::{OpenedTables, allow_open_files};
use crate::db::open::recover::{Replayed, ReplayedTree};
use crate::db::open::writable::only_read;
use crate::db::options::{Builder, CacheChoice};
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::rocksdb::{Directory, Family, ListedTable, Operation, replay_logs};
use crate::sync::atomic::Ordering;
use crate::sync::thread;
use crate::table::BYTEWISE_COMPARATOR;
use crate::version::{FileMeta, TableStore, Version};

/// The most attempts to read the directory. After that the error says that the writer changed the
/// directory during each attempt.
const MAX_TRIES: u32 = 10;
/// How many attempts in a row must find the same damage or miss the same file, with the same
/// MANIFEST, before the error is returned. Any other error is returned at once.
const BELIEVED_AFTER: u32 = 3;
/// The wait before the second attempt. Each later wait is longer by this time.
const WAIT: Duration = Duration::from_millis(5);

pub(in crate::db) fn open(mut options: Builder) -> Result<RocksDb> {
    if !options.fs.exists(&options.path)? {
        return Err(no_database(&options.path));
    }
    // All families share one cache.
    if let CacheChoice::Own(bytes) = options.cache {
        options.cache = CacheChoice::Shared(BlockCache::new(bytes));
    }
    let options = options.anchored()?;
    let mut kept = BTreeMap::new();
    let mut last = None;
    let mut met = 0;
    for tried in 1..=MAX_TRIES {
        let mut seen = None;
        match attempt(&options, &mut kept, &mut seen) {
            Ok(Some(rocks)) => return Ok(rocks),
            Ok(None) => last = None,
            Err(error) if error.is_damage() => {
                let failure = Some((error.to_string(), seen));
                met = if last == failure { met + 1 } else { 1 };
                if met >= BELIEVED_AFTER {
                    return Err(error);
                }
                last = failure;
            }
            Err(error) => return Err(error),
        }
        thread::sleep(WAIT * tried);
    }
    Err(Error::InvalidArgument(format!(
        "{}: its writer changed it during each of {MAX_TRIES} readings; try again, or read a \
         checkpoint of it",
        options.path.display()
    )))
}

/// Number and length of a MANIFEST.
type Seen = Option<(u64, u64)>;

/// Reads everything once. `None`: the directory changed meanwhile. `kept` holds the tables that
/// earlier attempts opened. `seen` gets the MANIFEST that this attempt reads.
fn attempt(
    options: &Builder,
    kept: &mut BTreeMap<u32, OpenedTables>,
    seen: &mut Seen,
) -> Result<Option<RocksDb>> {
    let directory = Directory::read(&*options.fs, &options.path)?;
    let manifest = &directory.manifest;
    *seen = Some((manifest.number, manifest.file_bytes));
    let families = manifest.families.values();
    allow_open_files(families.map(|family| family.tables.len() as u64).sum())?;
    kept.retain(|id, _| manifest.families.contains_key(id));
    let mut trees = BTreeMap::new();
    for (&id, family) in manifest.families.iter().filter(|(_, it)| it.refusal().is_none()) {
        let kept = kept.entry(id).or_default();
        trees.insert(id, FamilyTree::open(options, &directory, family, kept)?);
    }
    let last_sequence = replay_logs(&*options.fs, &directory, |sequence, operation| {
        if let Some(tree) = trees.get_mut(&operation.family) {
            tree.insert(sequence, operation, options.tree.memtable_bytes);
        }
    })?;
    if directory.has_changed(&*options.fs)? {
        return Ok(None);
    }
    let mut rocks = RocksDb {
        options: directory.options.clone(),
        path: options.path.clone(),
        families: Vec::new(),
        databases: Vec::new(),
        with_blobs: Vec::new(),
    };
    for (id, family) in &manifest.families {
        rocks.families.push(described(&directory, family));
        let with_blobs = family.tables.values().find(|table| table.oldest_blob_file > 0);
        rocks.with_blobs.push(with_blobs.map(|table| table.number));
        let tree = trees.remove(id);
        rocks.databases.push(tree.map(|tree| tree.into_db(options, last_sequence)));
    }
    Ok(Some(rocks))
}

fn described(directory: &Directory, family: &Family) -> ColumnFamily {
    let policy = directory.options.as_ref().and_then(|it| it.table(&family.name, "filter_policy"));
    ColumnFamily {
        name: family.name.clone(),
        id: family.id,
        comparator: family.comparator.clone().unwrap_or_else(|| BYTEWISE_COMPARATOR.into()),
        tables: family.tables.len(),
        file_bytes: family.tables.values().map(|table| table.file_bytes).sum(),
        filter_policy: policy.filter(|policy| *policy != "nullptr").map(str::to_owned),
        not_supported: family.refusal(),
    }
}

/// A column family being opened.
struct FamilyTree {
    store: TableStore,
    replayed: ReplayedTree,
}

impl FamilyTree {
    fn open(
        options: &Builder,
        directory: &Directory,
        family: &Family,
        kept: &mut OpenedTables,
    ) -> Result<FamilyTree> {
        let mut store = table_store(options, &NoFiles::default(), true);
        // A number above those of all tables, whatever the MANIFEST says, because an import numbers
        // its new tables from here on.
        let last = family.tables.last_key_value().map_or(0, |(&number, _)| number);
        store.next_file.store(directory.manifest.next_file.max(last + 1), Ordering::Relaxed);
        store.context = kept.context.get_or_insert(store.context).clone();
        kept.tables.retain(|number, file| {
            let listed = family.tables.get(number).map(meta_of);
            listed.is_some_and(|listed| {
                (listed.file_bytes, &listed.smallest, &listed.largest)
                    == (file.meta.file_bytes, &file.meta.smallest, &file.meta.largest)
            })
        });
        let mut tables = Vec::new();
        for (&number, table) in &family.tables {
            let level = table.level as usize;
            let file = match kept.tables.entry(number) {
                btree_map::Entry::Occupied(open) => open.into_mut(),
                btree_map::Entry::Vacant(new) => {
                    let path = directory.table_path(number);
                    new.insert(store.open_listed(meta_of(table), level, path)?)
                }
            };
            tables.push((level, Arc::clone(file)));
        }
        let version = Version::of(tables);
        let epoch_of = |number| family.tables.get(&number).map_or(0, |table| table.epoch);
        let version = match is_mixed(&version, epoch_of) {
            true => version.mixed(),
            false => version,
        };
        check_disjoint(&version, &directory.manifest.path)?;
        let replayed = ReplayedTree::new(options.tree.clone(), &family.name, version);
        Ok(FamilyTree { store, replayed })
    }

    fn insert(&mut self, sequence: SequenceNumber, op: Operation<'_>, memtable_bytes: usize) {
        self.replayed.writer.insert(op.key, sequence, op.kind, op.value);
        if self.replayed.writer.is_full(memtable_bytes) {
            self.replayed.freeze();
        }
    }

    fn into_db(self, options: &Builder, last_sequence: SequenceNumber) -> Db {
        let FamilyTree { store, replayed } = self;
        let largest = replayed.version.files().map(|(_, file)| file.meta.largest_sequence).max();
        let replayed = Replayed::of_one(replayed, last_sequence.max(largest.unwrap_or(0)));
        Db::of(only_read(options.clone(), store, replayed))
    }
}

/// What the MANIFEST says of a table, in Maypole's form.
fn meta_of(table: &ListedTable) -> FileMeta {
    FileMeta {
        number: table.number,
        file_bytes: table.file_bytes,
        smallest_sequence: table.smallest_sequence,
        largest_sequence: table.largest_sequence,
        smallest: table.smallest.clone(),
        largest: table.largest.clone(),
        identity: table.identity,
        ..FileMeta::default()
    }
}
