//! [`TreeOptions`]: the options of one tree, and their text in the MANIFEST.
//!
//! ```text
//! filter bloom(12)
//! filter_keys both fixed(8)        or: whole, prefix fixed(8)
//! compression lz4
//! block_bytes 4096
//! metadata auto
//! memtable_bytes 16777216
//! table_bytes 67108864
//! level_base_bytes 67108864
//! max_deletion_seconds 2592000
//! ```
//!
//! The options of keyspace 0 are those of the opening and are stored nowhere. Those of other
//! keyspaces are stored, because their trees are compacted before anybody opens them. A line of an
//! unknown name is of a later version and is passed over; what is missing has its default.

use std::time::Duration;

use crate::compaction::TreeShape;
use crate::error::{Error, Result};
use crate::filter_policy::FilterPolicy;
use crate::table::{Compression, FilterKeys, MetadataForm, TableOptions};

/// The options of one tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TreeOptions {
    pub filter: FilterPolicy,
    /// How tables are written. Their filter is not used: `filter` gives each table its own.
    pub tables: TableOptions,
    pub memtable_bytes: usize,
    pub shape: TreeShape,
    pub max_deletion_age: Duration,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions {
            filter: FilterPolicy::default(),
            tables: TableOptions::default(),
            memtable_bytes: 16 << 20,
            shape: TreeShape {
                l0_trigger: 4,
                level_base_bytes: 64 << 20,
                level_multiplier: 10,
                table_bytes: 64 << 20,
                memtable_bytes: 16 << 20,
            },
            max_deletion_age: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}

const METADATA: [(&str, MetadataForm); 3] =
    [("auto", MetadataForm::Auto), ("whole", MetadataForm::Whole), ("parts", MetadataForm::Parts)];

impl TreeOptions {
    /// Checks that each number is in its range.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`], which names the option.
    pub fn check(&self) -> Result<()> {
        check_ranges(&[
            ("block_bytes", self.tables.block_bytes as u64, 64, 16 << 20),
            ("memtable_bytes", self.memtable_bytes as u64, 4096, 2 << 30),
            ("table_bytes", self.shape.table_bytes, 4096, 1 << 40),
            ("level_base_bytes", self.shape.level_base_bytes, 4096, 1 << 50),
        ])
    }

    pub fn set_memtable_bytes(&mut self, bytes: usize) {
        self.memtable_bytes = bytes;
        self.shape.memtable_bytes = bytes as u64;
    }

    pub fn to_text(&self) -> String {
        let filter_keys = match self.tables.filter_keys {
            FilterKeys::Whole => "whole".to_string(),
            FilterKeys::Prefix(extractor) => format!("prefix {extractor}"),
            FilterKeys::Both(extractor) => format!("both {extractor}"),
        };
        let metadata = METADATA.iter().find(|(_, form)| *form == self.tables.metadata);
        [
            ("filter", self.filter.to_string()),
            ("filter_keys", filter_keys),
            ("compression", self.tables.compression.name().to_string()),
            ("block_bytes", self.tables.block_bytes.to_string()),
            ("metadata", metadata.map_or("auto", |(name, _)| *name).to_string()),
            ("memtable_bytes", self.memtable_bytes.to_string()),
            ("table_bytes", self.shape.table_bytes.to_string()),
            ("level_base_bytes", self.shape.level_base_bytes.to_string()),
            ("max_deletion_seconds", self.max_deletion_age.as_secs().to_string()),
        ]
        .iter()
        .map(|(name, value)| format!("{name} {value}\n"))
        .collect()
    }

    /// Reads what [`TreeOptions::to_text`] has written.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`], which names the line that makes no sense, or whose value is out of
    /// its range.
    pub fn of_text(text: &str) -> Result<TreeOptions> {
        let mut options = TreeOptions::default();
        for line in text.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            options.set(name, value).ok_or_else(|| {
                Error::InvalidArgument(format!("an option of a keyspace makes no sense: {line}"))
            })?;
        }
        options.check()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "filter" => self.filter = value.parse().ok()?,
            "filter_keys" => {
                self.tables.filter_keys = match value.split_once(' ') {
                    None if value == "whole" => FilterKeys::Whole,
                    Some(("prefix", extractor)) => FilterKeys::Prefix(extractor.parse().ok()?),
                    Some(("both", extractor)) => FilterKeys::Both(extractor.parse().ok()?),
                    _ => return None,
                };
            }
            "compression" => {
                let mut all = Compression::ALL.into_iter();
                self.tables.compression = all.find(|codec| codec.name() == value)?;
            }
            "metadata" => {
                self.tables.metadata = METADATA.iter().find(|(name, _)| *name == value)?.1;
            }
            "block_bytes" => self.tables.block_bytes = value.parse().ok()?,
            "memtable_bytes" => self.set_memtable_bytes(value.parse().ok()?),
            "table_bytes" => self.shape.table_bytes = value.parse().ok()?,
            "level_base_bytes" => self.shape.level_base_bytes = value.parse().ok()?,
            "max_deletion_seconds" => {
                self.max_deletion_age = Duration::from_secs(value.parse().ok()?);
            }
            _ => {}
        }
        Some(())
    }
}

/// Checks that each value is from its least to its most: name, value, least, most.
pub(crate) fn check_ranges(ranges: &[(&str, u64, u64, u64)]) -> Result<()> {
    for (name, value, least, most) in ranges {
        if !(least..=most).contains(&value) {
            return Err(Error::InvalidArgument(format!(
                "{name} must be between {least} and {most}, not {value}"
            )));
        }
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::table::PrefixExtractor;

    #[test]
    fn options_are_the_same_after_their_text() {
        let default = TreeOptions::default();
        let mut other = TreeOptions {
            filter: "learned(64MiB, burr)".parse().unwrap(),
            max_deletion_age: Duration::from_secs(7),
            ..default.clone()
        };
        other.tables.filter_keys = FilterKeys::Both(PrefixExtractor::delimiter(b'/', 2).unwrap());
        other.tables.compression = Compression::None;
        other.tables.metadata = MetadataForm::Parts;
        other.set_memtable_bytes(1 << 16);
        for options in [default.clone(), other] {
            assert_eq!(TreeOptions::of_text(&options.to_text()).unwrap(), options);
        }
        assert_eq!(TreeOptions::of_text("of_later 7\n").unwrap(), default);
    }

    #[test]
    fn senseless_options_are_refused_by_name() {
        for line in ["filter blom(7)", "block_bytes 0", "filter_keys half", "compression lzma"] {
            let error = TreeOptions::of_text(line).unwrap_err().to_string();
            assert!(error.contains(line.split(' ').next().unwrap()), "{error}");
        }
    }
}
