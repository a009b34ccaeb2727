//! The directory that a page is written into, with its figures beside it.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Result};

/// Makes the directory, where it is missing.
pub fn prepare(dir: &Path) -> Result {
    fs::create_dir_all(dir).map_err(|error| Failure::of_file(dir, "make this directory", &error))
}

/// Writes one file of it.
pub fn write(dir: &Path, name: &str, text: &str) -> Result {
    let path = dir.join(name);
    fs::write(&path, text).map_err(|error| Failure::of_file(&path, "write", &error))
}
