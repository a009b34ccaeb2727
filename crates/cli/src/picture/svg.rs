//! A picture as one SVG file.
//!
//! Panels are stacked vertically. Each cell of a strip has its figure in a `<title>`, which a
//! browser shows on hover.

use std::fmt::Write;

use super::drawing::{Band, Bar, Drawing, Heat, Panel, Picture, Rows};
use crate::show::sheet::Screen;
use crate::show::svg::{self, Canvas};
use crate::show::text::count;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 24.0;
const LINE_HEIGHT: f64 = 18.0;
/// Characters of a line of text.
const LINE_CHARACTERS: usize = 104;

/// A drawing that grows downward.
struct Paper {
    canvas: Canvas,
    /// The y coordinate down to which the drawing has grown.
    y: f64,
}

pub fn svg(picture: &Picture) -> String {
    let mut paper = Paper { canvas: Canvas::default(), y: 20.0 };
    paper.paragraph(&picture.title, "title", 84);
    for panel in &picture.panels {
        paper.panel(panel);
    }
    svg::file(&picture.title, (WIDTH, paper.y + 20.0), 1.0, &paper.canvas.body)
}

impl Paper {
    fn panel(&mut self, panel: &Panel) {
        self.y += 14.0;
        self.canvas.path("line", &format!("M{LEFT} {:.1}H{:.1}", self.y, WIDTH - LEFT));
        self.y += 8.0;
        self.paragraph(&panel.title, "name", LINE_CHARACTERS);
        for paragraph in &panel.says {
            self.paragraph(paragraph, "soft", LINE_CHARACTERS);
        }
        self.y += 6.0;
        match &panel.drawing {
            Drawing::Heat(heat) => self.strip(heat),
            Drawing::Bars(bars) => self.histogram(bars),
            Drawing::Rows(rows) => self.rows(rows),
            Drawing::Band(band) => self.matrix(band),
        }
    }

    fn paragraph(&mut self, text: &str, class: &str, characters: usize) {
        let screen = Screen { width: Some(characters), ..Screen::default() };
        for line in screen.wrap(text).lines() {
            self.y += LINE_HEIGHT;
            self.text(LEFT, "start", class, line);
        }
    }

    /// Draws a text on the current line.
    fn text(&mut self, x: f64, anchor: &str, class: &str, text: &str) {
        self.canvas.text(class, (x, self.y), anchor, text.trim());
    }

    fn strip(&mut self, heat: &Heat) {
        const ACROSS: usize = 64;
        const SIDE: f64 = 11.0;
        self.y += 6.0;
        for (number, &cell) in heat.cells.iter().enumerate() {
            let (x, y) = ((number % ACROSS) as f64 * SIDE, (number / ACROSS) as f64 * SIDE);
            let first = number * heat.per_cell;
            let things = match heat.per_cell {
                1 => format!("{} {first}", heat.thing.0),
                n => format!("{} from {first}, {n}", heat.thing.1),
            };
            let _ = writeln!(
                self.canvas.body,
                "<rect class=\"mark cell\" x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" \
                 fill-opacity=\"{:.2}\"><title>{things}: {}</title></rect>",
                LEFT + x,
                self.y + y,
                opacity(heat.level(cell)),
                (heat.figure)(cell)
            );
        }
        self.y += heat.cells.len().div_ceil(ACROSS) as f64 * SIDE + LINE_HEIGHT;
        let things = heat.things();
        for step in 0..8 {
            let _ = writeln!(
                self.canvas.body,
                "<rect class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" \
                 fill-opacity=\"{:.2}\"/>",
                LEFT + f64::from(step) * SIDE,
                self.y - 9.5,
                opacity(f64::from(step) / 7.0)
            );
        }
        let (low, high) = heat.ends;
        let legend =
            format!("{} to {}; a cell is {things}", (heat.figure)(low), (heat.figure)(high));
        self.text(LEFT + 8.0 * SIDE + 8.0, "start", "soft", &legend);
    }

    fn histogram(&mut self, bars: &[Bar]) {
        const FROM: f64 = 130.0;
        const TO: f64 = 600.0;
        let most = bars.iter().map(|bar| f64::max(bar.found as f64, bar.theory.unwrap_or(0.0)));
        let most = most.fold(1.0, f64::max);
        let end = |figure: f64| FROM + figure / most * (TO - FROM);
        if bars.iter().any(|bar| bar.theory.is_some()) {
            self.y += LINE_HEIGHT;
            self.text(TO + 70.0, "end", "soft", "found");
            self.text(TO + 136.0, "end", "soft", "theory");
            let tick = format!("M{:.1} {:.1}v-11", TO + 82.0, self.y + 1.0);
            self.canvas.path("theory", &tick);
        }
        for bar in bars {
            self.y += LINE_HEIGHT;
            self.text(FROM - 8.0, "end", "soft", &bar.label);
            self.text(TO + 70.0, "end", "", &count(bar.found));
            let length = end(bar.found as f64) - FROM;
            self.canvas.rect("mark bar", (FROM, self.y - 11.5), (length, 14.0));
            if let Some(theory) = bar.theory {
                self.text(TO + 136.0, "end", "soft", &format!("{theory:.1}"));
                let tick = format!("M{:.1} {:.1}v18", end(theory), self.y - 13.5);
                self.canvas.path("theory", &tick);
            }
        }
    }

    fn rows(&mut self, rows: &Rows) {
        // The width of a column is in proportion to its longest text.
        let longest = |column: usize| {
            let cells = rows.rows.iter().map(|row| row[column].chars().count());
            cells.chain([rows.columns[column].len()]).max().unwrap_or(0) as f64 + 2.0
        };
        let lengths: Vec<f64> = (0..rows.columns.len()).map(longest).collect();
        let unit = (WIDTH - 2.0 * LEFT) / lengths.iter().sum::<f64>().max(1.0);
        let right = |column: usize| LEFT + unit * lengths[..=column].iter().sum::<f64>();
        self.y += LINE_HEIGHT;
        for (number, name) in rows.columns.iter().enumerate() {
            self.text(right(number), "end", "soft", name);
        }
        for row in &rows.rows {
            self.y += LINE_HEIGHT;
            for (number, cell) in row.iter().enumerate() {
                self.text(right(number), "end", "", cell);
            }
        }
    }

    /// Draws the matrix. Each slot is two units wide, and each equation two units high.
    fn matrix(&mut self, band: &Band) {
        const UNIT: f64 = 2.0;
        let mut marks = String::new();
        let mut sums = String::new();
        for (number, row) in band.rows.iter().enumerate() {
            let mut slot = row.start;
            while slot < band.slots && slot - row.start < u128::BITS {
                let from = slot;
                while slot < band.slots && Band::has(row, slot) {
                    slot += 1;
                }
                if slot > from {
                    let _ = write!(marks, "M{from} {number}h{}v1H{from}z", slot - from);
                }
                slot += 1;
            }
            for column in (0..band.columns).filter(|column| row.fingerprint >> column & 1 == 1) {
                let _ = write!(sums, "M{column} {number}h1v1h-1z");
            }
        }
        let sums_at = LEFT + UNIT * f64::from(band.slots) + 10.0;
        for (class, x, path) in [("mark", LEFT, marks), ("sum", sums_at, sums)] {
            let class = format!("{class} matrix");
            self.canvas.scaled_path(&class, (x, self.y + 6.0), UNIT, &path);
        }
        self.y += UNIT * band.rows.len() as f64 + 12.0;
    }
}

/// The opacity of a cell. `level` tells where the number that the cell shows is between the one
/// with the lightest color (0) and the one with the darkest (1). The lightest cell is still
/// visible.
fn opacity(level: f64) -> f64 {
    0.08 + 0.92 * level
}
