//! Tables without a database, through the public API.

mod reader;
mod writer;

pub use reader::{RangeDeletion, SstEntries, SstEntry, SstReader};
pub use writer::SstWriter;
