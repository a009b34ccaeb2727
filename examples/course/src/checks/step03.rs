use maypole::filter::{FilterBuilder, FilterEncoding, FilterReader, FilterSpec};
use maypole::hash64;

use super::super::step03_line::*;
use super::{assert_near, key, rate};
use crate::check::Check;

pub const CHECKS: &[Check] = &[
    Check { says: "the low half of the hash picks the line", run: the_line },
    Check { says: "the high half picks the bits", run: the_bits },
    Check { says: "the block is Maypole's, byte for byte", run: the_bytes },
    Check { says: "your reader reads Maypole's filter", run: your_reader },
    Check { says: "Maypole's reader reads yours, and no key is denied", run: maypoles_reader },
    Check { says: "a damaged block is not believed", run: damage },
    Check { says: "the rate is about 1 % at 10 bits a key", run: the_rate },
];

fn hashes(count: u64) -> Vec<u64> {
    (0..count).map(|i| hash64(&key("present", i))).collect()
}

fn maypoles(hashes: &[u64], bits_per_key: f64) -> Vec<u8> {
    let mut builder = FilterBuilder::new(FilterSpec::bloom(bits_per_key).unwrap());
    hashes.iter().for_each(|&hash| builder.add(hash));
    builder.finish().unwrap().bytes().to_vec()
}

fn the_line() {
    for (low, expected) in [(0, 0), (0x8000_0000, 500), (0xffff_ffff, 999), (0x0041_8938, 1)] {
        for high in [0, 0xdead_beef] {
            let found = line_of(high << 32 | low, 1000);
            assert_eq!(
                found, expected,
                "low half {low:#x}, high half {high:#x}, 1000 lines. Left: yours; right: expected"
            );
        }
    }
}

fn the_bits() {
    for low in [0, 0xdead_beef] {
        let found = bits_of(1 << 32 | low, 4);
        assert_eq!(
            found,
            [0, 316, 454, 230],
            "high half 1, low half {low:#x}, k = 4. Left: yours; right: expected"
        );
    }
    let found = bits_of(0xffff_ffff << 32, 1);
    assert_eq!(found, [511], "the first bit is the top 9 bits of the high half");
}

fn the_bytes() {
    for (count, bits_per_key) in [(3, 10.0), (52, 10.0), (1000, 10.0), (300, 16.0)] {
        let hashes = hashes(count);
        let (yours, expected) = (build(&hashes, bits_per_key), maypoles(&hashes, bits_per_key));
        assert_eq!(
            yours.len(),
            expected.len(),
            "{count} keys, {bits_per_key} bits a key: the length. Left: yours; right: Maypole's"
        );
        let end = yours.len() - 5;
        let lines = yours[..end].chunks(LINE).zip(expected.chunks(LINE));
        for (line, (yours, expected)) in lines.enumerate() {
            assert_eq!(
                bits_that_are_set(yours),
                bits_that_are_set(expected),
                "{count} keys, {bits_per_key} bits a key: the bits that are set in line {line}. \
                 Left: yours; right: Maypole's"
            );
        }
        assert_eq!(yours[end..], expected[end..], "the trailer. Left: yours; right: Maypole's");
    }
}

fn bits_that_are_set(line: &[u8]) -> Vec<usize> {
    (0..8 * line.len()).filter(|bit| line[bit / 8] >> (bit % 8) & 1 == 1).collect()
}

fn your_reader() {
    let (hashes, absent) = (hashes(1000), hash64(b"quince"));
    let block = maypoles(&hashes, 16.0);
    for (i, &hash) in hashes.iter().enumerate() {
        assert!(may_contain(&block, hash), "key {i} is in Maypole's filter and is denied");
    }
    assert!(!may_contain(&block, absent), "`quince` is not in the filter and passes");
}

fn maypoles_reader() {
    let hashes = hashes(1000);
    let block = build(&hashes, 10.0);
    let reader = FilterReader::from_bytes(&block, FilterEncoding::RocksDb);
    assert_eq!(reader.untrusted(), None, "Maypole's reader does not believe your block");
    for (i, &hash) in hashes.iter().enumerate() {
        assert!(reader.may_contain(hash), "key {i} was added; Maypole's reader denies it");
        assert!(may_contain(&block, hash), "key {i} was added; your reader denies it");
    }
    for i in 0..2000 {
        let hash = hash64(&key("absent", i));
        let (yours, maypoles) = (may_contain(&block, hash), reader.may_contain(hash));
        assert_eq!(yours, maypoles, "absent key {i}. Left: your reader; right: Maypole's");
    }
}

fn damage() {
    let absent = hash64(b"quince");
    let block = maypoles(&hashes(100), 10.0);
    assert!(!may_contain(&block, absent), "`quince` passes although the block is whole");
    let trailer = &block[block.len() - 5..];
    for length in [0, 1, 63, 65, 100] {
        let cut = [&block[..length], trailer].concat();
        assert!(may_contain(&cut, absent), "{length} bytes of lines are no whole lines");
    }
    for length in 0..5 {
        assert!(may_contain(&trailer[..length], absent), "{length} bytes are no whole trailer");
    }
    let end = block.len();
    for (back, byte, why) in [
        (5, 0xfe, "the mark of another kind of filter"),
        (4, 1, "an unknown kind"),
        (3, 0, "k = 0"),
        (3, 31, "k = 31"),
        (3, 0x20 | 6, "lines of 128 bytes, in the high three bits of the byte of k"),
        (2, 1, "a reserved byte that is not 0"),
        (1, 1, "a reserved byte that is not 0"),
    ] {
        let mut damaged = block.clone();
        damaged[end - back] = byte;
        assert!(may_contain(&damaged, absent), "a block with {why} denies a key");
    }
}

fn the_rate() {
    let block = build(&hashes(5000), 10.0);
    let observed = rate(20_000, |key| may_contain(&block, hash64(key)));
    assert_near(observed, 0.0096, "Are the bits of a key spread over its line?");
}
