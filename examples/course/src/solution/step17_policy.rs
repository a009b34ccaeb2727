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
        // yours: of the queries, those that were useful, and those that were answered in vain
        let absent = counts.useful + counts.full_positive - counts.full_true_positive;
        asked.push(Asked { keys, absent });
        // end
    }
    Ok(asked)
}

/// The rate of each level that gives the fewest reads in vain for what was asked, while all filters
/// together take at most `bits` bits. No rate is above 1.
pub fn rates(asked: &[Asked], bits: f64) -> Vec<f64> {
    // yours: a rate is λ · keys / absent, at most 1; find λ as in step 10
    let keys: Vec<u64> = asked.iter().map(|level| level.keys).collect();
    let rate = |level: &Asked, lambda: f64| match level {
        // Nothing can be saved. And 0 / 0 would be no number.
        Asked { keys: 0, .. } | Asked { absent: 0, .. } => 1.0,
        _ => (lambda * level.keys as f64 / level.absent as f64).min(1.0),
    };
    let rates = |log2_lambda: f64| -> Vec<f64> {
        asked.iter().map(|level| rate(level, log2_lambda.exp2())).collect()
    };
    // If λ is 2^64, every rate is 1.
    let (mut low, mut high) = (-1000.0, 64.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if memory(&keys, &rates(middle)) > bits { low = middle } else { high = middle }
    }
    rates(high)
    // end
}

/// Bits a key for each level, if the mean over all keys is `bits_per_key`.
pub fn bits_by_what_is_asked(asked: &[Asked], bits_per_key: f64) -> Vec<f64> {
    // yours: as in step 10
    let total: u64 = asked.iter().map(|level| level.keys).sum();
    rates(asked, bits_per_key * total as f64).into_iter().map(bits_for_rate).collect()
    // end
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
