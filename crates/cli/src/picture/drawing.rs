//! A picture as figures and text, without lines and colors.

use maypole::filter::inspect::KeyEquation;

use crate::show::text::count;

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
