//! Repair: turns what is left of a directory into a database that opens.
//!
//! ```text
//! LOCK ─► sound? every byte is read ──────────────────────────────────────► nothing is changed
//!      ─► MANIFEST whole:  the tables it lists stay where they are,
//!                          damaged ones are salvaged block by block,
//!                          misnamed ones get their names back             ┐
//!      ─► parts or none:   all tables but those known to be obsolete,     ├─► new tables, in lost/
//!                          and all WALs, are merged into new ones         │
//!      ─► WALs:            the prefix that can be read becomes tables     ┘
//!      ─► the new tree replaces the old one (install.rs)
//! ```
//!
//! Each keyspace has a tree of its own, and its tables are merged with each other only
//! (`keyspaces.rs`).
//!
//! **Why all tables are merged** if no MANIFEST describes the tree: a lookup takes the first table
//! that has the key, so it must know which of two tables is newer *for each key*. The largest
//! sequence numbers of the tables do not tell this: a table of level 6 may hold a write of one key
//! that is newer than a write of another key in level 1. Only the sequence number of each entry
//! tells it, and a merge compares these numbers. The merge reads and writes all data once.
//!
//! **No old table, WAL or MANIFEST is deleted.** Those that are left out or replaced are in `lost/`
//! afterwards. A crash at any point leaves a directory that can be repaired again: until `CURRENT`
//! names the new MANIFEST, the old files keep their names, and the new tables only repeat entries
//! of old ones.

mod install;
mod keyspaces;
mod logs;
mod manifests;
pub(in crate::db) mod report;
mod tables;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use report::{Loss, RepairReport};

use super::open::directory::{Directory, OpenTables, no_database, table_store};
use super::open::recover::Replay;
use super::options::Builder;
use crate::error::{Damage, Result};
use crate::fs;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::version::names::FileKind;
use crate::version::{KeyspaceId, Recovered, TableStore, names, order};
use keyspaces::Keyspaces;
use manifests::ListedTree;
use work::{LOST, Repair, is_table_damage};

pub(super) fn repair(options: &Builder) -> Result<RepairReport> {
    let (fs, dir) = (&options.fs, &options.path);
    // This check comes before the lock, because taking the lock creates a file, which must not
    // appear in a foreign directory.
    let is_ours = |name: &String| name == "CURRENT" || names::parse(name).is_some();
    if !fs.exists(dir)? || !fs.list(dir)?.iter().any(is_ours) {
        return Err(no_database(dir));
    }
    tables::refuse_other_engines(&**fs, dir)?;
    let _lock = fs.lock(&names::lock_path(dir))?;
    match look(options) {
        Ok(report) => return Ok(report),
        Err(error) if is_table_damage(&error) => {}
        Err(error) => return Err(error),
    }

    let mut kinds = Vec::new();
    for name in fs::names_in(&**fs, dir)? {
        kinds.extend(names::parse(&name));
    }
    let manifests: Vec<u64> = kinds
        .iter()
        .filter_map(|kind| if let FileKind::Manifest(number) = kind { Some(*number) } else { None })
        .collect();
    let mut problems = Vec::new();
    let mut tree = manifests::read(&**fs, dir, manifests.clone(), &mut problems)?;
    if let ListedTree::Whole(recovered) = &tree {
        let parts = manifests::read_parts(&**fs, dir, manifests)?;
        if recovered.is_of_the_past(&kinds, &parts) {
            let what = "the MANIFEST lists files that are missing and lacks tables that are there: its \
                        end is lost";
            problems.push(format!("{}: {what}", dir.display()));
            tree = ListedTree::Parts(parts);
        }
    }
    let most = tree.most_file_number();
    for number in kinds.iter().filter_map(|kind| kind.number()).filter(|&number| number > most) {
        let what = format!("file {number} is left alone, as the numbers here go up to {most}");
        problems.push(format!("{}: {what}", dir.display()));
    }
    let mut repair = Repair::new(options, &tree, kinds)?;
    repair.report.problems = problems;
    repair.run(&tree)?;
    repair.install()
}

/// Checks whether the database is sound: reads it like an opening, and then every byte of every
/// table. Returns any damage as an error.
fn look(options: &Builder) -> Result<RepairReport> {
    let directory = Directory::read(&*options.fs, &options.path)?;
    directory.refuse_lost_current(&*options.fs, &options.path)?;
    let Some(Recovered { manifest: (manifest_number, _), .. }) = directory.recovered else {
        let damage = Damage::new(0, "the name of a MANIFEST", "no such file");
        return Err(damage.in_file(&names::current_path(&options.path), 0));
    };
    let store = table_store(options, &directory, false);
    let (replayed, _) = Replay::run(&store, options, &directory, &mut OpenTables::new(), false)?;
    let mut report = RepairReport::default();
    let mut newest = 0;
    let versions: Vec<_> = replayed.trees.values().map(|tree| &tree.version).collect();
    for (_, file) in versions.iter().flat_map(|version| version.files()) {
        let survey = tables::check_whole(&file.table)?;
        tables::check_sequences(&file.table, &file.meta, &survey)?;
        report.not_understood.extend(survey.not_understood(file.path()));
        report.tables += 1;
        report.entries += file.meta.entries;
        newest = newest.max(file.meta.largest_sequence);
    }
    for version in versions {
        if let Some(disorder) = order::find_disorder(version, || Ok(()))? {
            return Err(disorder);
        }
    }
    if newest > replayed.last_sequence {
        let path = options.path.join(names::manifest_name(manifest_number));
        let expected = format_args!("a last write of at least {newest}, as a table has that one");
        return Err(Damage::new(0, expected, replayed.last_sequence).in_file(&path, 0));
    }
    Ok(report)
}

impl<'a> Repair<'a> {
    fn new(options: &'a Builder, tree: &ListedTree, kinds: Vec<FileKind>) -> Result<Repair<'a>> {
        let (fs, dir) = (Arc::clone(&options.fs), options.path.clone());
        let most = tree.most_file_number();
        let (next_file, db_identity, last_sequence) = match tree {
            ListedTree::Whole(it) => (it.next_file, it.db_identity.clone(), it.flushed_sequence),
            ListedTree::Parts(it) => (it.next_file, it.db_identity.clone(), it.flushed_sequence),
        };
        let defaults = &options.tree;
        let keyspaces = match tree {
            ListedTree::Whole(it) => {
                Keyspaces::new(defaults, &it.keyspaces, BTreeSet::new(), it.next_keyspace, true)
            }
            ListedTree::Parts(it) => {
                let dropped = it.dropped.clone();
                Keyspaces::new(defaults, &it.keyspaces, dropped, it.next_keyspace, false)
            }
        }?;
        let lost = dir.join(LOST);
        fs::create_dir_durably(&*fs, &lost)?;
        let mut files: Vec<(u64, FileKind)> =
            kinds.into_iter().filter_map(|kind| Some((kind.number()?, kind))).collect();
        files.retain(|&(number, _)| number <= most);
        files.sort_unstable_by_key(|&(number, _)| number);
        // The numbers of files that an earlier repair left in `lost/` are not assigned again.
        let left = fs.list(&lost)?;
        let left = left.iter().filter_map(|name| names::parse(name)?.number());
        let left = left.filter(|&number| number <= most);
        let used = files.iter().map(|&(number, _)| number).chain(left).max().unwrap_or(0);
        let directory = Directory {
            recovered: Some(Recovered {
                next_file: next_file.max(used + 1),
                db_identity,
                ..Recovered::default()
            }),
            files,
            ..Directory::default()
        };
        let whole = table_store(options, &directory, false);
        let next_file = Arc::new(AtomicU64::new(whole.next_file.load(Ordering::Relaxed)));
        let store = TableStore { dir: lost, next_file, ..whole.clone() };
        let tables = directory.files.iter().filter_map(|(_, kind)| kind.table());
        Ok(Repair {
            options,
            fs,
            dir,
            whole,
            store,
            keyspaces,
            tables: tables.collect(),
            newest: Vec::new(),
            last_sequence,
            tree: Vec::new(),
            is_done: false,
            may_hold_unknown: false,
            report: RepairReport { changed: true, ..RepairReport::default() },
        })
    }

    /// Makes the new trees.
    fn run(&mut self, tree: &ListedTree) -> Result<()> {
        self.read_and_write(tree)?;
        let stated = self.last_sequence;
        self.include_tree();
        if stated < self.last_sequence {
            let what = format!(
                "{}: the last write was {stated}, and a table has write {}: it is the last one",
                self.dir.display(),
                self.last_sequence
            );
            self.report.problems.push(what);
        }
        Ok(())
    }

    /// Raises the last sequence number to the largest one of the tree, if a MANIFEST states a
    /// smaller one. Otherwise the next write could get a smaller number than an entry of the tree,
    /// and count as older than this entry.
    fn include_tree(&mut self) {
        let newest = self.tree.iter().map(|it| it.file.meta.largest_sequence);
        self.last_sequence = newest.max().unwrap_or(0).max(self.last_sequence);
    }

    /// Reads what can be read, and writes the new tables.
    fn read_and_write(&mut self, tree: &ListedTree) -> Result<()> {
        match tree {
            ListedTree::Whole(recovered) => {
                self.listed_tables(recovered)?;
                let wals = self.wals(recovered.oldest_wal)?;
                self.logs(&wals, Some(recovered), &recovered.skipped)?;
                for keyspace in self.filled_keyspaces() {
                    if let Some(why) = self.why_merge(keyspace)? {
                        let of = self.keyspaces.of(keyspace);
                        self.report.problems.push(format!("{why}: all tables{of} are merged"));
                        self.merge_all(keyspace)?;
                    }
                }
            }
            ListedTree::Parts(parts) => {
                let what = format!(
                    "{}: no MANIFEST describes the tree: all tables and logs are merged",
                    self.dir.display()
                );
                self.report.problems.push(what);
                self.report.deleted_keys_may_return = true;
                self.look_for_keyspaces()?;
                self.all_tables(parts)?;
                let wals = self.wals(parts.oldest_wal)?;
                self.logs(&wals, None, &parts.skipped)?;
                for keyspace in self.filled_keyspaces() {
                    self.merge_all(keyspace)?;
                }
            }
        }
        Ok(())
    }

    /// Why lookups cannot rely on the levels that the MANIFEST lists, and the places of the tables
    /// in level 0; `None` if they can. Other builds of Maypole may have left such a tree.
    fn why_merge(&self, keyspace: KeyspaceId) -> Result<Option<String>> {
        let version = self.version(keyspace);
        if let Some((level, one, other)) = version.overlap() {
            let (one, other) = (one.number, other.number);
            return Ok(Some(format!("tables {one} and {other} of level {level} overlap")));
        }
        let disorder = order::find_disorder(&version, || Ok(()))?;
        Ok(disorder.map(|error| error.to_string()))
    }

    /// Numbers of the WALs from `oldest` on, ascending.
    fn wals(&self, oldest: u64) -> Result<Vec<u64>> {
        let mut wals = Vec::new();
        for name in fs::names_in(&*self.fs, &self.dir)? {
            if let Some(FileKind::Wal(number)) = names::parse(&name)
                && number >= oldest
                && number < self.whole.next_file.load(Ordering::Relaxed)
            {
                wals.push(number);
            }
        }
        wals.sort_unstable();
        Ok(wals)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Db;
    use crate::fs::{Fs, MemFs};
    use crate::version::{FileMeta, Manifest, ROLL_AFTER_BYTES, VersionEdit, read_current};

    /// Regression: a repair assumed that the last write had sequence number 0, and wrote that into
    /// the MANIFEST. Later writes got smaller sequence numbers than the entries of the tables, so a
    /// compaction treated the later writes as the older ones. A second repair reported "sound". Now
    /// a repair raises the last sequence number to the largest one in the tables.
    #[test]
    fn a_last_write_below_that_of_a_table_is_raised() {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let (dir, builder) = (Path::new("/db"), || Db::builder("/db").fs(Arc::clone(&fs)));
        let db = builder().open().unwrap();
        (0..20).for_each(|n| db.put(format!("{n}"), "old").unwrap());
        db.flush().unwrap();
        db.close().unwrap();
        let found = read_current(&*fs, dir).unwrap().unwrap();
        let tree = VersionEdit {
            next_file: Some(found.next_file + 10),
            flushed_sequence: Some(0),
            oldest_wal: Some(found.next_file + 9),
            added: found.files.into_values().collect(),
            ..VersionEdit::default()
        };
        Manifest::create(&fs, dir, found.next_file + 9, &tree, ROLL_AFTER_BYTES).unwrap();
        let report = builder().repair().unwrap();
        assert!(report.changed && report.losses.is_empty(), "{report}");
        assert!(report.problems.iter().any(|line| line.contains("write 20")), "{report}");
        let db = builder().open().unwrap();
        assert_eq!((db.snapshot().sequence(), db.len().unwrap()), (20, 20));
        db.put("7", "new").unwrap();
        db.compact_all().unwrap();
        assert_eq!(db.get("7").unwrap().unwrap(), b"new");
        db.close().unwrap();
        assert!(!builder().repair().unwrap().changed);
    }

    /// Builds of Maypole left trees in which an old version of a key is found before a newer one,
    /// and `verify` and `repair` called them sound. Now `verify` names the key and the two tables,
    /// and a repair merges all tables, which orders the versions by their sequence numbers.
    #[test]
    fn a_tree_that_shows_an_old_version_first_is_named_and_merged() {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let (dir, builder) = (Path::new("/db"), || Db::builder("/db").fs(Arc::clone(&fs)));
        for (old, new) in [("old", Some("new")), ("old", None)] {
            let db = builder().open().unwrap();
            db.put("key", old).unwrap();
            db.put("other", "x").unwrap();
            db.flush().unwrap();
            match new {
                Some(new) => db.put("key", new).unwrap(),
                None => db.delete_range("k".."l").unwrap(),
            }
            db.flush().unwrap();
            db.close().unwrap();
            let found = read_current(&*fs, dir).unwrap().unwrap();
            let newest = found.files.values().map(|(_, meta)| meta.largest_sequence).max().unwrap();
            let level = |meta: &FileMeta| if meta.largest_sequence == newest { 6 } else { 0 };
            let added = found.files.into_values().map(|(_, meta)| (level(&meta), meta));
            let harmed = VersionEdit {
                next_file: Some(found.next_file + 10),
                flushed_sequence: Some(newest),
                oldest_wal: Some(found.next_file + 9),
                added: added.collect(),
                ..VersionEdit::default()
            };
            Manifest::create(&fs, dir, found.next_file + 9, &harmed, ROLL_AFTER_BYTES).unwrap();

            // A compaction of this tree could do more harm.
            let db = builder().open_read_only().unwrap();
            assert_eq!(db.get("key").unwrap().unwrap(), b"old", "the tree is not harmed");
            let error = db.verify().unwrap_err().to_string();
            assert!(error.contains("\"key\"") && error.matches(".sst").count() == 2, "{error}");
            db.close().unwrap();
            let report = builder().repair().unwrap();
            assert!(report.changed && report.losses.is_empty(), "{report}");
            let db = builder().open().unwrap();
            assert_eq!(db.get("key").unwrap().as_deref(), new.map(str::as_bytes));
            assert_eq!(db.get("other").unwrap().unwrap(), b"x");
            db.verify().unwrap();
            db.delete_range(.."z").unwrap();
            db.compact_all().unwrap();
            db.close().unwrap();
        }
    }

    /// A table was salvaged without its newest entry, and so without its largest sequence number,
    /// which decides what is newer in level 0. Now the new table takes the place of the old one.
    #[test]
    fn a_salvaged_table_keeps_its_place_in_level_0() {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let (dir, builder) = (Path::new("/db"), || Db::builder("/db").fs(Arc::clone(&fs)));
        let db = builder().compression(crate::Compression::None).open().unwrap();
        (0..200).for_each(|n| db.put(format!("{n:03}"), [b'v'; 100]).unwrap());
        db.put("999", "the newest entry").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let place = || {
            let files = read_current(&*fs, dir).unwrap().unwrap().files;
            let (level, meta) = files.into_values().next().unwrap();
            (level, meta.number, meta.largest_sequence, meta.entries)
        };
        let (level, number, largest, entries) = place();
        assert_eq!(level, 0);
        let path = names::table_path(dir, number);
        let file = fs.open(&path).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        let newest = bytes.windows(10).position(|window| window == b"the newest").unwrap();
        bytes[newest] ^= 1;
        let mut damaged = fs.create(&path).unwrap();
        damaged.append(&bytes).unwrap();
        damaged.sync().unwrap();
        drop(damaged);
        assert_eq!(builder().repair().unwrap().losses.len(), 1);
        let (level, salvaged, place, salvaged_entries) = place();
        assert_eq!((level, place), (0, largest));
        assert!(salvaged != number && salvaged_entries < entries);
        let db = builder().open().unwrap();
        assert!(db.get("000").unwrap().is_some() && db.get("999").unwrap().is_none());
        db.verify().unwrap();
    }
}
