//! Tests of the course in `examples/course`, which is a package of its own and has its own checks.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::markdown::{links, read, root};

/// The directory of the course.
pub fn directory() -> PathBuf {
    root().join("examples/course")
}

/// What each page has, in this order.
const PARTS: [&str; 5] = [
    "## Your part",
    "<summary>Hint</summary>",
    "The solution: [",
    "## What the real one does",
    "## What to try next",
];

#[test]
fn every_page_of_the_course_has_its_parts() {
    let course = directory();
    let pages = links(&read(course.join("README.md")).text);
    let mut pages: Vec<&String> =
        pages.iter().filter(|link| link.starts_with(['0', '1'])).collect();
    pages.dedup();
    assert_eq!(pages.len(), 17, "pages in the README of the course");
    for (i, page) in pages.into_iter().enumerate() {
        let document = read(course.join(page));
        let step = i + 1;
        assert!(document.text.starts_with(&format!("# Step {step}: ")), "{page}: its title");
        let found = PARTS.map(|part| document.text.find(part));
        assert!(found.is_sorted() && found[0].is_some(), "{page}: {PARTS:?} stand at {found:?}");
        assert!(document.text.contains(&format!(" -- check {step}\n")), "{page}: its command");
        let links = links(&document.text);
        let sources: &[&str] = &["../../src/", "../../crates/filter/src/"];
        for targets in [&["../../docs/book/src/"], sources, &["src/skeleton/"], &["src/solution/"]]
        {
            let leads = |link: &String| targets.iter().any(|target| link.starts_with(target));
            assert!(links.iter().any(leads), "{page}: no link into {targets:?}");
        }
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn every_check_of_the_course_fails_for_the_skeleton_and_passes_for_the_solution() {
    let said = course("run", &["--", "prove"]);
    assert!(said.contains("17 steps, 126 checks"), "{said}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_checks_of_the_course_catch_wrong_solutions_and_name_the_mistake() {
    let said = course("test", &["--test", "wrong"]);
    assert!(said.contains("17 steps, 277 wrong solutions, 277 caught"), "{said}");
}

/// Runs a command of cargo on the course, which must succeed, and returns what it prints.
fn course(command: &str, arguments: &[&str]) -> String {
    // The course is built in the target directory of these tests, which already has most of its
    // dependencies.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let ran = Command::new(env!("CARGO"))
        .args([command, "--quiet", "--manifest-path"])
        .arg(directory().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .args(arguments)
        .output()
        .expect("cargo is run");
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ran.status.success(), "{said}");
    said
}
