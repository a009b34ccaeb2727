//! The band of a full-size ribbon filter: the equations of its first slots, these equations after
//! elimination, and the slots that solve them.

use maypole::filter::FilterSpec;
use maypole::text::count;

use super::svg::{self, Canvas};
use crate::figures::equations::{Row, columns, eliminate, filter, picked, rows, solve};

const KEYS: u64 = 10_000;
/// Slots that are shown, from the first on.
const SHOWN: u32 = 100;
const UNIT: f64 = 2.9;
const TOP: f64 = 66.0;

pub fn draw() -> String {
    let filter = filter(FilterSpec::burr(7.0).unwrap(), KEYS).unwrap();
    let parts = filter.band().expect("a ribbon");
    let (layer, columns) = (&parts.layers[0], columns(&parts));
    let rows = rows(&parts, KEYS);
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

/// Draws the cells, each a pair `(column, row)`. The cells must be sorted by row and then by
/// column, because neighbours that follow each other are drawn as one rectangle.
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
