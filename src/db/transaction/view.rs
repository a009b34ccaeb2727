//! [`View`]: what a transaction sees: a snapshot and its own writes. And what it has read.

use std::cell::{OnceCell, RefCell};

use super::commit::NotesWrites;
use super::own::OwnWrites;
use super::reads::ReadSet;
use crate::db::snapshot::Snapshot;

/// See the module.
pub(super) struct View {
    pub snapshot: Snapshot,
    pub reads: RefCell<ReadSet>,
    pub writes: OwnWrites,
    /// From the first scan on, leaders note what they write. Otherwise the commit would have to
    /// search the range that was read entry by entry, as soon as anything was written.
    pub notes: OnceCell<NotesWrites>,
}

impl View {
    pub fn of(snapshot: Snapshot) -> View {
        let (reads, writes) = (RefCell::default(), OwnWrites::default());
        View { snapshot, reads, writes, notes: OnceCell::new() }
    }

    pub fn begin_noting(&self) {
        self.notes.get_or_init(|| NotesWrites::begin(&self.snapshot));
    }
}
