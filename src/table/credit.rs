//! [`Credit`]: the account of a filter part; [`super::lookup::admission`] has the rule.

use crate::sync::atomic::{AtomicU32, Ordering};

/// How many reads lookups have lost by passing by a part of a filter.
pub(super) struct Credit(AtomicU32);

impl Credit {
    /// A credit for each of `parts` parts.
    pub fn of(parts: usize) -> Box<[Credit]> {
        (0..parts).map(|_| Credit(AtomicU32::new(1))).collect()
    }

    pub fn is(&self, price: u32) -> bool {
        self.0.load(Ordering::Relaxed) >= price
    }

    /// If two threads count at one time, one count may be lost. That costs at most one read.
    pub fn earn(&self, price: u32) {
        let credit = self.0.load(Ordering::Relaxed);
        if credit < price {
            self.0.store(credit + 1, Ordering::Relaxed);
        }
    }

    pub fn pay(&self, price: u32) {
        let credit = self.0.load(Ordering::Relaxed);
        self.0.store(credit.saturating_sub(price), Ordering::Relaxed);
    }
}
