//! The page of a comparison: one file that needs no other.
//!
//! ```text
//! colors       a colour for each policy, the same everywhere
//! plots        which figures are on which axes
//! forms        filters larger than the cache: whole, in parts, always read
//! trees        the tree of each policy, level by level
//! calculator   which policy is cheapest, by the reader's own prices
//! ```

mod calculator;
mod colors;
mod forms;
mod plots;
mod trees;

use super::report::fastest;
use super::{About, PolicyRow, Results, verdict};
use crate::show::html::{self, escape};
use crate::show::sheet::{Column, Sheet};
use crate::show::text::{count, counted, percent, size, small};
use colors::Colors;
use plots::panels;

pub fn html(results: &Results) -> String {
    let colors = Colors::new(&results.policies);
    let Results { about, policies, .. } = results;
    let mut body = format!(
        "<header><h1>Filter policies compared</h1>\n<p class=\"soft\">{}, {} of data, {}</p></header>\n\
         <main>\n",
        counted(about.keys, "key"),
        size(about.data_bytes),
        escape(&about.origin.date)
    );
    let words = verdict::words(results);
    let details = html::verdict(&words.details);
    let verdict = format!(
        "<p class=\"advice\">{}</p>\n{}<details class=\"part\"><summary>What this follows from</summary>\n{details}\
         </details>\n",
        escape(&words.sentence),
        glance(policies)
    );
    body.push_str(&html::section("Verdict", &verdict));
    body.push_str(&html::section("Choose", &panels(&plots::choice(results, &colors))));
    body.push_str(&html::section("What it costs you", &calculator::form(results)));
    let lookups = html::verdict(&times(results)) + &panels(&plots::lookups(results, &colors));
    body.push_str(&html::folded("Times of lookups", &lookups));
    body.push_str(&html::folded("Filters larger than the cache", &forms::all(results, &colors)));
    body.push_str(&html::folded("Filters by themselves", &panels(&plots::filters(results))));
    let trees = format!(
        "<p class=\"soft\">A bar is the logarithm of a level's bytes, divided into files; the dark bar \
         below it is the filters'. Rates are those of the absent lookups.</p>\n{}",
        trees::all(results, &colors)
    );
    body.push_str(&html::folded("The trees", &trees));
    body.push_str(&how(about));
    body.push_str("</main>\n");
    html::page(
        super::MAKER,
        "Maypole: filter policies compared",
        &body,
        &calculator::script(results),
    )
}

/// The sentences above the plots of times: which keys are looked up, a warning if the machine was
/// noisy, and which policies are fastest.
fn times(results: &Results) -> Vec<String> {
    let workload = format!("{}.", results.about.workload);
    let noise = results.noise().map(|noise| format!("WARNING: {noise}."));
    std::iter::once(workload).chain(noise).chain(fastest(&results.policies)).collect()
}

/// A table of the figures by which a reader chooses a policy.
fn glance(policies: &[PolicyRow]) -> String {
    let rate = |rate: Option<f64>| rate.map_or("–".into(), percent).into();
    let interval = |row: &PolicyRow| {
        row.interval_95().map_or("–".into(), |(low, high)| {
            format!("{} to {}", percent(low).trim_end_matches(" %"), percent(high))
        })
    };
    let cold = |row: &PolicyRow| if row.cold == Some(false) { " (not cold)" } else { "" };
    let build =
        |row: &PolicyRow| row.build_ns_per_key.map_or("–".into(), |ns| format!("{ns:.1}"));
    let columns: &[Column<PolicyRow>] = &[
        ("policy", &|row| format!("{}{}", row.policy, cold(row)).into()),
        ("filters", &|row| size(row.filter_bytes).into()),
        ("bits\nper key", &|row| format!("{:.2}", row.bits_per_key).into()),
        ("predicted\nrate", &|row| rate(row.predicted_fpr)),
        ("observed\nrate", &|row| rate(row.observed_fpr)),
        ("95 %\ninterval", &|row| interval(row).into()),
        ("blocks per\nabsent lookup", &|row| small(row.blocks_per_absent_get).into()),
        ("absent\nns, p50", &|row| count(row.get_absent_ns.p50.round() as u64).into()),
        ("present\nns, p50", &|row| count(row.get_present_ns.p50.round() as u64).into()),
        ("build\nns/key", &|row| build(row).into()),
    ];
    html::glance(&Sheet::of(policies, columns))
}

/// The section about how the figures were made.
fn how(about: &About) -> String {
    let clock = format!("{} ns a reading, taken off every lookup", about.clock_ns);
    let mut more = vec![("lookups", &*about.workload), ("clock", &clock)];
    more.extend(about.notes.iter().map(|note| ("note", &**note)));
    about.origin.to_html(&more, "The same figures are next to this file as JSON and CSV.")
}
