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
    /// Whether the lookup has searched the current table without a query of its filter, because the
    /// filter was not worth its read ([`super::admission`]). Then the result of the search says
    /// nothing about the filter.
    pub passed_filter_by: bool,
    /// The part of the current table's index that leads to the key, if it is known.
    pub index_part: Option<u32>,
}

impl<'a> LookupKey<'a> {
    #[inline(always)]
    pub fn new(user_key: &'a [u8], sequence: SequenceNumber) -> LookupKey<'a> {
        LookupKey {
            user_key,
            sequence,
            hash: hash64(user_key),
            passed_filter_by: false,
            index_part: None,
        }
    }

    /// A copy, whose address can be passed to a call that is rare and not inlined. If the address
    /// of the key itself were passed, the compiler would keep the key in memory, and not in
    /// registers, in every lookup.
    #[inline(always)]
    pub fn for_call(&self) -> LookupKey<'a> {
        *self
    }

    /// The trailer (sequence number and kind) of the internal key at which a search begins: this
    /// internal key sorts before all versions of the user key that the snapshot sees, and after all
    /// newer versions.
    pub fn trailer(&self) -> u64 {
        key::pack(self.sequence, SEEK_KIND)
    }
}
