//! A [`BloomFilter`] as bytes. Stored bytes are input: they are checked, never trusted.
//!
//! ```text
//! offset  size      meaning
//! 0       4         "BLM2"; "BLM1" if the positions come from two hashes
//! 4       1         0 shared, 1 split
//! 5       1         k, the bits that a key sets, 1 to 64
//! 6       2         0
//! 8       8         bits of one array (little endian, as all that follows)
//! 16      8 a word  the bits
//! end-8   8         checksum of the words and of the 16 bytes before them
//! ```

use alloc::vec::Vec;

use super::super::shared::{Damaged, TooLarge, as_words, checksum};
use super::{BloomFilter, Layout, MAX_HASHES, Probes};

impl Probes {
    fn magic(self) -> [u8; 4] {
        match self {
            Probes::Independent => *b"BLM2",
            Probes::TwoHashes => *b"BLM1",
        }
    }
}

const HEADER_BYTES: usize = 16;

impl BloomFilter {
    /// The words of the arrays, which the scalable filter saves in pieces.
    pub(in super::super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Replaces the words of the filter by saved ones. The last word's unused bits must be 0.
    pub(in super::super) fn restore(&mut self, words: Vec<u64>) -> Result<(), Damaged> {
        if words.len() != self.words.len() {
            return Err(Damaged("the size does not fit the shape"));
        }
        let unused = self.words.len() * 64 - self.bits();
        if unused > 0 && words.last().is_some_and(|last| last.leading_zeros() < unused as u32) {
            return Err(Damaged("bits are set past the end"));
        }
        self.words = words;
        Ok(())
    }

    /// The filter as bytes, in the format of this module.
    pub fn save(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + 8 * self.words.len() + 8);
        bytes.extend(self.probes.magic());
        bytes.extend([u8::from(self.layout == Layout::Split), self.hashes as u8, 0, 0]);
        bytes.extend((self.array_bits as u64).to_le_bytes());
        self.words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(checksum(&as_words(&bytes)).to_le_bytes());
        bytes
    }

    /// Loads a saved filter. `bytes` may be any bytes: whatever size their header states, a load
    /// allocates no more than a small multiple of their length.
    ///
    /// # Errors
    ///
    /// [`Damaged`] if the bytes are not those of a saved filter.
    pub fn load(bytes: &[u8]) -> Result<BloomFilter, Damaged> {
        let (header, rest) = bytes.split_first_chunk().ok_or(Damaged("shorter than a header"))?;
        let [b'B', b'L', b'M', version, layout, hashes, 0, 0, array_bits @ ..]: &[u8;
             HEADER_BYTES] = header
        else {
            return Err(Damaged("another format"));
        };
        let probes = match version {
            b'1' => Probes::TwoHashes,
            b'2' => Probes::Independent,
            _ => return Err(Damaged("another format")),
        };
        let layout = match layout {
            0 => Layout::Shared,
            1 => Layout::Split,
            _ => return Err(Damaged("an unknown layout")),
        };
        let (hashes, array_bits) = (u32::from(*hashes), u64::from_le_bytes(*array_bits));
        let arrays = if layout == Layout::Split { u64::from(hashes) } else { 1 };
        if !(1..=MAX_HASHES).contains(&hashes) || array_bits == 0 {
            return Err(Damaged("an impossible shape"));
        }
        let bits = array_bits.checked_mul(arrays).ok_or(Damaged("an impossible shape"))?;
        if rest.len() % 8 != 0 || rest.len() as u64 / 8 != bits.div_ceil(64) + 1 {
            return Err(Damaged("the size does not fit the shape"));
        }
        let mut words = as_words(bytes);
        if words.pop().is_none_or(|sum| sum != checksum(&words)) {
            return Err(Damaged("the checksum differs"));
        }
        let filter = BloomFilter::with_probes(probes, layout, bits as usize, hashes);
        let mut filter = filter.map_err(|TooLarge| Damaged("it does not fit into memory"))?;
        filter.restore(words.split_off(HEADER_BYTES / 8))?;
        Ok(filter)
    }
}
