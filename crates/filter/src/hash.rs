//! The two hashes of RocksDB's tables. [`hash64`] is for every current filter. RocksDB uses
//! [`hash32`] for the filters of old files and for the hash index inside data blocks; Maypole reads
//! such filters and skips the index.
//!
//! `hash64` is XXH3 of **xxHash 0.7.2**, seed 0, with RocksDB's own value for the empty string. It
//! is not the XXH3 that was released later: the avalanche multiplier differs in one digit pair
//! (`…B1…` here, `…91…` there), short inputs are mixed in another order, and long inputs add a word
//! to another lane. A wrong variant would still look like a good hash. It would lose keys only
//! where RocksDB reads Maypole's filters, or Maypole reads RocksDB's. So
//! `tests/data/xxph3-vectors.csv` covers every branch.
//!
//! ```text
//! length      method
//! 0           fold of the secret (RocksDB)
//! 1..3 4..8 9..16     one or two multiplications
//! 17..128     16 bytes a multiplication, from both ends inwards
//! 129..240    16 bytes a multiplication, front to back
//! > 240       8 lanes over 64-byte stripes, scrambled every 1024 bytes
//! ```
//!
//! Source: RocksDB `util/hash.h`, `util/xxph3.h`; all arithmetic wraps.

use byteorder::{ByteOrder, LittleEndian};

/// 2^64 divided by the golden ratio. Multiples of it are spread evenly over all `u64` values
/// (Knuth, The Art of Computer Programming 3, section 6.4).
pub const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

const P32_1: u64 = 0x9e37_79b1;
const P32_2: u64 = 0x85eb_ca77;
const P32_3: u64 = 0xc2b2_ae3d;
const P64_1: u64 = 0x9e37_79b1_85eb_ca87;
const P64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P64_3: u64 = 0x1656_67b1_9e37_79f9;
const P64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const P64_5: u64 = 0x27d4_eb2f_1656_67c5;

const SECRET_BYTES: usize = 192;
type Secret = [u8; SECRET_BYTES];

/// XXH3's default secret, the same in every version.
#[rustfmt::skip]
const SECRET: Secret = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// The 64-bit hash of a user key or of its prefix, for every filter but legacy Bloom filters. It is
/// RocksDB's `GetSliceHash64`.
#[inline]
pub fn hash64(bytes: &[u8]) -> u64 {
    seeded(bytes, 0)
}

/// [`hash64`] with a seed. For seed 0, which filters use, the compiler removes the seed's
/// arithmetic.
#[inline(always)]
fn seeded(p: &[u8], seed: u64) -> u64 {
    match p.len() {
        17..=128 => middle(p, seed),
        0..=16 => short(p, seed),
        129..=240 => upper_middle(p, seed),
        _ => long(p, seed),
    }
}

/// The first four bytes of `bytes`, little-endian. The caller has checked that they exist.
#[inline(always)]
fn fixed32(bytes: &[u8]) -> u32 {
    LittleEndian::read_u32(bytes)
}

/// The first eight bytes of `bytes`, little-endian. The caller has checked that they exist.
#[inline(always)]
fn fixed64(bytes: &[u8]) -> u64 {
    LittleEndian::read_u64(bytes)
}

/// Multiplies to 128 bits and folds the halves together.
#[inline(always)]
fn fold(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn avalanche(mut h: u64) -> u64 {
    h ^= h >> 37;
    h = h.wrapping_mul(P64_3);
    h ^ (h >> 32)
}

/// Eight bytes of the secret.
#[inline(always)]
fn secret64(at: usize) -> u64 {
    fixed64(&SECRET[at..])
}

/// Folds 16 bytes of input with 16 bytes of the secret.
#[inline(always)]
fn mix(p: &[u8], secret_at: usize, seed: u64) -> u64 {
    fold(
        fixed64(p) ^ secret64(secret_at).wrapping_add(seed),
        fixed64(&p[8..]) ^ secret64(secret_at + 8).wrapping_sub(seed),
    )
}

#[inline(always)]
fn short(p: &[u8], seed: u64) -> u64 {
    let n = p.len();
    match n {
        0 => fold(seed.wrapping_add(secret64(0)), P64_2),
        1..=3 => {
            let c = u64::from(p[0])
                | u64::from(p[n / 2]) << 8
                | u64::from(p[n - 1]) << 16
                | (n as u64) << 24;
            let key = u64::from(fixed32(&SECRET)).wrapping_add(seed);
            avalanche((c ^ key).wrapping_mul(P64_1))
        }
        4..=8 => {
            let x = u64::from(fixed32(p)) | u64::from(fixed32(&p[n - 4..])) << 32;
            let key = x ^ secret64(0).wrapping_add(seed);
            let m = (key ^ (key >> 51)).wrapping_mul(P32_1).wrapping_add(n as u64);
            avalanche((m ^ (m >> 47)).wrapping_mul(P64_2))
        }
        _ => {
            let low = fixed64(p) ^ secret64(0).wrapping_add(seed);
            let high = fixed64(&p[n - 8..]) ^ secret64(8).wrapping_sub(seed);
            avalanche((n as u64).wrapping_add(low).wrapping_add(high).wrapping_add(fold(low, high)))
        }
    }
}

/// 17 to 128 bytes.
#[inline(always)]
fn middle(p: &[u8], seed: u64) -> u64 {
    let n = p.len();
    let mut acc = (n as u64).wrapping_mul(P64_1);
    acc = acc.wrapping_add(mix(p, 0, seed)).wrapping_add(mix(&p[n - 16..], 16, seed));
    if n > 32 {
        acc = acc.wrapping_add(mix(&p[16..], 32, seed)).wrapping_add(mix(&p[n - 32..], 48, seed));
        if n > 64 {
            acc =
                acc.wrapping_add(mix(&p[32..], 64, seed)).wrapping_add(mix(&p[n - 48..], 80, seed));
            if n > 96 {
                acc = acc.wrapping_add(mix(&p[48..], 96, seed)).wrapping_add(mix(
                    &p[n - 64..],
                    112,
                    seed,
                ));
            }
        }
    }
    avalanche(acc)
}

/// 129 to 240 bytes.
#[inline(never)]
fn upper_middle(p: &[u8], seed: u64) -> u64 {
    let n = p.len();
    let mut acc = (n as u64).wrapping_mul(P64_1);
    for i in 0..8 {
        acc = acc.wrapping_add(mix(&p[16 * i..], 16 * i, seed));
    }
    acc = avalanche(acc);
    for i in 8..n / 16 {
        acc = acc.wrapping_add(mix(&p[16 * i..], 16 * (i - 8) + 3, seed));
    }
    avalanche(acc.wrapping_add(mix(&p[n - 16..], 119, seed)))
}

/// More than 240 bytes.
#[inline(never)]
fn long(p: &[u8], seed: u64) -> u64 {
    let mut secret = SECRET;
    if seed != 0 {
        for pair in secret.chunks_exact_mut(16) {
            let (low, high) = pair.split_at_mut(8);
            low.copy_from_slice(&fixed64(low).wrapping_add(seed).to_le_bytes());
            high.copy_from_slice(&fixed64(high).wrapping_sub(seed).to_le_bytes());
        }
    }
    let mut lanes = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    let blocks = p.chunks_exact(1024);
    let rest = blocks.remainder();
    for block in blocks {
        for (j, stripe) in block.chunks_exact(64).enumerate() {
            add_stripe(&mut lanes, stripe, &secret[8 * j..]);
        }
        for (i, lane) in lanes.iter_mut().enumerate() {
            *lane = (*lane ^ (*lane >> 47) ^ fixed64(&secret[128 + 8 * i..])).wrapping_mul(P32_1);
        }
    }
    for (j, stripe) in rest.chunks_exact(64).enumerate() {
        add_stripe(&mut lanes, stripe, &secret[8 * j..]);
    }
    if !p.len().is_multiple_of(64) {
        add_stripe(&mut lanes, &p[p.len() - 64..], &secret[121..]);
    }
    let mut result = (p.len() as u64).wrapping_mul(P64_1);
    for j in 0..4 {
        result = result.wrapping_add(fold(
            lanes[2 * j] ^ fixed64(&secret[11 + 16 * j..]),
            lanes[2 * j + 1] ^ fixed64(&secret[19 + 16 * j..]),
        ));
    }
    avalanche(result)
}

#[inline(always)]
fn add_stripe(lanes: &mut [u64; 8], stripe: &[u8], secret: &[u8]) {
    for (i, lane) in lanes.iter_mut().enumerate() {
        let data = fixed64(&stripe[8 * i..]);
        let key = data ^ fixed64(&secret[8 * i..]);
        *lane = lane.wrapping_add(data).wrapping_add((key & 0xffff_ffff).wrapping_mul(key >> 32));
    }
}

/// The seed of legacy Bloom filters (tables of format version 4 and older).
pub const LEGACY_BLOOM_SEED: u32 = 0xbc9f_1d34;

/// LevelDB's 32-bit hash. The one to three bytes after the last whole word are **sign-extended**,
/// because `char` was signed for the compilers of the first LevelDB, and stored files depend on
/// that.
pub fn hash32(bytes: &[u8], seed: u32) -> u32 {
    const M: u32 = 0xc6a4_a793;
    let mut h = seed ^ (bytes.len() as u32).wrapping_mul(M);
    let words = bytes.chunks_exact(4);
    let tail = words.remainder();
    for word in words {
        h = h.wrapping_add(fixed32(word)).wrapping_mul(M);
        h ^= h >> 16;
    }
    if tail.is_empty() {
        return h;
    }
    for (i, &byte) in tail.iter().enumerate() {
        h = h.wrapping_add((i32::from(byte as i8) as u32) << (8 * i));
    }
    h = h.wrapping_mul(M);
    h ^ (h >> 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
            .collect()
    }

    #[test]
    fn every_vector_of_rocksdbs_hash_is_met() {
        let mut rows = 0;
        for row in include_str!("../tests/data/xxph3-vectors.csv").lines().skip(1) {
            let columns: Vec<&str> = row.split(',').collect();
            let length: usize = columns[1].parse().unwrap();
            let seed = u64::from_str_radix(columns[2], 16).unwrap();
            let expected = u64::from_str_radix(columns[4], 16).unwrap();
            let input = unhex(columns[3]);
            assert_eq!(input.len(), length, "{row}");
            assert_eq!(seeded(&input, seed), expected, "{row}");
            if seed == 0 {
                assert_eq!(hash64(&input), expected, "{row}");
            }
            rows += 1;
        }
        assert_eq!(rows, 193);
    }

    #[test]
    fn the_legacy_hash_sign_extends_its_tail() {
        assert_eq!(hash32(b"", LEGACY_BLOOM_SEED), 3_164_544_308);
        assert_eq!(hash32(&[0x9a], LEGACY_BLOOM_SEED), 3_195_034_349);
        assert_eq!(hash32(&[0x56, 0xdc, 0xd6], LEGACY_BLOOM_SEED), 2_157_698_265);
    }
}
