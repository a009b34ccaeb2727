use std::fs;

use maypole::hash64;

use super::super::step05_table::*;
use super::key;
use crate::check::{Check, Scratch};
use crate::given::{DELETION, VALUE, internal_key};

pub const CHECKS: &[Check] = &[
    Check { says: "is_before(): the newest entry of a key comes first", run: the_order },
    Check { says: "a block is followed by a byte 0 and four bytes of checksum", run: the_trailer },
    Check { says: "every key is found, with its value", run: keys_are_found },
    Check { says: "no other key is found", run: absent_keys },
    Check { says: "of many versions the right one is found", run: versions },
    Check { says: "data blocks have about 4096 bytes", run: block_size },
    Check { says: "a lookup reads the index and one data block", run: reads_of_a_lookup },
    Check { says: "the filter reads one block and denies absent keys", run: the_filter },
    Check { says: "the filter has each user key once", run: filter_of_versions },
    Check { says: "without a filter everything may be there", run: no_filter },
];

const KEYS: u64 = 3000;
/// A sequence number that is larger than those of all entries.
const NOW: u64 = 1 << 50;

fn the_order() {
    let places = [(&b""[..], 9), (b"fig", 300), (b"fig", 20), (b"fig", 1), (b"figs", 7)];
    for (i, &(key, sequence)) in places.iter().enumerate() {
        for (j, &(other, number)) in places.iter().enumerate() {
            let before = is_before(&internal_key(key, sequence, VALUE), other, number);
            let [left, right] = [(key, sequence), (other, number)]
                .map(|(key, number)| format!("`{}` number {number}", key.escape_ascii()));
            let word = if i < j { "comes" } else { "does not come" };
            assert_eq!(before, i < j, "{left} {word} before {right}");
        }
    }
}

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
    let scratch = Scratch::new("trailer");
    let ending = Ending { checksum: |bytes| bytes.len() as u32, ..PLAIN };
    let mut builder = TableBuilder::new(ending);
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
    let path = scratch.0.join("trailer.sst");
    fs::write(&path, file).unwrap();
    if let Err(error) = Table::open(&path, 1, ending) {
        panic!("{error}. Is the size in a handle that of the block, without the trailer?");
    }
}

fn keys_are_found() {
    let scratch = Scratch::new("found");
    let table = table(&scratch, 10.0);
    for i in 0..KEYS {
        let found = table.get(&Uncached, &key("key", i), NOW).expect("get");
        let found = found.unwrap_or_else(|| panic!("key {i} of {KEYS} is not found"));
        assert_eq!(found.sequence, i, "the sequence number of key {i}");
        assert_eq!(found.value, Some(value(i)), "the value of key {i}");
    }
    let mut builder = TableBuilder::new(PLAIN);
    builder.add(&internal_key(b"gone", 9, DELETION), b"");
    fs::write(scratch.0.join("gone.sst"), builder.finish(10.0)).unwrap();
    let table = Table::open(&scratch.0.join("gone.sst"), 2, PLAIN).unwrap();
    let found = table.get(&Uncached, b"gone", NOW).expect("get").expect("a tombstone is an entry");
    assert_eq!((found.sequence, found.value), (9, None), "a tombstone");
}

fn absent_keys() {
    let scratch = Scratch::new("absent");
    let table = table(&scratch, 10.0);
    let mut absent = vec![b"".to_vec(), b"a".to_vec(), b"z".to_vec(), b"key".to_vec()];
    absent.extend((0..KEYS).map(|i| [&key("key", i)[..], b"x"].concat()));
    absent.extend((0..KEYS).map(|i| key("key", i)[..8].to_vec()));
    for key in absent {
        let found = table.get(&Uncached, &key, NOW).expect("get");
        assert!(found.is_none(), "`{}` is not in the table and is found", key.escape_ascii());
    }
}

/// Three user keys. The second has as many versions as a few data blocks hold: the odd sequence
/// numbers from 1 to 399.
fn table_of_versions(scratch: &Scratch) -> Table {
    let mut builder = TableBuilder::new(PLAIN);
    builder.add(&internal_key(b"", 500, VALUE), b"empty");
    builder.add(&internal_key(b"fig", 7, VALUE), b"first");
    for sequence in (1..400).rev().step_by(2) {
        builder.add(&internal_key(b"plum", sequence, VALUE), &value(sequence));
    }
    builder.add(&internal_key(b"quince", 7, VALUE), b"last");
    let path = scratch.0.join("versions.sst");
    fs::write(&path, builder.finish(10.0)).unwrap();
    Table::open(&path, 1, PLAIN).expect("the table is opened")
}

fn versions() {
    let scratch = Scratch::new("versions");
    let table = table_of_versions(&scratch);
    for sequence in 0..500 {
        let found = table.get(&Uncached, b"plum", sequence).expect("get");
        let found = found.map(|entry| entry.sequence);
        // The largest odd number that is not larger.
        let expected = (sequence > 0).then(|| (sequence - 1).min(398) / 2 * 2 + 1);
        assert_eq!(
            found, expected,
            "the version of `plum` at number {sequence}, of versions 1, 3, 5 … 399. \
             Left: yours; right: expected"
        );
    }
    for (key, sequence) in [(&b""[..], 499), (b"fig", 6), (b"quince", 6)] {
        let found = table.get(&Uncached, key, sequence).expect("get");
        assert_eq!(found, None, "`{}` was not written yet at {sequence}", key.escape_ascii());
    }
}

fn filter_of_versions() {
    let scratch = Scratch::new("versions-filter");
    let table = table_of_versions(&scratch);
    assert_eq!(
        table.filter_bytes(),
        64 + 5,
        "bytes of the filter: one line and its trailer for 4 user keys with 203 versions"
    );
    for key in [&b""[..], b"fig", b"plum", b"quince"] {
        let passes = table.may_contain(&Uncached, hash64(key)).expect("may_contain");
        assert!(passes, "`{}` is in the table and is denied", key.escape_ascii());
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
    table.get(&Uncached, &key("key", 1234), NOW).expect("get");
    assert_eq!(table.reads.get(), 2, "blocks that one get() reads");
    table.get(&Uncached, b"z", NOW).expect("get");
    assert_eq!(table.reads.get(), 3, "a key behind all others reads the index and no data");
}

fn the_filter() {
    let scratch = Scratch::new("filter");
    let table = table(&scratch, 10.0);
    let passes = |key: &[u8]| table.may_contain(&Uncached, hash64(key)).expect("may_contain");
    for i in 0..KEYS {
        assert!(passes(&key("key", i)), "key {i} is in the table and is denied");
    }
    assert!(table.has_filter(), "the table has no filter: is its handle in the metaindex?");
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
