//! False-positive rates against bits, probes and keys: formulas as lines, measurements as dots.

use maypole::filter::Family;
use maypole::filter::sizing::{bloom_fpr, expected_fpr, standard_bloom_fpr};

use super::plot::{Axis, Look, Plot, Point, Series, Spread};
use super::plot_file;
use crate::figures::rates::{filled, observed};

/// The number of the color of the "textbook Bloom" filter, whose bits may be anywhere in the array.
/// The library's families have other colors.
const TEXTBOOK: usize = 6;
/// The number of the color of the lower bound, and of formulas beside measurements.
const BOUND: usize = 0;

fn percent(rate: f64) -> String {
    format!("{} %", (rate * 1e8).round() / 1e6)
}

/// An axis of rates from `lowest` to 1.
fn rate_axis(lowest: f64) -> Axis {
    Axis::new("false-positive rate (% of absent keys)", Spread::Log, percent).with_ends(lowest, 1.0)
}

fn number_axis(label: &str, ends: (f64, f64)) -> Axis {
    Axis::new(label, Spread::Linear, |figure| figure.to_string()).with_ends(ends.0, ends.1)
}

fn series(
    name: &str,
    color: usize,
    look: Look,
    points: impl Iterator<Item = (f64, f64)>,
) -> Series {
    let point = |(x, y)| Point::new(x, y, format!("{x}: {}", percent(y)));
    Series { name: name.into(), color, look, points: points.map(point).collect() }
}

/// Rate against bits a key, for the families.
pub fn bits() -> String {
    const KEYS: usize = 1_000_000;
    const LOWEST: f64 = 1e-5;
    let steps = || (8..=72).map(|quarter| f64::from(quarter) / 4.0);
    let curve = |name, color, look, rate: &dyn Fn(f64) -> Option<f64>| {
        let points = steps().filter_map(|bits| Some((bits, rate(bits)?)));
        series(name, color, look, points.filter(|&(_, rate)| rate >= LOWEST))
    };
    let millibits = |bits: f64| (bits * 1000.0) as u32;
    let best = |bits| (1..=30).map(|k| standard_bloom_fpr(bits, k)).fold(1.0, f64::min);
    let family = |family: Family, color| {
        curve(family.name(), color, Look::Curve, &|bits| {
            expected_fpr(family, KEYS, millibits(bits))
        })
    };
    let counted = [4u64, 6, 8, 10, 12, 14].into_iter().map(|bits| {
        let k = (bits as f64 * std::f64::consts::LN_2).round() as u32;
        (bits as f64, observed(&filled(20_000, bits * 20_000, k), 200_000))
    });
    plot_file(&Plot {
        id: "rate-by-bits".into(),
        title: "False-positive rate against stored bits a key, for the families of filters".into(),
        x: number_axis("stored bits a key", (2.0, 18.0)),
        y: rate_axis(LOWEST),
        series: vec![
            curve("bloom, one line", 1, Look::Curve, &|bits| Some(bloom_fpr(millibits(bits)))),
            curve("textbook Bloom", TEXTBOOK, Look::Curve, &|bits| Some(best(bits))),
            series("", TEXTBOOK, Look::Points, counted),
            family(Family::Fuse, 7),
            family(Family::Ribbon, 2),
            family(Family::Burr, 3),
            curve("lower bound", BOUND, Look::Theory, &|bits| Some((-bits).exp2())),
        ],
    })
}

/// Rate against k, at 10 bits a key.
pub fn probes() -> String {
    let counted = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30]
        .into_iter()
        .map(|k| (f64::from(k), observed(&filled(20_000, 200_000, k), 200_000)));
    let theory = (1..=30).map(|k| (f64::from(k), standard_bloom_fpr(10.0, k)));
    plot_file(&Plot {
        id: "rate-by-k".into(),
        title: "False-positive rate against k, the bits that a key sets".into(),
        x: number_axis("k: bits that a key sets, at 10 stored bits a key", (0.0, 30.0)),
        y: rate_axis(1e-3),
        series: vec![
            series("theory", BOUND, Look::Theory, theory),
            series("measured", TEXTBOOK, Look::Points, counted),
        ],
    })
}

/// Rate against the number of keys held, for a filter that has 10 bits for each planned key.
pub fn overfull() -> String {
    let theory = |times: f64| (times, standard_bloom_fpr(10.0 / times, 7));
    let counted = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0].into_iter().map(|times| {
        let n = (20_000.0 * times) as u64;
        (times, observed(&filled(n, 200_000, 7), 200_000))
    });
    plot_file(&Plot {
        id: "rate-by-keys".into(),
        title: "False-positive rate against the keys held".into(),
        x: number_axis("keys held ÷ keys planned for, at 10 bits each", (0.0, 6.0)),
        y: rate_axis(1e-4),
        series: vec![
            series(
                "theory",
                BOUND,
                Look::Theory,
                (4..=60).map(|tenth| theory(tenth as f64 / 10.0)),
            ),
            series("measured", TEXTBOOK, Look::Points, counted),
        ],
    })
}
