//! Step 17: your own policy. The filters get bits by what they are asked.

use std::io;

use super::step05_table::Table;
use super::step08_levels::Db;
use super::step10_budget::{bits_for_rate, memory};

/// What was asked of the filters of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The entries of its tables, each of which takes its bits of a filter.
    pub keys: u64,
    /// How many queries were for keys that the queried table does not have. Only these can be
    /// saved.
    pub absent: u64,
}

/// What was asked of each level since the database was opened.
pub fn asked(db: &Db) -> io::Result<Vec<Asked>> {
    let mut asked = Vec::new();
    for (tables, counts) in db.levels.iter().zip(db.counts()) {
        let entries = |table: &Table| Ok(table.entries()?.len() as u64);
        let keys = tables.iter().map(entries).sum::<io::Result<u64>>()?;
        todo!("of the queries, those that were useful, and those that were answered in vain")
    }
    Ok(asked)
}

/// The rate of each level that gives the fewest reads in vain for what was asked, while all filters
/// together take at most `bits` bits. No rate is above 1.
pub fn rates(asked: &[Asked], bits: f64) -> Vec<f64> {
    todo!("a rate is λ · keys / absent, at most 1; find λ as in step 10")
}

/// Bits a key for each level, if the mean over all keys is `bits_per_key`.
pub fn bits_by_what_is_asked(asked: &[Asked], bits_per_key: f64) -> Vec<f64> {
    todo!("as in step 10")
}

/// The policy as `maypole` reads it, such as `levels(bloom(17.1), bloom(12.3), none)`. A filter has
/// from 1 to 24 bits a key: fewer are no filter, and more save hardly a read.
pub fn text(bits: &[f64]) -> String {
    let filter = |&bits: &f64| match bits {
        0.0..1.0 => "none".to_string(),
        _ => format!("bloom({:.1})", bits.min(24.0)),
    };
    format!("levels({})", bits.iter().map(filter).collect::<Vec<_>>().join(", "))
}
