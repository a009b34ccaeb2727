//! [`Dump`]: prints the bytes of a file as fields, always forwards.
//!
//! ```text
//!   offset  bytes, 16 a line                                 meaning
//!        8  02 00 00 00                                      format version: 2
//!       +3  61 70 70 6c 65                                   offset within an uncompressed block
//!       64  … 4032 more bytes                                a long field is cut
//! ```
//!
//! Invariant: [`Dump::position`] only grows, by the length of each printed field. So every byte is
//! in exactly one field, whichever bytes the caller peeks at.
//!
//! A *part* is a range of bytes that is printed under one heading: a block or a record.

use std::fmt;
use std::fmt::{Display, Write};

use crate::encoding::coding::{fixed32, fixed64, varint};
use crate::error::Damage;

/// Bytes on a line.
const LINE_BYTES: usize = 16;
/// The longest field, in bytes, that is printed whole.
const MAX_FIELD_BYTES: usize = 256;
/// The number of bytes of a cut field that are printed.
const CUT_FIELD_BYTES: usize = 64;
/// At most this many bytes of a key or a value are quoted as text.
const QUOTED_BYTES: usize = 60;

/// Why the printing of a part stopped before its end.
pub(super) enum Stop {
    /// The meaning of the bytes from the current position on is unknown, for this reason.
    Unclear(String),
    /// Writing to the output failed.
    Print(fmt::Error),
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Stop {
        Stop::Unclear(format!("expected {}, found {}", damage.expected, damage.found))
    }
}

impl From<fmt::Error> for Stop {
    fn from(error: fmt::Error) -> Stop {
        Stop::Print(error)
    }
}

/// The bytes of a file or of an uncompressed block, and the position up to which they were dumped.
pub(super) struct Dump<'a, 'w> {
    out: &'w mut dyn Write,
    bytes: &'a [u8],
    position: usize,
    /// The end of the part that is being printed, as an index of `bytes`.
    end: usize,
    /// The text before each offset: `+` if the dump is of an uncompressed block, whose offsets do
    /// not count from the start of the file; else empty.
    mark: &'static str,
    longest_field: usize,
}

impl<'a, 'w> Dump<'a, 'w> {
    pub fn new(out: &'w mut dyn Write, bytes: &'a [u8]) -> Dump<'a, 'w> {
        Dump { out, bytes, position: 0, end: bytes.len(), mark: "", longest_field: MAX_FIELD_BYTES }
    }

    /// A dump that cuts no field.
    #[cfg(test)]
    pub fn whole(self) -> Dump<'a, 'w> {
        Dump { longest_field: usize::MAX, ..self }
    }

    /// A dump of a block's uncompressed bytes.
    pub fn uncompressed<'b>(&mut self, bytes: &'b [u8]) -> Dump<'b, '_> {
        Dump {
            out: &mut *self.out,
            bytes,
            position: 0,
            end: bytes.len(),
            mark: "+",
            longest_field: self.longest_field,
        }
    }

    /// All bytes, printed or not.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The position: everything before it is printed.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The bytes of the current part that are not printed yet.
    pub fn remaining(&self) -> &'a [u8] {
        &self.bytes[self.position..self.end]
    }

    /// Returns the next `count` bytes, but does not print them. An error names them as `what`.
    pub fn peek(&self, count: usize, what: &str) -> Result<&'a [u8], Stop> {
        self.remaining().get(..count).ok_or_else(|| {
            let left = self.remaining().len();
            Stop::Unclear(format!("expected {count} bytes of {what}, found {left}"))
        })
    }

    /// Prints `text` on a line that shows no offset and no bytes.
    pub fn remark(&mut self, text: impl Display) -> fmt::Result {
        writeln!(self.out, "{:>8}  {text}", "")
    }

    /// Prints a heading, and then calls `print` for the bytes up to `end`. If `print` returns
    /// before it has printed all of them, the others are printed as one field that is "not
    /// understood", with the reason that `print` returned, if any.
    pub fn part(
        &mut self,
        heading: impl Display,
        end: usize,
        print: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> fmt::Result {
        if self.position > 0 {
            writeln!(self.out)?;
        }
        writeln!(self.out, "{heading}")?;
        self.section(end, print)
    }

    /// Like [`Dump::part`], but without a heading.
    pub fn section(
        &mut self,
        end: usize,
        print: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> fmt::Result {
        let outer = self.end;
        self.end = end.clamp(self.position, outer);
        let printed = print(self);
        let remaining = self.remaining().len();
        let result = match printed {
            Err(Stop::Print(error)) => Err(error),
            Err(Stop::Unclear(reason)) if remaining == 0 => {
                self.remark(format_args!("not understood: {reason}"))
            }
            Err(Stop::Unclear(reason)) => {
                self.field(remaining, format_args!("not understood: {reason}"))
            }
            Ok(()) => self.field(remaining, "not understood: more bytes than are expected here"),
        };
        self.end = outer;
        result
    }

    /// Prints the next `count` bytes as one field. If the part has fewer bytes left, prints those.
    pub fn field(&mut self, count: usize, meaning: impl Display) -> fmt::Result {
        let field = &self.remaining()[..count.min(self.remaining().len())];
        let printed = if field.len() > self.longest_field { CUT_FIELD_BYTES } else { field.len() };
        let mut hex = String::with_capacity(3 * LINE_BYTES);
        for (i, line) in field[..printed].chunks(LINE_BYTES).enumerate() {
            hex.clear();
            for byte in line {
                write!(hex, "{byte:02x} ")?;
            }
            self.offset(i * LINE_BYTES)?;
            match i {
                0 => writeln!(self.out, "{hex:<48} {meaning}")?,
                _ => writeln!(self.out, "{}", hex.trim_end())?,
            }
        }
        if printed < field.len() {
            self.offset(printed)?;
            writeln!(self.out, "… {} more bytes", field.len() - printed)?;
        }
        self.position += field.len();
        Ok(())
    }

    /// Prints the offset of the byte that is `ahead` bytes after the position.
    fn offset(&mut self, ahead: usize) -> fmt::Result {
        write!(self.out, "{:>8}  ", format!("{}{}", self.mark, self.position + ahead))
    }

    pub fn byte(&mut self, what: &str) -> Result<u8, Stop> {
        let value = self.peek(1, what)?[0];
        self.field(1, format_args!("{what}: {value}"))?;
        Ok(value)
    }

    pub fn fixed32(&mut self, what: &str) -> Result<u32, Stop> {
        let value = fixed32(self.peek(4, what)?);
        self.field(4, format_args!("{what}: {value}"))?;
        Ok(value)
    }

    pub fn fixed64(&mut self, what: &str) -> Result<u64, Stop> {
        let value = fixed64(self.peek(8, what)?);
        self.field(8, format_args!("{what}: {value}"))?;
        Ok(value)
    }

    /// Returns the varint that begins `ahead` bytes after the position, and its length in bytes.
    /// Does not print the varint.
    pub fn peek_varint(&self, ahead: usize, what: &str) -> Result<(u64, usize), Stop> {
        let found = self.remaining().get(ahead..).and_then(varint);
        found.ok_or_else(|| Stop::Unclear(format!("expected a varint: {what}, found none")))
    }

    pub fn varint(&mut self, what: &str) -> Result<u64, Stop> {
        let (value, bytes) = self.peek_varint(0, what)?;
        self.field(bytes, format_args!("{what}: {value}"))?;
        Ok(value)
    }

    /// Prints the length of a string. Returns the string, which is not printed yet.
    pub fn length_of(&mut self, what: &str) -> Result<&'a [u8], Stop> {
        let (length, bytes) = self.peek_varint(0, what)?;
        self.field(bytes, format_args!("{length} bytes of {what}"))?;
        self.peek(usize::try_from(length).unwrap_or(usize::MAX), what)
    }

    /// Prints a length and the string that follows.
    pub fn length_prefixed(&mut self, what: &str) -> Result<(), Stop> {
        let string = self.length_of(what)?;
        Ok(self.field(string.len(), format_args!("{what}: {}", quoted(string)))?)
    }

    /// Prints a stored checksum and compares it with the computed one.
    pub fn checksum(&mut self, what: &str, computed: u32) -> Result<(), Stop> {
        let stored = fixed32(self.peek(4, what)?);
        match stored == computed {
            true => self.field(4, format_args!("{what}: right"))?,
            false => self.field(4, format_args!("{what}: WRONG, should be {computed:#010x}"))?,
        }
        Ok(())
    }
}

/// Returns bytes as printable text. A long text is cut.
pub(super) fn quoted(bytes: &[u8]) -> String {
    match bytes.get(..QUOTED_BYTES) {
        Some(front) if bytes.len() > QUOTED_BYTES => format!("\"{}\"…", front.escape_ascii()),
        _ => format!("\"{}\"", bytes.escape_ascii()),
    }
}

/// Returns numbers as a list, separated by commas. A long list is cut.
pub(super) fn listed(numbers: impl IntoIterator<Item = impl Display>) -> String {
    const MOST: usize = 8;
    let mut list = String::new();
    for (i, number) in numbers.into_iter().enumerate() {
        if i == MOST {
            return list + ", …";
        }
        list += if i == 0 { "" } else { ", " };
        list += &number.to_string();
    }
    list
}
