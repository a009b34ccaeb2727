//! [`OpenLookup`]: one of many lookups, while it has no result.

use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::lookup::filter::AfterFilter;
use crate::lookup::stage::{FileRun, Found, is_live};
use crate::slice::Slice;
use crate::table::{LookupKey, Table};

/// Keys that are looked up together: enough to hide every cache miss and to keep a device busy, but
/// few enough that the memory they fetch stays in the processor's second-level cache.
pub(super) const TOGETHER: usize = 64;

/// The value of [`OpenLookup::to`] once the lookup is not open any more.
pub(super) const GONE: usize = usize::MAX;

/// A lookup that has no result yet.
#[derive(Clone)]
pub(super) struct OpenLookup<'k> {
    /// Index of the key and of its value in the call's lists, or [`GONE`].
    pub to: usize,
    pub key: LookupKey<'k>,
    /// The first 8 bytes of the key after the prefix that the bounds of all files share, as a
    /// number ([`Version::head`](crate::version::Version::head)). `None`: no file can hold the key.
    pub head: Option<u64>,
    /// What the filter of the file being searched has said.
    pub after: AfterFilter,
    /// Sequence number of the range deletion that covers the key in the run being searched; 0 if
    /// there is none.
    pub deleted_at: SequenceNumber,
}

impl OpenLookup<'_> {
    /// Which file of a run may hold the key.
    #[inline(always)]
    pub fn file_in(&self, run: &FileRun) -> Option<usize> {
        run.position_of(self.head?, self.key.user_key)
    }

    /// The value of the key, given its newest entry; `None` if the key is deleted.
    #[inline(always)]
    pub fn value_of(&self, table: &Table, found: &Found<'_>) -> Result<Option<Slice>> {
        let is_live = is_live(table, &self.key, found, self.deleted_at)?;
        Ok(is_live.then(|| found.value_slice()))
    }
}
