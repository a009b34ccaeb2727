//! Step 6: what RocksDB demands of a table: checksums, and a block of properties.

use super::step04_block::BlockBuilder;
use super::step05_table::{Counts, Ending};
use crate::given::put_varint;

/// The checksums and properties of a table that RocksDB reads.
pub const ROCKSDB: Ending = Ending { checksum_kind: 1, checksum, properties };

/// The polynomial of CRC-32C (Castagnoli), with its bits in reverse order.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLE[b]` is the remainder of the byte `b` and 32 zero bits after it, divided by the
/// polynomial.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// CRC-32C. The crate `crc32fast` computes another CRC: that of zlib, with another polynomial.
pub fn crc32c(bytes: &[u8]) -> u32 {
    // yours: from !0, for each byte: TABLE[lowest byte of crc ^ byte] ^ crc >> 8; at last !crc
    let step = |crc: u32, &byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    !bytes.iter().fold(!0, step)
    // end
}

/// The checksum that a trailer holds: a CRC-32C, *masked* by a rotation and an addition.
pub fn checksum(bytes: &[u8]) -> u32 {
    // yours: rotate the CRC right by 15 bits, add 0xa282ead8 (it may overflow)
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
    // end
}

/// The block of properties: names ascend, and only the first entry is a restart point.
pub fn properties(counts: Counts) -> Vec<u8> {
    let number = |value| {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        bytes
    };
    // The order in which they are listed here is not the order in which they are stored.
    let mut properties: Vec<(&str, Vec<u8>)> = vec![
        ("rocksdb.num.entries", number(counts.entries)),
        ("rocksdb.num.data.blocks", number(counts.data_blocks)),
        ("rocksdb.data.size", number(counts.data_bytes)),
        ("rocksdb.filter.size", number(counts.filter_bytes)),
        ("rocksdb.raw.key.size", number(counts.key_bytes)),
        ("rocksdb.raw.value.size", number(counts.value_bytes)),
        ("rocksdb.comparator", b"leveldb.BytewiseComparator".to_vec()),
        ("rocksdb.compression", b"NoCompression".to_vec()),
        ("rocksdb.filter.policy", b"bloomfilter".to_vec()),
        // A fixed32 of 0 is RocksDB's code for an index that is a single block, searched by
        // halving.
        ("rocksdb.block.based.table.index.type", vec![0; 4]),
    ];
    // yours: sort them by name, and put them into one block
    properties.sort();
    let mut block = BlockBuilder::new(usize::MAX);
    for (name, value) in properties {
        block.add(name.as_bytes(), &value);
    }
    block.finish()
    // end
}
