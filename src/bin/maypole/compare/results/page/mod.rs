//! The page of a comparison: one file to read, to send and to believe.
//!
//! ```text
//! colors       a colour for each policy, the same everywhere
//! plots        which figures stand on which axes
//! trees        the tree of each policy, level by level
//! calculator   which policy is cheapest, by the reader's own prices
//! ```

mod calculator;
mod colors;
mod plots;
mod trees;

use std::fmt::Write;

use super::{About, PolicyRow, Results, verdict};
use crate::show::html::{self, escape};
use crate::show::text::{count, counted, percent, size};
use colors::Colors;
use plots::Shown;

pub fn html(results: &Results) -> String {
    let colors = Colors::new(&results.policies);
    let Results { about, policies, .. } = results;
    let mut body = format!(
        "<header><h1>Filter policies compared</h1>\n<p class=\"soft\">{}, {} of data, {}</p></header>\n\
         <main>\n<section><h2>Verdict</h2>\n<ul class=\"verdict\">\n",
        counted(about.keys, "key"),
        size(about.data_bytes),
        escape(&about.origin.date)
    );
    for line in verdict::lines(results) {
        let _ = writeln!(body, "<li>{}</li>", escape(&line));
    }
    body.push_str("</ul>\n");
    body.push_str(&glance(policies));
    body.push_str("</section>\n");
    section(&mut body, "Choose", "", &plots::choice(results, &colors));
    let _ = write!(
        body,
        "<section><h2>What it costs you</h2>\n{}</section>\n",
        calculator::form(results)
    );
    section(&mut body, "Lookups", &escape(&about.workload), &plots::time(results, &colors));
    section(&mut body, "Filters by themselves", "", &plots::filters(results));
    let _ = write!(
        body,
        "<section><h2>The trees</h2>\n<p class=\"soft\">A bar is the logarithm of a level's bytes, \
         divided into files; the dark bar below it is the filters'. Rates are those of the absent \
         lookups.</p>\n{}</section>\n{}</main>\n",
        trees::all(results, &colors),
        how(about)
    );
    html::page(
        super::save::MAKER,
        "Maypole: filter policies compared",
        &body,
        &calculator::script(results),
    )
}

fn section(body: &mut String, title: &str, about: &str, shown: &[Shown]) {
    let _ = writeln!(body, "<section><h2>{title}</h2>");
    if !about.is_empty() {
        let _ = writeln!(body, "<p class=\"soft\">{about}.</p>");
    }
    body.push_str("<div class=\"panels\">\n");
    for Shown { plot, about, figures, missing } in shown {
        let _ = write!(body, "<figure><figcaption><h3>{}</h3>", escape(&plot.title));
        match plot.is_empty() {
            true => {
                let _ =
                    write!(body, "<p class=\"left-out\">{}</p></figcaption>", with_code(missing));
            }
            false => {
                let _ = write!(
                    body,
                    "<p>{}</p></figcaption>\n{}{figures}",
                    with_code(about),
                    plot.to_svg()
                );
            }
        }
        body.push_str("</figure>\n");
    }
    body.push_str("</div></section>\n");
}

/// Words between backquotes are code.
fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(n, part)| match n % 2 {
            0 => escape(part),
            _ => format!("<code>{}</code>", escape(part)),
        })
        .collect()
}

/// The figures by which one chooses, at a glance.
fn glance(policies: &[PolicyRow]) -> String {
    let mut rows = String::new();
    let rate = |rate: Option<f64>| rate.map_or("–".into(), percent);
    for row in policies {
        let interval = row.interval_95().map_or("–".into(), |(low, high)| {
            format!("{} to {}", percent(low).trim_end_matches(" %"), percent(high))
        });
        let cold = match row.cold {
            Some(false) => " <span class=\"soft\">(not cold)</span>",
            _ => "",
        };
        let _ = writeln!(
            rows,
            "<tr><td>{}{cold}</td><td>{}</td><td>{:.2}</td><td>{}</td><td>{}</td><td>{interval}</td>\
             <td>{:.4}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&row.policy),
            size(row.filter_bytes),
            row.bits_per_key,
            rate(row.predicted_fpr),
            rate(row.observed_fpr),
            row.blocks_per_absent_get,
            count(row.get_absent_ns.p50.round() as u64),
            count(row.get_present_ns.p50.round() as u64),
            row.build_ns_per_key.map_or("–".into(), |nanos| format!("{nanos:.1}")),
        );
    }
    format!(
        "<div class=\"scroll\"><table class=\"glance\"><thead><tr><th>policy</th><th>filters</th>\
         <th>bits<br>per key</th><th>predicted<br>rate</th><th>observed<br>rate</th><th>95 %<br>interval</th>\
         <th>blocks per<br>absent lookup</th><th>absent<br>ns, p50</th><th>present<br>ns, p50</th>\
         <th>build<br>ns/key</th></tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// How to believe the figures and make them again.
fn how(about: &About) -> String {
    let clock = format!("{} ns a reading, taken off every lookup", about.clock_ns);
    let mut more = vec![("lookups", &*about.workload), ("clock", &clock)];
    more.extend(about.notes.iter().map(|note| ("note", &**note)));
    about.origin.to_html(&more, "The same figures are next to this file as JSON and CSV.")
}
