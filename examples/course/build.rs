//! Makes the wrong solutions, which `tests/wrong.rs` includes: for each entry of `src/wrong/` a
//! module with the step's file, changed as the entry says, and the step's checks. The other steps
//! and what several checks share come from the solution.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

#[allow(dead_code, reason = "only the test runs the wrong solutions")]
#[path = "src/wrong/mod.rs"]
mod wrong;

fn main() {
    println!("cargo:rerun-if-changed=src/solution");
    println!("cargo:rerun-if-changed=src/wrong");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let (out, here) = (Path::new(&out), env::current_dir().expect("the folder of the course"));
    let mut modules = String::new();
    let mut lists = String::new();
    for (step, entries) in wrong::STEPS {
        let name = name_of(&here, step);
        let checks = here.join(format!("src/checks/step{step}.rs"));
        let solution = here.join(format!("src/solution/{name}.rs"));
        let solution = fs::read_to_string(solution).expect("a solution").replace('\r', "");
        let mut list = String::new();
        for (i, entry) in entries.iter().enumerate() {
            let found = solution.matches(entry.old).count();
            assert_eq!(found, 1, "step {step}, \"{}\": `old` occurs {found} times", entry.what);
            let file = out.join(format!("{name}_{i}.rs"));
            fs::write(&file, solution.replace(entry.old, entry.new)).expect("OUT_DIR is writable");
            write!(
                modules,
                "mod step{step}_{i} {{
                    pub use crate::solution::*;
                    #[path = {file:?}]
                    pub mod {name};
                    pub mod checks {{
                        pub use crate::solution::checks::*;
                        #[path = {checks:?}]
                        pub mod step{step};
                    }}
                }}\n"
            )
            .unwrap();
            write!(list, "step{step}_{i}::checks::step{step}::CHECKS, ").unwrap();
        }
        writeln!(lists, "    &[{list}],").unwrap();
    }
    let lists = format!("pub const CHECKS: &[&[&[crate::check::Check]]] = &[\n{lists}];\n");
    fs::write(out.join("wrong.rs"), modules + &lists).expect("OUT_DIR is writable");
}

/// The name of the step's module, such as `step01_bloom`.
fn name_of(here: &Path, step: &str) -> String {
    let files = fs::read_dir(here.join("src/solution")).expect("the solutions");
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names = names.filter_map(|name| name.strip_suffix(".rs").map(String::from));
    let prefix = format!("step{step}_");
    names.find(|name| name.starts_with(&prefix)).unwrap_or_else(|| panic!("no step {step}"))
}
