//! The pages: what surrounds a document, a source file, or a page that is already HTML.

use super::markdown::{escaped, render};
use super::{BOOK, CONTENTS, FIRST, PLAYGROUND, file_of, place, up};

/// Without an icon, a browser requests one from the server, which has none.
const NO_ICON: &str = r#"<link rel="icon" href="data:,">"#;

/// The pages before and after a chapter.
#[derive(Default)]
pub struct Neighbours<'a> {
    before: Option<&'a str>,
    after: Option<&'a str>,
}

impl<'a> Neighbours<'a> {
    pub fn of(path: &str, chapters: &'a [String]) -> Neighbours<'a> {
        let chapter = |at: usize| chapters.get(at).map(String::as_str);
        match chapters.iter().position(|chapter| chapter == path) {
            Some(at) => Neighbours {
                before: Some(at.checked_sub(1).and_then(chapter).unwrap_or(FIRST)),
                after: chapter(at + 1),
            },
            None if path == FIRST => Neighbours { before: None, after: chapter(0) },
            None => Neighbours::default(),
        }
    }
}

/// The page of a Markdown document. Adds the files that it links to to `links`.
pub fn document(
    path: &str,
    text: &str,
    neighbours: &Neighbours,
    links: &mut Vec<String>,
) -> Vec<u8> {
    let up = up(path);
    let rendered = render(text, &mut |link| {
        if link.contains("://") || link.starts_with(['#', '?']) || link.starts_with("mailto:") {
            return Some(link.to_string());
        }
        let (file, anchor) = file_of(path, link)?;
        let to = format!("{up}{}{anchor}", place(&file));
        links.push(file);
        Some(to)
    });
    let step = |class: &str, to: Option<&str>, word: &str| {
        let to = to.map(|to| format!("<a class=\"{class}\" href=\"{up}{}\">{word}</a>", place(to)));
        to.unwrap_or_default()
    };
    let before = step("before", neighbours.before, "← Back");
    let after = step("after", neighbours.after, "Next chapter →");
    let content = format!("{}<nav class=\"steps\">{before}{after}</nav>\n", rendered.html);
    surrounded(path, &rendered.title, &content)
}

/// The page of a source file.
pub fn source(path: &str, text: &str) -> Vec<u8> {
    let content = format!("<h1>{path}</h1>\n<pre><code>{}</code></pre>\n", escaped(text));
    surrounded(path, path, &content)
}

fn surrounded(path: &str, title: &str, content: &str) -> Vec<u8> {
    let (up, title) = (up(path), escaped(title));
    let [first, contents, playground] = [FIRST, CONTENTS, PLAYGROUND].map(place);
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
{NO_ICON}
<link rel="stylesheet" href="{up}playground/style.css">
<link rel="stylesheet" href="{up}book.css">
</head>
<body>
<nav aria-label="Book"><a href="{up}{first}">Filters in an LSM tree</a> <a href="{up}{contents}">Contents</a>
  <a href="{up}{playground}">Playground</a></nav>
<main>
{content}</main>
</body>
</html>
"#
    )
    .into_bytes()
}

/// A file that is already in its final form. A page gets an icon, and the pages of the playground
/// get a link to the book, which has no page outside of the site.
pub fn as_it_is(path: &str, content: Vec<u8>) -> Vec<u8> {
    if !path.ends_with(".html") {
        return content;
    }
    let page = String::from_utf8(content).expect("pages are UTF-8");
    let mut page = page.replacen("</title>", &format!("</title>\n{NO_ICON}"), 1);
    if path.starts_with(BOOK) {
        let book = format!("  <a href=\"{}{}\">The book</a></nav>", up(path), place(FIRST));
        page = page.replacen("</nav>", &book, 1);
    }
    page.into_bytes()
}
