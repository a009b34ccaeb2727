//! How many keys the lines of a Bloom filter have, and which lines the false positives come from.

use maypole::filter::inspect::QueryTrace;
use maypole::filter::{FilterBuilder, FilterReader, FilterSpec};

use super::bars::{Columns, legend};
use super::svg::{self, Canvas};
use crate::figures::keys::key_hash;

const KEYS: u64 = 51_200;
const ABSENT: u64 = 500_000;
/// Each column of the picture counts the lines that have from n to n + `STEP` - 1 keys. n is
/// `FIRST` in the first column and `STEP` more in each following one. The first column also counts
/// lines with fewer keys, and the last one lines with more.
const STEP: usize = 5;
const FIRST: usize = 30;
const COLUMNS: usize = 9;

fn line(filter: &FilterReader, hash: u64) -> usize {
    let QueryTrace::Line { line, .. } = filter.trace(hash) else { panic!("no line") };
    line as usize
}

pub fn draw() -> String {
    let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0).unwrap());
    (0..KEYS).for_each(|i| builder.add(key_hash("present", i)));
    let filter = builder.finish().unwrap().into_reader();
    let mut keys_of = vec![0; filter.lines().unwrap().count()];
    (0..KEYS).for_each(|i| keys_of[line(&filter, key_hash("present", i))] += 1);

    let column = |keys: usize| (keys.max(FIRST) - FIRST) / STEP;
    let (mut lines, mut passed) = ([0u32; COLUMNS], [0u32; COLUMNS]);
    keys_of.iter().for_each(|&keys| lines[column(keys).min(COLUMNS - 1)] += 1);
    let false_positives = (0..ABSENT).map(|i| key_hash("absent", i));
    for hash in false_positives.filter(|&hash| filter.may_contain(hash)) {
        passed[column(keys_of[line(&filter, hash)]).min(COLUMNS - 1)] += 1;
    }
    let share = |counts: [u32; COLUMNS]| {
        let all: u32 = counts.iter().sum();
        counts.map(|count| f64::from(count) / f64::from(all) * 100.0)
    };
    // The false-positive rate of the lines that a column counts. The queries for absent keys are
    // assumed to be spread evenly over all lines.
    let rates = (0..COLUMNS).map(|column| {
        let queried = ABSENT as f64 * f64::from(lines[column]) / keys_of.len() as f64;
        f64::from(passed[column]) / queried * 100.0
    });
    let names = (0..COLUMNS).map(|column| {
        let from = FIRST + STEP * column;
        format!("{from}–{}", from + STEP - 1)
    });
    let mut canvas = Canvas::default();
    legend(&mut canvas, (70.0, 26.0), "mark", "of all lines");
    legend(&mut canvas, (190.0, 26.0), "sum", "of all false positives");
    let columns = Columns {
        x_title: "keys of the line (51.2 on average)",
        y_title: "share (%)",
        x: (70.0, 740.0),
        y: (300.0, 60.0),
        classes: &["mark", "sum"],
        names: names.collect(),
        groups: share(lines).into_iter().zip(share(passed)).map(|(a, b)| vec![a, b]).collect(),
    };
    columns.draw(&mut canvas);
    for (column, rate) in rates.enumerate() {
        let says = if rate.is_finite() { format!("{rate:.1} %") } else { "–".into() };
        canvas.text("small", (columns.middle(column), 354.0), "middle", &says);
    }
    let title = "rate of such a line (% of the absent keys that fall on it)";
    canvas.text("soft", (405.0, 374.0), "middle", title);
    let title = "Keys on the lines of a Bloom filter, and where its false positives come from";
    svg::file(title, (760.0, 390.0), 1.0, &canvas.body)
}
