//! [`BlockFile`]: an open table file. It reads each block by one `pread`.
//!
//! Lookups, scans and checks read a table file through this type, which counts the reads. Only
//! batch reads and the search for lost blocks read the file directly. The returned blocks are
//! checked and uncompressed, unless the method's name says "stored". No block is cached here.

use std::cell::Cell;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::encoding::coding::fixed32;
use crate::error::{Damage, Error, Result};
use crate::fs::RandomAccessFile;
use crate::known_files;
use crate::memory::LineBuf;
use crate::stats::{Counters, FileCounters, FileTicker, Ticker};
use crate::sync::before_reading;
use crate::sync::thread_local;
use crate::sync::time::Instant;

use super::compression::dictionary::Dictionary;
use super::compression::read::{Compressed, Failure};
use super::footer::{BLOCK_TRAILER_BYTES, BlockHandle, FOOTER_BYTES, Footer, unsupported};
use super::limits::most_metadata_bytes;
use crate::table::block::Block;
use crate::table::block::payload::BlockBytes;

/// Blocks of at least this size are read only if a trial allocation finds memory for them.
pub(crate) const LARGE_BLOCK_BYTES: usize = 1 << 20;

/// The most bytes that opening a table reads at once.
pub(crate) const MAX_TAIL_BYTES: u64 = 1 << 20;

/// How errors describe the data blocks that RocksDB writes with `separate_key_value_in_data_block`.
pub(crate) const SEPARATED: &str = "data blocks whose keys and values are stored apart";

/// Opening a table first reads this many bytes if it is not known how many it needs.
const UNKNOWN_TAIL_BYTES: u64 = 64 << 10;

/// Returns `error`, which says that the file is not a table. If the kind of the file is known, the
/// error then names it.
#[cold]
fn named(file: &dyn RandomAccessFile, tail: &[u8], mut error: Error) -> Error {
    let mut head = vec![0; file.len().min(UNKNOWN_TAIL_BYTES) as usize];
    if let Error::Corruption { found, .. } = &mut error
        && file.read_exact_at(0, &mut head).is_ok()
        && let Some(name) = known_files::name_of(&head, tail)
    {
        *found = name;
    }
    error
}

/// Of this many reads of single blocks, a thread times one.
const TIMED: u32 = 8;

thread_local! {
    /// The number of reads of single blocks by this thread.
    static READS: Cell<u32> = const { Cell::new(0) };
}

/// A table file and its footer.
pub(crate) struct BlockFile {
    file: Arc<dyn RandomAccessFile>,
    footer: Footer,
    /// See [`BlockFile::limit`].
    limit: u64,
    /// Of the database.
    pub counters: Arc<Counters>,
    /// Of this file.
    pub file_counters: FileCounters,
    /// The dictionary that data blocks are compressed with, if any.
    dictionary: Option<Box<Dictionary>>,
    /// The last bytes of the file, which hold the blocks that opening reads. Empty once the table
    /// is open.
    tail: Vec<u8>,
}

/// A function that makes a buffer of at least the given length, with any content:
/// `LineBuf::zeroed`, or memory of a cache.
pub(crate) trait Buffer: Fn(usize) -> LineBuf + Copy {}

impl<F: Fn(usize) -> LineBuf + Copy> Buffer for F {}

/// A block as it is stored: payload and trailer. The rest of the buffer is unused.
pub(crate) struct StoredBlock {
    buffer: LineBuf,
    handle: BlockHandle,
}

impl BlockFile {
    /// Opens a file and reads its tail. `tail_bytes` says how many bytes at the end of the file the
    /// opening needs, or is 0 if this is not known. The tail has at least the footer, and at most
    /// [`MAX_TAIL_BYTES`]. `takes_leveldbs`: whether a table in LevelDB's format is accepted, too.
    pub fn open(
        file: Arc<dyn RandomAccessFile>,
        counters: Arc<Counters>,
        tail_bytes: u64,
        takes_leveldbs: bool,
    ) -> Result<BlockFile> {
        let length = file.len();
        let tail_bytes = if tail_bytes == 0 { UNKNOWN_TAIL_BYTES } else { tail_bytes };
        let tail_bytes = tail_bytes.clamp(FOOTER_BYTES as u64, MAX_TAIL_BYTES).min(length);
        let mut tail = vec![0; tail_bytes as usize];
        let file_counters = FileCounters::new();
        count_read(&counters, &file_counters, tail.len());
        file.read_exact_at(length - tail_bytes, &mut tail)?;
        let footer = &tail[tail.len().saturating_sub(FOOTER_BYTES)..];
        let footer = Footer::decode(footer, length, file.path(), takes_leveldbs)
            .map_err(|error| named(&*file, &tail, error))?;
        let limit = length - footer.bytes();
        Ok(BlockFile { file, footer, limit, counters, file_counters, dictionary: None, tail })
    }

    /// A file whose own footer is missing or unusable. The caller provides the footer.
    pub fn with_footer(
        file: Arc<dyn RandomAccessFile>,
        counters: Arc<Counters>,
        footer: Footer,
    ) -> BlockFile {
        let (limit, file_counters) = (file.len(), FileCounters::new());
        let dictionary = None;
        BlockFile { file, footer, limit, counters, file_counters, dictionary, tail: Vec::new() }
    }

    /// Extends the tail by one more read, so that it begins at `start` or before. The tail stays as
    /// it is if it would become longer than [`MAX_TAIL_BYTES`]. Then each block in front of the
    /// tail takes a read of its own.
    pub fn extend_tail(&mut self, start: u64) -> Result<()> {
        let length = self.file.len();
        let missing = (length - self.tail.len() as u64).saturating_sub(start);
        if missing == 0 || length - start > MAX_TAIL_BYTES {
            return Ok(());
        }
        let mut longer = vec![0; (length - start) as usize];
        let (front, known) = longer.split_at_mut(missing as usize);
        self.read_bytes(start, front)?;
        known.copy_from_slice(&self.tail);
        self.tail = longer;
        Ok(())
    }

    /// Reads the dictionary, which stays in memory. `is_for_zstd`: whether blocks of the table may
    /// be compressed by ZSTD.
    pub fn read_dictionary(&mut self, handle: BlockHandle, is_for_zstd: bool) -> Result<()> {
        let bytes = self.read_metadata(handle)?;
        let dictionary = Dictionary::new(bytes, is_for_zstd);
        let dictionary = dictionary.map_err(|damage| self.damaged(damage, handle))?;
        self.dictionary = Some(Box::new(dictionary));
        Ok(())
    }

    /// Bytes of memory that the dictionary takes.
    pub fn dictionary_bytes(&self) -> usize {
        let bytes = |it: &Dictionary| size_of::<Dictionary>() + it.heap_bytes();
        self.dictionary.as_deref().map_or(0, bytes)
    }

    /// Frees the tail once the table is open.
    pub fn forget_tail(&mut self) {
        self.tail = Vec::new();
    }

    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.file
    }

    /// The offset at or before which all blocks end: where the footer starts or, after
    /// [`BlockFile::with_footer`], the end of the file.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Damage in the block at `handle`, as an error that names the file.
    pub fn damaged(&self, damage: Damage, handle: BlockHandle) -> Error {
        damage.in_file(self.path(), handle.offset)
    }

    /// The payload of a block that is not data, checked and uncompressed.
    pub fn read_metadata(&self, handle: BlockHandle) -> Result<BlockBytes> {
        self.decode_metadata(self.read_stored(handle, LineBuf::zeroed)?)
    }

    /// Like [`BlockFile::read_metadata`], for a block that was read before.
    pub fn decode_metadata(&self, stored: StoredBlock) -> Result<BlockBytes> {
        self.check(&stored)?;
        self.uncompress_metadata(stored)
    }

    /// A block of entries that is not a data block, checked and uncompressed.
    pub fn read_metadata_block(&self, handle: BlockHandle) -> Result<Block> {
        Block::new(self.read_metadata(handle)?).map_err(|damage| self.damaged(damage, handle))
    }

    /// Checks the checksum of a stored block.
    pub fn check(&self, stored: &StoredBlock) -> Result<()> {
        stored.verify(&self.footer).map_err(|damage| self.damaged(damage, stored.handle))
    }

    /// A block of data.
    pub fn read_data_block(&self, handle: BlockHandle) -> Result<Block> {
        self.decode(self.read_stored(handle, LineBuf::zeroed)?)
    }

    /// A block of data, from its stored bytes.
    pub fn decode(&self, stored: StoredBlock) -> Result<Block> {
        let handle = stored.handle;
        self.check(&stored)?;
        self.data_block(self.uncompress(stored, LineBuf::zeroed)?, handle)
    }

    /// A block of data, from its payload.
    pub fn data_block(&self, payload: BlockBytes, handle: BlockHandle) -> Result<Block> {
        if Block::is_separated(&payload) {
            return Err(unsupported(self.path(), SEPARATED));
        }
        Block::new(payload).map_err(|damage| self.damaged(damage, handle))
    }

    /// A block as it is stored, **not** checked.
    #[inline]
    pub fn read_stored(&self, handle: BlockHandle, buffer: impl Buffer) -> Result<StoredBlock> {
        let bytes = self.stored_bytes(handle)?;
        let mut buffer = buffer(bytes);
        self.read_timed(handle.offset, &mut buffer[..bytes])?;
        Ok(StoredBlock { buffer, handle })
    }

    /// Fills `buffer` by one read. Times a thread's first read, and then only every [`TIMED`]th,
    /// because reading the clock twice takes a noticeable share of a read from the page cache.
    #[inline(always)]
    pub fn read_timed(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let number = READS.with(Cell::get);
        READS.with(|reads| reads.set(number.wrapping_add(1)));
        if !number.is_multiple_of(TIMED) {
            return self.read_bytes(offset, buffer).map(drop);
        }
        let start = Instant::now();
        if self.read_bytes(offset, buffer)? {
            self.counters.add(Ticker::FileReadsTimed, 1);
            self.counters.add(Ticker::FileReadNanos, start.elapsed().as_nanos() as u64);
        }
        Ok(())
    }

    /// How many bytes a buffer for the stored block needs: payload and trailer.
    ///
    /// # Errors
    /// If the handle leads out of the file, or if there is no memory for the block.
    pub fn stored_bytes(&self, handle: BlockHandle) -> Result<usize> {
        handle.check(self.limit(), 0).map_err(|damage| self.damaged(damage, handle))?;
        // `check` has bounded the size by the length of the file and by 2^32, so it fits into
        // `usize`.
        self.afford(handle.bytes as usize)?;
        Ok(handle.bytes as usize + BLOCK_TRAILER_BYTES)
    }

    /// Returns an error if there is no memory for a large block. Rust aborts when an allocation
    /// fails, and here the file decides how much is allocated.
    fn afford(&self, bytes: usize) -> Result<()> {
        let mut probe = Vec::<u8>::new();
        if bytes >= LARGE_BLOCK_BYTES && probe.try_reserve_exact(bytes).is_err() {
            let kind = ErrorKind::OutOfMemory;
            return Err(Error::io(self.path(), "get memory to read", kind.into()));
        }
        // Without this use of `probe`, the compiler might leave out the allocation.
        std::hint::black_box(&probe);
        Ok(())
    }

    /// Fills `buffer` by one read, or from the tail if the tail holds these bytes. Returns whether
    /// the file was read.
    #[inline]
    pub fn read_bytes(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        let tail_offset = self.file.len() - self.tail.len() as u64;
        if offset >= tail_offset {
            let in_tail = self.tail.get((offset - tail_offset) as usize..);
            if let Some(bytes) = in_tail.and_then(|bytes| bytes.get(..buffer.len())) {
                buffer.copy_from_slice(bytes);
                return Ok(false);
            }
        }
        self.count_read(buffer.len());
        self.file.read_exact_at(offset, buffer)?;
        Ok(true)
    }

    /// Counts a read that the caller makes. The caller must hold no guard: a read from a device may
    /// take arbitrarily long, and a guard keeps retired memory from being freed.
    pub fn count_read(&self, bytes: usize) {
        before_reading();
        count_read(&self.counters, &self.file_counters, bytes);
    }

    /// The uncompressed payload of a data block whose checksum was checked.
    pub fn uncompress(&self, stored: StoredBlock, buffer: impl Buffer) -> Result<BlockBytes> {
        self.uncompress_up_to(u64::MAX, stored, self.dictionary.as_deref(), buffer)
    }

    /// The uncompressed payload of a block that is not a data block, and whose checksum was
    /// checked.
    pub fn uncompress_metadata(&self, stored: StoredBlock) -> Result<BlockBytes> {
        self.uncompress_up_to(most_metadata_bytes(self.limit()), stored, None, LineBuf::zeroed)
    }

    fn uncompress_up_to(
        &self,
        most: u64,
        stored: StoredBlock,
        dictionary: Option<&Dictionary>,
        buffer: impl Buffer,
    ) -> Result<BlockBytes> {
        let handle = stored.handle;
        let fail = |failure| match failure {
            Failure::Damage(damage) => self.damaged(damage, handle),
            Failure::Unsupported(what) => unsupported(self.path(), what),
        };
        let kind = stored.compression_type();
        if self.footer.is_leveldbs() && kind > 1 {
            // In LevelDB's format, types above 1 mean other codecs than in RocksDB's format, and
            // the uncompressed sizes are stored differently.
            let codec = match kind {
                2 => "zlib of Minecraft, ZSTD of LevelDB since 1.24",
                4 => "raw deflate of Minecraft",
                _ => "unknown",
            };
            let what = format!("compression type {kind} in a table of LevelDB's format ({codec})");
            return Err(fail(Failure::Unsupported(what)));
        }
        let compressed = Compressed::open(stored.payload(), kind).map_err(fail)?;
        match compressed {
            None => {
                let length = stored.payload().len();
                Ok(BlockBytes::new(stored.buffer, length))
            }
            Some(compressed) if compressed.uncompressed_bytes as u64 > most => {
                let expected = format_args!("at most {most} bytes of metadata").to_string();
                let found = compressed.uncompressed_bytes;
                Err(self.damaged(Damage::new(0, expected, found), handle))
            }
            Some(compressed) => {
                let length = compressed.uncompressed_bytes;
                self.afford(length)?;
                let mut out = buffer(length);
                compressed
                    .decompress_into(&mut out[..length], dictionary)
                    .map_err(|damage| fail(Failure::Damage(damage)))?;
                Ok(BlockBytes::new(out, length))
            }
        }
    }
}

fn count_read(counters: &Counters, file_counters: &FileCounters, bytes: usize) {
    counters.add(Ticker::FileReads, 1);
    counters.add(Ticker::FileReadBytes, bytes as u64);
    file_counters.add(FileTicker::Reads, 1);
    file_counters.add(FileTicker::ReadBytes, bytes as u64);
}

impl StoredBlock {
    /// The block at `handle`. `buffer` begins with its payload and its trailer.
    pub fn new(buffer: LineBuf, handle: BlockHandle) -> StoredBlock {
        debug_assert!(buffer.len() as u64 >= handle.bytes + BLOCK_TRAILER_BYTES as u64);
        StoredBlock { buffer, handle }
    }

    /// Copies a block out of a longer read: its payload and its trailer.
    pub fn copy_from(
        payload_and_trailer: &[u8],
        handle: BlockHandle,
        buffer: impl Buffer,
    ) -> StoredBlock {
        debug_assert_eq!(payload_and_trailer.len() as u64, handle.bytes + 5);
        let mut buffer = buffer(payload_and_trailer.len());
        buffer[..payload_and_trailer.len()].copy_from_slice(payload_and_trailer);
        StoredBlock { buffer, handle }
    }

    pub fn handle(&self) -> BlockHandle {
        self.handle
    }

    /// Payload and trailer.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.handle.bytes as usize + BLOCK_TRAILER_BYTES]
    }

    pub fn payload(&self) -> &[u8] {
        &self.buffer[..self.handle.bytes as usize]
    }

    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.handle.bytes as usize]
    }

    pub fn compression_type(&self) -> u8 {
        self.buffer[self.handle.bytes as usize]
    }

    /// Checks that the trailer's checksum is that of the stored bytes.
    pub fn verify(&self, footer: &Footer) -> Result<(), Damage> {
        let (covered, stored) = self.bytes().split_at(self.handle.bytes as usize + 1);
        let stored = fixed32(stored);
        let computed = footer.block_checksum(covered, self.handle.offset);
        if stored != computed {
            return Err(Damage::new(
                covered.len(),
                format_args!("block checksum {computed:#010x} ({})", footer.checksum.name()),
                format_args!("{stored:#010x}"),
            ));
        }
        Ok(())
    }
}
