//! What ends a command before it is done.

use std::path::Path;
use std::{fmt, io};

/// The result of a command.
pub type Result<T = ()> = std::result::Result<T, Failure>;

/// Why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// Standard output was closed by whoever read it. No fault.
    OutputClosed,
    /// What is told to the user: what failed, on which file, what to do.
    Message(String),
    /// The command was called wrongly, which only all of its options together show. Nothing was
    /// touched.
    Call(String),
}

impl Failure {
    /// A failure in words.
    pub fn new(message: impl fmt::Display) -> Failure {
        Failure::Message(message.to_string())
    }

    /// A file that is no part of a database could not be read.
    pub fn of_file(path: &Path, operation: &str, error: &io::Error) -> Failure {
        Failure::new(format_args!("{}: cannot {operation}: {error}", path.display()))
    }
}

impl From<maypole::Error> for Failure {
    fn from(error: maypole::Error) -> Failure {
        match &error {
            maypole::Error::Io { operation: "open the database", .. } => Failure::new(
                format_args!("{error}; `maypole inspect` and `maypole explain` take a table file"),
            ),
            _ => Failure::new(error),
        }
    }
}

/// Errors of standard output: the only place where a command uses `?` on one.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::new(format_args!("standard output: {error}")),
        }
    }
}

/// File names may hold line breaks; a message takes one line all the same.
pub fn one_line(message: &str) -> String {
    message.replace('\n', "\\n").replace('\r', "\\r")
}
