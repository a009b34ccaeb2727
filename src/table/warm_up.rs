//! [`Table::load_metadata`]: filter and index come into memory before a lookup asks for them.

use crate::cache::{Cached, Lease, Slots};
use crate::error::Result;
use crate::sync::pin;

use super::format::properties::names;
use super::table::Table;

/// Memory of an index entry beside its stored bytes: slot, head, handle, end.
const INDEX_ENTRY_BYTES: u64 = 48;

fn is_missing<T: Cached>(slots: &Slots<T>) -> bool {
    slots.get(0, &pin()).is_none()
}

impl Table {
    /// About how many bytes the cache would be charged for filter and index, as far as they are not
    /// in memory.
    pub fn missing_metadata_bytes(&self) -> u64 {
        let mut bytes: u64 = 0;
        if let Some(stored) = self.stored_filter()
            && is_missing(&self.filter)
        {
            bytes = bytes.saturating_add(stored.handle().bytes);
        }
        if is_missing(&self.index) {
            // These numbers come from the file.
            let blocks = self.properties().number(names::DATA_BLOCKS).unwrap_or(0);
            bytes = bytes
                .saturating_add(self.index_handle.bytes)
                .saturating_add(blocks.saturating_mul(INDEX_ENTRY_BYTES));
        }
        bytes
    }

    /// Loads filter and index, as a lookup would. Answers the bytes that the cache was charged for
    /// it, `None` where it did not keep them. No guard is held while the file is read.
    pub fn load_metadata(&self) -> Result<Option<u64>> {
        fn charged<T>(lease: &Lease<'_, T>) -> Option<u64> {
            let resident = lease.resident();
            resident.was_cached().then(|| resident.charge_bytes() as u64)
        }
        let mut bytes = Some(0);
        let mut add = |loaded: Option<u64>| bytes = bytes.zip(loaded).map(|(sum, more)| sum + more);
        if let Some(stored) = self.stored_filter()
            && is_missing(&self.filter)
        {
            add(charged(&self.load_filter(stored)?));
        }
        if is_missing(&self.index) {
            add(charged(&self.load_index()?));
        }
        Ok(bytes)
    }
}
