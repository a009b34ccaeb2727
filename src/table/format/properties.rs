//! The properties block: what a table says about itself.
//!
//! It is an ordinary block of names and values. Nothing in the file says how a value is encoded, so
//! this module decides by the name: fixed32, fixed64, varint or text.
//!
//! Only the index type must be present, and not even that in tables of LevelDB's format. Every
//! other property has a default. The properties that decide how the file is read are:
//!
//! ```text
//! PROPERTY                                DECIDES                              ABSENT
//! INDEX_TYPE                              one or two levels, first keys        damage
//! INDEX_KEY_IS_USER_KEY                   what separators are                  internal keys
//! INDEX_VALUE_IS_DELTA_ENCODED            how handles are stored               whole, with a length
//! WHOLE_KEY_FILTERING, PREFIX_FILTERING   what the filter holds                both
//! PREFIX_EXTRACTOR                        how the filter's prefixes were cut   no prefix queries
//! COMPARATOR                              the order of the keys                bytewise
//! EXTERNAL_VERSION, GLOBAL_SEQUENCE       the sequence number of all entries   each has its own
//! RANGE_DELETIONS                         how many ranges must be found        not checked
//! SEPARATED                               whether data blocks are of a form    no
//!                                         that is not read
//! ```
//!
//! RocksDB picks its decompressor by the property `rocksdb.compression`; Maypole picks it by the
//! type in each block's trailer. From format_version 7 on, the property also names the compression
//! manager, the code that has compressed the blocks, which a program may replace: in
//! `BuiltinV2;04;`, `BuiltinV2` is the manager, and `04` the only type of the blocks. A table whose
//! blocks were compressed by a manager other than RocksDB's own is rejected.
//! `rocksdb.format.version` decides nothing, because old files state 0 there whatever the
//! format_version in the footer is.
//!
//! This file is long because the name and the decoding of each property belong together.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use super::compression::read::{Codec, types_in};
use super::identity::{TableIdentity, table_identity};
use crate::encoding::coding::{Decoder, fixed32, fixed64, put_length_prefixed, varint};
use crate::error::Damage;
use crate::memory::LineBuf;

use super::limits::KeyBytes;
use crate::table::block::Block;
use crate::table::block::payload::BlockBytes;
use crate::table::filter::prefix::{FilterKeys, PrefixExtractor};

/// The names that this crate reads or writes. Most are RocksDB's, so that its tools understand
/// them.
pub(crate) mod names {
    /// Each name, and [`KNOWN`], which has all of them.
    macro_rules! names {
        ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
            $($(#[$doc])* pub const $name: &str = $text;)*
            pub const KNOWN: &[&str] = &[$($name),*];
        };
    }

    names! {
        INDEX_TYPE = "rocksdb.block.based.table.index.type",
        INDEX_KEY_IS_USER_KEY = "rocksdb.index.key.is.user.key",
        INDEX_VALUE_IS_DELTA_ENCODED = "rocksdb.index.value.is.delta.encoded",
        WHOLE_KEY_FILTERING = "rocksdb.block.based.table.whole.key.filtering",
        PREFIX_FILTERING = "rocksdb.block.based.table.prefix.filtering",
        PREFIX_EXTRACTOR = "rocksdb.prefix.extractor.name",
        DECOUPLED_FILTER_PARTS = "rocksdb.block.based.table.decoupled.partitioned.filters",
        COMPARATOR = "rocksdb.comparator",
        COMPRESSION = "rocksdb.compression",
        FILTER_POLICY = "rocksdb.filter.policy",
        MERGE_OPERATOR = "rocksdb.merge.operator",
        PROPERTY_COLLECTORS = "rocksdb.property.collectors",
        ENTRIES = "rocksdb.num.entries",
        DELETIONS = "rocksdb.deleted.keys",
        MERGE_OPERANDS = "rocksdb.merge.operands",
        RANGE_DELETIONS = "rocksdb.num.range-deletions",
        FILTER_ENTRIES = "rocksdb.num.filter_entries",
        DATA_BLOCKS = "rocksdb.num.data.blocks",
        RAW_KEY_BYTES = "rocksdb.raw.key.size",
        RAW_VALUE_BYTES = "rocksdb.raw.value.size",
        DATA_BYTES = "rocksdb.data.size",
        INDEX_BYTES = "rocksdb.index.size",
        INDEX_PARTS = "rocksdb.index.partitions",
        INDEX_TOP_BYTES = "rocksdb.top-level.index.size",
        FILTER_BYTES = "rocksdb.filter.size",
        FORMAT_VERSION = "rocksdb.format.version",
        FIXED_KEY_LENGTH = "rocksdb.fixed.key.length",
        COLUMN_FAMILY_ID = "rocksdb.column.family.id",
        COLUMN_FAMILY_NAME = "rocksdb.column.family.name",
        SMALLEST_SEQUENCE = "rocksdb.key.smallest.seqno",
        LARGEST_SEQUENCE = "rocksdb.key.largest.seqno",
        CREATION_TIME = "rocksdb.creation.time",
        TAIL_START = "rocksdb.tail.start.offset",
        ORIGINAL_FILE_NUMBER = "rocksdb.original.file.number",
        DB_IDENTITY = "rocksdb.creating.db.identity",
        SESSION_IDENTITY = "rocksdb.creating.session.identity",
        EXTERNAL_VERSION = "rocksdb.external_sst_file.version",
        SEPARATED = "rocksdb.separate.key.value.in.data.block",
        GLOBAL_SEQUENCE = "rocksdb.external_sst_file.global_seqno",
        /// Maypole's own: the false-positive rate to expect of the filter, as text.
        PREDICTED_FPR = "maypole.filter.predicted.fpr",
        /// Maypole's own: the specification of the filter that was requested, even if there was
        /// nothing to store. Absent if no filter was requested.
        FILTER_SPEC = "maypole.filter.spec",
        /// Maypole's own: the family that was built instead of the requested one. Absent if the
        /// requested family was built.
        FILTER_FALLBACK = "maypole.filter.fallback",
        /// Maypole's own: counts of the entries that may become droppable
        /// ([`crate::table::garbage`]).
        GARBAGE = "maypole.garbage",
    }
}

/// The index type of an index in parts.
pub(crate) const TWO_LEVEL_INDEX: u32 = 2;

/// RocksDB's id for an unknown column family. Any column family can ingest a table with this id.
pub(crate) const UNKNOWN_COLUMN_FAMILY: u64 = 0x7fff_ffff;

/// This crate's comparator, and RocksDB's default: plain byte order.
pub(crate) const BYTEWISE_COMPARATOR: &str = "leveldb.BytewiseComparator";

/// Names of other comparators with the same order. `RocksDB_SE_v3.10` is a comparator of MyRocks.
const BYTEWISE_EQUALS: [&str; 1] = ["RocksDB_SE_v3.10"];

/// Tables of RocksDB 4 have this before the name of the comparator.
const OF_INTERNAL_KEYS: &str = "rocksdb.InternalKeyComparator:";

/// The names of RocksDB's own compression managers, in tables of format_version 7.
const BUILT_IN_COMPRESSION: [&str; 2] = ["BuiltinV1", "BuiltinV2"];

/// The name of the comparator of user keys that a table states, as a MANIFEST would have it.
pub(crate) fn user_comparator(stated: &str) -> &str {
    stated.strip_prefix(OF_INTERNAL_KEYS).unwrap_or(stated)
}

/// Whether the comparator of this name orders keys as bytes.
pub(crate) fn is_bytewise(comparator: &str) -> bool {
    comparator == BYTEWISE_COMPARATOR || BYTEWISE_EQUALS.contains(&comparator)
}

/// A property, decoded as its name requires.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// let table = maypole::table::SstReader::open(&path)?;
/// let entries = table.properties().get("rocksdb.num.entries");
/// assert_eq!(entries, Some(maypole::table::PropertyValue::Number(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PropertyValue<'a> {
    /// A number. It may be stored as fixed32, fixed64 or varint.
    Number(u64),
    /// Text.
    Text(&'a str),
    /// Bytes that decode neither as a number nor as printable text.
    Bytes(&'a [u8]),
}

impl fmt::Display for PropertyValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PropertyValue::Number(number) => write!(f, "{number}"),
            PropertyValue::Text(text) => write!(f, "{text}"),
            PropertyValue::Bytes(bytes) => {
                write!(f, "0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
        }
    }
}

/// The properties of a table, by name.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// let table = maypole::table::SstReader::open(&path)?;
/// let properties = table.properties();
/// assert_eq!(properties.text("rocksdb.comparator"), Some("leveldb.BytewiseComparator"));
/// assert_eq!(properties.entries(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct TableProperties {
    /// In the order of their names. Every open table keeps them, and the names alone would take a
    /// kilobyte. So a property begins with a byte: the place of its name in [`names::KNOWN`], or
    /// [`OTHER_NAME`], which the name follows with its length before it. Then follows the value, with
    /// its length before it.
    bytes: Box<[u8]>,
}

const OTHER_NAME: u8 = u8::MAX;
const _: () = assert!(names::KNOWN.len() <= OTHER_NAME as usize);

impl TableProperties {
    /// Decodes the properties block of a table file that has `file_bytes` bytes.
    pub(crate) fn decode(block: &Block, file_bytes: u64) -> Result<TableProperties, Damage> {
        let mut entries = BTreeMap::new();
        let mut scan = block.scan();
        let mut key_bytes = KeyBytes::new(file_bytes);
        while let Some((name, value)) = scan.next()? {
            key_bytes.take(name.len())?;
            entries.insert(name.to_vec(), value.to_vec());
        }
        let mut bytes = Vec::new();
        for (name, value) in entries {
            match names::KNOWN.iter().position(|known| known.as_bytes() == name) {
                Some(place) => bytes.push(place as u8),
                None => {
                    bytes.push(OTHER_NAME);
                    put_length_prefixed(&mut bytes, &name);
                }
            }
            put_length_prefixed(&mut bytes, &value);
        }
        match u32::try_from(bytes.len()) {
            Ok(_) => Ok(TableProperties { bytes: bytes.into() }),
            Err(_) => Err(Damage::new(0, "less than 4 GiB of properties", bytes.len())),
        }
    }

    /// Names and stored bytes, in the order of the names.
    pub(crate) fn raw_entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut decoder = Decoder::new(&self.bytes);
        std::iter::from_fn(move || {
            let name = match decoder.u8("a name").ok()? {
                OTHER_NAME => decoder.length_prefixed("a name").ok()?,
                place => names::KNOWN[usize::from(place)].as_bytes(),
            };
            Some((name, decoder.length_prefixed("a value").ok()?))
        })
    }

    /// Bytes of memory that the properties take.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Where the global sequence number is in `payload`, which is a properties block. RocksDB
    /// overwrites this number at ingestion, but not the checksum of the block, which is that of the
    /// block before ingestion.
    pub(crate) fn global_sequence_range(payload: &[u8]) -> Option<Range<usize>> {
        let bytes = BlockBytes::new(LineBuf::copy_from(payload), payload.len());
        let block = Block::new(bytes).ok()?;
        let mut scan = block.scan();
        while let Some((name, value)) = scan.next().ok()? {
            if name == names::GLOBAL_SEQUENCE.as_bytes() && value.len() == 8 {
                return Some(scan.value_range());
            }
        }
        None
    }

    /// The stored bytes of a property.
    pub fn raw(&self, name: &str) -> Option<&[u8]> {
        self.raw_entries().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    /// A property, decoded as its name requires.
    pub fn get(&self, name: &str) -> Option<PropertyValue<'_>> {
        self.raw(name).map(|raw| decode_value(name.as_bytes(), raw))
    }

    /// A property that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            PropertyValue::Number(number) => Some(number),
            _ => None,
        }
    }

    /// A property that is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            PropertyValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// All properties, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, PropertyValue<'_>)> {
        self.raw_entries()
            .map(|(name, raw)| (String::from_utf8_lossy(name), decode_value(name, raw)))
    }

    /// The identity that no other table has, made from the table's database, session and file
    /// number.
    pub(crate) fn identity(&self) -> Option<TableIdentity> {
        let db = self.text(names::DB_IDENTITY)?;
        let session = self.text(names::SESSION_IDENTITY)?;
        table_identity(db, session, self.number(names::ORIGINAL_FILE_NUMBER)?)
    }

    /// Whether ZSTD may have compressed some blocks, according to the property
    /// `rocksdb.compression`. True if the property is absent.
    pub(crate) fn may_use_zstd(&self) -> bool {
        let types = self.text(names::COMPRESSION).map(types_in);
        types.is_none_or(|types| types.contains(&(Codec::Zstd as u8)))
    }

    /// The name of the compression manager, if it compressed any block and is not RocksDB's own.
    /// `None` below format_version 7, where tables name no manager.
    pub(crate) fn foreign_compression(&self, format_version: u32) -> Option<&str> {
        let (manager, types) = self.text(names::COMPRESSION)?.split_once(';')?;
        let is_own = manager.is_empty() || BUILT_IN_COMPRESSION.contains(&manager);
        let is_used = !types.trim_end_matches(';').is_empty();
        (format_version >= 7 && is_used && !is_own).then_some(manager)
    }

    /// The number and the name of the table's column family, which is a keyspace. `None` for the
    /// default one and for an unknown one. Tables of different families must not be in one tree,
    /// because equal keys in two families are different keys. A table to ingest may come from another
    /// database, so only its name counts, and its number is [`UNKNOWN_COLUMN_FAMILY`].
    pub(crate) fn column_family(&self) -> Option<(u64, Vec<u8>)> {
        let number = self.number(names::COLUMN_FAMILY_ID)?;
        let name = self.raw(names::COLUMN_FAMILY_NAME).unwrap_or_default().to_owned();
        match number {
            0 | UNKNOWN_COLUMN_FAMILY => None,
            _ if self.raw(names::EXTERNAL_VERSION).is_some() => Some((UNKNOWN_COLUMN_FAMILY, name)),
            _ => Some((number, name)),
        }
    }

    /// Number of entries, range deletions included.
    pub fn entries(&self) -> u64 {
        self.number(names::ENTRIES).unwrap_or(0)
    }

    /// Whether the filter, if there is one, holds whole keys.
    pub(crate) fn whole_key_filtering(&self) -> bool {
        self.raw(names::WHOLE_KEY_FILTERING) != Some(b"0")
    }

    /// How the prefixes in the filter were cut. `None` if the filter holds no prefixes, or if this
    /// build does not know the rule.
    pub(crate) fn prefix_extractor(&self) -> Option<PrefixExtractor> {
        let stored = self.raw(names::PREFIX_FILTERING) != Some(b"0");
        let name = self.text(names::PREFIX_EXTRACTOR).filter(|_| stored)?;
        PrefixExtractor::from_name(name)
    }

    /// What the filter holds. If this build does not know how its prefixes were cut, whole keys.
    pub(crate) fn filter_keys(&self) -> FilterKeys {
        match (self.whole_key_filtering(), self.prefix_extractor()) {
            (_, None) => FilterKeys::Whole,
            (false, Some(extractor)) => FilterKeys::Prefix(extractor),
            (true, Some(extractor)) => FilterKeys::Both(extractor),
        }
    }

    /// How the index block is to be read.
    pub(crate) fn index_form(&self) -> Result<IndexForm, Damage> {
        let raw = self.raw(names::INDEX_TYPE);
        let kind = match raw {
            Some(raw) if raw.len() == 4 => fixed32(raw),
            _ => {
                return Err(Damage::new(
                    0,
                    format_args!("4 bytes of the property {}", names::INDEX_TYPE),
                    raw.map_or("none".to_string(), |raw| format!("{} bytes", raw.len())),
                ));
            }
        };
        if kind > 3 {
            return Err(Damage::new(0, "an index type from 0 to 3", kind));
        }
        Ok(IndexForm {
            two_level: kind == TWO_LEVEL_INDEX,
            first_keys: kind == 3,
            user_keys: self.flag(names::INDEX_KEY_IS_USER_KEY)?,
            delta_values: self.flag(names::INDEX_VALUE_IS_DELTA_ENCODED)?,
        })
    }

    /// A property that decides how the file is parsed. It is false if it is absent, and damage if
    /// it is neither 0 nor 1.
    fn flag(&self, name: &str) -> Result<bool, Damage> {
        match (self.raw(name), self.number(name)) {
            (None, _) => Ok(false),
            (_, Some(0)) => Ok(false),
            (_, Some(1)) => Ok(true),
            (Some(raw), _) => {
                let found = format!("{raw:02x?}");
                Err(Damage::new(0, format_args!("0 or 1 as property {name}"), found))
            }
        }
    }
}

/// How index blocks are written in one table.
///
/// The default is the form in LevelDB's tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IndexForm {
    /// The index block leads to further index blocks, not to data.
    pub two_level: bool,
    /// Each value ends with the first key of its block.
    pub first_keys: bool,
    /// Separators are user keys; else internal keys.
    pub user_keys: bool,
    /// Values have no length before them. If the separator of an entry shares a prefix with the
    /// previous separator, the entry's value is only the difference between the size of its block
    /// and that of the previous block.
    pub delta_values: bool,
}

/// Decodes a value as its name requires: fixed32 or fixed64 for a few names, text for some, varint
/// for RocksDB's other names. The value of any other name, and a value that does not decode as a
/// number, is text if it is printable, and otherwise bytes.
pub(crate) fn decode_value<'a>(name: &[u8], raw: &'a [u8]) -> PropertyValue<'a> {
    let name = std::str::from_utf8(name).unwrap_or("");
    let number = match name {
        names::INDEX_TYPE | names::EXTERNAL_VERSION => {
            (raw.len() == 4).then(|| fixed32(raw).into())
        }
        names::GLOBAL_SEQUENCE => (raw.len() == 8).then(|| fixed64(raw)),
        _ if is_text(name) || !name.starts_with("rocksdb.") => None,
        _ => varint(raw).filter(|&(_, length)| length == raw.len()).map(|(number, _)| number),
    };
    if let Some(number) = number {
        return PropertyValue::Number(number);
    }
    match std::str::from_utf8(raw) {
        Ok(text) if !text.chars().any(char::is_control) => PropertyValue::Text(text),
        _ => PropertyValue::Bytes(raw),
    }
}

fn is_text(name: &str) -> bool {
    matches!(
        name,
        names::COMPARATOR
            | names::COMPRESSION
            | names::FILTER_POLICY
            | names::MERGE_OPERATOR
            | names::PROPERTY_COLLECTORS
            | names::PREFIX_EXTRACTOR
            | names::WHOLE_KEY_FILTERING
            | names::PREFIX_FILTERING
            | names::COLUMN_FAMILY_NAME
            | names::DB_IDENTITY
            | names::SESSION_IDENTITY
            | names::DECOUPLED_FILTER_PARTS
            | "rocksdb.compression_options"
            | "rocksdb.creating.host.identity"
            | "rocksdb.sequence.number.time.map"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::block::builder::BlockBuilder;

    fn properties(pairs: &[(&str, &[u8])]) -> TableProperties {
        let mut builder = BlockBuilder::new(usize::MAX);
        for (name, value) in pairs {
            builder.add(name.as_bytes(), value);
        }
        let block = Block::new(BlockBytes::copy_from(builder.finish())).unwrap();
        TableProperties::decode(&block, 1 << 20).unwrap()
    }

    #[test]
    fn each_property_is_decoded_as_its_name_says() {
        let properties = properties(&[
            (names::INDEX_TYPE, &[2, 0, 0, 0]),
            (names::COMPARATOR, b"leveldb.BytewiseComparator"),
            (names::GLOBAL_SEQUENCE, &[9, 0, 0, 0, 0, 0, 0, 0]),
            (names::ENTRIES, &[0xac, 0x02]),
            ("rocksdb.whatever.comes.later", &[0x80]),
            ("user.text", b"1"),
        ]);
        assert_eq!(properties.number(names::INDEX_TYPE), Some(2));
        assert_eq!(properties.number(names::GLOBAL_SEQUENCE), Some(9));
        assert_eq!(properties.entries(), 300);
        assert_eq!(properties.text(names::COMPARATOR), Some(BYTEWISE_COMPARATOR));
        assert_eq!(properties.text("user.text"), Some("1"));
        let odd = properties.get("rocksdb.whatever.comes.later").unwrap();
        assert_eq!(odd, PropertyValue::Bytes(&[0x80]));
        assert_eq!(odd.to_string(), "0x80");
        let names: Vec<_> = properties.iter().map(|(name, _)| name).collect();
        let of_rocksdb =
            [names::INDEX_TYPE, names::COMPARATOR, names::GLOBAL_SEQUENCE, names::ENTRIES];
        let mut expected = of_rocksdb.to_vec();
        expected.extend(["rocksdb.whatever.comes.later", "user.text"]);
        expected.sort();
        assert_eq!(names, expected);
    }

    #[test]
    fn the_compression_of_another_program_is_named() {
        let of = |text: &[u8]| properties(&[(names::COMPRESSION, text)]);
        for (text, version, manager) in [
            (&b"BuiltinV2;0407;"[..], 7, None),
            (b";;", 7, None),
            (b"Own;;", 7, None),
            (b"Own;81;", 7, Some("Own")),
            (b"Own;04;", 7, Some("Own")),
            (b"LZ4", 7, None),
            (b"Own;81;", 6, None),
        ] {
            assert_eq!(of(text).foreign_compression(version), manager, "{}", text.escape_ascii());
        }
        for (text, zstd) in [
            (&b"ZSTD"[..], true),
            (b"LZ4", false),
            (b"BuiltinV2;0407;", true),
            (b"BuiltinV2;04;", false),
            // The types are 80 and 70. The digits also contain 07, but across the two types.
            (b"BuiltinV2;8070;", false),
        ] {
            assert_eq!(of(text).may_use_zstd(), zstd, "{}", text.escape_ascii());
        }
        assert!(properties(&[]).may_use_zstd());
    }

    #[test]
    fn prefixes_are_asked_for_only_where_the_file_says_how_they_were_cut() {
        let fixed: &[u8] = b"rocksdb.FixedPrefix.4";
        let cut = |pairs: &[(&str, &[u8])]| properties(pairs).prefix_extractor().is_some();
        assert!(cut(&[(names::PREFIX_EXTRACTOR, fixed)]));
        assert!(cut(&[(names::PREFIX_FILTERING, b"1"), (names::PREFIX_EXTRACTOR, fixed)]));
        assert!(!cut(&[(names::PREFIX_FILTERING, b"0"), (names::PREFIX_EXTRACTOR, fixed)]));
        assert!(!cut(&[(names::PREFIX_EXTRACTOR, b"nullptr")]));
        assert!(!cut(&[(names::PREFIX_EXTRACTOR, b"my.extractor")]));
        assert!(!cut(&[(names::PREFIX_EXTRACTOR, b"rocksdb.FixedPrefix.\xff")]));
        assert!(!cut(&[(names::PREFIX_FILTERING, b"1")]));
    }

    #[test]
    fn the_index_form_has_defaults_but_no_default_type() {
        let form = properties(&[(names::INDEX_TYPE, &[0; 4])]).index_form().unwrap();
        let plain = IndexForm {
            two_level: false,
            first_keys: false,
            user_keys: false,
            delta_values: false,
        };
        assert_eq!(form, plain);
        assert!(properties(&[]).index_form().is_err());
        assert!(properties(&[(names::INDEX_TYPE, &[4, 0, 0, 0])]).index_form().is_err());
        assert!(properties(&[(names::INDEX_TYPE, &[0])]).index_form().is_err());
        let bad = &[(names::INDEX_TYPE, &[0u8; 4][..]), (names::INDEX_KEY_IS_USER_KEY, &[2])];
        assert!(properties(bad).index_form().is_err());
    }
}
