//! The same memory, divided among the filters of a tree's runs in two ways: equal bits for each
//! key, and the optimum of the paper on Monkey, by which smaller runs get lower rates.

use maypole::filter::FilterSpec;
use maypole::text::count;

use super::bars::{Bars, legend};
use super::svg::{self, Canvas};
use crate::figures::runs::{Measured, RUNS, divided, measured};

const WIDTH: f64 = 760.0;
const TOP: f64 = 86.0;
const BITS: f64 = 10.0;

pub fn draw() -> String {
    let equal = measured(&[FilterSpec::bloom(BITS).unwrap(); 4]);
    let monkey = measured(&divided(BITS));
    let groups = |figure: &dyn Fn(&Measured, u64) -> f64| {
        let run = |run: usize| [&equal, &monkey].map(|runs| figure(&runs[run], RUNS[run])).to_vec();
        (0..RUNS.len()).map(run).collect::<Vec<_>>()
    };
    let bits = Bars {
        title: "stored bits a key",
        x: (150.0, 380.0),
        classes: &["fill c0", "mark"],
        groups: groups(&|run, keys| run.bytes as f64 * 8.0 / keys as f64),
        figure: |bits| format!("{bits:.1}"),
    };
    let reads = Bars {
        title: "reads in vain of 1,000 absent lookups",
        x: (470.0, 690.0),
        classes: &["fill c0", "mark"],
        groups: groups(&|run, _| run.rate * 1000.0),
        figure: |reads| format!("{reads:.1}"),
    };
    let mut canvas = Canvas::default();
    let sums = |runs: &[Measured]| {
        let bytes: usize = runs.iter().map(|run| run.bytes).sum();
        let reads: f64 = runs.iter().map(|run| run.rate * 1000.0).sum();
        format!("{} bytes in all, {reads:.1} reads in vain", count(bytes as u64))
    };
    let equal_says = format!("bloom({BITS}): {}", sums(&equal));
    let monkey_says = format!("budget({BITS}/key), Monkey's optimum: {}", sums(&monkey));
    legend(&mut canvas, (24.0, 28.0), "fill c0", &equal_says);
    legend(&mut canvas, (24.0, 50.0), "mark", &monkey_says);
    for (run, keys) in RUNS.iter().enumerate() {
        let keys = format!("{} keys", count(*keys));
        canvas.text("", (140.0, bits.middle(TOP, run) + 4.0), "end", &keys);
    }
    let bottom = bits.draw(&mut canvas, TOP);
    reads.draw(&mut canvas, TOP);
    let title = "A budget of bits, divided equally and by Monkey's rule";
    svg::file(title, (WIDTH, bottom + 46.0), 1.0, &canvas.body)
}
