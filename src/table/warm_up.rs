//! [`Table::load_metadata`]: loads filter and index before a lookup needs them.

use crate::cache::slots::{Cached, Lease};
use crate::error::Result;

use super::format::properties::names;
use super::table::{INDEX_ENTRY_BYTES, Table};

impl Table {
    /// About how many bytes the cache would be charged for the parts of filter and index that are
    /// not in memory.
    pub fn missing_metadata_bytes(&self) -> u64 {
        let mut bytes: u64 = 0;
        if self.filter.stored().is_some() {
            let parts =
                self.filter.parts.missing().map(|part| self.filter.parts.handle(part).bytes);
            bytes = parts.fold(bytes, u64::saturating_add);
        }
        let parts = self.index.missing().map(|part| self.index.handle(part).bytes);
        let (count, stored_bytes) = parts
            .fold((0, 0), |(count, sum): (u64, u64), bytes| (count + 1, sum.saturating_add(bytes)));
        // The sums saturate, because the numbers come from the file and may be wrong.
        let blocks = self.properties().number(names::DATA_BLOCKS).unwrap_or(0);
        let entries_bytes = blocks.saturating_mul(INDEX_ENTRY_BYTES);
        let missing_bytes = entries_bytes / self.index.parts() as u64 * count;
        bytes.saturating_add(stored_bytes).saturating_add(missing_bytes)
    }

    /// Loads all parts of filter and index that are not in memory. Returns the bytes that the cache
    /// was charged for these parts. If the cache does not keep a part, loads no further part and
    /// returns `None`. Holds no [`Guard`](crate::sync::Guard) while it reads the file.
    pub fn load_metadata(&self) -> Result<Option<u64>> {
        fn charged<T: Cached>(lease: &Lease<'_, T>) -> Option<u64> {
            let resident = lease.resident();
            resident.was_cached().then(|| resident.charge_bytes() as u64)
        }
        let mut sum = 0;
        if self.filter.stored().is_some() {
            for part in self.filter.parts.missing() {
                let Some(bytes) = charged(&self.filter.load(self.block_file(), part)?) else {
                    return Ok(None);
                };
                sum += bytes;
            }
        }
        for part in self.index.missing() {
            let Some(bytes) = charged(&self.load_index(part)?) else { return Ok(None) };
            sum += bytes;
        }
        Ok(Some(sum))
    }
}
