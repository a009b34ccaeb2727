//! Links, width, shape and quotations of the documents.

use std::fs;

use super::course;
use super::markdown::{Document, chapters, files, links, read, root};

/// How many words a chapter may have. Code and comments are not counted.
const WORDS: std::ops::RangeInclusive<usize> = 600..=1350;

/// How many words all chapters may have together, with code and figures.
const WORDS_OF_ALL: usize = 28_000;

/// How many words a document for users may have outside of tables, and the README in all.
const WORDS_OF_DOCUMENT: usize = 2_500;
const WORDS_OF_README: usize = 1_200;

/// How many words all documents may have together, with tables and code.
const WORDS_OF_DOCUMENTS: usize = 26_000;

/// The most columns of a line of prose, as in the comments of the source.
const WIDTH: usize = 100;

/// All documents: those that must be up to date, and those that are history (`CHANGELOG.md` and the
/// dated measurements).
pub fn documents() -> Vec<Document> {
    let mut paths = files(&root().join("docs"), ".md");
    paths.extend(
        ["README.md", "CHANGELOG.md", "crates/filter/README.md", "src/unsafe.md"]
            .map(|name| root().join(name)),
    );
    paths.extend(files(&course::directory(), ".md"));
    paths.into_iter().map(read).collect()
}

/// Whether the line cannot be wrapped, because it is a row of a table, a single link, a single
/// picture, or a picture that is a link.
fn is_one_piece(line: &str) -> bool {
    let line = line.trim();
    let to = links(line);
    let ends_with_link = |to: &String| line.ends_with(&format!("]({to})"));
    let parts = if line.starts_with("[![") { 2 } else { 1 };
    let is_link =
        line.starts_with(['[', '!']) && to.len() == parts && to.last().is_some_and(ends_with_link);
    line.starts_with('|') || is_link
}

#[test]
fn prose_is_as_narrow_as_the_source() {
    for document in documents() {
        for line in document.prose().into_iter().filter(|line| !is_one_piece(line)) {
            let columns = line.chars().count();
            assert!(columns <= WIDTH, "{}: {columns} columns: {line}", document.name());
        }
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    for document in documents() {
        for link in links(&document.prose().join("\n")) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = match file {
                "" => document.path.clone(),
                file => document.path.parent().unwrap().join(file),
            };
            assert!(path.exists(), "{}: no file for the link {link}", document.name());
            if path.extension().is_some_and(|extension| extension == "html") {
                let page = fs::read_to_string(&path).unwrap();
                let found = anchor.is_empty() || page.contains(&format!("id=\"{anchor}\""));
                assert!(found, "{}: no element for the link {link}", document.name());
            } else if !anchor.is_empty() {
                let found = read(path).anchors().iter().any(|there| there == anchor);
                assert!(found, "{}: no heading for the link {link}", document.name());
            }
        }
    }
}

#[test]
fn every_chapter_is_in_the_table_of_contents() {
    let listed = chapters();
    let written = files(&root().join("docs/book/src"), ".md");
    assert_eq!(listed.len() + 1, written.len(), "chapters and the SUMMARY");
    for path in written {
        let is_listed = listed.iter().any(|chapter| chapter.path == path);
        assert!(is_listed || path.ends_with("SUMMARY.md"), "{} is not listed", path.display());
    }
}

#[test]
fn every_chapter_has_its_length_and_ends_with_three_questions_and_answers() {
    for chapter in chapters() {
        let name = chapter.name();
        let prose = chapter.prose();
        let words: usize = prose
            .iter()
            .filter(|line| !line.starts_with("<!--"))
            .map(|line| line.split_whitespace().count())
            .sum();
        assert!(WORDS.contains(&words), "{name} has {words} words");

        let titles = prose.iter().filter(|line| line.starts_with("# ")).count();
        assert_eq!(titles, 1, "{name}: one title");
        let end = |title: &str| prose.iter().rposition(|line| *line == title);
        let questions = end("## Three questions").unwrap_or_else(|| panic!("{name}: no questions"));
        let answers = end("### Answers").unwrap_or_else(|| panic!("{name}: no answers"));
        assert!(questions < answers, "{name}: questions, then answers");
        let numbered = |lines: &[&str]| {
            let starts = |n: u32| lines.iter().filter(|l| l.starts_with(&format!("{n}. "))).count();
            [1, 2, 3, 4].map(starts)
        };
        assert_eq!(numbered(&prose[questions..answers]), [1, 1, 1, 0], "{name}: questions");
        assert_eq!(numbered(&prose[answers..]), [1, 1, 1, 0], "{name}: answers");
        let later = prose[answers + 1..].iter().any(|line| line.starts_with('#'));
        assert!(!later, "{name}: something follows the answers");
    }
}

#[test]
fn the_book_stays_short() {
    let words: usize = chapters().iter().map(|c| c.text.split_whitespace().count()).sum();
    assert!(words <= WORDS_OF_ALL, "{words} words");
}

/// The documents in `docs` but for the book, the dated measurements, and the description of the
/// format, which is as long as the format.
#[test]
fn documents_stay_short() {
    let count = |text: &str| text.split_whitespace().count();
    let mut all = 0;
    for path in files(&root().join("docs"), ".md") {
        let document = read(path);
        let in_book = document.path.starts_with(root().join("docs/book"));
        if in_book || document.is_dated() || document.path.ends_with("format.md") {
            continue;
        }
        all += count(&document.text);
        let outside = document.text.lines().filter(|line| !line.trim_start().starts_with('|'));
        let outside: usize = outside.map(count).sum();
        // The map of the source is for those who change it.
        let is_map = document.path.ends_with("architecture.md");
        assert!(outside <= WORDS_OF_DOCUMENT || is_map, "{}: {outside} words", document.name());
    }
    assert!((10_000..=WORDS_OF_DOCUMENTS).contains(&all), "all documents have {all} words");
    let readme = count(&read(root().join("README.md")).text);
    assert!(readme <= WORDS_OF_README, "README.md has {readme} words");
}

#[test]
fn every_chapter_begins_with_what_to_know_before_and_what_to_try() {
    for chapter in chapters() {
        let first = chapter.text.split("\n\n").nth(1).unwrap();
        let says = first.starts_with("*Before:* ") && first.contains("*Try:*");
        assert!(says, "{}: {first}", chapter.name());
    }
    let first = read(root().join("docs/book/README.md"));
    let rows = first.text.lines().filter(|line| line.starts_with("| ["));
    let ways: Vec<usize> = rows.map(|row| links(row).len()).collect();
    assert_eq!(ways, [3; 5], "three ways of five chapters");
}

#[test]
fn code_is_what_stands_in_the_file_that_it_is_from() {
    let mut checked = 0;
    for chapter in chapters() {
        for fence in chapter.fences() {
            let Some(from) = fence.comment.as_deref().and_then(|c| c.strip_prefix("from ")) else {
                assert_ne!(fence.language, "rust", "{}: Rust from nowhere", chapter.name());
                continue;
            };
            let path = root().join(from);
            assert!(path.exists(), "{}: no {from}", chapter.name());
            let paths = if path.is_dir() { files(&path, ".rs") } else { vec![path] };
            let found =
                paths.iter().any(|path| fs::read_to_string(path).unwrap().contains(&fence.code));
            assert!(found, "{}: not in {from} any more:\n{}", chapter.name(), fence.code);
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} pieces of code are from a file");
}

#[test]
fn files_that_chapters_name_exist() {
    for chapter in chapters() {
        let prose = chapter.prose().join("\n");
        for named in prose.split('`').skip(1).step_by(2) {
            let is_path = ["src/", "crates/", "docs/", "tests/", "examples/", "benches/"]
                .iter()
                .any(|folder| named.starts_with(folder));
            if is_path && !named.contains([' ', '…', '*']) {
                assert!(root().join(named).exists(), "{}: no {named}", chapter.name());
            }
        }
    }
}
