//! Answers `full`: takes a ribbon of the library apart, and lists its layers, its first equations
//! and its first slots.
//!
//! A *layer* is a ribbon that may *bump* some of its keys, that is, pass them on to the next layer.
//! For each key that the last layer bumps, the filter stores a *tag*, which is computed from the
//! key's hash.

use maypole_filter::FilterSpec;
use maypole_filter::inspect::{BandLayer, QueryTrace};

use super::{list, number};
use crate::figures::equations::{Row, columns, eliminate, filter, rows, solve};
use crate::figures::keys::key_hash;

/// The number of slots that are drawn: the first ones of the first layer.
const SHOWN: u32 = 96;
/// The answer lists at most this many of the keys that the first layer bumps.
const MAX_BUMPED: usize = 100;

/// Builds a filter of the keys with numbers below `keys`, and traces a query for key number
/// `asked`, which is an absent key if it is not below `keys`.
pub fn answer(family: &str, bits: &str, keys: &str, asked: &str) -> Result<String, String> {
    let spec: FilterSpec = format!("{family}({bits})").parse().map_err(|e| format!("{e}"))?;
    let (keys, asked) = (number(keys, 1, 100_000)?, number(asked, 0, 1_000_000)?);
    let filter = filter(spec, keys).ok_or("a filter needs a key")?;
    let parts = filter.band().ok_or("of these keys no ribbon is made, but a Bloom filter")?;

    let (mut stay, mut bumped) = (vec![0; parts.layers.len()], Vec::new());
    for i in 0..keys {
        let layer = parts.equation(key_hash("present", i)).map(|equation| equation.layer);
        if let Some(layer) = layer {
            stay[layer] += 1;
        }
        if layer != Some(0) && bumped.len() < MAX_BUMPED {
            bumped.push(i);
        }
    }
    let layer = |(layer, stay): (&BandLayer, &u64)| {
        let thresholds: String = layer.thresholds.iter().map(u8::to_string).collect();
        format!(
            "{{\"slots\":{},\"starts\":{},\"stay\":{stay},\"thresholds\":\"{thresholds}\"}}",
            layer.slots, layer.starts
        )
    };
    let rows = rows(&parts, keys);
    let slots = solve(&eliminate(&rows, parts.layers[0].slots));
    let shown = rows.iter().filter(|row| row.start < SHOWN);
    // The shown rows start below slot `SHOWN`, so they pick only slots below this one.
    let picked = (SHOWN + parts.width) as usize;
    let row = |row: &Row| format!("[{},\"{:x}\",{}]", row.start, row.coefficients, row.sum);
    Ok(format!(
        "{{\"width\":{},\"columns\":{},\"tags\":{},\"bucket\":{},\"kept\":{},\"layers\":{},\"bumped\":{},\
         \"shown\":{SHOWN},\"rows\":{},\"slots\":{},\"asked\":{}}}",
        parts.width,
        columns(&parts),
        parts.tags,
        parts.bucket_starts,
        list(&parts.kept_starts, u32::to_string),
        list(parts.layers.iter().zip(&stay), layer),
        list(&bumped, u64::to_string),
        list(shown, row),
        list(slots.iter().take(picked), u32::to_string),
        path(&filter.trace(key_hash(if asked < keys { "present" } else { "absent" }, asked))),
    ))
}

/// The start positions of a key in the layers that its query reaches, and the filter's answer.
fn path(trace: &QueryTrace) -> String {
    let (bumped, last) = match trace {
        QueryTrace::Slots { bumped, start, .. } => (&bumped[..], Some(start)),
        QueryTrace::Tags { bumped, .. } => (&bumped[..], None),
        _ => (&[][..], None),
    };
    let starts = bumped.iter().map(|layer| &layer.start).chain(last);
    format!(
        "{{\"starts\":{},\"tags\":{},\"maybe\":{}}}",
        list(starts, u32::to_string),
        last.is_none(),
        trace.is_maybe()
    )
}
