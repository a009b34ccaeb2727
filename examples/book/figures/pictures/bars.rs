//! Groups of bars over an axis of numbers.
//!
//! ```text
//! title (unit)
//!      group 1  ▇▇▇▇▇▇▇ 10        a bar for each series
//!               ▆▆▆▆▆▆▆▆▆▆ 15
//!      group 2  …
//!               0    5    10
//! ```

use super::plot::{Scale, Spread, range};
use super::svg::Canvas;

/// The bars of several series, group by group.
pub struct Bars<'a> {
    /// Of the axis, with the unit.
    pub title: &'a str,
    /// Where the bars begin and where the longest may end.
    pub x: (f64, f64),
    /// The classes of the series.
    pub classes: &'a [&'a str],
    /// For each group the figures of the series.
    pub groups: Vec<Vec<f64>>,
    /// How a figure is written at its bar.
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

    /// Draws the bars below `top`; returns where the axis is.
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

/// A square of a color, and what it means.
pub fn legend(canvas: &mut Canvas, at: (f64, f64), class: &str, says: &str) {
    canvas.rect(class, (at.0, at.1 - 11.0), (12.0, 12.0));
    canvas.text("", (at.0 + 18.0, at.1), "start", says);
}
