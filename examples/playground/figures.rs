//! The parts of the book's figures that the playground uses: the ribbon of a dozen keys, the
//! equations of a real ribbon, and keys that are always the same.

#![allow(dead_code)]

#[path = "../book/figures/bloom.rs"]
mod bloom;
#[path = "../book/figures/equations.rs"]
pub mod equations;
#[path = "../book/figures/hashing.rs"]
mod hashing;
#[path = "../book/figures/keys.rs"]
pub mod keys;
#[path = "../book/figures/ribbon.rs"]
pub mod ribbon;
