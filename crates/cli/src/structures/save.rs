//! The files of a run: the page, and its figures as JSON and CSV.
//!
//! ```text
//! DIR/index.html         the page
//!     structures.json    {"about": {…}, "structures": [one object a line, …], "claims": […]}
//!     structures.csv     the structures, a line each
//! ```

use std::path::Path;

use serde_json::json;

use super::results::Results;
use super::{claims, page};
use crate::failure::Result;
use crate::output::json_lines;
use crate::show::files::{PAGE, write};
use crate::show::record;

/// The files next to the page.
pub const NAMES: [&str; 2] = ["structures.json", "structures.csv"];

/// Writes all files, the page first, for the reason that [`files`](crate::show::files) gives.
pub fn all(results: &Results, dir: &Path) -> Result {
    let json = format!(
        "{{\n\"about\": {},\n\"structures\": {},\n\"claims\": {}\n}}\n",
        results.origin.to_json(&[("keys", json!(results.keys)), ("rate", json!(results.rate))]),
        json_lines(results.rows.iter().map(record::to_json)),
        json_lines(results.claims.iter().map(claims::to_json)),
    );
    write(dir, PAGE, &page::html(results))?;
    write(dir, "structures.json", &json)?;
    write(dir, "structures.csv", &record::to_csv(&results.rows))
}
