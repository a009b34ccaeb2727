//! Entries from a file or standard input, read one after the other, so that the input may be larger
//! than memory.
//!
//! ```text
//! keys      a key a line
//! tsv       a key, a tab and a value a line, without escapes: a key cannot hold a tab or a line
//!           feed, and a value cannot hold a line feed
//! escaped   the same as `scan` prints it: \xNN is a byte, \\ a backslash
//! binary    length of the key, key, length of the value, value; and so on
//!           4 bytes   n bytes  4 bytes              n bytes      lengths are little-endian
//! ```

mod encoding;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read, stdin};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use encoding::Encoding;

use crate::failure::{Failure, Result};
use crate::output::{printable, tell};
use crate::show::text::{escape, unescape};
use crate::space;

/// The format of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A key a line
    Keys,
    /// A key, a tab and a value a line, without escapes
    Tsv,
    /// The same as tsv, but with escapes, as scan prints them: \xNN stands for a byte
    Escaped,
    /// Length of the key, key, length of the value, value; lengths are 4 bytes, little-endian
    Binary,
}

/// The most bytes that are read for a key, and for a value. In a format of lines, it is the limit
/// for key and value together. A table accepts 8 bytes less for both together, because its limit
/// includes the trailer of the internal key.
const MAX_ENTRY_BYTES: u32 = 1 << 30;
/// An entry larger than this is accepted only if there is memory for its copies: in the input, in a
/// batch, in a memtable and in a block.
const LARGE_ENTRY_BYTES: usize = 16 << 20;
const COPIES: u64 = 4;
/// The most bytes that an error shows of a line that cannot be read.
const SHOWN_BYTES: usize = 60;

/// A source of entries.
pub struct Input {
    source: Box<dyn BufRead>,
    path: PathBuf,
    /// Bytes of the file. `None` for standard input.
    pub file_bytes: Option<u64>,
    format: Format,
    /// Entries read so far.
    entries: u64,
    /// Bytes read so far.
    pub bytes_read: u64,
    /// While a line is read, `key` holds the whole line; afterwards, only the key. The memory of
    /// `key` and `value` is reused for the next entry.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Input {
    /// Opens a file; `-` is standard input. In a format of lines, a byte order mark of UTF-8 is
    /// skipped, and other encodings are a failure.
    pub fn open(path: &Path, format: Format) -> Result<Input> {
        let (mut source, file_bytes) = source(path)?;
        let mut bytes_read = 0;
        if format != Format::Binary {
            let start = source.fill_buf();
            let start = start.map_err(|error| Failure::of_file(path, "read", &error))?;
            let mark = marked(start, path)?;
            source.consume(mark);
            bytes_read = mark as u64;
        }
        let path = path.to_owned();
        let (key, value) = (Vec::new(), Vec::new());
        Ok(Input { source, path, file_bytes, format, entries: 0, bytes_read, key, value })
    }

    /// Whether nothing is left to read.
    pub fn is_at_end(&mut self) -> Result<bool> {
        match self.source.fill_buf() {
            Ok(bytes) => Ok(bytes.is_empty()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The next key and value; the value of a line that is only a key is empty.
    pub fn next_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.is_at_end()? {
            return Ok(None);
        }
        self.entries += 1;
        match self.format {
            Format::Binary => self.read_binary()?,
            _ => self.read_line()?,
        }
        let bytes = self.key.len() + self.value.len();
        self.check_memory(bytes)?;
        Ok(Some((&self.key, &self.value)))
    }

    /// The position of the entry that was read last: `keys.tsv: line 7`.
    pub fn location(&self) -> impl fmt::Display {
        let what = if self.format == Format::Binary { "entry" } else { "line" };
        format!("{}: {what} {}", name(&self.path), self.entries)
    }

    /// Reads a line into key and value.
    fn read_line(&mut self) -> Result {
        self.key.clear();
        self.value.clear();
        let most = self.most_line_bytes();
        loop {
            let piece = match self.source.fill_buf() {
                Ok(piece) => piece,
                Err(error) => return Err(self.failed(error)),
            };
            let end = piece.iter().position(|&byte| byte == b'\n');
            let (taken, used) = end.map_or((piece.len(), piece.len()), |end| (end, end + 1));
            if self.key.len() + taken > most {
                return Err(self.refused("it is longer than any entry may be"));
            }
            // A line may have no end, so the memory for it may run out.
            if self.key.try_reserve(taken).is_err() {
                return Err(self.refused("it is longer than memory holds"));
            }
            self.key.extend_from_slice(&piece[..taken]);
            self.source.consume(used);
            self.bytes_read += used as u64;
            if end.is_some() || used == 0 {
                break;
            }
        }
        self.check_memory(self.key.len())?;
        if self.format == Format::Keys {
            return Ok(());
        }
        let Some(tab) = self.key.iter().position(|&byte| byte == b'\t') else {
            let shown = escape(&self.key[..self.key.len().min(SHOWN_BYTES)]);
            let what = format!("expected a key, a tab and a value, found \"{shown}\"");
            return Err(self.refused(what));
        };
        self.value.extend_from_slice(&self.key[tab + 1..]);
        self.key.truncate(tab);
        if self.format == Format::Escaped {
            self.key = unescape(&self.key);
            self.value = unescape(&self.value);
        }
        Ok(())
    }

    /// The most bytes of a line: those of the largest entry with its tab. If the format has
    /// escapes, each byte of the entry may take four.
    fn most_line_bytes(&self) -> usize {
        let most = MAX_ENTRY_BYTES as usize;
        match self.format {
            Format::Escaped => most.saturating_mul(4) + 1,
            _ => most + 1,
        }
    }

    fn read_binary(&mut self) -> Result {
        let (key, value) = (std::mem::take(&mut self.key), std::mem::take(&mut self.value));
        self.key = self.read_field("key", key)?;
        self.value = self.read_field("value", value)?;
        Ok(())
    }

    /// Reads a length and that number of bytes. Memory is allocated as bytes arrive, not up front
    /// from the length.
    fn read_field(&mut self, what: &str, mut field: Vec<u8>) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        let read = self.source.read_exact(&mut length);
        read.map_err(|error| self.cut_short(what, error))?;
        let length = u32::from_le_bytes(length);
        if length > MAX_ENTRY_BYTES {
            return Err(self.refused(format_args!(
                "a {what} of {length} bytes: at most {MAX_ENTRY_BYTES} can be stored; are the \
                 lengths 4 bytes, little-endian?"
            )));
        }
        field.clear();
        self.check_memory(length as usize)?;
        let read = (&mut self.source).take(length.into()).read_to_end(&mut field);
        let read = read.map_err(|error| self.failed(error))?;
        self.bytes_read += 4 + read as u64;
        if read < length as usize {
            return Err(self.refused(format_args!(
                "it ends after {read} of the {length} bytes of its {what}"
            )));
        }
        Ok(field)
    }

    fn cut_short(&self, what: &str, error: std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                self.refused(format_args!("it ends in the length of its {what}"))
            }
            _ => self.failed(error),
        }
    }

    fn check_memory(&self, entry_bytes: usize) -> Result {
        if entry_bytes <= LARGE_ENTRY_BYTES {
            return Ok(());
        }
        let enough = space::check_memory(COPIES * entry_bytes as u64);
        enough.map_err(|_| self.refused("there is not enough memory for its copies"))
    }

    fn failed(&self, error: std::io::Error) -> Failure {
        Failure::of_file(&self.path, "read", &error)
    }

    fn refused(&self, why: impl fmt::Display) -> Failure {
        Failure::new(format_args!("{}: {why}", self.location()))
    }
}

/// Opens a file for reading. Returns a reader of its bytes and, for a regular file, their number.
/// `-` is standard input. Fails for a device such as `/dev/zero`, which has no end.
pub fn source(path: &Path) -> Result<(Box<dyn BufRead>, Option<u64>)> {
    if path == Path::new("-") {
        if stdin().is_terminal() {
            tell("note: reading from the terminal; Ctrl-D ends it");
        }
        return Ok((Box::new(BufReader::with_capacity(1 << 20, stdin())), None));
    }
    let failed = |error| Failure::of_file(path, "open", &error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(Failure::new(format_args!("{}: is a directory, no file", name(path))));
    }
    if is_endless(&metadata) && !file.is_terminal() {
        let what = "is a device, which has no end: expected a file or a pipe";
        return Err(Failure::new(format_args!("{}: {what}", name(path))));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::with_capacity(1 << 20, file)), bytes))
}

/// Whether a file is a device without an end. `/dev/null` has an end: it is an empty file.
fn is_endless(metadata: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let null = std::fs::metadata("/dev/null").map(|null| null.rdev()).ok();
        metadata.file_type().is_char_device() && null != Some(metadata.rdev())
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        false
    }
}

/// The text of a whole file, without its byte order mark.
pub fn as_text(mut bytes: Vec<u8>, path: &Path) -> Result<Vec<u8>> {
    let mark = marked(&bytes, path)?;
    bytes.drain(..mark);
    Ok(bytes)
}

/// The length of the byte order mark of UTF-8 at the start of a file, or 0 if there is none. The
/// mark does not belong to the first line. Fails if the file is compressed or in another encoding,
/// because each of its lines would become a wrong key.
fn marked(start: &[u8], path: &Path) -> Result<usize> {
    match Encoding::of(start) {
        Encoding::Plain => Ok(0),
        Encoding::Utf8Mark => {
            tell(format_args!("note: {}: left out its byte order mark", name(path)));
            Ok(encoding::UTF8_MARK.len())
        }
        Encoding::Other { what, plainly } => Err(Failure::new(format_args!(
            "{}: is {what}, and its lines would be no keys: give the output of `{plainly}`",
            name(path)
        ))),
    }
}

/// The name of a file in messages.
pub fn name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_string(),
        _ => printable(&path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entries = Vec<(Vec<u8>, Vec<u8>)>;

    fn read(format: Format, text: &[u8]) -> std::result::Result<Entries, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut input = Input::open(file.path(), format).unwrap();
        let mut entries = Vec::new();
        loop {
            match input.next_entry() {
                Ok(None) => break,
                Ok(Some((key, value))) => entries.push((key.to_vec(), value.to_vec())),
                Err(Failure::Message(message)) => return Err(message),
                Err(Failure::OutputClosed | Failure::Call(_)) => unreachable!(),
            }
        }
        assert_eq!(input.bytes_read, text.len() as u64);
        Ok(entries)
    }

    fn entry(key: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (key.to_vec(), value.to_vec())
    }

    #[test]
    fn the_same_bytes_mean_what_their_format_says() {
        let text = b"a\\x41\tb\tc\n\t\\\\";
        let (first, last) = (entry(b"a\\x41", b"b\tc"), entry(b"", b"\\\\"));
        assert_eq!(read(Format::Tsv, text), Ok(vec![first, last]));
        let (first, last) = (entry(b"aA", b"b\tc"), entry(b"", b"\\"));
        assert_eq!(read(Format::Escaped, text), Ok(vec![first, last]));
        let (first, last) = (entry(b"a\\x41\tb\tc", b""), entry(b"\t\\\\", b""));
        assert_eq!(read(Format::Keys, text), Ok(vec![first, last]));
        assert_eq!(read(Format::Tsv, b""), Ok(Vec::new()));
    }

    #[test]
    fn binary_entries_hold_any_bytes_and_are_not_believed() {
        let text = b"\x02\0\0\0\n\t\0\0\0\0\0\0\0\0\x01\0\0\0v";
        let entries = vec![entry(b"\n\t", b""), entry(b"", b"v")];
        assert_eq!(read(Format::Binary, text), Ok(entries));
        for cut in [1, 5, 9, 11, 15, 18] {
            let error = read(Format::Binary, &text[..cut]).unwrap_err();
            let n = if cut > 10 { 2 } else { 1 };
            assert!(error.contains(&format!("entry {n}: it ends")), "{cut}: {error}");
        }
        // A short key whose length is written in the wrong byte order seems to be very long.
        let error = read(Format::Binary, b"\0\0\0\x02ab").unwrap_err();
        assert!(error.contains("33554432 bytes") || error.contains("little-endian"), "{error}");
        let error = read(Format::Binary, b"\0\0\0\x7fab").unwrap_err();
        assert!(error.contains("little-endian"), "{error}");
    }

    #[test]
    fn a_line_without_a_tab_is_named() {
        let error = read(Format::Tsv, b"a\t1\nb\nc\t3\n").unwrap_err();
        assert!(
            error.contains("line 2: expected a key, a tab") && error.contains("\"b\""),
            "{error}"
        );
    }
}
