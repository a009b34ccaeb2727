//! [`Setup`]: what is the same for all policies.

use super::keys::KeySet;
use super::plan::Plan;

/// What is the same for all policies.
pub struct Setup {
    pub keys: KeySet,
    pub plan: Plan,
    pub cache_bytes: usize,
    pub cold: bool,
    pub seed: u64,
}

#[cfg(test)]
impl Setup {
    /// The setup of generated keys and values.
    pub fn generated(keys: usize, most: usize, value_bytes: usize) -> Setup {
        let keys = KeySet::new(&super::keys::Request::generated(keys, most, 7)).unwrap();
        let plan = Plan::new(&keys, value_bytes, maypole::Compression::None, 7);
        Setup { keys, plan, cache_bytes: 1 << 20, cold: false, seed: 7 }
    }
}
