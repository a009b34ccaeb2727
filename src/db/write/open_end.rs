//! Range deletions without an end, such as `db.delete_range("a"..)`.
//!
//! A log and a table store an end with each range deletion. A batch holds an open end as an empty
//! key, and the leader replaces it: by a key after all keys that were written before, and after all
//! keys that the batch itself puts.
//!
//! Only the leader can choose the end, because nothing is written and nothing ingested while it
//! leads. An end that lies further behind does no harm, since a range deletion hides only older
//! writes. So no block is read: the end comes from the key ranges of the tables and from the last
//! entries of the memtables, even where these entries are tombstones.
//!
//! A batch with an open end is a group of its own. So its end depends on no other batch of a group,
//! and if the end makes it too large, only its own caller gets the error.

use super::batch::{BatchOperation, WriteBatch};
use crate::cursor::Cursor;
use crate::db::inner::database::Database;
use crate::db::inner::writing::Write;
use crate::db::iter::bounds::{after, after_prefix};
use crate::encoding::key;
use crate::encoding::key::{user_key, user_key_behind};
use crate::error::Result;
use crate::version::KeyspaceId;

/// An end that would be longer than this is the end of a prefix of this length instead, because each
/// table that the range deletion reaches holds a copy of the end.
const LONG_END_BYTES: usize = 1 << 10;

impl Database {
    /// The write with an end for each open end. Called by the leader.
    #[cold]
    pub(super) fn with_ends(&self, write: &Write) -> Result<Write> {
        let batch = write.batch.with_ends(|keyspace| self.end_of_keys(keyspace, &write.batch))?;
        Ok(Write { batch, durability: write.durability, precondition: write.precondition.clone() })
    }

    /// A key after every key that the keyspace holds, and after every key that `batch` puts there.
    fn end_of_keys(&self, keyspace: KeyspaceId, batch: &WriteBatch) -> Result<Vec<u8>> {
        let state = self.trees.get(keyspace)?.reading.current();
        let files = state.sources.version.files().map(|(_, file)| &file.meta.largest);
        let of_tables = files.max_by(|a, b| key::compare(a, b));
        let mut end = of_tables.map_or(Vec::new(), |largest| user_key_behind(largest));
        for memtable in state.sources.memtables() {
            let mut cursor = memtable.cursor();
            cursor.seek_to_last()?;
            if cursor.valid() {
                end = end.max(after(user_key(cursor.key())));
            }
        }
        let puts = batch.writes().filter_map(|(of, write)| match write {
            BatchOperation::Put { key, .. } if of.unwrap_or(0) == keyspace => Some(key),
            _ => None,
        });
        end = end.max(puts.max().map_or(Vec::new(), after));
        Ok(match end.get(..LONG_END_BYTES) {
            Some(prefix) => after_prefix(prefix).unwrap_or(end),
            None => end,
        })
    }
}
