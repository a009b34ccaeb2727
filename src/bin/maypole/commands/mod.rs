//! The commands that work on one database or one table file, and the calculator: a file for each.

pub mod checkpoint;
pub mod compact;
pub mod count;
pub mod delete;
pub mod get;
pub mod ingest;
pub mod inspect;
pub mod load;
pub mod put;
pub mod repair;
pub mod scan;
pub mod shell;
pub mod size;
pub mod stats;
pub mod verify;
pub mod write_table;
