//! The pictures of the chapters, a file for each. They are drawn from what the library computes,
//! with the drawing code of the command line.

mod band;
mod bars;
mod budget;
mod bumping;
pub mod cliff;
mod dead;
mod falling;
mod filling;
mod rates;
mod uneven;

// The command line's drawing code, which has more than these pictures use.
#[path = "../../../../src/show/plot/mod.rs"]
#[allow(dead_code, unused_imports)]
mod plot;
#[path = "../../../../src/show/svg.rs"]
#[allow(dead_code)]
mod svg;

/// The name of a file in `docs/book/src/img`, and the function that draws it.
pub type Picture = (&'static str, fn() -> String);

/// All pictures, in the order of the book.
pub const PICTURES: &[Picture] = &[
    ("falling.svg", falling::draw),
    ("rate-by-k.svg", rates::probes),
    ("rate-by-bits.svg", rates::bits),
    ("rate-by-keys.svg", rates::overfull),
    ("filling.svg", filling::draw),
    ("uneven.svg", uneven::draw),
    ("band.svg", band::draw),
    ("bumping.svg", bumping::draw),
    ("cliff.svg", cliff::draw),
    ("budget.svg", budget::draw),
    ("dead.svg", dead::draw),
];

/// The SVG file of a plot, about as wide as the other pictures. The file has a margin, because
/// labels extend a little beyond the plot if the viewer's font is wide.
fn plot_file(plot: &plot::Plot) -> String {
    const MARGIN: f64 = 10.0;
    let size = (plot::WIDTH + 2.0 * MARGIN, plot::HEIGHT);
    svg::file(&plot.title, size, 1.5, &plot.to_svg())
}
