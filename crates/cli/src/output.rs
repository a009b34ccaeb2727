//! The output of commands: tables for people, JSON for programs, notes on standard error, and the
//! processor and the build that a measurement ran on.

use std::fmt::Display;
use std::io::{Write, stderr};

use comfy_table::{CellAlignment, Table, presets};

use crate::failure::Result;

/// The version of the JSON of `compare`, `advise` and `size`. It grows when a field goes or changes
/// its meaning, not when one is added.
pub const SCHEMA: u32 = 1;

/// Prints a line on standard error. If standard error is closed, the work continues, whereas
/// `eprintln!` would panic.
pub fn tell(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}

/// Text with its control characters escaped.
pub fn printable(text: &str) -> String {
    let escape =
        |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// A table whose first column is aligned left, and all others right.
pub fn table<T: ToString>(header: Vec<T>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(comfy_table::LineStyle::none()));
    table.set_header(header);
    table.add_rows(rows);
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if i == 0 { 2 } else { 1 }));
        if i > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// A JSON object of values that are JSON already. The names keep their order, which is meaningful;
/// serde_json would sort them.
pub fn json_object(fields: impl IntoIterator<Item = (impl Display, impl Display)>) -> String {
    let fields = fields.into_iter().map(|(name, value)| format!("\"{name}\": {value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// Makes a [`json_object`]. In `object! { table => level, number }`, the values are the fields
/// `table.level` and `table.number`. In `object! { level }`, which has no `=>`, the value is the
/// variable `level`. In both forms, `error = JSON` gives the value of `error` as JSON.
macro_rules! object {
    ($($name:ident $(= $value:expr)?),+ $(,)?) => {
        $crate::output::json_object([$((
            stringify!($name),
            $crate::output::object!(@variable $name $(, $value)?).to_string(),
        )),+])
    };
    ($($from:expr => $($name:ident $(= $value:expr)?),+);+ $(;)?) => {
        $crate::output::json_object([$($((
            stringify!($name),
            $crate::output::object!(@field $from, $name $(, $value)?).to_string(),
        )),+),+])
    };
    (@variable $name:ident) => { serde_json::json!($name) };
    (@variable $name:ident, $value:expr) => { $value };
    (@field $from:expr, $name:ident) => { serde_json::json!($from.$name) };
    (@field $from:expr, $name:ident, $value:expr) => { $value };
}
pub(crate) use object;

/// A JSON array on one line, for a field of an object.
pub fn json_list(objects: impl Iterator<Item = String>) -> String {
    format!("[{}]", objects.collect::<Vec<_>>().join(", "))
}

/// A JSON array, one object a line.
pub fn json_lines(objects: impl IntoIterator<Item = String>) -> String {
    let objects: Vec<String> = objects.into_iter().collect();
    if objects.is_empty() { "[]".into() } else { format!("[\n  {}\n]", objects.join(",\n  ")) }
}

/// Prints [`json_lines`].
pub fn json_array(objects: impl IntoIterator<Item = String>, out: &mut dyn Write) -> Result {
    writeln!(out, "{}", json_lines(objects))?;
    Ok(())
}

/// The processor and the build, without which a time means nothing.
pub fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or(std::env::consts::ARCH, |(_, model)| model.trim());
    let build = if cfg!(debug_assertions) { ", a debug build: times say nothing" } else { "" };
    format!("{model}{build}")
}
