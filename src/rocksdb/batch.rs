//! A write batch: the payload of a record of RocksDB's WAL.
//!
//! ```text
//! fixed64 sequence number of the first counted operation | fixed32 count | operation …
//!
//! TAG  WITH COLUMN FAMILY  FIELDS                    KIND OF THE ENTRY
//!   0                   4  key                        0  deletion
//!   1                   5  key, value                 1  value
//!   2                   6  key, operand               2  merge operand
//!   7                   8  key                        7  single deletion
//!  15                  14  begin, end (excluded)     15  range deletion
//!  17                  16  key, blob index           17  reference to a blob file
//!  22                  23  key, entity               22  wide columns
//!  24                  25  key, value, fixed64       24  value with a write time
//!   3                      string                     -  not counted
//!  13                      nothing                    -  not counted
//!   9 10 11 12 18 19 21    two-phase transactions     -  rejected
//! ```
//!
//! Keys and values are length-prefixed strings. The tags under WITH COLUMN FAMILY are followed by a
//! varint32, the number of the column family. Operations with other tags belong to family 0.

use super::{Refusal, unsupported};
use crate::encoding::coding::{Decoder, fixed32, fixed64};
use crate::encoding::key::{EntryKind, MAX_SEQUENCE, SequenceNumber};
use crate::error::Damage;

const HEADER_BYTES: usize = 12;

/// One operation that has a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation<'a> {
    pub family: u32,
    /// The kind byte of the entry that the operation writes.
    pub kind: u8,
    pub key: &'a [u8],
    /// Empty for a deletion; the exclusive end for a range deletion.
    pub value: &'a [u8],
}

/// A batch. [`Batch::next`] returns its *counted* operations one by one: those that take a sequence
/// number. After the last one it checks that there were as many of them as the header says.
pub(super) struct Batch<'a> {
    pub first: SequenceNumber,
    pub count: u32,
    decoder: Decoder<'a>,
    seen: u32,
}

impl<'a> Batch<'a> {
    pub fn decode(payload: &'a [u8]) -> Result<Batch<'a>, Damage> {
        if payload.len() < HEADER_BYTES {
            let found = format_args!("{} bytes", payload.len());
            return Err(Damage::new(0, "a write batch of at least 12 bytes", found));
        }
        let (first, count) = (fixed64(payload), fixed32(&payload[8..]));
        if first > MAX_SEQUENCE - u64::from(count) {
            return Err(Damage::new(0, "sequence numbers below 2^56", first));
        }
        let mut decoder = Decoder::new(payload);
        decoder.bytes(HEADER_BYTES, "header")?;
        Ok(Batch { first, count, decoder, seen: 0 })
    }

    /// The next counted operation, with its sequence number.
    pub fn next(&mut self) -> Result<Option<(SequenceNumber, Operation<'a>)>, Refusal> {
        while !self.decoder.is_empty() {
            let Some(operation) = self.read()? else { continue };
            let sequence = self.first + u64::from(self.seen);
            self.seen += 1;
            if self.seen > self.count {
                break;
            }
            return Ok(Some((sequence, operation)));
        }
        match self.seen == self.count {
            true => Ok(None),
            false => {
                let (expected, found) = (format!("{} operations", self.count), self.seen);
                Err(Damage::new(8, expected, found).into())
            }
        }
    }

    /// Decodes the next operation; `None` if it is not counted.
    fn read(&mut self) -> Result<Option<Operation<'a>>, Refusal> {
        let decoder = &mut self.decoder;
        let start = decoder.position();
        let tag = decoder.u8("operation")?;
        let (kind, has_family) = match tag {
            0 | 1 | 2 | 7 | 15 | 17 | 22 | 24 => (tag, false),
            4..=6 => (tag - 4, true),
            8 | 23 | 25 => (tag - 1, true),
            14 | 16 => (tag + 1, true),
            3 => {
                decoder.length_prefixed("log data")?;
                return Ok(None);
            }
            13 => return Ok(None),
            9 | 10 | 11 | 12 | 18 | 19 | 21 => {
                return Err(unsupported(
                    "a two-phase transaction in the log; let RocksDB open the database, and flush it",
                ));
            }
            _ => return Err(unsupported(format!("an operation of type {tag}"))),
        };
        let family = match has_family {
            true => decoder.varint32("column family")?,
            false => 0,
        };
        let key = decoder.length_prefixed("key")?;
        let value = match kind {
            0 | 7 => &[],
            _ => decoder.length_prefixed("value")?,
        };
        if kind == 24 {
            decoder.bytes(8, "write time")?;
        }
        if kind == EntryKind::RangeDeletion as u8 && key > value {
            return Err(
                Damage::new(start, "a range that ends after its start", "the reverse").into()
            );
        }
        Ok(Some(Operation { family, kind, key, value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::coding::{put_fixed32, put_fixed64, put_length_prefixed};

    fn batch(count: u32, operations: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_fixed64(&mut out, 40);
        put_fixed32(&mut out, count);
        out.extend_from_slice(operations);
        out
    }

    fn operations(bytes: &[u8]) -> Result<Vec<(SequenceNumber, Operation<'_>)>, Refusal> {
        let mut batch = Batch::decode(bytes)?;
        let mut all = Vec::new();
        while let Some(operation) = batch.next()? {
            all.push(operation);
        }
        Ok(all)
    }

    #[test]
    fn every_kind_is_read_with_and_without_a_column_family() {
        let kinds = [(0, 4), (1, 5), (2, 6), (7, 8), (15, 14), (17, 16), (22, 23), (24, 25)];
        let mut bytes = Vec::new();
        for (plain, with_family) in kinds {
            for (tag, family) in [(plain, None), (with_family, Some(9u8))] {
                bytes.push(tag);
                bytes.extend(family);
                put_length_prefixed(&mut bytes, b"key");
                if !matches!(plain, 0 | 7) {
                    put_length_prefixed(&mut bytes, b"value");
                }
                if plain == 24 {
                    bytes.extend_from_slice(&[1; 8]);
                }
                // Operations that are not counted take no sequence number.
                bytes.extend_from_slice(&[13, 3, 2, b'x', b'y']);
            }
        }
        let bytes = batch(16, &bytes);
        let read = operations(&bytes).unwrap();
        assert_eq!(read.len(), 16);
        for (i, (sequence, operation)) in read.into_iter().enumerate() {
            let kind = kinds[i / 2].0;
            assert_eq!(sequence, 40 + i as u64);
            let family = if i % 2 == 0 { 0 } else { 9 };
            let value: &[u8] = if matches!(kind, 0 | 7) { b"" } else { b"value" };
            assert_eq!(operation, Operation { family, kind, key: b"key", value });
        }
    }

    #[test]
    fn counts_that_do_not_match_are_damage() {
        let put = [1, 1, b'k', 1, b'v'];
        assert_eq!(operations(&batch(1, &put)).unwrap().len(), 1);
        assert_eq!(operations(&batch(0, &[])).unwrap(), []);
        for count in [0, 2, u32::MAX] {
            let wrong = batch(count, &put);
            assert!(matches!(operations(&wrong), Err(Refusal::Damage(_))), "{count}");
        }
        for cut in 0..batch(1, &put).len() {
            assert!(operations(&batch(1, &put)[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn transactions_and_unknown_operations_are_refused_by_name() {
        for tag in [9, 10, 11, 12, 18, 19, 21] {
            let bytes = batch(0, &[tag, 0, 0]);
            let Err(Refusal::Unsupported(what)) = operations(&bytes) else { panic!("{tag}") };
            assert!(what.contains("two-phase"), "{what}");
        }
        let bytes = batch(1, &[99, 0, 0]);
        assert!(matches!(operations(&bytes), Err(Refusal::Unsupported(_))));
    }
}
