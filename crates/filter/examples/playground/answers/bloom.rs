//! Answers the request `bloom` of a page (`mod.rs` lists the requests): builds a Bloom filter of
//! the library, and lists its cache lines and the bits of each key.

use maypole_filter::hash64;
use maypole_filter::inspect::QueryTrace;
use maypole_filter::{FilterBuilder, FilterReader, FilterSpec};

use super::{Keys, list};

/// With more keys, the filter would have more cache lines than a page can show.
const MAX_KEYS: usize = 400;

pub fn answer(bits: &str, keys: &Keys) -> Result<String, String> {
    if keys.added.len() > MAX_KEYS {
        return Err(format!("at most {MAX_KEYS} keys can be drawn"));
    }
    let spec: FilterSpec = format!("bloom({bits})").parse().map_err(|e| format!("{e}"))?;
    let mut builder = FilterBuilder::new(spec);
    keys.added.iter().for_each(|key| builder.add(hash64(key.as_bytes())));
    let block = builder.finish().ok_or("a filter needs a key")?;
    let (count, rate) = (block.keys(), block.predicted_fpr());
    let filter = block.into_reader();

    let lines = filter.lines().ok_or("no Bloom filter")?;
    let place = |key: &str| place(hash64(key.as_bytes()), &filter);
    let hex = |line: &[u8]| {
        let bytes: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\"{bytes}\"")
    };
    let asked = |key: &&str| {
        let maybe = filter.may_contain(hash64(key.as_bytes()));
        format!("{{\"maybe\":{maybe},{}", &place(key)[1..])
    };
    Ok(format!(
        "{{\"keys\":{count},\"k\":{},\"fill\":{:.6},\"rate\":{rate:.6e},\"lines\":{},\"added\":{},\"asked\":{}}}",
        filter.probes().unwrap_or(0),
        filter.fill().unwrap_or(0.0),
        list(lines, hex),
        list(&keys.added, |key| place(key)),
        list(&keys.asked, asked),
    ))
}

/// The cache line of a key, and the bits of this line that a query of the key probes, in order.
fn place(hash: u64, filter: &FilterReader) -> String {
    let (line, bits) = match filter.trace(hash) {
        QueryTrace::Line { line, bits, .. } => (line, bits),
        _ => (0, Vec::new()),
    };
    format!("{{\"line\":{line},\"bits\":{}}}", list(bits, |bit| bit.number.to_string()))
}
