//! Tests of every codec: it returns what was compressed, rejects impossible sizes, and never
//! panics.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::dictionary::Dictionary;
use super::read::{Compressed, Failure, missing_for};
use super::*;
use crate::encoding::coding::put_varint;
use crate::table::block::payload::BlockBytes;

fn decompress(payload: &[u8], type_byte: u8) -> Result<Vec<u8>, Failure> {
    decompress_with(payload, type_byte, None)
}

fn decompress_with(
    payload: &[u8],
    type_byte: u8,
    dictionary: Option<&Dictionary>,
) -> Result<Vec<u8>, Failure> {
    let compressed = Compressed::open(payload, type_byte)?.expect("a compressed type");
    let mut out = vec![0; compressed.uncompressed_bytes];
    compressed.decompress_into(&mut out, dictionary)?;
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
    for type_byte in [1, 2, 4, 5, 7] {
        let mut payload = Vec::new();
        put_varint(&mut payload, u64::from(u32::MAX));
        payload.extend_from_slice(&[0; 20]);
        assert!(
            matches!(Compressed::open(&payload, type_byte), Err(Failure::Damage(_))),
            "{type_byte}"
        );
    }
}

/// `block`, compressed by each codec. For each: the type byte, the payload, and whether it was
/// compressed with the dictionary.
fn payloads(block: &[u8], dictionary: &[u8]) -> Vec<(u8, Vec<u8>, bool)> {
    let mut all = Vec::new();
    for compression in [Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let mut out = Vec::new();
        // Some blocks are not worth compressing.
        if Compressor::new(compression).unwrap().compress(block, &mut out) == compression {
            all.push((compression.to_byte(), out, false));
        }
    }
    let with_length = |body: &[u8]| {
        let mut out = Vec::new();
        put_varint(&mut out, block.len() as u64);
        out.extend_from_slice(body);
        out
    };
    let lz4 = lz4_flex::block::compress_with_dict(block, dictionary);
    all.push((4, with_length(&lz4), true));
    let mut zstd = zstd::bulk::Compressor::with_dictionary(3, dictionary).unwrap();
    all.push((7, with_length(&zstd.compress(block).unwrap()), true));
    all.push((2, with_length(&miniz_oxide::deflate::compress_to_vec(block, 6)), false));
    let mut bzip2 = Vec::with_capacity(block.len() + 1000);
    bzip2::Compress::new(bzip2::Compression::best(), 0)
        .compress_vec(block, &mut bzip2, bzip2::Action::Finish)
        .unwrap();
    all.push((3, with_length(&bzip2), false));
    all
}

#[test]
fn a_dictionary_gives_back_what_was_compressed_with_it_and_nothing_without() {
    let block: Vec<u8> = (0..900u32).flat_map(|i| (i * 37).to_le_bytes()).collect();
    // The dictionary holds the start of the block, so that a codec stores references to it.
    let bytes = [&b"other bytes"[..], &block[..3000]].concat();
    let dictionary = Dictionary::new(BlockBytes::copy_from(&bytes), true).unwrap();
    for (type_byte, payload, uses_dictionary) in payloads(&block, &bytes) {
        let read = decompress_with(&payload, type_byte, Some(&dictionary));
        if uses_dictionary {
            assert_eq!(read.unwrap(), block, "type {type_byte}");
            assert!(payload.len() < 1500, "type {type_byte}: {}", payload.len());
            assert!(matches!(decompress(&payload, type_byte), Err(Failure::Damage(_))));
        } else {
            assert_eq!(decompress(&payload, type_byte).unwrap(), block, "type {type_byte}");
        }
    }
    assert!(dictionary.heap_bytes() > 2 * bytes.len(), "{}", dictionary.heap_bytes());
}

#[test]
fn a_damaged_dictionary_of_zstds_trainer_is_damage() {
    let bytes = [&0xec30_a437_u32.to_le_bytes()[..], &[0xff; 60]].concat();
    assert!(Dictionary::new(BlockBytes::copy_from(&bytes), true).is_err());
    // Without ZSTD the bytes are not parsed, because the other codecs use them as they are.
    assert!(Dictionary::new(BlockBytes::copy_from(&bytes), false).is_ok());
    let empty = Dictionary::new(BlockBytes::copy_from(&[]), true).unwrap();
    for (type_byte, payload, _) in payloads(&[5; 3000], b"") {
        assert_eq!(decompress_with(&payload, type_byte, Some(&empty)).unwrap(), [5; 3000]);
    }
}

/// In BZip2's format a block of 30 bytes can expand to 46 MB, so a block that exceeds this crate's
/// limit may be undamaged.
#[test]
fn a_bzip2_block_that_is_one_long_run_is_not_supported_rather_than_damaged() {
    for (bytes, is_read) in [(1 << 20, true), (8 << 20, false)] {
        let block = vec![7; bytes];
        let (_, payload, _) = payloads(&block, b"").pop().unwrap();
        match decompress(&payload, 3) {
            Ok(read) => assert!(is_read && read == block),
            Err(Failure::Unsupported(what)) => assert!(!is_read, "{what}"),
            Err(Failure::Damage(damage)) => panic!("{damage:?}"),
        }
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn cut_and_flipped_payloads_never_panic() {
    let block: Vec<u8> = (0..2000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
    let bytes = &block[..1000];
    let dictionary = Dictionary::new(BlockBytes::copy_from(bytes), true).unwrap();
    for (type_byte, good, uses_dictionary) in payloads(&block, bytes) {
        let dictionary = uses_dictionary.then_some(&dictionary);
        for cut in 0..good.len() {
            assert!(decompress_with(&good[..cut], type_byte, dictionary).is_err());
        }
        for bit in 0..good.len().min(400) * 8 {
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // In a table the block's checksum detects a flipped bit. Here the decoders must only
            // not panic.
            let _ = decompress_with(&flipped, type_byte, dictionary);
            let _ = decompress_with(&flipped, 2, dictionary);
        }
    }
}

#[test]
fn foreign_codecs_are_named() {
    for (type_byte, name) in [(6, "Xpress"), (0x81, "0x81")] {
        match Compressed::open(b"abc", type_byte) {
            Err(Failure::Unsupported(what)) => assert!(what.contains(name), "{what}"),
            _ => panic!("type {type_byte} was not refused"),
        }
    }
}

#[test]
fn a_property_tells_what_cannot_be_read() {
    for readable in ["NoCompression", "BZip2", "LZ4HC", "ZSTD", "BuiltinV2;020407;", ";;", ""] {
        assert_eq!(missing_for(readable), None, "{readable}");
    }
    for (property, what) in [("Xpress", "Xpress"), ("BuiltinV2;0406;", "Xpress"), ("O;81;", "0x81")]
    {
        assert!(missing_for(property).unwrap().contains(what), "{property}");
    }
}
