//! [`Source`]: where the filter or the index of an open table comes from.
//!
//! ```text
//!              locate(key)            borrow(part)              load(part)
//! whole        part 0                 slot 0                    reads the block
//! in parts     top: separators        slot of the part          reads the part's block
//! ```
//!
//! A whole filter or index has one part, so nothing above this file must tell the two forms apart.
//! A *top* is an index that leads to parts instead of data blocks. It is read when the table is
//! opened, and kept in memory until the table is closed. Each part has a slot of its own
//! ([`crate::cache::slots`]), so parts are loaded and evicted separately.

use std::sync::Arc;

use crate::cache::policy::Policy;
use crate::cache::slots::{Cached, Lease, Resident, Slots};
use crate::cache::{BlockCache, BlockKind};
use crate::error::{Error, Result};
use crate::memory::LineBuf;
use crate::stats::{Counters, Ticker};
use crate::sync::{Guard, pin};

use super::format::file::BlockFile;
use super::format::footer::BlockHandle;
use super::format::properties::IndexForm;
use super::index::handles::Handles;
use super::index::{Index, IndexParser};

/// The list of the parts of a filter or index.
pub(crate) struct Top {
    separators: Arc<Index>,
    /// Where the parts are. `None`: the separators are this top's own, and lead to the parts.
    handles: Option<Handles>,
}

impl Top {
    pub fn new(separators: Index) -> Top {
        Top { separators: Arc::new(separators), handles: None }
    }

    /// The top of a filter. If the filter is cut at the same keys as the index, the separators of
    /// the index's top are used for both. The index may have more parts even then: the surplus parts
    /// at its end belong to the last part of the filter.
    pub fn of_filter(top: Index, index: Option<&Top>) -> Top {
        match index.filter(|index| index.separators.begins_as(&top)) {
            None => Top::new(top),
            Some(index) => {
                let handles: Vec<_> = (0..top.len()).map(|part| top.handle(part)).collect();
                let separators = Arc::clone(&index.separators);
                Top { separators, handles: Some(Handles::new(&handles)) }
            }
        }
    }

    fn len(&self) -> usize {
        self.handles.as_ref().map_or(self.separators.len(), Handles::len)
    }

    fn handle(&self, part: usize) -> BlockHandle {
        match &self.handles {
            Some(handles) => handles.get(part),
            None => self.separators.handle(part),
        }
    }

    /// Without the separators of another top.
    fn heap_bytes(&self) -> usize {
        match &self.handles {
            Some(handles) => handles.heap_bytes(),
            None => size_of::<Index>() + self.separators.heap_bytes(),
        }
    }
}

/// See the module.
pub(crate) struct Source<T: Cached> {
    /// `None`: the filter or index is whole.
    top: Option<Top>,
    /// A slot for each part.
    slots: Slots<T>,
    /// The block that is the whole filter or index, or its top.
    handle: BlockHandle,
    /// Whether one that is whole is evicted as parts are, even if it fills the cache.
    evicts_whole: bool,
}

/// The tickers of a kind of block: of misses, of additions to the cache, and of inserted bytes.
pub(super) type LoadTickers = [Ticker; 3];

impl<T: Cached> Source<T> {
    pub fn new(
        cache: &Arc<BlockCache>,
        kind: BlockKind,
        is_pinned: bool,
        handle: BlockHandle,
        top: Option<Top>,
        evicts_whole: bool,
    ) -> Source<T> {
        let parts = top.as_ref().map_or(1, Top::len);
        Source { slots: Slots::new(cache, parts, kind, is_pinned), top, handle, evicts_whole }
    }

    /// How many parts there are: 1 if the filter or index is whole.
    pub fn parts(&self) -> usize {
        self.slots.len()
    }

    pub fn is_whole(&self) -> bool {
        self.top.is_none()
    }

    /// The separators of the parts. `None`: the filter or index is whole.
    pub fn separators(&self) -> Option<&Index> {
        self.top.as_ref().map(|top| &*top.separators)
    }

    /// Whether both are in parts and cut at the same keys, so that they share their separators.
    pub fn shares_separators<U: Cached>(&self, other: &Source<U>) -> bool {
        match (&self.top, &other.top) {
            (Some(top), Some(other)) => Arc::ptr_eq(&top.separators, &other.separators),
            _ => false,
        }
    }

    /// The part for a key. If the key is after all parts of an index, the number of parts, or a
    /// larger number.
    #[inline(always)]
    pub fn locate(&self, user_key: &[u8], trailer: u64) -> usize {
        match &self.top {
            None => 0,
            Some(top) => top.separators.find(user_key, trailer),
        }
    }

    /// The part for a key; the last part if the key is after all parts.
    #[inline]
    pub fn locate_near(&self, user_key: &[u8], trailer: u64) -> usize {
        self.locate(user_key, trailer).min(self.parts() - 1)
    }

    /// Where a part is in the file.
    #[inline]
    pub fn handle(&self, part: usize) -> BlockHandle {
        self.top.as_ref().map_or(self.handle, |top| top.handle(part))
    }

    /// A part, if it is in memory. Counts its use.
    #[inline]
    pub fn get<'g>(&'g self, part: usize, guard: &'g Guard) -> Option<Lease<'g, T>> {
        self.slots.get(part, guard)
    }

    /// Like [`Source::get`], but returns a plain reference.
    #[inline]
    pub fn borrow<'g>(&'g self, part: usize, guard: &'g Guard) -> Option<&'g Resident<T>> {
        self.slots.borrow(part, guard)
    }

    /// Like [`Source::borrow`], but does not count the use.
    #[inline]
    pub fn peek<'g>(&'g self, part: usize, guard: &'g Guard) -> Option<&'g Resident<T>> {
        self.slots.peek(part, guard)
    }

    /// The numbers of the parts that are not in memory.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        (0..self.parts()).filter(|&part| self.peek(part, &pin()).is_none())
    }

    /// Loads a part through the cache, and counts what happened. Hold no guard.
    #[inline(always)]
    pub(super) fn load(
        &self,
        part: usize,
        policy: &Policy,
        counters: &Counters,
        tickers: LoadTickers,
        read: impl FnOnce() -> Result<(T, usize)>,
    ) -> Result<Lease<'static, T>> {
        let keeping = policy.keeping_of_metadata(self.is_whole() && !self.evicts_whole);
        let mut was_read = false;
        counters.add(tickers[0], 1);
        let lease = self.slots.load(part, keeping, || {
            was_read = true;
            read()
        })?;
        if was_read {
            count_addition(counters, &lease, tickers);
        }
        Ok(lease)
    }

    #[cfg(test)]
    pub fn evict(&self, part: usize) {
        self.slots.evict(part);
    }

    pub fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes() + self.top.as_ref().map_or(0, Top::heap_bytes)
    }
}

/// Counts the addition of a value that was read, if the cache kept it.
pub(super) fn count_addition<T: Cached>(
    counters: &Counters,
    lease: &Lease<'_, T>,
    tickers: LoadTickers,
) {
    if lease.resident().was_cached() {
        counters.add(tickers[1], 1);
        counters.add(tickers[2], lease.resident().charge_bytes() as u64);
    }
}

/// Reads the top of an index or filter. `None`: the top is damaged, or lists no parts.
pub(super) fn read_top(
    file: &BlockFile,
    handle: BlockHandle,
    form: IndexForm,
) -> Result<Option<Index>> {
    // The blocks of the index may store the first key of each data block. A top stores none.
    let mut parser = IndexParser::new(IndexForm { first_keys: false, ..form }, file.limit());
    let block = match file.read_metadata_block(handle) {
        Err(Error::Corruption { .. }) => return Ok(None),
        block => block?,
    };
    match parser.add(&block) {
        Ok(()) if !parser.handles().is_empty() => Ok(Some(parser.finish(LineBuf::zeroed))),
        _ => Ok(None),
    }
}
