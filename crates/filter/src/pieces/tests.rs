//! Tests that pieces answer as the whole filter does.

use super::*;
use crate::hash::{LEGACY_BLOOM_SEED, hash32, hash64};
use crate::inspect::trace::QueryTrace;
use crate::{FilterBuilder, FilterEncoding, FilterSpec};

fn pieces_of(whole: &FilterReader) -> Vec<FilterReader> {
    let pieces = whole.pieces().unwrap();
    let lines = &whole.bytes()[..pieces.bytes()];
    let chunks = lines.chunks(PIECE_BYTES).enumerate();
    chunks.map(|(i, chunk)| pieces.open(i, LineBuf::copy_from(chunk))).collect()
}

/// Checks that the piece that has a key's line gives the same answer and the same trace for the key
/// as the whole filter, and that all other pieces say "maybe".
fn hold_against(whole: &FilterReader, hashes: impl Iterator<Item = KeyHash>) {
    let (kept, pieces) = (whole.pieces().unwrap(), pieces_of(whole));
    assert!(pieces.len() > 2);
    let mut noes = 0;
    for hash in hashes {
        let piece = kept.piece_of(hash);
        let expected = whole.may_contain(hash);
        noes += u32::from(!expected);
        assert_eq!(pieces[piece].may_contain(hash), expected);
        assert_eq!(pieces[piece].finish(pieces[piece].prepare(hash)), expected);
        let mut together = [false];
        pieces[piece].may_contain_many(&[hash], &mut together);
        assert_eq!(together[0], expected);
        assert_eq!(pieces[piece].trace(hash), whole.trace(hash));
        for (i, other) in pieces.iter().enumerate().filter(|(i, _)| *i != piece) {
            assert!(other.may_contain(hash), "piece {i} for a key of piece {piece}");
            assert!(matches!(other.trace(hash), QueryTrace::Untrusted(_)));
        }
    }
    assert!(noes > 500, "{noes}");
    for piece in &pieces {
        assert!(piece.is_piece() && !whole.is_piece());
        assert_eq!((piece.family(), piece.probes()), (whole.family(), whole.probes()));
        assert_eq!(piece.hash_kind(), whole.hash_kind());
        assert_eq!(piece.predicted_fpr(9_000), whole.predicted_fpr(9_000));
        assert!(piece.fill().is_some_and(|fill| (0.3..0.7).contains(&fill)));
    }
}

#[test]
fn a_piece_answers_for_its_keys_as_the_whole_filter_does() {
    for bits in [8.0, 10.0, 15.5] {
        let mut builder = FilterBuilder::new(FilterSpec::bloom(bits).unwrap());
        (0u32..9_000).for_each(|i| builder.add(hash64(&i.to_le_bytes())));
        let whole = builder.finish().unwrap().into_reader();
        hold_against(&whole, (8_000u32..10_000).map(|i| hash64(&i.to_le_bytes())));
    }
}

#[test]
fn a_piece_of_a_legacy_filter_does_too() {
    for line_bytes in [64usize, 128] {
        let lines = (9_000 * 10 / 8 / line_bytes) | 1;
        let mut block = vec![0u8; lines * line_bytes];
        let hash = |i: u32| u64::from(hash32(&i.to_le_bytes(), LEGACY_BLOOM_SEED));
        for i in 0..9_000 {
            let (mut x, line) = (hash(i) as u32, hash(i) as usize % lines);
            let step = x.rotate_right(17);
            for _ in 0..6 {
                let bit = x as usize % (line_bytes * 8);
                block[line * line_bytes + bit / 8] |= 1 << (bit % 8);
                x = x.wrapping_add(step);
            }
        }
        block.push(6);
        block.extend((lines as u32).to_le_bytes());
        let whole = FilterReader::from_bytes(&block, FilterEncoding::RocksDb);
        assert!(whole.untrusted().is_none());
        hold_against(&whole, (8_000..10_000).map(hash));
    }
}

#[test]
fn families_whose_keys_have_several_lines_have_no_pieces() {
    for spec in ["ribbon(7)", "burr(7)", "fuse(9)"] {
        let mut builder = FilterBuilder::new(spec.parse().unwrap());
        (0u32..9_000).for_each(|i| builder.add(hash64(&i.to_le_bytes())));
        assert!(builder.finish().unwrap().into_reader().pieces().is_none(), "{spec}");
    }
    assert!(FilterReader::from_bytes(b"none", FilterEncoding::RocksDb).pieces().is_none());
}
