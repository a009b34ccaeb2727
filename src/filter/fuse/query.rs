//! The reader: is the exclusive or of a key's three slots its fingerprint?
//!
//! The first slot follows from one product of the hash, the other two and the fingerprint from
//! another. Neither waits for the other, and the three slots are read at the same time: up to three
//! cache lines, and a segment of a filter of a million keys has 8,192 slots, so that they are three
//! nearly always.

use super::build::read;
use super::layout::{Layout, Place, first_slot, place, seed};
use super::{plain, sizing};
use crate::filter::anatomy::trace::QueryTrace;
use crate::filter::family::KeyHash;
use crate::filter::geometry::Geometry;
use crate::memory::LineBuf;

/// The numbers of a stored filter.
#[derive(Clone, Copy)]
pub struct FuseGeometry {
    first_slots: u32,
    seed_number: u8,
    log2_slots: u8,
    bits: u8,
}

impl FuseGeometry {
    #[inline(always)]
    fn place(&self, hash: KeyHash, first: u32) -> Place {
        place(hash, seed(self.seed_number.into()), first, self.log2_slots.into())
    }
}

impl Geometry for FuseGeometry {
    fn parse(block: &LineBuf) -> Result<FuseGeometry, &'static str> {
        let (layout, seed_number) = Layout::parse(block)?;
        Ok(FuseGeometry {
            first_slots: layout.first_slots(),
            seed_number: seed_number as u8,
            log2_slots: layout.log2_slots as u8,
            bits: layout.bits as u8,
        })
    }

    #[inline]
    fn prepare(&self, block: &LineBuf, hash: KeyHash) -> u32 {
        let first = first_slot(hash, self.first_slots);
        for slot in self.place(hash, first).slots {
            block.prefetch((u64::from(slot) * u64::from(self.bits) / 8) as usize);
        }
        first
    }

    #[inline]
    fn finish(&self, block: &LineBuf, hash: KeyHash, first: u32) -> bool {
        let Place { slots: [a, b, c], fingerprint } = self.place(hash, first);
        let bits = u32::from(self.bits);
        let found = read(block, a, bits) ^ read(block, b, bits) ^ read(block, c, bits);
        (found ^ fingerprint) & ((1 << bits) - 1) == 0
    }

    #[inline]
    fn may_contain(&self, block: &LineBuf, hash: KeyHash) -> bool {
        self.finish(block, hash, first_slot(hash, self.first_slots))
    }

    /// Exact, however many keys there are: slots that no key needs are 0, and a fingerprint is random.
    fn predicted_fpr(&self, _block: &LineBuf, _keys: u64) -> f64 {
        sizing::rate(self.bits.into())
    }

    fn trace(&self, block: &LineBuf, hash: KeyHash) -> QueryTrace {
        plain::trace(block, hash).unwrap_or_else(QueryTrace::Untrusted)
    }
}
