//! The properties of a new table. RocksDB's tools read them too, and check some of them.

use std::collections::BTreeMap;

use crate::encoding::coding::{put_fixed32, put_fixed64, put_varint};
use crate::table::filter::prefix::FilterKeys;
use crate::table::format::footer::WRITTEN_VERSION;
use crate::table::format::properties::{BYTEWISE_COMPARATOR, TWO_LEVEL_INDEX, names};
use crate::table::garbage::Garbage;
use crate::table::options::Dialect;

use super::TableBuilder;
use super::cuts::WrittenIndex;

/// RocksDB's id for an unknown column family. Any column family can ingest a table with this id.
const UNKNOWN_COLUMN_FAMILY: u64 = 0x7fff_ffff;
/// The column family that RocksDB's repair puts a table into.
const DEFAULT_COLUMN_FAMILY: u64 = 0;
const DEFAULT_COLUMN_FAMILY_NAME: &str = "default";

impl TableBuilder {
    /// All names and values. Call it once everything before the properties is written.
    pub(super) fn properties(
        &self,
        data_bytes: u64,
        index: &WrittenIndex,
    ) -> BTreeMap<&'static str, Vec<u8>> {
        let summary = &self.summary;
        let mut properties = BTreeMap::new();
        let mut text = |name, value: &str| properties.insert(name, value.as_bytes().to_vec());
        text(names::COMPARATOR, BYTEWISE_COMPARATOR);
        text(names::COMPRESSION, self.options.compression.name());
        text(names::MERGE_OPERATOR, "nullptr");
        text(names::PROPERTY_COLLECTORS, "[]");
        if let Some(creator) = &self.creator {
            text(names::DB_IDENTITY, &creator.db);
            text(names::SESSION_IDENTITY, &creator.session);
        }
        let mut number = |name, value| {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            properties.insert(name, out);
        };
        number(names::ENTRIES, summary.entries);
        number(names::DELETIONS, summary.deletions);
        number(names::MERGE_OPERANDS, 0);
        number(names::RANGE_DELETIONS, summary.range_deletions);
        number(names::DATA_BLOCKS, summary.data_blocks);
        number(names::DATA_BYTES, data_bytes);
        number(names::INDEX_BYTES, index.bytes);
        if index.parts > 0 {
            number(names::INDEX_PARTS, index.parts as u64);
            number(names::INDEX_TOP_BYTES, index.top_bytes);
        }
        number(names::RAW_KEY_BYTES, summary.raw_key_bytes);
        number(names::RAW_VALUE_BYTES, summary.raw_value_bytes);
        number(names::FORMAT_VERSION, WRITTEN_VERSION.into());
        number(names::FIXED_KEY_LENGTH, 0);
        let column_family = match self.dialect {
            Dialect::Database { .. } => DEFAULT_COLUMN_FAMILY,
            Dialect::External => UNKNOWN_COLUMN_FAMILY,
        };
        number(names::COLUMN_FAMILY_ID, column_family);
        number(names::INDEX_KEY_IS_USER_KEY, (!self.index.splits_a_user_key()).into());
        number(names::INDEX_VALUE_IS_DELTA_ENCODED, 1);
        number(names::SMALLEST_SEQUENCE, summary.smallest_sequence);
        number(names::LARGEST_SEQUENCE, summary.largest_sequence);
        number(names::TAIL_START, data_bytes);
        match (self.dialect, &self.creator) {
            (Dialect::Database { file_number }, _) => {
                number(names::ORIGINAL_FILE_NUMBER, file_number);
            }
            // The session is that of one `SstWriter`, which writes only one file: number 1.
            (Dialect::External, Some(_)) => number(names::ORIGINAL_FILE_NUMBER, 1),
            (Dialect::External, None) => {}
        }
        let mut out = Vec::new();
        put_fixed32(&mut out, if index.parts > 0 { TWO_LEVEL_INDEX } else { 0 });
        properties.insert(names::INDEX_TYPE, out);
        if summary.garbage != Garbage::default() {
            properties.insert(names::GARBAGE, summary.garbage.encode());
        }
        if let Dialect::Database { .. } = self.dialect {
            let name = DEFAULT_COLUMN_FAMILY_NAME.as_bytes().to_vec();
            properties.insert(names::COLUMN_FAMILY_NAME, name);
        }
        if self.dialect == Dialect::External {
            let (mut version, mut sequence) = (Vec::new(), Vec::new());
            put_fixed32(&mut version, 2);
            put_fixed64(&mut sequence, 0);
            properties.insert(names::EXTERNAL_VERSION, version);
            properties.insert(names::GLOBAL_SEQUENCE, sequence);
        }
        let of_filter = self.filter_properties().into_iter();
        properties.extend(of_filter.filter_map(|(name, value)| Some((name, value?))));
        properties
    }

    /// The properties that describe the filter. `None` as a value: the table does not have this
    /// property.
    pub(super) fn filter_properties(&self) -> [(&'static str, Option<Vec<u8>>); 9] {
        let (whole, extractor) = match self.options.filter_keys {
            FilterKeys::Whole => ("1", None),
            FilterKeys::Prefix(extractor) => ("0", Some(extractor)),
            FilterKeys::Both(extractor) => ("1", Some(extractor)),
        };
        let text = |value: &str| Some(value.as_bytes().to_vec());
        let number = |value: u64| {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            Some(out)
        };
        let info = self.summary.filter.as_ref();
        let built = info.and_then(|info| Some((info.family?, info.predicted_fpr?)));
        let fell_back = built.filter(|_| self.summary.filter_fell_back);
        [
            (names::WHOLE_KEY_FILTERING, text(whole)),
            (names::PREFIX_FILTERING, text(if extractor.is_some() { "1" } else { "0" })),
            (names::PREFIX_EXTRACTOR, text(&extractor.map_or("nullptr".into(), |it| it.name()))),
            (names::FILTER_POLICY, built.and_then(|(family, _)| text(family.info().policy_name))),
            (names::FILTER_SPEC, built.and_then(|_| text(&self.options.filter.to_string()))),
            (names::PREDICTED_FPR, built.and_then(|(_, fpr)| text(&format!("{fpr:e}")))),
            (names::FILTER_FALLBACK, fell_back.and_then(|(family, _)| text(family.name()))),
            (names::FILTER_ENTRIES, number(info.map_or(0, |info| info.keys))),
            (names::FILTER_BYTES, number(info.map_or(0, |info| info.bytes))),
        ]
    }
}
