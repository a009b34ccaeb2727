//! Turns any bytes into a filter that its reader trusts, so that a fuzzer gets past the trailer.

use super::family::Family;

/// Gives `block` the trailer of a filter of `family` and cuts it to a size that fits. Valid fields
/// of the trailer are kept.
pub(crate) fn repair(family: Family, block: &mut Vec<u8>) {
    (family.info().repair)(block);
}
