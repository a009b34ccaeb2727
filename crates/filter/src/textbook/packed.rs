//! An array of integers of `width` bits each, without gaps.
//!
//! ```text
//! width 10   word 0                                              word 1
//!            |slot 0    |slot 1    | … |slot 5    |slo           t 6       |slot 7   …
//!            0          10         20  50         60        63   0         6
//! ```
//!
//! A slot may cross from one word into the next, which takes two loads and two shifts.

use alloc::vec::Vec;

use super::shared::{TooLarge, zeros};

/// Integers of 1 to 32 bits.
#[derive(Clone)]
pub(super) struct Packed {
    width: u32,
    len: usize,
    words: Vec<u64>,
}

impl Packed {
    /// `len` slots that hold 0.
    pub fn new(width: u32, len: usize) -> Result<Packed, TooLarge> {
        assert!((1..=32).contains(&width), "a slot has 1 to 32 bits");
        Ok(Packed { width, len, words: zeros(len.checked_mul(width as usize))? })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.words.as_slice())
    }

    fn mask(&self) -> u64 {
        (1 << self.width) - 1
    }

    /// The word and the bit in it where a slot starts.
    fn locate(&self, slot: usize) -> (usize, u32) {
        debug_assert!(slot < self.len);
        let bit = slot * self.width as usize;
        (bit / 64, (bit % 64) as u32)
    }

    pub fn get(&self, slot: usize) -> u32 {
        let (word, shift) = self.locate(slot);
        let mut value = self.words[word] >> shift;
        if shift + self.width > 64 {
            value |= self.words[word + 1] << (64 - shift);
        }
        (value & self.mask()) as u32
    }

    /// Stores `value`, which must fit.
    pub fn set(&mut self, slot: usize, value: u32) {
        let (word, shift) = self.locate(slot);
        let (value, mask) = (u64::from(value), self.mask());
        debug_assert!(value <= mask, "{value} in {} bits", self.width);
        self.words[word] = self.words[word] & !(mask << shift) | value << shift;
        if shift + self.width > 64 {
            let next = &mut self.words[word + 1];
            *next = *next & !(mask >> (64 - shift)) | value >> (64 - shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_every_width_keep_their_values_apart() {
        for width in 1..=32 {
            let mut slots = Packed::new(width, 200).unwrap();
            let value = |i: usize, round: u64| {
                (super::super::shared::mix(i as u64, round) & ((1 << width) - 1)) as u32
            };
            for round in 0..3 {
                (0..200).for_each(|i| slots.set(i, value(i, round)));
                assert!((0..200).all(|i| slots.get(i) == value(i, round)), "width {width}");
            }
        }
    }
}
