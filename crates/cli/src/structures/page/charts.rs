//! The charts of a page. Each has a line for each structure, in the same order.

use maypole::wilson_interval_95;

use super::super::measure::Row;
use super::super::subjects::OWN;
use crate::show::bars::{Chart, Line, Mark, Shape};
use crate::show::plot::ticks::{plain, rate};
use crate::show::plot::{Axis, Spread, color_of_family};
use crate::show::text::{count, percent};

/// A bar longer than this multiple of the second longest is cut.
const CUT_AT_TIMES: f64 = 4.0;

/// Bits a key, compared with the bound, which is the fewest bits a key with which any filter can
/// have the same rate.
pub fn memory(rows: &[Row]) -> Chart {
    let lines = lines(rows, |row| {
        let bits = row.bits_per_key;
        let rate = percent(row.rate);
        let says = format!("{}: {bits:.2} bits a key\nat a rate of {rate}", row.structure);
        let mut marks = vec![Mark { at: bits, shape: Shape::Bar, says }];
        marks.extend(row.bits_over_bound.map(|over| {
            let bound = bits / over;
            let says = format!("no filter of {rate} takes less\nthan {bound:.2} bits a key");
            Mark { at: bound, shape: Shape::Tick, says }
        }));
        let over = row.bits_over_bound.map_or(String::new(), |over| format!(", {over:.2} ×"));
        (marks, format!("{bits:.2}{over}"))
    });
    let x = Axis::new("stored bits a key", Spread::Linear, plain);
    Chart { id: "memory", title: "Memory, and the least there is", x, lines }
}

pub fn build(rows: &[Row]) -> Chart {
    let lines = lines(rows, |row| {
        let ns = row.build_ns_per_key;
        let says = format!("{}: {ns:.1} ns a key", row.structure);
        (vec![Mark { at: ns, shape: Shape::Bar, says }], format!("{ns:.1}"))
    });
    let x = time_axis("ns a key", rows.iter().map(|row| row.build_ns_per_key));
    Chart { id: "build", title: "Time to build", x, lines }
}

pub fn query(rows: &[Row]) -> Chart {
    let lines = lines(rows, |row| {
        let of = |keys: &str, ns: f64, shape| {
            let says = format!("{}, {keys} keys: {ns:.1} ns a query", row.structure);
            Mark { at: ns, shape, says }
        };
        let marks = vec![
            of("absent", row.query_absent_ns, Shape::Bar),
            of("present", row.query_present_ns, Shape::PaleBar),
        ];
        (marks, format!("{:.1}, {:.1}", row.query_absent_ns, row.query_present_ns))
    });
    let times = rows.iter().flat_map(|row| [row.query_absent_ns, row.query_present_ns]);
    let x = time_axis("ns a query", times);
    Chart { id: "query", title: "Time to ask", x, lines }
}

/// Rates with once, twice and five times the planned keys.
pub fn rates(rows: &[Row]) -> Chart {
    let lines = lines(rows, |row| {
        let keys = |times: u64| count(times * row.planned_keys);
        let dot = |times: u64, text, rate: Option<f64>| {
            // A rate of 0 has no place on the logarithmic axis.
            let rate = rate.filter(|&rate| rate > 0.0)?;
            let says = format!("{}: {}\nwith {} keys", row.structure, percent(rate), keys(times));
            Some(Mark { at: rate, shape: Shape::Dot(text), says })
        };
        let bound = (row.rate == 0.0).then(|| {
            let asked = count(row.absent_queries);
            let (_, most) = wilson_interval_95(0, row.absent_queries).unwrap_or((0.0, 1.0));
            let says = format!(
                "{}: none of {asked} was wrong\nat most {} (95 %)",
                row.structure,
                percent(most)
            );
            Mark { at: most, shape: Shape::Dot("≤"), says }
        });
        let marks = [
            dot(1, "1", Some(row.rate)),
            dot(2, "2", row.rate_at_2_times),
            dot(5, "5", row.rate_at_5_times),
        ];
        let over = row.over_text(row.rate_at_5_times);
        let note = match (row.rate_at_5_times, row.full_at_keys) {
            _ if row.rate == 0.0 => "never wrong".into(),
            (Some(_), _) => format!("{} to {over}", percent(row.rate).trim_end_matches(" %")),
            (None, Some(_)) => format!("{over} ×"),
            (None, None) => over,
        };
        (marks.into_iter().flatten().chain(bound).collect(), note)
    });
    let x = Axis::new("false-positive rate", Spread::Log, rate);
    Chart { id: "rates", title: "With more keys than planned", x, lines }
}

fn lines(rows: &[Row], shown: impl Fn(&Row) -> (Vec<Mark>, String)) -> Vec<Line> {
    let line = |row: &Row| {
        let (marks, note) = shown(row);
        Line { name: row.structure.clone(), color: color(&row.structure), marks, note }
    };
    rows.iter().map(line).collect()
}

/// The color of a structure: that of its family on the pages of `compare`, and grey for a
/// textbook's filter.
fn color(name: &str) -> usize {
    name.strip_prefix(OWN).and_then(color_of_family).unwrap_or(0)
}

/// An axis from 0 to the longest time. If that is over [`CUT_AT_TIMES`] times the second longest,
/// the other bars would be too short to read, so the axis ends a little after the second longest.
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
