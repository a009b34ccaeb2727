//! The slots of a [`QuotientFilter`]: how the three marks of a slot lead to runs and clusters
//! ([`super`] defines these terms). An *entry* is what a slot holds: a remainder and the marks.

use super::{CONTINUATION, MARKS, OCCUPIED, QuotientFilter, SHIFTED};

impl QuotientFilter {
    pub(super) fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    fn previous(&self, slot: usize) -> usize {
        slot.checked_sub(1).unwrap_or(self.slots.len() - 1)
    }

    pub(super) fn has(&self, slot: usize, mark: u32) -> bool {
        self.slots.get(slot) & mark != 0
    }

    pub(super) fn remainder(&self, slot: usize) -> u32 {
        self.slots.get(slot) >> 3
    }

    /// The first slot of the cluster that contains `slot`.
    pub(super) fn cluster_start(&self, mut slot: usize) -> usize {
        while self.has(slot, SHIFTED) {
            slot = self.previous(slot);
        }
        slot
    }

    /// The slot where the run of `quotient` starts. The quotient's slot must be marked occupied. An
    /// insertion marks it before the run has its first entry; the result is then the slot for this
    /// entry.
    pub(super) fn run_start(&self, quotient: usize) -> usize {
        let mut belongs = self.cluster_start(quotient);
        let mut slot = belongs;
        // Runs are in the order of the slots to which they belong. So one run is skipped for each
        // slot that is marked occupied, from the start of the cluster up to `quotient`.
        while belongs != quotient {
            slot = self.next(slot);
            while self.has(slot, CONTINUATION) {
                slot = self.next(slot);
            }
            belongs = self.next(belongs);
            while !self.has(belongs, OCCUPIED) {
                belongs = self.next(belongs);
            }
        }
        slot
    }

    /// Puts an entry into a slot and moves the old entries to the right, up to the next empty slot.
    /// The occupied mark belongs to the slot and does not move.
    pub(super) fn shift_in(&mut self, mut slot: usize, mut entry: u32) {
        loop {
            let moved = self.slots.get(slot);
            self.slots.set(slot, entry & !OCCUPIED | moved & OCCUPIED);
            if moved & MARKS == 0 {
                return;
            }
            entry = moved | SHIFTED;
            slot = self.next(slot);
        }
    }
}
