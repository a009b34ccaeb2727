//! Makes pages. A page is one file with style sheet and script, and loads nothing from the network.
//! It consists of sections, figures and tables.
//!
//! ```text
//! section     always open: the results that a reader decides by
//! ▸ folded    one line, until it is touched or printed
//! glance      the main table; a narrow screen gets each row as a block
//! figure      a drawing, a text about it, and the rows of its figures, folded
//! ```

use std::fmt::Write;

use serde_json::Value;

use crate::show::record::{self, Record};
use crate::show::sheet::Sheet;
pub use crate::show::svg::escape;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// The line of a page's head by which a later call knows that `maker` made it.
pub fn made_by(maker: &str) -> String {
    format!("<meta name=\"generator\" content=\"{}\">", escape(maker))
}

/// A whole page of the command `maker`. `script` runs after the script that all pages have.
pub fn page(maker: &str, title: &str, body: &str, script: &str) -> String {
    let made_by = made_by(maker);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n{made_by}\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}\
         <script>\n{SCRIPT}{script}</script>\n</body>\n</html>\n",
        escape(title)
    )
}

/// A section. `body` is HTML.
pub fn section(title: &str, body: &str) -> String {
    format!("<section><h2>{}</h2>\n{body}</section>\n", escape(title))
}

/// A section that is folded until a reader opens or prints it.
pub fn folded(title: &str, body: &str) -> String {
    format!(
        "<section><details class=\"part\"><summary><h2>{}</h2></summary>\n{body}</details>\
         </section>\n",
        escape(title)
    )
}

/// Sentences, one below the other.
pub fn verdict(lines: &[String]) -> String {
    let items = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line)));
    format!("<ul class=\"verdict\">\n{}</ul>\n", items.collect::<String>())
}

/// Text in which words between backquotes are code.
pub fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(n, part)| match n % 2 {
            0 => escape(part),
            _ => format!("<code>{}</code>", escape(part)),
        })
        .collect()
}

/// A drawing with a text about it, and the table of its figures; the text and the table may be
/// empty. All arguments but the title are HTML.
pub fn figure(title: &str, about: &str, drawing: &str, figures: &str) -> String {
    let title = escape(title);
    let about = if about.is_empty() { String::new() } else { format!("<p>{about}</p>") };
    format!(
        "<figure><figcaption><h3>{title}</h3>{about}</figcaption>\n{drawing}{figures}</figure>\n"
    )
}

/// A main table with more rows than this gets a scroll bar of its own.
const MAX_ROWS: usize = 12;

/// The main table. The first column names the rows. A line feed in a column's name divides the name
/// into lines.
pub fn glance(sheet: &Sheet) -> String {
    let Sheet { columns, rows } = sheet;
    let head =
        columns.iter().map(|name| format!("<th>{}</th>", escape(name).replace('\n', "<br>")));
    let mut body = String::new();
    for row in rows {
        body.push_str("<tr>");
        for (name, cell) in columns.iter().zip(row) {
            let name = escape(&name.replace('\n', " "));
            let _ = write!(body, "<td data-name=\"{name}\">{}</td>", escape(&cell.long));
        }
        body.push_str("</tr>\n");
    }
    format!(
        "<div class=\"{}\"><table class=\"glance\"><thead><tr>{}</tr></thead><tbody>\n{body}</tbody>\
         </table></div>\n",
        if rows.len() > MAX_ROWS { "scroll" } else { "wide" },
        head.collect::<String>()
    )
}

/// The rows behind a plot, folded.
pub fn figures<R: Record>(rows: &[R]) -> String {
    let (names, rows) = record::cells(rows);
    let header: String =
        names.iter().map(|name| format!("<th>{}</th>", escape(&name.replace('_', " ")))).collect();
    let mut body = String::new();
    for row in rows {
        body.push_str("<tr>");
        for cell in row {
            body.push_str(&match cell {
                Value::Null => "<td>–</td>".to_string(),
                Value::String(text) => format!("<td class=\"text\">{}</td>", escape(&text)),
                cell => format!("<td>{}</td>", short(&cell)),
            });
        }
        body.push_str("</tr>\n");
    }
    format!(
        "<details><summary>Figures</summary><div class=\"scroll\"><table class=\"figures\"><thead>\
         <tr>{header}</tr></thead><tbody>\n{body}</tbody></table></div></details>\n"
    )
}

/// A number with at most six significant digits. JSON and CSV have all of them.
fn short(number: &Value) -> String {
    match number.as_f64().filter(|_| !number.is_u64()) {
        None => number.to_string(),
        Some(0.0) => "0".into(),
        Some(exact) => {
            let decimals = (5 - exact.abs().log10().floor() as i32).clamp(0, 12) as usize;
            let text = format!("{exact:.decimals$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a screen of 400 pixels, the columns of the main table from the observed rate on were once
    /// out of sight. Now each cell names its column, so that a narrow screen can show a row as a
    /// block.
    #[test]
    fn the_cells_of_the_main_table_know_their_columns() {
        let rows = vec![vec!["a<b".to_string().into(), "7".to_string().into()]];
        let html = glance(&Sheet { columns: vec!["policy", "bits\nper \"key\""], rows });
        assert!(html.contains("<th>bits<br>per &quot;key&quot;</th>"), "{html}");
        assert!(html.contains("<td data-name=\"bits per &quot;key&quot;\">7</td>"), "{html}");
        assert!(html.contains("<td data-name=\"policy\">a&lt;b</td>"), "{html}");
    }

    /// The folded tables had sixteen digits of each figure.
    #[test]
    fn figures_have_no_more_digits_than_anyone_reads() {
        for (exact, shown) in [
            (serde_json::json!(0.008641975308641974), "0.00864198"),
            (serde_json::json!(1234567.891), "1234568"),
            (serde_json::json!(2.5), "2.5"),
            (serde_json::json!(0.0), "0"),
            (serde_json::json!(-0.1), "-0.1"),
            (serde_json::json!(12_345_678_901_u64), "12345678901"),
        ] {
            assert_eq!(short(&exact), shown);
        }
    }
}
