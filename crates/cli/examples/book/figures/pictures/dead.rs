//! What tombstones cost: the number of entries in the tables after some of the keys were deleted.

use super::plot::{Axis, Look, Plot, Point, Series, Spread};
use super::plot_file;
use crate::figures::tree::{Dead, KEYS, dead_after};

/// The percentages of keys that are deleted. From 6 % on, the deletions would free enough bytes to
/// start a merge, which leaves only live entries.
const PERCENT: [u64; 14] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20];

pub fn draw() -> String {
    let found: Vec<(u64, Dead)> = PERCENT.map(|percent| (percent, dead_after(percent))).into();
    let series = |name: &str, color, look, entries: &dyn Fn(&Dead) -> u64| {
        let point = |(percent, dead): &(u64, Dead)| {
            let says = format!("{percent} % deleted: {} entries", entries(dead));
            Point::new(*percent as f64, entries(dead) as f64, says)
        };
        let points = found.iter().map(point).collect();
        Series { name: name.into(), color, look, points }
    };
    let number = |figure: f64| maypole::text::count(figure as u64);
    plot_file(&Plot {
        id: "dead".into(),
        title: "Entries in tables after deletions, before and after compaction".into(),
        x: Axis::new("deleted (% of 10,000 keys)", Spread::Linear, number).with_ends(0.0, 20.0),
        y: Axis::new("entries in tables", Spread::Linear, number).with_ends(8_000.0, 12_000.0),
        series: vec![
            series("deleted, not merged", 2, Look::Curve, &|dead| KEYS + dead.deleted),
            series("after compaction", 1, Look::Joined, &|dead| dead.entries),
            series("keys alive", 0, Look::Theory, &|dead| dead.alive),
        ],
    })
}
