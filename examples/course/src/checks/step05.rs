use std::fs;

use maypole::hash64;

use super::super::step05_table::*;
use super::key;
use crate::check::{Check, Scratch};
use crate::given::{DELETION, VALUE, internal_key};

pub const CHECKS: &[Check] = &[
    Check { says: "a block is followed by a byte 0 and four bytes of checksum", run: the_trailer },
    Check { says: "every key is found, with its value", run: keys_are_found },
    Check { says: "no other key is found", run: absent_keys },
    Check { says: "data blocks have about 4096 bytes", run: block_size },
    Check { says: "a lookup reads the index and one data block", run: reads_of_a_lookup },
    Check { says: "the filter reads one block and denies absent keys", run: the_filter },
    Check { says: "without a filter everything may be there", run: no_filter },
];

const KEYS: u64 = 3000;

fn value(i: u64) -> Vec<u8> {
    format!("{i:0100}").into_bytes()
}

fn bytes_of(keys: u64, bits_per_key: f64) -> Vec<u8> {
    let mut builder = TableBuilder::new(PLAIN);
    for i in 0..keys {
        builder.add(&internal_key(&key("key", i), i, VALUE), &value(i));
    }
    builder.finish(bits_per_key)
}

/// A table of `KEYS` keys.
fn table(scratch: &Scratch, bits_per_key: f64) -> Table {
    let path = scratch.0.join("table.sst");
    fs::write(&path, bytes_of(KEYS, bits_per_key)).unwrap();
    Table::open(&path, 1, PLAIN).expect("the table is opened")
}

fn the_trailer() {
    let mut builder = TableBuilder::new(Ending { checksum: |bytes| bytes.len() as u32, ..PLAIN });
    builder.add(&internal_key(b"apple", 7, VALUE), b"red");
    let file = builder.finish(10.0);
    let block = b"\x00\x0d\x03apple\x01\x07\0\0\0\0\0\0red\0\0\0\0\x01\0\0\0";
    assert!(file.starts_with(block), "the file does not begin with the data block");
    let trailer = &file[block.len()..block.len() + 5];
    let expected = [0, block.len() as u8 + 1, 0, 0, 0];
    assert_eq!(
        trailer, expected,
        "the trailer. This check's checksum is the number of bytes, so it is 28 here: the block \
         and the byte 0. Left: yours; right: expected"
    );
}

fn keys_are_found() {
    let scratch = Scratch::new("found");
    let table = table(&scratch, 10.0);
    for i in 0..KEYS {
        let found = table.get(&Uncached, &key("key", i)).expect("get");
        let found = found.unwrap_or_else(|| panic!("key {i} of {KEYS} is not found"));
        assert_eq!(found.sequence, i, "the sequence number of key {i}");
        assert_eq!(found.value, Some(value(i)), "the value of key {i}");
    }
    let mut builder = TableBuilder::new(PLAIN);
    builder.add(&internal_key(b"gone", 9, DELETION), b"");
    fs::write(scratch.0.join("gone.sst"), builder.finish(10.0)).unwrap();
    let table = Table::open(&scratch.0.join("gone.sst"), 2, PLAIN).unwrap();
    let found = table.get(&Uncached, b"gone").expect("get").expect("a tombstone is an entry");
    assert_eq!((found.sequence, found.value), (9, None), "a tombstone");
}

fn absent_keys() {
    let scratch = Scratch::new("absent");
    let table = table(&scratch, 10.0);
    let mut absent = vec![b"".to_vec(), b"a".to_vec(), b"z".to_vec(), b"key".to_vec()];
    absent.extend((0..KEYS).map(|i| [&key("key", i)[..], b"x"].concat()));
    absent.extend((0..KEYS).map(|i| key("key", i)[..8].to_vec()));
    for key in absent {
        let found = table.get(&Uncached, &key).expect("get");
        assert!(found.is_none(), "`{}` is not in the table and is found", key.escape_ascii());
    }
}

fn block_size() {
    let scratch = Scratch::new("blocks");
    let table = table(&scratch, 0.0);
    let bytes = table.entries().expect("entries").len();
    assert_eq!(bytes as u64, KEYS, "entries of the table");
    // One read was the index.
    let blocks = table.reads.get() - 1;
    assert!(
        (80..=90).contains(&blocks),
        "the table has {blocks} data blocks, expected 80 to 90: each ends at {BLOCK_BYTES} bytes"
    );
}

fn reads_of_a_lookup() {
    let scratch = Scratch::new("reads");
    let table = table(&scratch, 10.0);
    table.get(&Uncached, &key("key", 1234)).expect("get");
    assert_eq!(table.reads.get(), 2, "blocks that one get() reads");
    table.get(&Uncached, b"z").expect("get");
    assert_eq!(table.reads.get(), 3, "a key behind all others reads the index and no data");
}

fn the_filter() {
    let scratch = Scratch::new("filter");
    let table = table(&scratch, 10.0);
    let passes = |key: &[u8]| table.may_contain(&Uncached, hash64(key)).expect("may_contain");
    for i in 0..KEYS {
        assert!(passes(&key("key", i)), "key {i} is in the table and is denied");
    }
    assert_eq!(table.reads.get(), KEYS, "blocks that {KEYS} queries of the filter read, one each");
    let passed = (0..KEYS).filter(|&i| passes(&key("absent", i))).count();
    assert!(passed < 60, "{passed} of {KEYS} absent keys pass, expected about 30");
    assert!(passed > 5, "only {passed} of {KEYS} absent keys pass: is it the filter that says so?");
}

fn no_filter() {
    let scratch = Scratch::new("none");
    let table = table(&scratch, 0.0);
    assert!(!table.has_filter(), "0 bits a key are no filter");
    let passes = table.may_contain(&Uncached, hash64(b"absent")).expect("may_contain");
    assert!(passes, "a table without a filter denies a key");
    assert_eq!(table.reads.get(), 0, "there is no filter to read");
}
