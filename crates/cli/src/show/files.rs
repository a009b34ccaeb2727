//! The directory of a page and of the files with its figures.
//!
//! Files that another command made are never replaced. The head of a page says which command made
//! the page, and the other files are taken to be of the same command. So `index.html` is written
//! first: if a call is interrupted, its repetition finds its own page and may replace the other
//! files.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use super::html;
use crate::failure::{Failure, Result};

pub const PAGE: &str = "index.html";
/// The maker of a page is named within this number of bytes from its start.
const HEAD_BYTES: u64 = 4096;

/// Makes the directory if it is missing. Fails if it contains a page that `maker` did not make.
/// Fails also if it contains one of the files `others`, but no page.
pub fn prepare(dir: &Path, maker: &str, others: &[&str]) -> Result {
    fs::create_dir_all(dir)
        .map_err(|error| Failure::of_file(dir, "make this directory", &error))?;
    let page = dir.join(PAGE);
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    if is_there(&page) {
        let mut head = Vec::new();
        let read = File::open(&page).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
        read.map_err(|error| Failure::of_file(&page, "read", &error))?;
        let mark = html::made_by(maker);
        return match String::from_utf8_lossy(&head).contains(&mark) {
            true => Ok(()),
            false => Err(taken(&page, maker)),
        };
    }
    match others.iter().map(|name| dir.join(name)).find(|path| is_there(path)) {
        None => Ok(()),
        Some(path) => Err(taken(&path, maker)),
    }
}

fn taken(path: &Path, maker: &str) -> Failure {
    Failure::new(format_args!(
        "{}: is there, and `{maker}` did not make it: take another directory, or remove it",
        path.display()
    ))
}

/// Writes one file, whole or not at all.
pub fn write(dir: &Path, name: &str, text: &str) -> Result {
    let path = dir.join(name);
    let failed = |error| Failure::of_file(&path, "write", &error);
    let mut builder = tempfile::Builder::new();
    builder.prefix(".maypole-");
    let mut unfinished = builder.make_in(dir, |path| File::create_new(path));
    if unfinished.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        // The directory may have been removed during the long work.
        fs::create_dir_all(dir).map_err(failed)?;
        unfinished = builder.make_in(dir, |path| File::create_new(path));
    }
    let mut unfinished = unfinished.map_err(failed)?;
    unfinished.write_all(text.as_bytes()).map_err(failed)?;
    unfinished.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}
