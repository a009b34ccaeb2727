//! [`WriteBatch`]: writes that happen together or not at all.
//!
//! A batch is built in the form that the WAL stores, so that a commit does not encode it again:
//!
//! ```text
//! WAL record = varint first sequence number | varint count | operation*
//! operation  = [16: 1 byte | varint keyspace] kind: 1 byte | key: length-prefixed |
//!              value: length-prefixed
//!
//! kind  MEANING             value
//! 0     delete key          none: the field is absent
//! 1     put                 the value
//! 15    delete a range      exclusive end of the range, key being its start
//! ```
//!
//! A record names the keyspace of an operation, unless it is keyspace 0 (log version 3). In a batch,
//! an operation without this is one of the keyspace through whose handle the batch is written, and
//! keyspace 0 is named too. [`WriteBatch::resolved`] turns one form into the other.
//!
//! In a batch, a range deletion may have no end yet: then its end is the empty key, which no other
//! range has. The leader chooses the end when it writes the batch (`open_end.rs`).
//!
//! Operation n of a record, counted from 0, has the sequence number first + n. The kinds are the
//! kinds of entries in tables.

use std::cmp::Ordering;
use std::num::NonZeroU64;

use crate::db::iter::bounds::{KeyBounds, after_prefix, start_and_end};
use crate::encoding::coding::{Decoder, put_length_prefixed, put_varint};
use crate::encoding::key::{EntryKind, MAX_SEQUENCE, SequenceNumber, TRAILER_BYTES};
use crate::error::{Damage, Error, Result};
use crate::range_tombstones::reversed_range;
use crate::table::MAX_ENTRY_BYTES;
use crate::version::KeyspaceId;

/// The most bytes of key and value together. A table holds no larger entry.
const MAX_WRITE_BYTES: usize = MAX_ENTRY_BYTES - TRAILER_BYTES;

/// The most bytes of the varint of a length up to [`MAX_WRITE_BYTES`].
const MAX_LENGTH_BYTES: usize = 5;

/// The byte before the number of a keyspace. No kind of entry has it.
const IN_KEYSPACE: u8 = 16;

/// The most bytes of a batch, and of a group of batches that one writer, the leader, writes
/// together (`write/mod.rs`). With its header a group is one record of the WAL, whose length field
/// has 32 bits.
pub(crate) const MAX_BATCH_BYTES: usize = u32::MAX as usize - 64;

/// Writes that happen together or not at all, in the order given.
///
/// [`Db::write`](crate::Db::write) takes a batch by value without a copy. It copies a batch that is
/// passed by reference.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// use maypole::WriteBatch;
///
/// let mut batch = WriteBatch::new();
/// batch.put("user/7/name", "Ada");
/// batch.delete("user/7/draft");
/// db.write(batch)?;
/// db.write(WriteBatch::new().put("user/8/name", "Mary").delete("user/8/draft"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    operations: Vec<u8>,
    count: u64,
    /// Whether a range deletion has no end yet.
    has_open_end: bool,
    /// The keyspace of the writes that follow; `None`: that of the handle that writes the batch.
    target: Option<KeyspaceId>,
    /// `None`: the writes name no keyspace. In a box, because batches are moved often.
    named: Option<Box<Named>>,
    /// The error of the first write that was left out, because it or the batch would be too large,
    /// or because its range ends before it starts. In a box, because batches are moved often.
    refused: Option<Box<Error>>,
}

/// The keyspaces that the writes of a batch name.
#[derive(Debug, Clone)]
struct Named {
    /// The number of their database.
    database: NonZeroU64,
    /// Those to which the writes go, each once, if the batch is resolved.
    keyspaces: Vec<KeyspaceId>,
}

impl WriteBatch {
    /// A batch of no writes.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Adds `key` = `value`, which replaces an older value. Both may be empty.
    ///
    /// A write that is too large is not added, and [`Db::write`](crate::Db::write) then rejects the
    /// batch.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut WriteBatch {
        self.push(EntryKind::Value, key.as_ref(), Some(value.as_ref()));
        self
    }

    /// Adds the removal of `key`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut WriteBatch {
        self.push(EntryKind::Deletion, key.as_ref(), None);
        self
    }

    /// Adds the removal of all keys in `range`, those included that the batch has put before. The
    /// removal takes one entry, however many keys there are.
    ///
    /// An empty range, such as `"a".."a"`, adds nothing. If the range ends before it starts,
    /// [`Db::write`](crate::Db::write) rejects the batch.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let mut batch = maypole::WriteBatch::new();
    /// batch.put("a", "").put("b", "").delete_range("b"..).put("c", "");
    /// db.write(batch)?;
    /// assert!(!db.contains_key("b")? && db.contains_key("c")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_range(&mut self, range: impl KeyBounds) -> &mut WriteBatch {
        let (start, end) = start_and_end(&range);
        self.push_range(&start, end.as_deref());
        self
    }

    /// Adds the removal of all keys that start with `prefix`, as one entry.
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> &mut WriteBatch {
        let prefix = prefix.as_ref();
        self.push_range(prefix, after_prefix(prefix).as_deref());
        self
    }

    fn push_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        let Some(end) = end else {
            self.has_open_end = true;
            return self.push(EntryKind::RangeDeletion, start, Some(&[]));
        };
        match start.cmp(end) {
            Ordering::Less => self.push(EntryKind::RangeDeletion, start, Some(end)),
            Ordering::Equal => {}
            Ordering::Greater => {
                self.refuse(|| reversed_range(start, end));
            }
        }
    }

    /// The writes, in the order given, without the keyspaces that they go to.
    ///
    /// ```
    /// use maypole::{BatchOperation, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put("new", "value").delete("old");
    /// let puts = batch.iter().filter(|write| matches!(write, BatchOperation::Put { .. }));
    /// assert_eq!((batch.iter().count(), puts.count()), (2, 1));
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = BatchOperation<'_>> {
        // The batch itself has encoded its writes, so each of them can be decoded.
        self.writes().map(|(_, write)| write)
    }

    /// The writes, each with its keyspace if the batch names one.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (Option<KeyspaceId>, BatchOperation<'_>)> {
        self.operations().flatten().map(|Operation { keyspace, kind, key, value }| {
            let write = match kind {
                EntryKind::Deletion | EntryKind::SingleDeletion => BatchOperation::Delete { key },
                EntryKind::RangeDeletion => {
                    let end = (!value.is_empty()).then_some(value);
                    BatchOperation::DeleteRange { start: key, end }
                }
                EntryKind::Value => BatchOperation::Put { key, value },
            };
            (keyspace, write)
        })
    }

    /// Lets the writes that follow go to a keyspace of the database with this number.
    pub(crate) fn aim(&mut self, database: NonZeroU64, keyspace: KeyspaceId) -> &mut WriteBatch {
        let first = || Box::new(Named { database, keyspaces: Vec::new() });
        match self.named.get_or_insert_with(first).database == database {
            true => self.target = Some(keyspace),
            false => {
                let text = "a batch names keyspaces of two databases";
                self.refuse(|| Error::InvalidArgument(text.into()));
            }
        }
        self
    }

    /// Whether the writes name keyspaces.
    #[inline]
    pub(crate) fn names_keyspaces(&self) -> bool {
        self.named.is_some()
    }

    /// The batch as a record of the WAL has it, if the database with this number writes it through
    /// a handle of keyspace `base`: each write names its keyspace, unless that is 0.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the batch names keyspaces of another database, or if it is too
    /// large now.
    pub(crate) fn resolved(&self, database: NonZeroU64, base: KeyspaceId) -> Result<WriteBatch> {
        if self.named.as_ref().is_some_and(|named| named.database != database) {
            let text = "a batch names keyspaces of another database";
            return Err(Error::InvalidArgument(text.into()));
        }
        let mut batch = WriteBatch { has_open_end: self.has_open_end, ..WriteBatch::default() };
        batch.operations.reserve(self.operations.len() + 2 * self.count as usize);
        let mut keyspaces = Vec::new();
        for operation in self.operations().flatten() {
            let Operation { keyspace, kind, key, value } = operation;
            let keyspace = keyspace.unwrap_or(base);
            if !keyspaces.contains(&keyspace) {
                keyspaces.push(keyspace);
            }
            batch.target = (keyspace != 0).then_some(keyspace);
            batch.push(kind, key, (kind != EntryKind::Deletion).then_some(value));
        }
        if keyspaces != [0] {
            batch.named = Some(Box::new(Named { database, keyspaces }));
        }
        batch.check()?;
        Ok(batch)
    }

    /// How many writes the batch holds.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether the batch has writes and all of them remove keys.
    pub(crate) fn only_deletes(&self) -> bool {
        let is_put = |write: BatchOperation| matches!(write, BatchOperation::Put { .. });
        !self.is_empty() && !self.iter().any(is_put)
    }

    /// Whether the batch holds no write.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes the writes take in memory and in the WAL.
    pub fn size_bytes(&self) -> usize {
        self.operations.len()
    }

    /// Removes all writes. Keeps the memory for the next ones.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.count = 0;
        self.has_open_end = false;
        (self.target, self.named) = (None, None);
        self.refused = None;
    }

    fn push(&mut self, kind: EntryKind, key: &[u8], value: Option<&[u8]>) {
        let bytes = key.len().saturating_add(value.unwrap_or_default().len());
        if bytes > MAX_WRITE_BYTES {
            self.refuse(|| {
                Error::InvalidArgument(format!(
                    "a write of {bytes} bytes: key and value together may have {MAX_WRITE_BYTES}"
                ))
            });
            return;
        }
        let batch_bytes = self.operations.len() + bytes + 2 + 3 * MAX_LENGTH_BYTES;
        if batch_bytes > MAX_BATCH_BYTES {
            self.refuse(|| {
                Error::InvalidArgument(format!(
                    "a batch of {batch_bytes} bytes: a batch may have {MAX_BATCH_BYTES}; split it into several"
                ))
            });
            return;
        }
        // The memory is reserved in one step, because otherwise even a batch of one put would grow
        // several times.
        let value_bytes = value.map_or(0, |value| value.len() + MAX_LENGTH_BYTES);
        self.operations.reserve(1 + MAX_LENGTH_BYTES + key.len() + value_bytes);
        if let Some(keyspace) = self.target {
            self.operations.push(IN_KEYSPACE);
            put_varint(&mut self.operations, keyspace.into());
        }
        self.operations.push(kind as u8);
        put_length_prefixed(&mut self.operations, key);
        if let Some(value) = value {
            put_length_prefixed(&mut self.operations, value);
        }
        self.count += 1;
    }

    /// Notes the error of the first write that is left out.
    #[cold]
    fn refuse(&mut self, error: impl FnOnce() -> Error) {
        self.refused.get_or_insert_with(|| Box::new(error()));
    }

    /// The error of the first write that was left out.
    pub(crate) fn check(&self) -> Result<()> {
        self.refused.as_ref().map_or(Ok(()), |error| Err((**error).clone()))
    }

    pub(crate) fn operations(&self) -> Operations<'_> {
        Operations { decoder: Decoder::new(&self.operations), in_batch: true }
    }

    /// Whether a range deletion has no end yet.
    #[inline]
    pub(crate) fn has_open_end(&self) -> bool {
        self.has_open_end
    }

    /// The batch with an end for each open end, which `end_of` returns for a keyspace. A range that
    /// starts at this end or after it has no key, and gets an end of its own.
    pub(crate) fn with_ends(
        &self,
        mut end_of: impl FnMut(KeyspaceId) -> Result<Vec<u8>>,
    ) -> Result<WriteBatch> {
        let mut batch = WriteBatch { named: self.named.clone(), ..WriteBatch::default() };
        for (keyspace, write) in self.writes() {
            batch.target = keyspace;
            match write {
                BatchOperation::Put { key, value } => batch.put(key, value),
                BatchOperation::Delete { key } => batch.delete(key),
                BatchOperation::DeleteRange { start, end: Some(end) } => {
                    batch.delete_range(start..end)
                }
                BatchOperation::DeleteRange { start, end: None } => {
                    let end = end_of(keyspace.unwrap_or(0))?;
                    match start < &end[..] {
                        true => batch.delete_range(start..&end[..]),
                        false => batch.delete_range(start..=start),
                    }
                }
            };
        }
        batch.check()?;
        Ok(batch)
    }

    /// Whether one of the writes puts or removes `key` of a keyspace. The batch is resolved.
    pub(crate) fn concerns(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.writes().any(|(of, write)| {
            of.unwrap_or(0) == keyspace
                && match write {
                    BatchOperation::Put { key: written, .. }
                    | BatchOperation::Delete { key: written } => written == key,
                    BatchOperation::DeleteRange { start, end } => {
                        start <= key && end.is_none_or(|end| key < end)
                    }
                }
        })
    }

    /// The keyspaces to which the writes go, each once. Empty if the batch, which is resolved, names
    /// none.
    pub(crate) fn keyspaces(&self) -> &[KeyspaceId] {
        self.named.as_ref().map_or(&[], |named| &named.keyspaces)
    }

    /// The operations in the encoding of a WAL record.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.operations
    }
}

/// Copies the batch, which stays as it is and may be written again.
impl From<&WriteBatch> for WriteBatch {
    fn from(batch: &WriteBatch) -> WriteBatch {
        batch.clone()
    }
}

/// Copies a batch to which a chain of calls returns a reference:
/// `db.write(WriteBatch::new().put("a", "1").delete("b"))`.
impl From<&mut WriteBatch> for WriteBatch {
    fn from(batch: &mut WriteBatch) -> WriteBatch {
        batch.clone()
    }
}

/// One write of a [`WriteBatch`], as [`WriteBatch::iter`] shows it.
///
/// ```
/// use maypole::{BatchOperation, WriteBatch};
///
/// let mut batch = WriteBatch::new();
/// batch.put("key", "value");
/// let put = BatchOperation::Put { key: b"key", value: b"value" };
/// assert_eq!(batch.iter().next(), Some(put));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchOperation<'a> {
    /// Sets a key to a value.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Removes all keys of a range.
    DeleteRange {
        /// The first key of the range.
        start: &'a [u8],
        /// The first key after the range; `None`: the range has no end.
        end: Option<&'a [u8]>,
    },
}

/// One write of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation<'a> {
    /// `None`: keyspace 0 in a WAL; in a batch that of the handle that writes it.
    pub keyspace: Option<KeyspaceId>,
    pub kind: EntryKind,
    pub key: &'a [u8],
    /// Empty for a deletion; the exclusive end for a range deletion, empty if it is open.
    pub value: &'a [u8],
}

/// Decodes operations, one after the other.
pub(crate) struct Operations<'a> {
    decoder: Decoder<'a>,
    /// Whether these are the operations of a batch, which may have open ends.
    in_batch: bool,
}

impl<'a> Iterator for Operations<'a> {
    type Item = Result<Operation<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.decoder.is_empty() {
            return None;
        }
        Some(self.read())
    }
}

impl<'a> Operations<'a> {
    fn read(&mut self) -> Result<Operation<'a>, Damage> {
        let start = self.decoder.position();
        let mut byte = self.decoder.u8("operation kind")?;
        let mut keyspace = None;
        if byte == IN_KEYSPACE {
            let most = u64::from(KeyspaceId::MAX);
            let id = self.decoder.varint_up_to(most, "keyspace", "a keyspace below 2^32")?;
            keyspace = Some(id as KeyspaceId);
            byte = self.decoder.u8("operation kind")?;
        }
        let kind = EntryKind::from_byte(byte).filter(|&kind| kind != EntryKind::SingleDeletion);
        let Some(kind) = kind else {
            return Err(Damage::new(start, "an operation kind of 0, 1, 15 or 16", byte));
        };
        let key = self.decoder.length_prefixed("key")?;
        let value = match kind {
            EntryKind::Deletion => &[],
            _ => self.decoder.length_prefixed("value")?,
        };
        let is_open = || self.in_batch && value.is_empty();
        if kind == EntryKind::RangeDeletion && key >= value && !is_open() {
            return Err(Damage::new(
                start,
                "a range that ends behind its start",
                "one that does not",
            ));
        }
        Ok(Operation { keyspace, kind, key, value })
    }
}

/// The start of a WAL record, before the operations of its batches.
pub(crate) fn record_header(first_sequence: SequenceNumber, count: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    put_varint(&mut out, first_sequence);
    put_varint(&mut out, count);
    out
}

/// Parses a WAL record into its first sequence number, its number of operations and the operations.
pub(crate) fn parse_record(
    payload: &[u8],
) -> Result<(SequenceNumber, u64, Operations<'_>), Damage> {
    let mut decoder = Decoder::new(payload);
    let first = decoder.varint("first sequence number")?;
    let count = decoder.varint("number of operations")?;
    if count == 0 || count > MAX_SEQUENCE || first == 0 || first > MAX_SEQUENCE - count {
        return Err(Damage::new(
            0,
            "1 or more operations with sequence numbers below 2^56",
            format_args!("{count} from {first}"),
        ));
    }
    Ok((first, count, Operations { decoder, in_batch: false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_round_trips() {
        let mut batch = WriteBatch::new();
        batch.put("", "");
        batch.put([0, 0xff], vec![7; 300]);
        batch.delete("gone");
        batch.delete_range("a".."b");
        batch.delete_range("b".."b");
        let mut record = record_header(42, batch.len() as u64);
        record.extend_from_slice(batch.encoded());
        let (first, count, operations) = parse_record(&record).unwrap();
        assert_eq!((first, count), (42, 4), "an empty range is no write");
        let read: Vec<_> = operations.map(Result::unwrap).collect();
        let keyspace = None;
        let put = |key, value| Operation { keyspace, kind: EntryKind::Value, key, value };
        assert_eq!(
            read,
            [
                put(b"", b""),
                put(&[0, 0xff], &[7; 300]),
                Operation { keyspace, kind: EntryKind::Deletion, key: b"gone", value: b"" },
                Operation { keyspace, kind: EntryKind::RangeDeletion, key: b"a", value: b"b" },
            ]
        );
    }

    #[test]
    fn a_cut_or_changed_record_never_panics() {
        let mut batch = WriteBatch::new();
        batch.put("key", "value");
        batch.delete_range("key".."kez");
        let mut record = record_header(1, 2);
        record.extend_from_slice(batch.encoded());
        for cut in 0..record.len() {
            if let Ok((_, _, operations)) = parse_record(&record[..cut]) {
                assert!(operations.filter(|operation| operation.is_ok()).count() < 2);
            }
        }
        for position in 0..record.len() {
            for bit in 0..8 {
                let mut changed = record.clone();
                changed[position] ^= 1 << bit;
                if let Ok((_, _, operations)) = parse_record(&changed) {
                    operations.take_while(Result::is_ok).count();
                }
            }
        }
    }

    #[test]
    fn what_no_table_can_hold_is_refused_when_the_batch_is_written() {
        let refused = |batch: &WriteBatch| matches!(batch.check(), Err(Error::InvalidArgument(_)));
        // These bytes are never copied, because a batch rejects a write that is too large before it
        // copies it.
        let large = vec![0; MAX_WRITE_BYTES];
        let mut batch = WriteBatch::new();
        batch.put("k", &large);
        assert!(refused(&batch) && batch.is_empty());
        batch.clear();
        assert!(!refused(&batch));
        let half = MAX_WRITE_BYTES / 2;
        batch.delete_range(&large[..half]..&large[..half + 1]);
        assert!(refused(&batch));
        batch.clear();
        batch.delete_range("b".."a");
        assert!(refused(&batch) && batch.is_empty());
    }

    #[test]
    fn a_stored_range_that_does_not_end_behind_its_begin_is_damage() {
        for (start, end) in [("b", "b"), ("b", "a")] {
            let mut operation = vec![EntryKind::RangeDeletion as u8];
            put_length_prefixed(&mut operation, start.as_bytes());
            put_length_prefixed(&mut operation, end.as_bytes());
            let mut operations = Operations { decoder: Decoder::new(&operation), in_batch: false };
            assert!(operations.next().unwrap().is_err());
        }
    }
}
