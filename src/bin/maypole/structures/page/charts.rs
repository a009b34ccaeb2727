//! The charts of a page. Each has a line for each structure, in the same order.

use maypole::wilson_interval_95;

use super::super::measure::{Over, Row};
use super::super::subjects::OWN;
use crate::show::bars::{Chart, Line, Mark, Shape};
use crate::show::plot::ticks::{plain, rate};
use crate::show::plot::{Axis, Spread, color_of_family};
use crate::show::text::{count, percent};

/// A bar that is this many times as long as the second longest is cut.
const CUT_AT_TIMES: f64 = 4.0;

/// Bits a key compared with the bound.
pub fn memory(rows: &[Row]) -> Chart {
    let lines = lines(rows, |row| {
        let bits = row.bits_per_key();
        let rate = percent(row.rate());
        let says = format!("{}: {bits:.2} bits a key\nat a rate of {rate}", row.name);
        let mut marks = vec![Mark { at: bits, shape: Shape::Bar, says }];
        marks.extend(row.bound().map(|bound| {
            let says = format!("no filter of {rate} takes less\nthan {bound:.2} bits a key");
            Mark { at: bound, shape: Shape::Tick, says }
        }));
        let over = row.over_bound().map_or(String::new(), |over| format!(", {over:.2} ×"));
        (marks, format!("{bits:.2}{over}"))
    });
    let x = Axis::new("stored bits a key", Spread::Linear, plain);
    Chart { id: "memory", title: "Memory, and the least there is", x, lines }
}

pub fn build(rows: &[Row]) -> Chart {
    let lines = lines(rows, |row| {
        let ns = row.build_ns;
        let says = format!("{}: {ns:.1} ns a key", row.name);
        (vec![Mark { at: ns, shape: Shape::Bar, says }], format!("{ns:.1}"))
    });
    let x = time_axis("ns a key", rows.iter().map(|row| row.build_ns));
    Chart { id: "build", title: "Time to build", x, lines }
}

pub fn query(rows: &[Row]) -> Chart {
    let lines = lines(rows, |row| {
        let of = |keys: &str, ns: f64, shape| {
            let says = format!("{}, {keys} keys: {ns:.1} ns a query", row.name);
            Mark { at: ns, shape, says }
        };
        let marks = vec![
            of("absent", row.absent_ns, Shape::Bar),
            of("present", row.present_ns, Shape::PaleBar),
        ];
        (marks, format!("{:.1}, {:.1}", row.absent_ns, row.present_ns))
    });
    let times = rows.iter().flat_map(|row| [row.absent_ns, row.present_ns]);
    let x = time_axis("ns a query", times);
    Chart { id: "query", title: "Time to ask", x, lines }
}

/// Rates with once, twice and five times the planned keys.
pub fn rates(rows: &[Row]) -> Chart {
    let lines = lines(rows, |row| {
        let keys = |times: usize| count((times * row.keys) as u64);
        let dot = |times: usize, text, rate: f64| {
            let says = format!("{}: {}\nwith {} keys", row.name, percent(rate), keys(times));
            // A rate of 0 has no place on the logarithmic axis.
            (rate > 0.0).then_some(Mark { at: rate, shape: Shape::Dot(text), says })
        };
        let bound = (row.false_positives == 0).then(|| {
            let (_, most) = wilson_interval_95(0, row.queries as u64).unwrap_or((0.0, 1.0));
            let asked = count(row.queries as u64);
            let says = format!(
                "{}: none of {asked} was wrong\nat most {} (95 %)",
                row.name,
                percent(most)
            );
            Mark { at: most, shape: Shape::Dot("≤"), says }
        });
        let over = |which: usize, times, text| match row.over[which] {
            Over::Rate(rate) => dot(times, text, rate),
            _ => None,
        };
        let marks = [dot(1, "1", row.rate()), over(0, 2, "2"), over(1, 5, "5")];
        let note = match row.over[1] {
            _ if row.false_positives == 0 => "never wrong".into(),
            Over::Rate(rate) => {
                let from = percent(row.rate());
                format!("{} to {}", from.trim_end_matches(" %"), percent(rate))
            }
            Over::Full(held) => format!("full at {:.2} ×", held as f64 / row.keys as f64),
            Over::Static => "static".into(),
        };
        (marks.into_iter().flatten().chain(bound).collect(), note)
    });
    let x = Axis::new("false-positive rate", Spread::Log, rate);
    Chart { id: "rates", title: "With more keys than planned", x, lines }
}

fn lines(rows: &[Row], shown: impl Fn(&Row) -> (Vec<Mark>, String)) -> Vec<Line> {
    let line = |row: &Row| {
        let (marks, note) = shown(row);
        Line { name: row.name.to_string(), color: color(&row.name), marks, note }
    };
    rows.iter().map(line).collect()
}

/// The color of a structure: that of its family on the pages of `compare`, and grey for a
/// textbook's filter.
fn color(name: &str) -> usize {
    name.strip_prefix(OWN).and_then(color_of_family).unwrap_or(0)
}

/// An axis from 0 to the longest time, or to less if that would make the other bars too short.
fn time_axis(label: &str, times: impl Iterator<Item = f64>) -> Axis {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    let axis = Axis::new(label, Spread::Linear, plain);
    match times[..] {
        [.., second, longest] if longest > CUT_AT_TIMES * second => {
            axis.with_ends(0.0, 1.25 * second)
        }
        _ => axis,
    }
}
