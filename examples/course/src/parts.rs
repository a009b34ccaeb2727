//! The steps: titles, pages, files, and how a skeleton is made from a solution.

use std::fs;
use std::path::{Path, PathBuf};

/// A step of the course.
pub struct Step {
    pub title: &'static str,
    /// What follows the number in the names of the step's files, such as `bloom` in
    /// `step01_bloom.rs`.
    name: &'static str,
    pub page: &'static str,
    pub solution: &'static str,
    pub skeleton: &'static str,
    number: &'static str,
}

macro_rules! steps {
    ($($number:literal $name:literal $title:literal,)+) => {
        pub const STEPS: &[Step] = &[$(Step {
            title: $title,
            name: $name,
            number: $number,
            page: include_str!(concat!("../", $number, "-", $name, ".md")),
            solution: include_str!(concat!("solution/step", $number, "_", $name, ".rs")),
            skeleton: include_str!(concat!("skeleton/step", $number, "_", $name, ".rs")),
        },)+];
    };
}

steps! {
    "01" "bloom" "bits, and a Bloom filter",
    "02" "probes" "double hashing and its trap",
    "03" "line" "one cache line",
    "04" "block" "a block with prefix compression",
    "05" "table" "a table with a filter",
    "06" "rocksdb" "RocksDB reads your table",
    "07" "memtable" "a memtable, a log and a flush",
    "08" "levels" "a lookup through levels, counted",
    "09" "cache" "a block cache that loads filters",
    "10" "budget" "bits by level under a budget",
    "11" "ribbon" "a ribbon of a dozen keys",
    "12" "cursors" "cursors over a block and a table",
    "13" "merging" "a scan of all sources",
    "14" "snapshots" "versions and snapshots",
    "15" "compaction" "levels that compact themselves",
    "16" "manifest" "a MANIFEST, syncs and crashes",
    "17" "policy" "your own policy",
}

impl Step {
    pub fn page_name(&self) -> String {
        format!("{}-{}.md", self.number, self.name)
    }

    fn file(&self) -> PathBuf {
        let name = format!("step{}_{}.rs", self.number, self.name);
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/skeleton").join(name)
    }
}

/// The skeleton of a solution: what lies between `// yours: TEXT` and `// end` becomes a `todo!`.
pub fn without_parts(solution: &str) -> String {
    let mut skeleton = String::new();
    let mut is_part = false;
    for line in solution.lines() {
        let code = line.trim_start();
        if let Some(text) = code.strip_prefix("// yours: ") {
            let indent = &line[..line.len() - code.len()];
            skeleton += &format!("{indent}todo!(\"{text}\")\n");
            is_part = true;
        } else if code == "// end" {
            is_part = false;
        } else if !is_part {
            skeleton += &format!("{line}\n");
        }
    }
    skeleton
}

/// How many lines of a solution the learner writes. Blank lines do not count.
pub fn lines_of_learner(solution: &str) -> usize {
    let parts = solution.split("// yours: ").skip(1);
    let lines =
        parts.flat_map(|part| part.split("// end").next().unwrap_or_default().lines().skip(1));
    lines.filter(|line| !line.trim().is_empty()).count()
}

/// The hint of a step: the folded part of its page.
pub fn hint(step: usize) -> &'static str {
    let page = STEPS[step - 1].page;
    let folded = page.split_once("<summary>Hint</summary>").map_or("", |(_, after)| after);
    folded.split_once("</details>").map_or("", |(hint, _)| hint.trim())
}

/// Overwrites the skeleton of a step with its first state. Returns whether the file was written.
pub fn reset(step: usize) -> bool {
    let step = &STEPS[step - 1];
    let written = fs::write(step.file(), without_parts(step.solution));
    match &written {
        Ok(()) => println!("{} is as it was.", step.file().display()),
        Err(error) => eprintln!("{}: {error}", step.file().display()),
    }
    written.is_ok()
}
