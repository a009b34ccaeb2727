//! The table of families, in the order of reports: first the default family, and last the family
//! that is never written.
//!
//! If several families share an encoding or a policy name, a search for the encoding or the name
//! finds the first of them.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::family::{Family, FilterEncoding, SpecError};
use super::info::FamilyInfo;
use super::{bloom, burr, fuse, legacy, ribbon};

pub(crate) static FAMILIES: [&FamilyInfo; 5] =
    [&bloom::INFO, &ribbon::INFO, &burr::INFO, &fuse::INFO, &legacy::INFO];

impl Family {
    pub(crate) fn info(self) -> &'static FamilyInfo {
        let is_own = |info: &&&FamilyInfo| info.family == self;
        FAMILIES.iter().find(is_own).expect("every family is in the table")
    }

    /// The name that specs and reports use.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The encoding of the family's blocks.
    pub fn encoding(self) -> FilterEncoding {
        self.info().encoding
    }

    /// The name of the family's policy: the value of the property `rocksdb.filter.policy` of a
    /// table. Families of one policy of RocksDB share its name.
    pub fn policy_name(self) -> &'static str {
        self.info().policy_name
    }

    /// The first family with this [`Family::policy_name`].
    pub fn of_policy(name: &str) -> Option<Family> {
        FAMILIES.iter().find(|info| info.policy_name == name).map(|info| info.family)
    }

    /// The stored bits a key that a filter of very many keys takes for this false-positive rate.
    pub fn bits_for_rate(self, rate: f64) -> f64 {
        (self.info().bits_for_rate)(rate)
    }

    /// The families that can be written, in the order of reports.
    ///
    /// ```
    /// use maypole_filter::{Family, FilterSpec};
    ///
    /// for family in Family::written() {
    ///     let bits = family.default_bits_per_key().expect("it can be written");
    ///     let spec = FilterSpec::stored(bits, family)?;
    ///     assert_eq!(spec.to_string(), format!("{family}({bits})"));
    /// }
    /// # Ok::<(), maypole_filter::SpecError>(())
    /// ```
    pub fn written() -> impl Iterator<Item = Family> + Clone {
        FAMILIES.iter().filter(|info| info.limits.is_some()).map(|info| info.family)
    }

    /// The stored bits a key at which about 1 % of absent keys pass. `None` for a family that is
    /// read and never written.
    pub fn default_bits_per_key(self) -> Option<f64> {
        self.info().limits.map(|limits| limits.default_bits)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Parses the name of a family that can be written.
impl FromStr for Family {
    type Err = SpecError;

    fn from_str(name: &str) -> Result<Family, SpecError> {
        Family::written().find(|family| family.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Family::written().map(Family::name).collect();
            let (last, others) = names.split_last().expect("some family is written");
            let expected = format!("expected {} or {last}", others.join(", "));
            SpecError(format!("unknown filter family {name:?}: {expected}"))
        })
    }
}

impl FilterEncoding {
    /// The encoding of each family, and the name of a block of this encoding in a table's
    /// metaindex. A table is searched for these names in this order.
    pub fn names() -> impl Iterator<Item = (FilterEncoding, &'static str)> {
        FAMILIES.iter().map(|info| (info.encoding, info.metaindex_name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_family_once_and_one_name_for_each_encoding() {
        for (i, info) in FAMILIES.iter().enumerate() {
            for other in &FAMILIES[..i] {
                assert!(info.family != other.family && info.name != other.name);
                let same_encoding = info.encoding == other.encoding;
                assert_eq!(same_encoding, info.metaindex_name == other.metaindex_name);
            }
            let own = info.name.parse::<Family>();
            assert_eq!(own.ok(), info.limits.map(|_| info.family), "{}", info.name);
        }
    }
}
