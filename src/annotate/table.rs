//! Prints tables. The blocks are found through the handles in the footer, as in a reader, and are
//! printed in the order of the file.
//!
//! ```text
//! footer ──► metaindex ──► properties, filter, range deletions
//!        └─► index ──► data blocks
//! ```
//!
//! Bytes that no handle points to are labelled as padding or as unknown. If blocks of a damaged
//! file overlap, the block that starts first is printed completely, and the later one is only
//! named.

use std::fmt;
use std::path::Path;

use crate::filter::FilterEncoding;
use crate::known_files;
use crate::memory::LineBuf;
use crate::table::block::payload::BlockBytes;
use crate::table::filter::source::StoredFilter;
use crate::table::format::compression::dictionary::Dictionary;
use crate::table::format::compression::read::{Compressed, Failure, TYPE_NAMES};
use crate::table::format::footer::{BLOCK_TRAILER_BYTES, BlockHandle, FOOTER_BYTES, Footer};
use crate::table::format::limits::most_metadata_bytes;
use crate::table::format::padding::padding_to_page;
use crate::table::format::properties::{IndexForm, TableProperties};
use crate::table::index::IndexParser;
use crate::table::open::{
    DICTIONARY_BLOCK, INDEX_BLOCK, PROPERTIES_BLOCK, RANGE_DEL_BLOCK, find_block,
};

use super::block::{self, Contents};
use super::dump::{Dump, Stop};
use super::filter;

pub(super) fn print(dump: &mut Dump<'_, '_>, path: &Path) -> fmt::Result {
    let bytes = dump.bytes();
    let footer_at = bytes.len().saturating_sub(FOOTER_BYTES);
    let footer = match Footer::decode(&bytes[footer_at..], bytes.len() as u64, path, false) {
        Ok(footer) => footer,
        Err(error) => {
            let known = known_files::name_of(bytes, &bytes[bytes.len().saturating_sub(64)..]);
            let reason = Stop::Unclear(match known {
                Some(name) => format!("this is {name}"),
                None => error.to_string(),
            });
            return dump.part("Neither a table nor a log", bytes.len(), |_| Err(reason));
        }
    };
    let table = Stored::new(&bytes[..footer_at], footer);
    for (handle, role) in table.parts() {
        // Each of these blocks is within the file, because `parts` drops all other handles.
        let (offset, end) = (handle.offset as usize, (handle.offset + handle.bytes) as usize);
        if offset < dump.position() {
            let text =
                format!("{role} at {offset}, {} bytes, overlaps what is above", handle.bytes);
            dump.remark(text)?;
            continue;
        }
        unreferenced(dump, offset)?;
        let heading = format!("{role} at {offset}, {} bytes", handle.bytes);
        dump.part(heading, end + BLOCK_TRAILER_BYTES, |dump| {
            let type_byte = dump.bytes()[end];
            dump.section(end, |dump| table.print_payload(dump, role, type_byte))?;
            dump.field(1, format_args!("compression type: {}", compression_name(type_byte)))?;
            let what = format!("checksum ({})", footer.checksum.name());
            let stored = &bytes[offset..=end];
            let computed = footer.block_checksum(stored, handle.offset);
            // RocksDB may write the global sequence number into the properties of a table that it
            // ingests, without updating the checksum. So the checksum may be that of the block
            // before the ingestion, with a global sequence number of zero.
            if matches!(role, Role::Entries(_, Contents::Properties))
                && dump.peek(4, "checksum")? != computed.to_le_bytes()
                && let Some(before) = with_zero_global_sequence(stored)
                && let before = footer.block_checksum(&before, handle.offset)
                && dump.peek(4, "checksum")? == before.to_le_bytes()
            {
                let note = "of the block before an ingestion wrote its sequence number into it";
                return dump.checksum(&format!("{what}, {note}"), before);
            }
            dump.checksum(&what, computed)
        })?;
    }
    unreferenced(dump, footer_at)?;
    let heading = format!("Footer at {footer_at}, {FOOTER_BYTES} bytes");
    dump.part(heading, bytes.len(), |dump| print_footer(dump, &footer, footer_at))
}

/// Returns a copy of a stored properties block whose global sequence number is zero, as before an
/// ingestion. `None` if the block has no such number.
fn with_zero_global_sequence(stored: &[u8]) -> Option<Vec<u8>> {
    let (_, payload) = stored.split_last()?;
    let range = TableProperties::global_sequence_range(payload)?;
    let mut before = stored.to_vec();
    before[range].fill(0);
    Some(before)
}

/// Prints the bytes up to `end`, where the next block or the footer begins. No handle points to
/// these bytes.
fn unreferenced(dump: &mut Dump<'_, '_>, end: usize) -> fmt::Result {
    if dump.position() == end {
        return Ok(());
    }
    let between = &dump.bytes()[dump.position()..end];
    if between == padding_to_page(dump.position() as u64) {
        let heading = format!("Padding at {}, {} bytes", dump.position(), between.len());
        let meaning = "the next block lies in fewer pages of 4096 bytes";
        return dump.part(heading, end, |dump| Ok(dump.field(end - dump.position(), meaning)?));
    }
    let heading = format!("Bytes from {} on", dump.position());
    dump.part(heading, end, |_| Err(Stop::Unclear("no handle leads to these bytes".into())))
}

fn print_footer(dump: &mut Dump<'_, '_>, footer: &Footer, footer_at: usize) -> Result<(), Stop> {
    dump.field(1, format_args!("checksum type: {}", footer.checksum.name()))?;
    let handles_end = footer_at + 41;
    if footer.index.is_some() {
        block::print_handle(dump, "metaindex")?;
        block::print_handle(dump, "index")?;
        let zeros = handles_end.saturating_sub(dump.position());
        dump.field(zeros, "zeros")?;
    } else {
        dump.field(4, "mark of an extended footer")?;
        dump.field(4, "checksum of the footer: right")?;
        dump.field(4, "base of the checksum context")?;
        dump.fixed32("metaindex bytes, which end where the footer begins")?;
        dump.field(16, "reserved")?;
        dump.field(8, "zeros: no feature unknown here is needed")?;
    }
    dump.fixed32("format_version")?;
    Ok(dump.field(8, "magic of a table")?)
}

fn compression_name(type_byte: u8) -> &'static str {
    TYPE_NAMES.get(usize::from(type_byte)).unwrap_or(&"unknown")
}

/// What a block is for.
#[derive(Clone, Copy)]
enum Role {
    Entries(&'static str, Contents),
    Filter(FilterEncoding),
    /// RocksDB's old block-based filters, which Maypole does not query.
    BlockBasedFilter,
    /// The dictionary that the data blocks are compressed with.
    Dictionary,
    /// A block of RocksDB or Pebble with a known name, whose contents are not decoded here.
    Named(&'static str),
    Unknown,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Entries(name, _) => name,
            Role::Filter(_) => "Filter block",
            Role::BlockBasedFilter => "Block-based filter",
            Role::Dictionary => "Compression dictionary",
            Role::Named(name) => name,
            Role::Unknown => "Unknown block",
        })
    }
}

/// The blocks of a file, found from its footer.
struct Stored<'a> {
    /// The file without its footer.
    blocks: &'a [u8],
    footer: Footer,
    /// The dictionary of the data blocks.
    dictionary: Option<Dictionary>,
}

impl<'a> Stored<'a> {
    fn new(blocks: &'a [u8], footer: Footer) -> Stored<'a> {
        let table = Stored { blocks, footer, dictionary: None };
        let names = table.metaindex();
        let handle = find_block(&names, DICTIONARY_BLOCK);
        let fits = |handle: &BlockHandle| handle.fits(blocks.len() as u64);
        let dictionary = handle.filter(fits).and_then(|handle| {
            let start = handle.offset as usize;
            let bytes = LineBuf::copy_from(&blocks[start..start + handle.bytes as usize]);
            Dictionary::new(BlockBytes::new(bytes, handle.bytes as usize), true).ok()
        });
        Stored { dictionary, ..table }
    }

    /// Every block that a handle points to, in the order of the file.
    fn parts(&self) -> Vec<(BlockHandle, Role)> {
        let names = self.metaindex();
        let properties = find_block(&names, PROPERTIES_BLOCK);
        let form = properties.and_then(|handle| self.index_form(handle));
        let mut parts =
            vec![(self.footer.metaindex, Role::Entries("Metaindex", Contents::Metaindex))];
        let filter = StoredFilter::find(&names);
        for &(ref name, handle) in &names {
            let role = match name.as_str() {
                PROPERTIES_BLOCK => Role::Entries("Properties", Contents::Properties),
                RANGE_DEL_BLOCK => Role::Entries("Range deletions", Contents::RangeDeletions),
                INDEX_BLOCK if self.footer.index.is_none() => continue,
                _ if filter.is_some_and(|filter| filter.handle() == handle) => continue,
                DICTIONARY_BLOCK => Role::Dictionary,
                "rocksdb.hashindex.prefixes" => Role::Named("Prefixes of the hash index"),
                "rocksdb.hashindex.metadata" => Role::Named("Metadata of the hash index"),
                "rocksdb.stats" => Role::Named("Properties under their old name"),
                "pebble.range_key" => Role::Named("Range keys of Pebble"),
                "pebble.value_index" => Role::Named("Index of the value blocks of Pebble"),
                name if name.starts_with("filter.") => Role::BlockBasedFilter,
                _ => Role::Unknown,
            };
            parts.push((handle, role));
        }
        match (self.footer.index.or_else(|| find_block(&names, INDEX_BLOCK)), form) {
            (Some(handle), Some(form)) => self.index_parts(handle, form, &mut parts),
            (Some(handle), None) => parts.push((handle, Role::Unknown)),
            (None, _) => {}
        }
        match (filter, form) {
            (Some(StoredFilter::Full(handle, encoding)), _) => {
                parts.push((handle, Role::Filter(encoding)));
            }
            (Some(StoredFilter::Parted(handle, encoding)), Some(form)) => {
                let form = IndexForm { first_keys: false, ..form };
                parts.push((handle, Role::Entries("Index of filters", Contents::Index(form))));
                let partitions = self.handles(handle, form);
                let partition = |handle| (handle, Role::Filter(encoding));
                parts.extend(partitions.into_iter().map(partition));
            }
            (Some(StoredFilter::Parted(handle, _)), None) => parts.push((handle, Role::Unknown)),
            (None, _) => {}
        }
        parts.retain(|(handle, _)| handle.fits(self.blocks.len() as u64));
        parts.sort_by_key(|(handle, _)| handle.offset);
        parts
    }

    /// Adds the index at `handle`, and the blocks that it points to, to `parts`.
    fn index_parts(
        &self,
        handle: BlockHandle,
        form: IndexForm,
        parts: &mut Vec<(BlockHandle, Role)>,
    ) {
        let data = |handle| (handle, Role::Entries("Data block", Contents::Data));
        if !form.two_level {
            parts.push((handle, Role::Entries("Index", Contents::Index(form))));
            parts.extend(self.handles(handle, form).into_iter().map(data));
            return;
        }
        let upper = IndexForm { first_keys: false, ..form };
        parts.push((handle, Role::Entries("Upper index", Contents::Index(upper))));
        for lower in self.handles(handle, upper) {
            parts.push((lower, Role::Entries("Lower index", Contents::Index(form))));
            parts.extend(self.handles(lower, form).into_iter().map(data));
        }
    }

    /// The names and handles of the metaindex, as far as they can be decoded.
    fn metaindex(&self) -> Vec<(String, BlockHandle)> {
        let mut names = Vec::new();
        let Some(block) = self.block(self.footer.metaindex) else { return names };
        let mut scan = block.scan();
        while let Ok(Some((name, value))) = scan.next() {
            let mut decoder = crate::encoding::coding::Decoder::new(value);
            if let Ok(handle) = BlockHandle::decode(&mut decoder) {
                names.push((String::from_utf8_lossy(name).into_owned(), handle));
            }
        }
        names
    }

    fn index_form(&self, properties: BlockHandle) -> Option<IndexForm> {
        let block = self.block(properties)?;
        TableProperties::decode(&block, self.blocks.len() as u64).ok()?.index_form().ok()
    }

    /// The handles of an index block, as far as they can be decoded.
    fn handles(&self, handle: BlockHandle, form: IndexForm) -> Vec<BlockHandle> {
        let Some(block) = self.block(handle) else { return Vec::new() };
        let mut parser = IndexParser::new(form, self.blocks.len() as u64);
        // If an entry is damaged, the handles of the entries before it are kept.
        let _ = parser.add(&block);
        parser.handles().to_vec()
    }

    /// A block of entries, if its bytes can be read as one.
    fn block(&self, handle: BlockHandle) -> Option<crate::table::block::Block> {
        if !handle.fits(self.blocks.len() as u64) {
            return None;
        }
        let stored = &self.blocks[handle.offset as usize..];
        let (payload, trailer) = stored.split_at(handle.bytes as usize);
        match self.uncompress(payload, trailer[0], None).ok()? {
            None => block::parse(payload).ok(),
            Some(payload) => block::parse(&payload).ok(),
        }
    }

    /// Returns the uncompressed payload, or `None` if the payload is not compressed.
    fn uncompress(
        &self,
        payload: &[u8],
        type_byte: u8,
        dictionary: Option<&Dictionary>,
    ) -> Result<Option<Vec<u8>>, Stop> {
        let compressed = Compressed::open(payload, type_byte).map_err(|failure| match failure {
            Failure::Damage(damage) => Stop::from(damage),
            Failure::Unsupported(what) => Stop::Unclear(format!("not supported: {what}")),
        })?;
        let Some(compressed) = compressed else { return Ok(None) };
        if compressed.uncompressed_bytes as u64 > most_metadata_bytes(self.blocks.len() as u64) {
            let bytes = compressed.uncompressed_bytes;
            return Err(Stop::Unclear(format!(
                "{bytes} bytes when uncompressed: too many to show"
            )));
        }
        let mut out = vec![0; compressed.uncompressed_bytes];
        compressed.decompress_into(&mut out, dictionary)?;
        Ok(Some(out))
    }

    fn print_payload(
        &self,
        dump: &mut Dump<'_, '_>,
        role: Role,
        type_byte: u8,
    ) -> Result<(), Stop> {
        let payload = dump.remaining();
        let is_data = matches!(role, Role::Entries(_, Contents::Data));
        let dictionary = self.dictionary.as_ref().filter(|_| is_data);
        let Some(payload) = self.uncompress(payload, type_byte, dictionary)? else {
            return print_contents(dump, role);
        };
        let (name, bytes) = (compression_name(type_byte), payload.len());
        dump.field(
            dump.remaining().len(),
            format_args!("{name}, {bytes} bytes when uncompressed:"),
        )?;
        let mut inner = dump.uncompressed(&payload);
        Ok(inner.section(bytes, |dump| print_contents(dump, role))?)
    }
}

fn print_contents(dump: &mut Dump<'_, '_>, role: Role) -> Result<(), Stop> {
    match role {
        Role::Entries(_, contents) => block::print(dump, contents),
        Role::Filter(encoding) => filter::print(dump, encoding),
        Role::BlockBasedFilter => filter::print_block_based(dump),
        Role::Dictionary => {
            let bytes = dump.remaining().len();
            Ok(dump.field(bytes, format_args!("{bytes} bytes in front of each data block"))?)
        }
        Role::Named(_) => Err(Stop::Unclear("a block that is not read here".into())),
        Role::Unknown => Err(Stop::Unclear("a block of an unknown kind".into())),
    }
}
