//! Little-endian integers, varints and length-prefixed strings: the building blocks of every
//! format.
//!
//! ```text
//! fixed16 / fixed32 / fixed64   2 / 4 / 8 bytes, little-endian
//! varint32 / varint64           7 bits a byte, low group first, high bit set = more follows
//! length-prefixed bytes         varint32 length, then the bytes
//! ```
//!
//! [`Decoder`] reads untrusted bytes: every read is checked, and an error names the position. The
//! encoding is the same as LevelDB's and RocksDB's (`util/coding.h` of either).

use byteorder::{ByteOrder, LittleEndian};

use crate::error::Damage;

/// The most bytes a varint64 takes.
pub(crate) const MAX_VARINT64_BYTES: usize = 10;

#[inline]
pub(crate) fn put_fixed32(out: &mut Vec<u8>, value: u32) {
    let mut bytes = [0; 4];
    LittleEndian::write_u32(&mut bytes, value);
    out.extend_from_slice(&bytes);
}

#[inline]
pub(crate) fn put_fixed64(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; 8];
    LittleEndian::write_u64(&mut bytes, value);
    out.extend_from_slice(&bytes);
}

#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(crate) fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The first four bytes of `bytes` as a number. The caller has checked that they exist.
#[inline]
pub(crate) fn fixed32(bytes: &[u8]) -> u32 {
    LittleEndian::read_u32(bytes)
}

/// The first eight bytes of `bytes` as a number. The caller has checked that they exist.
#[inline]
pub(crate) fn fixed64(bytes: &[u8]) -> u64 {
    LittleEndian::read_u64(bytes)
}

/// A varint64 at the front of `bytes`, and its length in bytes; `None` when it is cut short or does
/// not fit 64 bits.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(MAX_VARINT64_BYTES).enumerate() {
        // The first nine bytes hold 63 bits, so the tenth holds only one.
        if i == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Reads forward through untrusted bytes.
#[derive(Clone)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Decoder<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { bytes, position: 0 }
    }

    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    #[inline]
    pub fn remaining(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.position == self.bytes.len()
    }

    #[inline]
    pub fn bytes(&mut self, count: usize, what: &str) -> Result<&'a [u8], Damage> {
        let rest = self.remaining();
        if count > rest.len() {
            return Err(Damage::new(
                self.position,
                format_args!("{count} bytes of {what}"),
                format_args!("{} bytes", rest.len()),
            ));
        }
        self.position += count;
        Ok(&rest[..count])
    }

    #[inline]
    pub fn u8(&mut self, what: &str) -> Result<u8, Damage> {
        Ok(self.bytes(1, what)?[0])
    }

    #[inline]
    pub fn varint(&mut self, what: &str) -> Result<u64, Damage> {
        match varint(self.remaining()) {
            Some((value, length)) => {
                self.position += length;
                Ok(value)
            }
            None => Err(Damage::new(self.position, format_args!("a varint: {what}"), "none")),
        }
    }

    /// Reads a varint. A value above `most` is an error, which names `expected` as the expected
    /// value.
    pub fn varint_up_to(
        &mut self,
        most: u64,
        what: &str,
        expected: impl std::fmt::Display,
    ) -> Result<u64, Damage> {
        let start = self.position;
        match self.varint(what)? {
            value if value <= most => Ok(value),
            value => Err(Damage::new(start, expected, value)),
        }
    }

    #[inline]
    pub fn varint32(&mut self, what: &str) -> Result<u32, Damage> {
        let start = self.position;
        let value = self.varint(what)?;
        u32::try_from(value)
            .map_err(|_| Damage::new(start, format_args!("{what} below 2^32"), value))
    }

    #[inline]
    pub fn length_prefixed(&mut self, what: &str) -> Result<&'a [u8], Damage> {
        let length = self.varint32(what)?;
        self.bytes(length as usize, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) | 1] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(varint(&out), Some((value, out.len())));
                assert_eq!(varint(&out[..out.len() - 1]), None, "a cut varint was read");
            }
        }
    }

    #[test]
    fn a_varint_past_64_bits_is_refused() {
        assert_eq!(varint(&[0xff; 11]), None);
        let mut eleven_groups = vec![0x80; 9];
        eleven_groups.push(2);
        assert_eq!(varint(&eleven_groups), None);
    }

    #[test]
    fn a_failure_says_where() {
        let mut decoder = Decoder::new(&[1, 2, 3]);
        decoder.u8("tag").unwrap();
        let damage = decoder.bytes(4, "length").unwrap_err();
        assert_eq!(damage.offset, 1);
        assert_eq!(decoder.position(), 1, "a failed read must not move");
    }
}
