//! What the figures say, in words. Each sentence is computed from the rows and the verdicts alone.

use super::super::claims::{self, Claim};
use super::super::measure::Row;
use crate::show::text::percent;

/// The structure that all others are compared with.
const STANDARD: &str = "bloom, shared array";

pub fn lines(rows: &[Row], claims: &[Claim]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(standard) = rows.iter().find(|row| row.structure == STANDARD) {
        lines.extend(memory(rows, standard));
        lines.extend(deletion(rows, standard));
    }
    lines.extend(times(rows));
    lines.extend(overfilled(rows));
    lines.push(format!(
        "Of {} statements that are often made about filters: {}.",
        claims.len(),
        claims::tally(claims)
    ));
    lines
}

fn memory(rows: &[Row], standard: &Row) -> Option<String> {
    // The filters have different rates, so they are compared by `bits_over_bound` and not by bits a
    // key.
    let over = |row: &&Row| row.bits_over_bound.unwrap_or(f64::INFINITY);
    let best = rows.iter().min_by(|a, b| over(a).total_cmp(&over(b)))?;
    Some(format!(
        "Nearest to the bound is {}. It takes {:.2} bits a key, {:.2} times the fewest that its rate of \
         {} can take. The textbook's Bloom filter takes {:.2} times the fewest.",
        best.structure,
        best.bits_per_key,
        best.bits_over_bound?,
        percent(best.rate),
        standard.bits_over_bound?,
    ))
}

fn deletion(rows: &[Row], standard: &Row) -> Option<String> {
    let times = |row: &Row| {
        format!("{} ({:.2} times)", row.structure, row.bits_per_key / standard.bits_per_key)
    };
    let names = list(rows.iter().filter(|row| row.deletes).map(times))?;
    Some(format!(
        "Keys can be removed from {names}. In brackets: the bits a key, as a multiple of the \
         textbook's Bloom filter."
    ))
}

fn times(rows: &[Row]) -> Option<String> {
    let fastest = |ns: fn(&Row) -> f64| rows.iter().min_by(|a, b| ns(a).total_cmp(&ns(b)));
    let (build, absent) =
        (fastest(|row| row.build_ns_per_key)?, fastest(|row| row.query_absent_ns)?);
    Some(format!(
        "{} is built fastest, in {:.1} ns a key. {} answers fastest for an absent key, in {:.1} ns.",
        capital(&build.structure),
        build.build_ns_per_key,
        capital(&absent.structure),
        absent.query_absent_ns
    ))
}

fn overfilled(rows: &[Row]) -> Option<String> {
    let mut rates: Vec<(f64, &str)> = rows
        .iter()
        .filter_map(|row| Some((row.rate_at_5_times?, row.structure.as_str())))
        .collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (lowest, highest) = (rates.first()?, rates.last()?);
    let is_full = |row: &&Row| row.full_at_keys.is_some();
    let full = list(rows.iter().filter(is_full).map(|row| row.structure.clone()));
    let full = full.map_or(String::new(), |names| {
        format!(" {} took no more keys before that: they were full.", capital(&names))
    });
    Some(format!(
        "With five times the planned keys {} answers maybe to {} of the absent ones, {} to {}.{full}",
        lowest.1,
        percent(lowest.0),
        highest.1,
        percent(highest.0)
    ))
}

/// `a, b and c`.
fn list(names: impl Iterator<Item = String>) -> Option<String> {
    let names: Vec<String> = names.collect();
    let (last, others) = names.split_last()?;
    Some(match others.is_empty() {
        true => last.clone(),
        false => format!("{} and {last}", others.join(", ")),
    })
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}
