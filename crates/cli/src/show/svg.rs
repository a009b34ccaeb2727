//! What all drawings share: escaped text, elements, and a file that is light or dark as the viewer
//! prefers and needs no scripts, fonts or external resources.
//!
//! This module depends on no other, because the pictures of the book are drawn with it too
//! (`crates/cli/examples/book/figures`).

use std::fmt::Write;

/// Colors are literal values, because not every viewer supports CSS variables. `c0` to `c7` are the
/// colors of series, numbered as on pages.
const STYLE: &str = "\
text { font: 13px system-ui, 'Liberation Sans', sans-serif; fill: #1d2430; }
.paper { fill: #fdfdfb; }
.title { font-size: 16px; font-weight: 600; }
.name { font-weight: 600; }
.small { font-size: 11px; }
.soft { fill: #5b6472; }
.mark { fill: #2563a8; }
.sum { fill: #b5560a; }
.good { fill: #1c7853; }
.pale { fill: #dfe2e6; }
path.theory { stroke: #b5560a; stroke-width: 2; fill: none; }
.line, .grid, .lead { stroke: #dfe2e6; fill: none; }
.axis { stroke: #5b6472; fill: none; }
.c0 { color: #69717d; } .c1 { color: #2563a8; } .c2 { color: #b5560a; } .c3 { color: #1c7853; }
.c4 { color: #7a4fa3; } .c5 { color: #b03659; } .c6 { color: #0d7583; } .c7 { color: #77660f; }
.plot { overflow: visible; }
.plot text { font-size: 11.5px; fill: #5b6472; }
.plot .name { font-size: 12px; fill: currentColor; }
.plot .name.theory { font-weight: 400; font-style: italic; }
.curve, .interval { fill: none; stroke: currentColor; }
.curve { stroke-width: 1.8; stroke-linejoin: round; }
.curve.theory { stroke: currentColor; stroke-dasharray: 4 3; stroke-width: 1.2; }
.dot, .fill { fill: currentColor; }
.hit { fill: transparent; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ed; }
  .paper { fill: #14181d; }
  .soft, .plot text { fill: #9ca6b3; }
  .plot .name { fill: currentColor; }
  .mark { fill: #71abe8; }
  .sum { fill: #e99a5f; }
  .good { fill: #5fc497; }
  .pale { fill: #323a44; }
  path.theory { stroke: #e99a5f; }
  .curve.theory { stroke: currentColor; }
  .line, .grid, .lead { stroke: #323a44; }
  .axis { stroke: #9ca6b3; }
  .c0 { color: #9aa4b1; } .c1 { color: #71abe8; } .c2 { color: #e99a5f; } .c3 { color: #5fc497; }
  .c4 { color: #b998e2; } .c5 { color: #ee8da8; } .c6 { color: #62c5d1; } .c7 { color: #cdbc60; }
}
";

/// Escapes text that stands between tags or inside quoted attributes.
pub fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// A file with `body`, which is drawn in `width` × `height` units and shown `scale` times as large.
pub fn file(title: &str, (width, height): (f64, f64), scale: f64, body: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" \
         width=\"{:.0}\" height=\"{:.0}\" role=\"img\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n",
        width * scale,
        height * scale,
    )
}

/// The elements of a drawing, in the order in which they were added. Classes are those of the style
/// above or, on a page, of the page's style sheet.
#[derive(Default)]
pub struct Canvas {
    pub body: String,
}

impl Canvas {
    /// `anchor`: which end of the text is at `x`: `start`, `middle` or `end`.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/>"
        );
    }

    pub fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let _ = writeln!(
            self.body,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"
        );
    }

    /// A path in units of `scale`, with its origin at `x`, `y`.
    pub fn scaled_path(&mut self, class: &str, (x, y): (f64, f64), scale: f64, path: &str) {
        let _ = writeln!(
            self.body,
            "<path class=\"{class}\" transform=\"translate({x:.1} {y:.1}) scale({scale})\" d=\"{path}\"/>"
        );
    }

    pub fn path(&mut self, class: &str, path: &str) {
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{path}\"/>");
    }
}
