//! The checks are tested: each wrong solution of `src/wrong/` must fail the checks of its step, and
//! the message of the first check that fails must name the mistake.
//!
//! Each wrong solution runs in a process of its own, because some never end and others would take
//! all memory if they went on.

#[allow(dead_code, reason = "the checks are run here in another way")]
#[path = "../src/check.rs"]
mod check;
#[allow(dead_code, reason = "not all of it is used by each step")]
#[path = "../src/crash.rs"]
mod crash;
#[allow(dead_code, reason = "not all of it is used by each step")]
#[path = "../src/disk.rs"]
mod disk;
#[allow(dead_code, reason = "not all of it is used by each step")]
#[path = "../src/given.rs"]
mod given;
#[allow(dead_code, reason = "parts of the engine are used by its user only")]
#[path = "../src/solution/mod.rs"]
mod solution;
#[allow(dead_code, reason = "build.rs uses the rest")]
#[path = "../src/wrong/mod.rs"]
mod wrong;
/// The wrong solutions, as `build.rs` made them.
#[allow(clippy::all, dead_code, unused, reason = "a mistake often leaves something unused")]
mod made {
    include!(concat!(env!("OUT_DIR"), "/wrong.rs"));
}

use std::env;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use check::{Outcome, PATIENCE};
use wrong::{ENDLESS, STEPS, Wrong};

/// The patience with a wrong solution that is known not to end.
const SHORT_PATIENCE: Duration = Duration::from_secs(4);
/// At least this share of the wrong solutions must be caught.
const LEAST_CAUGHT: f64 = 0.95;
/// A step has at least this number of wrong solutions.
const LEAST_OF_STEP: usize = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [step, number] = &arguments[..]
        && let (Ok(step), Ok(number)) = (step.parse(), number.parse())
    {
        println!("{}", first_message(step, number));
        return ExitCode::SUCCESS;
    }
    if all_are_caught() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the checks on one wrong solution. Returns the message of the first check that fails, or an
/// empty text if all pass.
fn first_message(step: usize, number: usize) -> String {
    check::catch_panics();
    let endless = STEPS[step].1[number].says == ENDLESS;
    // Some read every table for every lookup: on a busy machine that takes minutes, and ends.
    let patience = if endless { SHORT_PATIENCE } else { 10 * PATIENCE };
    for check in made::CHECKS[step][number] {
        match check::run_within(check, patience) {
            Outcome::Done(_) => {}
            Outcome::Todo(why, _) | Outcome::Wrong(why, _) => return why,
        }
    }
    String::new()
}

/// Runs all wrong solutions and prints what became of each.
fn all_are_caught() -> bool {
    let places = STEPS.iter().enumerate();
    let places = places.flat_map(|(step, (_, all))| (0..all.len()).map(move |i| (step, i)));
    let total = places.clone().count();
    let (next, messages) = (Mutex::new(places), Mutex::new(Vec::new()));
    let work = || {
        while let Some((step, number)) = { next.lock().unwrap().next() } {
            let message = in_a_process(step, number);
            messages.lock().unwrap().push((step, number, message));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut messages = messages.into_inner().unwrap();
    messages.sort();
    let mut missed = Vec::new();
    for (step, number, message) in &messages {
        let (name, wrong) = (STEPS[*step].0, &STEPS[*step].1[*number]);
        let caught = message.contains(wrong.says);
        let word = if caught { "caught" } else { "MISSED" };
        println!("step {name} {word}: {}\n    {}", wrong.what, message.replace('\n', "\n    "));
        if !caught {
            missed.push(wrong);
        }
    }
    let caught = total - missed.len();
    let enough = caught as f64 >= LEAST_CAUGHT * total as f64;
    println!("{} steps, {total} wrong solutions, {caught} caught", STEPS.len());
    enough && missed.into_iter().all(is_named) && STEPS.iter().all(has_enough)
}

/// Runs the checks on one wrong solution in a process of its own, and returns its message.
fn in_a_process(step: usize, number: usize) -> String {
    let this = env::current_exe().expect("this program");
    let ran = Command::new(this).args([step.to_string(), number.to_string()]).output();
    let ran = ran.expect("this program runs");
    String::from_utf8_lossy(&ran.stdout).trim_end().to_string()
}

/// README.md must name each wrong solution that no check catches.
fn is_named(missed: &Wrong) -> bool {
    let named = include_str!("../README.md").contains(missed.what);
    if !named {
        println!("\"{}\" should say \"{}\"; README.md does not name it", missed.what, missed.says);
    }
    named
}

fn has_enough((step, all): &(&str, &[Wrong])) -> bool {
    let enough = all.len() >= LEAST_OF_STEP;
    if !enough {
        println!("step {step} has {} wrong solutions, fewer than {LEAST_OF_STEP}", all.len());
    }
    enough
}
