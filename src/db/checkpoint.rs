//! A checkpoint: a second database that shares the tables of this one by hard links.
//!
//! ```text
//!   flush ─► new directory ─► each table: a link, or a copy ─► MANIFEST ─► CURRENT
//! ```
//!
//! The copy has no WAL: the flush has put every write into a table. `CURRENT` comes last, so a copy
//! that was cut short is no database.

use std::path::Path;

use super::background::install::whole_tree;
use super::ingest::copy_file;
use super::options::lasting;
use super::{Inner, Progress};
use crate::error::{Error, Result};
use crate::fs;
use crate::sync::{lock, pin};
use crate::version::{Manifest, names};

impl Inner {
    pub(super) fn checkpoint(&self, dir: &Path) -> Result<()> {
        let fs = &self.store.fs;
        let dir = &lasting(&**fs, dir)?;
        if fs.exists(dir)? {
            return Err(Error::InvalidArgument(format!(
                "{}: exists already; a checkpoint makes a new directory",
                dir.display()
            )));
        }
        self.flush()?;
        // Under the manifest's lock: nobody installs a version between the two.
        let (read_state, flushed_sequence) = {
            let _manifest = lock(&self.manifest);
            let flushed_sequence = lock(&self.progress).flushed_sequence;
            (self.read_state.load_arc(&pin()), flushed_sequence)
        };
        fs::create_dir_durably(&**fs, dir)?;
        for (_, file) in read_state.version.files() {
            let target = names::table_path(dir, file.meta.number);
            if fs.hard_link(file.path(), &target).is_err() {
                // Another file system, or one without links.
                copy_file(&**fs, file.path(), &target)?;
            }
        }
        let number = self.store.new_number();
        let progress = Progress { flushed_sequence, oldest_wal: number + 1, ..Progress::default() };
        let tree = whole_tree(&self.store, &read_state.version, &progress, number + 1);
        Manifest::create(fs, dir, number, &tree, self.manifest_roll_bytes).map(drop)
    }
}
