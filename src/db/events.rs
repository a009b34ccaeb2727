//! Events for the crate `tracing`. Without the feature of this name the functions do nothing.
//!
//! ```text
//!   MESSAGE                    LEVEL   FIELDS, besides `database`: its directory
//!   opened                     info    read_only, tables, micros
//!   flushed                    info    tables, bytes, micros
//!   compacted                  info    kind, level, output_level, inputs, input_bytes, outputs, micros
//!   writers waited             warn    cause, micros: a stop; at level debug: a delay
//!   background work failed     warn    work, error: it is tried again, unless another event follows
//!   a table is set aside       error   error
//!   the database is read-only  error   error
//! ```
//!
//! All events have the target `maypole`. No lock of the tree is held meanwhile. The lock of the
//! writers may be held, so a subscriber must not write to the database.

#![cfg_attr(not(feature = "tracing"), expect(unused_variables))]

use std::path::Path;
use std::time::Duration;

use crate::compaction::Plan;
use crate::error::{Error, Result};
use crate::stats::Ticker;

/// Emits an event of the database in the directory `$dir`.
macro_rules! event {
    ($level:ident, $dir:expr, $($fields_and_message:tt)*) => {{
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "maypole", database = %$dir.display(), $($fields_and_message)*);
    }};
}

pub(super) fn opened(dir: &Path, read_only: bool, tables: usize, took: Duration) {
    event!(info, dir, read_only, tables, micros = micros(took), "opened");
}

pub(super) fn flushed(dir: &Path, tables: usize, bytes: u64, took: Duration) {
    event!(info, dir, tables, bytes, micros = micros(took), "flushed");
}

/// A compaction has ended. `done`: the numbers of the tables that it has written.
pub(super) fn compacted(dir: &Path, plan: &Plan, done: &Result<Vec<u64>>, took: Duration) {
    let outputs = match done {
        Ok(outputs) => outputs.len(),
        Err(error) => return failed(dir, "compaction", error),
    };
    event!(
        info,
        dir,
        kind = ?plan.kind,
        level = plan.level,
        output_level = plan.output_level,
        inputs = plan.inputs.len() + plan.output_inputs.len(),
        input_bytes = plan.input_bytes,
        outputs,
        micros = micros(took),
        "compacted"
    );
}

/// Writers were stopped or delayed. `cause`: what is counted for it.
pub(super) fn waited(dir: &Path, cause: Ticker, took: Duration) {
    let (name, micros) = (cause.name(), micros(took));
    match cause {
        Ticker::StallL0Delays | Ticker::StallDebtDelays => {
            event!(debug, dir, cause = name, micros, "writers waited");
        }
        _ => event!(warn, dir, cause = name, micros, "writers waited"),
    }
}

/// A flush or a compaction has failed, which the closing of the database may also cause.
pub(super) fn failed(dir: &Path, work: &str, error: &Error) {
    if !matches!(error, Error::Closed) {
        event!(warn, dir, work, %error, "background work failed");
    }
}

pub(super) fn set_aside(dir: &Path, error: &Error) {
    event!(error, dir, %error, "a table is set aside");
}

pub(super) fn made_read_only(dir: &Path, error: &Error) {
    event!(error, dir, %error, "the database is read-only");
}

fn micros(took: Duration) -> u64 {
    took.as_micros() as u64
}
