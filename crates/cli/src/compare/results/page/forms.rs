//! Plots of the time of lookups against the size of the cache, which may not hold all filters and
//! indexes. A curve is a form of filters and indexes: whole, in parts, in parts that are always
//! read, or without filters. Each policy has a row of two plots, for absent keys and for present
//! keys.

use super::super::{FormRow, Results};
use super::colors::Colors;
use super::plots::{Shown, panels, tie};
use crate::compare::forms::{ALWAYS_READ, CACHES, FORMS, NO_FILTER, PARTS, WHOLE};
use crate::show::html::{self, with_code};
use crate::show::plot::ticks::{decimal, time};
use crate::show::plot::{Axis, Look, Plot, Point, Series, Spread, range};
use crate::show::text::{count, size};

/// The colors of the [`FORMS`]: for the first three, the colors that policies with `budget` or
/// `levels` usually have; for no filter, the color of `none`.
const COLORS: [usize; FORMS.len()] = [5, 6, 4, 0];

const ABOUT: &str = "Left of 1 the cache does not hold all filters and indexes. Each point tells the \
                     number of reads too: here they are served by the system's cache, and on a device \
                     they decide. Medians of ten rounds with their 95 % intervals. Hollow: not \
                     distinguishable from another form.";

const MISSING: &str = "Not measured in this run. It takes a policy with filters, tables of some thousand \
                       keys (more `--keys` make them), and neither `--cold` nor `--sweep`.";

/// The plots, and a description of the forms.
pub fn all(results: &Results, colors: &Colors) -> String {
    let shown: Vec<Shown> = plots(results, colors);
    if shown.is_empty() {
        return format!("<p class=\"left-out\">{}</p>\n", with_code(MISSING));
    }
    let forms = [
        (WHOLE, "each filter is one block, and each index."),
        (
            PARTS,
            "both are in parts of about 4 KiB, as in new tables of a database whose cache is too \
             small. A part of a filter that is not in memory is passed by until lookups have \
             missed it often enough to pay for its read.",
        ),
        (ALWAYS_READ, "the same parts, but each one that is not in memory is read."),
        (NO_FILTER, "what filters have to beat. The index is in parts."),
    ];
    let forms = forms.map(|(form, what)| format!("<li><b>{form}</b>: {what}</li>\n")).concat();
    format!("<p class=\"soft\">{ABOUT}</p>\n<ul class=\"soft\">\n{forms}</ul>\n{}", panels(&shown))
}

fn plots(results: &Results, colors: &Colors) -> Vec<Shown> {
    let mut plots = Vec::new();
    for (policy, _) in colors.shown() {
        for lookups in ["absent", "present"] {
            let is_here = |row: &&FormRow| row.policy == policy && row.lookups == lookups;
            let rows: Vec<FormRow> = results.forms.iter().filter(is_here).cloned().collect();
            if !rows.is_empty() {
                let id = format!("form-{}", plots.len());
                plots.push(plot(id, format!("{policy}, {lookups} keys"), &rows));
            }
        }
    }
    plots
}

fn plot(id: String, title: String, rows: &[FormRow]) -> Shown {
    let series = FORMS.into_iter().zip(COLORS).map(|(form, color)| {
        let here = rows.iter().filter(|row| row.form == form);
        let points = here.map(|row| point(row, rows)).collect();
        Series { name: form.to_string(), color, look: Look::Joined, points }
    });
    let x = Axis::new("cache, as a multiple of filters and indexes", Spread::Log, decimal);
    let y = Axis::new("time of a lookup", Spread::Linear, time);
    // The axis fits the medians, not the intervals, because one stalled round gives a long
    // interval.
    let (_, highest) = range(y.spread, rows.iter().map(|row| row.get_ns)).unwrap_or_default();
    let plot = Plot {
        id,
        title,
        x: x.with_ends(CACHES[0], CACHES[CACHES.len() - 1]),
        y: y.with_ends(0.0, highest),
        series: series.collect(),
    };
    Shown { plot, about: "", figures: html::figures(rows), missing: "" }
}

fn point(row: &FormRow, rows: &[FormRow]) -> Point {
    let tied = rows.iter().filter(|other| row.is_tied_with(other));
    let (dot, said) = tie(tied.map(|other| &*other.form));
    let [ns, low, high] =
        [row.get_ns, row.get_ns_low, row.get_ns_high].map(|ns| count(ns.round() as u64));
    let multiple = row.cache_bytes as f64 / row.metadata_bytes as f64;
    let says = format!(
        "{}\ncache {}, {multiple:.2} of filters and indexes\n{ns} ns a lookup, 95 %: {low} to {high}\n\
         {:.2} reads from files, {:.2} filters read, {:.2} passed by{said}",
        row.form,
        size(row.cache_bytes),
        row.file_reads_per_get,
        row.filter_reads_per_get,
        row.filters_passed_by_per_get
    );
    let interval = Some((row.get_ns_low, row.get_ns_high));
    Point { interval, dot, ..Point::new(multiple, row.get_ns, says) }
}
