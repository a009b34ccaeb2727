//! The page of the structures and claims.
//!
//! ```text
//! words     what the figures say
//! charts    a line for each structure: memory, times, rates
//! ```

mod charts;
mod words;

use std::fmt::Write;

use super::claims::{self, Claim, Verdict};
use super::measure::Row;
use super::report;
use super::results::{MAKER, Results};
use crate::show::bars::Chart;
use crate::show::html::{self, escape};
use crate::show::text::{count, percent};

pub fn html(results: &Results) -> String {
    let Results { origin, keys, rate, rows, claims } = results;
    let mut body = format!(
        "<header><h1>Filters of the textbooks, measured</h1>\n<p class=\"soft\">Each planned for {} \
         keys and a rate of {}, {}</p></header>\n<main>\n",
        count(*keys as u64),
        percent(*rate),
        escape(&origin.date)
    );
    body.push_str(&html::section("At a glance", &glance(rows, claims)));
    let charts =
        panels(rows).map(|(chart, about)| html::figure(chart.title, about, &chart.to_svg(), ""));
    let structures = format!(
        "<p class=\"soft\">Grey: the textbooks'. In colour: those of the database. Touch a bar or dot \
         for its figures.</p>\n<div class=\"panels\">\n{}</div>\n{}",
        charts.concat(),
        html::figures(rows)
    );
    body.push_str(&html::section("Structures", &structures));
    body.push_str(&html::section("What is often said of filters", &judged(results)));
    body.push_str(&how(results));
    body.push_str("</main>\n");
    html::page(MAKER, "Maypole: filters of the textbooks, measured", &body, "")
}

fn panels(rows: &[Row]) -> [(Chart, &'static str); 4] {
    [
        (
            charts::memory(rows),
            "Line: the bound log2(1/rate) at the observed rate; none for one that is never wrong. \
             Behind the bits: times the bound.",
        ),
        (
            charts::rates(rows),
            "With once ①, twice ② and five times ⑤ the planned keys. <em>static</em>: built from all \
             its keys at once. <em>full</em>: it took no more.",
        ),
        (
            charts::build(rows),
            "From key hashes to the finished filter, one thread, the best of several rounds. A bar that \
             would leave the others no room is cut.",
        ),
        (
            charts::query(rows),
            "Above: absent keys. Below, paler: present ones. The filter is warm, and each query waits \
             for the one before.",
        ),
    ]
}

/// The results in words, and the figures by which a reader chooses.
fn glance(rows: &[Row], claims: &[Claim]) -> String {
    html::verdict(&words::lines(rows, claims)) + &html::glance(&report::sheet(rows))
}

fn judged(results: &Results) -> String {
    let mut html = format!(
        "<p class=\"soft\">Each verdict follows from the figures by the threshold below them. All are measured by:</p>\n<pre>{}</pre>\n\
         <div class=\"claims\">\n",
        escape(&claims::command(results.keys, results.origin.seed))
    );
    for claim in &results.claims {
        let class = match claim.verdict {
            Verdict::True => "true",
            Verdict::HalfTrue | Verdict::NotSettled => "half",
            Verdict::False => "false",
        };
        let figures = claim
            .figures()
            .map(|(name, figure)| format!("<span>{} <b>{figure}</b></span>", escape(name)));
        let more = claim.more().map_or(String::new(), |command| {
            format!("<p class=\"soft\">More of it: <code>{}</code></p>", escape(command))
        });
        let instead = claim
            .instead()
            .map_or(String::new(), |instead| format!("<p><b>Instead:</b> {}</p>", escape(instead)));
        let _ = writeln!(
            html,
            "<article class=\"claim {class}\"><p class=\"judged\">{}</p><div><h3>{}</h3>\
             <p class=\"soft\">Said by {}.</p><p class=\"measured\">{}</p>{instead}<p>{}</p>\
             <p class=\"soft\">Threshold: {}.</p>{more}</div></article>",
            claim.verdict,
            escape(claim.says),
            escape(claim.source),
            figures.collect::<String>(),
            escape(claim.because),
            escape(claim.rule),
        );
    }
    html + "</div>\n"
}

/// The section about how the figures were made.
fn how(results: &Results) -> String {
    let mut more = vec![
        ("keys", "random hashes: hashing costs every structure the same"),
        ("times", "nanoseconds by one thread, the best of several rounds in which all take turns"),
    ];
    let notes = report::notes(&results.rows);
    more.extend(notes.iter().map(|note| ("note", &**note)));
    results.origin.to_html(
        &more,
        "The same figures are next to this file: all as structures.json, those of the structures as \
         structures.csv.",
    )
}
