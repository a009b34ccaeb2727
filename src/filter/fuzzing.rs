//! Makes any bytes a filter that its reader believes, so that a fuzzer gets past the trailer.

use super::family::Family;

/// Gives `block` the trailer of a filter of `family` and cuts it to a size that fits. Fields of the
/// trailer that can be believed are kept.
pub(crate) fn repair(family: Family, block: &mut Vec<u8>) {
    (family.info().repair)(block);
}
