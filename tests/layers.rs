//! Layers import only downward. This test reads the `crate::` paths of every source file and fails
//! on one that points up, so that a line of code knows its room.
//!
//! ```text
//! 4  db/
//! 3  compaction/   version/   filter_policy   annotate/
//! 2  table/   memtable/   wal/
//! 1  fs/   cache/
//! 0  filter/ (imports memory/ and nothing else)   cursor/   memory/   encoding/   sync/   stats/
//!    range_tombstones   slice   error
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const LAYERS: &[(&str, u32)] = &[
    ("memory", 0),
    ("encoding", 0),
    ("sync", 0),
    ("slice", 0),
    ("stats", 0),
    ("error", 0),
    ("range_tombstones", 0),
    ("cursor", 0),
    ("filter", 0),
    ("fs", 1),
    ("cache", 1),
    ("table", 2),
    ("memtable", 2),
    ("wal", 2),
    ("filter_policy", 3),
    ("annotate", 3),
    ("version", 3),
    ("compaction", 3),
    ("db", 4),
];

fn layer(module: &str) -> Option<u32> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|&(_, layer)| layer)
}

fn source_files(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// The first path segments after every `crate::` of a source text, comments left out.
fn imports(text: &str) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with("$") {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        // `use crate::{a::b, c}` names several.
        let names: Vec<&str> = match rest.strip_prefix('{') {
            None => vec![rest],
            Some(list) => {
                let mut depth = 0;
                let mut starts = vec![0];
                for (i, character) in list.char_indices() {
                    match character {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => starts.push(i + 1),
                        _ => {}
                    }
                }
                starts.into_iter().map(|start| list[start..].trim_start()).collect()
            }
        };
        for name in names {
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            if end > 0 {
                found.insert(name[..end].to_string());
            }
        }
    }
    found
}

#[test]
fn no_module_imports_upward() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    source_files(&source, &mut files);
    assert!(files.len() > 20, "the source files were not found");
    let mut upward = Vec::new();
    for path in files {
        let relative = path.strip_prefix(&source).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        // Tests may reach for anything to test with.
        let is_test = path.file_name().is_some_and(|name| name == "tests.rs");
        if is_test || matches!(module, "lib" | "bin" | "fuzzing") {
            continue;
        }
        let own = layer(module).unwrap_or_else(|| panic!("{module} has no layer: add it"));
        for import in imports(&fs::read_to_string(&path).unwrap()) {
            // Items that lib.rs re-exports are macros and types, not modules.
            let Some(imported) = layer(&import) else { continue };
            let allowed = match module {
                "filter" => matches!(import.as_str(), "filter" | "memory"),
                _ => imported <= own,
            };
            if !allowed {
                upward.push(format!("{} imports crate::{import}", relative.display()));
            }
        }
    }
    assert!(upward.is_empty(), "upward imports:\n{}", upward.join("\n"));
}

#[test]
fn the_command_line_uses_the_public_api_only() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/maypole");
    let mut files = Vec::new();
    source_files(&directory, &mut files);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("#[path"), "{} reaches into the library", path.display());
    }
}

#[test]
fn imports_are_found_in_every_form() {
    let text =
        "use crate::a::b; use crate::{c, d::{e, f}, g}; // crate::no\n let x = crate::h::i();";
    let names: Vec<_> = imports(text).into_iter().collect();
    assert_eq!(names, ["a", "c", "d", "g", "h"]);
}

/// How often the word `unsafe` stands in a source text, comments left out.
fn unsafe_words(text: &str) -> usize {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    code.flat_map(|line| line.split(|c| !is_word(c))).filter(|word| *word == "unsafe").count()
}

#[test]
fn every_unsafe_line_is_in_the_list_of_proofs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    source_files(&root.join("src"), &mut files);
    let mut found: Vec<(String, usize)> = files
        .iter()
        .map(|path| {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_string();
            (name, unsafe_words(&fs::read_to_string(path).unwrap()))
        })
        .filter(|(_, words)| *words > 0)
        .collect();
    found.sort();
    let document = fs::read_to_string(root.join("docs/unsafe.md")).unwrap();
    let listed: Vec<(String, usize)> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `src/"))
        .map(|row| {
            let mut cells = row.split('|').map(str::trim);
            let name = format!("src/{}", cells.next().unwrap().trim_end_matches('`'));
            let words = cells.next().unwrap().parse().unwrap();
            assert!(cells.all(|cell| cell.len() > 10 || cell.is_empty()), "{name} has no proof");
            (name, words)
        })
        .collect();
    assert_eq!(listed, found, "docs/unsafe.md (left) is not what the source has (right)");
}

#[test]
fn unsafe_words_are_counted_outside_of_comments() {
    let text = "unsafe { f() } // unsafe\n/// unsafe\nunsafe_op(); let x = unsafe{y};";
    assert_eq!(unsafe_words(text), 2);
}
