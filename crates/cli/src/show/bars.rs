//! Charts with a line for each named item: its name, its figures as bars, ticks or dots, and a
//! note. The code does not depend on what the figures mean.
//!
//! ```text
//! bloom       ████████│███         9.62       a bar from 0, a tick across it, a note
//! cuckoo      ███████████          12.1       two bars of a line stand one above the other
//! scalable       ①─②──⑤            1.2 %      dots, joined: also where the axis has no 0
//!             └──┴──┴──┴──
//!               label (unit)
//! ```
//!
//! For many names a chart reads better than a [`Plot`](super::plot::Plot), because each name has
//! its own line, and several charts can have their lines in the same order. A chart has the colors
//! of a plot and, as in a plot, a browser shows a text for a mark on hover.

use std::fmt::Write;

use crate::show::plot::{Axis, Scale, range};
use crate::show::svg::{Canvas, escape};

/// The width of a drawing, in its own units. Plots are as wide.
const WIDTH: f64 = 460.0;
const LINE_HEIGHT: f64 = 23.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 40.0;
/// The space that is reserved for one character of a name. It is enough for narrow pages too, which
/// have larger letters.
const NAME_CHARACTER: f64 = 7.2;
/// The same for a note. Most of its characters are digits, which are wider.
const NOTE_CHARACTER: f64 = 7.8;
/// Half of the free space between two lines.
const MARGIN: f64 = 4.0;
const DOT_RADIUS: f64 = 7.5;

pub struct Chart {
    /// Unique on the page.
    pub id: &'static str,
    pub title: &'static str,
    pub x: Axis,
    pub lines: Vec<Line>,
}

/// A named line of marks.
pub struct Line {
    pub name: String,
    /// A number below [`COLORS`](super::plot::COLORS).
    pub color: usize,
    pub marks: Vec<Mark>,
    /// The text at the right end of the line.
    pub note: String,
}

/// A figure, and its text on hover.
pub struct Mark {
    pub at: f64,
    pub shape: Shape,
    pub says: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// From 0 to the figure.
    Bar,
    /// Like [`Shape::Bar`], but paler.
    PaleBar,
    /// A tick across the whole line.
    Tick,
    /// A dot with this text in it.
    Dot(&'static str),
}

/// The area of the marks of a chart.
struct Frame {
    x: Scale,
    left: f64,
    right: f64,
    bottom: f64,
}

impl Chart {
    /// The drawing. Empty when no mark can be shown.
    pub fn to_svg(&self) -> String {
        let Some(frame) = self.frame() else { return String::new() };
        let mut svg = Canvas::default();
        let _ = writeln!(
            svg.body,
            "<svg class=\"plot bars\" id=\"{}\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"group\" \
             aria-label=\"{}\">",
            self.id,
            frame.bottom + BOTTOM,
            escape(self.title)
        );
        self.draw_axis(&frame, &mut svg);
        for (n, line) in self.lines.iter().enumerate() {
            draw_line(line, TOP + n as f64 * LINE_HEIGHT, &frame, &mut svg);
        }
        svg.body + "</svg>\n"
    }

    fn frame(&self) -> Option<Frame> {
        self.lines.iter().find(|line| !line.marks.is_empty())?;
        let figures = self.lines.iter().flat_map(|line| &line.marks).map(|mark| mark.at);
        // Bars start at 0, which a logarithmic axis ignores.
        let figures = figures.chain([0.0]);
        let ends = self.x.ends.or_else(|| range(self.x.spread, figures))?;
        let most = |text: fn(&Line) -> &str| {
            let characters = self.lines.iter().map(|line| text(line).chars().count());
            characters.max().map(|most| most as f64)
        };
        let left = most(|line| &line.name)? * NAME_CHARACTER + 7.0;
        let right = WIDTH - most(|line| &line.note)? * NOTE_CHARACTER - 10.0;
        let bottom = TOP + self.lines.len() as f64 * LINE_HEIGHT;
        Some(Frame { x: Scale::new(self.x.spread, ends, (left, right)), left, right, bottom })
    }

    fn draw_axis(&self, frame: &Frame, svg: &mut Canvas) {
        let Frame { x, left, right, bottom } = frame;
        let ticks = x.ticks(5);
        for at in x.minor_ticks(&ticks).into_iter().map(|tick| x.at(tick)) {
            svg.path("axis minor", &format!("M{at:.1} {bottom:.1}v-4"));
        }
        for tick in ticks {
            let at = x.at(tick);
            svg.path("grid", &format!("M{at:.1} {TOP:.1}V{bottom:.1}"));
            svg.text("", (at, bottom + 15.0), "middle", &(self.x.tick)(tick));
        }
        svg.path("axis", &format!("M{left:.1} {TOP:.1}V{bottom:.1}"));
        svg.text("label", ((left + right) / 2.0, bottom + 33.0), "middle", &self.x.label);
    }
}

fn draw_line(line: &Line, top: f64, frame: &Frame, svg: &mut Canvas) {
    let middle = top + LINE_HEIGHT / 2.0;
    let (color, name) = (line.color, escape(&line.name));
    let _ = writeln!(svg.body, "<g class=\"series c{color}\" data-name=\"{name}\">");
    svg.text("name", (frame.left - 7.0, middle + 4.0), "end", &line.name);
    svg.text("", (frame.right + 10.0, middle + 4.0), "start", &line.note);
    let dots: Vec<f64> = line
        .marks
        .iter()
        .filter(|mark| matches!(mark.shape, Shape::Dot(_)))
        .map(|mark| frame.x.at(mark.at))
        .collect();
    if let (Some(first), Some(last)) = (dots.first(), dots.last()) {
        svg.path("curve", &format!("M{first:.1} {middle:.1}H{last:.1}"));
    }
    let is_bar = |mark: &&Mark| matches!(mark.shape, Shape::Bar | Shape::PaleBar);
    let bar_height = (LINE_HEIGHT - 2.0 * MARGIN) / line.marks.iter().filter(is_bar).count() as f64;
    let mut bar_top = top + MARGIN;
    for mark in &line.marks {
        let (at, left) = (frame.x.at(mark.at), frame.left);
        svg.body.push_str("<g class=\"point\">");
        match mark.shape {
            Shape::Bar | Shape::PaleBar => {
                let class = if mark.shape == Shape::Bar { "dot bar" } else { "dot bar pale" };
                svg.rect(class, (left, bar_top), ((at - left).max(0.8), bar_height));
                // The transparent rectangle is a larger target for a finger.
                svg.rect("hit", (left, bar_top), (frame.right - left, bar_height));
                bar_top += bar_height;
            }
            Shape::Tick => {
                svg.rect("dot tick", (at - 1.0, top + 1.0), (2.0, LINE_HEIGHT - 2.0));
                svg.rect("hit", (at - 6.0, top), (12.0, LINE_HEIGHT));
            }
            Shape::Dot(text) => {
                svg.circle("dot", (at, middle), DOT_RADIUS);
                svg.text("in-dot", (at, middle + 3.6), "middle", text);
                svg.circle("hit", (at, middle), 11.0);
            }
        }
        let _ = write!(svg.body, "<title>{}</title></g>", escape(&mark.says));
    }
    svg.body.push_str("</g>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::plot::Spread;

    fn mark(at: f64, shape: Shape) -> Mark {
        Mark { at, shape, says: "says \"so\"".into() }
    }

    fn chart(spread: Spread, marks: Vec<Mark>) -> Chart {
        let x = Axis::new("x & y", spread, |f| format!("{f}"));
        let line = Line { name: "<a>".into(), color: 1, marks, note: "b & c".into() };
        Chart { id: "p", title: "t", x, lines: vec![line] }
    }

    #[test]
    fn each_mark_is_drawn_with_its_words_and_text_is_escaped() {
        let marks = vec![mark(1.0, Shape::Bar), mark(2.0, Shape::PaleBar), mark(1.5, Shape::Tick)];
        let svg = chart(Spread::Linear, marks).to_svg();
        assert_eq!(svg.matches("class=\"dot").count(), 3);
        assert_eq!(svg.matches("<title>says &quot;so&quot;</title>").count(), 3);
        assert!(svg.contains("&lt;a&gt;") && svg.contains("b &amp; c") && !svg.contains("<a>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_bar_is_as_long_as_its_figure() {
        let marks = vec![mark(4.0, Shape::Bar), mark(8.0, Shape::PaleBar)];
        let svg = chart(Spread::Linear, marks).to_svg();
        let width = |class: &str| -> f64 {
            let rest = svg.split(&format!("class=\"{class}\"")).nth(1).unwrap();
            rest.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        assert!((width("dot bar pale") / width("dot bar") - 2.0).abs() < 0.01, "{svg}");
    }

    #[test]
    fn a_chart_without_marks_is_empty() {
        assert_eq!(chart(Spread::Linear, vec![]).to_svg(), "");
        let zero = vec![mark(0.0, Shape::Dot("1"))];
        assert_eq!(chart(Spread::Log, zero).to_svg(), "", "a logarithmic axis has no 0");
    }
}
