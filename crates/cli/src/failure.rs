//! What ends a command early.

use std::path::Path;
use std::{fmt, io};

use crate::show::text::escape;

pub type Result<T = ()> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub enum Failure {
    /// The reader of standard output has closed it, which is no fault.
    OutputClosed,
    /// The message for the user: what failed, on which file, what to do.
    Message(String),
    /// The call was wrong, for example in its combination of options. Nothing was touched.
    Call(String),
}

impl Failure {
    pub fn new(message: impl fmt::Display) -> Failure {
        Failure::Message(message.to_string())
    }

    /// The failure of an operation on a file that is no part of a database.
    pub fn of_file(path: &Path, operation: &str, error: &io::Error) -> Failure {
        Failure::new(format_args!("{}: cannot {operation}: {error}", path.display()))
    }

    /// The failure of a lookup that gave a wrong result. `is_written`: whether the key was written,
    /// so that the lookup should have found it.
    pub fn of_lookup(key: &[u8], is_written: bool) -> Failure {
        let what = match is_written {
            true => "was not found, though it was written",
            false => "was found, though it was not written",
        };
        Failure::new(format_args!("the key {} {what}", escape(key)))
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

/// Takes the error for one of standard output: those are the only I/O errors on which a command
/// uses `?`. The errors of files become failures by [`Failure::of_file`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::new(format_args!("standard output: {error}")),
        }
    }
}
