//! [`Table::refilter`]: the same table with another filter.
//!
//! ```text
//! data blocks | filter | index  | range deletions | properties             | metaindex | footer
//!   copied      new      copied   copied            copied, except those     new         new
//!                                                   of the filter: new
//! ```
//!
//! If the index is in parts, the parts are copied, and the new filter is cut where parts of the
//! index end ([`super::parted`]). The tops, which list the parts of filter and index, are new,
//! because the parts are at other offsets.
//!
//! Every data block keeps its offset, so the index and the checksums of the copied blocks remain
//! valid. For a table of this crate the result is byte for byte the table that [`TableBuilder`]
//! writes from the same entries with the other filter.
//!
//! A table is rejected if its layout is not this crate's: if it has another format version or
//! checksum, another form of index, or other gaps between its data blocks.

use std::collections::BTreeMap;

use crate::encoding::key;
use crate::error::Result;
use crate::filter::FilterSpec;
use crate::fs::WritableFile;
use crate::memory::LineBuf;
use crate::table::block::cursor::BlockCursor;
use crate::table::cursor::read_ahead::WholeScan;
use crate::table::filter::prefix::FilterKeys;
use crate::table::format::checksum::ChecksumKind;
use crate::table::format::compression::Compression;
use crate::table::format::file::StoredBlock;
use crate::table::format::footer::{BlockHandle, WRITTEN_VERSION, unsupported};
use crate::table::format::padding::padding_to_page;
use crate::table::index::Index;
use crate::table::open::PROPERTIES_BLOCK;
use crate::table::options::{Dialect, MetadataForm, TableOptions, TableSummary};
use crate::table::table::Table;

use super::TableBuilder;

impl Table {
    /// Writes this table to `file`, which must be empty, with a filter that `filter` and
    /// `filter_keys` specify. Reads all of the table, and checks the checksum of each block that is
    /// copied. The returned summary has only the file's sizes and the filter's figures.
    pub(crate) fn refilter(
        &self,
        file: Box<dyn WritableFile>,
        filter: FilterSpec,
        filter_keys: FilterKeys,
    ) -> Result<TableSummary> {
        self.check_layout()?;
        let options = TableOptions {
            filter,
            filter_keys,
            compression: Compression::None,
            metadata: match self.index.is_whole() {
                true => MetadataForm::Whole,
                false => MetadataForm::Parts,
            },
            ..TableOptions::default()
        };
        let mut new = TableBuilder::new(file, options, Dialect::External)?;
        let index = self.read_index(LineBuf::zeroed)?;
        let mut blocks = WholeScan::new(self.block_file(), &index);
        let mut last_key = Vec::new();
        for i in 0..index.len() {
            let part = self.index_part_of_separator(&index, i);
            let starts_part = i > 0 && part != self.index_part_of_separator(&index, i - 1);
            self.copy_data_block(blocks.read_stored(i)?, starts_part, &mut last_key, &mut new)?;
        }
        let filter = new.build_filter();
        let parts = 0..self.index.parts();
        let separators: Vec<_> = match self.index.separators() {
            None => vec![Default::default()],
            Some(top) => parts
                .map(|part| top.separator(part))
                .map(|(user_key, trailer)| (user_key.to_vec(), trailer))
                .collect(),
        };
        let (filter_top, index_top) =
            new.write_parts(filter.as_ref(), &separators, |new, part| {
                new.copy(&self.read_checked(self.index.handle(part))?)
            })?;
        let user_keys = self.index_form().user_keys;
        let mut metaindex = BTreeMap::new();
        new.write_filter_top(filter, filter_top, user_keys, &mut metaindex)?;
        let is_in_parts = !self.index.is_whole();
        let new_index = new.write_index_top(index_top, user_keys)?.handle;
        for (name, handle) in self.metaindex() {
            if !is_filter(name) && name != PROPERTIES_BLOCK {
                metaindex.insert(name.clone(), new.copy(&self.read_checked(*handle)?)?);
            }
        }
        let mut properties: BTreeMap<&[u8], Vec<u8>> =
            self.properties().raw_entries().map(|(name, raw)| (name, raw.to_vec())).collect();
        for (name, value) in new.filter_properties() {
            match value {
                Some(value) => properties.insert(name.as_bytes(), value),
                None => properties.remove(name.as_bytes()),
            };
        }
        new.end(&properties, metaindex, new_index, is_in_parts)
    }

    /// Rejects a table that is not of this crate's layout.
    fn check_layout(&self) -> Result<()> {
        let (footer, form) = (self.footer(), self.index_form());
        let is_plain = footer.format_version == WRITTEN_VERSION
            && footer.checksum == ChecksumKind::Xxh3
            && footer.index.is_some()
            && !form.first_keys
            && form.delta_values
            && form.two_level != self.index.is_whole();
        match is_plain {
            true => Ok(()),
            false => Err(self.cannot_refilter("its format version, checksums or index are others")),
        }
    }

    /// The part of the index that has separator `i` of the whole index.
    fn index_part_of_separator(&self, index: &Index, i: usize) -> usize {
        let (user_key, trailer) = index.separator(i);
        self.index_part_of(user_key, trailer)
    }

    fn cannot_refilter(&self, why: &str) -> crate::Error {
        let what = format_args!("another filter in this table: {why} than this version writes");
        unsupported(self.block_file().path(), what)
    }

    /// Reads a block as it is stored, and checks its checksum.
    pub(in crate::table) fn read_checked(&self, handle: BlockHandle) -> Result<StoredBlock> {
        let stored = self.block_file().read_stored(handle, LineBuf::zeroed)?;
        self.block_file().check(&stored)?;
        Ok(stored)
    }

    /// Copies a block and adds its keys to the filter. `starts_part`: whether a part of the index
    /// starts with this block. `last_key` is the last user key copied so far.
    fn copy_data_block(
        &self,
        stored: StoredBlock,
        starts_part: bool,
        last_key: &mut Vec<u8>,
        new: &mut TableBuilder,
    ) -> Result<()> {
        let handle = stored.handle();
        self.block_file().check(&stored)?;
        if new.file.len() != handle.offset {
            new.file.append(padding_to_page(new.file.len()))?;
        }
        if new.copy(&stored)? != handle {
            return Err(self.cannot_refilter("its data blocks lie otherwise"));
        }
        let file = self.block_file();
        let damaged = |damage| file.damaged(damage, handle);
        let payload = file.uncompress(stored, LineBuf::zeroed)?;
        let block = file.data_block(payload, handle)?;
        let mut cursor = BlockCursor::new(&block, None);
        cursor.seek_to_first().map_err(damaged)?;
        if starts_part && cursor.valid() {
            new.end_part(last_key, key::user_key(cursor.key()));
        }
        while cursor.valid() {
            let user_key = key::user_key(cursor.key());
            new.add_to_filter(user_key);
            last_key.clear();
            last_key.extend_from_slice(user_key);
            cursor.next().map_err(damaged)?;
        }
        Ok(())
    }
}

impl TableBuilder {
    /// Appends a block as it is stored.
    fn copy(&mut self, stored: &StoredBlock) -> Result<BlockHandle> {
        let handle = BlockHandle { offset: self.file.len(), bytes: stored.payload().len() as u64 };
        self.file.append(stored.bytes())?;
        Ok(handle)
    }
}

/// Whether a name in the metaindex is that of a filter, of whatever kind.
fn is_filter(name: &str) -> bool {
    ["fullfilter.", "partitionedfilter.", "filter."].iter().any(|kind| name.starts_with(kind))
}
