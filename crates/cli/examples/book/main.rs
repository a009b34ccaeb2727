//! Prints the figures of the book in `docs/book`, and writes the book as static pages.
//!
//! ```sh
//! cargo run --example book                  # the names of all figures
//! cargo run --example book -- hand ribbon   # these figures
//! cargo run --example book -- all           # all of them
//! cargo run --example book -- pictures out  # the pictures, as SVG files in the directory "out"
//! cargo run --example book -- site out      # the book and the playground, as static pages
//! ```
//!
//! The figures do not change from run to run, because everything is counted, nothing is timed, and
//! the keys are always the same. The exceptions are figures that depend on what a cache evicts.
//! `crates/cli/tests/book` compares every figure in the text with the output of this program, and
//! allows the exceptions a small difference.

mod figures;
mod site;

use figures::pictures::PICTURES;
use figures::{FIGURES, Figure, NEARLY_SAME};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => all().for_each(|(name, _)| println!("{name}")),
        [pictures, directory] if pictures == "pictures" => {
            std::fs::create_dir_all(directory)?;
            for (name, draw) in PICTURES {
                std::fs::write(std::path::Path::new(directory).join(name), draw())?;
            }
        }
        [site, directory] if site == "site" => {
            let pages = site::write(directory.as_ref())?;
            println!("{pages} pages. The first is {directory}/index.html");
        }
        names => {
            let is_figure = |asked: &&String| all().any(|(name, _)| asked == name);
            if let Some(unknown) = names.iter().find(|name| *name != "all" && !is_figure(name)) {
                return Err(std::io::Error::other(format!(
                    "no figure {unknown}: call me without a name"
                )));
            }
            for (name, figure) in all() {
                if names.iter().any(|asked| asked == name || asked == "all") {
                    println!("# {name}\n{}", figure());
                }
            }
        }
    }
    Ok(())
}

fn all() -> impl Iterator<Item = &'static Figure> {
    FIGURES.iter().chain(NEARLY_SAME)
}
