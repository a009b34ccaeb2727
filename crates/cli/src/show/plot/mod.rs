//! Plots as SVG: curves and measured points over two axes. The code does not depend on what the
//! figures mean.
//!
//! ```text
//! y label (unit)
//! 1 ┤
//!   │   ●──●
//!   ┤ ●      ╲          direct label of each series at its right end, moved apart
//!   │          ●── bloom
//! 0 └──┴──┴──┴──
//!         x label (unit)
//! ```
//!
//! Colors are the classes `c0` to `c7`, which the page's style sheet defines for light and dark
//! screens. Every measured point has its figures in a `<title>`, which a browser shows on hover,
//! even without scripts. The page's script lets the arrow keys move from point to point.

mod scale;
pub mod ticks;

use maypole::filter::Family;
use std::fmt::Write;

use super::svg::escape;
pub use scale::{Scale, Spread, range};

/// The number of colors that the style sheet defines.
pub const COLORS: usize = 8;

/// The color of everything that has no color of its own.
pub const OTHERS: usize = COLORS - 1;

/// The color of a filter family: 1 to 3 for the first three families, [`OTHERS`] for later ones.
/// `None` if no family has this name.
pub fn color_of_family(name: &str) -> Option<usize> {
    let number = Family::written().position(|family| family.name() == name)?;
    Some(if number < 3 { number + 1 } else { OTHERS })
}

/// The size of a drawing, in its own units. It is small, so that text stays readable if the plot is
/// as narrow as a phone.
pub const WIDTH: f64 = 460.0;
pub const HEIGHT: f64 = 312.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;
const LEFT: f64 = 54.0;
/// The least distance between the labels of two series.
const LINE_HEIGHT: f64 = 14.0;
/// About the width of one character of a label.
const CHARACTER: f64 = 7.3;
/// Names with more characters than this are cut.
const LABEL_CHARACTERS: usize = 22;

pub struct Axis {
    /// The label, with the unit.
    pub label: String,
    pub spread: Spread,
    pub tick: fn(f64) -> String,
    /// The ends of the axis. With `None`, the figures determine them.
    pub ends: Option<(f64, f64)>,
}

impl Axis {
    pub fn new(label: &str, spread: Spread, tick: fn(f64) -> String) -> Axis {
        Axis { label: label.to_string(), spread, tick, ends: None }
    }

    /// An axis of bytes. `spread` is [`Spread::Bytes`] or [`Spread::LogBytes`].
    pub fn bytes(label: &str, spread: Spread) -> Axis {
        Axis::new(label, spread, ticks::bytes)
    }

    pub fn with_ends(mut self, low: f64, high: f64) -> Axis {
        self.ends = Some((low, high));
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Look {
    /// Measured points, joined.
    Joined,
    /// Measured points.
    Points,
    /// A curve whose points are so close together that none of them is marked.
    #[allow(dead_code, reason = "the pictures of the book have such curves")]
    Curve,
    /// The values of a theory: a dashed curve.
    Theory,
}

/// A named row of points.
pub struct Series {
    /// If the name is empty, the series gets no label.
    pub name: String,
    /// A number below [`COLORS`].
    pub color: usize,
    pub look: Look,
    pub points: Vec<Point>,
}

/// A point, and its text on hover.
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The confidence interval of `y`, if it is known.
    pub interval: Option<(f64, f64)>,
    pub dot: Dot,
    pub says: String,
}

/// What a point represents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Dot {
    /// A measured figure.
    Seen,
    /// A measured figure whose interval overlaps that of another series, so that neither can be
    /// called higher. The dot is hollow.
    Tied,
    /// An upper bound, because nothing was observed. It is drawn as an arrow down.
    AtMost,
    /// What there is, among what could be. It is drawn as a diamond.
    Here,
}

impl Point {
    pub fn new(x: f64, y: f64, says: String) -> Point {
        Point { x, y, interval: None, dot: Dot::Seen, says }
    }

    /// A measured figure with its confidence interval. If `y` is 0, nothing was observed, and the
    /// point is an arrow at the upper end of the interval.
    pub fn observed(x: f64, y: f64, interval: Option<(f64, f64)>, says: String) -> Point {
        match interval {
            Some((_, high)) if y == 0.0 => Point { dot: Dot::AtMost, ..Point::new(x, high, says) },
            _ => Point { interval, ..Point::new(x, y, says) },
        }
    }
}

pub struct Plot {
    /// Unique on the page.
    pub id: String,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// The scales of the axes, and the right and the bottom end of the area that they span.
struct Frame {
    x: Scale,
    y: Scale,
    right: f64,
    bottom: f64,
}

impl Plot {
    /// Whether there is no point to draw.
    pub fn is_empty(&self) -> bool {
        self.frame().is_none()
    }

    /// The drawing. Empty when [`Plot::is_empty`].
    pub fn to_svg(&self) -> String {
        let Some(frame) = self.frame() else { return String::new() };
        let mut svg = format!(
            "<svg class=\"plot\" id=\"{}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"group\" \
             aria-label=\"{}\">\n",
            escape(&self.id),
            escape(&self.title)
        );
        self.draw_axes(&frame, &mut svg);
        for series in &self.series {
            draw_series(series, &frame, &mut svg);
        }
        self.draw_labels(&frame, &mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    /// `None` where no point can be shown.
    fn frame(&self) -> Option<Frame> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x_ends = self.x.ends.or_else(|| range(self.x.spread, points().map(|p| p.x)))?;
        let ys = points().flat_map(|p| [p.y].into_iter().chain(p.interval.map(|i| i.1)));
        let y_ends = range(self.y.spread, ys)?;
        let y_ends = self.y.ends.unwrap_or(y_ends);
        let longest = self.series.iter().map(|series| label(&series.name).chars().count()).max()?;
        let right = WIDTH - (16.0 + CHARACTER * longest as f64);
        let bottom = HEIGHT - BOTTOM;
        Some(Frame {
            x: Scale::new(self.x.spread, x_ends, (LEFT, right)),
            y: Scale::new(self.y.spread, y_ends, (bottom, TOP)),
            right,
            bottom,
        })
    }

    fn draw_axes(&self, frame: &Frame, svg: &mut String) {
        let Frame { x, y, right, bottom } = frame;
        let (x_ticks, y_ticks) = (x.ticks(5), y.ticks(6));
        let mut minor = String::new();
        for at in y.minor_ticks(&y_ticks).into_iter().map(|tick| y.at(tick)) {
            let _ = write!(minor, "M{LEFT} {at:.1}h4");
        }
        for at in x.minor_ticks(&x_ticks).into_iter().map(|tick| x.at(tick)) {
            let _ = write!(minor, "M{at:.1} {bottom:.1}v-4");
        }
        if !minor.is_empty() {
            let _ = writeln!(svg, "<path class=\"axis minor\" d=\"{minor}\"/>");
        }
        for tick in y_ticks {
            let (at, text) = (y.at(tick), escape(&(self.y.tick)(tick)));
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        for tick in x_ticks {
            let (at, text) = (x.at(tick), escape(&(self.x.tick)(tick)));
            let _ = writeln!(
                svg,
                "<path class=\"axis\" d=\"M{at:.1} {bottom:.1}v4\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 16.0
            );
        }
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {bottom:.1}H{right:.1}\"/>\
             <text class=\"label\" x=\"4\" y=\"14\">{}</text>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            escape(&self.y.label),
            (LEFT + right) / 2.0,
            HEIGHT - 8.0,
            escape(&self.x.label)
        );
    }

    /// The names of the series, each to the right of its last point, without overlap.
    fn draw_labels(&self, frame: &Frame, svg: &mut String) {
        let mut labels: Vec<(f64, &Series, f64)> = self
            .series
            .iter()
            .filter(|series| !series.name.is_empty())
            .filter_map(|series| {
                let last = series.points.iter().max_by(|a, b| a.x.total_cmp(&b.x))?;
                Some((frame.y.at(last.y), series, frame.x.at(last.x)))
            })
            .collect();
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wished: Vec<f64> = labels.iter().map(|label| label.0).collect();
        let placed = spread_out(&wished, LINE_HEIGHT, TOP, frame.bottom);
        for ((y, series, x), label_y) in labels.into_iter().zip(placed) {
            let class = if series.look == Look::Theory { " theory" } else { "" };
            // A line connects the label to its point if they are apart.
            if (label_y - y).abs() > 5.0 || frame.right - x > 5.0 {
                let _ = write!(
                    svg,
                    "<path class=\"lead\" d=\"M{:.1} {y:.1}L{:.1} {label_y:.1}\"/>",
                    x + 5.0,
                    frame.right + 6.0
                );
            }
            let _ = writeln!(
                svg,
                "<text class=\"name c{}{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                series.color,
                frame.right + 9.0,
                label_y + 4.0,
                escape(&label(&series.name))
            );
        }
    }
}

/// The name, cut if it is longer than [`LABEL_CHARACTERS`].
fn label(name: &str) -> String {
    match name.char_indices().nth(LABEL_CHARACTERS) {
        None => name.to_string(),
        Some(_) => name.chars().take(LABEL_CHARACTERS - 1).chain(['…']).collect(),
    }
}

fn draw_series(series: &Series, frame: &Frame, svg: &mut String) {
    let _ = write!(
        svg,
        "<g class=\"series c{}\" data-name=\"{}\">",
        series.color,
        escape(&series.name)
    );
    let shown: Vec<&Point> = series.points.iter().filter(|p| p.y.is_finite()).collect();
    if series.look != Look::Points && shown.len() > 1 {
        let path: Vec<String> = shown
            .iter()
            .map(|p| format!("{:.1} {:.1}", frame.x.at(p.x), frame.y.at(p.y)))
            .collect();
        let class = if series.look == Look::Theory { "curve theory" } else { "curve" };
        let _ = write!(svg, "<path class=\"{class}\" d=\"M{}\"/>", path.join("L"));
    }
    for point in shown {
        let (x, y) = (frame.x.at(point.x), frame.y.at(point.y));
        if let Some((low, high)) = point.interval {
            let (low, high) = (frame.y.at(low), frame.y.at(high));
            let _ = write!(
                svg,
                "<path class=\"interval\" d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h6M{:.1} \
                 {high:.1}h6\"/>",
                x - 3.0,
                x - 3.0
            );
        }
        if matches!(series.look, Look::Curve | Look::Theory) {
            continue;
        }
        let says = escape(&point.says);
        let dot = match point.dot {
            Dot::Seen => format!("<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.7\"/>"),
            Dot::Tied => {
                format!("<circle class=\"dot tied\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.7\"/>")
            }
            Dot::AtMost => {
                format!("<path class=\"dot\" d=\"M{:.1} {y:.1}h8l-4 7z\"/>", x - 4.0)
            }
            Dot::Here => {
                format!("<path class=\"dot\" d=\"M{:.1} {y:.1}l6 -6l6 6l-6 6z\"/>", x - 6.0)
            }
        };
        // The wide circle is a larger target for a finger.
        let _ = write!(
            svg,
            "<g class=\"point\">{dot}\
             <circle class=\"hit\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\"/><title>{says}</title></g>"
        );
    }
    svg.push_str("</g>\n");
}

/// Moves sorted positions until neighbours are at least `gap` apart: each of two close neighbours
/// moves by half of the missing distance. The positions stay between `low` and `high` if they fit.
fn spread_out(wished: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut placed = wished.to_vec();
    for _ in 0..200 {
        let mut moved = false;
        for i in 1..placed.len() {
            let missing = gap - (placed[i] - placed[i - 1]);
            if missing > 0.01 {
                placed[i - 1] -= missing / 2.0;
                placed[i] += missing / 2.0;
                moved = true;
            }
        }
        if let Some(first) = placed.first_mut() {
            *first = first.max(low);
        }
        if let Some(last) = placed.last_mut() {
            *last = last.min(high);
        }
        if !moved {
            break;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<Point>) -> Plot {
        let axis = || Axis::new("x & y", Spread::Log, |f| format!("{f}"));
        let series = Series { name: "<a>".into(), color: 1, look: Look::Joined, points };
        Plot { id: "p".into(), title: "t".into(), x: axis(), y: axis(), series: vec![series] }
    }

    fn point(x: f64, y: f64) -> Point {
        Point::new(x, y, "says \"so\"".into())
    }

    #[test]
    fn each_point_is_drawn_with_its_words_and_text_is_escaped() {
        let svg = plot(vec![point(1.0, 2.0), point(10.0, 30.0)]).to_svg();
        assert_eq!(svg.matches("class=\"dot\"").count(), 2);
        assert_eq!(svg.matches("<title>says &quot;so&quot;</title>").count(), 2);
        assert!(svg.contains("&lt;a&gt;") && svg.contains("x &amp; y") && !svg.contains("<a>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    /// Points whose queries had no false positive were once not drawn, so the points that were
    /// drawn were above the theory. Now such a point is drawn at its upper bound.
    #[test]
    fn where_nothing_was_observed_the_upper_bound_is_drawn() {
        let observed = |y, interval| Point::observed(2.0, y, Some(interval), "s".into());
        let svg = plot(vec![observed(0.0, (0.0, 0.5)), observed(0.7, (0.6, 0.9))]).to_svg();
        assert_eq!(svg.matches("class=\"dot").count(), 2, "{svg}");
        assert_eq!(svg.matches("<path class=\"dot\"").count(), 1, "an arrow");
        assert_eq!(svg.matches("class=\"interval\"").count(), 1);
    }

    #[test]
    fn a_plot_without_points_is_empty() {
        assert!(plot(vec![]).is_empty());
        assert!(plot(vec![point(1.0, 0.0)]).is_empty(), "a logarithmic axis has no 0");
        assert_eq!(plot(vec![]).to_svg(), "");
    }

    #[test]
    fn labels_keep_their_distance() {
        let placed = spread_out(&[10.0, 11.0, 12.0, 80.0], 14.0, 0.0, 100.0);
        assert!(placed.windows(2).all(|pair| pair[1] - pair[0] > 13.9), "{placed:?}");
        assert!((placed[3] - 80.0).abs() < 1e-9);
    }
}
