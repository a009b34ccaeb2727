//! The picture of a table's filter: on a terminal and as SVG, from the same figures.
//!
//! ```text
//! lines    a Bloom filter: how full its cache lines are         text   on a terminal
//! layers   a ribbon: layers, thresholds, the band of equations  svg    as a file
//! ```
//!
//! `lines` and `layers` make panels. `text` and `svg` show panels and know nothing of filters.

mod layers;
mod lines;
mod svg;
mod text;

use maypole::filter::FilterReader;
use maypole::filter::inspect::KeyEquation;
use maypole::table::{FilterInfo, SstReader};

use crate::failure::Result;
use crate::show::text::{count, counted, escape, percent, size};
pub use svg::svg;
pub use text::text;

pub struct Picture {
    pub title: String,
    pub panels: Vec<Panel>,
}

pub struct Panel {
    pub title: String,
    /// The paragraphs of text above the drawing.
    pub says: Vec<String>,
    pub drawing: Drawing,
}

pub enum Drawing {
    Heat(Heat),
    Bars(Vec<Bar>),
    Rows(Rows),
    Band(Band),
}

/// A strip of cells, colored by their figures.
pub struct Heat {
    /// The figure of each cell. A cell is the mean of `per_cell` things, such as lines of a Bloom
    /// filter or buckets of a ribbon. The last cell may have fewer.
    pub cells: Vec<f64>,
    pub per_cell: usize,
    /// The figures with the lightest and the darkest color.
    pub ends: (f64, f64),
    pub figure: fn(f64) -> String,
    /// The word for one thing and for several, such as `line` and `lines`.
    pub thing: (&'static str, &'static str),
}

pub struct Bar {
    pub label: String,
    pub found: u64,
    pub theory: Option<f64>,
}

/// Figures in columns. The first column names the rows.
pub struct Rows {
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

/// The upper left corner of the matrix of a ribbon filter. Each row is the equation of a key, and
/// each column is a slot. The rows are sorted by the first slot of their equation.
pub struct Band {
    /// The number of slots that are shown, from the first on.
    pub slots: u32,
    /// The number of bits of a fingerprint. The fingerprint of each row is drawn to the right of
    /// the matrix.
    pub columns: u32,
    pub rows: Vec<KeyEquation>,
}

impl Band {
    /// Whether a row has a coefficient at a slot.
    pub fn has(row: &KeyEquation, slot: u32) -> bool {
        let offset = slot.wrapping_sub(row.start);
        offset < u128::BITS && row.coefficients >> offset & 1 == 1
    }
}

/// The most cells of a strip.
const MAX_CELLS: usize = 512;

impl Heat {
    pub fn new(
        figures: impl ExactSizeIterator<Item = f64>,
        ends: (f64, f64),
        figure: fn(f64) -> String,
        thing: (&'static str, &'static str),
    ) -> Heat {
        let per_cell = figures.len().div_ceil(MAX_CELLS).max(1);
        let mut cells = Vec::new();
        let (mut sum, mut held) = (0.0, 0);
        let all = figures.len();
        for (number, one) in figures.enumerate() {
            sum += one;
            held += 1;
            if held == per_cell || number + 1 == all {
                cells.push(sum / held as f64);
                (sum, held) = (0.0, 0);
            }
        }
        Heat { cells, per_cell, ends, figure, thing }
    }

    /// What one cell stands for, in words.
    pub fn things(&self) -> String {
        match self.per_cell {
            1 => format!("one {}", self.thing.0),
            n => format!("the mean of {} {}", count(n as u64), self.thing.1),
        }
    }

    /// The position of a figure between the ends, from 0 to 1.
    pub fn level(&self, figure: f64) -> f64 {
        let (low, high) = self.ends;
        if high > low { ((figure - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
    }
}

/// The picture of a table's filter, or why there is none.
pub fn of(table: &SstReader) -> Result<std::result::Result<Picture, String>> {
    let Some(info) = table.filter()? else { return Ok(Err(without_filter(table))) };
    let parts = table.filters()?;
    let untrusted: Vec<&str> = parts.iter().filter_map(FilterReader::untrusted).collect();
    if untrusted.len() == parts.len() {
        let reason = untrusted.first().unwrap_or(&"it has no partitions");
        return Ok(Err(format!("the filter cannot be used and answers maybe to all: {reason}")));
    }
    let mut panels = lines::panels(&info, &parts);
    panels.extend(layers::panels(table, &parts)?);
    let mut title = title(&info, &parts);
    if let Some(reason) = untrusted.first() {
        let (unused, all) = (untrusted.len(), parts.len());
        title += &format!(". {unused} of {all} partitions cannot be used, such as {reason}");
    }
    Ok(Ok(Picture { title, panels }))
}

/// The name of the filter in the table's metaindex, if there is one. Call this for a table of which
/// [`SstReader::filter`] returns none: then Maypole does not read filters of this kind, such as
/// RocksDB's block-based filter.
pub fn filter_not_read(table: &SstReader) -> Option<String> {
    let (name, _) = table.metaindex().iter().find(|(name, _)| name.contains("filter."))?;
    Some(escape(name.as_bytes()).to_string())
}

fn without_filter(table: &SstReader) -> String {
    match filter_not_read(table) {
        Some(name) => format!("the table's filter is of a kind that is not read here: {name}"),
        None => "the table has no filter".into(),
    }
}

fn title(info: &FilterInfo, parts: &[FilterReader]) -> String {
    let family = info.family.map_or("unknown".into(), |family| family.to_string());
    let partitions = match parts.len() {
        1 => String::new(),
        n => format!(" in {}", counted(n as u64, "partition")),
    };
    let rate = info.predicted_fpr.map_or("unknown".into(), percent);
    format!(
        "{family} filter{partitions}: {}, {}, {:.2} bits/key, predicted rate {rate}",
        counted(info.keys, "key"),
        size(info.bytes),
        info.bits_per_key(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_means_of_neighbours_and_few() {
        let heat = |count: usize| {
            Heat::new((0..count).map(|i| i as f64), (0.0, 10.0), |f| f.to_string(), ("a", "b"))
        };
        assert_eq!(heat(3).cells, [0.0, 1.0, 2.0]);
        let many = heat(1025);
        assert_eq!((many.per_cell, many.cells.len()), (3, 342));
        assert_eq!((many.cells[0], many.cells[341]), (1.0, 1023.5));
        assert!(heat(0).cells.is_empty());
        assert_eq!([-1.0, 5.0, 99.0].map(|figure| heat(1).level(figure)), [0.0, 0.5, 1.0]);
    }
}
