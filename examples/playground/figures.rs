//! The parts of the book's figures that the playground uses: the small ribbon of a dozen keys, the
//! equations of a full-size ribbon, and a fixed set of keys.

#![allow(dead_code)]

#[path = "../../crates/cli/examples/book/figures/bloom.rs"]
mod bloom;
#[path = "../../crates/cli/examples/book/figures/equations.rs"]
pub mod equations;
#[path = "../../crates/cli/examples/book/figures/hashing.rs"]
mod hashing;
#[path = "../../crates/cli/examples/book/figures/keys.rs"]
pub mod keys;
#[path = "../../crates/cli/examples/book/figures/ribbon.rs"]
pub mod ribbon;
