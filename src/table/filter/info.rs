//! [`FilterInfo`]: what is known of a table's filter without a query.

use crate::filter::{Family, FilterReader};
use crate::stats::FilterCounts;

use crate::table::format::properties::{TableProperties, names};

/// What is known of a table's filter without a query.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::table::{SstWriter, TableOptions};
///
/// let mut writer = SstWriter::create(dir.path().join("fruit.sst"), TableOptions::default())?;
/// writer.put(b"apple", b"red")?;
/// let filter = writer.finish()?.filter.expect("the default is a Bloom filter");
/// assert_eq!(filter.keys, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FilterInfo {
    /// The filter's family. `None` if the file does not name a known family, or if the filter
    /// cannot be used.
    pub family: Option<Family>,
    /// Stored bytes, block trailers not counted.
    pub bytes: u64,
    /// The number of hashes in the filter, each of a key or a prefix. If the file does not state
    /// it, the number of the table's entries.
    pub keys: u64,
    /// The false-positive rate to expect, 0 to 1. `None` if only the file's properties were read
    /// and they do not state the rate, as in files of RocksDB.
    pub predicted_fpr: Option<f64>,
}

impl FilterInfo {
    /// What the properties say; the filter is not read.
    pub(crate) fn of(properties: &TableProperties) -> Option<FilterInfo> {
        let bytes = properties.number(names::FILTER_BYTES).filter(|&bytes| bytes > 0)?;
        let policy = properties.text(names::FILTER_POLICY);
        Some(FilterInfo {
            family: policy.and_then(Family::of_policy),
            bytes,
            keys: keys(properties),
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

/// How many false positives to expect of a table's filter for the queries that were counted. `None`
/// if its rate is not known.
pub(crate) fn expected_false_positives(
    filter: Option<&FilterInfo>,
    counted: FilterCounts,
) -> Option<f64> {
    match counted.absent() {
        0 => Some(0.0),
        absent => Some(filter?.predicted_fpr? * absent as f64),
    }
}

/// The number of hashes in the filter. Older files do not state it, so for them this is the number
/// of entries, which is right if keys have one version each and there are no prefixes.
pub(crate) fn keys(properties: &TableProperties) -> u64 {
    let stated = properties.number(names::FILTER_ENTRIES).filter(|&keys| keys > 0);
    stated.unwrap_or(properties.entries())
}

/// The share of the table's keys that the filter part `part` holds. The file does not state a
/// part's number of keys, so this is the part's share of the filter's bytes.
pub(crate) fn share_of_keys(part: &FilterReader, filter_bytes: u64) -> f64 {
    (part.bytes().len() as f64 / filter_bytes.max(1) as f64).min(1.0)
}

/// The false-positive rate to expect of `filter`, which is a whole filter or one part, and holds
/// `share` of the table's `keys`. For a filter in parts, the caller multiplies the rate of each
/// part by the part's share, and adds up the products.
pub(crate) fn predicted_fpr(filter: &FilterReader, keys: u64, share: f64) -> f64 {
    filter.predicted_fpr(((keys as f64 * share).round() as u64).max(1))
}
