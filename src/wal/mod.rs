//! The record log, of which both the WAL and the MANIFEST are: its format ([`mod@format`]), its reader
//! and its writer.

mod format;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod reader;
mod writer;

pub(crate) use format::{
    FILE_HEADER_BYTES, LogKind, LogVersion, MAGIC, RECORD_HEADER_BYTES, record_header_crc32,
};
#[cfg(any(test, fuzzing))]
use reader::Tail;
pub(crate) use reader::{LogReader, Record};
pub(crate) use writer::LogWriter;

#[cfg(test)]
mod tests;
