//! The commands that read and write entries of a database.

pub mod count;
pub mod delete;
pub mod get;
pub mod load;
pub mod put;
pub mod scan;
