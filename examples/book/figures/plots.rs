//! The plots: formulas as lines, measurements as dots. SVG by hand.

use std::fmt::Write;

use maypole::filter::Family;
use maypole::filter::sizing::{bloom_fpr, expected_fpr, standard_bloom_fpr};

use super::rates::{filled, observed};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 50.0;

/// A plot whose rates, upwards, are logarithmic.
struct Plot {
    svg: String,
    x: (f64, f64),
    /// Logarithms to the base 10 of the rates.
    y: (f64, f64),
}

impl Plot {
    fn new(title: &str, x: (f64, f64), x_step: f64, y: (f64, f64)) -> Plot {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<title>{title}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
        );
        let mut plot = Plot { svg: String::new(), x, y };
        let mut at = x.0;
        while at <= x.1 + 1e-9 {
            let (px, bottom) = plot.point(at, 10f64.powf(y.0));
            writeln!(
                svg,
                "<path d=\"M{px:.1} {TOP}V{bottom:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at}</text>",
                bottom + 18.0,
            )
            .unwrap();
            at += x_step;
        }
        let mut exponent = y.0;
        while exponent <= y.1 + 1e-9 {
            let rate = 10f64.powf(exponent);
            let (left, py) = plot.point(x.0, rate);
            let percent = (rate * 1e8).round() / 1e6;
            writeln!(
                svg,
                "<path d=\"M{left:.1} {py:.1}H{:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
                WIDTH - RIGHT,
                left - 6.0,
                py + 4.0,
            )
            .unwrap();
            exponent += 1.0;
        }
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{title}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 10.0,
        )
        .unwrap();
        plot.svg = svg;
        plot
    }

    fn point(&self, x: f64, rate: f64) -> (f64, f64) {
        let across = (x - self.x.0) / (self.x.1 - self.x.0);
        let up = (rate.log10() - self.y.0) / (self.y.1 - self.y.0);
        let height = HEIGHT - TOP - BOTTOM;
        (LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1.0 - up) * height)
    }

    fn line(&mut self, colour: &str, points: impl Iterator<Item = (f64, f64)>) {
        let lowest = 10f64.powf(self.y.0);
        let path: Vec<String> = points
            .filter(|&(_, rate)| rate >= lowest)
            .map(|(x, rate)| self.point(x, rate))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        writeln!(
            self.svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" "),
        )
        .unwrap();
    }

    fn dots(&mut self, colour: &str, points: impl Iterator<Item = (f64, f64)>) {
        for (x, rate) in points {
            let (x, y) = self.point(x, rate);
            writeln!(self.svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>")
                .unwrap();
        }
    }

    /// A word at a point of the plot.
    fn label(&mut self, colour: &str, x: f64, rate: f64, text: &str) {
        let (x, y) = self.point(x, rate);
        writeln!(self.svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{text}</text>")
            .unwrap();
    }

    fn finish(mut self) -> String {
        self.svg += "</svg>\n";
        self.svg
    }
}

const BLUE: &str = "#1f5fa8";
const RED: &str = "#b3261e";
const GREEN: &str = "#2a7a2a";
const GREY: &str = "#666";

/// Rate against bits a key, for the families.
fn bits() -> String {
    let mut plot = Plot::new("stored bits a key", (2.0, 18.0), 2.0, (-5.0, 0.0));
    let steps = || (8..=72).map(|quarter| f64::from(quarter) / 4.0);
    plot.line(GREY, steps().map(|bits| (bits, (-bits).exp2())));
    plot.line(
        BLUE,
        steps().map(|bits| {
            let best = (1..=30).map(|k| standard_bloom_fpr(bits, k)).fold(1.0, f64::min);
            (bits, best)
        }),
    );
    plot.line(RED, steps().map(|bits| (bits, bloom_fpr((bits * 1000.0) as u32))));
    plot.line(
        GREEN,
        steps().filter_map(|bits| {
            let fpr = expected_fpr(Family::Burr, 1_000_000, (bits * 1000.0) as u32)?;
            Some((bits, fpr))
        }),
    );
    plot.dots(
        BLUE,
        [4u64, 6, 8, 10, 12, 14].into_iter().map(|bits| {
            let k = (bits as f64 * std::f64::consts::LN_2).round() as u32;
            (bits as f64, observed(&filled(20_000, bits * 20_000, k), 200_000))
        }),
    );
    plot.label(GREY, 5.6, 0.0022, "lower bound");
    plot.label(GREEN, 8.4, 0.0062, "burr");
    plot.label(BLUE, 11.2, 0.0009, "textbook Bloom");
    plot.label(RED, 14.6, 0.0022, "bloom, one line");
    plot.finish()
}

/// Rate against k, at 10 bits a key.
fn probes() -> String {
    let mut plot = Plot::new("k, at 10 bits a key", (0.0, 30.0), 5.0, (-3.0, 0.0));
    plot.line(BLUE, (1..=30).map(|k| (f64::from(k), standard_bloom_fpr(10.0, k))));
    plot.dots(
        BLUE,
        [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30]
            .into_iter()
            .map(|k| (f64::from(k), observed(&filled(20_000, 200_000, k), 200_000))),
    );
    plot.finish()
}

/// Rate against the keys held, of a filter planned for 10 bits a key.
fn overfull() -> String {
    let mut plot = Plot::new("keys held ÷ keys planned", (0.0, 6.0), 1.0, (-4.0, 0.0));
    let theory = |times: f64| (times, standard_bloom_fpr(10.0 / times, 7));
    plot.line(BLUE, (2..=60).map(|tenth| theory(f64::from(tenth) / 10.0)));
    plot.dots(
        BLUE,
        [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0].into_iter().map(|times| {
            let n = (20_000.0 * times) as u64;
            (times, observed(&filled(n, 200_000, 7), 200_000))
        }),
    );
    plot.finish()
}

/// File names and contents.
pub fn all() -> [(&'static str, String); 3] {
    [("rate-by-bits.svg", bits()), ("rate-by-k.svg", probes()), ("rate-by-keys.svg", overfull())]
}
