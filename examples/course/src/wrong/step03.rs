use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "the line is the hash modulo the lines",
        old: "((u64::from(hash as u32) * u64::from(lines)) >> 32) as u32",
        new: "hash as u32 % lines",
        says: "low half 0x80000000, high half 0x0, 1000 lines",
    },
    Wrong {
        what: "the product for the line overflows 32 bits",
        old: "((u64::from(hash as u32) * u64::from(lines)) >> 32) as u32",
        new: "(hash as u32 * lines) >> 16",
        says: "with overflow",
    },
    Wrong {
        what: "the high half of the hash picks the line",
        old: "u64::from(hash as u32) * u64::from(lines)",
        new: "(hash >> 32) * u64::from(lines)",
        says: "low half 0x0, high half 0xdeadbeef, 1000 lines",
    },
    Wrong {
        what: "a bit is the low 9 bits of x",
        old: "x >> 23",
        new: "x & 511",
        says: "high half 1, low half 0x0, k = 4",
    },
    Wrong {
        what: "x is multiplied before the first bit",
        old: "bits.push(x >> 23);\n        x = x.wrapping_mul(GOLDEN);",
        new: "x = x.wrapping_mul(GOLDEN);\n        bits.push(x >> 23);",
        says: "high half 1, low half 0x0, k = 4",
    },
    Wrong {
        what: "the bits of a byte are numbered from the high end",
        old: "|= 1 << (bit % 8)",
        new: "|= 0x80 >> (bit % 8)",
        says: "the bits that are set in line 0",
    },
    Wrong {
        what: "k is in the second byte of the trailer",
        old: "[0xff, 0, k as u8, 0, 0]",
        new: "[0xff, k as u8, 0, 0, 0]",
        says: "the trailer",
    },
    Wrong {
        what: "the trailer is forgotten",
        old: "    block.extend([0xff, 0, k as u8, 0, 0]);\n",
        new: "",
        says: "the length",
    },
    Wrong {
        what: "one set bit is enough for maybe",
        old: ".into_iter().all(is_set)",
        new: ".into_iter().any(is_set)",
        says: "`quince` is not in the filter and passes",
    },
    Wrong {
        what: "the reader takes any trailer of the right length",
        old: "&[0xff, 0, k @ 1..=30, 0, 0]",
        new: "&[_, _, k, _, _]",
        says: "a block with the mark of another kind of filter denies a key",
    },
    Wrong {
        what: "the reader believes a k of 31",
        old: "k @ 1..=30",
        new: "k @ 1..=31",
        says: "a block with k = 31 denies a key",
    },
    Wrong {
        what: "the reader does not ask for whole lines",
        old: "lines.is_empty() || lines.len() % LINE != 0",
        new: "lines.len() < LINE",
        says: "65 bytes of lines are no whole lines",
    },
    Wrong {
        what: "a block that is not believed denies",
        old: "        return true;\n    };",
        new: "        return false;\n    };",
        says: "are no whole trailer",
    },
];
