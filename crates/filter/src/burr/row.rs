//! From a key's hash to its row: where the row starts, its coefficients, its fingerprint.
//!
//! ```text
//! start        = high 64 bits of  hash × starts       monotone in the hash: its top bits decide
//! (high, low)  = hash × MULTIPLIER, 128 bits          one multiplication for the rest
//! coefficients = the top w bits of low, bit 0 set     bit i belongs to slot start + i
//! fingerprint  = the low r bits of high               bit j belongs to column j
//! next hash    = mix(hash + GOLDEN)                   the key's hash in the next layer
//! ```
//!
//! Start and bucket come from the top bits of the hash. Keys with neighbouring starts agree in most
//! of these bits, but their coefficients and fingerprints must be unrelated. So these come from the
//! middle of a product, which is no monotone function of the hash. The starts of bumped keys are
//! not random, because a layer bumps keys by their start. So each bit of the next layer's hash
//! depends on the whole hash.

use super::shape::Shape;
pub(super) use crate::hashes::mix;

/// An odd number without structure: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The coefficients of a row: 32 or 64 bits, the *width* of the ribbon.
pub(super) trait Word: Copy + Default + Eq + Send + Sync + 'static {
    /// The width.
    const BITS: u32;
    /// Bytes of one segment: one column of one block.
    const BYTES: usize = Self::BITS as usize / 8;
    /// The coefficients of a row that occupies only its first slot.
    const ONE: Self;
    /// The buckets and classes for this width.
    const SHAPE: Shape = Shape::of_width(Self::BITS);

    /// The coefficients in the low half of a key's product.
    fn from_product(low: u64) -> Self;
    fn and(self, other: Self) -> Self;
    /// 1 when an odd number of bits is set.
    fn parity(self) -> u32;
    /// The coefficients of a row that starts at slot `offset` of a block, in two parts: those for
    /// slots of this block, and those for slots of the next block.
    fn split(self, offset: u32) -> (Self, Self);
    /// `self << 1 | bit`.
    fn push(self, bit: u32) -> Self;
    /// The word in the first [`Word::BYTES`] bytes of `bytes`, little-endian.
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! word {
    ($word:ty, $double:ty, $from_product:expr) => {
        impl Word for $word {
            const BITS: u32 = <$word>::BITS;
            const ONE: Self = 1;

            #[inline(always)]
            fn from_product(low: u64) -> Self {
                $from_product(low) | 1
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn parity(self) -> u32 {
                self.count_ones() & 1
            }
            #[inline(always)]
            fn split(self, offset: u32) -> (Self, Self) {
                let wide = <$double>::from(self) << (offset % Self::BITS);
                (wide as $word, (wide >> Self::BITS) as $word)
            }
            #[inline(always)]
            fn push(self, bit: u32) -> Self {
                self << 1 | bit as $word
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let mut word = [0; Self::BYTES];
                word.copy_from_slice(&bytes[..Self::BYTES]);
                <$word>::from_le_bytes(word)
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}

word!(u32, u64, |low: u64| (low >> 32) as u32);
word!(u64, u128, |low: u64| low);

/// One equation: the XOR of the slots that the coefficients select is the fingerprint.
///
/// The coefficients are kept *rotated*: bit `s % w` belongs to slot `s`, wherever the row starts. A
/// row spans at most w slots, so no two of its slots share a bit, and rows are added without a
/// shift.
pub(super) trait Row: Copy + Default + PartialEq {
    type Word: Word;
    /// The row with these coefficients, of which bit i belongs to slot `start + i`.
    fn new(coefficients: Self::Word, fingerprint: u32, start: u32) -> Self;
    /// Whether the row has no coefficients.
    fn is_empty(self) -> bool;
    fn xor(self, other: Self) -> Self;
    /// The distance from `slot` to the slot of the row's first coefficient that is 1. Arbitrary if
    /// the row is empty.
    fn distance(self, slot: u32) -> u32;
    /// The coefficients without the rotation: bit i belongs to slot `slot + i`.
    fn coefficients(self, slot: u32) -> Self::Word;
    fn fingerprint(self) -> u32;
    /// `if condition { this } else { other }`, without a branch.
    fn select(condition: bool, this: Self, other: Self) -> Self;
}

/// A row with w = 32: the coefficients in the low 32 bits, the fingerprint in the high ones.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Row32(u64);

impl Row for Row32 {
    type Word = u32;
    #[inline(always)]
    fn new(coefficients: u32, fingerprint: u32, start: u32) -> Row32 {
        Row32(u64::from(coefficients.rotate_left(start % 32)) | u64::from(fingerprint) << 32)
    }
    #[inline(always)]
    fn is_empty(self) -> bool {
        self.0 as u32 == 0
    }
    #[inline(always)]
    fn xor(self, other: Row32) -> Row32 {
        Row32(self.0 ^ other.0)
    }
    #[inline(always)]
    fn distance(self, slot: u32) -> u32 {
        // The compiler counts zeros by `bsf`, because every x86-64 processor has this instruction,
        // but its result for 0 is undefined. The extra bit makes the number nonzero, so that the
        // compiler adds no test for 0.
        (u64::from(self.coefficients(slot)) | 1 << 32).trailing_zeros()
    }
    #[inline(always)]
    fn coefficients(self, slot: u32) -> u32 {
        (self.0 as u32).rotate_right(slot % 32)
    }
    #[inline(always)]
    fn fingerprint(self) -> u32 {
        (self.0 >> 32) as u32
    }
    #[inline(always)]
    fn select(condition: bool, this: Row32, other: Row32) -> Row32 {
        Row32(core::hint::select_unpredictable(condition, this.0, other.0))
    }
}

/// A row with w = 64.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Row64 {
    coefficients: u64,
    fingerprint: u32,
}

impl Row for Row64 {
    type Word = u64;
    #[inline(always)]
    fn new(coefficients: u64, fingerprint: u32, start: u32) -> Row64 {
        Row64 { coefficients: coefficients.rotate_left(start % 64), fingerprint }
    }
    #[inline(always)]
    fn is_empty(self) -> bool {
        self.coefficients == 0
    }
    #[inline(always)]
    fn xor(self, other: Row64) -> Row64 {
        Row64 {
            coefficients: self.coefficients ^ other.coefficients,
            fingerprint: self.fingerprint ^ other.fingerprint,
        }
    }
    #[inline(always)]
    fn distance(self, slot: u32) -> u32 {
        self.coefficients(slot).trailing_zeros()
    }
    #[inline(always)]
    fn coefficients(self, slot: u32) -> u64 {
        self.coefficients.rotate_right(slot % 64)
    }
    #[inline(always)]
    fn fingerprint(self) -> u32 {
        self.fingerprint
    }
    #[inline(always)]
    fn select(condition: bool, this: Row64, other: Row64) -> Row64 {
        use core::hint::select_unpredictable;
        Row64 {
            coefficients: select_unpredictable(condition, this.coefficients, other.coefficients),
            fingerprint: select_unpredictable(condition, this.fingerprint, other.fingerprint),
        }
    }
}

/// The slot where the row of `hash` starts, below `starts`.
#[inline(always)]
pub(super) fn start(hash: u64, starts: u32) -> u32 {
    ((u128::from(hash) * u128::from(starts)) >> 64) as u32
}

/// The coefficients of `hash`, and its fingerprint. A filter with r columns uses only the lowest r
/// bits of the fingerprint.
#[inline(always)]
pub(super) fn equation<W: Word>(hash: u64) -> (W, u32) {
    let product = u128::from(hash) * u128::from(MULTIPLIER);
    (W::from_product(product as u64), (product >> 64) as u32)
}

/// The hash of a bumped key in the next layer.
#[inline]
pub(super) fn next_hash(hash: u64) -> u64 {
    mix(hash.wrapping_add(MULTIPLIER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_monotone_and_in_range() {
        for starts in [1, 32, 1000, u32::MAX] {
            assert_eq!(start(0, starts), 0);
            assert_eq!(start(u64::MAX, starts), starts - 1);
            assert!(start(1 << 63, starts) >= start((1 << 63) - 1, starts));
        }
    }

    fn a_row_keeps_its_bits<R: Row>() {
        for start in 0..200 {
            let (coefficients, fingerprint) = equation::<R::Word>(mix(u64::from(start) + 1));
            let row = R::new(coefficients, fingerprint, start);
            assert!(!row.is_empty() && row.distance(start) == 0);
            assert!(row.coefficients(start) == coefficients && row.fingerprint() == fingerprint);
            assert!(row.xor(row) == R::default() && R::default().is_empty());
            // Without its first coefficient the row starts at the next one that is set.
            let rest = row.xor(R::new(R::Word::ONE, 0, start));
            assert!(rest.distance(start) > 0 && rest.distance(start + rest.distance(start)) == 0);

            let offset = start % R::Word::BITS;
            let (left, right) = coefficients.split(offset);
            assert_eq!(left.parity() ^ right.parity(), coefficients.parity());
            assert!(
                R::Word::ONE.split(offset)
                    == (R::new(R::Word::ONE, 0, offset).coefficients(0), R::Word::default())
            );
        }
    }

    #[test]
    fn rows_keep_their_bits_rotated_and_split() {
        a_row_keeps_its_bits::<Row32>();
        a_row_keeps_its_bits::<Row64>();
    }
}
