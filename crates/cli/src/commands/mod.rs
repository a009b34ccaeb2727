//! The commands that work on one database or one table file, and the calculator `size`: a file for
//! each.

pub mod apply_filter;
pub mod checkpoint;
pub mod compact;
pub mod entries;
pub mod export;
pub mod import;
pub mod keyspaces;
pub mod repair;
pub mod shell;
pub mod size;
pub mod stats;
pub mod tables;
pub mod verify;
