//! The commands that the documents tell a reader to run, and those at the heads of source files.
//!
//! - Every `maypole` command has a command line that the program accepts. The test runs the command
//!   with `--help` appended, so that the program parses the options and does nothing.
//! - Every test, example, benchmark, script and file that a command names exists.
//!
//! Commands of dated measurements are not checked, because they are those of the program at that
//! date.
//!
//! The tests do not check whether a command does what the text says, because that would take too
//! long.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::markdown::{files, root};
use super::text::documents;

/// The command that a reader would paste.
struct Pasted {
    /// The file that contains it.
    place: String,
    words: Vec<String>,
}

/// The words of a shell line, up to a comment, a redirection or an operator such as `|`.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '&' | '|' | '>' | ')') => break,
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The commands in a shell text. Each line has one command, or several that `&&` joins. A line that
/// ends with a backslash continues on the next line.
fn of_shell(place: &str, shell: &str) -> Vec<Pasted> {
    let joined = shell.replace("\\\n", " ");
    let parts = joined.lines().flat_map(|line| line.split("&& "));
    parts
        .map(|line| Pasted { place: place.into(), words: words(line.trim_start_matches('(')) })
        .collect()
}

/// The shell blocks in the comments at the head of a source file.
fn in_head(source: &str) -> String {
    let comments = source.lines().map_while(|line| line.strip_prefix("//!"));
    let (mut shell, mut found) = (false, String::new());
    for line in comments.map(str::trim) {
        if let Some(language) = line.strip_prefix("```") {
            shell = language == "sh";
        } else if shell {
            found += &format!("{line}\n");
        }
    }
    found
}

/// All commands: those in the shell blocks of documents and of the heads of source files, and those
/// between backticks in the prose of documents.
fn pasted() -> Vec<Pasted> {
    let mut all = Vec::new();
    for document in documents().into_iter().filter(|document| !document.is_dated()) {
        let name = document.name();
        for fence in document.fences().iter().filter(|fence| fence.language == "sh") {
            all.extend(of_shell(&name, &fence.code));
        }
        for code in document.prose().join("\n").split('`').skip(1).step_by(2) {
            all.extend(of_shell(&name, &code.replace('\n', " ")));
        }
    }
    for folder in ["benches", "crates", "examples", "src", "tests"] {
        for path in files(&root().join(folder), ".rs") {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            all.extend(of_shell(&name, &in_head(&fs::read_to_string(path).unwrap())));
        }
    }
    all
}

impl Pasted {
    /// The words that follow `words` in the command, or `None` if the command does not contain
    /// `words`. Other words, such as variables or `time`, may come before.
    fn after(&self, words: &[&str]) -> Option<&[String]> {
        let at = self.words.windows(words.len()).position(|window| window == words)?;
        Some(&self.words[at + words.len()..])
    }

    /// The target that a command of `cargo` names after this option, such as `--test`.
    fn target(&self, option: &str) -> Option<&str> {
        self.after(&["cargo"])?;
        Some(self.after(&[option])?.first()?)
    }

    fn text(&self) -> String {
        format!("{}: {}", self.place, self.words.join(" "))
    }
}

#[test]
fn maypole_takes_every_command_line_of_the_documents() {
    let mut checked = 0;
    for pasted in pasted() {
        let named = pasted.words.first().is_some_and(|first| first == "maypole");
        let Some(arguments) = pasted.after(&["cargo", "maypole"]).or_else(|| {
            // Without arguments, `maypole` in backticks is no command, but the name of the program.
            pasted.after(&["maypole"]).filter(|after| named && !after.is_empty())
        }) else {
            continue;
        };
        let asked =
            Command::new(env!("CARGO_BIN_EXE_maypole")).args(arguments).arg("--help").output();
        let asked = asked.unwrap();
        let error = String::from_utf8_lossy(&asked.stderr);
        assert!(asked.status.success(), "{}\n{error}", pasted.text());
        checked += 1;
    }
    assert!(checked > 50, "only {checked} commands were found");
}

/// The directories of the packages that `cargo` builds and tests in the root of the repository.
fn packages() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    std::iter::once(root().to_owned()).chain(crates).collect()
}

/// The file or directory in `folder` of a package that is cargo's target `name`.
fn sources(folder: &str, name: &str) -> Option<PathBuf> {
    let folders = packages().into_iter().map(|package| package.join(folder));
    let mut targets =
        folders.flat_map(|folder| [folder.join(format!("{name}.rs")), folder.join(name)]);
    targets.find(|path| path.exists())
}

/// Whether a test or a module of tests in `path` has `part` in its name.
fn has_test(path: &Path, part: &str) -> bool {
    let sources = if path.is_dir() { files(path, ".rs") } else { vec![path.to_owned()] };
    sources.iter().any(|path| {
        let source = fs::read_to_string(path).unwrap();
        let mut names = source.lines().map(str::trim).filter_map(|line| {
            let line = line.strip_prefix("pub ").unwrap_or(line);
            line.strip_prefix("fn ").or_else(|| line.strip_prefix("mod "))
        });
        names.any(|name| name.contains(part))
    })
}

#[test]
fn what_cargo_is_told_to_run_is_there() {
    let mut checked = 0;
    for pasted in pasted() {
        let mut path = None;
        for (option, folder) in
            [("--test", "tests"), ("--example", "examples"), ("--bench", "benches")]
        {
            let Some(name) = pasted.target(option) else { continue };
            path = sources(folder, name);
            assert!(path.is_some(), "there is no {name}: {}", pasted.text());
            checked += 1;
        }
        if pasted.after(&["cargo", "test"]).is_none() {
            continue;
        }
        let own = pasted.words.split(|word| word == "--").next().unwrap();
        let name = own.last().filter(|_| own.len() > 2).filter(|last| {
            let before = &own[own.len() - 2];
            !last.starts_with('-')
                && !["--test", "--profile", "--features", "--package"].contains(&before.as_str())
        });
        let Some(name) = name else { continue };
        let places = match path {
            Some(path) => vec![path],
            None => {
                let is_lib = own.iter().any(|word| word == "--lib");
                let folders: &[&str] = if is_lib { &["src"] } else { &["src", "tests"] };
                let all = packages().into_iter();
                all.flat_map(|package| folders.iter().map(move |name| package.join(name)))
                    .filter(|folder| folder.exists())
                    .collect()
            }
        };
        for part in name.split("::").filter(|part| !part.is_empty()) {
            let found = places.iter().any(|path| has_test(path, part));
            assert!(found, "no test has {part} in its name: {}", pasted.text());
        }
        checked += 1;
    }
    assert!(checked > 50, "only {checked} were found");
}

#[test]
fn scripts_and_files_that_commands_name_are_there() {
    let long = fs::read_to_string(root().join(".ci/long")).unwrap();
    let ours = [".ci/", "benches/", "crates/", "examples/", "fuzz/", "tests/"];
    let mut checked = 0;
    for pasted in pasted() {
        for word in &pasted.words {
            let is_path = ours.iter().any(|folder| word.starts_with(folder));
            if is_path && !word.contains(['…', '*', '{']) {
                assert!(root().join(word).exists(), "there is no {word}: {}", pasted.text());
                checked += 1;
            }
        }
        for part in pasted.after(&[".ci/long"]).unwrap_or_default() {
            let is_part = long.contains(&format!("part_{part}()"));
            assert!(is_part, "{part} is no part: {}", pasted.text());
        }
    }
    assert!(checked > 10, "only {checked} were found");
}
