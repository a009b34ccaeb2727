//! The book in `docs/book`: its text, its figures, its code and its exercises.
//!
//! - `text`: links, anchors and width of all documents, the shape of the chapters, code that says
//!   where it is from.
//! - `printed`: every figure in the text is what `cargo run --example book` prints.
//! - `examples`: code that is shown in the chapters and stands nowhere else.
//! - `commands`: the commands in all documents are ones that the program and cargo take.
//! - `knobs`: other documents give the equals of other engines' settings as the one table does.
//! - `course`: each check of the course passes for its solution and fails for its skeleton.
//! - `exercises`: the twelve breaks and their solutions.
//! - `playground`: the page with the filters as WebAssembly.
//! - `shown`: the programs in `examples/` run, and print what the book shows.

#[path = "../../examples/playground/answers/mod.rs"]
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
