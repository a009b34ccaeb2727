//! Reads the parts of filters or indexes that lookups need and that are not in memory, many at the
//! same time.
//!
//! As in [`super::blocks`], no guard is held, and two calls may read the same part.

use crate::cache::slots::{Cached, Lease};
use crate::error::Result;
use crate::fs::{OverlappedReader, ReadBuffer, ReadRequest};
use crate::stats::Ticker;
use crate::table::Table;
use crate::table::filter::source::TableFilter;
use crate::table::format::file::StoredBlock;
use crate::table::source::Source;
use crate::table::table_index::TableIndex;

/// What [`read_parts`] can read: a filter or an index, whole, or a part of it.
pub(super) trait MetadataPart: Cached + Sized {
    /// The ticker that counts a use of a part in memory.
    const HIT: Ticker;

    fn source(table: &Table) -> &Source<Self>;

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

    fn source(table: &Table) -> &Source<TableFilter> {
        &table.filter.parts
    }

    fn load(
        table: &Table,
        part: usize,
        stored: Option<StoredBlock>,
    ) -> Result<Lease<'static, Self>> {
        match stored {
            Some(block) => table.filter.load_from(table.block_file(), part, |_| Ok(block)),
            None => table.filter.part(table.block_file(), part),
        }
    }
}

impl MetadataPart for TableIndex {
    const HIT: Ticker = Ticker::BlockCacheIndexHit;

    fn source(table: &Table) -> &Source<TableIndex> {
        &table.index
    }

    fn load(
        table: &Table,
        part: usize,
        stored: Option<StoredBlock>,
    ) -> Result<Lease<'static, Self>> {
        match stored {
            Some(block) => table.load_index_from(part, |_| Ok(block)),
            None => table.index_part(part),
        }
    }
}

/// Reads parts that were not in memory a moment ago, and caches them. A part that `wanted` lists
/// several times is read once. Parts are read at the same time; then whole filters and
/// indexes are read one after the other. The results are in the order of `wanted`. Hold no guard.
pub(super) fn read_parts<T: MetadataPart>(
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
        if T::source(table).is_whole() || first_of(i).is_some() {
            continue;
        }
        let handle = T::source(table).handle(part);
        // A part that does not fit into the file, or into memory, fails when it is loaded below.
        let Ok(bytes) = table.block_file().stored_bytes(handle) else { continue };
        let buffer = ReadBuffer::in_front_of(table.cache().buffer(bytes), bytes);
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
