//! What opening a table reads, and which tables it rejects.
//!
//! In most tables the blocks that opening needs are next to each other at the end of the file, so
//! that one read can get them all: the *tail*. If a filter or index is in parts, these blocks
//! include its *top*, the list of its parts ([`super::source`]).

use std::sync::Arc;

use crate::encoding::coding::Decoder;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber};
use crate::error::{Damage, Result};
use crate::fs::RandomAccessFile;
use crate::memory::LineBuf;
use crate::stats::Counters;

use super::block::Block;
use super::format::file::{BlockFile, MAX_TAIL_BYTES, SEPARATED};
use super::format::footer::{BlockHandle, unsupported};
use super::format::limits::KeyBytes;
use super::format::properties::{
    BYTEWISE_COMPARATOR, TableProperties, is_bytewise, names, user_comparator,
};

// Names of blocks in the metaindex.
pub(crate) const PROPERTIES_BLOCK: &str = "rocksdb.properties";
pub(crate) const RANGE_DEL_BLOCK: &str = "rocksdb.range_del";
pub(crate) const DICTIONARY_BLOCK: &str = "rocksdb.compression_dict";
/// The name of the index. The metaindex lists it from format_version 6 on, because the footer then
/// has no room for the index's handle.
pub(crate) const INDEX_BLOCK: &str = "rocksdb.index";

/// The block of this name.
pub(crate) fn find_block(metaindex: &[(String, BlockHandle)], wanted: &str) -> Option<BlockHandle> {
    metaindex.iter().find(|(name, _)| name == wanted).map(|&(_, handle)| handle)
}

/// Where the tail of the file starts that opening reads: the smallest offset of the metaindex, the
/// properties, the range deletions, the compression dictionary and the tops. `index_top`: the
/// handle of the index's top; `None` if the index is whole, or if its form is not known yet. The
/// filter's top belongs to the tail only if it is directly in front of the index's top, as in this
/// crate's tables. In other tables it may be far away, and opening then reads it separately.
pub(super) fn tail_start<N: AsRef<str>>(
    metaindex: &[(N, BlockHandle)],
    metaindex_handle: BlockHandle,
    index_top: Option<BlockHandle>,
) -> u64 {
    let is_top = |(name, handle): &&(N, BlockHandle)| {
        name.as_ref().starts_with("partitionedfilter.")
            && index_top.is_some_and(|index| handle.is_followed_by(index))
    };
    let filter_top = metaindex.iter().find(is_top).map(|&(_, handle)| handle);
    let tops = filter_top.or(index_top).map_or(u64::MAX, |top| top.offset);
    let is_read =
        |name: &str| matches!(name, PROPERTIES_BLOCK | RANGE_DEL_BLOCK | DICTIONARY_BLOCK);
    let read = metaindex.iter().filter(|(name, _)| is_read(name.as_ref()));
    let offsets = read.map(|(_, handle)| handle.offset);
    offsets.fold(metaindex_handle.offset.min(tops), u64::min)
}

/// The number of bytes from `start` to the end of the file, or 0 if they are more than opening
/// reads at once ([`MAX_TAIL_BYTES`]).
pub(super) fn tail_bytes(file_bytes: u64, start: u64) -> u64 {
    let bytes = file_bytes.saturating_sub(start);
    if bytes <= MAX_TAIL_BYTES { bytes } else { 0 }
}

pub(super) fn read_metaindex(
    file: &BlockFile,
    handle: BlockHandle,
) -> Result<Vec<(String, BlockHandle)>> {
    let block = file.read_metadata_block(handle)?;
    let mut key_bytes = KeyBytes::new(file.limit());
    let mut read = || {
        let (mut names, mut scan, mut block_bytes) = (Vec::new(), block.scan(), 0u64);
        while let Some((name, value)) = scan.next()? {
            key_bytes.take(name.len())?;
            let name = String::from_utf8_lossy(name).into_owned();
            let mut decoder = Decoder::new(value);
            let handle = BlockHandle::decode(&mut decoder)?;
            block_bytes =
                block_bytes.saturating_add(handle.end().map_or(u64::MAX, |_| handle.bytes));
            if block_bytes > file.limit() {
                let expected = format_args!("blocks of at most {} bytes", file.limit()).to_string();
                return Err(Damage::new(0, expected, block_bytes));
            }
            names.push((name, handle));
        }
        Ok(names)
    };
    read().map_err(|damage| file.damaged(damage, handle))
}

/// Reads the properties. At ingestion RocksDB may write the assigned sequence number over 8 bytes
/// of the block without correcting the checksum. So a block whose checksum is wrong is checked once
/// more with zeros in these 8 bytes, which is what was there when the checksum was made.
pub(super) fn read_properties(file: &BlockFile, handle: BlockHandle) -> Result<TableProperties> {
    let mut stored = file.read_stored(handle, LineBuf::zeroed)?;
    if let Err(mismatch) = file.check(&stored) {
        let Some(range) = TableProperties::global_sequence_range(stored.payload()) else {
            return Err(mismatch);
        };
        let assigned = stored.payload()[range.clone()].to_vec();
        stored.payload_mut()[range.clone()].fill(0);
        file.check(&stored).map_err(|_| mismatch)?;
        stored.payload_mut()[range].copy_from_slice(&assigned);
    }
    let block = Block::new(file.uncompress_metadata(stored)?);
    let decoded = block.and_then(|block| TableProperties::decode(&block, file.limit()));
    decoded.map_err(|damage| file.damaged(damage, handle))
}

/// Reads the compression dictionary, if the table has one.
pub(super) fn read_dictionary(
    file: &mut BlockFile,
    metaindex: &[(String, BlockHandle)],
    properties: &TableProperties,
) -> Result<()> {
    match find_block(metaindex, DICTIONARY_BLOCK) {
        Some(handle) => file.read_dictionary(handle, properties.may_use_zstd()),
        None => Ok(()),
    }
}

/// The sequence number that ingestion gave to all entries: `from_manifest`, or else that of the
/// properties. `None` for a table that was not ingested, or if neither is known.
pub(super) fn global_sequence_of(
    properties: &TableProperties,
    from_manifest: Option<SequenceNumber>,
) -> Result<Option<SequenceNumber>, Damage> {
    let version = properties.number(names::EXTERNAL_VERSION);
    let stored = properties.number(names::GLOBAL_SEQUENCE);
    let stored = match (version, stored) {
        (Some(2..), Some(stored)) => stored,
        (None, Some(_)) => {
            let expected = "the version of an external file with its sequence number";
            return Err(Damage::new(0, expected, "none"));
        }
        _ => match from_manifest {
            None => return Ok(None),
            Some(_) => {
                let expected = "an external file, for a sequence number to be assigned";
                return Err(Damage::new(0, expected, "a table without that mark"));
            }
        },
    };
    match from_manifest {
        Some(assigned) if stored != 0 && stored != assigned => {
            let expected = format_args!("the assigned sequence number {assigned}").to_string();
            Err(Damage::new(0, expected, stored))
        }
        _ if stored > MAX_SEQUENCE => Err(Damage::new(0, "a sequence number below 2^56", stored)),
        _ => Ok(from_manifest.or((stored > 0).then_some(stored))),
    }
}

/// Rejects tables whose entries this build would read wrongly.
pub(super) fn refuse_unknown(file: &BlockFile, properties: &TableProperties) -> Result<()> {
    if properties.number(names::SEPARATED) == Some(1) {
        return Err(unsupported(file.path(), SEPARATED));
    }
    if let Some(manager) = properties.foreign_compression(file.footer().format_version) {
        let what = format_args!("the compression of another program: of its manager {manager}");
        return Err(unsupported(file.path(), what));
    }
    match properties.text(names::COMPARATOR).map(user_comparator) {
        Some(other) if !is_bytewise(other) => Err(unsupported(
            file.path(),
            format_args!("the comparator {other} (this build reads {BYTEWISE_COMPARATOR})"),
        )),
        _ => Ok(()),
    }
}

/// The properties of a table. `None` if they cannot be read, or if the file is damaged or has
/// another format.
///
/// # Errors
/// If the properties, whose checksum is right, require a feature that this build does not have, for
/// example another order of the keys. Such a table is not damaged.
pub(crate) fn readable_properties(
    file: &Arc<dyn RandomAccessFile>,
) -> Result<Option<TableProperties>> {
    let Ok(file) = BlockFile::open(Arc::clone(file), Arc::new(Counters::new()), 0, false) else {
        return Ok(None);
    };
    let Ok(metaindex) = read_metaindex(&file, file.footer().metaindex) else { return Ok(None) };
    let handle = find_block(&metaindex, PROPERTIES_BLOCK);
    let properties = handle.and_then(|handle| read_properties(&file, handle).ok());
    let Some(properties) = properties else { return Ok(None) };
    refuse_unknown(&file, &properties)?;
    Ok(Some(properties))
}
