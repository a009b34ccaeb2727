//! The end of a repair: the new tree replaces the old one, and nothing is lost if the repair is
//! interrupted meanwhile.
//!
//! ```text
//!   new tables get their names                          they repeat entries of old ones; durable
//!                                                       before the next step
//!   replaced files get second names in lost/            durable before the next step
//!   new MANIFEST; CURRENT names it                      ◄── the repair happens here, as a whole
//!   the first names of replaced files are removed
//! ```
//!
//! After an error in a step before `CURRENT` names the new MANIFEST, this MANIFEST and the names of
//! the new tables are removed. So a second repair finds what this one found, and reports the same
//! losses.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::report::RepairReport;
use super::work::{FileLocation, LOST, Placed, Repair};
use crate::db::maintenance::ingest::copy_file;
use crate::error::{Error, Result};
use crate::fs;
use crate::sync::atomic::Ordering;
use crate::version::names::FileKind;
use crate::version::{Manifest, VersionEdit, current_manifest, names};

/// A replaced file.
struct Replaced {
    name: String,
    /// Its path in `lost/`.
    lost: PathBuf,
    /// Whether the file has its name in `lost/` already, as a hard link. If the file system has no
    /// hard links, the file is renamed to that name at the end.
    is_linked: bool,
}

impl Repair<'_> {
    /// Replaces the old tree by the new one.
    pub(super) fn install(mut self) -> Result<RepairReport> {
        let oldest_wal = self.store.new_number()?;
        let manifest_number = self.store.number_of_first_manifest()?;
        let replaced = self
            .replace_tree(oldest_wal, manifest_number)
            .inspect_err(|_: &Error| self.take_back(manifest_number))?;
        self.is_done = true;

        let mut report = std::mem::take(&mut self.report);
        report.moved = self.remove_first_names(replaced, &mut report.problems)?;
        report.tables = self.tree.len();
        report.entries = self.tree.iter().map(|it| it.file.meta.entries).sum();
        Ok(report)
    }

    /// Makes the new tree the current one. Returns the files that it replaces.
    fn replace_tree(&self, oldest_wal: u64, manifest_number: u64) -> Result<Vec<Replaced>> {
        self.name_new_tables()?;
        // The names in `lost/` are durable before `CURRENT` names the new MANIFEST, because from
        // then on an opening may delete what that MANIFEST does not list.
        let replaced = self.link_replaced_files()?;

        let (created, next_keyspace) = self.keyspaces.records();
        let edit = VersionEdit {
            next_file: Some(manifest_number + 1),
            flushed_sequence: Some(self.last_sequence),
            oldest_wal: Some(oldest_wal),
            added: self.added(),
            db_identity: Some(self.whole.creator.db.clone()),
            created,
            next_keyspace,
            ..VersionEdit::default()
        };
        let roll_after = self.options.manifest_roll_bytes;
        Manifest::create(&self.fs, &self.dir, manifest_number, &edit, roll_after)?;
        Ok(replaced)
    }

    /// Undoes an interrupted [`Repair::replace_tree`], unless `CURRENT` names the new MANIFEST. The
    /// second names in `lost/` stay, because they do no harm.
    fn take_back(&self, manifest_number: u64) {
        match current_manifest(&*self.fs, &self.dir) {
            Ok(named) if named == Some(manifest_number) => return,
            Ok(_) => {}
            Err(error) if error.is_damage() => {}
            Err(_) => return,
        }
        // The MANIFEST goes first, and durably. While it is there, the next repair trusts it, and
        // would report the tables as missing. So if it cannot be removed, the tables stay.
        let manifest = self.dir.join(names::manifest_name(manifest_number));
        let remove = || {
            if self.fs.exists(&manifest)? {
                fs::remove_if_present(&*self.fs, &manifest)?;
                self.fs.sync_dir(&self.dir)?;
            }
            for Placed { file, location, .. } in &self.tree {
                let path = names::table_path(&self.dir, file.meta.number);
                if !matches!(location, FileLocation::InPlace) && self.fs.exists(&path)? {
                    fs::remove_if_present(&*self.fs, &path)?;
                }
            }
            Ok::<(), Error>(())
        };
        let _ = remove();
    }

    fn name_new_tables(&self) -> Result<()> {
        for Placed { file, location, .. } in &self.tree {
            let path = names::table_path(&self.dir, file.meta.number);
            match location {
                FileLocation::InPlace => {}
                FileLocation::New => self.fs.rename(file.path(), &path)?,
                FileLocation::NamedAs(from) => match self.fs.hard_link(from, &path) {
                    Ok(()) => {}
                    // A copy, and not a renaming: until `CURRENT` names the new MANIFEST, the old
                    // files keep their names.
                    Err(error) if has_no_links(&error) => {
                        copy_file(&*self.fs, from, &path)?;
                    }
                    Err(error) => return Err(error),
                },
            }
        }
        // The names must be durable before the new MANIFEST is written. Otherwise a power loss
        // could keep the whole MANIFEST, but take these names. The next repair would trust this
        // MANIFEST, even if `CURRENT` does not name it yet, and report the tables as missing.
        self.fs.sync_dir(&self.dir)
    }

    /// Gives every file that the new tree does not use a second name in `lost/`.
    fn link_replaced_files(&self) -> Result<Vec<Replaced>> {
        let (fs, lost_dir) = (&self.fs, self.dir.join(LOST));
        let stays: BTreeSet<u64> = self.tree.iter().map(|it| it.file.meta.number).collect();
        let most = self.store.next_file.load(Ordering::Relaxed);
        let mut names = fs::names_in(&**fs, &self.dir)?;
        names.retain(|name| match names::parse(name) {
            Some(FileKind::Table(number)) if stays.contains(&number) => false,
            // A temporary file gets no second name, because it has no value. Besides, its first
            // name may be gone before the first names are removed, because the new `CURRENT` is
            // written under a temporary name and then renamed.
            Some(FileKind::Temporary) => false,
            Some(kind) => kind.number() < Some(most),
            None => name == "CURRENT",
        });
        let mut replaced = Vec::new();
        for name in names {
            let mut lost = lost_dir.join(&name);
            for n in 1.. {
                if !fs.exists(&lost)? {
                    break;
                }
                lost = lost_dir.join(format!("{name}.{n}"));
            }
            let is_linked = match fs.hard_link(&self.dir.join(&name), &lost) {
                Ok(()) => true,
                Err(error) if has_no_links(&error) => false,
                Err(error) => return Err(error),
            };
            replaced.push(Replaced { name, lost, is_linked });
        }
        fs.sync_dir(&lost_dir)?;
        Ok(replaced)
    }

    /// Removes the first names of the replaced files. Returns their paths in `lost/`. If a name
    /// cannot be removed, `problems` gets a line, but the repair has succeeded all the same.
    fn remove_first_names(
        &self,
        replaced: Vec<Replaced>,
        problems: &mut Vec<String>,
    ) -> Result<Vec<PathBuf>> {
        let mut moved = Vec::new();
        for Replaced { name, lost, is_linked } in replaced {
            let first = self.dir.join(&name);
            match (name == "CURRENT", is_linked) {
                (false, true) => {
                    if let Err(error) = fs::remove_if_present(&*self.fs, &first) {
                        problems.push(format!("{error}; the next opening removes this file"));
                    }
                }
                (false, false) => self.fs.rename(&first, &lost)?,
                // The name belongs to the new `CURRENT` by now.
                (true, true) => {}
                // The file system has no links, so the old `CURRENT` has no second name, and the
                // new `CURRENT` has overwritten it. Only the name of a MANIFEST is lost.
                (true, false) => continue,
            }
            moved.push(lost);
        }
        self.fs.sync_dir(&self.dir)?;
        self.fs.sync_dir(&self.dir.join(LOST))?;
        Ok(moved)
    }
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
