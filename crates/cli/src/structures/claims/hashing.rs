//! Claims about the hashes from which a Bloom filter computes the bits of a key. A *rate* is a
//! false-positive rate.

use std::hint::black_box;

use maypole::hash64;
use maypole_filter::textbook::{formulas, mix};

use super::claim::Unit::*;
use super::claim::{Claim, HERE, TUTORIALS, Verdict};
use super::digests::{Md5, Sha256, polynomial};
use super::lab::{Array, Lab, Small};
use crate::failure::Result;
use crate::structures::measure::Rounds;

/// The positions of a key in a filter of `bits` bits, by independent hashes, as the theory assumes.
/// The returned function computes the `i`th position from the hash of the key and `i`.
fn independent(bits: usize) -> impl Fn(u64, u32) -> usize {
    move |hash, i| (mix(hash, u64::from(i) + 100) % bits as u64) as usize
}

/// Like [`independent`], but by `h1 + i·h2 mod m`, as in textbooks. The step `h2` is never 0.
fn double(bits: usize) -> impl Fn(u64, u32) -> usize {
    move |hash, i| {
        let m = bits as u64;
        let (start, step) = (mix(hash, 1) % m, 1 + mix(hash, 2) % (m - 1));
        ((start + u64::from(i) * step) % m) as usize
    }
}

/// Like [`double`], but the step may be 0.
fn unguarded(bits: usize) -> impl Fn(u64, u32) -> usize {
    move |hash, i| {
        let m = bits as u64;
        ((mix(hash, 1) % m + u64::from(i) * (mix(hash, 2) % m)) % m) as usize
    }
}

/// One filter of as many keys as `lab` plans, with the size for a rate of 1 %.
fn large(lab: &Lab) -> Small {
    let (bits, hashes) = formulas::whole_shape(lab.keys, 0.01);
    // Enough queries for an error of about a hundredth of the rate.
    let asked = (lab.absent.len() as u64).max(1_000_000);
    Small { keys: lab.keys, bits, hashes, filters: 1, asked }
}

pub fn two_hashes(lab: &Lab) -> Result<Vec<Claim>> {
    let large = large(lab);
    // With 20 bits a key, the theory promises a rate of 0.007 %. The number of bits is prime, which
    // is the best case for double hashing: with any step, the positions of a key are distinct.
    let small =
        Small { keys: 100, bits: 2003, hashes: 14, filters: lab.small_filters(100), asked: 5000 };
    let worse = [large, small].map(|shape| {
        shape.rate(lab.seed, double(shape.bits)) / shape.rate(lab.seed, independent(shape.bits))
    });
    Ok(vec![Claim {
        says: "Two hashes, combined, are as good as k.",
        source: "Kirsch and Mitzenmacher, Less Hashing, Same Performance, 2006",
        verdict: Verdict::of_cases(&worse.map(|times| times < 1.1)),
        rule: "true if the rate is less than 1.1 times that of independent hashes, in one filter \
               of all keys at 1 % and in filters of 100 keys with 20 bits each; half true if in \
               one",
        figures: vec![
            ("rate in a filter of all keys", Times, worse[0]),
            ("in filters of 100 keys", Times, worse[1]),
        ],
        because: "It holds for large filters; in a small one two keys share start and step often \
                  enough to put a floor under a low rate.",
        instead: format!(
            "The rate is {:.2} times as high in a filter of all keys and {:.2} times in filters \
                of 100 keys.",
            worse[0], worse[1]
        ),
        see: HERE,
    }])
}

/// A key such as an application may make: `user:0000000042:profile.a`.
fn name(number: u64, letter: u8) -> [u8; 24] {
    let mut key = *b"user:0000000000:profile.";
    key[23] = b'a' + letter;
    let mut rest = number;
    for digit in key[5..15].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Nanoseconds of a hash of 24 bytes.
fn hash_ns(lab: &Lab, hash: impl Fn(&[u8]) -> u64) -> Rounds {
    let count = lab.keys.min(200_000);
    let round = || {
        let hashed = (0..count as u64).fold(0, |sum, i| sum ^ hash(black_box(&name(i, 0))));
        black_box(hashed)
    };
    Rounds::of(count, round).0
}

/// The rate of a filter that is made for 1 %. Its keys are [`name`]s with even numbers; the queries
/// are names with odd numbers. `position(key, i, bits)` is the `i`th position of a key.
fn named_rate(lab: &Lab, position: impl Fn(&[u8], u32, usize) -> usize) -> f64 {
    let keys = lab.keys.min(1_000_000) as u64;
    let (bits, hashes) = formulas::whole_shape(keys as usize, 0.01);
    let mut array = Array::new(bits, hashes);
    for i in 0..keys {
        let key = name(2 * i, 0);
        array.add(|probe| position(&key, probe, bits));
    }
    // If there are few keys, each odd number is queried in several names, which end in different
    // letters. So there are enough queries for the rate not to depend on chance.
    let letters = 500_000u64.div_ceil(keys).min(26);
    let wrong = (0..letters * keys).filter(|i| {
        let key = name(2 * (i % keys) + 1, (i / keys) as u8);
        array.contains(|probe| position(&key, probe, bits))
    });
    wrong.count() as f64 / (letters * keys) as f64
}

pub fn digests(lab: &Lab) -> Result<Vec<Claim>> {
    let (md5, sha256) = (Md5::new(), Sha256::new());
    let times = [
        hash_ns(lab, hash64),
        hash_ns(lab, |key| md5.hash(key)),
        hash_ns(lab, |key| sha256.hash(key)),
    ];
    let noise = times.iter().map(Rounds::noise).fold(1.0, f64::max);
    let [own, md5_ns, sha256_ns] = times.map(|times| times.shortest());
    let slower = [md5_ns, sha256_ns].map(|ns| ns / own);
    let rate = named_rate(lab, |key, i, bits| double(bits)(sha256.hash(key), i));
    let own_rate = named_rate(lab, |key, i, bits| double(bits)(hash64(key), i));
    Ok(vec![Claim {
        says: "MD5 and SHA-256 are slow, and not worth it in a filter.",
        source: TUTORIALS,
        verdict: Verdict::of_cases(&[slower[0] > 5.0, slower[1] > 5.0, rate > 0.85 * own_rate])
            .by_times(noise),
        rule: "keys of 24 bytes, plain code; true if both take over 5 times what XXH3 takes and \
               SHA-256 gives no better rate, half true if some of that holds",
        figures: vec![
            ("XXH3", Ns, own),
            ("MD5 against it", Times, slower[0]),
            ("SHA-256 against it", Times, slower[1]),
            ("rate with SHA-256", Rate, rate),
            ("with XXH3", Rate, own_rate),
        ],
        because: "They prevent collisions on purpose, which a filter needs only if an enemy \
                  chooses its keys, and a secret seed is cheaper.",
        instead: format!(
            "They take {:.1} and {:.1} times as long as XXH3, and SHA-256 gives {:.2} times its rate.",
            slower[0],
            slower[1],
            rate / own_rate
        ),
        see: HERE,
    }])
}

/// The factors of the polynomials in a Bloom filter in Java that is often copied.
const FACTORS: [u32; 8] = [3, 5, 7, 11, 13, 31, 37, 61];

pub fn polynomials(lab: &Lab) -> Result<Vec<Claim>> {
    let good = named_rate(lab, |key, i, bits| double(bits)(hash64(key), i));
    // Double hashing from one hashCode: the start is the hash itself, and the step is its upper
    // half, made odd.
    let stretched = named_rate(lab, |key, i, bits| {
        let code = polynomial(key, 31);
        (code.wrapping_add(i.wrapping_mul(code >> 16 | 1)) % bits as u32) as usize
    });
    let many = named_rate(lab, |key, i, bits| {
        (polynomial(key, FACTORS[i as usize % FACTORS.len()]) % bits as u32) as usize
    });
    Ok(vec![Claim {
        says: "Hashes like Java's String.hashCode are bad for filters.",
        source: TUTORIALS,
        verdict: Verdict::of_cases(&[stretched, many].map(|rate| rate > 1.25 * good)),
        rule: "keys that are numbered, made for 1 %; true if the rate is over 1.25 times that with \
               XXH3, for one hashCode stretched and for polynomials of several factors, half true \
               if for one",
        figures: vec![
            ("XXH3", Rate, good),
            ("one hashCode", Rate, stretched),
            ("several factors", Rate, many),
        ],
        because: "Similar keys get similar sums, so the rate depends on the keys: it may be lower or \
                  higher than that of a good hash. 32 bits also collide once there are many keys.",
        instead: format!(
            "With numbered keys one hashCode gives {:.2} times the rate of XXH3, several factors \
                {:.2} times; other keys may fare worse.",
            stretched / good,
            many / good
        ),
        see: HERE,
    }])
}

pub fn zero_step(lab: &Lab) -> Result<Vec<Claim>> {
    let large = large(lab);
    let small = Small { keys: 10, bits: 97, hashes: 7, filters: lab.small_filters(10), asked: 200 };
    let worse = [large, small].map(|shape| {
        shape.rate(lab.seed, unguarded(shape.bits)) / shape.rate(lab.seed, double(shape.bits))
    });
    Ok(vec![Claim {
        says: "A hash step of 0 modulo m must be excluded: all probes would fall on one bit.",
        source: TUTORIALS,
        verdict: Verdict::of_cases(&worse.map(|times| times > 1.05)),
        rule: "true if allowing it makes the rate over 1.05 times as high in one filter of all \
               keys and in filters of 10 keys with 97 bits, half true if in one",
        figures: vec![
            ("rate in a filter of all keys", Times, worse[0]),
            ("in filters of 10 keys", Times, worse[1]),
        ],
        because: "It happens to one key in m: often in a tiny filter, hardly ever in one of a \
                  million bits; excluding it costs nothing, so do.",
        instead: format!(
            "Allowing it makes the rate {:.2} times as high in a filter of all keys and {:.2} \
                times in filters of 10 keys.",
            worse[0], worse[1]
        ),
        see: HERE,
    }])
}
