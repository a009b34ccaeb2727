//! [`TableBuilder`]: writes a table, front to back, from internal keys in order.
//!
//! ```text
//! (add | add_range)* finish
//!
//! add        data blocks, as they fill; key hashes to the filter's builder; separators to the index's
//! add_range  range deletions, kept until the end
//! finish     filter | index | range deletions | properties | metaindex | footer | fsync
//!            or, with filter and index in parts:
//!            parts of both in turn | top of the filter | top of the index | range deletions | …
//! ```
//!
//! The filter follows the data because its size depends on the number of keys. The index follows
//! the data because its form depends on all blocks: if two blocks hold versions of one user key,
//! **all** separators are internal keys, and otherwise user keys. Parts of filter and index are
//! read separately, so that a lookup need not read all of either ([`MetadataForm`]). A *top* is the
//! block that lists the parts. The tops follow all parts, so that one read gets them and everything
//! after them when the table is opened.
//!
//! The file has format_version 5 and XXH3 checksums. Every RocksDB since 6.27 reads it. Only a table
//! that gets another filter keeps what it has ([`refilter`]).

mod cuts;
mod parted;
mod properties;
pub(in crate::table) mod refilter;

use std::collections::BTreeMap;

use super::format::identity::Creator;
use crate::encoding::coding::put_fixed32;
use crate::encoding::hash::hash64;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, MAX_SEQUENCE, SequenceNumber, TRAILER_BYTES};
use crate::error::{Error, Result};
use crate::filter::{FilterBlock, FilterBuilder, FilterSpec};
use crate::fs::WritableFile;
use crate::range_tombstones::RangeTombstone;
use crate::sync::time::Instant;

use super::block::builder::{BlockBuilder, MAX_ENTRY_BYTES};
use super::filter::info::FilterInfo;
use super::filter::prefix::{FilterKeys, PrefixExtractor};
use super::format::compression::{Compression, Compressor};
use super::format::footer::{BLOCK_TRAILER_BYTES, BlockHandle, Footer};
use super::format::limits::most_metadata_bytes;
use super::format::padding::padding_before;
use super::format::properties::IndexForm;
use super::garbage::Counting;
use super::index::builder::IndexBuilder;
use super::open::{INDEX_BLOCK, PROPERTIES_BLOCK, RANGE_DEL_BLOCK, tail_bytes, tail_start};
use super::options::{Dialect, MetadataForm, TableOptions, TableSummary};
use super::range_del::RangeBlockBuilder;
use cuts::{BuiltFilter, Cuts, PART_BYTES, WrittenIndex};

/// A block that has more than this percentage of the block size ends before an entry that would
/// make it larger than the block size. The rule is RocksDB's.
const EARLY_CUT_PERCENT: usize = 90;

/// Writes one table. After an error the file is incomplete: drop the builder and remove the file.
pub(crate) struct TableBuilder {
    file: Box<dyn WritableFile>,
    /// The format version and the checksums of the table. The handles are set at the end.
    footer: Footer,
    options: TableOptions,
    dialect: Dialect,
    creator: Option<Creator>,
    compressor: Compressor,
    /// The compressed form of the block being written; kept so that its memory is reused.
    compressed: Vec<u8>,
    data: BlockBuilder,
    filter: FilterBuilder,
    index: IndexBuilder,
    /// `None`: filter and index are written whole.
    cuts: Option<Cuts>,
    ranges: RangeBlockBuilder,
    counting: Counting,
    summary: TableSummary,
}

impl TableBuilder {
    /// A builder that writes to `file`, which must be empty.
    pub fn new(
        file: Box<dyn WritableFile>,
        options: TableOptions,
        dialect: Dialect,
    ) -> Result<TableBuilder> {
        if options.block_bytes == 0 || options.block_bytes > MAX_ENTRY_BYTES {
            let range = format!("block_bytes is {}, not 1 to 2^30", options.block_bytes);
            return Err(Error::InvalidArgument(range));
        }
        if options.restart_interval == 0 {
            return Err(Error::InvalidArgument("restart_interval is 0, not 1 or more".into()));
        }
        let compressor = Compressor::new(options.compression)
            .map_err(|what| Error::InvalidArgument(format!("not supported: {what}")))?;
        Ok(TableBuilder {
            compressor,
            compressed: Vec::new(),
            data: BlockBuilder::new(options.restart_interval),
            filter: FilterBuilder::new(options.filter),
            index: IndexBuilder::default(),
            cuts: (options.metadata == MetadataForm::Parts).then(|| Cuts::new(PART_BYTES)),
            ranges: RangeBlockBuilder::new(),
            counting: Counting::default(),
            summary: TableSummary { smallest_sequence: MAX_SEQUENCE, ..TableSummary::default() },
            file,
            footer: Footer::written(BlockHandle::default(), BlockHandle::default()),
            options,
            dialect,
            creator: None,
        })
    }

    /// Sets the creator of the table, whose identities the properties record.
    pub fn created_by(self, creator: &Creator) -> TableBuilder {
        TableBuilder { creator: Some(creator.clone()), ..self }
    }

    /// Cuts filter and index into parts of about `bytes` bytes.
    #[cfg(any(test, fuzzing))]
    pub fn with_parts_of(self, bytes: usize) -> TableBuilder {
        TableBuilder { cuts: Some(Cuts::new(bytes)), ..self }
    }

    /// Adds an entry. Internal keys must be strictly ascending.
    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let repeats = self.check(internal_key, value)?;
        self.counting.see(internal_key, value.len(), repeats);
        let user_key = key::user_key(internal_key);
        if self.block_is_full(internal_key, value) {
            self.end_data_block(Some(user_key))?;
        }
        if let Some(cuts) = &mut self.cuts {
            cuts.keys += usize::from(!repeats);
        }
        self.add_to_filter(user_key);
        self.data.add(internal_key, value);
        let summary = &mut self.summary;
        if summary.entries == summary.range_deletions {
            summary.smallest = internal_key.to_vec();
        }
        summary.entries += 1;
        summary.raw_key_bytes += internal_key.len() as u64;
        summary.raw_value_bytes += value.len() as u64;
        let kind = EntryKind::from_byte(key::kind_byte(internal_key));
        let is_tombstone = matches!(kind, Some(EntryKind::Deletion | EntryKind::SingleDeletion));
        summary.deletions += u64::from(is_tombstone);
        summary.see(key::sequence(internal_key));
        Ok(())
    }

    /// Sets two properties of the table's deletions: when the oldest deletion was flushed, in
    /// seconds since 1970, and about how many bytes of older tables the range deletions hide.
    pub fn describe_deletions(&mut self, oldest_deletion: u64, range_hides_bytes: u64) {
        self.summary.garbage.oldest_deletion = oldest_deletion;
        self.summary.garbage.range_hides_bytes = range_hides_bytes;
    }

    /// Raises the largest sequence number that the table records to at least `sequence`, although no
    /// entry may have it.
    pub fn raise_largest_sequence(&mut self, sequence: SequenceNumber) {
        self.summary.see_up_to(sequence);
    }

    /// Adds a range deletion, before, between or after the entries. The internal keys of range
    /// deletions must not descend, and no range may be empty.
    pub fn add_range(&mut self, range: RangeTombstone<'_>) -> Result<()> {
        self.ranges.add(range)?;
        let summary = &mut self.summary;
        summary.entries += 1;
        summary.deletions += 1;
        summary.range_deletions += 1;
        summary.raw_key_bytes += (range.start.len() + TRAILER_BYTES) as u64;
        summary.raw_value_bytes += range.end.len() as u64;
        summary.see(range.sequence);
        Ok(())
    }

    /// Adds the hashes that the filter is to hold for a key: of the whole key, of its prefix, or of
    /// both. As in RocksDB, nothing is added for the prefix if the key is outside of the
    /// extractor's domain.
    #[inline]
    fn add_to_filter(&mut self, user_key: &[u8]) {
        let prefix_hash = |extractor: PrefixExtractor| extractor.prefix_of(user_key).map(hash64);
        match self.options.filter_keys {
            FilterKeys::Whole => self.filter.add(hash64(user_key)),
            FilterKeys::Prefix(extractor) => {
                prefix_hash(extractor).into_iter().for_each(|hash| self.filter.add(hash));
            }
            FilterKeys::Both(extractor) => match prefix_hash(extractor) {
                Some(prefix_hash) => self.filter.add_pair(hash64(user_key), prefix_hash),
                None => self.filter.add(hash64(user_key)),
            },
        }
    }

    /// Chooses the filter. Until the end of the table no filter is built, so only the last call
    /// counts.
    pub fn set_filter(&mut self, filter: FilterSpec) {
        self.options.filter = filter;
        let ended = self.cuts.iter_mut().flat_map(|cuts| &mut cuts.filters);
        let parts = ended.map(|(part, _)| part).chain([&mut self.filter]);
        parts.for_each(|part| part.set_spec(filter));
    }

    /// The first and the last user key of the entries; range deletions do not count.
    pub fn point_keys(&self) -> Option<(&[u8], &[u8])> {
        let last = self.last_user_key()?;
        Some((key::user_key(&self.summary.smallest), last))
    }

    /// The user key of the last entry.
    pub fn last_user_key(&self) -> Option<&[u8]> {
        // Between calls of [`Self::add`] the last entry is always in the block that is being
        // filled.
        (!self.data.is_empty()).then(|| key::user_key(self.data.last_key()))
    }

    /// Number of entries added, range deletions included.
    pub fn entries(&self) -> u64 {
        self.summary.entries
    }

    /// Bytes of the file so far, without the data block that is being filled.
    pub fn written_bytes(&self) -> u64 {
        self.file.len()
    }

    /// Bytes of the file so far, with the data block that is being filled.
    pub fn estimated_file_bytes(&self) -> u64 {
        self.file.len() + self.data.estimated_bytes() as u64
    }

    /// Writes the last data block and everything after it, and syncs the file. The caller must sync
    /// the directory to make the file's name durable.
    pub fn finish(mut self) -> Result<TableSummary> {
        if !self.data.is_empty() {
            self.end_data_block(None)?;
        }
        if self.summary.entries == 0 {
            self.summary.smallest_sequence = 0;
        }
        std::mem::take(&mut self.counting).finish(&mut self.summary.garbage);
        if self.summary.deletions == 0 {
            self.summary.garbage.oldest_deletion = 0;
        }
        let data_bytes = self.file.len();
        let filter = self.build_filter();
        let separators = self.index.part_separators();
        let (filter_top, index_top) =
            self.write_parts(filter.as_ref(), &separators, TableBuilder::write_index_part)?;
        let mut metaindex = BTreeMap::new();
        let form = IndexForm {
            two_level: separators.len() > 1,
            first_keys: false,
            user_keys: !self.index.splits_a_user_key(),
            delta_values: true,
        };
        self.write_filter_top(filter, filter_top, form, &mut metaindex)?;
        let index = self.write_index_top(index_top, form)?;
        if !self.ranges.is_empty() {
            metaindex.insert(RANGE_DEL_BLOCK.to_owned(), self.write_ranges()?);
        }
        let properties = self.properties(data_bytes, &index);
        self.end(&properties, metaindex, &index)
    }

    /// Writes properties, metaindex and footer, and syncs the file.
    fn end(
        mut self,
        properties: &BTreeMap<impl AsRef<[u8]>, Vec<u8>>,
        mut metaindex: BTreeMap<String, BlockHandle>,
        index: &WrittenIndex,
    ) -> Result<TableSummary> {
        let mut block = BlockBuilder::new(usize::MAX);
        for (name, value) in properties {
            block.add(name.as_ref(), value);
        }
        let handle = self.write_plain(block.finish())?;
        metaindex.insert(PROPERTIES_BLOCK.to_owned(), handle);
        match &mut self.footer.index {
            Some(handle) => *handle = index.handle,
            None => drop(metaindex.insert(INDEX_BLOCK.to_owned(), index.handle)),
        }
        let mut block = BlockBuilder::new(1);
        for (name, handle) in &metaindex {
            let mut value = Vec::new();
            handle.encode(&mut value);
            block.add(name.as_bytes(), &value);
        }
        let blocks: Vec<_> = metaindex.into_iter().collect();
        self.footer.metaindex = self.write_plain(block.finish())?;
        self.file.append(&self.footer.encode(self.file.len()))?;
        self.file.sync()?;
        self.summary.file_bytes = self.file.len();
        let index_top = (index.parts > 0).then_some(index.handle);
        let start = tail_start(&blocks, self.footer.metaindex, index_top);
        self.summary.tail_bytes = tail_bytes(self.summary.file_bytes, start);
        Ok(self.summary)
    }

    /// Rejects an entry that is too large or out of order. Returns whether the previous entry has
    /// the same user key.
    fn check(&mut self, internal_key: &[u8], value: &[u8]) -> Result<bool> {
        if internal_key.len() + value.len() > MAX_ENTRY_BYTES {
            return Err(Error::InvalidArgument(format!(
                "an entry of {} bytes: key and value may have 2^30 together",
                internal_key.len() + value.len()
            )));
        }
        debug_assert!(internal_key.len() >= TRAILER_BYTES);
        let last = match self.data.is_empty() {
            true => &self.summary.largest[..],
            false => self.data.last_key(),
        };
        let has_points = self.summary.entries > self.summary.range_deletions;
        if has_points && key::compare(last, internal_key).is_ge() {
            return Err(Error::InvalidArgument(format!(
                "keys out of order: \"{}\" after \"{}\"",
                key::user_key(internal_key).escape_ascii(),
                key::user_key(last).escape_ascii()
            )));
        }
        Ok(has_points && key::user_key(last) == key::user_key(internal_key))
    }

    /// Whether the entry must begin a new block. The size of a block includes its trailer, as in
    /// RocksDB with `block_align`, because a page is to hold a block with its trailer.
    fn block_is_full(&self, key: &[u8], value: &[u8]) -> bool {
        if self.data.is_empty() {
            return false;
        }
        let current = self.data.estimated_bytes();
        // The lengths of the entry take about 4 bytes.
        let with_entry = current + key.len() + value.len() + 4 + BLOCK_TRAILER_BYTES;
        let limit = self.options.block_bytes;
        current >= limit
            || (with_entry > limit && current > (limit * EARLY_CUT_PERCENT).div_ceil(100))
    }

    /// Writes the data block. `next_user_key` is the user key that begins the next block, if there
    /// is one.
    fn end_data_block(&mut self, next_user_key: Option<&[u8]>) -> Result<()> {
        self.summary.largest.clear();
        self.summary.largest.extend_from_slice(self.data.last_key());
        let block = self.data.finish();
        let compression = self.compressor.compress(block, &mut self.compressed);
        let stored = if compression == Compression::None { block } else { &self.compressed };
        let stored_bytes = (stored.len() + BLOCK_TRAILER_BYTES) as u64;
        self.file.append(padding_before(self.file.len(), stored_bytes))?;
        let handle = write_block(&mut *self.file, &self.footer, stored, compression)?;
        self.data.clear();
        self.summary.data_blocks += 1;
        self.index.push(&self.summary.largest, next_user_key, handle)?;
        if let Some(next) = next_user_key {
            self.cut_part(next);
        }
        Ok(())
    }

    /// Writes a block that is not compressed.
    fn write_plain(&mut self, payload: &[u8]) -> Result<BlockHandle> {
        write_block(&mut *self.file, &self.footer, payload, Compression::None)
    }

    fn build_filter(&mut self) -> Option<BuiltFilter> {
        let asked_for = self.options.filter.family();
        let start = Instant::now();
        let (parts, ends) = self.take_filter_parts();
        let (blocks, failed) = FilterBuilder::finish_parts(&parts);
        self.summary.failed_filter_builds = failed;
        let blocks = blocks?;
        let keys: u64 = blocks.iter().map(FilterBlock::keys).sum();
        let positives = blocks.iter().map(|block| block.predicted_fpr() * block.keys() as f64);
        self.summary.filter = Some(FilterInfo {
            family: Some(blocks[0].family()),
            bytes: blocks.iter().map(|block| block.bytes().len() as u64).sum(),
            keys,
            predicted_fpr: Some(match &blocks[..] {
                [block] => block.predicted_fpr(),
                _ => positives.sum::<f64>() / keys as f64,
            }),
        });
        let as_asked = |block: &FilterBlock| asked_for == Some(block.family());
        self.summary.filter_fell_back = !blocks.iter().all(as_asked);
        self.summary.filter_build_time = start.elapsed();
        Some(BuiltFilter { blocks, ends })
    }

    /// Writes the index, or a part of it.
    fn write_index_block(&mut self, mut block: BlockBuilder) -> Result<BlockHandle> {
        let block = block.finish();
        // A reader rejects an index that is larger than `most_metadata_bytes` after it is
        // uncompressed. An index that is stored uncompressed is never too large, because it is
        // smaller than its file.
        let is_too_large = block.len() as u64 > most_metadata_bytes(self.file.len());
        let compression = match is_too_large {
            true => Compression::None,
            false => self.compressor.compress(block, &mut self.compressed),
        };
        let stored = if compression == Compression::None { block } else { &self.compressed };
        write_block(&mut *self.file, &self.footer, stored, compression)
    }

    /// Writes the range deletions, and widens the summary's bounds to include them.
    fn write_ranges(&mut self) -> Result<BlockHandle> {
        let (block, first, end) = self.ranges.finish();
        let handle = write_block(&mut *self.file, &self.footer, block, Compression::None)?;
        let summary = &mut self.summary;
        let has_points = summary.entries > summary.range_deletions;
        if !has_points || key::compare(&first, &summary.smallest).is_lt() {
            summary.smallest = first;
        }
        if !has_points || key::compare(&end, &summary.largest).is_gt() {
            summary.largest = end;
        }
        Ok(handle)
    }
}

impl TableSummary {
    fn see(&mut self, sequence: SequenceNumber) {
        self.smallest_sequence = self.smallest_sequence.min(sequence);
        self.see_up_to(sequence);
    }

    fn see_up_to(&mut self, sequence: SequenceNumber) {
        self.largest_sequence = self.largest_sequence.max(sequence);
    }
}

/// Appends payload and trailer.
fn write_block(
    file: &mut dyn WritableFile,
    footer: &Footer,
    payload: &[u8],
    compression: Compression,
) -> Result<BlockHandle> {
    let handle = BlockHandle { offset: file.len(), bytes: payload.len() as u64 };
    let mut trailer = Vec::with_capacity(BLOCK_TRAILER_BYTES);
    let kind = compression.to_byte();
    trailer.push(kind);
    put_fixed32(&mut trailer, footer.checksum_of_parts(payload, kind, handle.offset));
    file.append(payload)?;
    file.append(&trailer)?;
    Ok(handle)
}
