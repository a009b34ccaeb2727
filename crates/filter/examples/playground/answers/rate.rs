//! The predicted rate of a filter, and the observed one.

use maypole_filter::{FilterBuilder, FilterSpec};

use super::number;
use crate::figures::keys::key_hash;

/// Builds a filter of `keys` keys, and queries it for `asked` absent keys. If `asked` is 0, the
/// answer has the predicted rate alone.
pub fn answer(family: &str, bits: &str, keys: &str, asked: &str) -> Result<String, String> {
    let spec: FilterSpec = format!("{family}({bits})").parse().map_err(|e| format!("{e}"))?;
    let mut builder = FilterBuilder::new(spec);
    let (keys, asked) = (number(keys, 1, 1_000_000)?, number(asked, 0, 10_000_000)?);
    (0..keys).for_each(|i| builder.add(key_hash("present", i)));
    let block = builder.finish().ok_or("a filter needs a key")?;
    let (built, bits, rate) = (block.family(), block.bits_per_key(), block.predicted_fpr());
    let filter = block.into_reader();
    let passed = (0..asked).filter(|&i| filter.may_contain(key_hash("absent", i))).count();
    Ok(format!(
        "{{\"family\":\"{built}\",\"bits\":{bits:.4},\"rate\":{rate:.6e},\"asked\":{asked},\"passed\":{passed}}}",
    ))
}
