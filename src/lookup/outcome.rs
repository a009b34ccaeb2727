//! [`Outcome`]: what came of a lookup, for its recording ([`crate::db`]'s `recording`).

use std::cell::Cell;

use crate::encoding::key::SequenceNumber;
use crate::memtable::Memtable;
use crate::version::TableFile;

use super::stage::{FileRun, Found, Observe};

/// What came of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The value was in a memtable.
    Memtable,
    /// The value was in a table of this level.
    Level(usize),
    /// The lookup ended at a tombstone, or at a range deletion.
    Deleted,
    /// No source has an entry of the key.
    Absent,
}

impl Outcome {
    /// The outcome of a lookup that has found an entry at `place`.
    pub fn found(place: Outcome, has_value: bool) -> Outcome {
        if has_value { place } else { Outcome::Deleted }
    }
}

/// An observer that notes what is needed to tell a lookup's [`Outcome`].
#[derive(Default)]
pub(crate) struct OutcomeNote {
    /// Where the lookup found an entry.
    place: Cell<Option<Outcome>>,
    /// Whether a range deletion covers the key.
    is_covered: Cell<bool>,
}

impl OutcomeNote {
    /// What came of the lookup, which has returned a value or none.
    pub fn outcome(&self, has_value: bool) -> Outcome {
        match self.place.get() {
            Some(place) => Outcome::found(place, has_value),
            None if self.is_covered.get() => Outcome::Deleted,
            None => Outcome::Absent,
        }
    }
}

impl Observe for OutcomeNote {
    fn memtable_searched(
        &self,
        _memtable: &Memtable,
        newest: Option<(SequenceNumber, u8, &[u8])>,
        deleted_at: SequenceNumber,
    ) {
        self.is_covered.set(deleted_at > 0);
        self.place.set(newest.map(|_| Outcome::Memtable));
    }

    fn file_reached(&self, _file: &TableFile, deleted_at: SequenceNumber) {
        self.is_covered.set(self.is_covered.get() || deleted_at > 0);
    }

    fn file_left(&self, run: &FileRun, _file: &TableFile, found: Option<&Found<'_>>) {
        if found.is_some() {
            self.place.set(Some(Outcome::Level(run.level)));
        }
    }
}
