//! Tables and directories in the formats of RocksDB, LevelDB and Pebble, made byte by byte, so that
//! tests choose the entries and do not need those programs.

use std::fs;
use std::path::Path;

const ROCKSDB_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const LEVELDB_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Bytes of a block after its payload.
const TRAILER_BYTES: usize = 5;

/// User key, sequence number, kind, value.
pub type Entry<'a> = (&'a str, u64, u8, &'a str);

/// A RocksDB table of format_version 2 with one data block, as RocksDB 7.8 writes it. It lacks the
/// properties with which later versions record the table's sequence numbers.
pub struct Table<'a> {
    pub entries: &'a [Entry<'a>],
    /// More properties, by name.
    pub properties: Vec<(&'static str, Vec<u8>)>,
    /// More blocks, by their names in the metaindex.
    pub blocks: Vec<(&'static str, Vec<u8>)>,
}

impl<'a> Table<'a> {
    pub fn new(entries: &'a [Entry<'a>]) -> Table<'a> {
        Table { entries, properties: Vec::new(), blocks: Vec::new() }
    }

    /// A table as RocksDB's SstFileWriter writes it.
    pub fn external(entries: &'a [Entry<'a>]) -> Table<'a> {
        Table::new(entries)
            .with("rocksdb.external_sst_file.version", &2u32.to_le_bytes())
            .with("rocksdb.external_sst_file.global_seqno", &0u64.to_le_bytes())
    }

    pub fn with(mut self, name: &'static str, value: &[u8]) -> Table<'a> {
        self.properties.retain(|(other, _)| *other != name);
        self.properties.push((name, value.to_vec()));
        self
    }

    pub fn with_block(mut self, name: &'static str, payload: &[u8]) -> Table<'a> {
        self.blocks.push((name, payload.to_vec()));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let (data, last) = data_block(self.entries);
        let data = add_block(&mut file, &data);
        let mut metaindex = Vec::new();
        for (name, payload) in &self.blocks {
            metaindex.push((name.as_bytes().to_vec(), add_block(&mut file, payload)));
        }
        let entries = varint(self.entries.len() as u64);
        let mut properties = vec![
            ("rocksdb.block.based.table.index.type", 0u32.to_le_bytes().to_vec()),
            ("rocksdb.comparator", b"leveldb.BytewiseComparator".to_vec()),
            ("rocksdb.column.family.id", varint(0x7fff_ffff)),
            ("rocksdb.num.entries", entries),
            ("rocksdb.num.data.blocks", varint(1)),
        ];
        properties.retain(|(name, _)| self.properties.iter().all(|(other, _)| other != name));
        properties.extend(self.properties.iter().cloned());
        properties.sort();
        let pairs = properties.into_iter().map(|(name, value)| (name.as_bytes().to_vec(), value));
        let properties = add_block(&mut file, &block(&pairs.collect::<Vec<_>>()));
        metaindex.push((b"rocksdb.properties".to_vec(), properties));
        metaindex.sort();
        let metaindex = add_block(&mut file, &block(&metaindex));
        let index = add_block(&mut file, &block(&[(last, data)]));
        let mut footer = [&[1][..], &metaindex, &index].concat();
        footer.resize(41, 0);
        file.extend(footer);
        file.extend(2u32.to_le_bytes());
        file.extend(ROCKSDB_MAGIC.to_le_bytes());
        file
    }

    pub fn write(&self, path: impl AsRef<Path>) {
        fs::write(path, self.bytes()).unwrap();
    }
}

/// A table of LevelDB: no properties, and a footer of 48 bytes.
pub fn leveldb_table(entries: &[Entry]) -> Vec<u8> {
    let mut file = Vec::new();
    let (data, last) = data_block(entries);
    let data = add_block(&mut file, &data);
    let metaindex = add_block(&mut file, &block(&[]));
    let index = add_block(&mut file, &block(&[(last, data)]));
    let mut footer = [metaindex, index].concat();
    footer.resize(40, 0);
    file.extend(footer);
    file.extend(LEVELDB_MAGIC.to_le_bytes());
    file
}

/// A file that ends like a table in Pebble's own format.
pub fn pebble_table(version: u32) -> Vec<u8> {
    let mut file = vec![0; 500];
    file.extend(version.to_le_bytes());
    file.extend([0xf0, 0x9f, 0xaa, 0xb3, 0xf0, 0x9f, 0xaa, 0xb3]);
    file
}

/// A data block and its last internal key.
pub fn data_block(entries: &[Entry]) -> (Vec<u8>, Vec<u8>) {
    let internal = |&(key, sequence, kind, value): &Entry| {
        let trailer = sequence << 8 | u64::from(kind);
        ([key.as_bytes(), &trailer.to_le_bytes()].concat(), value.as_bytes().to_vec())
    };
    let pairs: Vec<_> = entries.iter().map(internal).collect();
    let last = pairs.last().map_or_else(Vec::new, |(key, _)| key.clone());
    (block(&pairs), last)
}

/// A block whose entries are all restart points.
fn block(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut restarts) = (Vec::new(), Vec::new());
    for (key, value) in pairs {
        restarts.push(out.len() as u32);
        out.push(0);
        out.extend(varint(key.len() as u64));
        out.extend(varint(value.len() as u64));
        out.extend([&key[..], value].concat());
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    restarts.iter().for_each(|restart| out.extend(restart.to_le_bytes()));
    out.extend((restarts.len() as u32).to_le_bytes());
    out
}

/// Appends a block that is not compressed. Returns its encoded handle: offset and payload length.
fn add_block(file: &mut Vec<u8>, payload: &[u8]) -> Vec<u8> {
    let handle = [varint(file.len() as u64), varint(payload.len() as u64)].concat();
    let stored = [payload, &[0]].concat();
    file.extend(&stored);
    file.extend(masked_crc(&stored).to_le_bytes());
    assert_eq!(TRAILER_BYTES, 1 + 4);
    handle
}

fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A log in the format of LevelDB and RocksDB, with one unsplit record for each payload.
pub fn record_log(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut log = Vec::new();
    for payload in payloads {
        let checked = [&[1][..], payload].concat();
        log.extend(masked_crc(&checked).to_le_bytes());
        log.extend((payload.len() as u16).to_le_bytes());
        log.extend(checked);
    }
    log
}

fn string(text: &str) -> Vec<u8> {
    [varint(text.len() as u64), text.as_bytes().to_vec()].concat()
}

/// A write batch of one put.
fn batch(sequence: u64, key: &str, value: &str) -> Vec<u8> {
    let mut out = [&sequence.to_le_bytes()[..], &1u32.to_le_bytes(), &[1]].concat();
    out.extend([string(key), string(value)].concat());
    out
}

/// Names and bytes of the files of a directory.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// Directories of other engines: the name of each, and its files.
pub fn directories() -> Vec<(&'static str, Files)> {
    let comparator = [vec![1], string("leveldb.BytewiseComparator")].concat();
    let identity = [varint(8193), string("6a1f0a8e-0000-4000-8000-000000000000")].concat();
    let numbers = [vec![2, 4, 9, 0, 3, 10, 4, 3]].concat();
    let rocksdb_manifest = record_log(&[identity, comparator.clone(), numbers.clone()]);
    let leveldb_manifest = record_log(&[[comparator, numbers].concat()]);
    let log = record_log(&[batch(1, "a", "in the log")]);
    let table = Table::new(&[("a", 1, 1, "in a table")]).bytes();
    let ldb = leveldb_table(&[("a", 1, 1, "in a table")]);
    let current = b"MANIFEST-000005\n".to_vec();
    let options = b"[Version]\n  rocksdb_version=7.8.3\n".to_vec();
    let pebble_options = b"[Version]\n  pebble_version=0.1\n".to_vec();
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        (
            "a database of RocksDB",
            vec![
                ("CURRENT", current.clone()),
                ("IDENTITY", text("6a1f0a8e-0000-4000-8000-000000000000")),
                ("LOCK", vec![]),
                ("LOG", text("2026/01/01 RocksDB version: 7.8.3\n")),
                ("MANIFEST-000005", rocksdb_manifest.clone()),
                ("OPTIONS-000007", options.clone()),
                ("000004.log", log.clone()),
                ("000009.sst", table.clone()),
            ],
        ),
        // The files that a backup has.
        (
            "a database of RocksDB",
            vec![
                ("CURRENT", current.clone()),
                ("MANIFEST-000005", rocksdb_manifest),
                ("000009.sst", table.clone()),
            ],
        ),
        // CURRENT and MANIFEST are lost.
        ("a database of RocksDB", vec![("IDENTITY", text("6a1f")), ("000009.sst", table.clone())]),
        (
            "what is left of a database of RocksDB or LevelDB",
            vec![("000004.log", log.clone()), ("000009.sst", table)],
        ),
        (
            "a database of LevelDB",
            vec![
                ("CURRENT", current.clone()),
                ("LOCK", vec![]),
                ("LOG", text("2026/01/01 Creating DB\n")),
                ("MANIFEST-000005", leveldb_manifest.clone()),
                ("000003.log", log.clone()),
                ("000005.ldb", ldb),
            ],
        ),
        // A new database, which has no tables yet: its writes are in the log.
        (
            "a database of LevelDB",
            vec![
                ("CURRENT", current),
                ("MANIFEST-000005", leveldb_manifest),
                ("000003.log", log.clone()),
            ],
        ),
        (
            "a database of Pebble",
            vec![
                ("LOCK", vec![]),
                ("MANIFEST-000001", record_log(&[vec![1, 1, b'x']])),
                ("OPTIONS-000003", pebble_options),
                ("marker.format-version.000001.013", vec![]),
                ("marker.manifest.000001.MANIFEST-000001", vec![]),
                ("000002.log", log),
                ("000005.sst", pebble_table(4)),
            ],
        ),
        ("a database of LMDB", vec![("data.mdb", vec![0; 4096]), ("lock.mdb", vec![0; 64])]),
        ("a database of SQLite", vec![("app.db", text("SQLite format 3\0 and pages"))]),
    ]
}
