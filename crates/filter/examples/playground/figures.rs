//! The parts of the book's figures that the playground uses: the small ribbon of a dozen keys, the
//! equations of a full-size ribbon, and a fixed set of keys.

#![allow(dead_code)]

#[path = "../../../cli/examples/book/figures/bloom.rs"]
mod bloom;
#[path = "../../../cli/examples/book/figures/equations.rs"]
pub mod equations;
#[path = "../../../cli/examples/book/figures/hashing.rs"]
mod hashing;
#[path = "../../../cli/examples/book/figures/keys.rs"]
pub mod keys;
#[path = "../../../cli/examples/book/figures/ribbon.rs"]
pub mod ribbon;
