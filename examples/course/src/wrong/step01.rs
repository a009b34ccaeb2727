use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "is_set exchanges the word and the place in it",
        old: "self.words[(position / 64) as usize] >> (position % 64)",
        new: "self.words[(position % 64) as usize] >> (position / 64)",
        says: "bit 1 was set and is clear",
    },
    Wrong {
        what: "setting a bit clears the rest of its word",
        old: "|= 1 <<",
        new: "= 1 <<",
        says: "bit 0 is clear after bit 1 was set",
    },
    Wrong {
        what: "a bit that is set twice is clear",
        old: "|= 1 <<",
        new: "^= 1 <<",
        says: "bit 130 was set twice and is clear",
    },
    Wrong {
        what: "bits of words of 32",
        old: "|= 1 << (position % 64)",
        new: "|= 1 << (position % 32)",
        says: "bit 63 was set and is clear",
    },
    Wrong {
        what: "fill() counts words that are not 0",
        old: "word.count_ones()",
        new: "u32::from(*word != 0)",
        says: "128 of 640 bits are set; fill() says 0.0",
    },
    Wrong {
        what: "each hash function is number 0",
        old: "self.bits.set(hash_number(i, key) % self.bits.len());",
        new: "self.bits.set(hash_number(i - i, key) % self.bits.len());",
        says: "left: the bits that `plum` sets",
    },
    Wrong {
        what: "a mask in place of the modulo, as if the number of bits were a power of 2",
        old: "self.bits.set(hash_number(i, key) % self.bits.len());",
        new: "self.bits.set(hash_number(i, key) & (self.bits.len() - 1));",
        says: "of 640 bits; left: the bits that `plum` sets",
    },
    Wrong {
        what: "one set bit is enough for maybe",
        old: "(0..self.k).all(",
        new: "(0..self.k).any(",
        says: "Does may_contain query all k bits?",
    },
    Wrong {
        what: "the last hash function is not queried",
        old: "(0..self.k).all(",
        new: "(0..self.k - 1).all(",
        says: "Does may_contain query all k bits?",
    },
    Wrong {
        what: "may_contain counts its hash functions from 1",
        old: "(0..self.k).all(",
        new: "(1..=self.k).all(",
        says: "was inserted and is denied",
    },
    Wrong {
        what: "k and the bits a key are exchanged in the exponent",
        old: "(-f64::from(k) / bits_per_key).exp()",
        new: "(-bits_per_key / f64::from(k)).exp()",
        says: "10 bits a key, k = 7: ",
    },
];
