//! Compares the figures and pictures of the book with what the programs print and draw.

use super::figures::pictures::{PICTURES, cliff};
use super::figures::{FIGURES, NEARLY_SAME};
use super::markdown::{chapters, root};

const COMMAND: &str = "printed by: cargo run --example book -- ";

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
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
        let times = shown.iter().filter(|there| *there == name).count();
        assert_eq!(times, 1, "chapters that show {name}");
    }
}

/// The figures in [`NEARLY_SAME`] depend on what the cache evicts, and this depends a little on the
/// other threads of the process. So they are compared with a tolerance.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn what_parts_save_is_near_what_the_chapter_says() {
    let chapters = chapters();
    for (name, print) in NEARLY_SAME {
        let comment = format!("counted by: cargo run --example book -- {name}");
        let fences = chapters.iter().flat_map(|chapter| chapter.fences());
        let mut shown = fences.filter(|fence| fence.comment.as_ref() == Some(&comment));
        let [shown, counted] = [shown.next().expect(name).code, print()].map(|t| cliff::rows(&t));
        assert_eq!(shown.len(), counted.len(), "{counted:?}");
        for (shown, counted) in shown.iter().zip(&counted) {
            for (shown, counted) in shown.iter().zip(counted) {
                let near = (shown - counted).abs() <= 0.5 + 0.3 * shown;
                assert!(near, "{name}: {counted}, not {shown}");
            }
        }
    }
}

/// Plots that link to no page of the playground, because no page computes their figures.
const STILL: [&str; 2] = ["rate-by-k.svg", "rate-by-keys.svg"];

/// Each picture is what the program draws, and some chapter shows it. There the picture links to
/// the page of the playground on which the reader can change it, unless it is a plot in [`STILL`].
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn every_picture_is_what_the_program_draws() {
    let chapters = chapters();
    let is_shown = |link: &str| chapters.iter().any(|chapter| chapter.text.contains(link));
    for (name, draw) in PICTURES {
        let stored = std::fs::read_to_string(root().join("docs/book/src/img").join(name)).unwrap();
        let command = "cargo run --example book -- pictures docs/book/src/img";
        assert!(stored == draw(), "{name}: {command}");
        let page = if STILL.contains(name) { "" } else { "](playground/" };
        assert!(is_shown(&format!("(img/{name}){page}")), "no chapter shows {name}");
    }
    let stored = super::markdown::files(&root().join("docs/book/src/img"), ".svg");
    assert_eq!(stored.len(), PICTURES.len(), "a stored picture is not drawn");
}

/// Regression: the y axes of plots had no titles. Now both axes of each plot have one. (The titles
/// of bars and columns cannot be missing, because they are fields of `Bars` and `Columns`.)
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn every_axis_of_a_plot_has_a_title() {
    let mut plots = 0;
    for (name, draw) in PICTURES {
        let picture = draw();
        let Some((_, plot)) = picture.split_once("class=\"plot\"") else { continue };
        let titles = plot.split("class=\"label\"").skip(1);
        let titles: Vec<&str> =
            titles.map(|rest| rest.split(['>', '<']).nth(1).unwrap_or_default()).collect();
        assert!(
            titles.len() == 2 && titles.iter().all(|title| title.len() > 3),
            "{name}: {titles:?}"
        );
        plots += 1;
    }
    assert!(plots >= 3, "{plots} plots");
}
