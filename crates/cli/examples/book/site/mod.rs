//! Writes the book, the playground, and every file of the repository that they link to as one folder
//! of static pages. The pages load nothing from elsewhere and link to each other by relative paths,
//! so any web server can serve the folder, and a browser can open it from disk.
//!
//! ```text
//! docs/book/README.md          index.html                the first page
//! docs/book/src/SUMMARY.md     contents.html
//! docs/book/src/NAME.md        NAME.html                 a chapter
//! docs/book/src/NAME           NAME                      the playground and the pictures
//! FOLDER/NAME.md               FOLDER/NAME.html          another document
//! FOLDER/NAME.rs               FOLDER/NAME.rs.html       source
//! ```
//!
//! A `README.md` becomes the `index.html` of its folder.

pub mod markdown;
mod page;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use page::Neighbours;

const FIRST: &str = "docs/book/README.md";
const CONTENTS: &str = "docs/book/src/SUMMARY.md";
const BOOK: &str = "docs/book/src/";
const PLAYGROUND: &str = "docs/book/src/playground/index.html";
/// Files that a browser shows or loads as they are.
const AS_THEY_ARE: [&str; 7] = ["html", "svg", "css", "js", "csv", "json", "png"];

/// Writes the site to the directory `to`, and returns the number of its pages.
pub fn write(to: &Path) -> io::Result<usize> {
    fs::create_dir_all(to)?;
    fs::write(to.join("book.css"), include_str!("book.css"))?;
    let chapters = chapters()?;
    let mut waiting = vec![FIRST.to_string(), CONTENTS.to_string(), PLAYGROUND.to_string()];
    waiting.extend(chapters.iter().cloned());
    let mut known: BTreeSet<String> = waiting.iter().cloned().collect();
    let mut pages = 0;
    while let Some(path) = waiting.pop() {
        let mut links = Vec::new();
        pages += usize::from(place(&path).ends_with(".html"));
        match extension(&path) {
            "md" => {
                let text = fs::read_to_string(root().join(&path))?;
                let neighbours = Neighbours::of(&path, &chapters);
                save(to, &path, &page::document(&path, &text, &neighbours, &mut links))?;
            }
            // A page brings its whole folder: its scripts and styles, or its data.
            "html" => links.extend(files_beside(&path)?),
            _ => {}
        }
        if AS_THEY_ARE.contains(&extension(&path)) {
            save(to, &path, &page::as_it_is(&path, fs::read(root().join(&path))?))?;
        } else if extension(&path) != "md" {
            let text = fs::read_to_string(root().join(&path))?;
            save(to, &path, &page::source(&path, &text))?;
        }
        waiting.extend(links.into_iter().filter(|link| known.insert(link.clone())));
    }
    Ok(pages)
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/cli is two deep")
}

/// The chapters in the order of the table of contents, as paths from the root of the repository.
fn chapters() -> io::Result<Vec<String>> {
    let text = fs::read_to_string(root().join(CONTENTS))?;
    let mut links = Vec::new();
    markdown::render(&text, &mut |link| {
        links.extend(file_of(CONTENTS, link).map(|(path, _)| path));
        None
    });
    Ok(links)
}

fn files_beside(path: &str) -> io::Result<Vec<String>> {
    let folder = &path[..path.rfind('/').map_or(0, |end| end + 1)];
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(folder))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(format!("{folder}{}", entry.file_name().to_string_lossy()));
        }
    }
    Ok(files)
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

/// The place in the site of a file of the repository.
fn place(path: &str) -> String {
    let path = match path {
        FIRST => "README.md",
        CONTENTS => "contents.md",
        path => path.strip_prefix(BOOK).unwrap_or(path),
    };
    match path.strip_suffix(".md") {
        Some(name) => format!("{}.html", name.replace("README", "index")),
        None if AS_THEY_ARE.contains(&extension(path)) => path.to_string(),
        None => format!("{path}.html"),
    }
}

/// The way from the page of `path` to the root of the site: empty, or `../` for each folder.
fn up(path: &str) -> String {
    "../".repeat(place(path).matches('/').count())
}

/// The file that a relative link in the file `from` leads to, and its anchor with the `#`. `None` if
/// it leads out of the repository or to no file.
fn file_of(from: &str, link: &str) -> Option<(String, String)> {
    let (file, anchor) = link.split_at(link.find('#').unwrap_or(link.len()));
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            ".." => _ = parts.pop()?,
            "." => {}
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    root().join(&path).is_file().then(|| (path, anchor.to_string()))
}

/// Writes the page of the file `path`.
fn save(to: &Path, path: &str, content: &[u8]) -> io::Result<()> {
    let file: PathBuf = to.join(place(path));
    fs::create_dir_all(file.parent().expect("it has a folder"))?;
    fs::write(file, content)
}
