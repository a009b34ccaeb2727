use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use maypole::table::SstReader;

use super::super::step04_block::Block;
use super::super::step05_table::{Counts, Table, TableBuilder, Uncached};
use super::super::step06_rocksdb::*;
use super::{key, sst_dump};
use crate::check::{Check, Scratch, remark};
use crate::given::{VALUE, internal_key};

pub const CHECKS: &[Check] = &[
    Check { says: "crc32c() is CRC-32C", run: the_crc },
    Check { says: "checksum() masks it", run: the_mask },
    Check { says: "the properties are in order", run: the_properties },
    Check { says: "a flipped bit in the file is noticed", run: flipped_bits },
    Check { says: "Maypole reads your table and uses your filter", run: maypole_reads_it },
    Check { says: "RocksDB's sst_dump reads your table", run: rocksdb_reads_it },
];

const KEYS: u64 = 1000;

fn write(scratch: &Scratch) -> PathBuf {
    let mut builder = TableBuilder::new(ROCKSDB);
    for i in 0..KEYS {
        builder.add(&internal_key(&key("key", i), i + 1, VALUE), format!("value{i}").as_bytes());
    }
    let path = scratch.0.join("000001.sst");
    fs::write(&path, builder.finish(10.0)).unwrap();
    path
}

fn the_crc() {
    let crc = crc32c(b"123456789");
    let why = match crc {
        0xcbf4_3926 => " It is zlib's CRC, with another polynomial.",
        0x1cf9_6d7c => " It is not inverted at the end.",
        0xa71c_05df => " It does not start from !0.",
        _ => "",
    };
    assert_eq!(crc, 0xe306_9283, "the CRC-32C of 123456789 is {crc:#x}, expected 0xe3069283.{why}");
    assert_eq!(crc32c(b""), 0, "the CRC-32C of nothing");
}

fn the_mask() {
    let masked = checksum(b"123456789");
    let why = match masked {
        0xe306_9283 => " It is not masked.",
        0x2507_c60d => " Nothing is added to it.",
        0xebc4_dc5b => " It is rotated to the left.",
        _ => "",
    };
    assert_eq!(
        masked, 0xc78a_b0e5,
        "the masked CRC-32C of 123456789 is {masked:#x}, expected 0xc78ab0e5.{why}"
    );
    // Here the addition overflows.
    assert_eq!(checksum(b"apple"), 0x1758_166e, "the masked CRC-32C of `apple`");
}

fn the_properties() {
    let bytes = properties(Counts { entries: 300, ..Counts::default() });
    let restarts = bytes[bytes.len() - 4..].to_vec();
    assert_eq!(restarts, [1, 0, 0, 0], "restart points of the block of properties");
    let block = Block::new(Rc::from(bytes)).expect("the block of properties");
    let entries: Vec<_> = block.entries().map(|entry| entry.expect("a property")).collect();
    for name in [
        "rocksdb.block.based.table.index.type",
        "rocksdb.comparator",
        "rocksdb.num.entries",
        "rocksdb.raw.value.size",
    ] {
        let found = entries.iter().any(|(found, _)| found == name.as_bytes());
        assert!(found, "the block of properties lacks {name}");
    }
    assert_eq!(entries.len(), 10, "properties");
    for pair in entries.windows(2) {
        let names = [&pair[0].0, &pair[1].0].map(|name| String::from_utf8_lossy(name));
        assert!(names[0] < names[1], "{} must come before {}", names[1], names[0]);
    }
    let found = entries.iter().find(|(name, _)| name == b"rocksdb.num.entries");
    assert_eq!(
        found.map(|(_, value)| &value[..]),
        Some(&[0xac, 2][..]),
        "300 entries, as a varint"
    );
}

fn flipped_bits() {
    let scratch = Scratch::new("flipped");
    let path = write(&scratch);
    let whole = fs::read(&path).unwrap();
    let table = Table::open(&path, 1, ROCKSDB).expect("the table is opened");
    assert!(table.entries().is_ok(), "the whole table has an error");
    for at in (0..8000).step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        let table = Table::open(&path, 1, ROCKSDB).expect("the table is opened");
        assert!(table.entries().is_err(), "a bit of byte {at} was flipped, and no read notices it");
    }
}

fn stop<T>(what: &str, error: maypole::Error) -> T {
    panic!("{what}: {error}")
}

fn maypole_reads_it() {
    let scratch = Scratch::new("maypole");
    let path = write(&scratch);
    let reader = SstReader::open(&path).unwrap_or_else(|e| stop("Maypole does not open it", e));
    reader.verify().unwrap_or_else(|e| stop("Maypole finds it damaged", e));
    let mut entries = reader.entries();
    let mut read = 0;
    while let Some(entry) = entries.next_entry().unwrap_or_else(|e| stop("an entry", e)) {
        assert_eq!(entry.user_key, key("key", read), "the key of entry {read}");
        assert_eq!(entry.value, format!("value{read}").as_bytes(), "the value of entry {read}");
        read += 1;
    }
    assert_eq!(read, KEYS, "entries that Maypole reads");
    let filter = reader.filter().unwrap_or_else(|e| stop("the filter", e));
    assert!(filter.is_some(), "Maypole finds no filter");
    assert_eq!(reader.filter_is_unasked(), None, "Maypole would not query the filter");
    let passes = |key: &[u8]| reader.may_contain(key).unwrap_or_else(|e| stop("a query", e));
    for i in 0..KEYS {
        assert!(passes(&key("key", i)), "Maypole's reader denies key {i}");
    }
    let passed = (0..KEYS).filter(|&i| passes(&key("absent", i))).count();
    assert!(passed < 30, "{passed} of {KEYS} absent keys pass in Maypole");
    let table = Table::open(&path, 1, ROCKSDB).expect("the table is opened");
    assert!(table.get(&Uncached, &key("key", 7), 8).expect("get").is_some(), "your reader: key 7");
}

fn rocksdb_reads_it() {
    let scratch = Scratch::new("rocksdb");
    let path = write(&scratch);
    let Some(scanned) = sst_dump(&path, "--command=scan") else {
        let reader = SstReader::open(&path).unwrap_or_else(|error| panic!("Maypole: {error}"));
        reader.verify().unwrap_or_else(|error| panic!("Maypole: {error}"));
        remark("sst_dump is not installed: Maypole's reader read it");
        return;
    };
    for i in 0..KEYS {
        let line = format!("'key{i:06}' seq:{}, type:1 => value{i}\n", i + 1);
        assert!(scanned.contains(&line), "sst_dump does not print entry {i}. It says:\n{scanned}");
    }
    let verified = sst_dump(&path, "--command=verify").unwrap_or_default();
    assert!(verified.contains("The file is ok"), "sst_dump --command=verify says:\n{verified}");
    let shown = sst_dump(&path, "--show_properties").unwrap_or_default();
    for line in ["# entries: 1000", "filter policy name: bloomfilter"] {
        assert!(shown.contains(line), "sst_dump --show_properties lacks `{line}`:\n{shown}");
    }
    remark(format!("sst_dump printed all {KEYS} entries"));
}
