//! A picture on a terminal.
//!
//! ```text
//! ▃▅▂▄▆…     a strip: higher is more; in colour where there is colour
//! ████│      a bar, and where theory expects its end
//! ⠿⠶⠤⢠       a matrix: 2 slots across and 4 equations down in each character
//! ```

use super::drawing::{Band, Bar, Drawing, Heat, Picture, Rows};
use crate::show::sheet::{Cell, Screen, Sheet};
use crate::show::text::count;

/// The width if the screen does not report one.
const USUAL_WIDTH: usize = 80;
/// The most characters of a strip's line.
const STRIP_WIDTH: usize = 64;
const BAR_WIDTH: usize = 36;

pub fn text(picture: &Picture, screen: &Screen) -> String {
    let mut text = screen.bold(&screen.wrap(&picture.title)) + "\n";
    for panel in &picture.panels {
        text += &format!("\n{}\n", screen.bold(&panel.title));
        for paragraph in &panel.says {
            text += &(screen.wrap(paragraph) + "\n");
        }
        text += &match &panel.drawing {
            Drawing::Heat(heat) => strip(heat, screen),
            Drawing::Bars(bars) => histogram(bars, screen),
            Drawing::Rows(rows) => sheet(rows).to_text(screen) + "\n",
            Drawing::Band(band) => matrix(band, screen),
        };
    }
    screen.drawn(&text)
}

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Colors of the 256-color palette, from cold to hot, visible on black and on white.
const COLORS: [u8; 8] = [25, 31, 37, 71, 142, 178, 172, 160];

fn width(screen: &Screen) -> usize {
    screen.width.unwrap_or(USUAL_WIDTH).max(8)
}

fn mark(level: f64, screen: &Screen) -> String {
    let n = ((level * LEVELS.len() as f64) as usize).min(LEVELS.len() - 1);
    match screen.has_color {
        true => format!("\x1b[38;5;{}m{}\x1b[0m", COLORS[n], LEVELS[n]),
        false => LEVELS[n].to_string(),
    }
}

fn strip(heat: &Heat, screen: &Screen) -> String {
    let mut text = String::new();
    for cells in heat.cells.chunks(STRIP_WIDTH.min(width(screen) - 2)) {
        text += "  ";
        cells.iter().for_each(|&cell| text += &mark(heat.level(cell), screen));
        text += "\n";
    }
    let (low, high) = heat.ends;
    let things = heat.things();
    let legend = format!(
        "{} {} to {} {}; a character is {things}",
        LEVELS[0],
        (heat.figure)(low),
        LEVELS[LEVELS.len() - 1],
        (heat.figure)(high),
    );
    text + &screen.wrap(&legend) + "\n"
}

fn histogram(bars: &[Bar], screen: &Screen) -> String {
    let most = bars.iter().map(|bar| f64::max(bar.found as f64, bar.theory.unwrap_or(0.0)));
    let most = most.fold(1.0, f64::max);
    let name = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    let figures: Vec<(String, String)> = bars
        .iter()
        .map(|bar| (count(bar.found), bar.theory.map_or(String::new(), |t| format!("{t:.1}"))))
        .collect();
    let found = figures.iter().map(|f| f.0.len()).max().unwrap_or(0).max("found".len());
    let theory = figures.iter().map(|f| f.1.len()).max().unwrap_or(0);
    let theory = if theory > 0 { theory.max("theory".len()) } else { 0 };
    let bar_width = width(screen).saturating_sub(name + found + theory + 8).clamp(4, BAR_WIDTH);
    let mut text = String::new();
    if theory > 0 {
        let gap = " ".repeat(name + bar_width + 4);
        text += &format!("{gap}{:>found$}  {:>theory$} │\n", "found", "theory");
    }
    for (bar, (found_text, theory_text)) in bars.iter().zip(&figures) {
        let end = |figure: f64| (figure / most * bar_width as f64).round() as usize;
        let filled = end(bar.found as f64).max(usize::from(bar.found > 0));
        let mut drawn: Vec<char> =
            (0..bar_width).map(|at| if at < filled { '█' } else { ' ' }).collect();
        if let Some(theory) = bar.theory {
            drawn[end(theory).min(bar_width - 1)] = '│';
        }
        let drawn: String = drawn.into_iter().collect();
        let line =
            format!("  {:>name$} {drawn} {found_text:>found$}  {theory_text:>theory$}", bar.label);
        text += &(line.trim_end().to_string() + "\n");
    }
    text
}

fn sheet(rows: &Rows) -> Sheet {
    let cells = |row: &Vec<String>| row.iter().cloned().map(Cell::from).collect();
    Sheet { columns: rows.columns.clone(), rows: rows.rows.iter().map(cells).collect() }
}

/// The corner of the matrix that fits the screen.
fn matrix(band: &Band, screen: &Screen) -> String {
    let fingerprint = (band.columns as usize).div_ceil(2);
    let across = width(screen).saturating_sub(fingerprint + 5).max(4);
    let slots = band.slots.min(2 * across as u32);
    let rows: Vec<_> = band.rows.iter().filter(|row| row.start < slots).collect();
    let mut text = String::new();
    for rows in rows.chunks(4) {
        let bit = |x: u32, y: usize| rows.get(y).is_some_and(|row| Band::has(row, x));
        let coefficients: String = (0..slots.div_ceil(2))
            .map(|column| braille(|x, y| 2 * column + x < slots && bit(2 * column + x, y)))
            .collect();
        let sum = |x: u32, y: usize| rows.get(y).is_some_and(|row| row.fingerprint >> x & 1 == 1);
        let fingerprint: String = (0..fingerprint as u32)
            .map(|column| braille(|x, y| 2 * column + x < band.columns && sum(2 * column + x, y)))
            .collect();
        text += &format!("  {coefficients} = {fingerprint}\n");
    }
    if slots < band.slots {
        let all = band.slots;
        let legend = format!("{slots} slots, as wide as the screen; --out draws {all}");
        text += &(screen.wrap(&legend) + "\n");
    }
    text
}

/// A character of 2 × 4 dots.
fn braille(has: impl Fn(u32, usize) -> bool) -> char {
    const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
    let mut dots = 0;
    for (y, row) in DOTS.iter().enumerate() {
        for (x, dot) in row.iter().enumerate() {
            dots |= if has(x as u32, y) { *dot } else { 0 };
        }
    }
    char::from_u32(0x2800 + dots).unwrap_or(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braille_has_a_dot_for_each_bit() {
        assert_eq!(braille(|_, _| false), '⠀');
        assert_eq!(braille(|x, y| x == 0 && y == 0), '⠁');
        assert_eq!(braille(|x, y| x == 1 && y == 3), '⢀');
        assert_eq!(braille(|_, _| true), '⣿');
    }

    #[test]
    fn theory_is_marked_where_it_expects_the_bar_to_end() {
        let bar = |found, theory| Bar { label: "x".into(), found, theory: Some(theory) };
        let text = histogram(&[bar(36, 18.0), bar(0, 36.0)], &Screen::default());
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines[0].chars().position(|c| c == '│'), Some(4 + 18), "{text}");
        assert_eq!(lines[0].matches('█').count(), 35, "{text}");
        assert_eq!(lines[1].matches('█').count(), 0, "{text}");
    }
}
