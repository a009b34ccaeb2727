//! The frame of a page: one file with style sheet and script, which loads nothing from the network.

use serde_json::Value;

use crate::show::record::{self, Record};
pub use crate::show::svg::escape;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// The line of a page's head by which a later call knows that `maker` made it.
pub fn made_by(maker: &str) -> String {
    format!("<meta name=\"generator\" content=\"{}\">", escape(maker))
}

/// A whole page of the command `maker`. `script` is run after the page's own.
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
                cell => format!("<td>{cell}</td>"),
            });
        }
        body.push_str("</tr>\n");
    }
    format!(
        "<details><summary>Figures</summary><div class=\"scroll\"><table class=\"figures\"><thead>\
         <tr>{header}</tr></thead><tbody>\n{body}</tbody></table></div></details>\n"
    )
}
