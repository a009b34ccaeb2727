//! The figures.

use super::figures::{FIGURES, plots};
use super::markdown::{chapters, root};

const COMMAND: &str = "printed by: cargo run --example book -- ";

#[test]
fn every_figure_is_what_the_program_prints() {
    let mut shown = Vec::new();
    for chapter in chapters() {
        for fence in chapter.fences() {
            let Some(name) = fence.comment.as_deref().and_then(|c| c.strip_prefix(COMMAND)) else {
                continue;
            };
            let figure = FIGURES.iter().find(|(known, _)| *known == name);
            let (_, print) = figure.unwrap_or_else(|| panic!("no figure {name}"));
            assert_eq!(fence.code, print(), "{}: figure {name}", chapter.name());
            shown.push(name.to_string());
        }
    }
    for (name, _) in FIGURES {
        assert!(shown.iter().any(|there| there == name), "no chapter shows {name}");
    }
}

#[test]
fn every_plot_is_what_the_program_draws() {
    for (name, svg) in plots::all() {
        let stored = std::fs::read_to_string(root().join("docs/book/src/img").join(name)).unwrap();
        assert!(stored == svg, "{name}: cargo run --example book -- plots docs/book/src/img");
    }
}
