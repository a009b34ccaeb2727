//! The picture of a table's filter: on a terminal and as SVG, from the same figures.
//!
//! ```text
//! lines    a Bloom filter: how full its cache lines are         text   on a terminal
//! layers   a ribbon: layers, thresholds, the band of equations  svg    as a file
//! ```
//!
//! `lines` and `layers` make panels. `text` and `svg` show panels and know nothing of filters.

mod drawing;
mod layers;
mod lines;
mod svg;
mod text;

use maypole::filter::FilterReader;
use maypole::table::{FilterInfo, SstReader};

use crate::failure::Result;
use crate::show::text::{counted, escape, percent, size};
pub use drawing::Picture;
pub use svg::svg;
pub use text::text;

/// The picture of a table's filter, or why there is none.
pub fn of(table: &SstReader) -> Result<std::result::Result<Picture, String>> {
    let Some(info) = table.filter()? else { return Ok(Err(without_filter(table))) };
    let parts = table.filters()?;
    let untrusted: Vec<&str> = parts.iter().filter_map(FilterReader::untrusted).collect();
    if untrusted.len() == parts.len() {
        let reason = untrusted.first().unwrap_or(&"it has no partitions");
        return Ok(Err(format!("the filter cannot be used and answers maybe to all: {reason}")));
    }
    let mut panels = lines::panels(&info, &parts);
    panels.extend(layers::panels(table, &parts)?);
    let mut title = title(&info, &parts);
    if let Some(reason) = untrusted.first() {
        let (unused, all) = (untrusted.len(), parts.len());
        title += &format!(". {unused} of {all} partitions cannot be used, such as {reason}");
    }
    Ok(Ok(Picture { title, panels }))
}

/// The name of the filter in the table's metaindex, if there is one. Call this for a table of which
/// [`SstReader::filter`] returns none: then Maypole does not read filters of this kind, such as
/// RocksDB's block-based filter.
pub fn filter_not_read(table: &SstReader) -> Option<String> {
    let (name, _) = table.metaindex().iter().find(|(name, _)| name.contains("filter."))?;
    Some(escape(name.as_bytes()).to_string())
}

fn without_filter(table: &SstReader) -> String {
    match filter_not_read(table) {
        Some(name) => format!("the table's filter is of a kind that is not read here: {name}"),
        None => "the table has no filter".into(),
    }
}

fn title(info: &FilterInfo, parts: &[FilterReader]) -> String {
    let family = info.family.map_or("unknown".into(), |family| family.to_string());
    let partitions = match parts.len() {
        1 => String::new(),
        n => format!(" in {}", counted(n as u64, "partition")),
    };
    let rate = info.predicted_fpr.map_or("unknown".into(), percent);
    format!(
        "{family} filter{partitions}: {}, {}, {:.2} bits/key, predicted rate {rate}",
        counted(info.keys, "key"),
        size(info.bytes),
        info.bits_per_key(),
    )
}

#[cfg(test)]
mod tests {
    use super::drawing::Heat;

    #[test]
    fn cells_are_means_of_neighbours_and_few() {
        let heat = |count: usize| {
            Heat::new((0..count).map(|i| i as f64), (0.0, 10.0), |f| f.to_string(), ("a", "b"))
        };
        assert_eq!(heat(3).cells, [0.0, 1.0, 2.0]);
        let many = heat(1025);
        assert_eq!((many.per_cell, many.cells.len()), (3, 342));
        assert_eq!((many.cells[0], many.cells[341]), (1.0, 1023.5));
        assert!(heat(0).cells.is_empty());
        assert_eq!([-1.0, 5.0, 99.0].map(|figure| heat(1).level(figure)), [0.0, 0.5, 1.0]);
    }
}
