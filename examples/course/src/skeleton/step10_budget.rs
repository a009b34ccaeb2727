//! Step 10: bits by level under a budget, so that an absent key costs the fewest reads. The *rate*
//! of a level is the share of absent keys that its filter lets through. The rule for the rates is
//! that of Monkey (Dayan, Athanassoulis and Idreos, 2017).

use std::f64::consts::LN_2;

/// Bits a key of a Bloom filter with this rate, as the textbook says: ln(1 / rate) / (ln 2)².
pub fn bits_for_rate(rate: f64) -> f64 {
    -rate.ln() / (LN_2 * LN_2)
}

/// Bits of all filters, if the level `i` has `keys[i]` keys and the rate `rates[i]`.
pub fn memory(keys: &[u64], rates: &[f64]) -> f64 {
    todo!("a sum over the levels")
}

/// The rate of each level that gives the fewest reads in vain, while all filters together take at
/// most `bits` bits. No rate is above 1.
pub fn best_rates(keys: &[u64], bits: f64) -> Vec<f64> {
    todo!("a rate is λ times the keys of its level, at most 1; find λ by halving an interval")
}

/// Bits a key for each level, if the mean over all keys is `bits_per_key`.
pub fn bits_by_level(keys: &[u64], bits_per_key: f64) -> Vec<f64> {
    todo!("the budget is `bits_per_key` for all keys together; then the best rates as bits")
}
