//! Planted bugs: mistakes that stores have made, or that this store could make. Each is put alone
//! into a copy of the source. Then the test that must detect the mistake is run there, and must
//! fail.
//!
//! ```sh
//! cargo test --test planted                                     # the list still fits the source
//! cargo test --test planted -- --ignored every_planted_bug_compiles
//! cargo test --test planted -- --ignored --nocapture            # all of them: see the time below
//! MAYPOLE_PLANTED=sync cargo test --test planted -- --ignored --nocapture     # whose name has "sync"
//! MAYPOLE_PLANTED='sync|mark' cargo test --test planted -- --ignored --nocapture      # one of these
//! ```
//!
//! A bug is a piece of text that occurs once in one file, and its replacement. If the source at
//! this place changes, the test of the list fails. Then adapt the bug's text to the new source, and
//! keep the mistake.
//!
//! The copy has a target directory of its own, because in a shared one cargo would take the copy's
//! programs for those of the source. All bugs are planted in the same copy, so after the first
//! build each bug costs only an incremental build of the library and of the one test program that
//! must detect it.

mod bugs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use bugs::{BUGS, Bug};

/// After this number of seconds, a test counts as hung. Builds get more time, because the first one
/// takes minutes.
const TEST_SECONDS: &str = "180";
const BUILD_SECONDS: &str = "1800";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files and directories with these names are not copied: builds, and packages of their own.
const LEFT_OUT: [&str; 4] = ["course", "fuzz", "peers", "target"];

/// The files of the copy, relative to the root. These are more than the source, because the
/// manifest names examples and tests include documents. Without them nothing is built.
fn sources() -> Vec<PathBuf> {
    let (mut files, mut dirs) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(root().join(&dir)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with('.') || LEFT_OUT.contains(&&*name) {
                continue;
            }
            let list = if entry.file_type().unwrap().is_dir() { &mut dirs } else { &mut files };
            list.push(dir.join(name));
        }
    }
    files
}

/// The source with the bug in it, or why it cannot be put there.
fn plant(bug: &Bug, source: &str) -> Result<String, String> {
    match source.matches(bug.old).count() {
        1 => Ok(source.replacen(bug.old, bug.new, 1)),
        count => Err(format!("{} holds its text {count} times, not once", bug.file)),
    }
}

/// Whether the test that must detect the bug exists: a function of its name, in a file of its
/// module, in the program that is to be run.
fn has_test(bug: &Bug) -> bool {
    let mut path: Vec<&str> = bug.test.split("::").collect();
    let declaration = format!("fn {}(", path.pop().unwrap());
    // A module `tests` may be at the foot of the file of its parent module.
    let inline = path.last() == Some(&"tests");
    let folder = match bug.program {
        "lib" => "src".into(),
        "filter" => "crates/filter/src".into(),
        "bin" => "crates/cli/src".into(),
        program => format!("tests/{program}"),
    };
    let module = root().join(folder).join(path.join("/"));
    let parent = module.parent().unwrap();
    let (folder, program) = (module.join("mod.rs"), module.join("main.rs"));
    let mut files = vec![module.with_extension("rs"), folder, program];
    if inline {
        files.extend([parent.with_extension("rs"), parent.join("mod.rs")]);
    }
    files.iter().any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains(&declaration)))
}

#[test]
fn every_planted_bug_still_fits_the_source_and_has_its_test() {
    let mut wrong = Vec::new();
    for (i, bug) in BUGS.iter().enumerate() {
        let source = fs::read_to_string(root().join(bug.file)).unwrap_or_default();
        if let Err(why) = plant(bug, &source) {
            wrong.push(format!("{}: {why}", bug.name));
        }
        if !has_test(bug) {
            wrong.push(format!("{}: there is no test {} {}", bug.name, bug.program, bug.test));
        }
        if BUGS[..i].iter().any(|other| other.name == bug.name) {
            wrong.push(format!("{}: twice", bug.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(BUGS.len() >= 24);
}

/// The copy of the source, and the directory of its builds.
struct Copy {
    source: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn new() -> Copy {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planted");
        let copy = Copy { source: dir.join("source"), target: dir.join("target") };
        if copy.source.exists() {
            fs::remove_dir_all(&copy.source).unwrap();
        }
        for file in sources() {
            let to = copy.source.join(&file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(root().join(&file), to).unwrap();
        }
        copy
    }

    /// Runs `cargo test` for one program, without debug information, which would only cost time.
    fn cargo(&self, seconds: &str, program: &str, arguments: &[&str]) -> Output {
        let mut cargo = Command::new("timeout");
        cargo.args(["-k", "5", seconds, env!("CARGO"), "test", "--offline"]);
        cargo.env_remove("RUSTFLAGS").env("CARGO_TARGET_DIR", &self.target);
        match program {
            "schedules" => cargo
                .args(["--package", "maypole", "--test", program, "--profile", "shuttle"])
                .env("RUSTFLAGS", "--cfg shuttle")
                .env("CARGO_TARGET_DIR", self.target.join("shuttle"))
                .env("MAYPOLE_SCHEDULES_SECONDS", "120"),
            "lib" => cargo.args(["--package", "maypole", "--lib"]),
            "filter" => cargo.args(["--package", "maypole-filter", "--lib"]),
            "bin" => cargo.args(["--package", "maypole-cli", "--bin", "maypole"]),
            _ => cargo.args(["--package", "maypole", "--test", program]),
        };
        cargo.args(arguments).current_dir(&self.source);
        cargo.env("CARGO_PROFILE_TEST_DEBUG", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.env("CARGO_INCREMENTAL", "1");
        cargo.output().expect("cargo and timeout run")
    }

    /// Checks that the package of the file compiles.
    fn check(&self, file: &str) -> Result<(), String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["check", "--offline", "--quiet", "--package"]);
        cargo.arg(match file {
            file if file.starts_with("crates/filter/") => "maypole-filter",
            file if file.starts_with("crates/cli/") => "maypole-cli",
            _ => "maypole",
        });
        cargo.env_remove("RUSTFLAGS").env("CARGO_TARGET_DIR", &self.target);
        cargo.env("CARGO_INCREMENTAL", "1").current_dir(&self.source);
        let output = cargo.output().expect("cargo runs");
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Calls `work` while the bug is in the source.
    fn with<T>(&self, bug: &Bug, work: impl FnOnce() -> T) -> Result<T, String> {
        let path = self.source.join(bug.file);
        let source = fs::read_to_string(&path).unwrap();
        fs::write(&path, plant(bug, &source)?).unwrap();
        let done = work();
        fs::write(&path, source).unwrap();
        Ok(done)
    }

    /// Builds and runs one test.
    fn run(&self, bug: &Bug) -> Outcome {
        let built = self.cargo(BUILD_SECONDS, bug.program, &["--no-run", "--quiet"]);
        if !built.status.success() {
            return Outcome::Other(format!("no build\n{}", String::from_utf8_lossy(&built.stderr)));
        }
        let ran = self.cargo(
            TEST_SECONDS,
            bug.program,
            &["--", "--include-ignored", "--exact", bug.test],
        );
        let told = String::from_utf8_lossy(&ran.stdout);
        if told.contains(&format!("test {} ... ok", bug.test)) {
            return Outcome::Passed;
        }
        if told.contains(&format!("test {} ... FAILED", bug.test)) {
            return Outcome::Failed;
        }
        Outcome::Other(match ran.status.code() {
            Some(124 | 137) => "hangs".into(),
            _ => format!("{}\n{told}{}", ran.status, String::from_utf8_lossy(&ran.stderr)),
        })
    }
}

/// The outcome of a test.
enum Outcome {
    Passed,
    Failed,
    /// The program could not be built, or it hung or crashed, or the bug's text was not found.
    Other(String),
}

/// The bugs that `MAYPOLE_PLANTED` chooses.
fn chosen() -> Vec<&'static Bug> {
    let chosen = std::env::var("MAYPOLE_PLANTED").unwrap_or_default();
    let is_chosen = |bug: &&Bug| chosen.split('|').any(|part| bug.name.contains(part));
    BUGS.iter().filter(is_chosen).collect()
}

/// A text may still fit although what it calls has changed.
#[test]
#[ignore = "checks the library once for each bug: a quarter of an hour"]
fn every_planted_bug_compiles() {
    let copy = Copy::new();
    let wrong: Vec<String> = (chosen().into_iter())
        .filter_map(|bug| {
            let checked = copy.with(bug, || copy.check(bug.file)).and_then(|checked| checked);
            checked.err().map(|why| format!("{}: {why}", bug.name))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "builds the library and a test program for each bug: hours"]
fn every_planted_bug_is_caught() {
    let copy = Copy::new();
    let bugs = chosen();
    let mut sound: Vec<(&str, &str)> = Vec::new();
    for bug in &bugs {
        if sound.contains(&(bug.program, bug.test)) {
            continue;
        }
        match copy.run(bug) {
            Outcome::Passed => {}
            Outcome::Failed => panic!("{} fails without any bug", bug.test),
            Outcome::Other(why) => panic!("{} without any bug: {why}", bug.test),
        }
        sound.push((bug.program, bug.test));
    }
    println!("{} tests pass without a bug\n\n| bug | noticed by | |\n|---|---|---|", sound.len());
    let mut missed = Vec::new();
    for bug in &bugs {
        let start = Instant::now();
        let outcome = copy.with(bug, || copy.run(bug)).unwrap_or_else(Outcome::Other);
        let told = match outcome {
            Outcome::Failed => "caught".into(),
            Outcome::Passed => "NOT CAUGHT".into(),
            Outcome::Other(why) => why,
        };
        let seconds = start.elapsed().as_secs();
        println!("| {} | {} {} | {told}, {seconds} s |", bug.name, bug.program, bug.test);
        if told != "caught" {
            missed.push(bug.name);
        }
    }
    println!("\n{} of {} planted bugs caught", bugs.len() - missed.len(), bugs.len());
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
