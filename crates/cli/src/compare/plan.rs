//! [`Plan`]: how the keys are loaded into every tree ([`super::tree`]).

use std::path::Path;

use maypole::filter::FilterSpec;
use maypole::{Builder, Compression, Db, FilterPolicy};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::keys::{KeyList, KeySet};
use crate::commands::entries::load::Values;

/// The number of tables in level 0 that starts a compaction, as in the library.
pub(super) const L0_TRIGGER: usize = 4;
/// The most bytes of entries that are loaded into one memtable.
pub(super) const CHUNK_BYTES: usize = 32 << 20;
/// Bytes of an entry apart from key and value: sequence number, lengths, its part of the index.
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 12;
/// Bytes that the threads of a database take, mostly address space that is never used.
pub(super) const THREADS_BYTES: u64 = 16 << 20;

/// How the keys are loaded, which is the same for all policies.
pub struct Plan {
    /// Approximate bytes of all tables before compression.
    pub data_bytes: usize,
    /// Indexes of the keys in the order of loading. Those of the first stage are sorted by key.
    pub(super) order: Vec<usize>,
    /// Indexes of all keys, sorted by key.
    pub sorted: Vec<usize>,
    /// How many keys each stage loads.
    pub(super) stages: [usize; 4],
    /// Generated values, for keys whose source has no values.
    pub(super) values: Values,
    pub(super) compression: Compression,
    pub(super) memtable_bytes: usize,
    pub(super) table_bytes: u64,
}

impl Plan {
    pub fn new(set: &KeySet, value_bytes: usize, compression: Compression, seed: u64) -> Plan {
        let keys = &set.present;
        let made_up = keys.len().saturating_mul(value_bytes);
        let value_bytes_total = set.values.as_ref().map_or(made_up, KeyList::total_bytes);
        let data_bytes = keys
            .total_bytes()
            .saturating_add(value_bytes_total)
            .saturating_add(keys.len().saturating_mul(ENTRY_OVERHEAD_BYTES));
        let mut sorted: Vec<usize> = (0..keys.len()).collect();
        sorted.sort_unstable_by_key(|&i| keys.get(i));

        // Each of the three later stages gets its share, at least one key. The first stage gets the
        // rest.
        let share = |part: f64| ((keys.len() as f64 * part / 1.08) as usize).max(1);
        let upper = [share(0.07), share(0.007), share(0.002)];
        let first = keys.len().saturating_sub(upper.iter().sum());
        let stages = [first, upper[0], upper[1], upper[2]];

        let mut order = sorted.clone();
        order.shuffle(&mut SmallRng::seed_from_u64(seed ^ 1));
        order[..first].sort_unstable_by_key(|&i| keys.get(i));

        // `load` flushes a memtable when the memtable has its share of the keys. A memtable may
        // grow larger than this share, so that none is flushed earlier because it is full.
        let chunk_bytes = chunk_bytes(data_bytes);
        let chunk_entries = keys.len() / (data_bytes / chunk_bytes).max(1) + 1;
        Plan {
            data_bytes,
            order,
            sorted,
            stages,
            values: Values::new(value_bytes),
            compression,
            memtable_bytes: (3 * chunk_bytes + 128 * chunk_entries).clamp(1 << 20, 2 << 30),
            table_bytes: (data_bytes as u64 / 16).clamp(4096, 64 << 20),
        }
    }

    /// The approximate maximum of bytes on disk: of a database for each policy and the base; in a
    /// sweep, of the largest of these databases and the base. The sum includes a tenth for indexes
    /// and for upper levels while compaction moves them, and the logs of two memtables. Levels are
    /// filled from the last one up, so hardly anything else is stored twice.
    pub fn disk_bytes(&self, policies: &[FilterPolicy], is_sweep: bool) -> u64 {
        let keys = self.sorted.len() as u64;
        let filters = policies.iter().map(|policy| policy.most_filter_bytes(keys));
        let (databases, filters) = match is_sweep {
            true => (2, filters.max().unwrap_or(0)),
            false => (databases(policies), filters.fold(0, u64::saturating_add)),
        };
        let tables = (self.data_bytes as u64).saturating_mul(databases).saturating_add(filters);
        let logs = 2 * chunk_bytes(self.data_bytes) as u64;
        tables.saturating_add(tables / 10).saturating_add(logs)
    }

    /// The approximate maximum of the address space of an open database without its cache, in
    /// bytes: two memtables, and the stacks and heaps of its threads.
    pub fn memory_bytes(&self) -> u64 {
        2 * chunk_bytes(self.data_bytes) as u64 + THREADS_BYTES
    }

    pub(super) fn options(
        &self,
        dir: &Path,
        policy: &FilterPolicy,
        cache_bytes: usize,
        base_bytes: u64,
    ) -> Builder {
        Db::builder(dir)
            .filter(policy.clone())
            .block_cache_bytes(cache_bytes)
            .compression(self.compression)
            .memtable_bytes(self.memtable_bytes)
            .table_bytes(self.table_bytes)
            .level_base_bytes(base_bytes.max(4096))
            .compaction_threads(1)
    }
}

/// Bytes of entries in one memtable, if entries of `bytes` in total are divided evenly among
/// memtables. The number of memtables is the smallest multiple of [`L0_TRIGGER`] with which none
/// has more than [`CHUNK_BYTES`]. It is a multiple, so that the tables of the last memtables start
/// a compaction too.
pub(super) fn chunk_bytes(bytes: usize) -> usize {
    let rounds = bytes.div_ceil(L0_TRIGGER * CHUNK_BYTES).max(1);
    bytes.div_ceil(L0_TRIGGER * rounds).max(1)
}

/// How many databases take space of their own at the same time: one for each policy, and the base.
/// If one of the policies has no filters, it has links to the tables of the base, so it and the
/// base count as one.
pub(super) fn databases(policies: &[FilterPolicy]) -> u64 {
    (policies.len() + usize::from(!policies.contains(&no_filters()))) as u64
}

pub(super) fn no_filters() -> FilterPolicy {
    FilterPolicy::uniform(FilterSpec::NONE)
}
