//! The keys and values of all workloads: each is a function of a number, so that it is the same for
//! every engine.
//!
//! ```text
//! key          "user000…" cut to fit │ mix(n + 1) in 16 hexadecimal digits     in no order of n
//! ordered key  n in decimal digits                                             in the order of n
//! ```

use std::ops::Deref;

use crate::Result;

/// Bytes of the longest key.
pub const MAX_BYTES: usize = 32;
/// The number of hexadecimal digits in which keys differ. Each digit takes a byte, so this is also
/// the length of the shortest key.
pub const DIGITS: usize = 16;
/// The number of keys of one `multi_get`.
pub const TOGETHER: usize = 64;

/// A bijection of 64-bit numbers: the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A key in an array, so that making it allocates nothing.
#[derive(Clone, Copy)]
pub struct Key {
    bytes: [u8; MAX_BYTES],
    len: usize,
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// How keys are made: their length in bytes.
#[derive(Clone, Copy)]
pub struct Keys(pub usize);

impl Keys {
    /// Key number `n`. Numbers below the number of entries belong to present keys. All other keys
    /// are absent, and sort between the present ones.
    pub fn key(self, n: u64) -> Key {
        self.of_mixed(mix(n + 1))
    }

    /// The key of a *mixed number*, a result of [`mix`]. Keys are in the order of their mixed
    /// numbers.
    pub fn of_mixed(self, mixed: u64) -> Key {
        let mut key = Key { bytes: *b"user0000000000000000000000000000", len: self.0 };
        key.bytes[self.0 - DIGITS..self.0].copy_from_slice(&hex(mixed));
        key
    }

    /// Random keys, without end, with numbers from `first` up to but not including `first + count`.
    /// Make all of them before the first lookup. A lookup of a key that was just made waits until
    /// the stores of the key's bytes have reached the processor's cache. Stores complete in order,
    /// so these stores wait for those of the lookup before. So each lookup would wait for the one
    /// before it, and no two lookups would overlap.
    pub fn random(
        self,
        first: u64,
        count: u64,
        numbers: &mut Numbers,
    ) -> impl Iterator<Item = Key> {
        std::iter::repeat_with(move || self.key(first + numbers.below(count)))
    }

    /// Key number `n` of a fill in key order.
    pub fn ordered(self, n: u64) -> Key {
        let mut key = Key { bytes: [b'0'; MAX_BYTES], len: self.0 };
        let mut rest = n;
        for byte in key.bytes[..self.0].iter_mut().rev() {
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        key
    }
}

/// Sixteen hexadecimal digits, eight at a time, because making a key must cost little compared with
/// its lookup.
fn hex(number: u64) -> [u8; DIGITS] {
    let digits = |half: u32| {
        let mut x = u64::from(half);
        x = (x | x << 16) & 0x0000_ffff_0000_ffff;
        x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
        x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        // `letters` has a 1 in every byte whose digit is above 9, that is a letter.
        let letters = (x + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
        (x + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
    };
    let mut text = [0; DIGITS];
    text[..8].copy_from_slice(&digits((number >> 32) as u32));
    text[8..].copy_from_slice(&digits(number as u32));
    text
}

/// How values are made.
#[derive(Clone, Copy)]
pub struct Values {
    pub bytes: usize,
    /// Whether the second half repeats the first, so that a value compresses to about a half.
    /// Otherwise it does not compress.
    pub halves: bool,
}

impl Values {
    /// The value of number `n`.
    pub fn value(self, n: u64, out: &mut Vec<u8>) {
        out.clear();
        let fresh = if self.halves { self.bytes.div_ceil(2) } else { self.bytes };
        let mut word = n;
        while out.len() < fresh {
            word = mix(word.wrapping_add(0x9e37_79b9_7f4a_7c15));
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.truncate(fresh);
        out.extend_from_within(..self.bytes - fresh);
    }
}

/// A sorted run: keys in ascending order, with their values. It has the keys of every `parts`-th
/// number, and these are spread over the whole range of keys.
pub struct Run {
    keys: Keys,
    values: Values,
    mixed: Vec<u64>,
}

impl Run {
    pub fn new(keys: Keys, values: Values, entries: u64, part: u64, parts: u64) -> Run {
        let numbers = (part..entries).step_by(parts as usize);
        let mut mixed: Vec<u64> = numbers.map(|n| mix(n + 1)).collect();
        mixed.sort_unstable();
        Run { keys, values, mixed }
    }

    /// A run of one entry, whose key has this mixed number. With one of the highest mixed numbers,
    /// the key is above all keys that the workloads of `living` make by [`Keys::key`].
    pub fn of_one(keys: Keys, values: Values, mixed: u64) -> Run {
        Run { keys, values, mixed: vec![mixed] }
    }

    pub fn for_each(&self, mut work: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut out = Vec::new();
        for &mixed in &self.mixed {
            self.values.value(mixed, &mut out);
            work(&self.keys.of_mixed(mixed), &out)?;
        }
        Ok(())
    }
}

/// Pseudorandom numbers, the same for every engine.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mix(self.0)) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to, but not including, 1.
    pub fn fraction(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }
}

/// Ranks of a Zipf distribution, by the approximation of Gray et al., "Quickly generating
/// billion-record synthetic databases" (SIGMOD 1994), section 3.2.
pub struct Zipf {
    ranks: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    second: f64,
}

impl Zipf {
    /// `exponent` is between 0 and 1.
    pub fn new(ranks: u64, exponent: f64) -> Zipf {
        let zeta_of = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>();
        let (zeta, second, ranks) = (zeta_of(ranks), zeta_of(2), ranks as f64);
        let eta = (1.0 - (2.0 / ranks).powf(1.0 - exponent)) / (1.0 - second / zeta);
        Zipf { ranks, alpha: 1.0 / (1.0 - exponent), zeta, eta, second }
    }

    /// Maps a random number, at least 0 and below 1, to a rank. Rank 0 is the most frequent one.
    pub fn below(&self, fraction: f64) -> u64 {
        match fraction * self.zeta {
            z if z < 1.0 => 0,
            z if z < self.second => 1,
            _ => {
                let rank = self.ranks * (self.eta * fraction - self.eta + 1.0).powf(self.alpha);
                (rank as u64).min(self.ranks as u64 - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_digits_of_their_mixed_number() {
        for (n, bytes) in [(0, 16), (1, 20), (12_345_678_901, 32)] {
            let text = format!("{:016x}", mix(n + 1));
            let key = Keys(bytes).key(n);
            assert_eq!(key.len(), bytes);
            assert!(
                key.ends_with(text.as_bytes())
                    && b"user000000000000".starts_with(&key[..bytes - 16])
            );
        }
        assert_eq!(&*Keys(20).ordered(907), b"00000000000000000907");
    }

    #[test]
    fn a_value_that_compresses_repeats_its_first_half() {
        let mut out = Vec::new();
        for bytes in [0, 1, 7, 100, 101] {
            Values { bytes, halves: true }.value(5, &mut out);
            assert_eq!((out.len(), &out[bytes.div_ceil(2)..]), (bytes, &out.clone()[..bytes / 2]));
        }
    }

    #[test]
    fn the_hottest_hundredth_is_asked_as_often_as_theory_says() {
        let (ranks, exponent, asked) = (100_000, 0.99, 1_000_000);
        let zipf = Zipf::new(ranks, exponent);
        let mut numbers = Numbers::new(7);
        let hot = (0..asked).filter(|_| zipf.below(numbers.fraction()) < ranks / 100).count();
        let sum = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>();
        let expected = sum(ranks / 100) / sum(ranks);
        let found = hot as f64 / asked as f64;
        assert!((found / expected - 1.0).abs() < 0.02, "{found}, expected {expected}");
    }

    #[test]
    fn runs_hold_every_key_once_in_order() {
        let mut all = Vec::new();
        for part in 0..3 {
            let mut last = Vec::new();
            let values = Values { bytes: 8, halves: false };
            let run = Run::new(Keys(16), values, 100, part, 3);
            run.for_each(|key, value| {
                assert!(last[..] < *key && value.len() == 8);
                last = key.to_vec();
                all.push(key.to_vec());
                Ok(())
            })
            .unwrap();
        }
        all.sort();
        let mut expected: Vec<Vec<u8>> = (0..100).map(|n| Keys(16).key(n).to_vec()).collect();
        expected.sort();
        assert_eq!(all, expected);
    }
}
