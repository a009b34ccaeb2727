//! Step 5: a table, which is a file of blocks with a filter.
//!
//! ```text
//! data block | … | data block | filter | index | properties | metaindex | footer
//!
//! block       its bytes, then a trailer of 5: compression (0: none), fixed32 checksum
//! index       a block: the last key of each data block -> its handle
//! metaindex   a block: the name of each other block -> its handle
//! footer      53 bytes: kind of checksum, handles of metaindex and index, zeros, version, magic
//! ```
//!
//! A reader starts with the footer. The file has the format of RocksDB, except for what step 6
//! adds.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use maypole::hash64;

use super::step03_line;
use super::step04_block::{Block, BlockBuilder, KeyValue, RESTART_INTERVAL};
use crate::given::{Entry, Handle, VALUE, damaged, split_key};

/// A data block is written when it has this many bytes or more.
pub const BLOCK_BYTES: usize = 4096;
const TRAILER_BYTES: u64 = 5;
const FOOTER_BYTES: u64 = 53;
/// The size of the two handles in the footer, including the zeros behind them.
const HANDLES_BYTES: usize = 40;
/// The version of the format, and the magic number, by which a reader knows that the file is a
/// table.
const FOOTER_END: [u8; 12] = [5, 0, 0, 0, 0xf7, 0xcf, 0xf4, 0x85, 0xb7, 0x41, 0xe2, 0x88];
const FILTER: &[u8] = b"fullfilter.rocksdb.BuiltinBloomFilter";
const PROPERTIES: &[u8] = b"rocksdb.properties";

/// What is in a table.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub entries: u64,
    pub data_blocks: u64,
    /// Bytes of all data blocks, with their trailers.
    pub data_bytes: u64,
    pub key_bytes: u64,
    pub value_bytes: u64,
    pub filter_bytes: u64,
}

/// What step 6 adds to a table: checksums, and a block of properties.
#[derive(Clone, Copy)]
pub struct Ending {
    pub checksum_kind: u8,
    /// Computes one checksum of a block and of the compression byte behind it.
    pub checksum: fn(&[u8]) -> u32,
    /// Makes the block of properties. If it returns no bytes, the table gets no such block.
    pub properties: fn(Counts) -> Vec<u8>,
}

/// No checksums and no properties.
pub const PLAIN: Ending = Ending { checksum_kind: 0, checksum: |_| 0, properties: |_| Vec::new() };

/// Whether an internal key comes before the place of a user key and a sequence number. User keys
/// ascend. Among the entries of one user key the newest, with the largest sequence number, comes
/// first.
pub fn is_before(internal_key: &[u8], user_key: &[u8], sequence: u64) -> bool {
    todo!("compare user keys; if they are equal, compare sequence numbers the other way round")
}

/// Writes a table. Internal keys come in the order of [`is_before`].
pub struct TableBuilder {
    ending: Ending,
    file: Vec<u8>,
    data: BlockBuilder,
    index: BlockBuilder,
    last_key: Vec<u8>,
    /// The hashes of all user keys, each once, for the filter.
    hashes: Vec<u64>,
    counts: Counts,
}

impl TableBuilder {
    pub fn new(ending: Ending) -> TableBuilder {
        TableBuilder {
            ending,
            file: Vec::new(),
            data: BlockBuilder::new(RESTART_INTERVAL),
            index: BlockBuilder::new(1),
            last_key: Vec::new(),
            hashes: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) {
        let (user_key, _, _) = split_key(internal_key);
        self.counts.entries += 1;
        self.counts.key_bytes += internal_key.len() as u64;
        self.counts.value_bytes += value.len() as u64;
        todo!("the entry goes to the data block; a new user key: its hash goes to the filter's")
    }

    /// Writes the data block and enters it in the index.
    fn end_data_block(&mut self) {
        todo!("write the block; the index gets the block's last key and its encoded handle")
    }

    /// Writes a block and its trailer.
    fn write_block(&mut self, block: &[u8]) -> Handle {
        todo!("the block, a byte 0, the checksum of both; the handle is of the block alone")
    }

    /// Returns the whole file. At least one entry must have been added. With 0 bits a key there is
    /// no filter.
    pub fn finish(mut self, bits_per_key: f64) -> Vec<u8> {
        if !self.data.is_empty() {
            self.end_data_block();
        }
        // Names in the metaindex must ascend, so the filter ("fullfilter…") is added before the
        // properties ("rocksdb…").
        let mut metaindex = BlockBuilder::new(1);
        if bits_per_key > 0.0 {
            todo!("build the filter with step 3, write it, enter its handle under FILTER")
        }
        let index = self.index.finish();
        let index = self.write_block(&index);
        let properties = (self.ending.properties)(self.counts);
        if !properties.is_empty() {
            let handle = self.write_block(&properties);
            metaindex.add(PROPERTIES, &handle.encode());
        }
        let metaindex = self.write_block(&metaindex.finish());
        let mut handles = [metaindex.encode(), index.encode()].concat();
        handles.resize(HANDLES_BYTES, 0);
        self.file.push(self.ending.checksum_kind);
        self.file.extend(handles);
        self.file.extend(FOOTER_END);
        self.file
    }
}

/// What a block is for. A cache treats the kinds differently (step 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Data,
    Index,
    Filter,
}

/// Where a lookup gets the blocks of tables from: the files, or a cache in front of them.
pub trait Blocks {
    fn block(&self, table: &Table, handle: Handle, kind: Kind) -> io::Result<Rc<[u8]>>;
}

/// Reads each block from its file.
pub struct Uncached;

impl Blocks for Uncached {
    fn block(&self, table: &Table, handle: Handle, _: Kind) -> io::Result<Rc<[u8]>> {
        table.read_block(handle)
    }
}

/// An open table.
pub struct Table {
    /// A number that no other table has.
    pub number: u64,
    /// Blocks that were read from the file.
    pub reads: Cell<u64>,
    file: RefCell<File>,
    pub file_bytes: u64,
    ending: Ending,
    pub index: Handle,
    filter: Option<Handle>,
}

impl Table {
    /// Opens a file: reads its footer and its metaindex.
    pub fn open(path: &Path, number: u64, ending: Ending) -> io::Result<Table> {
        let mut file = File::open(path)?;
        let file_bytes = file.metadata()?.len();
        let start = file_bytes.checked_sub(FOOTER_BYTES);
        file.seek(SeekFrom::Start(start.ok_or_else(|| damaged("too short for a table"))?))?;
        let mut footer = [0; FOOTER_BYTES as usize];
        file.read_exact(&mut footer)?;
        if !footer.ends_with(&FOOTER_END) || footer[0] != ending.checksum_kind {
            return Err(damaged("the footer of a table"));
        }
        let mut handles = &footer[1..];
        let metaindex = Handle::take(&mut handles)?;
        let index = Handle::take(&mut handles)?;
        let (file, reads) = (RefCell::new(file), Cell::new(0));
        let mut table = Table { number, reads, file, file_bytes, ending, index, filter: None };
        for entry in Block::new(table.read_block(metaindex)?)?.entries() {
            let (name, value) = entry?;
            if name == FILTER {
                table.filter = Some(Handle::take(&mut &value[..])?);
            }
        }
        table.reads.set(0);
        Ok(table)
    }

    /// Reads a block from the file and checks its trailer.
    pub fn read_block(&self, handle: Handle) -> io::Result<Rc<[u8]>> {
        let Handle { offset, size } = handle;
        if offset > self.file_bytes || size > self.file_bytes {
            return Err(damaged("a block outside of its file"));
        }
        let mut bytes = vec![0; (size + TRAILER_BYTES) as usize];
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut bytes)?;
        self.reads.set(self.reads.get() + 1);
        let (checked, checksum) = bytes.split_at(size as usize + 1);
        if checked[size as usize] != 0 {
            return Err(damaged("a block with an unknown compression"));
        }
        if (self.ending.checksum)(checked).to_le_bytes() != checksum {
            return Err(damaged("the checksum of a block"));
        }
        Ok(checked[..size as usize].into())
    }

    /// Bytes of the filter; 0 without one.
    pub fn filter_bytes(&self) -> u64 {
        self.filter.map_or(0, |handle| handle.size)
    }

    pub fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Whether the table may have the key with this hash, as its filter says. If the table has no
    /// filter, the answer is `true`.
    pub fn may_contain(&self, blocks: &dyn Blocks, hash: u64) -> io::Result<bool> {
        todo!("get the filter from `blocks`, and query it with step 3")
    }

    /// Searches the table for the newest entry of a key whose sequence number is at most `sequence`,
    /// without a query of the filter.
    pub fn get(
        &self,
        blocks: &dyn Blocks,
        user_key: &[u8],
        sequence: u64,
    ) -> io::Result<Option<Entry>> {
        let is_before = |key: &[u8]| is_before(key, user_key, sequence);
        todo!("seek in the index, get the data block, seek in it; is it this key?")
    }

    /// All entries in order: internal keys and values. They are read from the file, not through a
    /// cache.
    pub fn entries(&self) -> io::Result<Vec<KeyValue>> {
        let mut entries = Vec::new();
        for block in Block::new(self.read_block(self.index)?)?.entries() {
            let handle = Handle::take(&mut &block?.1[..])?;
            for entry in Block::new(self.read_block(handle)?)?.entries() {
                entries.push(entry?);
            }
        }
        Ok(entries)
    }
}

/// Decodes a stored key and value.
pub fn entry_of(internal_key: &[u8], value: Vec<u8>) -> Entry {
    let (_, sequence, kind) = split_key(internal_key);
    Entry { sequence, value: (kind == VALUE).then_some(value) }
}
