//! The filters for the pages in `docs/book/src/playground`: this program with Maypole's library,
//! compiled to WebAssembly.
//!
//! ```text
//! crates/filter/examples/playground/build       compiles this and writes it to the pages, as filters.js
//! ```
//!
//! A request is a text and so is its answer, so one buffer and three functions are enough:
//!
//! ```text
//! reserve(bytes) -> address       the page writes the request there
//! answer() -> bytes, text() -> address       the page reads the answer there
//! ```
//!
//! The module `answers` handles the requests. It does not depend on WebAssembly, so that
//! `crates/cli/tests/book` can run it natively, and compare its answers with those of the page in a
//! browser.

// Other targets than WebAssembly compile the functions below as a check, and never call them.

mod answers;
mod figures;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The request, and then its answer.
static TEXT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn buffer() -> MutexGuard<'static, Vec<u8>> {
    TEXT.lock().unwrap_or_else(PoisonError::into_inner)
}

// An exported name is "unsafe" because two functions of a program must not share it. There is no
// other `unsafe` here: the page reads and writes the memory from outside.

/// Reserves room for a request of `bytes` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(bytes: usize) -> *mut u8 {
    let mut text = buffer();
    *text = vec![0; bytes];
    text.as_mut_ptr()
}

/// Answers the request; returns the length of the answer in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> usize {
    let mut text = buffer();
    *text = answers::answer(&String::from_utf8_lossy(&text)).into_bytes();
    text.len()
}

/// The address of the answer, until the next request.
#[unsafe(no_mangle)]
pub extern "C" fn text() -> *const u8 {
    buffer().as_ptr()
}
