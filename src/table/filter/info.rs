//! [`TableFilterInfo`]: what a table says of its filter, without reading it.

use crate::filter::Family;

use crate::table::format::properties::{TableProperties, names};

/// A table's filter, as its properties describe it.
#[derive(Debug, Clone, PartialEq)]
pub struct TableFilterInfo {
    /// The family that was built, where the file says.
    pub family: Option<Family>,
    /// Stored bytes.
    pub bytes: u64,
    /// Hashes in the filter.
    pub keys: u64,
    /// The false-positive rate to expect, 0 to 1. `None` in files of RocksDB, which do not say.
    pub predicted_fpr: Option<f64>,
}

impl TableFilterInfo {
    pub(crate) fn of(properties: &TableProperties) -> Option<TableFilterInfo> {
        let bytes = properties.number(names::FILTER_BYTES).filter(|&bytes| bytes > 0)?;
        let family = match properties.text(names::FILTER_POLICY) {
            Some(BLOOM_POLICY) => Some(Family::Bloom),
            Some(RIBBON_POLICY) => Some(Family::Ribbon),
            Some(BURR_POLICY) => Some(Family::Burr),
            _ => None,
        };
        Some(TableFilterInfo {
            family,
            bytes,
            keys: properties
                .number(names::FILTER_ENTRIES)
                .filter(|&keys| keys > 0)
                .unwrap_or(properties.entries()),
            predicted_fpr: properties
                .text(names::PREDICTED_FPR)
                .and_then(|text| text.parse().ok())
                .filter(|rate| (0.0..=1.0).contains(rate)),
        })
    }

    /// Stored bits for each key.
    pub fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.keys.max(1) as f64
    }
}

const BLOOM_POLICY: &str = "bloomfilter";
const RIBBON_POLICY: &str = "ribbonfilter";
const BURR_POLICY: &str = "maypole.burr";

/// What a table written with a filter of `family` says in `rocksdb.filter.policy`.
pub(crate) fn policy_name(family: Family) -> &'static str {
    match family {
        Family::Bloom | Family::LegacyBloom => BLOOM_POLICY,
        Family::Ribbon => RIBBON_POLICY,
        Family::Burr => BURR_POLICY,
    }
}
