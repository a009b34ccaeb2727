//! Optimistic transactions: reads of one moment and own writes, which are committed together if
//! nothing that was read has changed.
//!
//! ```text
//!   begin    a snapshot
//!   read     own writes first, then the snapshot; remembered as keys and ranges        reads.rs
//!            scans merge both                                                           cursor.rs
//!   write    kept in a sorted map                                                       own.rs
//!   commit   1. has a write after the snapshot changed what was read?                   validate.rs
//!               memtables and tables are searched, writers go on                        commit.rs
//!            2. the leader of the writers: has one changed it since step 1?
//!               only the keys of the last groups are compared (`write/recent.rs`)
//!            3. the batch is written like any other
//! ```
//!
//! **Serializable.** A commit is right if every remembered read would give the same answer at the
//! moment of the commit. Then the transaction has the same effect as if it had run as a whole at
//! that moment. Step 2 and step 3 happen while one thread leads, so no write comes between. This is
//! the backward validation of Kung and Robinson ("On Optimistic Methods for Concurrency Control",
//! 1981).
//!
//! A transaction that has written nothing needs no validation: it has the effect of one that ran at
//! its snapshot. A write that was not preceded by a read of its key never conflicts.
//!
//! **The leader never says "conflict".** It says "check again" if it is not sure, and step 1 starts
//! again with the writes since the last time. So the leader compares keys in memory and nothing
//! else. After [`commit::MOST_ATTEMPTS`] the commit leads, and checks while no other writes.
//!
//! No lock is held between the begin and the commit, so transactions cannot deadlock, and one that
//! is abandoned hinders nobody. Its snapshot keeps old versions from being dropped.
//!
//! Rejected: locks on keys (RocksDB's `TransactionDB`), because absent keys and ranges need locks
//! too; savepoints; and own writes among the sources of the merging cursor, because they have no
//! sequence numbers.

mod commit;
mod cursor;
mod own;
pub(in crate::db) mod reads;
#[allow(clippy::module_inception)] // The type is what this folder is named after.
mod transaction;
mod validate;
mod view;

pub use cursor::TransactionCursor;
pub use transaction::{Transaction, TransactionIterator};
