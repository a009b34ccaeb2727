//! [`LookupKey`]: a key that is looked up in the tables of a tree.

use crate::encoding::hash::hash64;
use crate::encoding::key;
use crate::encoding::key::{SEEK_KIND, SequenceNumber};
use crate::filter::KeyHash;

/// What is looked up: a user key as a snapshot sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookupKey<'a> {
    pub user_key: &'a [u8],
    /// The snapshot's sequence number: the snapshot sees no entry with a larger one.
    pub sequence: SequenceNumber,
    /// The key's hash, computed once for the filters of all tables.
    pub hash: KeyHash,
}

impl<'a> LookupKey<'a> {
    #[inline(always)]
    pub fn new(user_key: &'a [u8], sequence: SequenceNumber) -> LookupKey<'a> {
        LookupKey { user_key, sequence, hash: hash64(user_key) }
    }

    /// The trailer (sequence number and kind) of the internal key at which a search begins: this
    /// internal key sorts before all versions of the user key that the snapshot sees, and after all
    /// newer versions.
    pub fn trailer(&self) -> u64 {
        key::pack(self.sequence, SEEK_KIND)
    }
}
