//! What came of the measurements: a row a structure, as a table, JSON or CSV.

use std::io::Write;

use serde_json::{Value, json};

use super::measure::{Over, Row};
use super::subjects::QUOTIENT_LOAD;
use crate::failure::Result;
use crate::output;
use crate::show::text::{count, percent};

/// The table, and what has to be said of it.
pub fn table(rows: &[Row], keys: usize, rate: f64, out: &mut dyn Write) -> Result {
    let header = [
        "structure",
        "deletes",
        "bits/key",
        "bound",
        "build\nns/key",
        "absent\nns",
        "present\nns",
        "rate",
        "rate at\n2 times",
        "rate at\n5 times",
    ];
    let cells = rows.iter().map(|row| {
        let over = |over: &Over| match over {
            Over::Rate(rate) => percent(*rate),
            Over::Full(held) => format!("full at {:.2}", *held as f64 / row.keys as f64),
            Over::Static => "static".into(),
        };
        vec![
            row.name.to_string(),
            if row.deletes { "yes" } else { "no" }.into(),
            format!("{:.2}", row.bits_per_key()),
            row.over_bound().map_or("-".into(), |over| format!("{over:.2}")),
            format!("{:.1}", row.build_ns),
            format!("{:.1}", row.absent_ns),
            format!("{:.1}", row.present_ns),
            percent(row.rate()),
            over(&row.over[0]),
            over(&row.over[1]),
        ]
    });
    let keys = count(keys as u64);
    writeln!(out, "Filters planned for {keys} keys and a rate of {}", percent(rate))?;
    writeln!(out, "{}\n", output::table(&header, cells))?;
    let queries = rows.first().map_or(0, |row| row.queries as u64);
    let queries = count(queries);
    for note in [
        "bound: bits a key over log2(1/rate), the fewest that the rate can take".into(),
        "static: built from all its keys at once, so it never holds more than planned".into(),
        format!(
            "cascade: built for the {queries} absent keys that are asked, and right for all of them"
        ),
        format!("quotient: planned to be {:.0} % full", QUOTIENT_LOAD * 100.0),
    ] {
        writeln!(out, "Note: {note}.")?;
    }
    Ok(())
}

/// One row's figures by name.
fn fields(row: &Row) -> Vec<(&'static str, Value)> {
    let tenths = |ns: f64| json!((ns * 10.0).round() / 10.0);
    let rate = |over: &Over| match over {
        Over::Rate(rate) => json!(rate),
        _ => Value::Null,
    };
    let full = row.over.iter().find_map(|over| match over {
        Over::Full(held) => Some(*held),
        _ => None,
    });
    let is_static = matches!(row.over[0], Over::Static);
    vec![
        ("structure", json!(row.name)),
        ("deletes", json!(row.deletes)),
        ("static", json!(is_static)),
        ("planned_keys", json!(row.keys)),
        ("bytes", json!(row.bytes)),
        ("bits_per_key", json!(row.bits_per_key())),
        ("bits_over_bound", json!(row.over_bound())),
        ("build_ns_per_key", tenths(row.build_ns)),
        ("query_absent_ns", tenths(row.absent_ns)),
        ("query_present_ns", tenths(row.present_ns)),
        ("absent_queries", json!(row.queries)),
        ("rate", json!(row.rate())),
        ("rate_at_2_times", rate(&row.over[0])),
        ("rate_at_5_times", rate(&row.over[1])),
        ("full_at_keys", json!(full)),
    ]
}

/// A JSON array, one object a structure and line.
pub fn json(rows: &[Row], out: &mut dyn Write) -> Result {
    let objects: Vec<_> = rows
        .iter()
        .map(|row| {
            let fields = fields(row);
            let shown: Vec<(&str, &dyn std::fmt::Display)> =
                fields.iter().map(|(name, value)| (*name, value as _)).collect();
            output::json_object(&shown)
        })
        .collect();
    output::json_array(&objects, out)
}

/// The same fields with commas between them. What JSON calls null is empty.
pub fn csv(rows: &[Row], out: &mut dyn Write) -> Result {
    for (i, row) in rows.iter().enumerate() {
        let fields = fields(row);
        if i == 0 {
            let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
            writeln!(out, "{}", names.join(","))?;
        }
        let values: Vec<_> = fields
            .iter()
            .map(|(_, value)| if value.is_null() { String::new() } else { value.to_string() })
            .collect();
        // Texts are in quotation marks, as JSON and CSV both want them.
        writeln!(out, "{}", values.join(","))?;
    }
    Ok(())
}
