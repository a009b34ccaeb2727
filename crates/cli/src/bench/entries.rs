//! The numbered entries of a run: the key of each number, its random values, and which numbers were
//! written.
//!
//! ```text
//! key      number, 8 bytes big-endian │ '0' …             key order is number order
//! absent   a key as above             │ '0'               one byte longer: between two such keys
//! value    a window on noise in which every second stretch repeats the one before it
//! ```
//!
//! One bit for each number says whether its key exists, so that every lookup can be checked.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

/// Bytes of a key that tell its number.
pub const NUMBER_BYTES: usize = 8;

/// A value is a slice of the noise that starts at one of this many offsets.
const STARTS: u64 = 4096;
/// The noise repeats each stretch of this many random bytes once, so that values compress to about
/// half of their size.
const STRETCH_BYTES: usize = 50;

pub struct Entries {
    /// All numbers are below this count.
    pub count: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    noise: Vec<u8>,
    written: Vec<AtomicU64>,
}

impl Entries {
    pub fn new(count: u64, key_bytes: usize, value_bytes: usize) -> Entries {
        let mut random = SmallRng::seed_from_u64(0);
        let mut noise = Vec::new();
        while noise.len() < value_bytes + STARTS as usize {
            let mut stretch = [0; STRETCH_BYTES];
            random.fill_bytes(&mut stretch);
            noise.extend_from_slice(&stretch);
            noise.extend_from_slice(&stretch);
        }
        let written = (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Entries { count, key_bytes, value_bytes, noise, written }
    }

    /// Makes the keys of numbers.
    pub fn keys(&self) -> KeyMaker {
        KeyMaker(vec![b'0'; self.key_bytes])
    }

    /// Makes keys that are never written.
    pub fn absent_keys(&self) -> KeyMaker {
        KeyMaker(vec![b'0'; self.key_bytes + 1])
    }

    /// The number whose key this is; `None` if it is the key of no number below `count`.
    pub fn number_of(&self, key: &[u8]) -> Option<u64> {
        let number = u64::from_be_bytes(*key.first_chunk::<NUMBER_BYTES>()?);
        (number < self.count && self.keys().of(number) == key).then_some(number)
    }

    pub fn value(&self, random: &mut SmallRng) -> &[u8] {
        let start = random.random_range(0..STARTS) as usize;
        &self.noise[start..start + self.value_bytes]
    }

    /// Bytes of the key and the value of one entry.
    pub fn entry_bytes(&self) -> u64 {
        (self.key_bytes + self.value_bytes) as u64
    }

    /// Called after the key of `number` was written: lookups must find it from now on.
    pub fn mark_written(&self, number: u64) {
        self.written[(number / 64) as usize].fetch_or(1 << (number % 64), Ordering::Release);
    }

    /// Called after the key of `number` was removed: lookups must not find it from now on.
    pub fn mark_removed(&self, number: u64) {
        self.written[(number / 64) as usize].fetch_and(!(1 << (number % 64)), Ordering::Release);
    }

    pub fn is_written(&self, number: u64) -> bool {
        self.written[(number / 64) as usize].load(Ordering::Acquire) >> (number % 64) & 1 == 1
    }

    /// The `i`-th number in a random order of all numbers, which depends on `seed`. Different `i`
    /// give different numbers.
    ///
    /// The largest number, `count - 1`, has `bits` bits. Three rounds of a mixer permute all
    /// numbers of at most `bits` bits. A result that is not below `count` goes through the rounds
    /// again. More than half of the results are below `count`, so on average the rounds run fewer
    /// than two times.
    pub fn drawn(&self, i: u64, seed: u64) -> u64 {
        let bits = (u64::BITS - (self.count - 1).leading_zeros()).max(1);
        let mask = u64::MAX >> (u64::BITS - bits);
        let mut number = i;
        loop {
            for round in 0..3 {
                // Each step can be inverted (the multiplication, because its factor is odd), so no
                // two numbers have the same result.
                let factor = seed.rotate_left(21 * round) ^ 0x9e37_79b9_7f4a_7c15 | 1;
                number = number.wrapping_mul(factor).wrapping_add(seed) & mask;
                number ^= number >> bits.div_ceil(2);
            }
            if number < self.count {
                return number;
            }
        }
    }

    /// How many numbers are written.
    pub fn written(&self) -> u64 {
        self.written.iter().map(|word| u64::from(word.load(Ordering::Acquire).count_ones())).sum()
    }

    /// Called when the database was replaced by an empty one.
    pub fn forget(&mut self) {
        self.written.fill_with(|| AtomicU64::new(0));
    }
}

/// Makes one key at a time, in a buffer that it reuses.
pub struct KeyMaker(Vec<u8>);

impl KeyMaker {
    pub fn of(&mut self, number: u64) -> &[u8] {
        self.0[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers_and_absent_ones_lie_between() {
        let entries = Entries::new(300, 20, 100);
        let (mut keys, mut absent) = (entries.keys(), entries.absent_keys());
        for n in 0..299 {
            let (key, next) = (keys.of(n).to_vec(), entries.keys().of(n + 1).to_vec());
            assert_eq!(key.len(), 20);
            assert!(&key[..] < absent.of(n) && absent.of(n) < &next[..]);
            assert_eq!((entries.number_of(&key), entries.number_of(absent.of(n))), (Some(n), None));
        }
        assert_eq!(entries.number_of(keys.of(300)), None);
        assert_eq!(entries.number_of(b"short"), None);
    }

    #[test]
    fn every_number_is_drawn_once_and_a_seed_draws_another_order() {
        for count in [1, 2, 3, 64, 65, 1000, 4097] {
            let entries = Entries::new(count, 8, 0);
            let order = |seed| (0..count).map(|i| entries.drawn(i, seed)).collect::<Vec<_>>();
            for seed in [0, 1, u64::MAX] {
                let mut sorted = order(seed);
                sorted.sort_unstable();
                assert_eq!(sorted, (0..count).collect::<Vec<_>>(), "{count}, seed {seed}");
            }
            assert!(count < 64 || order(1) != order(2));
        }
        // The order looks random: in its first half, about half of the numbers are below 50,000,
        // and about half are even.
        let entries = Entries::new(100_000, 8, 0);
        let half: Vec<u64> = (0..50_000).map(|i| entries.drawn(i, 1)).collect();
        let share = |of: fn(u64) -> bool| half.iter().filter(|&&n| of(n)).count() as f64 / 50_000.0;
        assert!((share(|n| n < 50_000) - 0.5).abs() < 0.02, "{}", share(|n| n < 50_000));
        assert!((share(|n| n % 2 == 0) - 0.5).abs() < 0.02, "{}", share(|n| n % 2 == 0));
    }

    #[test]
    fn every_number_written_is_known() {
        let mut entries = Entries::new(130, 8, 0);
        for n in [0, 63, 64, 129, 129] {
            entries.mark_written(n);
        }
        assert_eq!(entries.written(), 4);
        assert!((0..130).all(|n| entries.is_written(n) == [0, 63, 64, 129].contains(&n)));
        entries.mark_removed(63);
        entries.mark_removed(5);
        assert!((0..130).all(|n| entries.is_written(n) == [0, 64, 129].contains(&n)));
        entries.forget();
        assert_eq!(entries.written(), 0);
    }
}
