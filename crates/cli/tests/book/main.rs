//! The book in `docs/book`: its text, its figures, its code and its exercises.
//!
//! - `text`: links, anchors and width of all documents; the shape of the chapters; the code that
//!   chapters quote from a file.
//! - `printed`: every figure in the text is what `cargo run --example book` prints.
//! - `examples`: code that is shown in the chapters and is in no other file.
//! - `commands`: the program and cargo accept the commands in all documents.
//! - `knobs`: no document contradicts the table that gives the equivalents of other engines'
//!   settings.
//! - `course`: each check of the course passes for its solution and fails for its skeleton, and wrong
//!   solutions are caught.
//! - `exercises`: each of the book's twelve exercises breaks something, and the break shows.
//! - `playground`: the pages in which the filters run as WebAssembly give right answers.
//! - `shown`: the programs in `examples/` run, and print what the book shows.

#[path = "../../../filter/examples/playground/answers/mod.rs"]
mod answers;
#[path = "../browser/mod.rs"]
mod browser;
mod commands;
mod course;
mod examples;
mod exercises;
#[path = "../../examples/book/figures/mod.rs"]
mod figures;
mod knobs;
mod markdown;
mod playground;
mod printed;
mod shown;
mod text;
