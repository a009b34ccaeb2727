//! [`NewDatabase`]: writes the files that turn a directory of tables into a RocksDB database.
//!
//! ```text
//! MANIFEST-N      identity │ comparator, numbers, last sequence number │ every table of `default`
//!                          │ number, name, comparator │ every table of the next column family │ …
//! OPTIONS-(N+1)   the filter policy of each column family
//! IDENTITY        the identity of the database
//! CURRENT         names MANIFEST-N; written last: without it there is no database
//! ```
//!
//! N is above the numbers of all tables, and the next file number is above N + 1. There is no log.
//!
//! A database opens without OPTIONS, but RocksDB uses the filters of tables only if its options
//! name a filter policy. Options that the file does not name have RocksDB's defaults.

use std::path::Path;

use byteorder::{ByteOrder, LittleEndian};

use super::edit::{Edit, ListedTable};
use super::log::{
    BLOCK_BYTES, FIRST, HEADER_BYTES, LAST, MIDDLE, RECYCLABLE_HEADER_BYTES, WHOLE, masked_crc32c,
};
use super::options::escape;
use crate::encoding::coding::put_fixed32;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::fs;
use crate::fs::Fs;
use crate::version::edit::put_field;
use crate::version::names;

/// The tag of the database's identity in a version edit.
const IDENTITY_TAG: u64 = 8193;

/// A database. Its tables are already in the directory.
#[derive(Debug)]
pub(crate) struct NewDatabase {
    /// A UUID as text.
    pub identity: String,
    /// At least the largest sequence number of all entries, because RocksDB does not see entries
    /// above it.
    pub last_sequence: SequenceNumber,
    /// No column family has had a larger number.
    pub largest_family: u32,
    /// Number 0, `default`, comes first.
    pub families: Vec<NewFamily>,
}

/// A column family of a [`NewDatabase`].
#[derive(Debug)]
pub(crate) struct NewFamily {
    pub id: u32,
    pub name: Vec<u8>,
    /// The name of its comparator.
    pub comparator: String,
    pub tables: Vec<ListedTable>,
    /// In RocksDB's notation, such as `bloomfilter:10:false`. With `None`, RocksDB builds no filter
    /// for new tables, and does not use existing filters.
    pub filter_policy: Option<String>,
}

impl NewDatabase {
    /// Writes the files. When this returns, they and all names in the directory are durable.
    pub fn write(&self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        let tables = self.families.iter().flat_map(|family| &family.tables);
        let last_table = tables.map(|table| table.number).max().unwrap_or(0);
        let (manifest, options) = (last_table + 1, last_table + 2);
        let name = names::manifest_name(manifest);
        put_file(fs, &dir.join(&name), &self.manifest(options + 1))?;
        put_file(fs, &dir.join(format!("OPTIONS-{options:06}")), &self.options())?;
        put_file(fs, &dir.join("IDENTITY"), self.identity.as_bytes())?;
        fs.sync_dir(dir)?;
        fs::write_atomic(fs, &names::current_path(dir), format!("{name}\n").as_bytes())
    }

    /// The bytes of the MANIFEST. `next_file` is above the numbers of all files.
    fn manifest(&self, next_file: u64) -> Vec<u8> {
        let mut identity = Vec::new();
        put_field(&mut identity, IDENTITY_TAG, self.identity.as_bytes());
        let mut log = LogBytes::new(None);
        log.add(&identity);
        for family in &self.families {
            // Family 0 is there from the start, and carries what concerns the whole database.
            let of_database = family.id == 0;
            let state = Edit {
                family: family.id,
                created: (!of_database).then(|| family.name.clone()),
                comparator: Some(family.comparator.clone()),
                log_number: Some(next_file),
                next_file: of_database.then_some(next_file),
                last_sequence: of_database.then_some(self.last_sequence),
                largest_family: (of_database && self.largest_family > 0)
                    .then_some(self.largest_family),
                ..Edit::default()
            };
            let added = family.tables.clone();
            let tables = Edit { family: family.id, added, ..Edit::default() };
            log.add(&state.encode_new());
            log.add(&tables.encode_new());
        }
        log.bytes
    }

    /// The text of OPTIONS, which is bytes because the names of column families are. RocksDB accepts
    /// the sections in this order only. `rocksdb_version` is the oldest RocksDB that reads all tables
    /// that Maypole writes.
    fn options(&self) -> Vec<u8> {
        let mut out =
            b"# Written by Maypole. RocksDB's defaults are in force for what is not named.\n\
            [Version]\n  rocksdb_version=6.27.0\n  options_file_version=1.1\n\n\
            [DBOptions]\n"
                .to_vec();
        for family in &self.families {
            let (name, comparator) = (escape(&family.name), &family.comparator);
            let policy = family.filter_policy.as_deref().unwrap_or("nullptr");
            let mut section = |title: &str, option: &str| {
                out.extend_from_slice(format!("\n[{title} \"").as_bytes());
                out.extend_from_slice(&name);
                out.extend_from_slice(format!("\"]\n  {option}\n").as_bytes());
            };
            section("CFOptions", &format!("comparator={comparator}"));
            section("TableOptions/BlockBasedTable", &format!("filter_policy={policy}"));
        }
        out
    }
}

/// Whether this is the name of a file that [`NewDatabase::write`] creates, but that no database of
/// Maypole's has.
pub(crate) fn is_rocksdbs_own(name: &str) -> bool {
    name == "IDENTITY" || name.strip_prefix("OPTIONS-").is_some_and(|it| it.parse::<u64>().is_ok())
}

fn put_file(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = fs.create(path)?;
    file.append(bytes)?;
    file.sync()
}

/// The bytes of a record log that is being made, which is a MANIFEST or a WAL.
pub(crate) struct LogBytes {
    pub bytes: Vec<u8>,
    /// The log's number, if its headers are recyclable and store it.
    number: Option<u64>,
}

impl LogBytes {
    /// An empty log. With a number, its records get recyclable headers, which store the number;
    /// with `None`, they get short headers.
    pub fn new(number: Option<u64>) -> LogBytes {
        LogBytes { bytes: Vec::new(), number }
    }

    /// Adds a record, in as many fragments as it needs.
    pub fn add(&mut self, mut payload: &[u8]) {
        let header = if self.number.is_some() { RECYCLABLE_HEADER_BYTES } else { HEADER_BYTES };
        let mut is_first = true;
        loop {
            let mut room = BLOCK_BYTES - self.bytes.len() % BLOCK_BYTES;
            if room < header {
                self.bytes.resize(self.bytes.len() + room, 0);
                room = BLOCK_BYTES;
            }
            let (piece, rest) = payload.split_at(payload.len().min(room - header));
            let kind = match (is_first, rest.is_empty()) {
                (true, true) => WHOLE,
                (true, false) => FIRST,
                (false, false) => MIDDLE,
                (false, true) => LAST,
            };
            self.add_fragment(kind, piece);
            (payload, is_first) = (rest, false);
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Adds a physical record. `kind` is its kind with a short header. With a recyclable header,
    /// the stored kind is 4 higher.
    pub fn add_fragment(&mut self, kind: u8, payload: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        self.bytes.push(if self.number.is_some() { kind + 4 } else { kind });
        if let Some(number) = self.number {
            put_fixed32(&mut self.bytes, number as u32);
        }
        self.bytes.extend_from_slice(payload);
        let checksum = masked_crc32c(&self.bytes[start + 6..]);
        LittleEndian::write_u32(&mut self.bytes[start..], checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::listed;
    use super::super::{Directory, Manifest};
    use super::*;
    use crate::fs::MemFs;

    /// A database with a column family of each name, numbered 0, 3, 6 and so on.
    fn database(names: &[&[u8]], tables: u64, filter_policy: Option<&str>) -> NewDatabase {
        let family = |(id, name): (u32, &&[u8])| NewFamily {
            id: id * 3,
            name: name.to_vec(),
            comparator: "RocksDB_SE_v3.10".into(),
            tables: (1..=tables)
                .map(|n| (n * 2 + u64::from(id) * 2 * tables, n))
                .map(|(number, n)| listed(3, number, &format!("{n:05}a"), &format!("{n:05}b")))
                .collect(),
            filter_policy: filter_policy.map(str::to_owned),
        };
        NewDatabase {
            identity: "0b0e4b2c-94d5-4f0f-8c2c-3a7f6f1f2a11".into(),
            last_sequence: 77,
            largest_family: 3 * (names.len() as u32 - 1),
            families: (0..).zip(names).map(family).collect(),
        }
    }

    /// Two thousand tables fill several blocks of the log, so that the record that lists them is
    /// cut into fragments.
    #[test]
    fn the_reader_reads_what_was_written() {
        for (tables, policy) in [(0, None), (1, Some("ribbonfilter:10:0")), (2000, None)] {
            let (fs, dir) = (MemFs::new(), Path::new("/db"));
            fs.create_dir_all(dir).unwrap();
            let new = database(&[b"default"], tables, policy);
            new.write(&fs, dir).unwrap();
            let read = Directory::read(&fs, dir).unwrap();
            let Manifest { number, next_file, last_sequence, families, .. } = &read.manifest;
            assert_eq!((*number, *next_file), (2 * tables + 1, 2 * tables + 3));
            assert_eq!((*last_sequence, families.len(), read.logs.len()), (77, 1, 0));
            assert_eq!(families[&0].comparator.as_ref(), Some(&new.families[0].comparator));
            assert!(families[&0].tables.values().eq(&new.families[0].tables));
            let options = read.options.unwrap();
            let expected = policy.unwrap_or("nullptr");
            assert_eq!(options.table(b"default", "filter_policy"), Some(expected));
            assert_eq!(fs.read(&dir.join("IDENTITY")).unwrap(), new.identity.as_bytes());
            let names = fs.list(dir).unwrap();
            assert_eq!(names.iter().filter(|name| is_rocksdbs_own(name)).count(), 2, "{names:?}");
        }
    }

    /// Names of column families are bytes, and some have a meaning in OPTIONS.
    #[test]
    fn each_column_family_is_read_with_its_tables_and_its_policy() {
        let (fs, dir) = (MemFs::new(), Path::new("/db"));
        fs.create_dir_all(dir).unwrap();
        let names: [&[u8]; 6] = [b"default", b"users", b"a\nb\\c", b"# \"x\"]:", b"\xff\x00", b"]"];
        let new = database(&names, 5, Some("bloomfilter:10:false"));
        new.write(&fs, dir).unwrap();
        let read = Directory::read(&fs, dir).unwrap();
        assert_eq!(read.manifest.families.len(), names.len());
        let options = read.options.unwrap();
        for family in &new.families {
            let found = &read.manifest.families[&family.id];
            assert_eq!(found.name, family.name);
            assert_eq!(found.comparator.as_ref(), Some(&family.comparator));
            assert!(found.tables.values().eq(&family.tables));
            let policy = options.table(&family.name, "filter_policy");
            assert_eq!(policy, family.filter_policy.as_deref(), "{:?}", family.name);
        }
    }
}
