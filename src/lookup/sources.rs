//! [`Sources`]: where a lookup finds the entries of a tree: its memtables and its tables.

use std::sync::Arc;

use crate::memtable::Memtable;
use crate::version::{Run, TableFile, Version};

/// A run, as versions have it.
pub(crate) type FileRun = Run<Arc<TableFile>>;

/// All memtables and tables of a tree at one moment. Immutable, except that writers add entries to
/// the newest memtable. Readers ignore entries with larger sequence numbers than their own.
pub(crate) struct Sources {
    pub memtable: Arc<Memtable>,
    /// Full memtables that wait for their flush, newest first.
    pub frozen: Vec<Arc<Memtable>>,
    pub version: Arc<Version>,
}

impl Sources {
    /// All memtables, newest first.
    #[inline]
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> + Clone {
        std::iter::once(&self.memtable).chain(&self.frozen)
    }

    /// Whether any memtable may have entries. Frozen memtables nearly always have some. A memtable
    /// counts an entry before the entry's sequence number is published, so the result `false` proves
    /// that no visible entry is in memory.
    #[inline]
    pub fn has_entries_in_memory(&self) -> bool {
        !self.memtable.is_empty() || !self.frozen.is_empty()
    }
}
