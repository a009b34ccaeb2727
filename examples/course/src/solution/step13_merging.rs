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
        // yours: the source whose entry is before those of all others
        self.first = None;
        let mut place: Option<(&[u8], u64)> = None;
        for (i, source) in self.sources.iter().enumerate() {
            let Some((key, _)) = source.entry() else { continue };
            if place.is_none_or(|(user_key, sequence)| is_before(key, user_key, sequence)) {
                let (user_key, sequence, _) = split_key(key);
                (self.first, place) = (Some(i), Some((user_key, sequence)));
            }
        }
        // end
    }
}

impl Cursor for Merging<'_> {
    fn seek(&mut self, user_key: &[u8], sequence: u64) -> io::Result<()> {
        // yours: each source seeks; then choose
        for source in &mut self.sources {
            source.seek(user_key, sequence)?;
        }
        self.choose();
        Ok(())
        // end
    }

    fn next(&mut self) -> io::Result<()> {
        // yours: one source goes on; then choose
        if let Some(first) = self.first {
            self.sources[first].next()?;
        }
        self.choose();
        Ok(())
        // end
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
        // yours: pass what is too new; of each key the first other entry counts: value or tombstone
        while let Some((internal, value)) = self.cursor.entry() {
            let (key, sequence, kind) = split_key(internal);
            let mut found = None;
            if sequence <= self.sequence && self.last.as_deref() != Some(key) {
                self.last = Some(key.to_vec());
                found = (kind == VALUE).then(|| (key.to_vec(), value.clone()));
            }
            self.cursor.next()?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
        // end
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
    // yours: a merging cursor over the tables of all levels and the memtable; then a scan
    let mut cursor = merged(db, db.levels.iter().flatten());
    cursor.sources.push(Box::new(MemtableCursor::new(&db.memtable)));
    Scan::new(Box::new(cursor), from, sequence)
    // end
}
