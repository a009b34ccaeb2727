//! The results of the measurements, one row per structure: as a table and notes.

use std::io::Write;

use super::measure::Row;
use super::subjects::QUOTIENT_LOAD;
use crate::failure::Result;
use crate::show::sheet::{Column, Screen, Sheet, or_dash};
use crate::show::text::{count, counted, percent};

/// The table of the figures by which a reader chooses a structure.
pub fn sheet(rows: &[Row]) -> Sheet {
    let columns: &[Column<Row>] = &[
        ("structure", &|row| row.structure.clone().into()),
        ("deletes", &|row| if row.deletes { "yes" } else { "no" }.to_string().into()),
        ("bits/key", &|row| format!("{:.2}", row.bits_per_key).into()),
        ("bound", &|row| or_dash(row.bits_over_bound.map(|over| format!("{over:.2}")))),
        ("build\nns/key", &|row| format!("{:.1}", row.build_ns_per_key).into()),
        ("absent\nns", &|row| format!("{:.1}", row.query_absent_ns).into()),
        ("present\nns", &|row| format!("{:.1}", row.query_present_ns).into()),
        ("rate", &|row| percent(row.rate).into()),
        ("rate at\n2 times", &|row| row.over_text(row.rate_at_2_times).into()),
        ("rate at\n5 times", &|row| row.over_text(row.rate_at_5_times).into()),
    ];
    Sheet::of(rows, columns)
}

pub fn table(rows: &[Row], keys: usize, rate: f64, out: &mut dyn Write) -> Result {
    let screen = Screen::stdout();
    let keys = counted(keys as u64, "key");
    let heading = format!("Filters planned for {keys} and a rate of {}", percent(rate));
    writeln!(out, "{}", screen.wrap(&heading))?;
    writeln!(out, "{}\n", sheet(rows).to_text(&screen))?;
    screen.say(notes(rows).iter().map(|note| format!("Note: {note}.")), out)
}

/// Notes that explain columns and rows of the table.
pub fn notes(rows: &[Row]) -> Vec<String> {
    let queries = count(rows.first().map_or(0, |row| row.absent_queries));
    vec![
        "bound: bits a key over log2(1/rate), the fewest that the rate can take".into(),
        "static: built from all its keys at once, so it never holds more than planned".into(),
        format!(
            "cascade: built for the {queries} absent keys that are queried, and right for all of them"
        ),
        format!("quotient: planned to be {:.0} % full", QUOTIENT_LOAD * 100.0),
    ]
}
