//! [`Known`]: a file or directory of another program.

use std::fmt;
use std::path::Path;

use crate::error::Error;

/// The first bytes of the logs and MANIFESTs of Maypole.
pub(crate) const MAYPOLE_LOG: [u8; 8] = *b"\x8dMaypole";

/// A file or directory of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// A noun phrase: "a table of LevelDB".
    pub what: String,
    /// What the user can do with it instead; empty if there is no advice.
    instead: &'static str,
}

impl Known {
    pub fn new(what: impl Into<String>, instead: &'static str) -> Known {
        Known { what: what.into(), instead }
    }

    /// The error of a call whose argument is this file or directory.
    pub fn refused(&self, path: &Path) -> Error {
        Error::Unsupported { file: path.to_owned(), what: self.to_string() }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is {}; it was left untouched", self.what)?;
        if !self.instead.is_empty() {
            write!(f, "; {}", self.instead)?;
        }
        Ok(())
    }
}
