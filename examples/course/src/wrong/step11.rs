use super::{ENDLESS, Wrong};

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "the picked slots are ORed",
        old: "sum ^ slots[row.start + i]",
        new: "sum | slots[row.start + i]",
        says: "of the slots [1, 2, 4, 8, 16, 32, 64, 128, 3, 5]",
    },
    Wrong {
        what: "the coefficients are read from the high end",
        old: "row.coefficients >> i & 1",
        new: "row.coefficients >> (WIDTH - 1 - i) & 1",
        says: "of the slots [1, 2, 4, 8, 16, 32, 64, 128, 3, 5]",
    },
    Wrong {
        what: "the first coefficient is left out",
        old: "(0..WIDTH).filter",
        new: "(1..WIDTH).filter",
        says: "of the slots [1, 2, 4, 8, 16, 32, 64, 128, 3, 5]",
    },
    Wrong {
        what: "all coefficients pick a slot, also behind the last",
        old: "row.coefficients >> i & 1 == 1",
        new: "row.coefficients >> i & 1 == 1 || slots[row.start + i] == 0",
        says: "index out of bounds: the len is 10",
    },
    Wrong {
        what: "a new row takes the slot of an old one",
        old: "        row.coefficients ^= there.coefficients;\n",
        new: "        band[row.start] = Some(row);\n        row.coefficients ^= there.coefficients;\n",
        says: "`bee` stays in slot 5",
    },
    Wrong {
        what: "the fingerprints are not XORed",
        old: "        row.fingerprint ^= there.fingerprint;\n",
        new: "",
        says: "`dog` starts in slot 5, which `bee` has",
    },
    Wrong {
        what: "the row moves by one slot only",
        old: "let zeros = row.coefficients.trailing_zeros();",
        new: "let zeros = 1;",
        says: "`dog` starts in slot 5, which `bee` has",
    },
    Wrong {
        what: "the row does not move",
        old: "        row.coefficients >>= zeros;\n        row.start += zeros as usize;\n",
        new: "        let _ = zeros;\n",
        says: ENDLESS,
    },
    Wrong {
        what: "the first coefficient is looked for at the high end",
        old: "trailing_zeros()",
        new: "leading_zeros()",
        says: "`dog` starts in slot 5, which `bee` has",
    },
    Wrong {
        what: "a row that says nothing new is a contradiction",
        old: "return row.fingerprint == 0;",
        new: "return false;",
        says: "follows from the two others",
    },
    Wrong {
        what: "a contradiction is not noticed",
        old: "return row.fingerprint == 0;",
        new: "return true;",
        says: "contradicts",
    },
    Wrong {
        what: "the slots are solved from the first",
        old: "band.iter().enumerate().rev()",
        new: "band.iter().enumerate()",
        says: "Solve the last slot first",
    },
    Wrong {
        what: "a slot is its fingerprint",
        old: "row.fingerprint ^ picked(&slots, row)",
        new: "row.fingerprint",
        says: "the slots give",
    },
    Wrong {
        what: "only seed 0 is tried",
        old: "for seed in 0..=255 {",
        new: "for seed in 0..=0 {",
        says: "has a filter with some seed from 0 to 255",
    },
    Wrong {
        what: "rows of an earlier seed stay in the band",
        old: "        for seed in 0..=255 {\n            let mut band = vec![None; slots];\n",
        new: "        let mut band = vec![None; slots];\n        for seed in 0..=255 {\n",
        says: "has a filter with some seed from 0 to 255",
    },
    Wrong {
        what: "contradictions are ignored",
        old: "if keys.iter().all(|key| add(&mut band, row(key, slots, seed))) {",
        new: "keys.iter().for_each(|key| _ = add(&mut band, row(key, slots, seed)));\n            {",
        says: "keys of set 0 that are denied, with seed 0",
    },
    Wrong {
        what: "a query uses seed 0",
        old: "row(key, self.slots.len(), self.seed)",
        new: "row(key, self.slots.len(), 0)",
        says: "keys of set 0 that are denied, with seed 1",
    },
    Wrong {
        what: "a query compares with 0",
        old: "picked(&self.slots, &row) == row.fingerprint",
        new: "picked(&self.slots, &row) == 0",
        says: "is denied",
    },
    Wrong {
        what: "a query asks for the fingerprint's bits only",
        old: "picked(&self.slots, &row) == row.fingerprint",
        new: "picked(&self.slots, &row) & row.fingerprint == row.fingerprint",
        says: "absent keys pass, expected about 100",
    },
];
