//! [`View`]: what a transaction sees: a snapshot and its own writes. And what it has read.

use std::cell::RefCell;

use super::own::OwnWrites;
use super::reads::ReadSet;
use crate::db::snapshot::Snapshot;

/// See the module.
pub(super) struct View {
    pub snapshot: Snapshot,
    pub reads: RefCell<ReadSet>,
    pub writes: OwnWrites,
}

impl View {
    pub fn of(snapshot: Snapshot) -> View {
        View { snapshot, reads: RefCell::default(), writes: OwnWrites::default() }
    }
}
