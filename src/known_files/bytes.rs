//! Recognises a file of another program by its first and last bytes.

use std::path::Path;

use super::known::{Known, MAYPOLE_LOG};
use crate::encoding::coding::fixed32;
use crate::fs::Fs;

/// Bytes read from the start of a file. A log of LevelDB or RocksDB consists of blocks of this
/// size, so these bytes contain its first record or the record's first fragment.
const HEAD_BYTES: u64 = 32 << 10;
/// Bytes read from the end of the file.
const TAIL_BYTES: u64 = 64;

const ROCKSDB_TABLE: u64 = 0x88e2_41b7_85f4_cff7;

const TAKE_IN: &str = "Maypole takes in tables of RocksDB's SstFileWriter (`maypole ingest`) and \
                       lines of text (`maypole load`)";
const UNPACK: &str = "unpack it first";

/// Where in a file a magic number is.
enum At {
    Start(usize),
    End,
}

/// Magic numbers: where each is, which kind of file it identifies, and what the user can do with
/// such a file. The first match counts.
const MAGICS: &[(At, &[u8], &str, &str)] = &[
    (
        At::End,
        &0xdb47_7524_8b80_fb57_u64.to_le_bytes(),
        "a table of LevelDB",
        "LevelDB reads it, and RocksDB too, up to format_version 1; `maypole import` takes the whole \
         database",
    ),
    (
        At::End,
        &0x8242_2296_63bf_9564_u64.to_le_bytes(),
        "a plain table of RocksDB (PlainTable)",
        TAKE_IN,
    ),
    (
        At::End,
        &0x4f34_18eb_7a8f_13b8_u64.to_le_bytes(),
        "a plain table of RocksDB (PlainTable)",
        TAKE_IN,
    ),
    (
        At::End,
        &0x9267_89d0_c5f1_7873_u64.to_le_bytes(),
        "a cuckoo table of RocksDB (CuckooTable)",
        TAKE_IN,
    ),
    (At::Start(0), b"DATABLK", "an HFile of HBase", "HBase's `hbase hfile` prints it"),
    (At::Start(0), b"PAR1", "a Parquet file", ""),
    (At::Start(0), b"PARE", "an encrypted Parquet file", ""),
    (At::Start(0), b"ORC", "an ORC file", ""),
    (At::Start(0), b"Obj\x01", "an Avro file", ""),
    (At::Start(0), b"ARROW1", "an Arrow file", ""),
    (At::Start(0), b"SQLite format 3\0", "a database of SQLite", "SQLite's `sqlite3` opens it"),
    (At::Start(0), b"redb\x1a\x0a\xa9\x0d\x0a", "a database of redb", ""),
    (
        At::Start(16),
        &0xbeef_c0de_u32.to_le_bytes(),
        "a database of LMDB",
        "LMDB's `mdb_dump` prints it",
    ),
    (At::Start(0), &[0x1f, 0x8b], "a file that gzip compressed", UNPACK),
    (At::Start(0), &[0x28, 0xb5, 0x2f, 0xfd], "a file that zstd compressed", UNPACK),
    (At::Start(0), &[0x04, 0x22, 0x4d, 0x18], "a file that lz4 compressed", UNPACK),
    (At::Start(0), &[0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00], "a file that xz compressed", UNPACK),
    (At::Start(0), b"BZh", "a file that bzip2 compressed", UNPACK),
    (At::Start(0), b"PK\x03\x04", "a ZIP archive", UNPACK),
    (At::Start(257), b"ustar", "a tar archive", UNPACK),
    (At::Start(0), &[0xff, 0xfe], "text in UTF-16", "`maypole load` reads text in UTF-8"),
    (At::Start(0), &[0xfe, 0xff], "text in UTF-16", "`maypole load` reads text in UTF-8"),
    (At::Start(0), b"\x7fELF", "a program", ""),
];

/// The last bytes of a table in Pebble's own format. The format's version, a fixed32, is before
/// them.
const PEBBLE: [u8; 8] = [0xf0, 0x9f, 0xaa, 0xb3, 0xf0, 0x9f, 0xaa, 0xb3];

/// The kind of the file at `path`, if it is known to be another program's. `None` for a file of an
/// unknown kind, for a log of Maypole's, for a table in RocksDB's format, which Maypole's tables
/// have too, and for a file that cannot be read.
pub(crate) fn of_file(fs: &dyn Fs, path: &Path) -> Option<Known> {
    let file = fs.open(path).ok()?;
    let length = file.len();
    let mut head = vec![0; length.min(HEAD_BYTES) as usize];
    let mut tail = vec![0; length.min(TAIL_BYTES) as usize];
    file.read_exact_at(0, &mut head).ok()?;
    file.read_exact_at(length - tail.len() as u64, &mut tail).ok()?;
    of(&head, &tail)
}

/// The kind of a file of another program in a few words, such as "a table of LevelDB". `head` is
/// the start of the file or all of it, and `tail` is its end.
pub(crate) fn name_of(head: &[u8], tail: &[u8]) -> Option<String> {
    of(&head[..head.len().min(HEAD_BYTES as usize)], tail).map(|known| known.what)
}

fn of(head: &[u8], tail: &[u8]) -> Option<Known> {
    if head.starts_with(&MAYPOLE_LOG) || tail.ends_with(&ROCKSDB_TABLE.to_le_bytes()) {
        return None;
    }
    if let Some(before) = tail.strip_suffix(&PEBBLE)
        && before.len() >= 4
    {
        let version = fixed32(&before[before.len() - 4..]);
        let instead = "Pebble's `pebble sstable` prints it";
        return Some(Known::new(
            format!("a table of Pebble, in its own format v{version}"),
            instead,
        ));
    }
    let found = MAGICS.iter().find(|(at, magic, ..)| match *at {
        At::Start(offset) => head.get(offset..).is_some_and(|head| head.starts_with(magic)),
        At::End => tail.ends_with(magic),
    });
    if let Some(&(_, _, what, instead)) = found {
        return Some(Known::new(what, instead));
    }
    if let Some(log) = RecordLog::of(head) {
        return Some(Known::new(log.what(), "the database that it is part of reads it"));
    }
    is_text(head)
        .then(|| Known::new("a text file", "`maypole load` reads lines of key, tab, value"))
}

/// Whether the start of a file may be text: UTF-8 without control characters, except for tab, line
/// feed and carriage return.
fn is_text(head: &[u8]) -> bool {
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        // If `head` is not the whole file, its last character may be cut.
        Err(error) if error.error_len().is_none() && head.len() as u64 == HEAD_BYTES => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !valid.is_empty() && valid.chars().all(|c| !c.is_control() || matches!(c, '\t' | '\n' | '\r'))
}

/// The first record of a log of LevelDB, RocksDB or Pebble.
///
/// ```text
/// OFFSET  SIZE  MEANING
///      0     4  masked CRC-32C of all from offset 6 on
///      4     2  payload bytes
///      6     1  kind: 1 whole, 2 first fragment, 9 and 10 settings of the log; 5, 6 and 11 are
///               1, 2 and 10 in a recycled log, where a fixed32 number precedes the payload
///      7     …  payload
/// ```
pub(super) struct RecordLog<'a> {
    payload: &'a [u8],
}

impl<'a> RecordLog<'a> {
    /// The first record of the log that starts with `head`. `None` if `head` does not start with an
    /// undamaged record of such a log.
    pub fn of(head: &'a [u8]) -> Option<RecordLog<'a>> {
        let bytes = usize::from(u16::from_le_bytes(*head.get(4..)?.first_chunk()?));
        let payload_at = match head.get(6)? {
            1 | 2 | 9 | 10 => 7,
            5 | 6 | 11 => 11,
            _ => return None,
        };
        let end = payload_at + bytes;
        let checked = head.get(6..end)?;
        let masked = crc32c::crc32c(checked).rotate_right(15).wrapping_add(0xa282_ead8);
        (fixed32(head) == masked).then(|| RecordLog { payload: &head[payload_at..end] })
    }

    /// Whether the log is a MANIFEST. The first record of a MANIFEST contains the name of the
    /// comparator, or begins with the database's identity (tag 8193).
    fn is_manifest(&self) -> bool {
        self.holds(b"omparator") || matches!(self.payload.first_chunk(), Some([0x81, 0x40]))
    }

    /// Whether the log is certainly a MANIFEST of RocksDB, because its first version edit begins
    /// with tag 8193. LevelDB's edits have no tags above 9.
    pub fn is_rocksdbs_manifest(&self) -> bool {
        matches!(self.payload.first_chunk(), Some([0x81, 0x40]))
    }

    fn holds(&self, text: &[u8]) -> bool {
        self.payload.windows(text.len()).any(|window| window == text)
    }

    fn what(&self) -> &'static str {
        match (self.is_manifest(), self.is_rocksdbs_manifest()) {
            (_, true) => "a MANIFEST of RocksDB",
            (true, false) => "a MANIFEST of LevelDB, RocksDB or Pebble",
            (false, _) => "a write-ahead log of LevelDB, RocksDB or Pebble",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(head: &[u8], tail: &[u8]) -> String {
        name_of(head, tail).unwrap_or_default()
    }

    #[test]
    fn every_magic_number_has_its_name() {
        for (at, magic, what, _) in MAGICS {
            let (mut head, mut tail) = (vec![0; 300], vec![0; 64]);
            match *at {
                At::Start(offset) => head[offset..offset + magic.len()].copy_from_slice(magic),
                At::End => tail[64 - magic.len()..].copy_from_slice(magic),
            }
            assert_eq!(name(&head, &tail), *what);
        }
        for version in 1..=7u8 {
            let tail = [&[0; 44][..], &[version, 0, 0, 0], &PEBBLE].concat();
            assert_eq!(
                name(&[0; 300], &tail),
                format!("a table of Pebble, in its own format v{version}")
            );
        }
    }

    #[test]
    fn maypoles_own_files_and_noise_are_not_known() {
        let table = [&[0; 56][..], &ROCKSDB_TABLE.to_le_bytes()].concat();
        assert_eq!(
            name(b"PAR1", &table),
            "",
            "a table whose first block begins like a Parquet file"
        );
        assert_eq!(name(&MAYPOLE_LOG, &[]), "");
        let noise: Vec<u8> =
            (0..9000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(name(&noise, &noise[8936..]), "");
        assert_eq!(name(&[0; 300], &[0; 64]), "");
        assert_eq!(name(b"", b""), "");
    }

    #[test]
    fn text_is_told_from_bytes() {
        assert!(is_text("Käse\tgut\n".as_bytes()) && is_text(b"x"));
        assert!(!is_text(b"") && !is_text(b"a\0b") && !is_text(b"ab\xff"));
        let mut long = "ä".repeat(HEAD_BYTES as usize / 2 - 1).into_bytes();
        long.extend_from_slice(b"x\xc3");
        assert!(is_text(&long), "the last character is cut by what is read");
    }
}
