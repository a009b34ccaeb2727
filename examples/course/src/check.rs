//! Runs checks. The outcome of a check is that its statement holds, that it reached a `todo!`, or
//! that its statement does not hold.

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use std::{fs, process, thread};

/// One thing that must hold when a step is done.
pub struct Check {
    pub says: &'static str,
    /// Panics with a message for the learner, if the statement in `says` does not hold.
    pub run: fn(),
}

pub enum Outcome {
    /// The check holds. A remark may say more, for example what was measured, or whether `sst_dump`
    /// or Maypole has read the table that the step's code wrote.
    Done(Option<String>),
    /// The text and the place of the `todo!` that the check reached.
    Todo(String, String),
    /// What is wrong, and the place of the panic that said so. The place is empty if the check did
    /// not end.
    Wrong(String, String),
}

/// The message of the last panic, and its place: file and line.
static PANIC: Mutex<Option<(String, String)>> = Mutex::new(None);
static REMARK: Mutex<Option<String>> = Mutex::new(None);

/// A check that takes longer than this counts as one that does not end.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Sets the remark of the check that is running.
pub fn remark(text: impl Into<String>) {
    *REMARK.lock().unwrap() = Some(text.into());
}

/// Keeps panics off the screen: they are stored, and [`run`] makes outcomes of them.
pub fn catch_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
        let message = info.payload_as_str().unwrap_or("it panicked").to_string();
        *PANIC.lock().unwrap() = Some((message, place.unwrap_or_default()));
    }));
}

pub fn run(check: &Check) -> Outcome {
    run_within(check, PATIENCE)
}

/// Runs a check, which counts as one that does not end if it takes longer than `patience`.
pub fn run_within(check: &Check, patience: Duration) -> Outcome {
    let (done, ended) = channel();
    let run = check.run;
    REMARK.lock().unwrap().take();
    PANIC.lock().unwrap().take();
    // The check runs in a thread of its own, which is abandoned if the check does not end.
    thread::spawn(move || {
        let result = panic::catch_unwind(AssertUnwindSafe(run));
        let _ = done.send(result.is_ok());
    });
    match ended.recv_timeout(patience) {
        Ok(true) => Outcome::Done(REMARK.lock().unwrap().take()),
        Ok(false) | Err(RecvTimeoutError::Disconnected) => {
            let (message, place) = PANIC.lock().unwrap().take().unwrap_or_default();
            match message.strip_prefix("not yet implemented: ") {
                Some(what) => Outcome::Todo(what.to_string(), place),
                None => Outcome::Wrong(without_preamble(&message), place),
            }
        }
        Err(RecvTimeoutError::Timeout) => {
            Outcome::Wrong("it does not end: is there an endless loop?".into(), String::new())
        }
    }
}

/// The message of an `assert_eq!` without the words that it always begins with.
fn without_preamble(message: &str) -> String {
    message.strip_prefix("assertion `left == right` failed: ").unwrap_or(message).to_string()
}

/// A temporary directory for one check. Dropping this value removes it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("maypole-course-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
