//! The reader: it tests whether the exclusive or of a key's three slots is its fingerprint.
//!
//! One product of the hash gives the first slot. Another product gives the fingerprint, and the two
//! numbers that lead from the first slot to the other two. The processor computes both products at
//! the same time, and then reads the three slots at the same time. The slots are nearly always on
//! three cache lines, because segments are long: 8,192 slots in a filter of a million keys.

use super::build::read;
use super::layout::{Layout, Place, first_slot, place, seed};
use super::{reference, sizing};
use crate::family::KeyHash;
use crate::geometry::{BATCH, Geometry};
use crate::inspect::trace::QueryTrace;
use crate::memory::LineBuf;

/// The parameters of a stored filter.
#[derive(Clone, Copy)]
pub struct FuseGeometry {
    /// The value of the seed in two halves, so that a geometry needs no alignment of 8 bytes.
    seed: [u32; 2],
    first_slots: u32,
    log2_slots: u8,
    bits: u8,
}

impl FuseGeometry {
    #[inline(always)]
    fn place(&self, hash: KeyHash, first: u32) -> Place {
        let [low, high] = self.seed.map(u64::from);
        place(hash, high << 32 | low, first, self.log2_slots.into())
    }

    #[inline(always)]
    fn fetch(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let first = first_slot(hash, self.first_slots);
        for slot in self.place(hash, first).slots {
            block.prefetch((u64::from(slot) * u64::from(self.bits) / 8) as usize);
        }
        first
    }

    #[inline(always)]
    fn ask(&self, block: &[u8], hash: KeyHash, first: u32) -> bool {
        let Place { slots: [a, b, c], fingerprint } = self.place(hash, first);
        let bits = u32::from(self.bits);
        let found = read(block, a, bits) ^ read(block, b, bits) ^ read(block, c, bits);
        (found ^ fingerprint) & ((1 << bits) - 1) == 0
    }
}

impl Geometry for FuseGeometry {
    fn parse(block: &LineBuf) -> Result<FuseGeometry, &'static str> {
        let (layout, seed_number) = Layout::parse(block)?;
        let seed = seed(seed_number);
        Ok(FuseGeometry {
            seed: [seed as u32, (seed >> 32) as u32],
            first_slots: layout.first_slots(),
            log2_slots: layout.log2_slots as u8,
            bits: layout.bits as u8,
        })
    }

    // The next three functions are never inlined. The reader's functions that call them serve all
    // families but Bloom (`reader.rs`), and inlined code would take registers from the other
    // families there.

    #[inline(never)]
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        self.fetch(block, hash)
    }

    #[inline(never)]
    fn finish(&self, block: &LineBuf, hash: KeyHash, first: u32) -> bool {
        self.ask(block, hash, first)
    }

    #[inline(never)]
    fn may_contain(&self, block: &LineBuf, hash: KeyHash) -> bool {
        self.ask(block, hash, first_slot(hash, self.first_slots))
    }

    fn may_contain_many(&self, block: &LineBuf, hashes: &[KeyHash], answers: &mut [bool]) {
        for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let mut firsts = [0; BATCH];
            for (first, &hash) in firsts.iter_mut().zip(hashes) {
                *first = self.fetch(block, hash);
            }
            for ((answer, &hash), &first) in answers.iter_mut().zip(hashes).zip(&firsts) {
                *answer = self.ask(block, hash, first);
            }
        }
    }

    /// The rate is exact for any number of keys, because an absent key's fingerprint is random and
    /// independent of the key's slots.
    fn predicted_fpr(&self, _block: &LineBuf, _keys: u64) -> f64 {
        sizing::rate(self.bits.into())
    }

    fn trace(&self, block: &LineBuf, hash: KeyHash) -> QueryTrace {
        reference::trace(block, hash).unwrap_or_else(QueryTrace::Untrusted)
    }
}
