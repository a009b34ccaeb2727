//! [`WriteBatch`]: writes that happen together or not at all.
//!
//! A batch is built in the form in which the WAL stores it, so that committing it copies nothing:
//!
//! ```text
//! WAL record = varint first sequence number | varint count | operation*
//! operation  = kind: 1 byte | key: length-prefixed | value: length-prefixed
//!
//! kind  MEANING             value
//! 0     delete key          none: the field is absent
//! 1     put                 the value
//! 15    delete a range      exclusive end of the range, key being its start
//! ```
//!
//! The n-th operation of a record has the first sequence number + n. Kinds are those of tables.

use crate::coding::{Decoder, put_length_prefixed, put_varint};
use crate::error::{Damage, Error, Result};
use crate::key::{EntryKind, MAX_SEQUENCE, SequenceNumber};

/// The largest key or value, in bytes: lengths are stored in 32 bits and tables add a few.
pub(crate) const MAX_FIELD_BYTES: usize = (1 << 31) - 1;

/// Bytes of a varint below [`MAX_FIELD_BYTES`], at most.
const MOST_LENGTH_BYTES: usize = 5;

/// Writes that happen together or not at all, in the order given.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// let mut batch = maypole::WriteBatch::new();
/// batch.put("user/7/name", "Ada");
/// batch.delete("user/7/draft");
/// db.write(batch)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    operations: Vec<u8>,
    count: u64,
    /// The first field that was too large; [`WriteBatch::check`] reports it.
    too_large: Option<usize>,
}

impl WriteBatch {
    /// A batch of no writes.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Adds `key` = `value`, replacing what was there. Both may be empty.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(EntryKind::Value, key.as_ref(), Some(value.as_ref()));
    }

    /// Adds the removal of `key`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.push(EntryKind::Deletion, key.as_ref(), None);
    }

    /// How many writes the batch holds.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether the batch holds no write.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes the writes take in memory and in the WAL.
    pub fn size_bytes(&self) -> usize {
        self.operations.len()
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.count = 0;
        self.too_large = None;
    }

    fn push(&mut self, kind: EntryKind, key: &[u8], value: Option<&[u8]>) {
        for field in [key, value.unwrap_or_default()] {
            if field.len() > MAX_FIELD_BYTES {
                self.too_large.get_or_insert(field.len());
                return;
            }
        }
        // At once: a batch of one put would grow four times.
        let value_bytes = value.map_or(0, |value| value.len() + MOST_LENGTH_BYTES);
        self.operations.reserve(1 + MOST_LENGTH_BYTES + key.len() + value_bytes);
        self.operations.push(kind as u8);
        put_length_prefixed(&mut self.operations, key);
        if let Some(value) = value {
            put_length_prefixed(&mut self.operations, value);
        }
        self.count += 1;
    }

    /// Refuses a batch that holds a key or value past the limit.
    pub(crate) fn check(&self) -> Result<()> {
        match self.too_large {
            None => Ok(()),
            Some(bytes) => Err(Error::InvalidArgument(format!(
                "a key or value of {bytes} bytes is over the limit of {MAX_FIELD_BYTES}"
            ))),
        }
    }

    pub(crate) fn operations(&self) -> Operations<'_> {
        Operations { decoder: Decoder::new(&self.operations) }
    }

    /// The operations as they stand in a WAL record.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.operations
    }
}

/// One write of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation<'a> {
    pub kind: EntryKind,
    pub key: &'a [u8],
    /// Empty for a deletion; the exclusive end for a range deletion.
    pub value: &'a [u8],
}

/// Walks encoded operations.
pub(crate) struct Operations<'a> {
    decoder: Decoder<'a>,
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
        let byte = self.decoder.u8("operation kind")?;
        let kind = EntryKind::from_byte(byte).filter(|&kind| kind != EntryKind::SingleDeletion);
        let Some(kind) = kind else {
            return Err(Damage::new(start, "an operation kind of 0, 1 or 15", byte));
        };
        let key = self.decoder.length_prefixed("key")?;
        let value = match kind {
            EntryKind::Deletion => &[],
            _ => self.decoder.length_prefixed("value")?,
        };
        Ok(Operation { kind, key, value })
    }
}

/// The front of a WAL record: what comes before the operations of its batches.
pub(crate) fn record_header(first_sequence: SequenceNumber, count: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    put_varint(&mut out, first_sequence);
    put_varint(&mut out, count);
    out
}

/// A WAL record taken apart: first sequence number, number of operations, the operations.
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
    Ok((first, count, Operations { decoder }))
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
        let mut record = record_header(42, batch.len() as u64);
        record.extend_from_slice(batch.encoded());
        let (first, count, operations) = parse_record(&record).unwrap();
        assert_eq!((first, count), (42, 3));
        let read: Vec<_> = operations.map(Result::unwrap).collect();
        let put = |key, value| Operation { kind: EntryKind::Value, key, value };
        assert_eq!(
            read,
            [
                put(b"", b""),
                put(&[0, 0xff], &[7; 300]),
                Operation { kind: EntryKind::Deletion, key: b"gone", value: b"" }
            ]
        );
    }

    #[test]
    fn a_cut_or_changed_record_never_panics() {
        let mut batch = WriteBatch::new();
        batch.put("key", "value");
        batch.delete("key");
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
    fn a_field_past_the_limit_is_refused_when_the_batch_is_written() {
        let batch = WriteBatch { too_large: Some(1 << 40), ..WriteBatch::new() };
        assert!(matches!(batch.check(), Err(Error::InvalidArgument(_))));
    }
}
