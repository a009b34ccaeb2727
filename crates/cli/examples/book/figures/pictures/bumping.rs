//! A bumped ribbon at full size: its layers, and which part of each bucket is bumped. A *bucket* is
//! a short range of start positions. The keys in its bumped part go to the next layer.

use maypole::filter::FilterSpec;
use maypole::filter::inspect::BandParts;
use maypole::text::count;

use super::bars::legend;
use super::svg::{self, Canvas};
use crate::figures::equations::filter;
use crate::figures::keys::key_hash;

const KEYS: u64 = 5_000;
const LEFT: f64 = 24.0;
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 34.0;
const ROW: f64 = 92.0;

pub fn draw() -> String {
    let filter = filter(FilterSpec::burr(7.0).unwrap(), KEYS).unwrap();
    let parts = filter.band().expect("a ribbon");
    let mut kept = vec![0u64; parts.layers.len()];
    for i in 0..KEYS {
        if let Some(equation) = parts.equation(key_hash("present", i)) {
            kept[equation.layer] += 1;
        }
    }
    let mut canvas = Canvas::default();
    legend(&mut canvas, (LEFT, 28.0), "mark", "start positions whose keys stay");
    legend(&mut canvas, (LEFT + 280.0, 28.0), "sum", "start positions whose keys are bumped");
    let mut came = KEYS;
    for (number, kept) in kept.iter().enumerate() {
        let top = 66.0 + ROW * number as f64;
        let says = format!("layer {number}: {} keys", count(came));
        let slots = count(parts.layers[number].slots.into());
        canvas.text("name", (LEFT, top - 8.0), "start", &says);
        let says = format!("{} stay, in {slots} slots", count(*kept));
        canvas.text("soft", (LEFT + 150.0, top - 8.0), "start", &says);
        buckets(&mut canvas, top, number, &parts);
        came -= kept;
        if came > 0 {
            let (x, y) = (LEFT + 26.0, top + HEIGHT + 5.0);
            canvas.path("axis", &format!("M{x} {y:.1}v20m-5 -7l5 7l5 -7"));
            let says = format!("{} keys are bumped", count(came));
            canvas.text("small", (x + 12.0, y + 15.0), "start", &says);
        }
    }
    // An arrow leads to the tags, if there are any.
    let bottom = 66.0 + ROW * kept.len() as f64 - if came == 0 { 40.0 } else { 16.0 };
    let says = match came {
        0 => "no key is left to be spelled out as a tag".to_string(),
        tags => format!("{} keys are spelled out as tags", count(tags)),
    };
    canvas.text("soft", (LEFT, bottom + 8.0), "start", &says);
    let says = format!("start position (a bucket has {})", parts.bucket_starts);
    canvas.text("soft small", (WIDTH - LEFT, 66.0 + HEIGHT + 16.0), "end", &says);
    let title = "The layers of a bumped ribbon, and what each bucket keeps";
    svg::file(title, (WIDTH, bottom + 24.0), 1.0, &canvas.body)
}

/// Draws the buckets of a layer at the scale of the first layer. The part of a bucket whose keys
/// are bumped is at the bucket's left end.
fn buckets(canvas: &mut Canvas, top: f64, layer: usize, parts: &BandParts) {
    let unit = (WIDTH - 2.0 * LEFT) / f64::from(parts.layers[0].starts);
    let layer = &parts.layers[layer];
    for (bucket, &threshold) in layer.thresholds.iter().enumerate() {
        let first = bucket as u32 * parts.bucket_starts;
        let starts = parts.bucket_starts.min(layer.starts - first);
        let bumped = (parts.bucket_starts - parts.kept_starts[usize::from(threshold)]).min(starts);
        let x = LEFT + unit * f64::from(first);
        let (bumped, all) = (unit * f64::from(bumped), unit * f64::from(starts) - 1.0);
        let bumped = bumped.min(all);
        canvas.rect("mark", (x + bumped, top), (all - bumped, HEIGHT));
        if bumped > 0.0 {
            canvas.rect("sum", (x, top), (bumped, HEIGHT));
        }
    }
}
