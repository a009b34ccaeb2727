//! The commands that write, ingest and show table files.

pub mod ingest;
pub mod inspect;
pub mod write_table;
