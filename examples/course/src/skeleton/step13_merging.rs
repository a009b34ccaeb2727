//! Step 13: a scan. A merging cursor walks the entries of all sources in one order, and the scan
//! shows of each key what a lookup would find.
//!
//! ```text
//! memtable   apple 9 ✗                     cherry 8
//! level 0                banana 5
//! level 1    apple 2                       cherry 1   damson 3
//!
//! merged     apple 9 ✗   apple 2   banana 5   cherry 8   cherry 1   damson 3
//! scan                             banana     cherry                damson
//! ```

use std::io;

use super::step04_block::KeyValue;
use super::step05_table::{Table, is_before};
use super::step08_levels::Db;
use super::step12_cursors::{Cursor, MemtableCursor, TableCursor};
use crate::given::{VALUE, split_key};

/// A cursor over the entries of several cursors, in order.
pub struct Merging<'a> {
    sources: Vec<Box<dyn Cursor + 'a>>,
    /// The source that is at the first entry of all. `None`: all are behind their last entries.
    first: Option<usize>,
}

impl<'a> Merging<'a> {
    pub fn new(sources: Vec<Box<dyn Cursor + 'a>>) -> Merging<'a> {
        Merging { sources, first: None }
    }

    /// Sets `first`.
    fn choose(&mut self) {
        todo!("the source whose entry is before those of all others")
    }
}

impl Cursor for Merging<'_> {
    fn seek(&mut self, user_key: &[u8], sequence: u64) -> io::Result<()> {
        todo!("each source seeks; then choose")
    }

    fn next(&mut self) -> io::Result<()> {
        todo!("one source goes on; then choose")
    }

    fn entry(&self) -> Option<&KeyValue> {
        self.sources[self.first?].entry()
    }
}

/// The keys and values that a reader sees, in order.
pub struct Scan<'a> {
    cursor: Box<dyn Cursor + 'a>,
    /// Newer entries are not seen.
    sequence: u64,
    /// The user key of which the newest visible entry was met last.
    last: Option<Vec<u8>>,
}

impl<'a> Scan<'a> {
    /// The keys from `from` on, as they were when `sequence` was the number of the last write.
    pub fn new(mut cursor: Box<dyn Cursor + 'a>, from: &[u8], sequence: u64) -> io::Result<Self> {
        cursor.seek(from, u64::MAX)?;
        Ok(Scan { cursor, sequence, last: None })
    }

    /// The next key and value, or `None` at the end.
    fn advance(&mut self) -> io::Result<Option<KeyValue>> {
        todo!("pass what is too new; of each key the first other entry counts: value or tombstone")
    }
}

impl Iterator for Scan<'_> {
    type Item = io::Result<KeyValue>;

    fn next(&mut self) -> Option<io::Result<KeyValue>> {
        self.advance().transpose()
    }
}

/// A cursor over some tables.
pub fn merged<'a>(db: &'a Db, tables: impl Iterator<Item = &'a Table>) -> Merging<'a> {
    let cursor = |table| Box::new(TableCursor::new(table, &*db.blocks)) as Box<dyn Cursor>;
    Merging::new(tables.map(cursor).collect())
}

/// The keys of a database from `from` on, as they were when `sequence` was the number of the last
/// write.
pub fn scan<'a>(db: &'a Db, from: &[u8], sequence: u64) -> io::Result<Scan<'a>> {
    todo!("a merging cursor over the tables of all levels and the memtable; then a scan")
}
