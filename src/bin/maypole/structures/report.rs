//! The results of the measurements, one row per structure: as a table, JSON or CSV.

use std::io::Write;

use super::measure::{Over, Row};
use super::subjects::QUOTIENT_LOAD;
use crate::failure::Result;
use crate::show::record::{self, record};
use crate::show::sheet::{Cell, Column, Screen, Sheet, or_dash};
use crate::show::text::{count, counted, percent};

pub fn table(rows: &[Row], keys: usize, rate: f64, out: &mut dyn Write) -> Result {
    let screen = Screen::stdout();
    let columns: &[Column<Row>] = &[
        ("structure", &|row| row.name.to_string().into()),
        ("deletes", &deletes),
        ("bits/key", &|row| format!("{:.2}", row.bits_per_key()).into()),
        ("bound", &|row| or_dash(row.over_bound().map(|over| format!("{over:.2}")))),
        ("build\nns/key", &|row| format!("{:.1}", row.build_ns).into()),
        ("absent\nns", &|row| format!("{:.1}", row.absent_ns).into()),
        ("present\nns", &|row| format!("{:.1}", row.present_ns).into()),
        ("rate", &|row| percent(row.rate()).into()),
        ("rate at\n2 times", &|row| row.over_text(0).into()),
        ("rate at\n5 times", &|row| row.over_text(1).into()),
    ];
    let sheet = Sheet::of(rows, columns);
    let keys = counted(keys as u64, "key");
    let heading = format!("Filters planned for {keys} and a rate of {}", percent(rate));
    writeln!(out, "{}", screen.wrap(&heading))?;
    writeln!(out, "{}\n", sheet.to_text(&screen))?;
    for note in notes(rows) {
        writeln!(out, "{}", screen.wrap(&format!("Note: {note}.")))?;
    }
    Ok(())
}

pub fn deletes(row: &Row) -> Cell {
    if row.deletes { "yes" } else { "no" }.to_string().into()
}

/// What a reader of the rows must know.
pub fn notes(rows: &[Row]) -> Vec<String> {
    let queries = count(rows.first().map_or(0, |row| row.queries as u64));
    vec![
        "bound: bits a key over log2(1/rate), the fewest that the rate can take".into(),
        "static: built from all its keys at once, so it never holds more than planned".into(),
        format!(
            "cascade: built for the {queries} absent keys that are queried, and right for all of them"
        ),
        format!("quotient: planned to be {:.0} % full", QUOTIENT_LOAD * 100.0),
    ]
}

record! {
    /// A row's figures by name.
    pub struct Figures {
        structure: String,
        deletes: bool,
        is_static: bool,
        planned_keys: u64,
        bytes: u64,
        bits_per_key: f64,
        bits_over_bound: Option<f64>,
        build_ns_per_key: f64,
        query_absent_ns: f64,
        query_present_ns: f64,
        absent_queries: u64,
        rate: f64,
        rate_at_2_times: Option<f64>,
        rate_at_5_times: Option<f64>,
        full_at_keys: Option<u64>,
    }
}

impl Figures {
    pub fn of(rows: &[Row]) -> Vec<Figures> {
        let tenths = |ns: f64| (ns * 10.0).round() / 10.0;
        let rate = |over: &Over| match over {
            Over::Rate(rate) => Some(*rate),
            _ => None,
        };
        let figures = rows.iter().map(|row| Figures {
            structure: row.name.to_string(),
            deletes: row.deletes,
            is_static: matches!(row.over[0], Over::Static),
            planned_keys: row.keys as u64,
            bytes: row.bytes as u64,
            bits_per_key: row.bits_per_key(),
            bits_over_bound: row.over_bound(),
            build_ns_per_key: tenths(row.build_ns),
            query_absent_ns: tenths(row.absent_ns),
            query_present_ns: tenths(row.present_ns),
            absent_queries: row.queries as u64,
            rate: row.rate(),
            rate_at_2_times: rate(&row.over[0]),
            rate_at_5_times: rate(&row.over[1]),
            full_at_keys: row.over.iter().find_map(|over| match over {
                Over::Full(held) => Some(*held as u64),
                _ => None,
            }),
        });
        figures.collect()
    }
}

pub fn objects(rows: &[Row]) -> Vec<String> {
    Figures::of(rows).iter().map(record::to_json).collect()
}

/// The same fields as CSV. A field that is null in JSON is empty.
pub fn csv(rows: &[Row]) -> String {
    record::to_csv(&Figures::of(rows))
}
