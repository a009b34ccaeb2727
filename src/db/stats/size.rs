//! Sizes as reports print them.

use crate::encoding::text::in_units;

/// A size as reports print it.
pub(in crate::db) fn bytes(count: u64) -> String {
    in_units(count).map_or(format!("{count} B"), |(value, unit)| format!("{value:.1} {unit}"))
}
