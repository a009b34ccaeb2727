//! Wrong solutions of the kind that people write. Each must fail the checks of its step, and the
//! message of the first check that fails must name the mistake: this tests the checks.
//!
//! `build.rs` makes a copy of the step's solution for each entry, with the text `old` replaced by
//! `new`. `tests/wrong.rs` compiles the copies and runs the checks on them. In a copy all other
//! steps are the right solutions, so the checks of a step must not pass a type of this step to the
//! solution of a later one.

mod step01;
mod step02;
mod step03;
mod step04;
mod step05;
mod step06;
mod step07;
mod step08;
mod step09;
mod step10;
mod step11;
mod step12;
mod step13;
mod step14;
mod step15;
mod step16;
mod step17;

/// A solution of a step with one mistake.
pub struct Wrong {
    /// The mistake in a few words.
    pub what: &'static str,
    /// A text that occurs exactly once in the solution of the step.
    pub old: &'static str,
    /// What replaces it.
    pub new: &'static str,
    /// A part of the message that names the mistake.
    pub says: &'static str,
}

/// A message that contains this text comes from a check that was abandoned because it did not end.
pub const ENDLESS: &str = "it does not end";

/// The number of a step, as in the names of its files, and its wrong solutions.
pub const STEPS: &[(&str, &[Wrong])] = &[
    ("01", step01::WRONG),
    ("02", step02::WRONG),
    ("03", step03::WRONG),
    ("04", step04::WRONG),
    ("05", step05::WRONG),
    ("06", step06::WRONG),
    ("07", step07::WRONG),
    ("08", step08::WRONG),
    ("09", step09::WRONG),
    ("10", step10::WRONG),
    ("11", step11::WRONG),
    ("12", step12::WRONG),
    ("13", step13::WRONG),
    ("14", step14::WRONG),
    ("15", step15::WRONG),
    ("16", step16::WRONG),
    ("17", step17::WRONG),
];
