//! The scalable Bloom filter: it grows, its rate stays bounded, and it is saved and loaded.

use super::super::shared::{Damaged, keys, share};
use super::loading::Loading;
use super::*;

fn filled(options: Options, present: &[u64]) -> ScalableBloom {
    let mut filter = ScalableBloom::new(options).unwrap();
    present.iter().for_each(|&key| {
        filter.add(key).unwrap();
    });
    filter
}

#[test]
fn it_grows_twentyfold_and_keeps_its_rate() {
    let (present, absent) = (keys(1, 0..20_000), keys(2, 0..200_000));
    for expansion in [1, 2, 4] {
        // Layers of equal size are many: they start larger. Tiny ones would have other rates than
        // planned, by chance and because two hashes are not as good as many there.
        let capacity = if expansion == 1 { 2000 } else { 1000 };
        let filter = filled(Options { capacity, rate: 0.02, expansion: Some(expansion) }, &present);
        assert!(present.iter().all(|&key| filter.contains(key)));
        let rate = share(&absent, |key| filter.contains(key));
        // The sum of the layers' rates may come near the bound: 4,000 hits tell it to a tenth.
        assert!(rate < 0.022 && rate > 0.005, "{expansion}: {rate}");
        // A key that looks present is not counted.
        let missing = 20_000 - filter.items();
        assert!(missing < 400, "{missing}");
        assert_eq!(filter.layers(), [10, 5, 3][expansion.ilog2() as usize], "{expansion}");
    }
}

#[test]
fn it_is_full_at_its_capacity_if_it_may_not_grow() {
    let present = keys(3, 0..2000);
    let options = Options { capacity: 1000, rate: 0.001, expansion: None };
    let mut filter = ScalableBloom::new(options).unwrap();
    let full = present.iter().position(|&key| filter.add(key) == Err(Full)).unwrap();
    assert!((1000..1010).contains(&full), "{full}");
    assert_eq!((filter.items(), filter.capacity(), filter.layers()), (1000, 1000, 1));
    assert_eq!(filter.add(present[0]), Ok(false), "what is there needs no room");
}

#[test]
fn options_that_make_no_filter_are_refused() {
    let good = Options::default();
    for bad in [
        Options { capacity: 0, ..good },
        Options { capacity: u64::MAX, ..good },
        Options { rate: 0.0, ..good },
        Options { rate: 1.0, ..good },
        Options { rate: f64::NAN, ..good },
        Options { expansion: Some(0), ..good },
        Options { expansion: Some(u32::MAX), ..good },
    ] {
        assert!(ScalableBloom::new(bad).is_err(), "{bad:?}");
    }
}

fn load(header: &[u8], pieces: &[Vec<u8>]) -> Result<ScalableBloom, Damaged> {
    let mut loading = Loading::new(header)?;
    let mut offset = 0;
    for piece in pieces {
        loading.push(offset, piece)?;
        offset += piece.len() as u64;
    }
    loading.finish()
}

#[test]
fn pieces_come_back_and_anything_else_is_refused() {
    let present = keys(4, 0..300);
    for expansion in [None, Some(2)] {
        let filter = filled(Options { capacity: 300, expansion, ..Options::default() }, &present);
        let header = filter.save_header();
        let mut pieces = Vec::new();
        loop {
            let offset = pieces.iter().map(Vec::len).sum();
            let piece = filter.save_piece(offset, 64);
            if piece.is_empty() {
                break;
            }
            pieces.push(piece);
        }
        assert!(pieces.len() > 5);
        let mut loaded = load(&header, &pieces).unwrap();
        assert!(present.iter().all(|&key| loaded.contains(key)));
        assert_eq!((loaded.items(), loaded.options()), (filter.items(), filter.options()));
        assert_eq!(loaded.save_header(), header);
        assert_eq!(loaded.add(keys(5, 0..1)[0]).is_ok(), expansion.is_some());

        assert!(load(&header, &pieces[1..]).is_err() && load(&header, &pieces[..1]).is_err());
        let mut twice = pieces.clone();
        twice.push(pieces[0].clone());
        assert!(load(&header, &twice).is_err());
        for byte in 0..header.len() {
            let mut flipped = header.clone();
            flipped[byte] ^= 1;
            assert!(load(&flipped, &pieces).is_err(), "{byte}");
        }
        for i in 0..pieces.len() {
            let mut flipped = pieces.clone();
            flipped[i][3] ^= 1;
            assert!(load(&header, &flipped).is_err(), "{i}");
        }
        assert!((0..header.len()).all(|length| load(&header[..length], &pieces).is_err()));
    }
}

#[test]
fn a_forged_header_takes_no_memory() {
    let huge = Options { capacity: 1 << 30, rate: 1e-300, expansion: None };
    let mut header = MAGIC.to_vec();
    header.extend(0u32.to_le_bytes());
    header.extend(huge.capacity.to_le_bytes());
    header.extend(huge.rate.to_bits().to_le_bytes());
    header.extend([0; 16]);
    let loading = Loading::new(&header).unwrap();
    assert!(loading.payload_bytes > 1 << 34 && loading.payload.capacity() == 0);
    assert!(loading.finish().is_err());
}
