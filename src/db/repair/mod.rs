//! Repair: from what is left of a directory to a database that opens.
//!
//! ```text
//! LOCK ─► sound? every byte is read ──────────────────────────────────────► nothing is changed
//!      ─► MANIFEST whole:  the tables it lists stay where they are,
//!                          damaged ones are salvaged block by block,
//!                          those that changed places are put right        ┐
//!      ─► parts or none:   all tables but those known to have left the    ├─► new tables, in lost/
//!                          tree, and all logs, are merged into new ones   │
//!      ─► logs:            the prefix that can be read becomes tables     ┘
//!      ─► the new tables get their places
//!      ─► what is no longer part of the database gets a second name in lost/
//!      ─► new MANIFEST; CURRENT names it         ◄── here the repair happens, as a whole
//!      ─► the first names of what is in lost/ go
//! ```
//!
//! **Why all tables are merged** where no MANIFEST tells the tree: a lookup takes the first table that
//! has a key, so it must know which of two tables is the newer one *for each key*. Sequence numbers of
//! whole tables do not tell: a table of level 6 may hold a newer write than one of level 1, of another
//! key. A merge looks at each entry's own. It reads and writes all data once.
//!
//! **Nothing is deleted**: what is left out, and all that was replaced, is in `lost/` afterwards. A crash
//! at any point leaves a directory that can be repaired again. Before the new MANIFEST is in force the
//! old files are where they were, and new tables repeat what is in them. After it they only have a
//! second name.

mod logs;
mod manifests;
mod report;
mod tables;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use report::{Loss, RepairReport};

use super::Builder;
use super::open::directory::{Directory, table_store};
use super::open::recover::Replay;
use super::open::take_over::no_database;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::filter::FilterSpec;
use crate::filter_policy::FilterContext;
use crate::fs;
use crate::fs::Fs;
use crate::table::Table;
use crate::version::names::FileKind;
use crate::version::{
    FileMeta, Manifest, Recovered, TableFile, TableStore, Version, VersionEdit, names,
};
use manifests::Tree;

/// Where files go that are no longer part of the database.
const LOST: &str = "lost";

/// Files with higher numbers were never this database's, where no MANIFEST tells how far it has come.
const MOST_UNKNOWN_NUMBER: u64 = 1 << 40;

/// A repair under way.
struct Repair<'a> {
    options: &'a Builder,
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// Opens the tables that are there.
    whole: TableStore,
    /// Makes new ones, in `lost/`, where nobody looks for them.
    store: TableStore,
    /// Numbers of the tables in the directory.
    tables: Vec<u64>,
    /// Of the tables that have sequence numbers of their own: file number and largest of these.
    newest: Vec<(u64, SequenceNumber)>,
    last_sequence: SequenceNumber,
    /// Level, table, and where its file is.
    tree: Vec<(usize, Arc<TableFile>, Place)>,
    is_done: bool,
    report: RepairReport,
}

/// Where the file of a table is.
enum Place {
    /// In the directory, under its name.
    Stays,
    /// In `lost/`, written by this repair.
    New,
    /// In the directory, under the name of another.
    IsNamed(PathBuf),
}

pub(super) fn repair(options: &Builder) -> Result<RepairReport> {
    let (fs, dir) = (&options.fs, &options.path);
    // Asked first: a lock would leave a file in a directory that is none of ours.
    let is_ours = |name: &String| name == "CURRENT" || names::parse(name).is_some();
    if !fs.exists(dir)? || !fs.list(dir)?.iter().any(is_ours) {
        return Err(no_database(dir));
    }
    let _lock = fs.lock(&names::lock_path(dir))?;
    match look(options) {
        Ok(report) => return Ok(report),
        Err(error) if is_table_damage(&error) => {}
        Err(error) => return Err(error),
    }

    let mut kinds = Vec::new();
    for name in fs.list(dir)? {
        kinds.extend(names::parse(&name));
    }
    let manifests: Vec<u64> = kinds
        .iter()
        .filter_map(|kind| if let FileKind::Manifest(number) = kind { Some(*number) } else { None })
        .collect();
    let mut problems = Vec::new();
    let mut tree = manifests::read(&**fs, dir, manifests.clone(), &mut problems)?;
    if let Tree::Whole(recovered) = &tree {
        let parts = manifests::read_parts(&**fs, dir, manifests)?;
        if recovered.is_of_the_past(&kinds, &parts) {
            let what = "the MANIFEST lists files that are missing and lacks tables that are there: its \
                        end is lost";
            problems.push(format!("{}: {what}", dir.display()));
            tree = Tree::Parts(parts);
        }
    }
    let mut repair = Repair::new(options, &tree, kinds)?;
    repair.report.problems = problems;
    repair.run(&tree)?;
    repair.put_in_place()
}

/// Reads everything, as an opening does and then the tables whole. Anything that is wrong is an error.
fn look(options: &Builder) -> Result<RepairReport> {
    let directory = Directory::read(&*options.fs, &options.path)?;
    directory.refuse_lost_current(&options.path)?;
    if directory.recovered.is_none() {
        return Err(lost_current(&options.path));
    }
    let store = table_store(options, &directory, false);
    let (replayed, _) = Replay::run(&store, options, &directory, false)?;
    let mut report = RepairReport::default();
    for (_, file) in replayed.version.files() {
        tables::check_whole(&file.table)?;
        report.tables += 1;
        report.entries += file.meta.entries;
    }
    Ok(report)
}

fn lost_current(dir: &Path) -> Error {
    Error::Corruption {
        file: names::current_path(dir),
        offset: 0,
        expected: "the name of a MANIFEST".into(),
        found: "no such file".into(),
    }
}

/// Whether an error tells of files that are damaged or missing, which a repair can do something about.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::Corruption { .. } => true,
        Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// As [`is_damage`], of a table: its footer has no checksum, so what it says that is not supported may
/// be damage. A log's header has one, and then a newer version wrote it.
fn is_table_damage(error: &Error) -> bool {
    is_damage(error) || matches!(error, Error::Unsupported { .. })
}

/// Whether the file system cannot give a file a second name.
fn has_no_links(error: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
    match error {
        Error::Io { source, .. } => {
            matches!(source.kind(), PermissionDenied | TooManyLinks | Unsupported)
        }
        _ => false,
    }
}

impl<'a> Repair<'a> {
    fn new(options: &'a Builder, tree: &Tree, kinds: Vec<FileKind>) -> Result<Repair<'a>> {
        let (fs, dir) = (Arc::clone(&options.fs), options.path.clone());
        let (next_file, db_identity, last_sequence, most) = match tree {
            Tree::Whole(it) => {
                (it.next_file, it.db_identity.clone(), it.flushed_sequence, it.most_file_number())
            }
            Tree::Parts(it) => {
                (it.next_file, it.db_identity.clone(), it.flushed_sequence, MOST_UNKNOWN_NUMBER)
            }
        };
        let lost = dir.join(LOST);
        fs::create_dir_durably(&*fs, &lost)?;
        let mut files: Vec<(u64, FileKind)> =
            kinds.into_iter().filter_map(|kind| Some((kind.number()?, kind))).collect();
        files.retain(|&(number, _)| number <= most);
        files.sort_unstable_by_key(|&(number, _)| number);
        // Also what an earlier repair left in `lost/` had a number.
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
        };
        let whole = table_store(options, &directory, false);
        let store = TableStore {
            fs: Arc::clone(&whole.fs),
            dir: lost,
            descriptors: Arc::clone(&whole.descriptors),
            keeps_tables_open: false,
            context: whole.context.clone(),
            pin_metadata: whole.pin_metadata,
            options: whole.options.clone(),
            creator: whole.creator.clone(),
            next_file: AtomicU64::new(whole.next_file.load(Ordering::Relaxed)),
            departed: Arc::default(),
        };
        let tables = directory.files.iter().filter_map(|&(number, kind)| match kind {
            FileKind::Table(_) => Some(number),
            _ => None,
        });
        Ok(Repair {
            options,
            fs,
            dir,
            whole,
            store,
            tables: tables.collect(),
            newest: Vec::new(),
            last_sequence,
            tree: Vec::new(),
            is_done: false,
            report: RepairReport { changed: true, ..RepairReport::default() },
        })
    }

    /// Reads what can be read, and writes the tables that are to be new.
    fn run(&mut self, tree: &Tree) -> Result<()> {
        match tree {
            Tree::Whole(recovered) => {
                self.listed_tables(recovered)?;
                let wals = self.wals(recovered.oldest_wal)?;
                let last = Some(recovered.flushed_sequence);
                self.logs(&wals, Some(&recovered.durable_wals), last)?;
                if let Some((level, one, other)) = self.version().overlap() {
                    let what = format!(
                        "tables {} and {} of level {level} overlap: all tables are merged",
                        one.number, other.number
                    );
                    self.report.problems.push(what);
                    self.merge_all()?;
                }
            }
            Tree::Parts(parts) => {
                let what = format!(
                    "{}: no MANIFEST tells the tree: all tables and logs are merged",
                    self.dir.display()
                );
                self.report.problems.push(what);
                self.report.deleted_keys_may_return = true;
                self.all_tables(parts)?;
                let wals = self.wals(parts.oldest_wal)?;
                self.logs(&wals, None, None)?;
                let newest = self.tree.iter().map(|(_, file, _)| file.meta.largest_sequence);
                self.last_sequence = newest.max().unwrap_or(0).max(self.last_sequence);
                self.merge_all()?;
            }
        }
        Ok(())
    }

    /// Numbers of the WALs from `oldest` on, ascending.
    fn wals(&self, oldest: u64) -> Result<Vec<u64>> {
        let mut wals = Vec::new();
        for name in self.fs.list(&self.dir)? {
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

    fn version(&self) -> Version {
        let edit = VersionEdit { added: self.added(), ..VersionEdit::default() };
        let opened = self.tree.iter().map(|(_, file, _)| (file.meta.number, Arc::clone(file)));
        Version::default().apply(&edit, &opened.collect())
    }

    fn added(&self) -> Vec<(usize, FileMeta)> {
        self.tree.iter().map(|(level, file, _)| (*level, file.meta.clone())).collect()
    }

    fn filter_of(&self, level: usize, entries: u64) -> FilterSpec {
        let mut metas: [Vec<&FileMeta>; crate::version::LEVELS] = Default::default();
        self.tree.iter().for_each(|(level, file, _)| metas[*level].push(&file.meta));
        self.options.filter.spec_for(&FilterContext::new(&metas, level, entries))
    }

    fn table_file(&self, meta: FileMeta, table: Arc<Table>) -> Arc<TableFile> {
        let path = names::table_path(&self.dir, meta.number);
        let departed = Arc::clone(&self.whole.departed);
        Arc::new(TableFile::new(meta, table, Arc::clone(&self.fs), path, departed))
    }

    fn add_new(&mut self, level: usize, file: Arc<TableFile>) {
        self.tree.push((level, file, Place::New));
    }

    /// The new tree takes the place of the old one.
    fn put_in_place(mut self) -> Result<RepairReport> {
        let (fs, lost) = (Arc::clone(&self.fs), self.dir.join(LOST));
        for (_, file, place) in &self.tree {
            let path = names::table_path(&self.dir, file.meta.number);
            match place {
                Place::Stays => {}
                Place::New => fs.rename(file.path(), &path)?,
                Place::IsNamed(from) => fs.hard_link(from, &path)?,
            }
        }
        let oldest_wal = self.store.new_number();
        let manifest_number = self.store.new_number();
        let stays: HashSet<u64> = self.tree.iter().map(|(_, file, _)| file.meta.number).collect();
        let most = self.store.next_file.load(Ordering::Relaxed);
        let mut replaced = Vec::new();
        for name in fs.list(&self.dir)? {
            match names::parse(&name) {
                Some(FileKind::Table(number)) if stays.contains(&number) => {}
                // Worth nothing, and the new CURRENT goes by this name.
                Some(FileKind::Temporary) => {}
                Some(kind) if kind.number() < Some(most) => replaced.push(name),
                None if name == "CURRENT" => replaced.push(name),
                _ => {}
            }
        }
        replaced.sort();
        let mut second = Vec::new();
        for name in &replaced {
            let mut to = lost.join(name);
            for n in 1.. {
                if !fs.exists(&to)? {
                    break;
                }
                to = lost.join(format!("{name}.{n}"));
            }
            match fs.hard_link(&self.dir.join(name), &to) {
                Ok(()) => second.push((name, to, true)),
                // It gets its new name when the old one is not needed any more.
                Err(error) if has_no_links(&error) => second.push((name, to, false)),
                Err(error) => return Err(error),
            }
        }
        // Before the new MANIFEST: from then on an opening may delete what that does not list.
        fs.sync_dir(&lost)?;

        let edit = VersionEdit {
            next_file: Some(manifest_number + 1),
            flushed_sequence: Some(self.last_sequence),
            oldest_wal: Some(oldest_wal),
            added: self.added(),
            db_identity: Some(self.whole.creator.db.clone()),
            ..VersionEdit::default()
        };
        let roll_after = self.options.manifest_roll_bytes;
        Manifest::create(&fs, &self.dir, manifest_number, &edit, roll_after)?;
        self.is_done = true;
        let mut moved = Vec::new();
        for (name, to, is_there) in second {
            match (name == "CURRENT", is_there) {
                (false, true) => fs.remove(&self.dir.join(name))?,
                (false, false) => fs.rename(&self.dir.join(name), &to)?,
                (true, true) => {}
                // Replaced: it held no more than the name of a MANIFEST.
                (true, false) => continue,
            }
            moved.push(to);
        }
        fs.sync_dir(&self.dir)?;
        fs.sync_dir(&lost)?;
        let mut report = std::mem::take(&mut self.report);
        report.tables = self.tree.len();
        report.entries = self.tree.iter().map(|(_, file, _)| file.meta.entries).sum();
        report.moved = moved;
        Ok(report)
    }
}

impl Drop for Repair<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // Nobody lists them. Those that have their places already repeat what the old ones hold.
            let new = self.tree.iter().filter(|(_, _, place)| matches!(place, Place::New));
            new.for_each(|(level, file, _)| file.mark_obsolete(*level));
        }
    }
}
