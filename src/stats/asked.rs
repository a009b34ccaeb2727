//! [`Asked`]: how often a table was asked in vain, lately.

use crate::sync::atomic::{AtomicU64, Ordering};

use super::FileCounts;

/// How often lookups reached a table for a key that it lacks, the old ones weighted less. A new table
/// inherits the value from the tables that it replaces.
#[derive(Default)]
pub(crate) struct Asked {
    /// A floating-point number, as its bits. Relaxed, as `counted`: one thread at a time changes
    /// both, under the lock of the tree's [`Asking`](crate::db), and nothing depends on reading the
    /// newest value.
    weighted: AtomicU64,
    /// What the table's counters had counted at the last [`Asked::count`].
    counted: AtomicU64,
}

impl Asked {
    pub fn get(&self) -> f64 {
        f64::from_bits(self.weighted.load(Ordering::Relaxed))
    }

    pub fn set(&self, asked: f64) {
        self.weighted.store(asked.to_bits(), Ordering::Relaxed);
    }

    /// Adds what was counted since the last call. What was there before keeps this part of its
    /// weight.
    pub fn count(&self, counts: FileCounts, keep: f64) {
        let counted = counts.asked_in_vain();
        let before = self.counted.swap(counted, Ordering::Relaxed);
        self.set(self.get() * keep + counted.saturating_sub(before) as f64);
    }
}
