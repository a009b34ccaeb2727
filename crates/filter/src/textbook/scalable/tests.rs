//! Tests of the scalable Bloom filter: it grows by layers, the false-positive rate of all layers
//! together (its *rate*) stays within the requested rate, and it is saved and loaded. The filter
//! adds and counts a key only if the key looks new, that is, if no layer answers "maybe".

use super::super::shared::{Damaged, keys, measured, mix, share};
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
        // With an expansion of 1 all layers have the size of the first one. It is larger here, so
        // that fewer layers are needed.
        let capacity = if expansion == 1 { 2000 } else { 1000 };
        let filter = filled(Options { capacity, rate: 0.02, expansion: Some(expansion) }, &present);
        assert!(present.iter().all(|&key| filter.contains(key)));
        let rate = share(&absent, |key| filter.contains(key));
        // The rates of the layers may add up to nearly the requested 2 %. Then 4,000 of the absent
        // keys look present, which is enough to measure the rate to a tenth.
        assert!(rate < 0.022 && rate > 0.005, "{expansion}: {rate}");
        // A key that looks present when it is added is not counted. At a rate of at most 2 %, these
        // are fewer than 400 of the 20,000 keys.
        let missing = 20_000 - filter.items();
        assert!(missing < 400, "{missing}");
        assert_eq!(filter.layers(), [10, 5, 3][expansion.ilog2() as usize], "{expansion}");
    }
}

/// The rate is documented as "at most" the requested one. But with 1 % requested, it was once 7.4 %
/// with a capacity of 1, 4.4 % with 2 and 1.5 % with 10. One reason was that the first layers are
/// small arrays: the usual formula gives them too few bits, and positions made from two hashes are
/// not independent enough for them. The other reason was that a layer counts only keys that set new
/// bits, so a full layer has more bits set than its size allowed for. Now the bound holds for any
/// capacity.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_rate_is_at_most_the_one_asked_for_from_a_capacity_of_one() {
    for (capacity, expansion, keys_each, filters) in [
        (1, Some(2), 1, 2000),
        (1, Some(2), 7, 2000),
        (1, Some(1), 10, 1000),
        (1, None, 1, 3000),
        (2, Some(2), 6, 2000),
        (2, None, 2, 3000),
        (10, Some(2), 30, 500),
        (10, Some(4), 10, 1000),
        (10, None, 10, 1000),
        (100, Some(2), 100, 200),
        (1000, Some(2), 1000, 20),
        (100_000, Some(2), 100_000, 2),
    ] {
        for rate in [0.6, 0.3, 0.01, 1e-4] {
            // The smallest rate costs the most queries, and one of the others would show the mistakes.
            let expected = if rate < 0.01 { 40.0 } else { 100.0 };
            let asked = ((expected / rate) as u64).div_ceil(filters).max(50);
            let (found, deviation) = measured([filters, keys_each, asked], |keys| {
                let options = Options { capacity, rate, expansion };
                let mut filter = ScalableBloom::new(options).unwrap();
                // Keys are added until `keys_each` of them looked new. Then the last layer is full,
                // and the rate is closest to the bound.
                let more = (0..20 * keys_each + 1000).map(|i| mix(i, keys[0]));
                for key in keys.iter().copied().chain(more) {
                    if filter.items() == keys_each {
                        break;
                    }
                    filter.add(key).unwrap();
                }
                assert_eq!(filter.items(), keys_each);
                move |key| filter.contains(key)
            });
            let what =
                format!("{capacity} {expansion:?} {keys_each} {rate}: {found} ({deviation})");
            assert!(found < rate + 4.0 * deviation, "{what}");
            // A filter of a single layer for 10 keys or more must also reach half the bound, so
            // that it is not much larger than necessary.
            assert!(expansion.is_some() || capacity < 10 || found > 0.5 * rate, "{what}");
        }
    }
}

/// Like the test above, but the rate of a full layer is computed exactly. A key that is counted
/// sets at least one new bit. So the mean rate follows from the Markov chain of the number of set
/// bits, on the condition that every key sets a new bit.
#[test]
fn a_layer_that_is_full_of_keys_that_looked_new_is_within_its_rate() {
    for capacity in [1u64, 2, 3, 5, 10, 30, 60] {
        for rate in [0.95, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.03, 0.01, 1e-3, 1e-4] {
            let (bits, hashes) = Version::Two.shape(capacity, rate);
            let m = bits as f64;
            let mut likely = vec![0.0; bits + 1];
            likely[0] = 1.0;
            for _ in 0..capacity {
                let mut next = vec![0.0; bits + 1];
                for set in 0..=bits {
                    // after[new]: the probability that the bits of one key, set one after the
                    // other, have turned `new` zeros into ones.
                    let mut after = vec![0.0; hashes as usize + 1];
                    after[0] = 1.0;
                    for _ in 0..hashes {
                        for new in (0..after.len()).rev() {
                            let hit = |new: usize| ((set + new) as f64 / m).min(1.0);
                            let grown =
                                if new > 0 { after[new - 1] * (1.0 - hit(new - 1)) } else { 0.0 };
                            after[new] = after[new] * hit(new) + grown;
                        }
                    }
                    let accepted: f64 = after[1..].iter().sum();
                    if likely[set] > 0.0 && accepted > 0.0 {
                        for new in 1..after.len().min(bits + 1 - set) {
                            next[set + new] += likely[set] * after[new] / accepted;
                        }
                    }
                }
                likely = next;
            }
            let wrong = |(set, p): (usize, &f64)| p * (set as f64 / m).powi(hashes as i32);
            let mean: f64 = likely.iter().enumerate().map(wrong).sum();
            assert!(mean <= rate * (1.0 + 1e-9), "{capacity} {rate}: {mean} {bits} {hashes}");
        }
    }
}

/// Valid options whose layers are too large for memory once ended the process. Now such a layer is
/// an error of `new` or `add`, and the filter keeps its content.
#[test]
fn a_layer_that_does_not_fit_into_memory_is_an_error() {
    let huge = Options { capacity: 1 << 30, rate: 1e-300, expansion: Some(2) };
    assert!(ScalableBloom::new(huge).err().unwrap().contains("memory"));
    // The layers are for 2^9, 2^24 and 2^39 keys, and the third is too large. To save memory, a
    // full layer with a capacity of one key replaces the second.
    let options = Options { capacity: 1 << 9, rate: 1e-9, expansion: Some(32_768) };
    let mut filter = ScalableBloom::new(options).unwrap();
    filter.layers.push(Layer { capacity: 1, items: 1, ..filter.layers[0].clone() });
    filter.layers[0].items = 1 << 9;
    assert_eq!((filter.add(7), filter.layers(), filter.contains(7)), (Err(Full), 2, false));
}

/// A filter whose layers do not grow is full after 64 of them, which was once not documented.
#[test]
fn layers_that_do_not_grow_are_full_after_64() {
    let options = Options { capacity: 1, rate: 0.5, expansion: Some(1) };
    let mut filter = ScalableBloom::new(options).unwrap();
    let full = keys(10, 0..10_000).into_iter().find(|&key| filter.add(key) == Err(Full));
    assert!(full.is_some());
    assert_eq!((filter.layers(), filter.items(), filter.capacity()), (64, 64, 64));
}

/// A filter saved by the first version (`SBF1`): `keys(9, 0..10)`, in layers for 4 and 8 keys.
const FIRST_VERSION: &str = "\
    534246310200000004000000000000007b14ae47e17a843f768b9581f23a7c90040000000000000006000000\
    00000000796ac861c11f00000d5246c50331b392ce94aa420c000000";

#[test]
fn a_dump_of_the_first_version_keeps_its_shapes() {
    let byte = |i: usize| u8::from_str_radix(&FIRST_VERSION[i..i + 2], 16).unwrap();
    let dump: Vec<u8> = (0..FIRST_VERSION.len()).step_by(2).map(byte).collect();
    let (header, payload) = dump.split_at(48);
    let mut filter = load(header, &[payload.to_vec()]).unwrap();
    assert!(keys(9, 0..10).iter().all(|&key| filter.contains(key)));
    assert_eq!((filter.items(), filter.layers()), (10, 2));
    assert_eq!([filter.save_header(), filter.save_piece(0, 1 << 20)].concat(), dump);
    // The filter keeps its version, so programs that know only the first version can read its next
    // dump.
    let more = keys(9, 10..40);
    more.iter().for_each(|&key| assert!(filter.add(key).is_ok()));
    let header = filter.save_header();
    assert!(header.starts_with(b"SBF1") && filter.layers() == 4);
    let again = load(&header, &[filter.save_piece(0, 1 << 20)]).unwrap();
    assert!(keys(9, 0..40).iter().all(|&key| again.contains(key)));
}

#[test]
fn it_is_full_at_its_capacity_if_it_may_not_grow() {
    let present = keys(3, 0..2000);
    let options = Options { capacity: 1000, rate: 0.001, expansion: None };
    let mut filter = ScalableBloom::new(options).unwrap();
    let full = present.iter().position(|&key| filter.add(key) == Err(Full)).unwrap();
    assert!((1000..1010).contains(&full), "{full}");
    assert_eq!((filter.items(), filter.capacity(), filter.layers()), (1000, 1000, 1));
    assert_eq!(filter.add(present[0]), Ok(false), "a present key needs no room");
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
        let filter = filled(Options { capacity: 300, rate: 1e-6, expansion }, &present);
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
        let mut empty = pieces.clone();
        empty.insert(1, Vec::new());
        assert!(load(&header, &empty).is_err());
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
    let mut header = b"SBF2".to_vec();
    header.extend(0u32.to_le_bytes());
    header.extend(huge.capacity.to_le_bytes());
    header.extend(huge.rate.to_bits().to_le_bytes());
    header.extend([0; 16]);
    let loading = Loading::new(&header).unwrap();
    assert!(loading.payload_bytes > 1 << 34 && loading.payload.capacity() == 0);
    assert!(loading.finish().is_err());
}
