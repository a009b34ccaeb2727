//! The frame of a table: block handles, block trailers and the footer.
//!
//! ```text
//! file    data blocks | filter | index | properties | metaindex | footer
//! block   payload | u8 compression type | u32 checksum
//! handle  varint64 offset | varint64 payload bytes (the 5 trailer bytes not counted)
//!
//! footer, the last 53 bytes of the file
//!   0   1  checksum type
//!   1  40  format_version 2 to 5: metaindex handle, index handle, zeros
//!          format_version 6, 7:   1   4  3e 00 7a 00
//!                                 5   4  checksum of the footer, this field taken as zero
//!                                 9   4  base of the checksum context, never zero
//!                                13   4  metaindex bytes; it ends where the footer begins
//!                                17  16  reserved
//!                                33   8  zero; anything else requires a feature that is unknown here
//!  41   4  format_version
//!  45   8  magic 0x88e241b785f4cff7
//!
//! LevelDB's, the last 48 bytes
//!   0  40  metaindex handle, index handle, zeros; the checksum type is that of CRC-32C
//!  40   8  magic 0xdb4775248b80fb57; the format_version counts as 0
//! ```
//!
//! Only the footer has a fixed position; handles lead to everything else. From format_version 6 on
//! the metaindex holds the index handle, and a *context*, which depends on the file and the offset,
//! is added to each checksum ([`super::checksum`]). Source: the format of RocksDB's
//! BlockBasedTable.

use std::path::Path;

use crate::encoding::coding::{Decoder, fixed32, fixed64, put_fixed32, put_fixed64, put_varint};
use crate::error::{Damage, Error, Result};

use super::checksum::{ChecksumKind, RunningChecksum, context};

/// Bytes after every block's payload.
pub(crate) const BLOCK_TRAILER_BYTES: usize = 5;
/// Bytes of the footer.
pub(crate) const FOOTER_BYTES: usize = 53;
/// Bytes of LevelDB's footer.
const LEVELDBS_FOOTER_BYTES: usize = 48;
/// The format_version that is written. Every RocksDB since 6.6 reads it.
pub(crate) const WRITTEN_VERSION: u32 = 5;

const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const LEGACY_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const EXTENDED_MARK: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];

/// The position of a block in its file.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// let table = maypole::table::SstReader::open(&path)?;
/// let (name, handle) = &table.metaindex()[0];
/// assert_eq!(name, "fullfilter.rocksdb.BuiltinBloomFilter");
/// assert!(handle.offset + handle.bytes < table.file_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockHandle {
    /// Byte offset of the payload.
    pub offset: u64,
    /// Bytes of the stored payload, without the 5 trailer bytes.
    pub bytes: u64,
}

impl BlockHandle {
    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<BlockHandle, Damage> {
        let offset = decoder.varint("block offset")?;
        let bytes = decoder.varint("block size")?;
        Ok(BlockHandle { offset, bytes })
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.bytes);
    }

    /// The offset of the first byte after the trailer; `None` if it does not fit into 64 bits.
    pub(crate) fn end(self) -> Option<u64> {
        self.offset.checked_add(self.bytes)?.checked_add(BLOCK_TRAILER_BYTES as u64)
    }

    /// Whether the block and its trailer end at or before `limit`, and whether the block is small
    /// enough for the 32-bit offsets that blocks use inside.
    pub(crate) fn fits(self, limit: u64) -> bool {
        self.end().is_some_and(|end| end <= limit) && self.bytes < u64::from(u32::MAX)
    }

    /// Returns damage if the block does not fit ([`Self::fits`]). `at` is the position that the
    /// damage states: where the handle is stored.
    pub(crate) fn check(self, limit: u64, at: usize) -> Result<(), Damage> {
        if self.fits(limit) {
            return Ok(());
        }
        let found = format!("{} bytes at {}", self.bytes, self.offset);
        Err(Damage::new(at, format_args!("a block that ends by {limit}"), found))
    }
}

/// The decoded end of a table file.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// let footer = *maypole::table::SstReader::open(&path)?.footer();
/// assert_eq!(footer.format_version, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// RocksDB's `format_version`.
    pub format_version: u32,
    /// The checksum of every block.
    pub checksum: ChecksumKind,
    /// From format_version 6 on, the base of the context that is added to each block's checksum.
    /// The context of a block depends on this base and on the block's offset. 0 below
    /// format_version 6.
    pub checksum_context_base: u32,
    /// The metaindex block: the names and handles of the metadata blocks.
    pub metaindex: BlockHandle,
    /// The index block; `None` from format_version 6 on, where the metaindex names it.
    pub index: Option<BlockHandle>,
}

impl Footer {
    /// Decodes the footer of a file of `file_bytes`. `tail` is the last 53 bytes, or all of a
    /// shorter file. `takes_leveldbs`: whether to accept a table in LevelDB's format.
    pub(crate) fn decode(
        tail: &[u8],
        file_bytes: u64,
        file: &Path,
        takes_leveldbs: bool,
    ) -> Result<Footer> {
        if let Some(tail) = tail.last_chunk::<LEVELDBS_FOOTER_BYTES>()
            && takes_leveldbs
            && fixed64(&tail[40..]) == LEGACY_MAGIC
        {
            let footer_offset = file_bytes - LEVELDBS_FOOTER_BYTES as u64;
            return Footer::decode_handles(&tail[..40], 0, ChecksumKind::Crc32c)
                .and_then(|footer| footer.checked(footer_offset))
                .map_err(|damage| damage.in_file(file, footer_offset));
        }
        let footer_offset = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        if tail.len() < FOOTER_BYTES {
            let found = format!("{} bytes", tail.len());
            return Err(Damage::new(0, "a table of at least 53 bytes", found).in_file(file, 0));
        }
        let magic = fixed64(&tail[45..]);
        let format_version = fixed32(&tail[41..]);
        if magic == LEGACY_MAGIC {
            let what = "tables of LevelDB, and of RocksDB with format_version 0 and 1";
            return Err(unsupported(file, what));
        }
        if magic != MAGIC {
            let expected = format!("the magic number {MAGIC:#x} of a RocksDB table");
            let damage = Damage::new(45, expected, format_args!("{magic:#x}"));
            return Err(damage.in_file(file, footer_offset));
        }
        if !(2..=7).contains(&format_version) {
            let what = format_args!("format_version {format_version} (this build reads 2 to 7)");
            return Err(unsupported(file, what));
        }
        let checksum = ChecksumKind::from_byte(tail[0]).ok_or_else(|| {
            unsupported(file, format_args!("checksum type {} (this build reads 0 to 4)", tail[0]))
        })?;
        let decoded = if format_version >= 6 {
            Self::decode_extended(tail, footer_offset, format_version, checksum)
        } else {
            Self::decode_handles(&tail[1..41], format_version, checksum)
        };
        decoded
            .and_then(|footer| footer.checked(footer_offset))
            .map_err(|damage| damage.in_file(file, footer_offset))
    }

    /// Returns this footer, which is at `footer_offset`, if the metaindex and the index end at or
    /// before this offset.
    fn checked(self, footer_offset: u64) -> Result<Footer, Damage> {
        for (handle, name) in [(Some(self.metaindex), "metaindex"), (self.index, "index")] {
            if let Some(handle) = handle
                && !handle.fits(footer_offset)
            {
                return Err(Damage::new(
                    1,
                    format_args!("the {name} block before the footer at {footer_offset}"),
                    format_args!("{} bytes at {}", handle.bytes, handle.offset),
                ));
            }
        }
        Ok(self)
    }

    pub(crate) fn is_leveldbs(&self) -> bool {
        self.format_version == 0
    }

    pub(crate) fn bytes(&self) -> u64 {
        let bytes = if self.is_leveldbs() { LEVELDBS_FOOTER_BYTES } else { FOOTER_BYTES };
        bytes as u64
    }

    fn decode_handles(
        handles: &[u8],
        format_version: u32,
        checksum: ChecksumKind,
    ) -> Result<Footer, Damage> {
        let mut decoder = Decoder::new(handles);
        let metaindex = BlockHandle::decode(&mut decoder)?;
        let index = BlockHandle::decode(&mut decoder)?;
        Ok(Footer {
            format_version,
            checksum,
            checksum_context_base: 0,
            metaindex,
            index: Some(index),
        })
    }

    fn decode_extended(
        tail: &[u8],
        footer_offset: u64,
        format_version: u32,
        checksum: ChecksumKind,
    ) -> Result<Footer, Damage> {
        if tail[1..5] != EXTENDED_MARK {
            let found = format_args!("{:02x?}", &tail[1..5]).to_string();
            return Err(Damage::new(1, "3e 00 7a 00, the mark of an extended footer", found));
        }
        let base = fixed32(&tail[9..]);
        if base == 0 {
            return Err(Damage::new(9, "a checksum context base above 0", 0));
        }
        if checksum != ChecksumKind::None {
            let mut zeroed = [0; FOOTER_BYTES];
            zeroed.copy_from_slice(tail);
            zeroed[5..9].fill(0);
            let computed = checksum.of(&zeroed).wrapping_add(context(base, footer_offset));
            let stored = fixed32(&tail[5..]);
            if stored != computed {
                return Err(Damage::new(
                    5,
                    format_args!("footer checksum {computed:#010x}"),
                    format_args!("{stored:#010x}"),
                ));
            }
        }
        if tail[33..41] != [0; 8] {
            let found = format_args!("{:02x?}", &tail[33..41]).to_string();
            return Err(Damage::new(33, "eight zero bytes (no unknown feature)", found));
        }
        let bytes = u64::from(fixed32(&tail[13..]));
        let offset =
            footer_offset.checked_sub(bytes + BLOCK_TRAILER_BYTES as u64).ok_or_else(|| {
                Damage::new(13, "a metaindex inside the file", format_args!("{bytes} bytes"))
            })?;
        Ok(Footer {
            format_version,
            checksum,
            checksum_context_base: base,
            metaindex: BlockHandle { offset, bytes },
            index: None,
        })
    }

    /// The footer of a new table with these blocks.
    pub(crate) fn written(metaindex: BlockHandle, index: BlockHandle) -> Footer {
        Footer {
            format_version: WRITTEN_VERSION,
            checksum: ChecksumKind::Xxh3,
            checksum_context_base: 0,
            metaindex,
            index: Some(index),
        }
    }

    /// The bytes of this footer at `footer_offset`. From format_version 6 on, the metaindex must end
    /// there. LevelDB's footers are not written.
    pub(crate) fn encode(&self, footer_offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.push(self.checksum.to_byte());
        match self.index {
            Some(index) => {
                self.metaindex.encode(&mut out);
                index.encode(&mut out);
            }
            None => {
                out.extend_from_slice(&EXTENDED_MARK);
                put_fixed32(&mut out, 0);
                put_fixed32(&mut out, self.checksum_context_base);
                put_fixed32(&mut out, self.metaindex.bytes as u32);
            }
        }
        out.resize(41, 0);
        put_fixed32(&mut out, self.format_version);
        put_fixed64(&mut out, MAGIC);
        if self.index.is_none() {
            let checksum = self.block_checksum(&out, footer_offset);
            out[5..9].copy_from_slice(&checksum.to_le_bytes());
        }
        out
    }

    /// The checksum that the trailer of a block at `offset` must hold. `stored` is the payload and
    /// the type byte.
    pub(crate) fn block_checksum(&self, stored: &[u8], offset: u64) -> u32 {
        self.checksum.of(stored).wrapping_add(context(self.checksum_context_base, offset))
    }

    /// Like [`Footer::block_checksum`], for a payload and a type byte that are not adjacent.
    pub(crate) fn checksum_of_parts(&self, payload: &[u8], compression: u8, offset: u64) -> u32 {
        let of_block = self.checksum.of_parts(payload, compression);
        of_block.wrapping_add(context(self.checksum_context_base, offset))
    }

    /// Like [`Footer::block_checksum`], for a payload that was hashed piece by piece.
    pub(crate) fn checksum_of_running(
        &self,
        payload: &RunningChecksum,
        compression: u8,
        offset: u64,
    ) -> u32 {
        let of_block = payload.with_last(compression);
        of_block.wrapping_add(context(self.checksum_context_base, offset))
    }
}

pub(crate) fn unsupported(file: &Path, what: impl std::fmt::Display) -> Error {
    Error::Unsupported { file: file.to_owned(), what: what.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "t.sst";

    fn decode(tail: &[u8], file_bytes: u64) -> Result<Footer> {
        Footer::decode(tail, file_bytes, Path::new(FILE), false)
    }

    #[test]
    fn the_footer_we_write_is_read_back() {
        let metaindex = BlockHandle { offset: 900, bytes: 50 };
        let index = BlockHandle { offset: 500, bytes: 300 };
        let bytes = Footer::written(metaindex, index).encode(955);
        assert_eq!(bytes.len(), FOOTER_BYTES);
        let footer = decode(&bytes, 955 + 53).unwrap();
        assert_eq!((footer.metaindex, footer.index), (metaindex, Some(index)));
        assert_eq!(footer.format_version, 5);
        // With one byte less in front of the footer, the metaindex would overlap the footer.
        assert!(matches!(decode(&bytes, 954 + 53), Err(Error::Corruption { .. })));
    }

    /// The footer of a table whose filter is replaced keeps its format and its checksum.
    #[test]
    fn a_footer_of_any_version_and_checksum_is_read_back() {
        let metaindex = BlockHandle { offset: 900, bytes: 50 };
        for checksum in (0..=4).filter_map(ChecksumKind::from_byte) {
            for format_version in 2..=7 {
                let is_extended = format_version >= 6;
                let footer = Footer {
                    format_version,
                    checksum,
                    checksum_context_base: if is_extended { 77 } else { 0 },
                    metaindex,
                    index: (!is_extended).then_some(BlockHandle { offset: 500, bytes: 300 }),
                };
                let bytes = footer.encode(955);
                assert_eq!(decode(&bytes, 955 + 53).unwrap(), footer);
                let moved = decode(&bytes, 956 + 53);
                let is_bound = is_extended && checksum != ChecksumKind::None;
                assert_eq!(moved.is_err(), is_bound, "{footer:?}");
            }
        }
    }

    #[test]
    fn foreign_and_old_files_are_told_apart() {
        let index = BlockHandle { offset: 0, bytes: 0 };
        let good = Footer::written(index, index).encode(947);
        let mut magic = good.clone();
        magic[50] ^= 1;
        let message = decode(&magic, 1000).unwrap_err().to_string();
        assert!(message.contains("t.sst: damaged at offset 992"), "{message}");
        for version in [0, 1, 8, u32::MAX] {
            let mut other = good.clone();
            other[41..45].copy_from_slice(&version.to_le_bytes());
            assert!(matches!(decode(&other, 1000), Err(Error::Unsupported { .. })), "{version}");
        }
        assert!(matches!(decode(&good[1..], 52), Err(Error::Corruption { .. })));
    }

    #[test]
    fn a_handle_near_the_end_of_the_number_range_does_not_overflow() {
        for (offset, bytes) in [(u64::MAX, 1), (1, u64::MAX), (u64::MAX - 5, 0)] {
            assert!(!BlockHandle { offset, bytes }.fits(u64::MAX - 1));
        }
    }
}
