//! The band of a real ribbon: the equations of its first slots, the same after elimination, and the
//! slots that solve them.

use maypole::filter::inspect::KeyEquation;
use maypole::text::count;

use super::bumping::filter;
use super::svg::{self, Canvas};
use crate::figures::keys::key_hash;

const KEYS: u64 = 10_000;
/// Slots that are shown, from the first on.
const SHOWN: u32 = 100;
const UNIT: f64 = 2.9;
const TOP: f64 = 66.0;

/// One equation: bit i of `coefficients` is for slot `start + i`.
#[derive(Clone, Copy)]
struct Row {
    start: u32,
    coefficients: u128,
    sum: u32,
}

impl From<KeyEquation> for Row {
    fn from(equation: KeyEquation) -> Row {
        let KeyEquation { start, coefficients, fingerprint: sum, .. } = equation;
        Row { start, coefficients, sum }
    }
}

/// Each row is added to others until its first coefficient is in a slot of its own.
fn eliminate(rows: &[Row], slots: u32) -> Vec<Option<Row>> {
    let mut band: Vec<Option<Row>> = vec![None; slots as usize];
    for &(mut row) in rows {
        while let Some(other) = band[row.start as usize] {
            row.coefficients ^= other.coefficients;
            row.sum ^= other.sum;
            assert_ne!(row.coefficients, 0, "the filter kept a key that contradicts others");
            let zeros = row.coefficients.trailing_zeros();
            row.coefficients >>= zeros;
            row.start += zeros;
        }
        band[row.start as usize] = Some(row);
    }
    band
}

/// The exclusive or of the slots that a row picks.
fn picked(slots: &[u32], row: &Row) -> u32 {
    let of = |i: &u32| row.coefficients >> i & 1 == 1;
    (0..u128::BITS).filter(of).fold(0, |sum, i| sum ^ slots[(row.start + i) as usize])
}

/// The slots, from the last one to the first.
fn solve(band: &[Option<Row>]) -> Vec<u32> {
    let mut slots = vec![0; band.len()];
    for (slot, row) in band.iter().enumerate().rev() {
        if let Some(row) = row {
            slots[slot] = row.sum ^ picked(&slots, row);
        }
    }
    slots
}

pub fn draw() -> String {
    let filter = filter(KEYS);
    let parts = filter.band().expect("a ribbon");
    let layer = &parts.layers[0];
    // The first blocks have a column less than the last ones.
    let columns = parts.columns - u32::from(layer.low_blocks > 0);
    let equations = (0..KEYS).filter_map(|i| parts.equation(key_hash("present", i)));
    let mut rows: Vec<Row> =
        equations.filter(|equation| equation.layer == 0).map(Row::from).collect();
    rows.iter_mut().for_each(|row| row.sum &= (1 << columns) - 1);
    rows.sort_by_key(|row| row.start);
    let band = eliminate(&rows, layer.slots);
    let slots = solve(&band);
    assert!(rows.iter().all(|row| picked(&slots, row) == row.sum), "it is solved");

    let mut canvas = Canvas::default();
    let width = UNIT * f64::from(SHOWN);
    let bits = UNIT * f64::from(columns);
    let first: Vec<(u32, Row)> = (0..).zip(rows.iter().copied()).collect();
    let first = first.into_iter().filter(|(number, row)| row.start < SHOWN && *number < SHOWN);
    let solved = (0..SHOWN).filter_map(|slot| Some((slot, band[slot as usize]?)));
    let mut x = 24.0;
    for (title, says, rows) in [
        ("equations", "a row for each key", first.collect::<Vec<_>>()),
        ("after elimination", "a row for each slot", solved.collect()),
    ] {
        canvas.text("name", (x, 28.0), "start", title);
        canvas.text("soft small", (x, 46.0), "start", &format!("{says}; across: slots"));
        canvas.text("soft small", (x + width + 6.0, TOP - 6.0), "start", "sum");
        let coefficients = rows.iter().flat_map(|(number, row)| {
            let set = |i: &u32| row.coefficients >> i & 1 == 1 && row.start + i < SHOWN;
            (0..u128::BITS).filter(set).map(move |i| (row.start + i, *number))
        });
        cells(&mut canvas, "mark", (x, TOP), coefficients);
        let sums = rows.iter().flat_map(|(number, row)| of_bits(row.sum, *number));
        cells(&mut canvas, "sum", (x + width + 6.0, TOP), sums);
        x += width + bits + 34.0;
    }
    canvas.text("name", (x, 28.0), "start", "slots");
    canvas.text("soft small", (x, 46.0), "start", "the filter");
    let stored = (0..SHOWN).flat_map(|slot| of_bits(slots[slot as usize], slot));
    cells(&mut canvas, "good", (x, TOP), stored);
    let bottom = TOP + UNIT * f64::from(SHOWN);
    let says = format!(
        "The first {SHOWN} of {} slots of a burr(7) of {} keys. A mark is a coefficient or a bit that \
         is 1.",
        count(layer.slots.into()),
        count(KEYS)
    );
    canvas.text("soft", (24.0, bottom + 24.0), "start", &says);
    let title = "The equations of a ribbon, eliminated and solved";
    svg::file(title, (x + 70.0, bottom + 40.0), 1.0, &canvas.body)
}

fn of_bits(bits: u32, row: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..u32::BITS).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| (bit, row))
}

/// Cells by column and row, in order. Neighbours in a row are one rectangle.
fn cells(
    canvas: &mut Canvas,
    class: &str,
    (x, y): (f64, f64),
    cells: impl Iterator<Item = (u32, u32)>,
) {
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for (column, row) in cells {
        match runs.last_mut() {
            Some((from, length, there)) if *there == row && *from + *length == column => {
                *length += 1
            }
            _ => runs.push((column, 1, row)),
        }
    }
    let path =
        |&(from, length, row): &(u32, u32, u32)| format!("M{from} {row}h{length}v1h-{length}z");
    let path: String = runs.iter().map(path).collect();
    canvas.scaled_path(class, (x, y), UNIT, &path);
}
