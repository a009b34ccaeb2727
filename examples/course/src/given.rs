//! Given to the learner: integers, handles and keys as RocksDB's tables store them. Most steps use
//! them.
//!
//! ```text
//! fixed32 / fixed64   4 / 8 bytes, little-endian
//! varint              7 bits a byte, low group first, high bit set = more follows
//! handle              varint offset of a block, varint size of it (without its trailer)
//! internal key        user key, then fixed64: sequence number << 8 | kind
//! ```
//!
//! Bytes from a disk may be damaged, so each function that decodes bytes returns an error if they
//! are not valid.

use std::io;

/// An error that says that `what` is damaged.
pub fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged: {what}"))
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a varint from the front of `bytes`.
pub fn take_varint(bytes: &mut &[u8]) -> io::Result<u64> {
    let mut value = 0;
    for i in 0..10 {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(damaged("a varint of more than ten bytes"))
}

/// Takes `count` bytes from the front of `bytes`.
pub fn take<'a>(bytes: &mut &'a [u8], count: u64) -> io::Result<&'a [u8]> {
    let at = usize::try_from(count).ok().filter(|&count| count <= bytes.len());
    let (taken, rest) = bytes.split_at(at.ok_or_else(|| damaged("it ends too early"))?);
    *bytes = rest;
    Ok(taken)
}

/// The four bytes from offset `at` on, as a number.
pub fn fixed32(bytes: &[u8], at: usize) -> io::Result<u32> {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk());
    Ok(u32::from_le_bytes(*four.ok_or_else(|| damaged("it ends too early"))?))
}

/// Where a block lies in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub offset: u64,
    /// Bytes, without the five bytes of the trailer behind the block.
    pub size: u64,
}

impl Handle {
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.offset);
        put_varint(&mut out, self.size);
        out
    }

    /// Takes a handle from the front of `bytes`.
    pub fn take(bytes: &mut &[u8]) -> io::Result<Handle> {
        Ok(Handle { offset: take_varint(bytes)?, size: take_varint(bytes)? })
    }
}

/// The kind of an entry that deletes its key.
pub const DELETION: u8 = 0;
/// The kind of an entry that has a value.
pub const VALUE: u8 = 1;

pub fn internal_key(user_key: &[u8], sequence: u64, kind: u8) -> Vec<u8> {
    [user_key, &(sequence << 8 | u64::from(kind)).to_le_bytes()].concat()
}

/// Splits an internal key into user key, sequence number and kind. If it has fewer than eight
/// bytes, the user key is empty, and both numbers are 0.
pub fn split_key(internal: &[u8]) -> (&[u8], u64, u8) {
    let (user_key, tail) = internal.split_last_chunk().unwrap_or((&[], &[0; 8]));
    let tail = u64::from_le_bytes(*tail);
    (user_key, tail >> 8, tail as u8)
}

/// The entry of a key in the memtable or in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub sequence: u64,
    /// `None` is a tombstone: the key was deleted.
    pub value: Option<Vec<u8>>,
}
