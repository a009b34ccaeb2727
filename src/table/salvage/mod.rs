//! What can still be read of a damaged table, block by block.
//!
//! ```text
//! damaged             how the data blocks are found
//! data blocks         by the index; unreadable blocks are holes
//! properties          by the index, in each form that this crate writes, until the blocks that it
//!                     lists follow each other from the file's first byte on, with only padding
//!                     between them
//! index               by a search from the first byte on: a block ends where a checksum is right
//! footer              by the same search, for metaindex and index too. Only in tables of this crate:
//!                     format_version 5, XXH3
//! index, properties   not at all: the end of the data is not known
//! ```
//!
//! A block is salvaged if its checksum is right, its entries decode as values or deletions, and its
//! keys ascend and are after the keys of the blocks that were salvaged before it.
//!
//! The filter is not read: what is salvaged goes into a new table with a new filter.

mod search;

use std::sync::Arc;

use super::format::identity::TableIdentity;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, SequenceNumber, user_key};
use crate::error::{Damage, Error, Result};
use crate::fs::RandomAccessFile;
use crate::range_tombstones::RangeTombstones;
use crate::stats::Counters;

use super::block::cursor::BlockCursor;
use super::format::file::BlockFile;
use super::format::footer::BlockHandle;
use super::format::padding::padding_to_page;
use super::format::properties::{IndexForm, TableProperties, names};
use super::index::IndexParser;
use super::open::{
    INDEX_BLOCK, PROPERTIES_BLOCK, find_block, global_sequence_of, read_dictionary, read_metaindex,
    read_properties, refuse_unknown,
};
use super::range_del::read_ranges;
use search::{damage_to_none, find_blocks, find_footer};

/// An internal key and its value.
type KeyValue = (Vec<u8>, Vec<u8>);

/// A damaged table, and the blocks that are left of it.
pub(crate) struct Salvage {
    file: BlockFile,
    global_sequence: Option<SequenceNumber>,
    blocks: Vec<BlockHandle>,
    /// Whether `blocks` comes from the index, which lists every data block. If `blocks` comes from
    /// a search, other blocks may be between two of them.
    blocks_are_listed: bool,
    /// Where the data blocks end.
    data_end: u64,
    ranges: Option<Arc<RangeTombstones>>,
    identity: Option<TableIdentity>,
    /// The number and the name of the column family that the table states.
    pub column_family: Option<(u64, Vec<u8>)>,
    /// Whether the properties could not be read.
    pub lost_properties: bool,
    /// Whether the table is for ingestion and its sequence number is unknown.
    pub needs_global_sequence: bool,
    /// Whether the table may have range deletions that could not be read.
    pub lost_ranges: bool,
}

/// Adjacent data blocks that cannot be read.
#[derive(Debug)]
pub(crate) struct Hole {
    pub offset: u64,
    pub bytes: u64,
    /// The last user key that was read before the hole. `None`: no key was read before it.
    pub after: Option<Vec<u8>>,
    /// The first user key that was read after the hole. `None`: no key was read after it.
    pub before: Option<Vec<u8>>,
    /// What is wrong with the hole's first block.
    pub why: Error,
}

impl Hole {
    /// A hole that begins at `offset`. `last_key`: the last internal key before the hole, or empty
    /// if no entry is before it.
    fn at(offset: u64, last_key: &[u8], why: Error) -> Hole {
        let after = (!last_key.is_empty()).then(|| user_key(last_key).to_vec());
        Hole { offset, bytes: 0, after, before: None, why }
    }
}

impl Salvage {
    /// Finds the blocks. `from_manifest`: the sequence number of all entries, for an ingested
    /// table.
    ///
    /// # Errors
    /// If nothing of the table can be read, for example because it needs a feature that this build
    /// does not have.
    pub fn open(
        file: Arc<dyn RandomAccessFile>,
        from_manifest: Option<SequenceNumber>,
    ) -> Result<Salvage> {
        let counters = Arc::new(Counters::new());
        // A table that is not supported is treated like a damaged one: a footer of format_version 5
        // has no checksum, so damage may have changed its version or its checksum type.
        let own = BlockFile::open(Arc::clone(&file), Arc::clone(&counters), 0, false);
        let read = own.and_then(|opened| Salvage::read_parts(opened, None, from_manifest));
        match read {
            Err(Error::Corruption { .. } | Error::Unsupported { .. }) => {
                let found = find_footer(&file, &counters);
                let (footer, blocks) = found.map_err(|other| read.err().unwrap_or(other))?;
                let opened = BlockFile::with_footer(file, counters, footer);
                Salvage::read_parts(opened, Some(blocks), from_manifest)
            }
            read => read,
        }
    }

    /// `all_blocks`: if a search found the footer, all blocks of the file that it found. Otherwise
    /// `None`.
    fn read_parts(
        mut file: BlockFile,
        all_blocks: Option<Vec<BlockHandle>>,
        from_manifest: Option<SequenceNumber>,
    ) -> Result<Salvage> {
        let footer = *file.footer();
        let metaindex = damage_to_none(read_metaindex(&file, footer.metaindex))?;
        let lost_metaindex = metaindex.is_none();
        let metaindex = metaindex.unwrap_or_default();
        let properties = match find_block(&metaindex, PROPERTIES_BLOCK) {
            Some(handle) => damage_to_none(read_properties(&file, handle))?,
            None => None,
        };
        let lost_properties = properties.is_none();
        let properties = properties.unwrap_or_default();
        refuse_unknown(&file, &properties)?;
        read_dictionary(&mut file, &metaindex, &properties)?;
        let global_sequence = match lost_properties {
            false => global_sequence_of(&properties, from_manifest)
                .map_err(|damage| damage.in_file(file.path(), 0))?,
            true => from_manifest,
        };

        let is_external = properties.raw(names::EXTERNAL_VERSION).is_some();
        let ranges = damage_to_none(read_ranges(&file, &metaindex, &properties, global_sequence))?;
        let none_stated = properties.number(names::RANGE_DELETIONS) == Some(0);
        let lost_ranges = (lost_metaindex || ranges.is_none()) && !none_stated;

        let index_handle = footer.index.or_else(|| find_block(&metaindex, INDEX_BLOCK));
        let stated_end = properties.number(names::DATA_BYTES).filter(|&end| end <= file.limit());
        let from_index = match index_handle {
            Some(handle) => index_blocks(&file, handle, &properties, all_blocks.is_some())?,
            None => None,
        };
        let blocks_are_listed = from_index.is_some();
        let (blocks, data_end) = match (from_index, stated_end) {
            (Some(blocks), _) => {
                let end = blocks.last().and_then(|handle| handle.end()).unwrap_or(0);
                (blocks, end)
            }
            (None, Some(end)) => {
                let blocks = match all_blocks {
                    Some(all) => all,
                    None => find_blocks(&**file.file(), &footer, end)?,
                };
                let within = |handle: &BlockHandle| handle.end().is_some_and(|it| it <= end);
                (blocks.into_iter().filter(within).collect(), end)
            }
            (None, None) => {
                let damage = Damage::new(0, "an index or properties that can be read", "neither");
                return Err(damage.in_file(file.path(), footer.metaindex.offset));
            }
        };
        Ok(Salvage {
            file,
            global_sequence,
            blocks,
            blocks_are_listed,
            data_end,
            ranges: ranges.flatten(),
            identity: properties.identity(),
            column_family: properties.column_family(),
            lost_properties,
            needs_global_sequence: is_external && global_sequence.is_none(),
            lost_ranges,
        })
    }

    /// The identity of the table, if its properties state it.
    pub fn identity(&self) -> Option<TableIdentity> {
        self.identity
    }

    /// The ranges that the table deletes, as far as they can be read.
    pub fn ranges(&self) -> Option<&Arc<RangeTombstones>> {
        self.ranges.as_ref()
    }

    /// Calls `visit` with the internal key and the value of every readable entry, in order. Returns
    /// the holes: where data blocks cannot be read or are missing.
    pub fn entries(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<Vec<Hole>> {
        let mut holes: Vec<Hole> = Vec::new();
        let mut last_key: Vec<u8> = Vec::new();
        let mut open: Option<Hole> = None;
        let mut end = 0;
        let missing = |expected: &str, offset| {
            Damage::new(0, expected, "none that can be read").in_file(self.file.path(), offset)
        };
        for &handle in &self.blocks {
            if open.is_none() && self.lacks_blocks(end, handle.offset)? {
                let why = missing("data blocks that follow each other", end);
                open = Some(Hole::at(end, &last_key, why));
            }
            match self.read(handle, &last_key) {
                Ok(entries) => {
                    if let Some(mut hole) = open.take() {
                        hole.bytes = handle.offset - hole.offset;
                        hole.before = entries.first().map(|(key, _)| user_key(key).to_vec());
                        holes.push(hole);
                    }
                    for (key, value) in &entries {
                        visit(key, value)?;
                    }
                    if let Some((key, _)) = entries.into_iter().next_back() {
                        last_key = key;
                    }
                }
                Err(why @ Error::Corruption { .. }) if open.is_none() => {
                    open = Some(Hole::at(handle.offset, &last_key, why));
                }
                Err(Error::Corruption { .. }) => {}
                Err(error) => return Err(error),
            }
            end = handle.end().unwrap_or(end);
        }
        if end < self.data_end && open.is_none() {
            open = Some(Hole::at(end, &last_key, missing("data blocks up to the index", end)));
        }
        if let Some(mut hole) = open {
            hole.bytes = self.data_end.saturating_sub(hole.offset);
            holes.push(hole);
        }
        Ok(holes)
    }

    /// Whether blocks may be missing between a block that ends at `end` and the next block, which
    /// starts at `next`. They may if a search has found the two blocks, and there is more than
    /// padding between them.
    fn lacks_blocks(&self, end: u64, next: u64) -> Result<bool> {
        if self.blocks_are_listed || next <= end {
            return Ok(false);
        }
        let padding = padding_to_page(end);
        if next - end != padding.len() as u64 {
            return Ok(true);
        }
        let mut between = vec![0; padding.len()];
        self.file.file().read_exact_at(end, &mut between)?;
        Ok(between != padding)
    }

    /// All entries of a block. It is damage if their keys are not after `last_key`, the last key
    /// before the block, which is empty before the first entry of the table.
    fn read(&self, handle: BlockHandle, last_key: &[u8]) -> Result<Vec<KeyValue>> {
        let block = self.file.read_data_block(handle)?;
        let read = || -> Result<Vec<KeyValue>, Damage> {
            let mut entries: Vec<KeyValue> = Vec::new();
            let mut cursor = BlockCursor::new(&block, self.global_sequence);
            cursor.seek_to_first()?;
            while cursor.valid() {
                let internal_key = cursor.key();
                let before = entries.last().map_or(last_key, |(key, _)| key);
                let ascends = before.is_empty() || key::compare(before, internal_key).is_lt();
                let kind = EntryKind::from_byte(key::kind_byte(internal_key));
                if !ascends || !matches!(kind, Some(EntryKind::Value | EntryKind::Deletion)) {
                    let found = format!("\"{}\"", user_key(internal_key).escape_ascii());
                    return Err(Damage::new(cursor.position(), "values in ascending order", found));
                }
                entries.push((internal_key.to_vec(), cursor.value().to_vec()));
                cursor.next()?;
            }
            Ok(entries)
        };
        read().map_err(|damage| self.file.damaged(damage, handle))
    }
}

/// The data blocks that the index at `handle` lists. `None` if the index is damaged or not
/// accepted. If there are no properties, or if `handle` was found by a search (`must_follow`), the
/// block at `handle` may be no index, or one of another form. So it is accepted only if the blocks
/// that it lists follow each other from the file's first byte on, with only padding between them.
fn index_blocks(
    file: &BlockFile,
    handle: BlockHandle,
    properties: &TableProperties,
    must_follow: bool,
) -> Result<Option<Vec<BlockHandle>>> {
    // If there are no properties to state the form of the index, the forms that this crate writes
    // are tried.
    let written = [(true, false), (false, false), (true, true), (false, true)];
    let written = written.map(|(user_keys, two_level)| IndexForm {
        two_level,
        first_keys: false,
        user_keys,
        delta_values: true,
    });
    let stated = properties.index_form().ok();
    let forms = match &stated {
        Some(form) => std::slice::from_ref(form),
        None => &written[..],
    };
    for &form in forms {
        let parsed = damage_to_none((|| {
            let upper_form = IndexForm { first_keys: form.first_keys && !form.two_level, ..form };
            let mut parser = IndexParser::new(upper_form, file.limit());
            let add = |parser: &mut IndexParser, handle| {
                let block = file.read_metadata_block(handle)?;
                parser.add(&block).map_err(|damage| file.damaged(damage, handle))
            };
            add(&mut parser, handle)?;
            if !form.two_level {
                return Ok(parser.handles().to_vec());
            }
            let mut lower = IndexParser::new(form, file.limit());
            for &handle in parser.handles() {
                add(&mut lower, handle)?;
            }
            Ok(lower.handles().to_vec())
        })())?;
        let Some(blocks) = parsed else { continue };
        let follow = blocks.first().is_none_or(|first| first.offset == 0)
            && blocks.is_sorted_by(|block, next| block.is_followed_by(*next));
        if follow || (stated.is_some() && !must_follow) {
            return Ok(Some(blocks));
        }
    }
    Ok(None)
}
