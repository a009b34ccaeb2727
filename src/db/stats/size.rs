//! Sizes and rates as reports print them.

use crate::encoding::text::in_units;

/// A size as reports print it.
pub(in crate::db) fn bytes(count: u64) -> String {
    in_units(count).map_or(format!("{count} B"), |(value, unit)| format!("{value:.1} {unit}"))
}

/// A rate as reports print it.
pub(super) fn percent(rate: Option<f64>) -> String {
    rate.map_or("-".into(), |rate| format!("{:.3} %", rate * 100.0))
}
