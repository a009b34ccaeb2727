//! How the number at a tick of an axis is written. Bytes have the units KiB, MiB and so on, as in
//! tables.

/// Writes a figure with the digits that it needs, at most nine decimals.
pub fn decimal(figure: f64) -> String {
    // Ticks have rounding errors, such as 0.30000000000000004.
    format!("{}", (figure * 1e9).round() / 1e9)
}

/// Writes a count, a large one with a unit: `20k`.
pub fn plain(figure: f64) -> String {
    const UNITS: [(&str, f64); 3] = [("G", 1e9), ("M", 1e6), ("k", 1e3)];
    let (unit, size) = UNITS.into_iter().find(|&(_, size)| figure >= size).unwrap_or(("", 1.0));
    decimal(figure / size) + unit
}

pub fn bytes(bytes: f64) -> String {
    const UNITS: [(&str, i32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let found = UNITS.into_iter().find(|&(_, power)| bytes >= 2f64.powi(power));
    let (unit, power) = found.unwrap_or(("B", 0));
    format!("{} {unit}", decimal(bytes / 2f64.powi(power)))
}

pub fn time(ns: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
    let (unit, size) = UNITS.into_iter().find(|(_, size)| ns >= *size).unwrap_or(("ns", 1.0));
    format!("{} {unit}", decimal(ns / size))
}

/// A share, as per cent.
pub fn rate(rate: f64) -> String {
    format!("{} %", decimal(rate * 100.0))
}
