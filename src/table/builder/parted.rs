//! The filter and the index of a table, cut into parts.
//!
//! ```text
//! data blocks      … │ … │ … │ … │ … │ … │ …
//! index parts      └──── 0 ───┘└── 1 ──┘└─ 2 ─┘        each ends with a data block, and between
//!                                                      two different user keys
//! filter parts     └────────── 0 ──────┘└─ 1 ─┘        each ends where a part of the index ends
//! file             … | filter 0 | index 0 | index 1 | filter 1 | index 2 | …
//! ```
//!
//! A part of the index ends when it is as large as a part should be, or when it has as many keys as
//! a filter of that size holds. The filter is cut at the same key only if the current filter part
//! has at least half as many keys as a filter part may have. So one filter part may cover several
//! index parts, as with large values, whose index has more bytes than the filter. Where the index
//! is cut does not depend on the family of the filter, so a table can get another filter and keep
//! its index.
//!
//! A lookup finds a filter part by the whole key, and queries it for that key or for its prefix. A
//! cursor queries all parts of its range for a prefix. A cursor of RocksDB queries only the part of
//! one key, although the prefix that it wants may be on the other side of a cut. So that it finds
//! the prefix all the same, the prefixes of the two keys next to a cut are added to the filter
//! parts on both sides of the cut, as in RocksDB.

use std::collections::BTreeMap;

use crate::encoding::hash::hash64;
use crate::encoding::key;
use crate::error::Result;
use crate::filter::FilterBuilder;
use crate::table::block::builder::BlockBuilder;
use crate::table::format::footer::{BLOCK_TRAILER_BYTES, BlockHandle};
use crate::table::format::properties::IndexForm;
use crate::table::index::builder::write_entries;

use super::TableBuilder;
use super::cuts::{BuiltFilter, MIN_SHARE, Top, WrittenIndex};

impl TableBuilder {
    /// Ends the current part of the index if it is large enough. Called after each data block but
    /// the last. `next` is the user key that begins the next block.
    pub(super) fn cut_part(&mut self, next: &[u8]) {
        let Some(cuts) = &mut self.cuts else { return };
        let last = key::user_key(&self.summary.largest);
        let is_full =
            self.index.part_bytes() >= cuts.most_index_bytes || cuts.keys >= cuts.most_keys;
        // All versions of a key must be in one part.
        if !is_full || last == next {
            return;
        }
        cuts.keys = 0;
        let last = last.to_vec();
        self.end_part(&last, next);
    }

    /// Ends the current part of the index between the user keys `last` and `next`. Also ends the
    /// current part of the filter, unless that part is small.
    pub(super) fn end_part(&mut self, last: &[u8], next: &[u8]) {
        self.index.end_part();
        let Some(cuts) = &mut self.cuts else { return };
        if self.filter.len() < cuts.most_keys / 2 {
            return;
        }
        let extractor = self.options.filter_keys.prefix_extractor();
        let prefix_hash = |key| Some(hash64(extractor?.prefix_of(key)?));
        prefix_hash(next).into_iter().for_each(|hash| self.filter.add(hash));
        let mut filter = FilterBuilder::new(self.options.filter);
        prefix_hash(last).into_iter().for_each(|hash| filter.add(hash));
        let ended = std::mem::replace(&mut self.filter, filter);
        cuts.filters.push((ended, self.index.ended_parts()));
    }

    /// Takes the builders of all filter parts. If the last part is small, joins it to the part
    /// before. Also returns, for each filter part, the number of index parts that end where the
    /// filter part ends, or before.
    pub(super) fn take_filter_parts(&mut self) -> (Vec<FilterBuilder>, Vec<usize>) {
        let last = std::mem::replace(&mut self.filter, FilterBuilder::new(self.options.filter));
        let parts = self.index.ended_parts() + 1;
        let Some(cuts) = &mut self.cuts else { return (vec![last], vec![parts]) };
        let ended = std::mem::take(&mut cuts.filters);
        let (mut filters, mut ends): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
        match (filters.last_mut(), ends.last_mut()) {
            (Some(before), Some(end)) if last.len() < cuts.most_keys / MIN_SHARE => {
                before.append(&last);
                *end = parts;
            }
            _ => {
                filters.push(last);
                ends.push(parts);
            }
        }
        (filters, ends)
    }

    /// Writes filter and index, whole or in parts. Each part of the filter is in front of the parts
    /// of the index that lead to its keys, so that one read can get a part of each. `separators`
    /// are those of the index parts. Returns the entries of the filter's top and of the index's
    /// top.
    pub(super) fn write_parts(
        &mut self,
        filter: Option<&BuiltFilter>,
        separators: &[(Vec<u8>, u64)],
        mut write_index_part: impl FnMut(&mut TableBuilder, usize) -> Result<BlockHandle>,
    ) -> Result<(Top, Top)> {
        let (mut filter_top, mut index_top) = (Top::new(), Top::new());
        let mut parts = filter.iter().flat_map(|filter| filter.blocks.iter().zip(&filter.ends));
        let mut filtered = 0;
        for (part, (user_key, trailer)) in separators.iter().enumerate() {
            if part == filtered
                && let Some((block, &end)) = parts.next()
            {
                let handle = self.write_plain(block.bytes())?;
                let (user_key, trailer) = &separators[end - 1];
                filter_top.push((user_key.clone(), *trailer, handle));
                filtered = end;
            }
            index_top.push((user_key.clone(), *trailer, write_index_part(self, part)?));
        }
        Ok((filter_top, index_top))
    }

    /// Writes part `part` of the index; a whole index is part 0.
    pub(super) fn write_index_part(&mut self, part: usize) -> Result<BlockHandle> {
        let mut block = BlockBuilder::for_index();
        self.index.write_part_to(part, &mut block);
        self.write_index_block(block)
    }

    /// Writes the top of the filter, if the filter has several parts, and adds the filter to the
    /// metaindex. `form`: that of the index, whose separators the top has too.
    pub(super) fn write_filter_top(
        &mut self,
        filter: Option<BuiltFilter>,
        top: Top,
        form: IndexForm,
        metaindex: &mut BTreeMap<String, BlockHandle>,
    ) -> Result<()> {
        let Some(filter) = filter else { return Ok(()) };
        let handle = match &top[..] {
            [(.., handle)] => *handle,
            _ => self.write_top(&top, form)?,
        };
        if let (true, Some(info)) = (top.len() > 1, &mut self.summary.filter) {
            info.bytes += handle.bytes;
        }
        metaindex.insert(filter.metaindex_name(), handle);
        Ok(())
    }

    /// Writes the top of the index, if the index is in parts.
    pub(super) fn write_index_top(&mut self, top: Top, form: IndexForm) -> Result<WrittenIndex> {
        let stored_bytes = |handle: &BlockHandle| handle.bytes + BLOCK_TRAILER_BYTES as u64;
        let parts_bytes = top.iter().map(|(.., handle)| stored_bytes(handle)).sum();
        if let ([(.., handle)], false) = (&top[..], form.two_level) {
            let handle = *handle;
            return Ok(WrittenIndex { handle, bytes: parts_bytes, parts: 0, top_bytes: 0 });
        }
        let handle = self.write_top(&top, form)?;
        let top_bytes = stored_bytes(&handle);
        Ok(WrittenIndex { handle, bytes: parts_bytes + top_bytes, parts: top.len(), top_bytes })
    }

    fn write_top(&mut self, top: &Top, form: IndexForm) -> Result<BlockHandle> {
        let mut block = match form.delta_values {
            true => BlockBuilder::for_index(),
            false => BlockBuilder::new(1),
        };
        let entries = top.iter().map(|(user_key, trailer, at)| (&user_key[..], *trailer, *at));
        write_entries(entries, form.user_keys, &mut block);
        // A top is not compressed, because it is small and is read whenever the table is opened.
        self.write_plain(block.finish())
    }
}
