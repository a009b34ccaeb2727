//! Prints the figures of the book in `docs/book`.
//!
//! ```text
//! cargo run --example book               the names of all figures
//! cargo run --example book -- NAME …     these figures
//! cargo run --example book -- all        all of them
//! cargo run --example book -- plots DIR  the plots, as SVG files in DIR
//! ```
//!
//! Everything is counted, nothing is timed, and the keys are always the same: a figure never
//! changes. `tests/book` holds every figure in the text against what is printed here.

mod figures;

use figures::{FIGURES, plots};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => FIGURES.iter().for_each(|(name, _)| println!("{name}")),
        [plots, directory] if plots == "plots" => {
            for (name, svg) in plots::all() {
                std::fs::write(std::path::Path::new(directory).join(name), svg)?;
            }
        }
        names => {
            for (name, figure) in FIGURES {
                if names.iter().any(|asked| asked == name || asked == "all") {
                    println!("# {name}\n{}", figure());
                }
            }
        }
    }
    Ok(())
}
