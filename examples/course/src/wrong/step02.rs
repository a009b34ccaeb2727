use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "a step of 0 stays",
        old: "hash & 0xffff_ffff | 1",
        new: "hash & 0xffff_ffff",
        says: "a step of 0, k = 30: only 1 different",
    },
    Wrong {
        what: "only a step of 0 is mended",
        old: "hash & 0xffff_ffff | 1",
        new: "(hash & 0xffff_ffff).max(1)",
        says: "a step of 64, k = 30: only 1 different",
    },
    Wrong {
        what: "every step is raised by 1",
        old: "hash & 0xffff_ffff | 1",
        new: "(hash & 0xffff_ffff) + 1",
        says: "start 100, step 7",
    },
    Wrong {
        what: "start and step come from the other halves",
        old: "(start + i * step)",
        new: "(step + i * start)",
        says: "start 100, step 7",
    },
    Wrong {
        what: "the first position is already a step from the start",
        old: "(0..u64::from(k)).map",
        new: "(1..=u64::from(k)).map",
        says: "start 100, step 7",
    },
    Wrong {
        what: "the modulo is forgotten",
        old: ") % bits).collect",
        new: ")).collect",
        says: "is not below 1024, the number of bits",
    },
    Wrong {
        what: "the last position is never taken",
        old: "% bits).collect",
        new: "% (bits - 1)).collect",
        says: "start 1000, step 101, 1024 bits",
    },
    Wrong {
        what: "the product overflows 32 bits",
        old: "(start + i * step) % bits",
        new: "u64::from(start as u32 + i as u32 * step as u32) % bits",
        says: "with overflow",
    },
    Wrong {
        what: "insert leaves out the last position",
        old: "in positions(hash, self.bits.len(), self.k) {",
        new: "in positions(hash, self.bits.len(), self.k - 1) {",
        says: "was inserted and is denied",
    },
    Wrong {
        what: "one set position is enough for maybe",
        old: ".all(|position|",
        new: ".any(|position|",
        says: "Do insert and may_contain use all positions?",
    },
];
