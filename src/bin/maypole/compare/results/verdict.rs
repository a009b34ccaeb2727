//! What the figures mean, in words.

use super::PolicyRow;
use crate::show::text::size;

/// What a read costs when the operating system has the page, and when a flash device has it.
const READ_COSTS_MICROS: [f64; 2] = [2.0, 80.0];

/// What saves less than so much more saves as much.
const LEAST_MICROS: f64 = 0.5;

/// Where there are more policies, those that nobody would choose are left out.
const MOST: usize = 8;

/// Whether another policy takes less memory and reads fewer blocks.
fn is_beaten(row: &PolicyRow, rows: &[PolicyRow]) -> bool {
    rows.iter().any(|other| {
        other.filter_bytes < row.filter_bytes
            && other.blocks_per_absent_get < row.blocks_per_absent_get
    })
}

/// A sentence of what absent lookups meet without filters, and one for each policy with filters: what
/// it saves and what that takes, from the smallest to the largest.
pub fn lines(rows: &[PolicyRow], data_bytes: u64) -> Vec<String> {
    let met = rows.iter().map(|row| row.spared_per_get() + row.blocks_per_absent_get);
    let met = met.fold(0.0, f64::max);
    let at = |reads: f64| {
        let [cached, flash] = READ_COSTS_MICROS;
        format!(
            "{:.1} µs at {cached} µs a read, {:.0} µs at {flash} µs",
            reads * cached,
            reads * flash
        )
    };
    let mut lines = vec![format!(
        "Without filters an absent lookup reads {met:.2} data blocks when none is cached: {}.",
        at(met)
    )];
    let mut by_size: Vec<&PolicyRow> = rows.iter().filter(|row| row.filter_bytes > 0).collect();
    by_size.sort_by_key(|row| row.filter_bytes);
    let tells = |more_reads: f64| more_reads * READ_COSTS_MICROS[1] >= LEAST_MICROS;
    if by_size.len() > MOST {
        let all = by_size.len();
        by_size.retain(|row| !is_beaten(row, rows));
        lines.push(format!(
            "Of {all} policies with filters {} are beaten by one that takes less memory and reads fewer \
             blocks. Of the others, from the smallest, those that save more than the one before:",
            all - by_size.len()
        ));
        let mut best = f64::NEG_INFINITY;
        by_size.retain(|row| {
            let is_better = tells(row.spared_per_get() - best);
            if is_better {
                best = row.spared_per_get();
            }
            is_better
        });
    }
    let mut smaller: Option<&PolicyRow> = None;
    for row in by_size {
        let mut line = format!(
            "{} saves {:.3} of them: {}. Its filters take {} of memory, {:.1} % of the data.",
            row.policy,
            row.spared_per_get(),
            at(row.spared_per_get()),
            size(row.filter_bytes),
            row.filter_bytes as f64 * 100.0 / data_bytes as f64,
        );
        if let Some(smaller) = smaller {
            let more_bytes = row.filter_bytes - smaller.filter_bytes;
            let more_reads = row.spared_per_get() - smaller.spared_per_get();
            let against = format!("{} more than {}", size(more_bytes), smaller.policy);
            line += &match tells(more_reads) {
                true => format!(" {against}, for {}.", at(more_reads)),
                false => format!(" {against}, which saves as much."),
            };
        }
        lines.push(line);
        smaller = Some(row);
    }
    lines
}
