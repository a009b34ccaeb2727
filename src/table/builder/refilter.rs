//! [`Table::refilter`]: the same table with another filter.
//!
//! ```text
//! data blocks | filter | index  | range deletions | properties             | metaindex | footer
//!   copied      new      copied   copied            copied, except those     new         new
//!                                                   of the filter and of
//!                                                   the identity: new
//! ```
//!
//! Every data block keeps its offset, so the index and the checksums of the copied blocks remain
//! valid. The new table has the format version and the kind of checksum of the old one. From
//! format_version 6 on it also has the same base of the checksum context, and the checksum of a
//! copied block that moves is computed again, because it depends on the offset. For a table of this
//! crate the result is byte for byte the table that [`TableBuilder`] writes from the same entries
//! with the other filter.
//!
//! If the index is in parts, the parts are copied, and the new filter is cut where parts of the
//! index end ([`super::parted`]). The tops, which list the parts of filter and index, are new,
//! because the parts are at other offsets.
//!
//! A table gets an identity of its own, because two files with one identity must have the same
//! bytes: RocksDB finds blocks in its cache by identity and offset. Sequence numbers stay as they
//! are stored, and so does the property of an ingested table that they are to be replaced.
//!
//! A table is rejected if it is in LevelDB's format, which has no place for the filters that are
//! written here, or if it has a metadata block of an unknown name, which may hold offsets of other
//! metadata blocks.

use std::collections::BTreeMap;

use crate::encoding::key;
use crate::error::Result;
use crate::filter::FilterSpec;
use crate::fs::WritableFile;
use crate::memory::LineBuf;
use crate::table::block::cursor::BlockCursor;
use crate::table::cursor::read_ahead::WholeScan;
use crate::table::filter::prefix::FilterKeys;
use crate::table::format::compression::Compression;
use crate::table::format::file::StoredBlock;
use crate::table::format::footer::{BlockHandle, unsupported};
use crate::table::format::identity::Creator;
use crate::table::format::padding::padding;
use crate::table::format::properties::names;
use crate::table::index::Index;
use crate::table::open::{DICTIONARY_BLOCK, INDEX_BLOCK, PROPERTIES_BLOCK, RANGE_DEL_BLOCK};
use crate::table::options::{Dialect, MetadataForm, TableOptions, TableSummary};
use crate::table::table::Table;

use super::TableBuilder;
use super::cuts::WrittenIndex;
use super::properties::varint;

/// The metadata blocks that are copied. None of them holds an offset of another metadata block. The
/// last two belong to RocksDB's hash index, and refer to entries of the index by their number.
const COPIED: [&str; 4] =
    [RANGE_DEL_BLOCK, DICTIONARY_BLOCK, "rocksdb.hashindex.prefixes", "rocksdb.hashindex.metadata"];

/// In what a table differs from the one of which [`Table::refilter`] makes it.
pub(crate) struct Refilter<'a> {
    pub filter: FilterSpec,
    pub filter_keys: FilterKeys,
    /// Creator and file number make up the new identity.
    pub creator: &'a Creator,
    pub number: u64,
}

impl Table {
    /// Writes this table with another filter to the empty file that `create` makes. Reads all of the
    /// table, and checks the checksum of each block that is copied. `goes_on` is called before each
    /// data block, and may end the call by an error. The returned summary has only the file's sizes
    /// and the filter's figures.
    pub(crate) fn refilter(
        &self,
        create: impl FnOnce() -> Result<Box<dyn WritableFile>>,
        to: &Refilter,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<TableSummary> {
        self.check_can_refilter()?;
        let options = TableOptions {
            filter: to.filter,
            filter_keys: to.filter_keys,
            compression: Compression::None,
            metadata: match self.index.is_whole() {
                true => MetadataForm::Whole,
                false => MetadataForm::Parts,
            },
            ..TableOptions::default()
        };
        let dialect = Dialect::Database { file_number: to.number };
        let mut new = TableBuilder::new(create()?, options, dialect)?.created_by(to.creator);
        new.footer = *self.footer();
        let index = self.read_index(LineBuf::zeroed)?;
        let mut blocks = WholeScan::new(self.block_file(), &index);
        let mut last_key = Vec::new();
        for i in 0..index.len() {
            goes_on()?;
            let part = self.index_part_of_separator(&index, i);
            let starts_part = i > 0 && part != self.index_part_of_separator(&index, i - 1);
            self.copy_data_block(blocks.read_stored(i)?, starts_part, &mut last_key, &mut new)?;
        }
        let data_bytes = new.file.len();
        let mut metaindex = BTreeMap::new();
        let new_index = self.copy_index(&mut new, &mut metaindex)?;
        for (name, handle) in self.metaindex() {
            if COPIED.contains(&name.as_str()) {
                metaindex.insert(name.clone(), new.copy(&self.read_checked(*handle)?)?);
            }
        }
        let properties = self.properties_with(&new, data_bytes, &new_index);
        new.end(&properties, metaindex, &new_index)
    }

    /// Rejects a table that cannot get another filter.
    fn check_can_refilter(&self) -> Result<()> {
        let is_known = |name: &str| {
            is_filter(name)
                || COPIED.contains(&name)
                || [PROPERTIES_BLOCK, INDEX_BLOCK].contains(&name)
        };
        let unknown = self.metaindex().iter().find(|(name, _)| !is_known(name));
        let why = match unknown {
            _ if self.is_leveldbs() => "it is in LevelDB's format".into(),
            Some((name, _)) => format!("its metadata block \"{}\" is unknown", name.escape_debug()),
            None if self.index_form().two_level == self.index.is_whole() => {
                "the list of the parts of its index is damaged".into()
            }
            None => return Ok(()),
        };
        Err(self.cannot_refilter(&why))
    }

    fn cannot_refilter(&self, why: &str) -> crate::Error {
        unsupported(self.block_file().path(), format_args!("another filter in this table: {why}"))
    }

    /// The part of the index that has separator `i` of the whole index.
    fn index_part_of_separator(&self, index: &Index, i: usize) -> usize {
        let (user_key, trailer) = index.separator(i);
        self.index_part_of(user_key, trailer)
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
        if new.file.len() > handle.offset {
            return Err(self.cannot_refilter("its data blocks are not in the order of their keys"));
        }
        // RocksDB may leave larger gaps between blocks than this crate does.
        while new.file.len() < handle.offset {
            new.file.append(padding(handle.offset - new.file.len()))?;
        }
        new.copy(&stored)?;
        let file = self.block_file();
        let damaged = |damage| file.damaged(damage, handle);
        let payload = file.uncompress(stored, LineBuf::zeroed)?;
        let block = file.data_block(payload, handle)?;
        // The first key of a part ends the part before it.
        self.check_has_entries(&block).map_err(damaged)?;
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

    /// Writes the new filter and copies the index.
    fn copy_index(
        &self,
        new: &mut TableBuilder,
        metaindex: &mut BTreeMap<String, BlockHandle>,
    ) -> Result<WrittenIndex> {
        let filter = new.build_filter();
        let separators: Vec<_> = match self.index.separators() {
            None => vec![Default::default()],
            Some(top) => (0..self.index.parts())
                .map(|part| top.separator(part))
                .map(|(user_key, trailer)| (user_key.to_vec(), trailer))
                .collect(),
        };
        let (filter_top, index_top) =
            new.write_parts(filter.as_ref(), &separators, |new, part| {
                new.copy(&self.read_checked(self.index.handle(part))?)
            })?;
        new.write_filter_top(filter, filter_top, self.index_form(), metaindex)?;
        new.write_index_top(index_top, self.index_form())
    }

    /// The properties of the new table: this table's, except for those that say what is new.
    fn properties_with(
        &self,
        new: &TableBuilder,
        data_bytes: u64,
        index: &WrittenIndex,
    ) -> BTreeMap<&[u8], Vec<u8>> {
        let mut properties: BTreeMap<&[u8], Vec<u8>> =
            self.properties().raw_entries().map(|(name, raw)| (name, raw.to_vec())).collect();
        for (name, value) in new.filter_properties() {
            match value {
                Some(value) => properties.insert(name.as_bytes(), value),
                None => properties.remove(name.as_bytes()),
            };
        }
        // Where the new filter has parts, they are cut where parts of the index are cut.
        properties.remove(names::DECOUPLED_FILTER_PARTS.as_bytes());
        let identity = new.identity_properties().into_iter();
        properties.extend(identity.map(|(name, value)| (name.as_bytes(), value)));
        let mut sizes = vec![(names::DATA_BYTES, data_bytes), (names::TAIL_START, data_bytes)];
        if index.parts > 0 {
            let top_bytes = (names::INDEX_TOP_BYTES, index.top_bytes);
            sizes.extend([(names::INDEX_BYTES, index.bytes), top_bytes]);
        }
        for (name, bytes) in sizes {
            properties.entry(name.as_bytes()).and_modify(|value| *value = varint(bytes));
        }
        properties
    }
}

impl TableBuilder {
    /// Appends a stored block of another table, whose footer has the format version and the kind of
    /// checksum of this one's.
    fn copy(&mut self, stored: &StoredBlock) -> Result<BlockHandle> {
        let handle = BlockHandle { offset: self.file.len(), ..stored.handle() };
        if handle == stored.handle() || self.footer.checksum_context_base == 0 {
            self.file.append(stored.bytes())?;
            return Ok(handle);
        }
        let (covered, _) = stored.bytes().split_at(stored.payload().len() + 1);
        let checksum = self.footer.block_checksum(covered, handle.offset);
        self.file.append(covered)?;
        self.file.append(&checksum.to_le_bytes())?;
        Ok(handle)
    }
}

/// Whether a name in the metaindex is that of a filter, of whatever kind.
fn is_filter(name: &str) -> bool {
    ["fullfilter.", "partitionedfilter.", "filter."].iter().any(|kind| name.starts_with(kind))
}
