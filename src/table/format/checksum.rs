//! The 32-bit checksums that guard blocks and footers.
//!
//! ```text
//! id  name       value over: stored payload ++ compression type byte
//! 0   none       0
//! 1   CRC-32C    rotr32(crc, 15) + 0xa282ead8      ("masked", so that a CRC of CRCs is sound)
//! 2   XXH32      seed 0
//! 3   XXH64      seed 0, low 32 bits
//! 4   XXH3       low 32 bits of XXH3-64 over all but the last byte, ^ last byte * 0x6b9083d9
//! ```
//!
//! From format_version 6 on, a *context* is added to the checksum, modulo 2^32. The context depends
//! on the block's offset and on the file. So if a block is written to a wrong offset or into a
//! wrong file, its checksum does not match there.
//!
//! The XXH3 here is the final one of xxHash 0.8. Filters hash keys with an older draft of XXH3.

use std::hash::Hasher;

use twox_hash::{XxHash3_64, XxHash32, XxHash64};

/// Which checksum a table's blocks carry.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// let table = maypole::table::SstReader::open(&path)?;
/// assert_eq!(table.footer().checksum, maypole::table::ChecksumKind::Xxh3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChecksumKind {
    /// No checksum: the field is stored as zero.
    None,
    /// CRC-32C, masked.
    Crc32c,
    /// XXH32.
    XxHash32,
    /// The low half of XXH64.
    XxHash64,
    /// XXH3 of all bytes but the last, combined with the last byte. Maypole and current versions of
    /// RocksDB write this kind.
    Xxh3,
}

/// The kinds in the order of their ids, with the names that RocksDB's tools print.
const KINDS: [(ChecksumKind, &str); 5] = [
    (ChecksumKind::None, "kNoChecksum"),
    (ChecksumKind::Crc32c, "kCRC32c"),
    (ChecksumKind::XxHash32, "kxxHash"),
    (ChecksumKind::XxHash64, "kxxHash64"),
    (ChecksumKind::Xxh3, "kXXH3"),
];

impl ChecksumKind {
    /// The kind whose id is `byte`, the first byte of a footer.
    pub(crate) fn from_byte(byte: u8) -> Option<ChecksumKind> {
        KINDS.get(usize::from(byte)).map(|&(kind, _)| kind)
    }

    /// The id of this kind, which a footer begins with.
    pub(crate) fn to_byte(self) -> u8 {
        self as u8
    }

    /// The name RocksDB's tools print.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// The checksum of `bytes`: a stored payload and its compression type byte.
    pub(crate) fn of(self, bytes: &[u8]) -> u32 {
        match self {
            ChecksumKind::None => 0,
            ChecksumKind::Crc32c => masked(crc32c::crc32c(bytes)),
            ChecksumKind::XxHash32 => XxHash32::oneshot(0, bytes),
            ChecksumKind::XxHash64 => XxHash64::oneshot(0, bytes) as u32,
            ChecksumKind::Xxh3 => match bytes.split_last() {
                None => 0,
                Some((&last, rest)) => self.of_parts(rest, last),
            },
        }
    }

    /// The checksum of a payload and its type byte that are not adjacent in memory.
    pub(crate) fn of_parts(self, payload: &[u8], last: u8) -> u32 {
        match self {
            ChecksumKind::Xxh3 => with_type(XxHash3_64::oneshot(payload), last),
            kind => kind.of(&[payload, &[last]].concat()),
        }
    }
}

/// The checksum of a payload that is hashed piece by piece. So one pass over some bytes gives the
/// checksums of all their prefixes.
pub(crate) enum RunningChecksum {
    None,
    Crc32c(u32),
    XxHash32(XxHash32),
    XxHash64(XxHash64),
    Xxh3(Box<XxHash3_64>),
}

impl RunningChecksum {
    pub(crate) fn new(kind: ChecksumKind) -> RunningChecksum {
        match kind {
            ChecksumKind::None => RunningChecksum::None,
            ChecksumKind::Crc32c => RunningChecksum::Crc32c(0),
            ChecksumKind::XxHash32 => RunningChecksum::XxHash32(XxHash32::with_seed(0)),
            ChecksumKind::XxHash64 => RunningChecksum::XxHash64(XxHash64::with_seed(0)),
            ChecksumKind::Xxh3 => RunningChecksum::Xxh3(Box::new(XxHash3_64::new())),
        }
    }

    /// Hashes the next bytes of the payload.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        match self {
            RunningChecksum::None => {}
            RunningChecksum::Crc32c(crc) => *crc = crc32c::crc32c_append(*crc, bytes),
            RunningChecksum::XxHash32(state) => state.write(bytes),
            RunningChecksum::XxHash64(state) => state.write(bytes),
            RunningChecksum::Xxh3(state) => state.write(bytes),
        }
    }

    /// The checksum of what was hashed so far and of the type byte `last` after it.
    pub(crate) fn with_last(&self, last: u8) -> u32 {
        match self {
            RunningChecksum::None => 0,
            &RunningChecksum::Crc32c(crc) => masked(crc32c::crc32c_append(crc, &[last])),
            RunningChecksum::XxHash32(state) => {
                let mut state = state.clone();
                state.write(&[last]);
                state.finish_32()
            }
            RunningChecksum::XxHash64(state) => {
                let mut state = state.clone();
                state.write(&[last]);
                state.finish() as u32
            }
            RunningChecksum::Xxh3(state) => with_type(state.finish(), last),
        }
    }
}

/// What is stored of a CRC-32C.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The checksum of a payload whose XXH3 is `of_payload`, and of the type byte after it.
fn with_type(of_payload: u64, last: u8) -> u32 {
    of_payload as u32 ^ u32::from(last).wrapping_mul(0x6b90_83d9)
}

/// The context (see the module) of a block at `offset`. `base` is the footer's
/// `checksum_context_base`. Below format_version 6 the base is 0, and so is the context.
pub(crate) fn context(base: u32, offset: u64) -> u32 {
    if base == 0 {
        return 0;
    }
    base ^ (offset as u32).wrapping_add((offset >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_the_masked_castagnoli_one() {
        // RFC 3720, B.4: 32 bytes of zeros have the CRC-32C 0x8a9136aa.
        let masked = 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8);
        assert_eq!(ChecksumKind::Crc32c.of(&[0; 32]), masked);
    }

    #[test]
    fn every_kind_but_none_sees_every_flipped_bit() {
        let bytes: Vec<u8> = (0..100u8).collect();
        for id in 1..=4 {
            let kind = ChecksumKind::from_byte(id).unwrap();
            assert_eq!(kind.to_byte(), id);
            let right = kind.of(&bytes);
            assert_eq!(kind.of_parts(&bytes[..99], 99), right);
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(kind.of(&flipped), right, "{kind:?}, bit {bit}");
            }
        }
        assert_eq!(ChecksumKind::from_byte(5), None);
    }

    #[test]
    fn a_running_checksum_is_that_of_the_bytes_up_to_each_place() {
        let bytes: Vec<u8> = (0..3000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for id in 0..=4 {
            let kind = ChecksumKind::from_byte(id).unwrap();
            let mut running = RunningChecksum::new(kind);
            let mut hashed = 0;
            for length in (0..300).chain((300..2999).step_by(37)) {
                running.write(&bytes[hashed..length]);
                hashed = length;
                let expected = kind.of(&bytes[..=length]);
                assert_eq!(running.with_last(bytes[length]), expected, "{kind:?}, {length} bytes");
            }
        }
    }

    #[test]
    fn the_context_depends_on_file_and_place() {
        assert_eq!(context(0, 4096), 0);
        assert_eq!(context(7, 0), 7);
        assert_ne!(context(7, 4096), context(7, 8192));
        assert_ne!(context(7, 1 << 32), context(7, 0));
    }
}
