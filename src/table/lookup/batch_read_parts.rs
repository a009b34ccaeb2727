//! Reads the parts of filters or indexes that lookups need and that are not in memory, many at the
//! same time.
//!
//! As in [`super::batch_read`], no guard is held, and two calls may read the same part.

use crate::cache::slots::{Cached, Lease};
use crate::error::Result;
use crate::fs::{OverlappedReader, ReadBuffer, ReadRequest};
use crate::stats::{ThreadTickers, Ticker};
use crate::table::filter::block::TableFilter;
use crate::table::format::file::StoredBlock;
use crate::table::format::footer::BlockHandle;
use crate::table::table::Table;
use crate::table::table_index::TableIndex;

use super::key::LookupKey;

/// What [`batch_read_parts`] can read: a filter or an index, whole, or a part of it.
pub(crate) trait MetadataPart: Cached + Sized {
    /// The ticker that counts a use of a part in memory.
    const HIT: Ticker;

    /// Where part `part` is in the file. `None`: the filter or index is whole.
    fn handle(table: &Table, part: usize) -> Option<BlockHandle>;

    /// Loads part `part` through the cache: from its stored bytes, or by a read if `stored` is
    /// `None`.
    fn load(
        table: &Table,
        part: usize,
        stored: Option<StoredBlock>,
    ) -> Result<Lease<'static, Self>>;
}

impl MetadataPart for TableFilter {
    const HIT: Ticker = Ticker::BlockCacheFilterHit;

    fn handle(table: &Table, part: usize) -> Option<BlockHandle> {
        table.filter_part_handle(part)
    }

    fn load(
        table: &Table,
        part: usize,
        stored: Option<StoredBlock>,
    ) -> Result<Lease<'static, Self>> {
        match (stored, table.any_filter()) {
            (Some(block), Some(filter)) => table.load_filter_from(filter, part, |_| Ok(block)),
            _ => table.filter_part(part),
        }
    }
}

impl MetadataPart for TableIndex {
    const HIT: Ticker = Ticker::BlockCacheIndexHit;

    fn handle(table: &Table, part: usize) -> Option<BlockHandle> {
        table.index_top.as_ref().map(|top| top.handle(part))
    }

    fn load(
        table: &Table,
        part: usize,
        stored: Option<StoredBlock>,
    ) -> Result<Lease<'static, Self>> {
        match stored {
            Some(block) => table.load_index_from(part, |_| Ok(block)),
            None => table.index(part),
        }
    }
}

impl Table {
    /// The part of the filter that a lookup should read and query. `None` if the lookup cannot query
    /// the filter, or passes the part by because it is not worth a read ([`super::admission`]). Hold
    /// no guard.
    pub fn filter_part_to_ask(
        &self,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
    ) -> Option<usize> {
        self.filter_key_of(key)?;
        let part = self.filter_part_of(key);
        let is_read = self.reads_filter_part(part, false);
        if !is_read {
            tickers.add(Ticker::BloomPassedBy, 1);
        }
        is_read.then_some(part)
    }

    /// Whether `filter`, the part that [`Table::filter_part_to_ask`] returned, says "maybe".
    /// `filter` is `None` if the part could not be read.
    pub fn asked_filter_says_maybe(
        &self,
        filter: Option<&TableFilter>,
        key: &LookupKey<'_>,
        tickers: ThreadTickers<'_>,
    ) -> bool {
        let maybe = self.read_filter_says_maybe(filter, key, tickers, ());
        self.read_filter_answered(self.filter_part_of(key), false, maybe);
        maybe
    }
}

/// Reads parts that were not in memory a moment ago, and caches them. A part that `wanted` lists
/// several times is read once. Parts are read at the same time; then whole filters and
/// indexes are read one after the other. The results are in the order of `wanted`. Hold no guard.
pub(crate) fn batch_read_parts<T: MetadataPart>(
    reader: &OverlappedReader,
    wanted: &[(&Table, usize)],
) -> Vec<Result<Lease<'static, T>>> {
    let is_same = |&(table, part): &(&Table, usize), other: &(&Table, usize)| {
        std::ptr::eq(table, other.0) && part == other.1
    };
    let first_of = |i: usize| wanted[..i].iter().position(|other| is_same(other, &wanted[i]));
    let mut read: Vec<Option<Result<Lease<'static, T>>>> = wanted.iter().map(|_| None).collect();
    let (mut places, mut requests) = (Vec::new(), Vec::new());
    for (i, &(table, part)) in wanted.iter().enumerate() {
        let Some(handle) = T::handle(table, part).filter(|_| first_of(i).is_none()) else {
            continue;
        };
        // A part that does not fit into the file, or into memory, fails when it is loaded below.
        let Ok(bytes) = table.block_file().stored_bytes(handle) else { continue };
        let buffer = ReadBuffer::in_front_of(table.cache.buffer(bytes), bytes);
        table.block_file().count_read(bytes);
        requests.push(ReadRequest {
            file: table.block_file().file(),
            offset: handle.offset,
            buffer,
        });
        places.push((i, handle));
    }
    reader.read_many(&mut requests.into_iter(), &mut |n, bytes| {
        let (i, handle) = places[n];
        let (table, part) = wanted[i];
        let stored = bytes.map(|bytes| StoredBlock::new(bytes.into_memory(), handle));
        read[i] = Some(stored.and_then(|stored| T::load(table, part, Some(stored))));
    });
    for i in 0..wanted.len() {
        let (table, part) = wanted[i];
        let result = match first_of(i).and_then(|first| read[first].as_ref()) {
            Some(Ok(lease)) => {
                table.count(T::HIT);
                Ok(lease.share())
            }
            Some(Err(error)) => Err(error.clone()),
            None => read[i].take().unwrap_or_else(|| T::load(table, part, None)),
        };
        read[i] = Some(result);
    }
    read.into_iter().map(|result| result.expect("each was read")).collect()
}
