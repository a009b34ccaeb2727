//! One line of a Bloom filter, key by key: the bits that are set, and the share of absent keys that
//! pass.

use std::collections::BTreeSet;

use maypole::filter::inspect::QueryTrace;
use maypole::filter::{FilterBuilder, FilterReader, FilterSpec};

use super::bars::legend;
use super::svg::{self, Canvas};
use crate::figures::keys::key_hash;

const LINE_BITS: u32 = 512;
const BITS_ACROSS: u32 = 32;
/// The number of keys that one line of 512 bits is planned for, at 10 bits each.
const PLANNED: u64 = 51;
/// The number of keys in the line in each of the six grids: up to twice as many as planned.
const KEYS: [u64; 6] = [1, 5, 20, PLANNED, 75, 2 * PLANNED];
const ABSENT: u64 = 20_000;

const CELL: f64 = 7.0;
const COLUMN: f64 = 250.0;
const ROW: f64 = 172.0;

/// The bits that a key sets in the filter's only line.
fn bits(filter: &FilterReader, set: &str, i: u64) -> Vec<u32> {
    let QueryTrace::Line { bits, .. } = filter.trace(key_hash(set, i)) else { panic!("no line") };
    bits.into_iter().map(|bit| bit.number % LINE_BITS).collect()
}

pub fn draw() -> String {
    let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0).unwrap());
    (0..PLANNED).for_each(|i| builder.add(key_hash("present", i)));
    let filter = builder.finish().unwrap().into_reader();
    let absent: Vec<Vec<u32>> = (0..ABSENT).map(|i| bits(&filter, "absent", i)).collect();

    let mut canvas = Canvas::default();
    for (number, keys) in KEYS.into_iter().enumerate() {
        let of_keys = (0..keys).flat_map(|i| bits(&filter, "present", i));
        let set: BTreeSet<u32> = of_keys.collect();
        if keys == PLANNED {
            assert_eq!(set, stored(&filter), "the filter of the library has other bits");
        }
        let passed = absent.iter().filter(|bits| bits.iter().all(|bit| set.contains(bit))).count();
        let at = (20.0 + COLUMN * (number % 3) as f64, 16.0 + ROW * (number / 3) as f64);
        let last: BTreeSet<u32> = bits(&filter, "present", keys - 1).into_iter().collect();
        grid(&mut canvas, at, &set, &last);
        let keys_says = match keys {
            1 => "1 key".to_string(),
            PLANNED => format!("{keys} keys, as planned"),
            _ => format!("{keys} keys"),
        };
        let fill = set.len() as f64 / f64::from(LINE_BITS) * 100.0;
        let rate = passed as f64 / ABSENT as f64 * 100.0;
        let below = at.1 + CELL * f64::from(LINE_BITS / BITS_ACROSS);
        canvas.text("name", (at.0, below + 17.0), "start", &keys_says);
        let says = format!("{fill:.0} % set; {rate:.2} % of absent keys pass");
        canvas.text("soft small", (at.0, below + 32.0), "start", &says);
    }
    let bottom = 2.0 * ROW + 18.0;
    legend(&mut canvas, (20.0, bottom), "sum", "the bits of the key added last");
    legend(&mut canvas, (20.0 + COLUMN, bottom), "mark", "bits of the keys before");
    let title = "One line of a Bloom filter fills: 512 bits, 6 of them for each key";
    svg::file(title, (20.0 + 3.0 * COLUMN, bottom + 18.0), 1.0, &canvas.body)
}

/// The bits of the stored filter.
fn stored(filter: &FilterReader) -> BTreeSet<u32> {
    let lines: Vec<&[u8]> = filter.lines().expect("a Bloom filter").collect();
    let [line] = lines[..] else { panic!("{} lines", lines.len()) };
    (0..LINE_BITS).filter(|&bit| line[bit as usize / 8] >> (bit % 8) & 1 == 1).collect()
}

fn grid(canvas: &mut Canvas, (x, y): (f64, f64), set: &BTreeSet<u32>, last: &BTreeSet<u32>) {
    let is_older = |bit: &u32| !last.contains(bit);
    let cells = |bits: &mut dyn Iterator<Item = u32>| -> String {
        let cell = |bit: u32| {
            let (column, row) = (bit % BITS_ACROSS, bit / BITS_ACROSS);
            let (x, y) = (x + CELL * f64::from(column), y + CELL * f64::from(row));
            format!("M{x} {y}h6v6h-6z")
        };
        bits.map(cell).collect()
    };
    let rows = f64::from(LINE_BITS / BITS_ACROSS);
    canvas.rect(
        "pale",
        (x - 1.0, y - 1.0),
        (CELL * f64::from(BITS_ACROSS) + 1.0, CELL * rows + 1.0),
    );
    canvas.path("mark", &cells(&mut set.iter().copied().filter(is_older)));
    canvas.path("sum", &cells(&mut last.iter().copied()));
}
