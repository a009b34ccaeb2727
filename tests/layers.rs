//! Rules for the source. Layers import only downward: a `crate::` path in a source file must not
//! name a higher layer. The packages are layers too: the filters use nothing of the store, and the
//! command line uses only the public API. No files of a top-level module import each other in a
//! circle. Every lock has a rank, and what threads share goes through one room. No static has a lock
//! that a forked child may find locked for ever. `src/unsafe.md` counts the uses of `unsafe` in each
//! file, and has their proof. Few files outside of the folder of a filter family name the family. No
//! long test is left out because of the words by which it is ignored.
//!
//! ```text
//! -  crates/cli/
//! 5  db/
//! 4  lookup/
//! 3  compaction/   version/   rocksdb/   filter_policy   annotate/
//! 2  table/   memtable/   wal/
//! 1  fs/   cache/   known_files/
//! 0  cursor/   memory/   encoding/   sync/   stats/   range_tombstones   slice   error
//! -  crates/filter/
//! ```

use std::collections::{BTreeMap, BTreeSet};
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
    ("fs", 1),
    ("cache", 1),
    ("known_files", 1),
    ("table", 2),
    ("memtable", 2),
    ("wal", 2),
    ("filter_policy", 3),
    ("annotate", 3),
    ("version", 3),
    ("rocksdb", 3),
    ("compaction", 3),
    ("lookup", 4),
    ("db", 5),
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

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The source of the store and of the filters.
const LIBRARIES: [&str; 2] = ["src", FILTERS];
const FILTERS: &str = "crates/filter/src";
const COMMAND_LINE: &str = "crates/cli/src";
const PEERS: &str = "benches/peers/src";

/// The source files of these folders, relative to the root of the repository.
fn sources(folders: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    folders.iter().for_each(|folder| source_files(&root().join(folder), &mut files));
    assert!(files.len() > 10, "the source files were not found");
    files.into_iter().map(|file| file.strip_prefix(root()).unwrap().to_owned()).collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

/// The first path segment after each `crate::` in the code of a source text, without its comments.
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
        // `use crate::{a::b, c}` names several modules.
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
    let mut upward = Vec::new();
    for path in sources(&["src"]) {
        let relative = path.strip_prefix("src").unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        // Tests may import anything.
        let is_test = path.iter().any(|part| part == "tests" || part == "tests.rs");
        if is_test || matches!(module, "lib" | "fuzzing") {
            continue;
        }
        let own = layer(module).unwrap_or_else(|| panic!("{module} has no layer: add it"));
        for import in imports(&read(&path)) {
            // A name without a layer is that of a macro or a type that lib.rs re-exports, not of a
            // module.
            if layer(&import).is_some_and(|imported| imported > own) {
                upward.push(format!("{} imports crate::{import}", relative.display()));
            }
        }
    }
    assert!(upward.is_empty(), "upward imports:\n{}", upward.join("\n"));
}

/// The crates of which [`circles`] examines the modules, and the room that a crate is as a whole.
/// The rooms of the others are their top-level modules.
const CRATES: [(&str, Option<&str>); 4] =
    [("src", None), (FILTERS, Some("filter")), (COMMAND_LINE, None), (PEERS, Some("peers"))];

/// A module: the segments of its path from the crate on.
type Module = Vec<String>;

/// The code of a source file, without comments and without the tests at its foot.
fn code_of(text: &str) -> String {
    let text = text.split("\nmod tests {").next().unwrap_or_default();
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default().to_string() + "\n")
        .collect()
}

/// The paths at the start of `text`. A use tree such as `a::{b, c::d}` has several; an expression
/// such as `a::b(` has one.
fn paths_of(text: &str) -> Vec<Module> {
    let text = text.trim_start();
    if let Some(list) = text.strip_prefix('{') {
        let (mut depth, mut start, mut paths) = (0, 0, Vec::new());
        for (i, character) in list.char_indices() {
            match character {
                '}' | ',' if depth == 0 => {
                    paths.extend(paths_of(&list[start..i]));
                    start = i + 1;
                    if character == '}' {
                        break;
                    }
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
        return paths;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return vec![Vec::new()];
    }
    let tails = rest.strip_prefix("::").map_or(vec![Vec::new()], paths_of);
    tails.into_iter().map(|tail| [vec![name.to_string()], tail].concat()).collect()
}

/// Divides code into its re-exports, such as `pub use a::B;`, and all else.
fn re_exports(code: &str) -> (String, String) {
    let (mut exports, mut other) = (String::new(), String::new());
    for statement in code.split_inclusive(';') {
        let start = statement.rfind("\npub").filter(|&start| {
            let is_use = |(visibility, _): (&str, &str)| !visibility[4..].contains([' ', '{']);
            statement[start..].split_once(" use ").is_some_and(is_use)
        });
        let (before, export) = statement.split_at(start.unwrap_or(statement.len()));
        other.push_str(before);
        exports.push_str(export);
    }
    (exports, other)
}

/// The module of the crate's root, and the modules of the crate. And the re-exports: the path of
/// each name, and the path that it leads to.
struct Crate {
    root: Module,
    modules: BTreeSet<Module>,
    exports: BTreeMap<Module, Module>,
}

impl Crate {
    /// The path of the item that `path` names in the code of `own`, without the crate's name. The
    /// module of the item is the longest prefix of its path that is a module.
    fn resolve(
        &self,
        own: &Module,
        path: &[String],
        aliases: &BTreeMap<String, Module>,
    ) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let child = [own, std::slice::from_ref(first)].concat();
        let mut item = match first.as_str() {
            "crate" => self.root.clone(),
            "self" => own.clone(),
            "super" => own[..own.len().checked_sub(1)?].to_vec(),
            _ if self.modules.contains(&child) => child,
            name => aliases.get(name)?.clone(),
        };
        while rest.first().is_some_and(|name| name == "super") {
            item.pop();
            rest = &rest[1..];
        }
        for name in rest {
            item.push(name.clone());
            while let Some(to) = self.exports.get(&item) {
                item = to.clone();
            }
        }
        Some(item)
    }

    fn module_of(&self, mut item: Module) -> Module {
        while !item.is_empty() && !self.modules.contains(&item) {
            item.pop();
        }
        item
    }

    /// The modules that `code`, of the module `own`, names, except `own` itself.
    fn named_modules(&self, own: &Module, code: &str) -> BTreeSet<Module> {
        let paths = paths_in(code);
        // After `use super::bloom`, the name `bloom` alone means a module.
        let mut aliases = BTreeMap::new();
        for path in &paths {
            if let (Some(name), Some(item)) =
                (path.last(), self.resolve(own, path, &BTreeMap::new()))
                && self.modules.contains(&item)
                && item.last() == Some(name)
            {
                aliases.insert(name.clone(), item);
            }
        }
        let items = paths.iter().filter_map(|path| self.resolve(own, path, &aliases));
        let mut named: BTreeSet<Module> = items.map(|item| self.module_of(item)).collect();
        named.remove(own);
        named
    }
}

/// All paths of more than one segment in a source text.
fn paths_in(code: &str) -> Vec<Module> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.');
    code.match_indices("::")
        .filter_map(|(at, _)| {
            let start = code[..at].rfind(|c: char| !c.is_alphanumeric() && c != '_')? + 1;
            // A path is examined at its first `::`, and skipped at later ones. The path of a
            // `pub(in crate::room)` is skipped, because it imports nothing.
            let before = &code[..start];
            let is_start = start < at && !before.ends_with(is_part) && !before.ends_with("(in ");
            is_start.then(|| paths_of(&code[start..]))
        })
        .flatten()
        .collect()
}

/// The imports within a top-level module that are part of a circle.
fn circles(folder: &str, room: Option<&str>) -> Vec<String> {
    let root: Module = room.into_iter().map(str::to_string).collect();
    let mut codes = BTreeMap::new();
    for path in sources(&[folder]) {
        let relative = path.strip_prefix(folder).unwrap().with_extension("");
        let segments = relative.iter().map(|part| part.to_str().unwrap().to_string());
        let mut module: Module = root.iter().cloned().chain(segments).collect();
        if module.iter().any(|part| matches!(part.as_str(), "tests" | "lib" | "main" | "fuzzing")) {
            continue;
        }
        module.pop_if(|name| name == "mod");
        codes.insert(module, re_exports(&code_of(&read(&path))));
    }
    let mut library =
        Crate { root, modules: codes.keys().cloned().collect(), exports: BTreeMap::new() };
    for (own, (exports, _)) in &codes {
        for path in paths_in(exports) {
            let name = [&own[..], &path[path.len() - 1..]].concat();
            let to = library.resolve(own, &path, &BTreeMap::new()).filter(|to| *to != name);
            library.exports.extend(to.map(|to| (name, to)));
        }
    }
    // A re-export is no import: it tells where the item is.
    let graph: BTreeMap<&Module, BTreeSet<Module>> =
        codes.iter().map(|(own, (_, code))| (own, library.named_modules(own, code))).collect();
    // Imports between top-level modules are the business of the layers.
    let imports = |from: &Module| -> Vec<&Module> {
        let named = graph.get(from).into_iter().flatten();
        named.filter(|to| to.first() == from.first()).collect()
    };
    let leads_to = |start: &Module, end: &Module| {
        let (mut reached, mut open) = (BTreeSet::from([start]), vec![start]);
        while let Some(next) = open.pop() {
            open.extend(imports(next).into_iter().filter(|to| reached.insert(to)));
        }
        reached.contains(end)
    };
    let pairs = graph.keys().flat_map(|&from| imports(from).into_iter().map(move |to| (from, to)));
    let circles = pairs.filter(|(from, to)| leads_to(to, from));
    circles.map(|(from, to)| format!("{} imports {}", from.join("/"), to.join("/"))).collect()
}

/// A reader can start with the files that import none of the others.
#[test]
fn no_files_of_a_room_import_each_other_in_a_circle() {
    for (folder, room) in CRATES {
        let found = circles(folder, room);
        assert!(found.is_empty(), "a circle in {folder}:\n{}", found.join("\n"));
    }
}

#[test]
fn paths_lead_to_the_modules_they_name() {
    let module = |path: &str| path.split('/').map(str::to_string).collect::<Module>();
    let library = Crate {
        root: Vec::new(),
        modules: ["a", "a/b", "a/b/c", "a/d", "e", "h", "h/i"].into_iter().map(module).collect(),
        exports: BTreeMap::from([(module("h/J"), module("h/i/J"))]),
    };
    let code = "use super::{d::X, b}; use crate::e::{self, f::G}; fn g() { c::h(); d::no(); crate::h::J() }";
    let named = library.named_modules(&module("a/b"), code);
    let named: Vec<String> = named.into_iter().map(|module| module.join("/")).collect();
    assert_eq!(named, ["a/b/c", "a/d", "e", "h/i"]);
}

#[test]
fn re_exports_are_no_imports() {
    let code = "use a::B;\npub fn f() { use c::d }\npub use e::{F, G};\npub(crate) use h::I;\npub struct J;";
    let (exports, other) = re_exports(code);
    assert_eq!(exports, "\npub use e::{F, G};\npub(crate) use h::I;");
    assert_eq!(other, "use a::B;\npub fn f() { use c::d }\npub struct J;");
}

#[test]
fn the_command_line_uses_the_public_api_only() {
    for path in sources(&[COMMAND_LINE]) {
        assert!(!read(&path).contains("#[path"), "{} reaches into the library", path.display());
    }
}

/// Whoever uses the filters alone compiles two small packages beside them.
#[test]
fn the_filters_use_nothing_of_the_store() {
    let manifest = read(Path::new("crates/filter/Cargo.toml"));
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
    let dependencies = dependencies.split("\n\n").next().unwrap();
    let names: Vec<&str> = dependencies
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["byteorder", "libm"]);
    for path in sources(&[FILTERS]) {
        assert!(!read(&path).contains("#[path"), "{} reaches into the store", path.display());
    }
}

#[test]
fn imports_are_found_in_every_form() {
    let text =
        "use crate::a::b; use crate::{c, d::{e, f}, g}; // crate::no\n let x = crate::h::i();";
    let names: Vec<_> = imports(text).into_iter().collect();
    assert_eq!(names, ["a", "c", "d", "g", "h"]);
}

/// The locks of other crates that a source text names.
fn locks_without_rank(code: &str) -> Vec<&str> {
    let locks = ["Mutex", "MutexGuard", "Condvar", "RwLock", "ReentrantLock"];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for library in ["std::sync::", "loom::sync::", "parking_lot::"] {
        for rest in code.split(library).skip(1) {
            let list = rest.strip_prefix('{').and_then(|list| list.split('}').next());
            let path = rest.split(|c| !is_word(c) && c != ':').next();
            let names = list.or(path).unwrap_or_default().split(|c| !is_word(c));
            found.extend(names.filter(|name| locks.contains(name)));
        }
    }
    found
}

/// Debug builds check the order of the locks, which `src/sync/rank.rs` lists. They can check only
/// locks that have a rank: those of `src/sync/mutex.rs`.
#[test]
fn every_lock_of_the_library_has_a_rank() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    source_files(&source, &mut files);
    let mut found = Vec::new();
    for path in files {
        let relative = path.strip_prefix(&source).unwrap();
        let is_other = |part: &str| matches!(part, "bin" | "fuzzing" | "tests" | "tests.rs");
        // The reference memtable is part of the tests.
        let is_excepted =
            ["sync/mutex.rs", "sync/schedules.rs", "sync/world.rs", "memtable/reference.rs"]
                .map(Path::new);
        if is_excepted.contains(&relative)
            || relative.iter().any(|part| is_other(part.to_str().unwrap()))
        {
            continue;
        }
        let code = code_of(&fs::read_to_string(&path).unwrap());
        let locks = locks_without_rank(&code);
        found.extend(locks.into_iter().map(|lock| format!("{}: {lock}", relative.display())));
    }
    assert!(found.is_empty(), "use the locks of crate::sync:\n{}", found.join("\n"));
}

#[test]
fn locks_without_rank_are_found_in_every_form() {
    let code = "use std::sync::{Arc, Mutex, mpsc};\nuse crate::sync::Mutex;\nlet l = std::sync::RwLock::new(0);\n\
        use std::sync::Condvar as C; use std::sync::atomic::AtomicU8; use parking_lot::Mutex;";
    assert_eq!(locks_without_rank(code), ["Mutex", "RwLock", "Condvar", "Mutex"]);
}

/// What else threads share, and what depends on the machine, in texts of the standard library.
const SHARED: [&str; 8] = [
    "std::sync::atomic",
    "std::sync::mpsc",
    "std::thread",
    "std::hint::spin_loop",
    "SystemTime::now",
    "std::time::Instant",
    "HashMap",
    "HashSet",
];

/// A schedule by seed (`src/sync/schedules.rs`) replays a run only if all of this goes through
/// `src/sync`. Hash maps are among it, because their order differs from run to run.
#[test]
fn what_threads_share_and_what_the_machine_decides_goes_through_one_room() {
    // Statics whose values no decision depends on, numbers of a real machine, code of real files,
    // and what is compiled for tests only.
    let excepted = [
        "stats/per_thread.rs",
        "fs/descriptors/file.rs",
        "fs/overlapped/uring.rs",
        "table/sst/writer.rs",
        "table/format/identity.rs",
        "db/options.rs",
        "cache/models.rs",
        "memtable/models.rs",
        "memtable/reference.rs",
        "compaction/settles.rs",
        "db/iter/marks/models.rs",
    ];
    let mut found = Vec::new();
    for path in sources(&["src"]) {
        let relative = path.strip_prefix("src").unwrap();
        let is_other = |part: &str| matches!(part, "sync" | "fuzzing" | "tests" | "tests.rs");
        if excepted.map(Path::new).contains(&relative)
            || relative.iter().any(|part| is_other(part.to_str().unwrap()))
        {
            continue;
        }
        let code = code_of(&read(&path));
        // `use std::time::{Duration, Instant}` names the clock too.
        let code = code.replace("std::time::{Duration, Instant", "std::time::Instant");
        let named = SHARED.iter().filter(|name| code.contains(**name));
        found.extend(named.map(|name| format!("{}: {name}", path.display())));
    }
    assert!(found.is_empty(), "use what crate::sync has:\n{}", found.join("\n"));
}

/// The types of locks. If another thread holds one of them at a fork, the child's copy is never
/// unlocked.
const LOCKS: &[&str] = &["Condvar", "LazyLock", "Mutex", "Once", "OnceLock", "RwLock"];

/// The statics of a source text whose type names one of the [`LOCKS`], as `name: type`. A
/// `PerProcess` is exempt, because a child gets a new value with a new lock.
fn statics_with_locks(code: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let declarations = code.split("static ").skip(1).filter_map(|rest| {
        let declaration = rest.split(['=', ';']).next()?.trim();
        let (name, kind) = declaration.split_once(':')?;
        // A plain name follows the `static` of a declaration, but not that of a lifetime `'static`
        // or of a macro's `static ref`.
        let is_name = !name.is_empty() && name.chars().all(is_word);
        let has_lock = kind.split(|c| !is_word(c)).any(|word| LOCKS.contains(&word));
        let is_made_anew = kind.trim_start().starts_with("PerProcess<");
        (is_name && has_lock && !is_made_anew).then(|| declaration.to_string())
    });
    declarations.collect()
}

/// Regression: a child was forked while another thread of the parent queried the processor's vendor
/// for the first time. The result was in a `LazyLock`, so the child waited for ever for a thread
/// that it did not have. All state of the whole process is in an atomic or a `PerProcess` now.
#[test]
fn no_static_of_the_library_blocks_a_forked_child() {
    let mut found = Vec::new();
    for path in sources(&LIBRARIES) {
        let is_other = |part: &str| matches!(part, "fuzzing" | "tests" | "tests.rs");
        if path.iter().any(|part| is_other(part.to_str().unwrap())) {
            continue;
        }
        // Schedules do not fork.
        if path.ends_with("sync/schedules.rs") {
            continue;
        }
        let statics = statics_with_locks(&code_of(&read(&path)));
        found.extend(statics.into_iter().map(|of| format!("{}: {of}", path.display())));
    }
    assert!(found.is_empty(), "a child may wait for these for ever:\n{}", found.join("\n"));
}

#[test]
fn statics_with_locks_are_found_in_every_form() {
    let code = "pub static A: LazyLock<bool> = x(); fn f(s: &'static Mutex<u8>) {}\nstatic B: AtomicU8 = y;\n\
        static C: PerProcess<Mutex<u8>> = z; static D:\n    Padded<std::sync::OnceLock<u8>> =\n z;";
    let found = statics_with_locks(code);
    assert_eq!(found, ["A: LazyLock<bool>", "D:\n    Padded<std::sync::OnceLock<u8>>"]);
}

/// How often the word `unsafe` occurs in a source text, without comments.
fn unsafe_words(text: &str) -> usize {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    code.flat_map(|line| line.split(|c| !is_word(c))).filter(|word| *word == "unsafe").count()
}

#[test]
fn every_unsafe_line_is_in_the_list_of_proofs() {
    let mut found: Vec<(String, usize)> = sources(&["src", FILTERS, COMMAND_LINE])
        .iter()
        .map(|path| (path.to_str().unwrap().to_string(), unsafe_words(&read(path))))
        .filter(|(_, words)| *words > 0)
        .collect();
    found.sort();
    let document = read(Path::new("src/unsafe.md"));
    let listed: Vec<(String, usize)> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| {
            let mut cells = row.split('|').map(str::trim);
            let name = cells.next().unwrap().trim_end_matches('`').to_string();
            let words = cells.next().unwrap().parse().unwrap();
            assert!(cells.all(|cell| cell.len() > 10 || cell.is_empty()), "{name} has no proof");
            (name, words)
        })
        .collect();
    assert_eq!(listed, found, "src/unsafe.md (left) is not what the source has (right)");
}

#[test]
fn unsafe_words_are_counted_outside_of_comments() {
    let text = "unsafe { f() } // unsafe\n/// unsafe\nunsafe_op(); let x = unsafe{y};";
    assert_eq!(unsafe_words(text), 2);
}

/// The words of a name such as `RibbonGeometry` or `fuse_positions`, in small letters.
fn words(name: &str) -> BTreeSet<String> {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_uppercase() {
            text.push('_');
        }
        text.extend(character.to_lowercase());
    }
    text.split('_').map(str::to_string).collect()
}

/// The filter families that a source text names in its code. A `mod` line and a re-export do not
/// count, because the language requires the `mod` line, and the re-export only names what a
/// family's folder contains.
fn families_named(code: &str) -> BTreeSet<String> {
    let lines = code.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("mod ") && !line.starts_with("pub use ")
    });
    // The encoding of burr has the word ribbon in its name.
    let code = lines.collect::<Vec<_>>().join("\n").replace("BumpedRibbon", "Burr");
    let names = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    let named: BTreeSet<String> = names.flat_map(words).collect();
    FAMILIES.iter().map(|name| name.to_string()).filter(|name| named.contains(name)).collect()
}

/// The filter families that few files may name. Bloom is not among them: it is the default, and the
/// fallback of every other family, so code that means the default or the fallback names it.
const FAMILIES: &[&str] = &["ribbon", "burr", "fuse"];

/// At most this many files outside of a family's folder may name the family: `family.rs`, which has
/// the names; `families.rs`, which has the table of families; `reader.rs`, in which the reader has
/// a variant for each family; and one more, such as `spec.rs` for a constructor.
const FILES_THAT_NAME_A_FAMILY: usize = 4;

/// The properties of a family are defined in its folder. If this test fails, code in another folder
/// names the family, probably to know a property of it. Let that code look the property up in the
/// table of families (`crates/filter/src/families.rs`), and add the property to `FamilyInfo` if it is
/// missing there.
#[test]
fn few_files_outside_its_folder_name_a_family() {
    let mut naming: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for path in sources(&LIBRARIES) {
        let is_excepted = ["src/annotate", "src/fuzzing", "crates/filter/src/fuzzing"]
            .iter()
            .any(|excepted| path.starts_with(excepted));
        let is_test = path.iter().any(|part| part == "tests" || part == "tests.rs");
        if is_excepted || is_test {
            continue;
        }
        for family in families_named(&code_of(&read(&path))) {
            if !path.starts_with(Path::new(FILTERS).join(&family)) {
                naming.entry(family).or_default().insert(path.clone());
            }
        }
    }
    for family in FAMILIES {
        let files = &naming[*family];
        assert!(
            files.contains(&Path::new(FILTERS).join("families.rs")),
            "{family} is not in the table"
        );
        let few = files.len() <= FILES_THAT_NAME_A_FAMILY;
        assert!(few, "{family} is named in {} files: {files:#?}", files.len());
    }
}

#[test]
fn families_are_found_by_their_words_in_names() {
    let named = |code: &str| families_named(code).into_iter().collect::<Vec<_>>();
    assert_eq!(named("let x = RibbonGeometry::parse(a.burr_fpr());"), ["burr", "ribbon"]);
    assert_eq!(named("FilterEncoding::BumpedRibbon"), ["burr"]);
    assert!(named("mod burr;\npub use burr::build;\nlet unburred = ribbons();").is_empty());
}

/// If another one says that it takes seconds, then nothing runs it.
#[test]
fn a_test_that_takes_seconds_has_the_words_by_which_ci_finds_it() {
    let words = "takes seconds; .ci/run runs it";
    assert!(read(Path::new(".ci/run")).contains(words));
    let mut found = 0;
    for path in sources(&["src", "tests", "crates"]) {
        let text = read(&path);
        let reasons = text.lines().filter_map(|line| line.trim().strip_prefix("#[ignore = \""));
        for reason in
            reasons.filter(|reason| reason.contains("second") || reason.contains("ci/run"))
        {
            assert_eq!(reason.strip_suffix("\"]"), Some(words), "{}", path.display());
            found += 1;
        }
    }
    assert!(found > 0);
}
