//! Block compression: none, Snappy, LZ4 or ZSTD.
//!
//! ```text
//! LZ4, ZSTD   varint32 uncompressed bytes | LZ4 block (not frame) or ZSTD frame
//! Snappy      raw Snappy, which begins with its own varint32 of uncompressed bytes
//! ```
//!
//! Invariant: no memory is allocated merely because a file states a size. Each codec can expand its
//! input only by a limited factor (at best a few bytes represent one longest match). A larger
//! stated size is damage, and is rejected before anything is allocated.
//!
//! The file is long because all codecs have their tests at its foot.

use crate::encoding::coding::Decoder;
#[cfg(any(feature = "lz4", feature = "zstd", test))]
use crate::encoding::coding::put_varint;
use crate::error::Damage;

/// How a block's payload is stored.
///
/// ```
/// use maypole::table::{Compression, TableOptions};
///
/// let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
/// assert!(options.compression.is_built_in());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// As it is.
    None,
    /// Snappy (feature `snappy`).
    Snappy,
    /// LZ4 blocks (feature `lz4`, on by default).
    Lz4,
    /// ZSTD at its default level 3 (feature `zstd`; binds the C library).
    Zstd,
}

impl Default for Compression {
    /// LZ4 if it is built in.
    fn default() -> Compression {
        if Compression::Lz4.is_built_in() { Compression::Lz4 } else { Compression::None }
    }
}

impl Compression {
    /// All codecs.
    pub const ALL: [Compression; 4] =
        [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    /// Whether this build has the codec.
    pub fn is_built_in(self) -> bool {
        match self {
            Compression::None => true,
            Compression::Snappy => cfg!(feature = "snappy"),
            Compression::Lz4 => cfg!(feature = "lz4"),
            Compression::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// The value of the property `rocksdb.compression`.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "NoCompression",
            Compression::Snappy => "Snappy",
            Compression::Lz4 => "LZ4",
            Compression::Zstd => "ZSTD",
        }
    }

    /// The type byte of a block's trailer.
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Snappy => 1,
            Compression::Lz4 => 4,
            Compression::Zstd => 7,
        }
    }
}

/// The most bytes to which one byte of ZSTD's input can expand: a run-length block of 4 bytes
/// represents 128 KiB.
const ZSTD_EXPANSION: usize = 32 << 10;

/// The binary logarithm of the largest window of a standalone frame.
#[cfg(feature = "zstd")]
const MAX_WINDOW_LOG: u32 = 23;

/// Why a block could not be decompressed.
#[derive(Debug)]
pub(crate) enum Failure {
    Damage(Damage),
    /// A codec that this build does not have.
    Unsupported(String),
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Failure {
        Failure::Damage(damage)
    }
}

/// Compresses blocks, keeping what a codec can reuse between them.
pub(crate) struct Compressor {
    compression: Compression,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// `Err` names the missing feature.
    pub fn new(compression: Compression) -> Result<Compressor, String> {
        if !compression.is_built_in() {
            return Err(missing_codec(compression));
        }
        #[cfg(feature = "zstd")]
        let zstd = match compression {
            Compression::Zstd => Some(zstd::bulk::Compressor::new(3).map_err(|e| e.to_string())?),
            _ => None,
        };
        Ok(Compressor {
            compression,
            #[cfg(feature = "zstd")]
            zstd,
        })
    }

    /// Puts the compressed form of `block` into `out`, and returns its codec. If compression saves
    /// less than an eighth, `out` is empty and the result is `None`, because a small gain is not
    /// worth the work of every read. The rule is RocksDB's default (`max_compressed_bytes_per_kb` =
    /// 896).
    pub fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) -> Compression {
        out.clear();
        let done = match self.compression {
            Compression::None => false,
            Compression::Snappy => compress_snappy(block, out),
            Compression::Lz4 => compress_lz4(block, out),
            Compression::Zstd => self.compress_zstd(block, out),
        };
        if done && out.len() <= block.len() / 8 * 7 {
            return self.compression;
        }
        out.clear();
        Compression::None
    }

    #[cfg(feature = "zstd")]
    fn compress_zstd(&mut self, block: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(zstd) = &mut self.zstd else { return false };
        put_varint(out, block.len() as u64);
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(block.len()), 0);
        match zstd.compress_to_buffer(block, &mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                true
            }
            Err(_) => false,
        }
    }

    #[cfg(not(feature = "zstd"))]
    fn compress_zstd(&mut self, _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }
}

#[cfg(feature = "snappy")]
fn compress_snappy(block: &[u8], out: &mut Vec<u8>) -> bool {
    out.resize(snap::raw::max_compress_len(block.len()), 0);
    match snap::raw::Encoder::new().compress(block, out) {
        Ok(written) => {
            out.truncate(written);
            true
        }
        Err(_) => false,
    }
}

#[cfg(not(feature = "snappy"))]
fn compress_snappy(_: &[u8], _: &mut Vec<u8>) -> bool {
    false
}

#[cfg(feature = "lz4")]
fn compress_lz4(block: &[u8], out: &mut Vec<u8>) -> bool {
    put_varint(out, block.len() as u64);
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(block.len()), 0);
    match lz4_flex::block::compress_into(block, &mut out[start..]) {
        Ok(written) => {
            out.truncate(start + written);
            true
        }
        Err(_) => false,
    }
}

#[cfg(not(feature = "lz4"))]
fn compress_lz4(_: &[u8], _: &mut Vec<u8>) -> bool {
    false
}

/// A compressed payload whose stated size is possible.
pub(crate) struct Compressed<'a> {
    codec: Compression,
    /// What the codec gets.
    body: &'a [u8],
    /// Bytes after decompression.
    pub uncompressed_bytes: usize,
}

impl<'a> Compressed<'a> {
    /// Reads the head of `payload`, stored with the given trailer type byte. `Ok(None)`: the
    /// payload is not compressed.
    pub fn open(payload: &'a [u8], type_byte: u8) -> Result<Option<Compressed<'a>>, Failure> {
        let codec = match type_byte {
            0 => return Ok(None),
            1 => Compression::Snappy,
            // 5 is LZ4HC: a slower writer of the same format.
            4 | 5 => Compression::Lz4,
            7 => Compression::Zstd,
            2 => return Err(Failure::Unsupported("Zlib compression".into())),
            3 => return Err(Failure::Unsupported("BZip2 compression".into())),
            6 => return Err(Failure::Unsupported("Xpress compression".into())),
            other => {
                return Err(Failure::Unsupported(format!("compression type {other:#04x}")));
            }
        };
        if !codec.is_built_in() {
            return Err(Failure::Unsupported(missing_codec(codec)));
        }
        let mut decoder = Decoder::new(payload);
        let uncompressed_bytes = decoder.varint32("uncompressed size")? as usize;
        // The most bytes to which one byte of input can expand. Snappy: a 3-byte copy of 64. LZ4: a
        // length byte adds 255. ZSTD: a 4-byte run-length block of 128 KiB.
        let expansion = match codec {
            Compression::Snappy => 22,
            Compression::Lz4 => 255,
            _ => ZSTD_EXPANSION,
        };
        let most = decoder.rest().len().saturating_mul(expansion);
        if uncompressed_bytes > most {
            return Err(Failure::Damage(Damage::new(
                0,
                format_args!("at most {most} bytes from {} of {}", payload.len(), codec.name()),
                format_args!("{uncompressed_bytes}"),
            )));
        }
        let body = if codec == Compression::Snappy { payload } else { decoder.rest() };
        Ok(Some(Compressed { codec, body, uncompressed_bytes }))
    }

    /// Fills `out`, which has exactly `uncompressed_bytes`.
    pub fn decompress_into(&self, out: &mut [u8]) -> Result<(), Damage> {
        let written = match self.codec {
            Compression::None => Err("not compressed".to_string()),
            Compression::Snappy => decompress_snappy(self.body, out),
            Compression::Lz4 => decompress_lz4(self.body, out),
            Compression::Zstd => decompress_zstd(self.body, out),
        };
        match written {
            Ok(written) if written == out.len() => Ok(()),
            Ok(written) => Err(Damage::new(0, format_args!("{} bytes", out.len()), written)),
            Err(why) => Err(Damage::new(0, format_args!("a {} payload", self.codec.name()), why)),
        }
    }
}

#[cfg(feature = "snappy")]
fn decompress_snappy(body: &[u8], out: &mut [u8]) -> Result<usize, String> {
    snap::raw::Decoder::new().decompress(body, out).map_err(|e| e.to_string())
}

#[cfg(not(feature = "snappy"))]
fn decompress_snappy(_: &[u8], _: &mut [u8]) -> Result<usize, String> {
    Err(missing_codec(Compression::Snappy))
}

#[cfg(feature = "lz4")]
fn decompress_lz4(body: &[u8], out: &mut [u8]) -> Result<usize, String> {
    lz4_flex::block::decompress_into(body, out).map_err(|e| e.to_string())
}

#[cfg(not(feature = "lz4"))]
fn decompress_lz4(_: &[u8], _: &mut [u8]) -> Result<usize, String> {
    Err(missing_codec(Compression::Lz4))
}

#[cfg(feature = "zstd")]
fn decompress_zstd(body: &[u8], out: &mut [u8]) -> Result<usize, String> {
    use std::cell::RefCell;
    // A decompression context is about 100 KB; one a thread, not one a block.
    thread_local! {
        static CONTEXT: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|slot| {
        let context = match slot {
            Some(context) => context,
            None => slot.insert(zstd::bulk::Decompressor::new().map_err(|e| e.to_string())?),
        };
        context.decompress_to_buffer(body, out).map_err(|e| e.to_string())
    })
}

#[cfg(not(feature = "zstd"))]
fn decompress_zstd(_: &[u8], _: &mut [u8]) -> Result<usize, String> {
    Err(missing_codec(Compression::Zstd))
}

/// Decompresses a standalone ZSTD frame, such as a record of RocksDB's log, which does not state
/// the length of its content. Puts at most the longest content of a frame of its length into `out`.
#[cfg(feature = "zstd")]
pub(crate) fn uncompress_frame(frame: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
    use std::io::Read;
    out.clear();
    let most = frame.len().saturating_mul(ZSTD_EXPANSION) as u64;
    let failed = |why: std::io::Error| Failure::from(Damage::new(0, "a ZSTD frame", why));
    let mut decoder = zstd::stream::read::Decoder::new(frame).map_err(failed)?;
    // The decoder allocates the window that the frame requests. RocksDB's frames request 2 MiB.
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
    let read = decoder.take(most).read_to_end(out).map_err(failed)?;
    match (read as u64) < most {
        true => Ok(()),
        false => Err(Damage::new(0, format_args!("fewer than {most} bytes"), "more").into()),
    }
}

/// See above.
#[cfg(not(feature = "zstd"))]
pub(crate) fn uncompress_frame(_: &[u8], _: &mut Vec<u8>) -> Result<(), Failure> {
    Err(Failure::Unsupported(missing_codec(Compression::Zstd)))
}

fn missing_codec(compression: Compression) -> String {
    let feature = match compression {
        Compression::None => "none",
        Compression::Snappy => "snappy",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    };
    format!("{} compression (build with feature `{feature}`)", compression.name())
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn decompress(payload: &[u8], type_byte: u8) -> Result<Vec<u8>, Failure> {
        let compressed = Compressed::open(payload, type_byte)?.expect("a compressed type");
        let mut out = vec![0; compressed.uncompressed_bytes];
        compressed.decompress_into(&mut out)?;
        Ok(out)
    }

    #[test]
    fn every_codec_gives_back_what_it_got() {
        let block = b"the quick brown fox ".repeat(300);
        for compression in Compression::ALL {
            let mut out = Vec::new();
            let stored = Compressor::new(compression).unwrap().compress(&block, &mut out);
            assert_eq!(stored, compression);
            if compression != Compression::None {
                assert_eq!(decompress(&out, stored.to_byte()).unwrap(), block);
            }
        }
    }

    #[test]
    fn a_run_of_one_byte_expands_as_far_as_the_bound_allows() {
        // The size of the most compressible block must not be rejected as impossible.
        let block = vec![7; 8 << 20];
        for compression in [Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            let mut out = Vec::new();
            let stored = Compressor::new(compression).unwrap().compress(&block, &mut out);
            assert_eq!(decompress(&out, stored.to_byte()).unwrap(), block, "{compression:?}");
        }
    }

    #[test]
    fn noise_is_stored_as_it_is() {
        let mut noise = [0; 4096];
        StdRng::seed_from_u64(1).fill_bytes(&mut noise);
        for compression in Compression::ALL {
            let mut out = Vec::new();
            let stored = Compressor::new(compression).unwrap().compress(&noise, &mut out);
            assert_eq!((stored, out.len()), (Compression::None, 0));
        }
    }

    #[test]
    fn an_absurd_size_is_refused_before_memory_is_asked_for() {
        for type_byte in [1, 4, 5, 7] {
            let mut payload = Vec::new();
            put_varint(&mut payload, u64::from(u32::MAX));
            payload.extend_from_slice(&[0; 20]);
            assert!(
                matches!(Compressed::open(&payload, type_byte), Err(Failure::Damage(_))),
                "{type_byte}"
            );
        }
    }

    #[test]
    fn cut_and_flipped_payloads_never_panic() {
        let block: Vec<u8> = (0..2000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        for compression in [Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            let mut good = Vec::new();
            let stored = Compressor::new(compression).unwrap().compress(&block, &mut good);
            for cut in 0..good.len() {
                assert!(decompress(&good[..cut], stored.to_byte()).is_err());
            }
            for bit in 0..good.len().min(400) * 8 {
                let mut flipped = good.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                // The block's checksum finds these; here only the absence of a panic counts.
                let _ = decompress(&flipped, stored.to_byte());
            }
        }
    }

    #[test]
    fn foreign_codecs_are_named() {
        for (type_byte, name) in [(2, "Zlib"), (3, "BZip2"), (6, "Xpress"), (0x81, "0x81")] {
            match Compressed::open(b"abc", type_byte) {
                Err(Failure::Unsupported(what)) => assert!(what.contains(name), "{what}"),
                _ => panic!("type {type_byte} was not refused"),
            }
        }
    }
}
