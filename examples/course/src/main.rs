//! A course: build an engine with filters, in seventeen steps. `README.md` says how.
//!
//! ```text
//! given.rs     what most steps use
//! disk.rs      how the engine changes files
//! crash.rs     a simulated disk, which forgets what is not synced
//! skeleton/    the learner's engine
//! solution/    the same with all parts written
//! checks/      what must hold of each engine: compiled once for each
//! check.rs     runs a check
//! parts.rs     makes a skeleton from a solution, by leaving out the learner's parts
//! prove.rs     the course checks itself
//! wrong/       wrong solutions, which the checks must catch: for `tests/wrong.rs` only
//! ```

mod check;
mod crash;
mod disk;
mod given;
mod parts;
mod prove;
#[allow(clippy::duplicate_mod, reason = "the checks are compiled for both engines")]
mod skeleton;
#[allow(dead_code, reason = "parts of the engine are used by later steps or by its user only")]
mod solution;

use std::path::Path;
use std::process::ExitCode;

use check::Outcome;
use parts::STEPS;

const USAGE: &str = "\
A course: build an engine with filters, in seventeen steps. Start with 01-bloom.md.

  check          how far you are
  check STEP     the checks of a step, 1 to 17
  hint STEP      a hint for a step
  solution STEP  the solution of a step
  tour           your engine at work, after step 10
  simulate N     the moves of a tree after N flushes, with your rules of step 15
  policy DIR     files for `maypole compare`, which judges your policy of step 17
  reset STEP     makes the skeleton of a step as it was; what you wrote there is lost
  prove          the course checks itself: all checks pass for the solution and fail for the skeleton";

fn main() -> ExitCode {
    check::catch_panics();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let step = |text: &str| text.parse().ok().filter(|step| (1..=STEPS.len()).contains(step));
    let passed = match words[..] {
        ["check"] => (1..=STEPS.len()).all(check_step),
        ["prove"] => prove::prove(),
        ["tour"] => show(&skeleton::checks::tour::CHECK),
        ["simulate", _] => show(&skeleton::checks::tour::SIMULATE),
        ["policy", _] => show(&skeleton::checks::judge::CHECK),
        [command, number] => match (command, step(number)) {
            ("check", Some(step)) => check_step(step),
            ("hint", Some(step)) => print(parts::hint(step)),
            ("solution", Some(step)) => print(STEPS[step - 1].solution),
            ("reset", Some(step)) => parts::reset(step),
            _ => refuse(USAGE),
        },
        _ => refuse(USAGE),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(text: &str) -> bool {
    println!("{}", text.trim_end());
    true
}

fn refuse(text: &str) -> bool {
    eprintln!("{}", text.trim_end());
    false
}

/// Runs a part of the learner's engine, and prints its report or the first part that is not done.
fn show(report: &check::Check) -> bool {
    match check::run(report) {
        Outcome::Done(told) => print(&told.unwrap_or_default()),
        Outcome::Todo(what, place) => {
            refuse(&format!("Your engine is not done. {}: {what}", from_here(&place)))
        }
        Outcome::Wrong(why, _) => refuse(&why),
    }
}

/// Changes a place in the course's sources, such as a panic reports, into a path from the current
/// directory, if the course is below it, and otherwise into an absolute path.
fn from_here(place: &str) -> String {
    let course = Path::new(env!("CARGO_MANIFEST_DIR"));
    let here = std::env::current_dir().unwrap_or_default();
    course.strip_prefix(here).unwrap_or(course).join(place).display().to_string()
}

/// Runs the checks of a step on the skeleton. Returns whether all pass.
fn check_step(step: usize) -> bool {
    let about = &STEPS[step - 1];
    println!("Step {step}: {} ({})", about.title, about.page_name());
    let checks = skeleton::checks::STEPS[step - 1];
    let mut done = 0;
    for check in checks {
        match check::run(check) {
            Outcome::Done(remark) => {
                done += 1;
                let remark = remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
                println!("  done   {}{remark}", check.says);
            }
            Outcome::Todo(what, place) => {
                println!("  to do  {}\n         {}: {what}", check.says, from_here(&place));
            }
            Outcome::Wrong(why, place) => {
                println!("  wrong  {}\n         {}", check.says, why.replace('\n', "\n         "));
                // If the learner's code panicked, its place is printed. If an assertion of a check
                // panicked, the place in the check does not help.
                if !place.contains("checks") && !place.is_empty() {
                    println!("         at {}", from_here(&place));
                }
                // The next checks of the step would often wait for the same loop.
                if place.is_empty() {
                    println!("  The checks after it are not run.");
                    break;
                }
            }
        }
    }
    let all = done == checks.len();
    println!("  {done} of {} done", checks.len());
    if !all {
        println!("  Stuck? `hint {step}` prints a hint, `solution {step}` the solution.");
    } else if let Some(next) = STEPS.get(step) {
        println!("  The next page: {}", next.page_name());
    } else {
        println!("  You have built an engine.");
    }
    all
}
