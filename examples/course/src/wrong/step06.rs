use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "the CRC starts from 0",
        old: "fold(!0, step)",
        new: "fold(0, step)",
        says: "It does not start from !0",
    },
    Wrong {
        what: "the CRC is not inverted at the end",
        old: "!bytes.iter().fold(!0, step)",
        new: "bytes.iter().fold(!0, step)",
        says: "It is not inverted at the end",
    },
    Wrong {
        what: "zlib's CRC",
        old:
            "    let step = |crc: u32, &byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    !bytes.iter().fold(!0, step)\n",
        new: "    crc32fast::hash(bytes)\n",
        says: "It is zlib's CRC",
    },
    Wrong {
        what: "the table is entered with the highest byte",
        old: "TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8",
        new: "TABLE[usize::from((crc >> 24) as u8 ^ byte)] ^ crc << 8",
        says: "the CRC-32C of 123456789 is",
    },
    Wrong {
        what: "the CRC is not masked",
        old: "crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)",
        new: "crc32c(bytes)",
        says: "It is not masked",
    },
    Wrong {
        what: "the mask rotates to the left",
        old: "rotate_right(15)",
        new: "rotate_left(15)",
        says: "It is rotated to the left",
    },
    Wrong {
        what: "the mask is a shift",
        old: "crc32c(bytes).rotate_right(15)",
        new: "(crc32c(bytes) >> 15)",
        says: "the masked CRC-32C of 123456789 is",
    },
    Wrong {
        what: "the addition of the mask overflows",
        old: ".wrapping_add(0xa282_ead8)",
        new: " + 0xa282_ead8",
        says: "attempt to add with overflow",
    },
    Wrong {
        what: "the properties are not sorted",
        old: "    properties.sort();\n",
        new: "",
        says: "must come before",
    },
    Wrong {
        what: "the properties are sorted by the lengths of their names",
        old: "properties.sort();",
        new: "properties.sort_by_key(|(name, _)| name.len());",
        says: "must come before",
    },
    Wrong {
        what: "each property is a restart point",
        old: "BlockBuilder::new(usize::MAX)",
        new: "BlockBuilder::new(1)",
        says: "restart points of the block of properties",
    },
    Wrong {
        what: "the first property is left out",
        old: "    properties.sort();\n",
        new: "    properties.sort();\n    properties.remove(0);\n",
        says: "lacks rocksdb.block.based.table.index.type",
    },
];
