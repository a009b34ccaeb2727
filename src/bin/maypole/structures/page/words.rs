//! What the figures say, in words: each sentence is made of the rows alone.

use super::super::measure::{Over, Row};
use crate::show::text::percent;

/// The structure that all others are held against.
const STANDARD: &str = "bloom, shared array";

pub fn lines(rows: &[Row]) -> Vec<String> {
    let Some(standard) = rows.iter().find(|row| row.name == STANDARD) else { return Vec::new() };
    [memory(rows, standard), deletion(rows, standard), times(rows), overfilled(rows)]
        .into_iter()
        .flatten()
        .collect()
}

fn memory(rows: &[Row], standard: &Row) -> Option<String> {
    // Different rates are compared by what their bounds leave.
    let over = |row: &&Row| row.over_bound().unwrap_or(f64::INFINITY);
    let best = rows.iter().min_by(|a, b| over(a).total_cmp(&over(b)))?;
    Some(format!(
        "Nearest to the bound is {}: {:.2} bits a key are {:.2} times the fewest that its rate of {} \
         can take. {STANDARD} takes {:.2} times the fewest.",
        best.name,
        best.bits_per_key(),
        best.over_bound()?,
        percent(best.rate()),
        standard.over_bound()?,
    ))
}

fn deletion(rows: &[Row], standard: &Row) -> Option<String> {
    let of = |row: &Row| {
        format!("{} ({:.2} times)", row.name, row.bits_per_key() / standard.bits_per_key())
    };
    let all: Vec<String> = rows.iter().filter(|row| row.deletes).map(of).collect();
    (!all.is_empty()).then(|| {
        format!(
            "Keys can be removed from {} of the {}, which take so many times the bits of {STANDARD}: \
             {}.",
            all.len(),
            rows.len(),
            all.join(", ")
        )
    })
}

fn times(rows: &[Row]) -> Option<String> {
    let fastest = |ns: fn(&Row) -> f64| rows.iter().min_by(|a, b| ns(a).total_cmp(&ns(b)));
    let (build, absent) = (fastest(|row| row.build_ns)?, fastest(|row| row.absent_ns)?);
    Some(format!(
        "Built fastest is {}, with {:.1} ns a key. An absent key is answered fastest by {}, in {:.1} \
         ns.",
        build.name, build.build_ns, absent.name, absent.absent_ns
    ))
}

fn overfilled(rows: &[Row]) -> Option<String> {
    let rates = rows.iter().filter_map(|row| match row.over[1] {
        Over::Rate(rate) => Some((rate, row.name)),
        _ => None,
    });
    let (mut rates, full): (Vec<_>, _) =
        (rates.collect(), rows.iter().filter(|row| matches!(row.over[1], Over::Full(_))).count());
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (lowest, highest) = (rates.first()?, rates.last()?);
    Some(format!(
        "With five times the planned keys {} is wrong for {} of the absent ones, {} for {}. {full} were \
         full before twice the keys.",
        lowest.1,
        percent(lowest.0),
        highest.1,
        percent(highest.0)
    ))
}
