//! The files of a run: the page, and its figures as JSON and CSV.
//!
//! ```text
//! DIR/index.html       the page
//!     compare.json     {"schema": 1, "about": {…}, "verdict": {…},
//!                      "policies": [one object a line, …], "levels": […], …}
//!     policies.csv     the same rows, one file for each list
//!     levels.csv       …
//! ```

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{About, Results, page, verdict};
use crate::failure::Result;
use crate::output::{SCHEMA, json_lines};
use crate::show::files::{PAGE, write};
use crate::show::record::{self, Record};

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

/// Writes all files, the page first. The command replaces no files that another command may have
/// made, and only the page tells which command made them ([`files`](crate::show::files)). So if
/// this run is interrupted, the next one can replace the files.
pub fn all(results: &Results, dir: &Path) -> Result {
    let Results { about, policies, levels, latency, throughput, forms, accuracy, speed } = results;
    write(dir, PAGE, &page::html(results))?;
    let (schema, verdict) = (SCHEMA, verdict::json(results));
    let about = about_json(about);
    let mut json =
        format!("{{\n\"schema\": {schema},\n\"about\": {about},\n\"verdict\": {verdict}");
    list("policies", policies, dir, &mut json)?;
    list("levels", levels, dir, &mut json)?;
    list("latency", latency, dir, &mut json)?;
    list("throughput", throughput, dir, &mut json)?;
    list("forms", forms, dir, &mut json)?;
    list("accuracy", accuracy, dir, &mut json)?;
    list("speed", speed, dir, &mut json)?;
    write(dir, "compare.json", &(json + "\n}\n"))
}

/// Writes a list as CSV, and adds it to the JSON.
fn list<R: Record>(name: &str, rows: &[R], dir: &Path, json: &mut String) -> Result {
    *json += &format!(",\n\"{name}\": {}", json_lines(rows.iter().map(record::to_json)));
    let csv = format!("{name}.csv");
    if rows.is_empty() {
        // Removes the file of an earlier run, if there is one.
        let _ = fs::remove_file(dir.join(csv));
        return Ok(());
    }
    write(dir, &csv, &record::to_csv(rows))
}

fn about_json(about: &About) -> String {
    about.origin.to_json(&[
        ("keys", json!(about.keys)),
        ("data_bytes", json!(about.data_bytes)),
        ("workload", json!(about.workload)),
        ("clock_ns", json!(about.clock_ns)),
        ("notes", json!(about.notes)),
    ])
}
