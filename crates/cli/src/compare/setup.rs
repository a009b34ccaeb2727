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

impl Setup {
    /// Whether absent and present keys are looked up, as mixes of both need. A file of queries may
    /// have one kind alone.
    pub fn has_both_kinds(&self) -> bool {
        !self.keys.queries.absent.is_empty() && !self.keys.queries.present.is_empty()
    }
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
