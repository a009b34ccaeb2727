//! What the families of RocksDB's encoding share to make any bytes a filter that its reader believes,
//! so that a fuzzer gets past the trailer.

use super::family::Family;

/// Filters are cut to whole lines.
const LINE_BYTES: usize = 64;
/// Bytes after the lines, in every filter of RocksDB's.
const TRAILER_BYTES: usize = 5;

/// Gives `block` the trailer of a filter of `family` and cuts it to a size that fits. Fields of the
/// trailer that can be believed are kept.
pub(crate) fn repair(family: Family, block: &mut Vec<u8>) {
    (family.info().repair)(block);
}

/// Cuts `block` to whole lines and a trailer, which `trailer_of` makes of the number of lines and of
/// the last five bytes.
pub(super) fn repair_trailer(
    block: &mut Vec<u8>,
    trailer_of: impl Fn(usize, [u8; TRAILER_BYTES]) -> [u8; TRAILER_BYTES],
) {
    let Some((payload, &trailer)) = block.split_last_chunk() else { return };
    let lines = payload.len() / LINE_BYTES;
    block.truncate(lines * LINE_BYTES);
    block.extend(trailer_of(lines, trailer));
}
