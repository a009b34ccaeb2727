//! How large a bumped ribbon filter must be.

use super::layout::{Layout, MAX_TAGS, Shape};
use super::row::MAX_COLUMNS;
use crate::filter::spec::Target;

/// Fewest keys worth a ribbon.
const MIN_KEYS: usize = 256;

/// How to build for a number of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub width: u32,
    /// Slots for each key; below 1 when layers are overloaded on purpose.
    slots_per_key: f64,
}

impl Plan {
    pub fn for_keys(keys: usize) -> Option<Plan> {
        match keys {
            ..MIN_KEYS => None,
            ..5000 => Some(Plan { width: 64, slots_per_key: 1.0 }),
            ..50_000 => Some(Plan { width: 32, slots_per_key: 0.94 }),
            _ => Some(Plan { width: 32, slots_per_key: 0.93 }),
        }
    }

    /// Slots of a layer for `keys` keys. A layer of few buckets gets room for all: an overloaded one
    /// might bump every key, and the next layer again, and so on.
    pub fn slots(self, keys: usize) -> Option<u32> {
        let slots_per_key = if keys < 1000 { 1.03 } else { self.slots_per_key };
        let blocks = (keys as f64 * slots_per_key / f64::from(self.width)).ceil() as u64;
        u32::try_from(blocks.max(2) * u64::from(self.width)).ok()
    }

    /// Keys that are stored as tags rather than in one more layer.
    pub fn tags(self) -> usize {
        const { assert!(64 * 3 / 4 <= MAX_TAGS) };
        self.width as usize * 3 / 4
    }
}

/// The columns that bring a filter with these layers closest to its target.
pub(super) fn fit(
    shape: Shape,
    slots: &[u32],
    tags: usize,
    keys: usize,
    target: Target,
) -> Option<Layout> {
    let with = |columns, low_blocks| Layout::new(shape, columns, low_blocks, tags, slots);
    let blocks = slots[0] / shape.width;
    let layout = match target {
        Target::MillibitsPerKey(millibits) | Target::LikeBloom(millibits) => {
            let bytes = keys as u64 * u64::from(millibits) / 8000;
            let columns = (1..MAX_COLUMNS).find(|&columns| with(columns, 0).total_bytes() >= bytes);
            let columns = columns.unwrap_or(MAX_COLUMNS);
            let spare = with(columns, 0).total_bytes().saturating_sub(bytes);
            with(columns, (spare / u64::from(shape.width / 8)).min(u64::from(blocks)) as u32)
        }
        Target::Fpr(fpr) => {
            let columns = (-fpr.log2()).ceil().clamp(1.0, f64::from(MAX_COLUMNS)) as u32;
            // Each low block that keeps all its keys doubles the rate of its part of them.
            let low = (fpr * 2f64.powi(columns as i32) - 1.0).clamp(0.0, 1.0);
            with(columns, (low * f64::from(blocks)) as u32)
        }
    };
    (layout.total_bytes() <= u64::from(u32::MAX)).then_some(layout)
}
