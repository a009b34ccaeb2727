//! The files of a run: the page, and its figures as JSON and CSV.
//!
//! ```text
//! DIR/index.html         the page
//!     structures.json    {"about": {…}, "structures": [one object a line, …], "claims": […]}
//!     structures.csv     the structures, a line each
//! ```

use std::path::Path;

use serde_json::json;

use super::{About, Results, claims, page, report};
use crate::failure::Result;
use crate::output::json_object;
use crate::show::files::write;

/// Writes all files.
pub fn all(results: &Results, dir: &Path) -> Result {
    let list = |objects: Vec<String>| format!("[\n  {}\n]", objects.join(",\n  "));
    let json = format!(
        "{{\n\"about\": {},\n\"structures\": {},\n\"claims\": {}\n}}\n",
        about_json(&results.about),
        list(report::objects(&results.rows)),
        list(claims::objects(&results.claims)),
    );
    write(dir, "structures.json", &json)?;
    write(dir, "structures.csv", &report::csv(&results.rows))?;
    write(dir, "index.html", &page::html(results))
}

fn about_json(about: &About) -> String {
    json_object(&[
        ("command", &json!(about.command)),
        ("date", &json!(about.date)),
        ("machine", &json!(about.machine)),
        ("build", &json!(about.build)),
        ("seed", &about.seed),
        ("keys", &about.keys),
        ("rate", &about.rate),
    ])
}
