//! A cursor that walks through the disjoint files of a level, one after the other.
//!
//! It has a cursor in only one file at a time. When that cursor passes the end of its file, one in
//! the next file replaces it.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::TableFile;
use crate::cursor::{Cursor, Fetch, Step};
use crate::encoding::key;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::slice::Slice;
use crate::table::{ScanOptions, TableCursor};

pub(crate) struct LevelCursor<F = Vec<Arc<TableFile>>> {
    /// Disjoint files in key order.
    files: F,
    options: ScanOptions,
    /// The current file, by its index in `files`, and the cursor in it.
    open: Option<(usize, TableCursor)>,
}

impl<F: Deref<Target = [Arc<TableFile>]>> LevelCursor<F> {
    pub fn new(files: F, options: ScanOptions) -> LevelCursor<F> {
        LevelCursor { files, options, open: None }
    }

    /// Sets whether blocks that are read from now on enter the cache.
    pub fn set_fill_cache(&mut self, fill_cache: bool) {
        self.options.fill_cache = fill_cache;
        if let Some((_, cursor)) = &mut self.open {
            cursor.set_fill_cache(fill_cache);
        }
    }

    /// The largest sequence number of all files.
    pub fn newest_sequence(&self) -> SequenceNumber {
        self.files.iter().map(|file| file.meta.largest_sequence).max().unwrap_or(0)
    }

    /// Makes file `index` the current one, and calls `position` to place the cursor in it. If there
    /// is no file `index`, there is no current file afterwards.
    fn enter(
        &mut self,
        index: usize,
        position: impl FnOnce(&mut TableCursor) -> Result<()>,
    ) -> Result<()> {
        // If the file is already the current one, its cursor is reused and keeps its block.
        let reused = self.open.take().filter(|&(open, _)| open == index);
        let Some(file) = self.files.get(index) else { return Ok(()) };
        let mut cursor = match reused {
            Some((_, cursor)) => cursor,
            None => TableCursor::new(Arc::clone(&file.table), self.options.clone()),
        };
        position(&mut cursor)?;
        self.open = Some((index, cursor));
        Ok(())
    }

    /// The index of the first file that can have an entry at or after `target`.
    fn find(&self, target: &[u8]) -> usize {
        self.files.partition_point(|file| key::compare(&file.meta.largest, target).is_lt())
    }

    /// If the cursor has passed the end of its file, moves to the next file that has an entry.
    fn skip_forward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = self.open.take_if(|(_, cursor)| !cursor.valid()) {
            self.walk_into(Some(index + 1), cursor, TableCursor::seek_to_first)?;
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = self.open.take_if(|(_, cursor)| !cursor.valid()) {
            self.walk_into(index.checked_sub(1), cursor, TableCursor::seek_to_last)?;
        }
        Ok(())
    }

    /// Moves from the end of the current file, whose cursor is `from`, into file `index`, if there
    /// is one.
    fn walk_into(
        &mut self,
        index: Option<usize>,
        from: TableCursor,
        position: impl FnOnce(&mut TableCursor) -> Result<()>,
    ) -> Result<()> {
        let next = index.and_then(|index| Some((index, self.files.get(index)?)));
        let Some((index, file)) = next else { return Ok(()) };
        let mut cursor = from.into_next(Arc::clone(&file.table));
        position(&mut cursor)?;
        self.open = Some((index, cursor));
        Ok(())
    }

    #[inline]
    fn cursor(&self) -> &TableCursor {
        &self.open.as_ref().expect("the cursor is on an entry").1
    }
}

impl<F: Deref<Target = [Arc<TableFile>]>> Cursor for LevelCursor<F> {
    #[inline]
    fn valid(&self) -> bool {
        self.open.as_ref().is_some_and(|(_, cursor)| cursor.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(0, TableCursor::seek_to_first)?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match self.files.len().checked_sub(1) {
            Some(last) => self.enter(last, TableCursor::seek_to_last)?,
            None => self.open = None,
        }
        self.skip_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let index = self.find(target);
        self.enter(index, |cursor| cursor.seek(target))?;
        self.skip_forward()
    }

    fn fetch_for_seek(&mut self, target: &[u8], fetch: Fetch) {
        if matches!(fetch, Fetch::Block) {
            let index = self.find(target);
            let opened = self.enter(index, |_| Ok(()));
            debug_assert!(opened.is_ok(), "nothing was read");
        }
        if let Some((_, cursor)) = &mut self.open {
            cursor.fetch_for_seek(target, fetch);
        }
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        let after =
            self.files.partition_point(|file| key::compare(&file.meta.smallest, target).is_lt());
        match after.checked_sub(1) {
            Some(index) => self.enter(index, |cursor| cursor.seek_before(target))?,
            None => self.open = None,
        }
        self.skip_backward()
    }

    fn next(&mut self) -> Result<()> {
        if let Some((_, cursor)) = &mut self.open {
            cursor.next()?;
        }
        self.skip_forward()
    }

    #[inline(always)]
    fn step(&mut self) -> Option<Step> {
        self.open.as_mut()?.1.step()
    }

    fn prev(&mut self) -> Result<()> {
        if let Some((_, cursor)) = &mut self.open {
            cursor.prev()?;
        }
        self.skip_backward()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor().key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.cursor().value()
    }

    #[inline]
    fn value_slice(&self) -> Slice {
        self.cursor().value_slice()
    }

    fn file(&self) -> Option<&Path> {
        let (index, _) = self.open.as_ref()?;
        self.files.get(*index).map(|file| file.table.block_file().path())
    }
}
