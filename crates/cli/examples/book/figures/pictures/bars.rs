//! Groups of bars over an axis of numbers: horizontal [`Bars`], and vertical [`Columns`].
//!
//! ```text
//!      group 1  ▇▇▇▇▇▇▇ 10        a bar for each series
//!               ▆▆▆▆▆▆▆▆▆▆ 15
//!      group 2  …
//!               0    5    10
//!               title (unit)
//! ```

use super::plot::{Scale, Spread, range};
use super::svg::Canvas;

/// A chart of horizontal bars. Each group has one bar for each series.
pub struct Bars<'a> {
    /// The title of the axis, with the unit.
    pub title: &'a str,
    /// The x coordinates of the axis: where all bars begin, and where the longest one may end.
    pub x: (f64, f64),
    /// The CSS class of each series.
    pub classes: &'a [&'a str],
    /// For each group the figures of the series.
    pub groups: Vec<Vec<f64>>,
    /// Formats the figure that is written at the end of its bar.
    pub figure: fn(f64) -> String,
}

pub const BAR: f64 = 15.0;
const GAP: f64 = 12.0;

impl Bars<'_> {
    fn group_height(&self) -> f64 {
        BAR * self.classes.len() as f64 + GAP
    }

    /// The middle of a group.
    pub fn middle(&self, top: f64, group: usize) -> f64 {
        top + self.group_height() * (group as f64 + 0.5) - GAP / 2.0
    }

    /// Draws the bars below `top`; returns the y coordinate of the axis.
    pub fn draw(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let figures = self.groups.iter().flatten().copied().chain([0.0]);
        let ends = range(Spread::Linear, figures).expect("bars have figures");
        let scale = Scale::new(Spread::Linear, ends, self.x);
        let bottom = top + self.group_height() * self.groups.len() as f64 - GAP / 2.0;
        for tick in scale.ticks(5) {
            let x = scale.at(tick);
            canvas.path("grid", &format!("M{x:.1} {:.1}V{bottom:.1}", top - 6.0));
            canvas.text("soft small", (x, bottom + 15.0), "middle", &tick.to_string());
        }
        for (group, figures) in self.groups.iter().enumerate() {
            for (number, (&figure, class)) in figures.iter().zip(self.classes).enumerate() {
                let y = top + self.group_height() * group as f64 + BAR * number as f64;
                let end = scale.at(figure);
                canvas.rect(class, (self.x.0, y), (end - self.x.0, BAR - 1.0));
                let says = (self.figure)(figure);
                canvas.text("small", (end + 5.0, y + 11.0), "start", &says);
            }
        }
        canvas.path("axis", &format!("M{:.1} {bottom:.1}H{:.1}", self.x.0, self.x.1));
        let middle = (self.x.0 + self.x.1) / 2.0;
        canvas.text("soft", (middle, bottom + 32.0), "middle", self.title);
        bottom
    }
}

/// Draws a square of a color and, next to it, what the color means.
pub fn legend(canvas: &mut Canvas, at: (f64, f64), class: &str, says: &str) {
    canvas.rect(class, (at.0, at.1 - 11.0), (12.0, 12.0));
    canvas.text("", (at.0 + 18.0, at.1), "start", says);
}

/// A chart of vertical bars, for histograms. Each group has one column for each series.
pub struct Columns<'a> {
    pub x_title: &'a str,
    pub y_title: &'a str,
    /// Left and right.
    pub x: (f64, f64),
    /// Bottom and top.
    pub y: (f64, f64),
    pub classes: &'a [&'a str],
    pub names: Vec<String>,
    /// For each group the figures of the series.
    pub groups: Vec<Vec<f64>>,
}

impl Columns<'_> {
    fn width(&self) -> f64 {
        (self.x.1 - self.x.0) / self.groups.len() as f64
    }

    /// The middle of a group.
    pub fn middle(&self, group: usize) -> f64 {
        self.x.0 + self.width() * (group as f64 + 0.5)
    }

    pub fn draw(&self, canvas: &mut Canvas) {
        let figures = self.groups.iter().flatten().copied().chain([0.0]);
        let ends = range(Spread::Linear, figures).expect("columns have figures");
        let scale = Scale::new(Spread::Linear, ends, self.y);
        let ((left, right), bottom) = (self.x, self.y.0);
        for tick in scale.ticks(6) {
            let y = scale.at(tick);
            canvas.path("grid", &format!("M{left} {y:.1}H{right}"));
            canvas.text("soft small", (left - 6.0, y + 4.0), "end", &tick.to_string());
        }
        let one = (self.width() - 16.0) / self.classes.len() as f64;
        for (group, (figures, name)) in self.groups.iter().zip(&self.names).enumerate() {
            let from = self.x.0 + self.width() * group as f64 + 8.0;
            for (number, (&figure, class)) in figures.iter().zip(self.classes).enumerate() {
                let (x, top) = (from + one * number as f64, scale.at(figure));
                canvas.rect(class, (x, top), (one - 1.0, bottom - top));
            }
            canvas.text("soft small", (self.middle(group), bottom + 15.0), "middle", name);
        }
        canvas.path("axis", &format!("M{left} {bottom}H{right}"));
        canvas.text("soft", (left - 50.0, self.y.1 - 14.0), "start", self.y_title);
        let middle = (left + right) / 2.0;
        canvas.text("soft", (middle, bottom + 33.0), "middle", self.x_title);
    }
}
