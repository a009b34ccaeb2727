//! The encoding of a text, recognized by its first bytes.

/// The byte order mark of UTF-8.
pub const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// How lines are written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As plain bytes, for example in UTF-8 without a byte order mark.
    Plain,
    /// As bytes after [`UTF8_MARK`].
    Utf8Mark,
    /// Compressed or in another encoding, as `what` says. The command `plainly` prints the lines as
    /// plain bytes.
    Other { what: &'static str, plainly: &'static str },
}

impl Encoding {
    /// The encoding of a text that begins with `start`. UTF-16 without a byte order mark is
    /// recognized only in a start of at least 32 bytes.
    pub fn of(start: &[u8]) -> Encoding {
        let other = |what, plainly| Encoding::Other { what, plainly };
        match start {
            [0x1f, 0x8b, 8, ..] => other("compressed by gzip", "gzip -dc FILE"),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => other("compressed by zstd", "zstd -dc FILE"),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => other("compressed by xz", "xz -dc FILE"),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => {
                other("compressed by bzip2", "bzip2 -dc FILE")
            }
            [0x04, 0x22, 0x4d, 0x18, ..] => other("compressed by lz4", "lz4 -dc FILE"),
            [b'P', b'K', 3, 4, ..] => other("a zip archive", "unzip -p FILE"),
            [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => other("a 7z archive", "7z x -so FILE"),
            // UTF-32 is checked first, because its little-endian mark begins with that of UTF-16.
            [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
                other("text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE")
            }
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                other("text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE")
            }
            [0xef, 0xbb, 0xbf, ..] => Encoding::Utf8Mark,
            _ if has_zero_at_every_second(start, 1) => {
                other("text in UTF-16", "iconv -f UTF-16LE -t UTF-8 FILE")
            }
            _ if has_zero_at_every_second(start, 0) => {
                other("text in UTF-16", "iconv -f UTF-16BE -t UTF-8 FILE")
            }
            _ => Encoding::Plain,
        }
    }
}

/// Whether each of the first 16 pairs of bytes consists of a zero at position `zero` and a
/// printable character, tab or line end. Binary numbers are unlikely to match 16 times in a row.
fn has_zero_at_every_second(start: &[u8], zero: usize) -> bool {
    const PAIRS: usize = 16;
    let mut pairs = start.chunks_exact(2).take(PAIRS);
    pairs.len() == PAIRS
        && pairs.all(|pair| {
            let (character, other) = (pair[1 - zero], pair[zero]);
            let is_text = matches!(character, b' '..=b'~' | b'\t' | b'\r' | b'\n');
            other == 0 && is_text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: `compare` once took the bytes of a compressed file for 9 keys and gave a verdict
    /// on them. It misread a file in UTF-16, too. Now compressed files and files in UTF-16 are
    /// recognized, so that they are rejected.
    #[test]
    fn compressed_texts_and_other_encodings_are_told_from_plain_ones() {
        let utf16 = |text: &str, to: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(to).collect()
        };
        let text = "first key\nsecond key\r\nthird key\n";
        let is_other = |bytes: &[u8]| matches!(Encoding::of(bytes), Encoding::Other { .. });
        for bytes in [
            &b"\x1f\x8b\x08\0\0"[..],
            b"\x28\xb5\x2f\xfd\x04",
            b"\xfd7zXZ\0\0\x04",
            b"BZh91AY&SY\x0a",
            b"PK\x03\x04\x14\0",
            b"\x04\x22\x4d\x18\x64\x40",
            b"7z\xbc\xaf\x27\x1c\0\x04",
            b"\xff\xfea\0",
            b"\xfe\xff\0a",
            b"\xff\xfe\0\0a\0\0\0",
            &utf16(text, u16::to_le_bytes),
            &utf16(text, u16::to_be_bytes),
        ] {
            assert!(is_other(bytes), "{bytes:?}");
        }
        assert_eq!(Encoding::of(b"\xef\xbb\xbfkey\n"), Encoding::Utf8Mark);
        // Keys are bytes, so texts that only slightly resemble an encoding are read as keys.
        for bytes in [
            &b""[..],
            b"\x1f\x8b",
            b"\xef\xbb",
            b"key\n",
            b"BZh9\n",
            b"PK\n",
            b"a\0b\0",
            b"\0\0\0\x07\0\0\0\x08\0\0\0\x09\0\0\0\x0a\0\0\0\x0b\0\0\0\x0c\0\0\0\x0d\0\0\0\x0e",
            "Schlüssel\n".as_bytes(),
        ] {
            assert_eq!(Encoding::of(bytes), Encoding::Plain, "{bytes:?}");
        }
    }
}
