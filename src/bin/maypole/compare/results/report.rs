//! What a comparison prints: two tables and a verdict; or JSON.

use std::io::Write;

use super::{PolicyRow, Results, Times, verdict};
use crate::failure::Result;
use crate::output;
use crate::show::record;
use crate::show::sheet::{Cell, Screen, Sheet, bar, short_count};
use crate::show::text::{count, counted, percent, size};

/// Characters of a bar.
const BAR: usize = 8;

/// Policies that are named as not distinguishable from the fastest.
const MAX_TIED: usize = 6;

/// A JSON array, one object a policy and line.
pub fn json(rows: &[PolicyRow], out: &mut dyn Write) -> Result {
    output::json_array(&rows.iter().map(record::to_json).collect::<Vec<_>>(), out)
}

/// The tables: what the filters are and did, and what the lookups cost.
pub fn tables(rows: &[PolicyRow], screen: &Screen, out: &mut dyn Write) -> Result {
    let (keys, gets) = rows.first().map_or((0, 0), |row| (row.keys, row.absent_gets));
    let (keys, gets) = (counted(keys, "key"), counted(gets, "absent lookup"));
    let heading = |text: &str| screen.bold(&screen.wrap(text));
    writeln!(out, "{}", heading(&format!("Filters of {keys}, asked by {gets}")))?;
    writeln!(out, "{}\n", filters(rows).to_text(screen))?;
    let what = "A lookup: data blocks examined, cached or not; reads from files; time";
    writeln!(out, "{}", heading(what))?;
    writeln!(out, "{}", lookups(rows, screen).to_text(screen))?;
    for line in fastest(rows) {
        writeln!(out, "{}", screen.wrap(&line))?;
    }
    Ok(())
}

/// Which policy's lookups take the least time, and which cannot be told from it.
pub fn fastest(rows: &[PolicyRow]) -> Vec<String> {
    let of = |lookups: &str, times: fn(&PolicyRow) -> Times| {
        let least = rows.iter().min_by(|a, b| times(a).mean.total_cmp(&times(b).mean))?;
        let others = || rows.iter().filter(|row| row.policy != least.policy);
        others().next()?;
        let tied = others().filter(|row| times(row).is_tied_with(&times(least)));
        let tied: Vec<&str> = tied.map(|row| &*row.policy).collect();
        let rest = match tied[..] {
            [] => "every other one takes more".to_string(),
            _ => {
                let named = tied[..tied.len().min(MAX_TIED)].join(", ");
                let more = match tied.len().saturating_sub(MAX_TIED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("not distinguishable from it: {named}{more}")
            }
        };
        let Times { mean, low, high, .. } = times(least);
        let [mean, low, high] = [mean, low, high].map(|nanos| count(nanos.round() as u64));
        Some(format!(
            "{lookups} lookups take the least time with {}, {mean} ns (95 %: {low} to {high}); {rest}.",
            least.policy
        ))
    };
    let both = [of("Absent", |row| row.get_absent_ns), of("Present", |row| row.get_present_ns)];
    both.into_iter().flatten().collect()
}

fn filters(rows: &[PolicyRow]) -> Sheet {
    let rate = |rate: Option<f64>| Cell::from(rate.map_or("-".into(), percent));
    let number = |number: u64| Cell::new(count(number), short_count(number));
    let row = |row: &PolicyRow| {
        let interval = row.interval_95().map_or("-".to_string().into(), |(low, high)| {
            let [low, high] = [low, high].map(|rate| percent(rate).replace(" %", ""));
            Cell::new(format!("{low} to {high} %"), format!("{low}–{high}%"))
        });
        vec![
            row.policy.clone().into(),
            row.tables.to_string().into(),
            row.levels.to_string().into(),
            Cell::new(size(row.filter_bytes), short_count(row.filter_bytes)),
            format!("{:.2}", row.bits_per_key).into(),
            row.build_ns_per_key.map_or("-".into(), |nanos| format!("{nanos:.1}")).into(),
            rate(row.predicted_fpr),
            rate(row.observed_fpr),
            interval,
            number(row.useful),
            number(row.full_positive),
            number(row.full_true_positive),
        ]
    };
    Sheet {
        columns: vec![
            "policy",
            "tables",
            "levels",
            "filters",
            "bits/key",
            "build\nns/key",
            "predicted\nrate",
            "observed\nrate",
            "95 %\ninterval",
            "useful",
            "full\npositive",
            "true\npositive",
        ],
        rows: rows.iter().map(row).collect(),
    }
}

fn lookups(rows: &[PolicyRow], screen: &Screen) -> Sheet {
    let mut columns = vec!["policy", "blocks\nabsent"];
    if screen.is_terminal {
        columns.push("");
    }
    columns.extend([
        "blocks\npresent",
        "reads\nabsent",
        "reads\npresent",
        "absent ns\nmean",
        "\np50",
        "\np99",
        "present ns\nmean",
        "\np50",
        "\np99",
    ]);
    let says_cold = rows.iter().any(|row| row.cold.is_some());
    if says_cold {
        columns.push("from the\ndevice");
    }
    let most = rows.iter().map(|row| row.blocks_per_absent_get).fold(0.0, f64::max);
    let per_get = |number: f64| Cell::new(format!("{number:.4}"), format!("{number:.2}"));
    let row = |row: &PolicyRow| {
        let mut cells = vec![row.policy.clone().into(), per_get(row.blocks_per_absent_get)];
        if screen.is_terminal {
            cells.push(bar(row.blocks_per_absent_get / most, BAR).into());
        }
        cells.push(per_get(row.blocks_per_present_get));
        for reads in [row.file_reads_per_absent_get, row.file_reads_per_present_get] {
            cells.push(match row.reads_are_unseen() {
                true => "not seen".to_string().into(),
                false => per_get(reads),
            });
        }
        for Times { mean, p50, p99, .. } in [row.get_absent_ns, row.get_present_ns] {
            cells.extend([mean, p50, p99].map(|nanos| {
                let nanos = nanos.round() as u64;
                Cell::new(count(nanos), short_count(nanos))
            }));
        }
        if let Some(cold) = row.cold {
            let said = match cold {
                true => "cold",
                false if row.reads_are_unseen() => "not seen",
                false => "not cold",
            };
            cells.push(said.to_string().into());
        }
        cells
    };
    Sheet { columns, rows: rows.iter().map(row).collect() }
}

/// The verdict, a line for each of its sentences.
pub fn verdict(results: &Results, screen: &Screen, out: &mut dyn Write) -> Result {
    writeln!(out, "\n{}", screen.bold("Verdict"))?;
    for line in verdict::lines(results) {
        writeln!(out, "{}", screen.drawn(&screen.wrap(&line)))?;
    }
    Ok(())
}
