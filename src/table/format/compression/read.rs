//! [`Compressed`]: a compressed block, and how it is decompressed.
//!
//! The most bytes to which one byte of input may expand, for each codec, and the input that expands
//! the furthest:
//!
//! ```text
//! Snappy       22   a 3-byte copy of 64
//! LZ4         255   a length byte
//! Zlib      1,032   258 bytes by two bits
//! ZSTD     32,768   a 4-byte run-length block of 128 KiB
//! BZip2    32,768   its format allows 50 times as many: a block of 30 bytes can be a run of 46 MB.
//!                   Such blocks are not supported, since they would take much memory for nothing
//! ```

use crate::encoding::coding::Decoder;
use crate::error::Damage;

use super::dictionary::Dictionary;
use super::write::missing;

const ZSTD_EXPANSION: usize = 32 << 10;

/// The binary logarithm of the largest window that [`uncompress_frame`] accepts.
#[cfg(feature = "zstd")]
const MAX_WINDOW_LOG: u32 = 23;

/// Why a block could not be decompressed.
#[derive(Debug)]
pub(crate) enum Failure {
    Damage(Damage),
    /// A codec that this build lacks, or a block that needs more memory than this build allows.
    Unsupported(String),
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Failure {
        Failure::Damage(damage)
    }
}

/// The name of each compression type; the index is the type byte of a block's trailer. RocksDB's
/// property `rocksdb.compression` has the same names, except for the first.
pub(crate) const TYPE_NAMES: [&str; 8] =
    ["none", "Snappy", "Zlib", "BZip2", "LZ4", "LZ4HC", "Xpress", "ZSTD"];

/// The codecs that can be read, by their compression types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Snappy = 1,
    Zlib = 2,
    Bzip2 = 3,
    Lz4 = 4,
    Zstd = 7,
}

impl Codec {
    /// The codec that a type byte other than 0 stands for. The type byte is in a block's trailer.
    fn of_byte(type_byte: u8) -> Result<Codec, Failure> {
        match type_byte {
            1 => Ok(Codec::Snappy),
            2 => Ok(Codec::Zlib),
            3 => Ok(Codec::Bzip2),
            // 5 is LZ4HC, a slower compressor that writes the same format as LZ4.
            4 | 5 => Ok(Codec::Lz4),
            7 => Ok(Codec::Zstd),
            6 => Err(Failure::Unsupported("Xpress compression".into())),
            other => Err(Failure::Unsupported(format!("compression type {other:#04x}"))),
        }
    }

    fn name(self) -> &'static str {
        TYPE_NAMES[self as usize]
    }

    fn is_built_in(self) -> bool {
        match self {
            Codec::Snappy => cfg!(feature = "snappy"),
            Codec::Zlib => cfg!(feature = "zlib"),
            Codec::Bzip2 => cfg!(feature = "bzip2"),
            Codec::Lz4 => cfg!(feature = "lz4"),
            Codec::Zstd => cfg!(feature = "zstd"),
        }
    }

    fn missing(self) -> String {
        missing(self.name())
    }

    /// The most bytes to which one byte of input can expand (see the module).
    fn expansion(self) -> usize {
        match self {
            Codec::Snappy => 22,
            Codec::Lz4 => 255,
            Codec::Zlib => 1032,
            Codec::Zstd | Codec::Bzip2 => ZSTD_EXPANSION,
        }
    }
}

/// The type bytes of the codecs that may have compressed a table's blocks. `property` is the
/// table's property `rocksdb.compression`: the name of a codec or, from format_version 7 on,
/// `manager;types;` with two hexadecimal digits for each type.
pub(crate) fn types_in(property: &str) -> Vec<u8> {
    match property.split(';').nth(1) {
        Some(list) => {
            let pairs = (0..list.len() / 2).filter_map(|i| list.get(2 * i..2 * i + 2));
            pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
        }
        None => (1..).zip(&TYPE_NAMES[1..]).filter(|it| *it.1 == property).map(|it| it.0).collect(),
    }
}

/// The reason why this build cannot read blocks of a table with this compression property, if there
/// is one.
pub(crate) fn missing_for(property: &str) -> Option<String> {
    types_in(property).into_iter().find_map(|type_byte| match Codec::of_byte(type_byte) {
        Ok(codec) if !codec.is_built_in() => Some(codec.missing()),
        Err(Failure::Unsupported(what)) => Some(what),
        _ => None,
    })
}

/// A compressed payload. The uncompressed size that it states is within its codec's limit.
pub(crate) struct Compressed<'a> {
    codec: Codec,
    /// The bytes that the codec decompresses.
    body: &'a [u8],
    /// Bytes after decompression.
    pub uncompressed_bytes: usize,
}

impl<'a> Compressed<'a> {
    /// Reads the uncompressed size from the front of `payload`, and rejects it if it exceeds the
    /// codec's limit. `type_byte` is that of the block's trailer. `Ok(None)`: the payload is not
    /// compressed.
    pub fn open(payload: &'a [u8], type_byte: u8) -> Result<Option<Compressed<'a>>, Failure> {
        if type_byte == 0 {
            return Ok(None);
        }
        let codec = Codec::of_byte(type_byte)?;
        if !codec.is_built_in() {
            return Err(Failure::Unsupported(codec.missing()));
        }
        let mut decoder = Decoder::new(payload);
        let uncompressed_bytes = decoder.varint32("uncompressed size")? as usize;
        let most = decoder.remaining().len().saturating_mul(codec.expansion());
        if uncompressed_bytes > most && codec == Codec::Bzip2 {
            let what = format!("a BZip2 block of {} bytes that expands further than to {most}", {
                payload.len()
            });
            return Err(Failure::Unsupported(what));
        }
        if uncompressed_bytes > most {
            return Err(Failure::Damage(Damage::new(
                0,
                format_args!("at most {most} bytes from {} of {}", payload.len(), codec.name()),
                format_args!("{uncompressed_bytes}"),
            )));
        }
        let body = if codec == Codec::Snappy { payload } else { decoder.remaining() };
        Ok(Some(Compressed { codec, body, uncompressed_bytes }))
    }

    /// Decompresses into `out`, which has exactly `uncompressed_bytes` bytes. `dictionary` is the
    /// table's dictionary, if it has one and this is a data block.
    pub fn decompress_into(
        &self,
        out: &mut [u8],
        dictionary: Option<&Dictionary>,
    ) -> Result<(), Damage> {
        let written: Result<usize, String> = match self.codec {
            #[cfg(feature = "snappy")]
            Codec::Snappy => decompress_snappy(self.body, out),
            #[cfg(feature = "zlib")]
            Codec::Zlib => decompress_zlib(self.body, out, dictionary),
            #[cfg(feature = "bzip2")]
            Codec::Bzip2 => decompress_bzip2(self.body, out),
            #[cfg(feature = "lz4")]
            Codec::Lz4 => decompress_lz4(self.body, out, dictionary),
            #[cfg(feature = "zstd")]
            Codec::Zstd => decompress_zstd(self.body, out, dictionary),
            #[allow(unreachable_patterns, reason = "reachable in builds that lack a codec")]
            codec => {
                let _ = (self.body, dictionary); // Without codecs nothing else reads them.
                Err(codec.missing())
            }
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

#[cfg(feature = "zlib")]
fn decompress_zlib(
    body: &[u8],
    out: &mut [u8],
    dictionary: Option<&Dictionary>,
) -> Result<usize, String> {
    use miniz_oxide::inflate::TINFLStatus;
    use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
    const WINDOW: usize = 32 << 10;
    let inflate = |out: &mut [u8], start| {
        let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        match decompress(&mut DecompressorOxide::new(), body, out, start, flags) {
            (TINFLStatus::Done, _, written) => Ok(written),
            (TINFLStatus::HasMoreOutput, _, _) => Err("more bytes than stated".to_string()),
            (status, _, _) => Err(format!("{status:?}")),
        }
    };
    match dictionary.map(Dictionary::bytes) {
        None => inflate(out, 0),
        Some(dictionary) => {
            // A match may refer to bytes of the dictionary, so the dictionary must be in memory
            // directly in front of the output.
            let used = &dictionary[dictionary.len().saturating_sub(WINDOW)..];
            let mut joined = vec![0; used.len() + out.len()];
            joined[..used.len()].copy_from_slice(used);
            let written = inflate(&mut joined, used.len())?;
            out.copy_from_slice(&joined[used.len()..]);
            Ok(written)
        }
    }
}

#[cfg(feature = "bzip2")]
fn decompress_bzip2(body: &[u8], out: &mut [u8]) -> Result<usize, String> {
    let mut state = bzip2::Decompress::new(false);
    let mut status = state.decompress(body, out).map_err(|e| e.to_string())?;
    if status != bzip2::Status::StreamEnd {
        // The decoder stops when `out` is full. It may then not have read the end mark of the
        // stream, so it is called once more for the rest.
        let rest = &body[(state.total_in() as usize).min(body.len())..];
        status = state.decompress(rest, &mut [0]).map_err(|e| e.to_string())?;
    }
    match status {
        bzip2::Status::StreamEnd => Ok(state.total_out() as usize),
        _ => Err("a stream that does not end where it should".into()),
    }
}

#[cfg(feature = "lz4")]
fn decompress_lz4(
    body: &[u8],
    out: &mut [u8],
    dictionary: Option<&Dictionary>,
) -> Result<usize, String> {
    let written = match dictionary {
        None => lz4_flex::block::decompress_into(body, out),
        Some(dictionary) => {
            lz4_flex::block::decompress_into_with_dict(body, out, dictionary.bytes())
        }
    };
    written.map_err(|e| e.to_string())
}

#[cfg(feature = "zstd")]
fn decompress_zstd(
    body: &[u8],
    out: &mut [u8],
    dictionary: Option<&Dictionary>,
) -> Result<usize, String> {
    use std::cell::RefCell;
    use zstd::zstd_safe::{DCtx, get_error_name};
    // A decompression context is large, so each thread keeps one for all blocks.
    thread_local! {
        static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|slot| {
        let context = match slot {
            Some(context) => context,
            None => slot.insert(DCtx::try_create().ok_or("no memory for a context")?),
        };
        let written = match dictionary.map(Dictionary::for_zstd) {
            None => context.decompress(out, body),
            Some(Some(dictionary)) => context.decompress_using_ddict(out, body, dictionary),
            Some(None) => return Err("the table's properties name another codec".into()),
        };
        written.map_err(|code| get_error_name(code).to_string())
    })
}

/// Decompresses a standalone ZSTD frame that does not state the length of its content, such as a
/// record of RocksDB's log. Rejects a frame that expands to [`ZSTD_EXPANSION`] times its own length
/// or more.
#[cfg(feature = "zstd")]
pub(crate) fn uncompress_frame(frame: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
    use std::io::Read;
    out.clear();
    let most = frame.len().saturating_mul(ZSTD_EXPANSION) as u64;
    let failed = |why: std::io::Error| Failure::from(Damage::new(0, "a ZSTD frame", why));
    let mut decoder = zstd::stream::read::Decoder::new(frame).map_err(failed)?;
    // The decoder allocates a window of the size that the frame requests, so this size needs a
    // limit. RocksDB's frames request 2 MiB.
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
    let read = decoder.take(most).read_to_end(out).map_err(failed)?;
    match (read as u64) < most {
        true => Ok(()),
        false => Err(Damage::new(0, format_args!("fewer than {most} bytes"), "more").into()),
    }
}

/// [`uncompress_frame`] of a build without ZSTD, which always fails.
#[cfg(not(feature = "zstd"))]
pub(crate) fn uncompress_frame(_: &[u8], _: &mut Vec<u8>) -> Result<(), Failure> {
    Err(Failure::Unsupported(Codec::Zstd.missing()))
}
