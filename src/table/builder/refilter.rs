//! [`Table::refilter`]: the same table with another filter.
//!
//! ```text
//! data blocks | filter | index  | range deletions | properties          | metaindex | footer
//!   copied      new      copied   copied            the filter's are new   new         new
//! ```
//!
//! Every data block stays where it was, so the index and the checksums of what is copied stay right.
//! What comes out is byte for byte what [`TableBuilder`] writes from the same entries with the other
//! filter.
//!
//! Tables of other layouts than this crate's are refused: index partitions, other gaps between data
//! blocks, checksums that depend on the position.

use std::collections::BTreeMap;

use crate::encoding::key;
use crate::error::Result;
use crate::filter::FilterSpec;
use crate::fs::WritableFile;
use crate::memory::LineBuf;
use crate::table::block::Block;
use crate::table::block::cursor::BlockCursor;
use crate::table::cursor::read_ahead::WholeScan;
use crate::table::filter::block::full_filter_name;
use crate::table::filter::prefix::FilterKeys;
use crate::table::format::checksum::ChecksumKind;
use crate::table::format::compression::Compression;
use crate::table::format::file::StoredBlock;
use crate::table::format::footer::{BlockHandle, WRITTEN_VERSION, unsupported};
use crate::table::format::padding::padding_to_page;
use crate::table::format::properties::names;
use crate::table::options::{Dialect, TableOptions, TableSummary};
use crate::table::table::Table;

use super::{PROPERTIES_BLOCK, TableBuilder, write_padding};

impl Table {
    /// Writes this table to `file`, which must be empty, with the filter that `filter` asks for.
    /// Reads all of it and checks what is copied. Of the summary only the file's bytes and what it
    /// says of the filter count.
    pub(crate) fn refilter(
        &self,
        file: Box<dyn WritableFile>,
        filter: FilterSpec,
        filter_keys: FilterKeys,
    ) -> Result<TableSummary> {
        let index_at = self.plain_index()?;
        let options = TableOptions {
            filter,
            filter_keys,
            compression: Compression::None,
            ..TableOptions::default()
        };
        let mut new = TableBuilder::new(file, options, Dialect::External)?;
        let index = self.read_index(LineBuf::zeroed)?;
        let mut blocks = WholeScan::new(self.block_file(), &index);
        for i in 0..index.len() {
            self.copy_data_block(blocks.read_stored(i)?, &mut new)?;
        }
        let mut metaindex = BTreeMap::new();
        let filter = new.build_filter();
        if let Some(filter) = &filter {
            let handle = new.write_stored(filter.bytes(), Compression::None)?;
            metaindex.insert(full_filter_name(filter.encoding()), handle);
        }
        let new_index = new.copy(&self.read_checked(index_at)?)?;
        for (name, handle) in self.metaindex() {
            if !is_filter(name) && name != PROPERTIES_BLOCK {
                metaindex.insert(name, new.copy(&self.read_checked(*handle)?)?);
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
        new.end(&properties, metaindex, new_index)
    }

    /// Where the index is, in a table of this crate's layout.
    fn plain_index(&self) -> Result<BlockHandle> {
        let footer = self.footer();
        let is_plain = footer.format_version == WRITTEN_VERSION
            && footer.checksum == ChecksumKind::Xxh3
            && self.properties().raw(names::INDEX_TYPE).is_none_or(|kind| kind == [0; 4]);
        match footer.index.filter(|_| is_plain) {
            Some(index) => Ok(index),
            None => Err(self.cannot_refilter("its format version, checksums or index are others")),
        }
    }

    fn cannot_refilter(&self, why: &str) -> crate::Error {
        let what = format_args!("another filter in this table: {why} than this version writes");
        unsupported(self.block_file().path(), what)
    }

    fn read_checked(&self, handle: BlockHandle) -> Result<StoredBlock> {
        let stored = self.block_file().read_stored(handle, LineBuf::zeroed)?;
        self.block_file().check(&stored)?;
        Ok(stored)
    }

    /// Copies a block and adds its keys to the filter.
    fn copy_data_block(&self, stored: StoredBlock, new: &mut TableBuilder) -> Result<()> {
        let handle = stored.handle();
        self.block_file().check(&stored)?;
        if new.offset != handle.offset {
            let padding = padding_to_page(new.offset);
            write_padding(&mut *new.file, &mut new.offset, padding)?;
        }
        if new.copy(&stored)? != handle {
            return Err(self.cannot_refilter("its data blocks lie otherwise"));
        }
        let file = self.block_file();
        let damaged = |damage| file.damaged(damage, handle);
        let block = Block::new(file.uncompress(stored, LineBuf::zeroed)?).map_err(damaged)?;
        let mut cursor = BlockCursor::new(&block, None);
        cursor.seek_to_first().map_err(damaged)?;
        while cursor.valid() {
            new.add_to_filter(key::user_key(cursor.key()));
            cursor.next().map_err(damaged)?;
        }
        Ok(())
    }
}

impl TableBuilder {
    /// Appends a block as it is stored.
    fn copy(&mut self, stored: &StoredBlock) -> Result<BlockHandle> {
        let handle = BlockHandle { offset: self.offset, bytes: stored.payload().len() as u64 };
        self.file.append(stored.bytes())?;
        self.offset += stored.bytes().len() as u64;
        Ok(handle)
    }
}

/// Whether a name of the metaindex leads to a filter, of whatever kind.
fn is_filter(name: &str) -> bool {
    ["fullfilter.", "partitionedfilter.", "filter."].iter().any(|kind| name.starts_with(kind))
}
