//! The course checks itself.

use crate::check::{self, Outcome};
use crate::parts::{self, STEPS};
use crate::{skeleton, solution};

/// The engine, which is the solutions of all steps and the given files, may have at most this many
/// lines.
const MOST_LINES: usize = 2500;

/// In a step the learner writes at most this many lines, blank ones not counted.
const MOST_LINES_OF_STEP: usize = 60;

/// Checks that the course is consistent, and prints what is wrong. Every check must pass for the
/// solution and reach a `todo!` in the skeleton. Each skeleton must be its solution without the
/// learner's parts, and each page must have a hint. README.md must show the report of the tour. The
/// engine may have at most [`MOST_LINES`], and a step at most [`MOST_LINES_OF_STEP`] of the learner's.
pub fn prove() -> bool {
    let mut faults = Vec::new();
    let mut checks = 0;
    for (i, about) in STEPS.iter().enumerate() {
        let step = i + 1;
        for (solved, unsolved) in solution::checks::STEPS[i].iter().zip(skeleton::checks::STEPS[i])
        {
            checks += 1;
            match check::run(solved) {
                Outcome::Done(_) => {}
                Outcome::Todo(why, place) | Outcome::Wrong(why, place) => faults.push(format!(
                    "step {step}: the solution fails \"{}\": {why} ({place})",
                    solved.says
                )),
            }
            match check::run(unsolved) {
                Outcome::Todo(..) => {}
                Outcome::Done(_) => faults.push(format!(
                    "step {step}: the skeleton passes \"{}\". Did you solve it? `reset {step}`",
                    unsolved.says
                )),
                Outcome::Wrong(why, place) => faults.push(format!(
                    "step {step}: the skeleton fails \"{}\" before a `todo!`: {why} ({place})",
                    unsolved.says
                )),
            }
        }
        if !about.skeleton.lines().eq(parts::without_parts(about.solution).lines()) {
            faults.push(format!(
                "step {step}: the skeleton is not the solution without its parts: `reset {step}`"
            ));
        }
        let own = parts::lines_of_learner(about.solution);
        if own > MOST_LINES_OF_STEP {
            faults.push(format!("step {step}: the learner writes {own} lines, too many"));
        }
        if parts::hint(step).is_empty() {
            faults.push(format!("step {step}: {} has no hint", about.page_name()));
        }
    }
    let shown = include_str!("../README.md").replace('\r', "");
    match check::run(&solution::checks::tour::CHECK) {
        Outcome::Done(Some(told)) if shown.contains(&told) => {}
        Outcome::Done(told) => {
            faults.push(format!("README.md does not show the tour:\n{}", told.unwrap_or_default()));
        }
        Outcome::Todo(why, place) | Outcome::Wrong(why, place) => {
            faults.push(format!("the tour fails: {why} ({place})"));
        }
    }
    let given = [include_str!("given.rs"), include_str!("disk.rs")];
    let engine = STEPS.iter().map(|step| step.solution).chain(given);
    let lines: usize = engine.map(|text| text.lines().count()).sum();
    if lines > MOST_LINES {
        faults.push(format!("the engine has {lines} lines, more than {MOST_LINES}"));
    }
    for fault in &faults {
        println!("{fault}");
    }
    println!(
        "{} steps, {checks} checks, {lines} lines of engine: {} faults",
        STEPS.len(),
        faults.len()
    );
    faults.is_empty()
}
