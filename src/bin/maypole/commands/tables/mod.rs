//! The commands that make, take in and show table files.

pub mod ingest;
pub mod inspect;
pub mod write_table;
