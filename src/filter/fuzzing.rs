//! Makes any bytes a filter that its reader believes, so that a fuzzer gets past the trailer.

use super::family::Family;
use super::{bloom, burr, ribbon};

/// Filters are cut to whole lines.
const LINE_BYTES: usize = 64;
const TRAILER_BYTES: usize = 5;

/// Gives `block` the trailer of a filter of `family` and cuts it to a size that fits. Fields of the
/// trailer that can be believed are kept.
pub(crate) fn repair(family: Family, block: &mut Vec<u8>) {
    if let Family::Burr = family {
        return burr::layout::repair(block);
    }
    let Some(payload_bytes) = block.len().checked_sub(TRAILER_BYTES) else { return };
    let mut trailer = [0; TRAILER_BYTES];
    trailer.copy_from_slice(&block[payload_bytes..]);
    block.truncate(payload_bytes / LINE_BYTES * LINE_BYTES);
    let lines = block.len() / LINE_BYTES;
    match family {
        Family::Bloom => trailer = [bloom::layout::MARKER, 0, trailer[2] % 31, 0, 0],
        Family::LegacyBloom => {
            trailer[0] %= 0x80;
            trailer[1..].copy_from_slice(&(lines as u32).to_le_bytes());
        }
        _ => {
            // Columns follow from blocks and length: up to 32 of 16 bytes in each block.
            let blocks = lines * 4 / (1 + trailer[2] as usize % 32);
            trailer[0] = ribbon::layout::MARKER;
            trailer[2..].copy_from_slice(&blocks.to_le_bytes()[..3]);
        }
    }
    block.extend(trailer);
}
