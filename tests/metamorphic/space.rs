//! A disk that was full and has space again: the store notices it by itself, and has left no files.

use std::thread;
use std::time::Duration;

use maypole::Result;

use super::patience::Patience;
use super::store::{PATIENCE, Store};

impl Store {
    /// Ends all trouble. If there was only a lack of space, the store writes again without being
    /// opened anew.
    pub(super) fn heal(&mut self) -> Result<()> {
        self.disk.heal();
        let was_full = self.disk.is_full();
        self.disk.empty();
        if !was_full || self.has_faults() {
            return Ok(());
        }
        let patience = Patience::new(PATIENCE);
        while let Err(error) = self.flush_all().and_then(|()| self.settle()) {
            assert!(error.is_out_of_space(), "with space again: {error}");
            assert!(!patience.is_over(), "the space is not noticed: {error}");
        }
        self.model.sync();
        let is_held = !self.snapshots.is_empty()
            || !self.cursors.is_empty()
            || !self.iterators.is_empty()
            || !self.readers.is_empty();
        let are_all_open = self.home().keyspaces().len() == self.open_spaces().len();
        if !is_held && are_all_open {
            // These keep the tables of their keyspaces.
            self.dropped.clear();
            self.no_table_is_left();
        }
        Ok(())
    }

    fn flush_all(&self) -> Result<()> {
        self.open_spaces().iter().try_for_each(|(_, db)| db.flush())
    }

    /// The directory has the tables of the tree and no others, as soon as those that were removed
    /// from the tree are deleted.
    fn no_table_is_left(&self) {
        let patience = Patience::new(PATIENCE / 4);
        let tables = || {
            let names = self.disk.fs().list(self.disk.dir()).expect("the directory is there");
            names.iter().filter(|name| name.ends_with(".sst")).count()
        };
        let listed =
            || -> usize { self.open_spaces().iter().map(|(_, db)| db.stats().files.len()).sum() };
        while tables() != listed() {
            assert!(
                !patience.is_over(),
                "{} tables are in the directory, and {} in the tree",
                tables(),
                listed()
            );
            thread::sleep(Duration::from_millis(1));
        }
    }
}
