//! The size of a filter, and the false-positive rate that is predicted for it before it is built.
//! The functions here are entry points for users. The arithmetic is in the `sizing.rs` of each
//! family, which `FamilyInfo::expected` calls. The predictions are for filters that are not
//! partitioned. There are none for legacy Bloom filters, because those are never written.
//!
//! The predicted rate of a stored filter is computed by methods named `predicted_fpr`, or is read
//! from a property of the table. The binary fuse filter's method is in `fuse/query.rs`. The other
//! places:
//!
//! ```text
//! any family            `FilterReader`, reader.rs, which calls the method of the filter's family
//! Bloom                 bloom/query.rs, by the formula in bloom/sizing.rs
//! Ribbon                `Layout`, ribbon/layout.rs
//! bumped ribbon         burr/query.rs
//! legacy Bloom          legacy.rs: Bloom's formula, and collisions of 32-bit hashes
//! a partitioned filter  `SstReader::filter` in table/sst/reader.rs: the mean of its parts' rates,
//!                       weighted by their bytes
//! what a table states   its property maypole.filter.predicted.fpr: set by
//!                       table/builder/properties.rs, read by table/filter/info.rs. `Db::stats`
//!                       uses only this property, so a table of RocksDB has no predicted rate there
//! explain               the property, else the prediction for the queried filter or part:
//!                       lookup/explain/recorder.rs
//! ```
//!
//! Filters are compared with the bound `log2(1/ε)`: no filter with false-positive rate ε can take
//! fewer bits a key (Carter et al., STOC 1978).

use super::bloom;
use super::family::{Family, Target};
use crate::math::log2;

pub use bloom::sizing::{
    bits_set_distribution, bloom_bytes, bloom_fpr, bloom_millibits_for_fpr, bloom_probes,
    cache_line_bloom_fpr, rocksdb_bloom_fpr, standard_bloom_fpr,
};

/// The fewest bits a key that any filter with rate `fpr` takes.
pub fn lower_bound_bits_per_key(fpr: f64) -> f64 {
    // Not `-log2(fpr)`, which is -0 for a rate of 1.
    0.0 - log2(fpr)
}

/// The expected false-positive rate of a filter of `family` with this many stored bits for each of
/// `keys` keys. `None` if a Bloom filter would be built instead, as for few keys, and for a family
/// that is never written.
pub fn expected_fpr(family: Family, keys: usize, millibits_per_key: u32) -> Option<f64> {
    let (_, fpr) = (family.info().expected)(keys, Target::MillibitsPerKey(millibits_per_key))?;
    Some(fpr)
}

/// The stored bits a key at which a filter of `family` with `keys` keys has at most the rate `fpr`.
/// `None` if a Bloom filter would be built instead, as for few keys, and for a family that is never
/// written.
pub fn expected_bits_per_key(family: Family, keys: usize, fpr: f64) -> Option<f64> {
    let (bits_per_key, _) = (family.info().expected)(keys, Target::Fpr(fpr))?;
    Some(bits_per_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_one_bit_for_each_halving() {
        assert_eq!(lower_bound_bits_per_key(0.125), 3.0);
        assert_eq!(format!("{:.2}", lower_bound_bits_per_key(1.0)), "0.00");
        assert!((lower_bound_bits_per_key(0.01) - 6.644).abs() < 0.001);
    }
}
