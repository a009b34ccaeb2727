//! The part of Markdown that the documents use.

use std::fs;
use std::path::{Path, PathBuf};

use super::site::markdown::anchor;

/// A Markdown file.
pub struct Document {
    pub path: PathBuf,
    pub text: String,
}

/// A fenced block, and the comment on the line before it, if there is one.
pub struct Fence {
    pub language: String,
    pub code: String,
    pub comment: Option<String>,
}

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

pub fn read(path: PathBuf) -> Document {
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Document { path, text }
}

/// The files below `directory` whose names end with `ending`. Directories named `target`, in which
/// cargo builds, are left out.
pub fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The book's chapters in the order of its table of contents.
pub fn chapters() -> Vec<Document> {
    let book = root().join("docs/book/src");
    let summary = read(book.join("SUMMARY.md"));
    let chapters = links(&summary.text);
    chapters.iter().map(|chapter| read(book.join(chapter))).collect()
}

impl Document {
    /// The document's path from the root of the repository, for messages.
    pub fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }

    /// Whether this is a dated measurement, which stays as it was at its date.
    pub fn is_dated(&self) -> bool {
        self.path.starts_with(root().join("docs/measurements"))
    }

    /// The lines outside of fenced blocks.
    pub fn prose(&self) -> Vec<&str> {
        let mut fenced = false;
        let mut lines = Vec::new();
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if !fenced {
                lines.push(line);
            }
        }
        assert!(!fenced, "{}: a fenced block has no end", self.name());
        lines
    }

    pub fn fences(&self) -> Vec<Fence> {
        let mut fences: Vec<Fence> = Vec::new();
        let (mut open, mut before) = (false, "");
        for line in self.text.lines() {
            match (line.strip_prefix("```"), open) {
                (Some(language), false) => {
                    let comment = before.strip_prefix("<!-- ").and_then(|c| c.strip_suffix(" -->"));
                    let (language, comment) = (language.to_string(), comment.map(String::from));
                    fences.push(Fence { language, code: String::new(), comment });
                    open = true;
                }
                (Some(_), true) => open = false,
                (None, true) => {
                    let code = &mut fences.last_mut().unwrap().code;
                    code.push_str(line);
                    code.push('\n');
                }
                (None, false) => before = line,
            }
        }
        fences
    }

    /// The anchors of the headings, as GitHub makes them from the titles.
    pub fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for line in self.prose() {
            let title = line.trim_start_matches('#');
            if title.len() == line.len() || !title.starts_with(' ') {
                continue;
            }
            anchors.push(anchor(title, &anchors));
        }
        anchors
    }
}

/// The targets of the links in `text`. Code between backticks has no links.
pub fn links(text: &str) -> Vec<String> {
    let outside: String = text.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let ends = outside.match_indices("](").map(|(at, _)| &outside[at + 2..]);
    ends.filter_map(|rest| Some(rest[..rest.find(')')?].to_string())).collect()
}
