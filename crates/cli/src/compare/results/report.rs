//! Prints a comparison: two tables and a verdict.

use std::io::Write;

use super::{PolicyRow, Results, Times, verdict};
use crate::failure::Result;
use crate::recommend::{Estimate, words};
use crate::show::sheet::{Cell, Column, Screen, Sheet, bar, or_dash, short_count};
use crate::show::text::{count, counted, percent, size, small};

/// Characters of a bar.
const BAR: usize = 8;

/// The most policies that are named as not distinguishable from the fastest.
const MAX_TIED: usize = 6;

/// Prints a table of the filters (sizes, rates and counts), a table of the cost of lookups, and the
/// sentences of [`fastest`].
pub fn tables(rows: &[PolicyRow], screen: &Screen, out: &mut dyn Write) -> Result {
    let (keys, gets) = rows.first().map_or((0, 0), |row| (row.keys, row.absent_gets));
    let (keys, gets) = (counted(keys, "key"), counted(gets, "absent lookup"));
    let heading = |text: &str| screen.bold(&screen.wrap(text));
    writeln!(out, "{}", heading(&format!("Filters of {keys}, asked by {gets}")))?;
    writeln!(out, "{}\n", filters(rows).to_text(screen))?;
    let what = "A lookup: data blocks examined, cached or not; reads from files; time";
    writeln!(out, "{}", heading(what))?;
    writeln!(out, "{}", lookups(rows, screen).to_text(screen))?;
    screen.say(fastest(rows), out)
}

/// Says which policy's lookups take the least time by the median of the rounds, or that this cannot
/// be said.
pub fn fastest(rows: &[PolicyRow]) -> Vec<String> {
    let of = |what: &str, gets: fn(&PolicyRow) -> u64, times: fn(&PolicyRow) -> Times| {
        let timed: Vec<&PolicyRow> = rows.iter().filter(|row| gets(row) > 0).collect();
        let names: Vec<&str> = timed.iter().map(|row| &*row.policy).collect();
        let times: Vec<Estimate> = timed.iter().map(|row| times(row).of_rounds()).collect();
        words::ranking(what, &names, &times, MAX_TIED)
    };
    let absent = of("Absent", |row| row.absent_gets, |row| row.get_absent_ns);
    let present = of("Present", |row| row.present_gets, |row| row.get_present_ns);
    [absent, present].into_iter().flatten().collect()
}

fn filters(rows: &[PolicyRow]) -> Sheet {
    let interval = |row: &PolicyRow| {
        row.interval_95().map_or("-".to_string().into(), |(low, high)| {
            let [low, high] = [low, high].map(|rate| percent(rate).replace(" %", ""));
            Cell::new(format!("{low} to {high} %"), format!("{low}–{high}%"))
        })
    };
    let bytes = |bytes: u64| Cell::new(size(bytes), short_count(bytes));
    let columns: &[Column<PolicyRow>] = &[
        ("policy", &|row| row.policy.clone().into()),
        ("tables", &|row| row.tables.to_string().into()),
        ("levels", &|row| row.levels.to_string().into()),
        ("filters", &|row| bytes(row.filter_bytes)),
        ("bits/key", &|row| format!("{:.2}", row.bits_per_key).into()),
        ("metadata\nneeded", &|row| bytes(row.metadata_bytes)),
        ("\nresident", &|row| bytes(row.resident_metadata_bytes)),
        ("build\nns/key", &|row| or_dash(row.build_ns_per_key.map(|ns| format!("{ns:.1}")))),
        ("predicted\nrate", &|row| or_dash(row.predicted_fpr.map(percent))),
        ("observed\nrate", &|row| or_dash(row.observed_fpr.map(percent))),
        ("95 %\ninterval", &interval),
        ("useful", &|row| number(row.useful)),
        ("full\npositive", &|row| number(row.full_positive)),
        ("true\npositive", &|row| number(row.full_true_positive)),
    ];
    Sheet::of(rows, columns)
}

/// A figure in full, or short where it would be too wide.
fn number(number: u64) -> Cell {
    Cell::new(count(number), short_count(number))
}

fn lookups(rows: &[PolicyRow], screen: &Screen) -> Sheet {
    let most = rows.iter().map(|row| row.blocks_per_absent_get).fold(0.0, f64::max);
    let per_get = |number: f64| Cell::new(small(number), format!("{number:.2}"));
    let reads = |row: &PolicyRow, reads: f64| match row.reads_are_unseen() {
        true => "not seen".to_string().into(),
        false => per_get(reads),
    };
    let nanos = |nanos: f64| number(nanos.round() as u64);
    let cold = |row: &PolicyRow| match row.cold {
        Some(true) => "cold",
        Some(false) if row.reads_are_unseen() => "not seen",
        _ => "not cold",
    };
    let columns: &[Column<PolicyRow>] = &[
        ("policy", &|row| row.policy.clone().into()),
        ("blocks\nabsent", &|row| per_get(row.blocks_per_absent_get)),
        ("", &|row| bar(row.blocks_per_absent_get / most, BAR).into()),
        ("blocks\npresent", &|row| per_get(row.blocks_per_present_get)),
        ("reads\nabsent", &|row| reads(row, row.file_reads_per_absent_get)),
        ("reads\npresent", &|row| reads(row, row.file_reads_per_present_get)),
        ("absent ns\nmean", &|row| nanos(row.get_absent_ns.mean)),
        ("\np50", &|row| nanos(row.get_absent_ns.p50)),
        ("\np99", &|row| nanos(row.get_absent_ns.p99)),
        ("present ns\nmean", &|row| nanos(row.get_present_ns.mean)),
        ("\np50", &|row| nanos(row.get_present_ns.p50)),
        ("\np99", &|row| nanos(row.get_present_ns.p99)),
        ("from the\ndevice", &|row| cold(row).to_string().into()),
    ];
    let says_cold = rows.iter().any(|row| row.cold.is_some());
    // If the cache holds everything, no lookup reads a file, and the columns would be all zeros.
    let reads = |row: &PolicyRow| row.file_reads_per_absent_get + row.file_reads_per_present_get;
    let reads_files = rows.iter().any(|row| reads(row) > 0.0 || row.reads_are_unseen());
    let sheet = Sheet::of(rows, columns).with_if(screen.is_terminal, "");
    let sheet = sheet.with_if(reads_files, "reads\nabsent").with_if(reads_files, "reads\npresent");
    sheet.with_if(says_cold, "from the\ndevice")
}

/// The verdict, a line for each of its sentences.
pub fn verdict(results: &Results, screen: &Screen, out: &mut dyn Write) -> Result {
    writeln!(out, "\n{}", screen.bold("Verdict"))?;
    let words = verdict::words(results);
    screen.say(std::iter::once(words.sentence).chain(words.details), out)
}
