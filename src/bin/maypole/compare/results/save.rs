//! The files of a run: the page, and its figures as JSON and CSV.
//!
//! ```text
//! DIR/index.html       the page
//!     compare.json     {"about": {…}, "policies": [one object a line, …], "levels": […], …}
//!     policies.csv     the same rows, one file for each list
//!     levels.csv       …
//! ```

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{About, Results, page};
use crate::failure::Result;
use crate::show::files::{PAGE, write};
use crate::show::record::{self, Record};

/// The command that pages name as their maker.
pub const MAKER: &str = "maypole compare";

/// The files next to the page.
pub const NAMES: [&str; 8] = [
    "compare.json",
    "policies.csv",
    "levels.csv",
    "latency.csv",
    "throughput.csv",
    "forms.csv",
    "accuracy.csv",
    "speed.csv",
];

/// Writes all files, the page first: see [`files`](crate::show::files).
pub fn all(results: &Results, dir: &Path) -> Result {
    let Results { about, policies, levels, latency, throughput, forms, accuracy, speed } = results;
    let lists = [
        list("policies", policies),
        list("levels", levels),
        list("latency", latency),
        list("throughput", throughput),
        list("forms", forms),
        list("accuracy", accuracy),
        list("speed", speed),
    ];
    let mut json = format!("{{\n\"about\": {}", about_json(about));
    for list in &lists {
        json += &format!(",\n\"{}\": {}", list.name, list.json);
    }
    write(dir, PAGE, &page::html(results))?;
    write(dir, "compare.json", &(json + "\n}\n"))?;
    for list in &lists {
        let name = format!("{}.csv", list.name);
        match list.is_empty {
            false => write(dir, &name, &list.csv)?,
            // Removes the file of an earlier run, if there is one.
            true => drop(fs::remove_file(dir.join(name))),
        }
    }
    Ok(())
}

struct List {
    name: &'static str,
    json: String,
    csv: String,
    is_empty: bool,
}

fn list<R: Record>(name: &'static str, rows: &[R]) -> List {
    let objects: Vec<String> = rows.iter().map(record::to_json).collect();
    let json = match rows.is_empty() {
        true => "[]".to_string(),
        false => format!("[\n  {}\n]", objects.join(",\n  ")),
    };
    List { name, json, csv: record::to_csv(rows), is_empty: rows.is_empty() }
}

fn about_json(about: &About) -> String {
    about.origin.to_json(&[
        ("keys", &about.keys),
        ("data_bytes", &about.data_bytes),
        ("workload", &json!(about.workload)),
        ("clock_ns", &about.clock_ns),
        ("notes", &json!(about.notes)),
    ])
}
