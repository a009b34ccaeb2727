//! The properties of a new table. RocksDB's tools read them too, and check some of them.

use std::collections::BTreeMap;

use crate::encoding::coding::put_varint;
use crate::table::filter::prefix::FilterKeys;
use crate::table::format::footer::WRITTEN_VERSION;
use crate::table::format::properties::{
    BYTEWISE_COMPARATOR, TWO_LEVEL_INDEX, UNKNOWN_COLUMN_FAMILY, names,
};
use crate::table::garbage::Garbage;
use crate::table::options::Dialect;

use super::TableBuilder;
use super::cuts::WrittenIndex;

/// The number of RocksDB's default column family. RocksDB's repair puts a table with this number
/// into that column family.
const DEFAULT_COLUMN_FAMILY: u32 = 0;
const DEFAULT_COLUMN_FAMILY_NAME: &str = "default";

pub(super) fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, value);
    out
}

impl TableBuilder {
    /// The names and values of all properties. Call this when everything that precedes the
    /// properties in the file is written.
    pub(super) fn properties(
        &self,
        data_bytes: u64,
        index: &WrittenIndex,
    ) -> BTreeMap<&'static str, Vec<u8>> {
        let summary = &self.summary;
        let mut properties = BTreeMap::new();
        let mut put = |name, value: Vec<u8>| drop(properties.insert(name, value));
        put(names::COMPARATOR, BYTEWISE_COMPARATOR.into());
        put(names::COMPRESSION, self.options.compression.name().into());
        put(names::MERGE_OPERATOR, "nullptr".into());
        put(names::PROPERTY_COLLECTORS, "[]".into());
        put(names::ENTRIES, varint(summary.entries));
        put(names::DELETIONS, varint(summary.deletions));
        put(names::MERGE_OPERANDS, varint(0));
        put(names::RANGE_DELETIONS, varint(summary.range_deletions));
        put(names::DATA_BLOCKS, varint(summary.data_blocks));
        put(names::DATA_BYTES, varint(data_bytes));
        put(names::INDEX_BYTES, varint(index.bytes));
        let mut index_type = 0u32;
        if index.parts > 0 {
            index_type = TWO_LEVEL_INDEX;
            put(names::INDEX_PARTS, varint(index.parts as u64));
            put(names::INDEX_TOP_BYTES, varint(index.top_bytes));
        }
        put(names::INDEX_TYPE, index_type.to_le_bytes().into());
        put(names::RAW_KEY_BYTES, varint(summary.raw_key_bytes));
        put(names::RAW_VALUE_BYTES, varint(summary.raw_value_bytes));
        put(names::FORMAT_VERSION, varint(WRITTEN_VERSION.into()));
        put(names::FIXED_KEY_LENGTH, varint(0));
        put(names::INDEX_KEY_IS_USER_KEY, varint((!self.index.splits_a_user_key()).into()));
        put(names::INDEX_VALUE_IS_DELTA_ENCODED, varint(1));
        put(names::SMALLEST_SEQUENCE, varint(summary.smallest_sequence));
        put(names::LARGEST_SEQUENCE, varint(summary.largest_sequence));
        put(names::TAIL_START, varint(data_bytes));
        self.identity_properties().into_iter().for_each(|(name, value)| put(name, value));
        match self.dialect {
            Dialect::Database { .. } => {
                let keyspace = self.creator.as_ref().and_then(|creator| creator.keyspace.clone());
                let (id, name) =
                    keyspace.unwrap_or((DEFAULT_COLUMN_FAMILY, DEFAULT_COLUMN_FAMILY_NAME.into()));
                put(names::COLUMN_FAMILY_ID, varint(id.into()));
                put(names::COLUMN_FAMILY_NAME, name);
            }
            Dialect::External => {
                put(names::COLUMN_FAMILY_ID, varint(UNKNOWN_COLUMN_FAMILY));
                put(names::EXTERNAL_VERSION, 2u32.to_le_bytes().into());
                put(names::GLOBAL_SEQUENCE, 0u64.to_le_bytes().into());
            }
        }
        if summary.garbage != Garbage::default() {
            put(names::GARBAGE, summary.garbage.encode());
        }
        let of_filter = self.filter_properties().into_iter();
        properties.extend(of_filter.filter_map(|(name, value)| Some((name, value?))));
        properties
    }

    /// The properties that distinguish the table from all others, if it has a creator.
    pub(super) fn identity_properties(&self) -> Vec<(&'static str, Vec<u8>)> {
        let Some(creator) = &self.creator else { return Vec::new() };
        // A file number is unique within a session. An `SstWriter` writes only one file, and has a
        // session of its own.
        let number = match self.dialect {
            Dialect::Database { file_number } => file_number,
            Dialect::External => 1,
        };
        vec![
            (names::DB_IDENTITY, creator.db.clone().into()),
            (names::SESSION_IDENTITY, creator.session.clone().into()),
            (names::ORIGINAL_FILE_NUMBER, varint(number)),
        ]
    }

    /// The properties that describe the filter. `None` as a value: the table does not have this
    /// property.
    pub(super) fn filter_properties(&self) -> [(&'static str, Option<Vec<u8>>); 9] {
        let (whole, extractor) = match self.options.filter_keys {
            FilterKeys::Whole => ("1", None),
            FilterKeys::Prefix(extractor) => ("0", Some(extractor)),
            FilterKeys::Both(extractor) => ("1", Some(extractor)),
        };
        let text = |value: &str| Some(value.into());
        let requested = (!self.options.filter.is_none()).then_some(self.options.filter);
        let info = self.summary.filter.as_ref();
        let built = info.and_then(|info| Some((info.family?, info.predicted_fpr?)));
        let fell_back = built.filter(|_| self.summary.filter_fell_back);
        [
            (names::WHOLE_KEY_FILTERING, text(whole)),
            (names::PREFIX_FILTERING, text(if extractor.is_some() { "1" } else { "0" })),
            (names::PREFIX_EXTRACTOR, text(&extractor.map_or("nullptr".into(), |it| it.name()))),
            (names::FILTER_POLICY, built.and_then(|(family, _)| text(family.policy_name()))),
            (names::FILTER_SPEC, requested.and_then(|spec| text(&spec.to_string()))),
            (names::PREDICTED_FPR, built.and_then(|(_, fpr)| text(&format!("{fpr:e}")))),
            (names::FILTER_FALLBACK, fell_back.and_then(|(family, _)| text(family.name()))),
            (names::FILTER_ENTRIES, Some(varint(info.map_or(0, |info| info.keys)))),
            (names::FILTER_BYTES, Some(varint(info.map_or(0, |info| info.bytes)))),
        ]
    }
}
