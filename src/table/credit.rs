//! [`Credit`]: decides when a part of a filter that is not in memory is read. A lookup reads the
//! part if the part's credit covers the *price* of the read. Otherwise the lookup searches the
//! table without the filter. If this search finds nothing, the credit grows by the read that the
//! filter would have saved ([`super::lookup::admission`]).

use crate::sync::atomic::{AtomicU32, Ordering};

/// The price of one read. Credits and prices are counted in eighths of a read.
pub(super) const READ: u32 = 8;

/// The credit of one part of a filter, in eighths of a read. A filter that is stored whole counts
/// as one part. If it is read in *pieces*, each piece counts as one part.
pub(super) struct Credit(AtomicU32);

impl Credit {
    /// A credit of one read for each of `parts` parts.
    pub fn of(parts: usize) -> Box<[Credit]> {
        (0..parts).map(|_| Credit(AtomicU32::new(READ))).collect()
    }

    /// Whether the credit is at least `price`.
    #[inline]
    pub fn is(&self, price: u32) -> bool {
        self.0.load(Ordering::Relaxed) >= price
    }

    /// Adds `earned`, up to a credit of `most`. If two threads add at the same time, one addition
    /// may be lost. The filter is then read later, which costs at most one read.
    pub fn earn(&self, earned: u32, most: u32) {
        let credit = self.0.load(Ordering::Relaxed);
        if credit < most {
            self.0.store(credit.saturating_add(earned).min(most), Ordering::Relaxed);
        }
    }

    /// Takes `price` from the credit, which is first limited to `most`.
    pub fn pay(&self, price: u32, most: u32) {
        let credit = self.0.load(Ordering::Relaxed).min(most);
        self.0.store(credit.saturating_sub(price), Ordering::Relaxed);
    }
}
