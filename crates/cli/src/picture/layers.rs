//! Draws a ribbon filter: its layers, the thresholds at which the buckets of a layer bumped keys to
//! the next layer, and the band of equations.
//!
//! In a ribbon filter, each key is an equation: the XOR of the slots at which the key has a
//! coefficient of 1 is the fingerprint of the key. All coefficients of a key belong to a fixed
//! number of slots from the start position of the key on, so the equations, sorted by their start,
//! form a *band*. A filter may have several *layers*: a key that does not fit into a layer is
//! *bumped*, which means that it is looked up in the next layer. A *bucket* is a group of
//! neighboring start positions of a layer, and its *threshold* tells for how many of these
//! positions the layer keeps the keys. `crates/filter/src/burr/mod.rs` explains the reasons.

use maypole::filter::FilterReader;
use maypole::filter::inspect::{BandLayer, BandParts, KeyEquation};
use maypole::table::SstReader;

use super::drawing::{Band, Bar, Drawing, Heat, Panel, Rows};
use crate::failure::Result;
use crate::progress;
use crate::show::text::{count, percent, size};

/// The most slots that the band shows.
const BAND_SLOTS: u32 = 320;
/// The thresholds of this many layers are drawn, from layer 0 on. Deeper layers are tiny.
const LAYERS_SHOWN: usize = 2;

/// How the table's keys are distributed among the layers.
struct Keys {
    /// The number of keys that each layer keeps.
    kept: Vec<u64>,
    all: u64,
    /// The equations of layer 0 that start in the band's slots, sorted by their start.
    first: Vec<KeyEquation>,
}

/// The panels of a filter; none if no partition of it is a ribbon. For a ribbon that is not
/// partitioned, all keys of the table are read.
pub fn panels(table: &SstReader, parts: &[FilterReader]) -> Result<Vec<Panel>> {
    let ribbons: Vec<BandParts> = parts.iter().filter_map(FilterReader::band).collect();
    let [ribbon] = &ribbons[..] else {
        return Ok(if ribbons.is_empty() { Vec::new() } else { vec![partitions(&ribbons)] });
    };
    if parts.len() > 1 {
        return Ok(vec![partitions(&ribbons)]);
    }
    let keys = Keys::read(table, ribbon)?;
    let mut panels = vec![layers(ribbon, &keys)];
    if ribbon.bucket_starts > 0 {
        panels.extend(thresholds(ribbon));
    }
    panels.push(band(ribbon, keys));
    Ok(panels)
}

impl Keys {
    fn read(table: &SstReader, ribbon: &BandParts) -> Result<Keys> {
        let mut keys = Keys { kept: vec![0; ribbon.layers.len()], all: 0, first: Vec::new() };
        let see = |hash| {
            keys.all += 1;
            let Some(equation) = ribbon.equation(hash) else { return };
            keys.kept[equation.layer] += 1;
            let in_band = equation.layer == 0 && equation.start < BAND_SLOTS;
            // The number of equations is limited, because the drawing must stay small even if the
            // keys of a file are not distributed evenly.
            if in_band && keys.first.len() < 2 * BAND_SLOTS as usize {
                keys.first.push(equation);
            }
        };
        progress::during("reading the table's keys", || table.each_filter_hash(see))?;
        keys.first.sort_by_key(|equation| equation.start);
        Ok(keys)
    }
}

fn columns(ribbon: &BandParts, layer: &BandLayer) -> String {
    match layer.low_blocks {
        0 => ribbon.columns.to_string(),
        _ => format!("{}–{}", ribbon.columns - 1, ribbon.columns),
    }
}

fn layers(ribbon: &BandParts, keys: &Keys) -> Panel {
    let mut reach = keys.all;
    let rows = ribbon.layers.iter().zip(&keys.kept).enumerate().map(|(number, (layer, &kept))| {
        let came = reach;
        let bumped = came - kept;
        reach = bumped;
        vec![
            number.to_string(),
            count(layer.slots.into()),
            columns(ribbon, layer),
            size(ribbon.slot_bytes(layer)),
            count(came),
            count(kept),
            match bumped {
                0 => "0".to_string(),
                _ => format!("{} ({})", count(bumped), percent(bumped as f64 / came as f64)),
            },
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut says = vec![format!(
        "A key is an equation over {} slots. A query compares a bit for each column.",
        ribbon.width
    )];
    let bumps = ribbon.bucket_starts > 0;
    says.push(match (bumps, ribbon.tags) {
        (false, _) => "One layer takes all keys, at the cost of some free slots.".into(),
        (true, 0) => "Keys that do not fit are bumped to the next layer.".into(),
        (true, tags) => format!(
            "Keys that do not fit are bumped to the next layer. Keys that no layer took: {}, each \
             spelled out.",
            count(tags as u64)
        ),
    });
    let low: Vec<String> = ribbon
        .layers
        .iter()
        .filter(|layer| layer.low_blocks > 0)
        .map(|layer| {
            let blocks = layer.slots / ribbon.width;
            format!(
                "{} of {} blocks have one column fewer: so bits a key can be a fraction.",
                count(layer.low_blocks.into()),
                count(blocks.into())
            )
        })
        .collect();
    says.extend(low);
    let names = vec!["layer", "slots", "columns", "bytes", "keys", "kept", "bumped"];
    Panel { title: "Layers".into(), says, drawing: Drawing::Rows(Rows { columns: names, rows }) }
}

/// A row for each ribbon of a partitioned filter. Equations are not drawn, because the partition of
/// a key is not known here.
fn partitions(ribbons: &[BandParts]) -> Panel {
    const MAX_ROWS: usize = 20;
    let row = |(number, ribbon): (usize, &BandParts)| {
        let slots: u64 = ribbon.layers.iter().map(|layer| u64::from(layer.slots)).sum();
        let bytes: u64 = ribbon.layers.iter().map(|layer| ribbon.slot_bytes(layer)).sum();
        vec![
            number.to_string(),
            ribbon.layers.len().to_string(),
            count(slots),
            columns(ribbon, &ribbon.layers[0]),
            size(bytes),
        ]
    };
    let mut says =
        vec!["The band of equations is drawn for filters in one piece only.".to_string()];
    if ribbons.len() > MAX_ROWS {
        let all = count(ribbons.len() as u64);
        says.push(format!("The first {MAX_ROWS} ribbons of {all}."));
    }
    Panel {
        title: "Ribbons of the partitions".into(),
        says,
        drawing: Drawing::Rows(Rows {
            columns: vec!["ribbon", "layers", "slots", "columns", "bytes"],
            rows: ribbons.iter().enumerate().take(MAX_ROWS).map(row).collect(),
        }),
    }
}

fn thresholds(ribbon: &BandParts) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (number, layer) in ribbon.layers.iter().take(LAYERS_SHOWN).enumerate() {
        let values = layer.thresholds.iter().map(|&threshold| f64::from(threshold));
        let figure = |figure: f64| format!("{figure:.1}");
        let heat = Heat::new(values, (0.0, 3.0), figure, ("bucket", "buckets"));
        panels.push(Panel {
            title: format!("Thresholds of layer {number}"),
            says: vec![format!(
                "{} buckets of {} start positions. 3: the bucket keeps all its keys, 0: none. By \
                 start positions {} are bumped.",
                count(layer.thresholds.len() as u64),
                ribbon.bucket_starts,
                percent(1.0 - ribbon.kept(layer))
            )],
            drawing: Drawing::Heat(heat),
        });
    }
    let bars = (0..4u8).rev().map(|threshold| {
        let kept = f64::from(ribbon.kept_starts[usize::from(threshold)]);
        let kept = match threshold {
            0 => "none".into(),
            3 => "all".into(),
            _ => percent(kept / f64::from(ribbon.bucket_starts)),
        };
        let all = ribbon.layers.iter().flat_map(|layer| &layer.thresholds);
        Bar {
            label: format!("{threshold}: {kept}"),
            found: all.filter(|&&found| found == threshold).count() as u64,
            theory: None,
        }
    });
    panels.push(Panel {
        title: "Buckets by threshold".into(),
        says: vec![
            "All layers: how much of a bucket stays, and how many buckets keep that.".into(),
        ],
        drawing: Drawing::Bars(bars.collect()),
    });
    panels
}

fn band(ribbon: &BandParts, keys: Keys) -> Panel {
    let layer = &ribbon.layers[0];
    let slots = layer.slots.min(BAND_SLOTS);
    let shown = match slots == layer.slots {
        true => format!("All {} slots of layer 0.", count(slots.into())),
        false => format!("The first slots of the {} of layer 0.", count(layer.slots.into())),
    };
    Panel {
        title: "Band of equations".into(),
        says: vec![format!(
            "{shown} Down: keys, by their first slot. Across: slots; a mark is a coefficient. Right: \
             the fingerprint, which the slots under the marks must add up to."
        )],
        drawing: Drawing::Band(Band { slots, columns: ribbon.columns, rows: keys.first }),
    }
}
