use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "equal bytes are counted, also behind the first difference",
        old: ".take_while(|(a, b)| a == b)",
        new: ".filter(|(a, b)| a == b)",
        says: "the entry of `pier`, which shares 1 byte with `pear`",
    },
    Wrong {
        what: "the whole key is stored behind the shared prefix",
        old: "self.bytes.extend(&key[shared..]);",
        new: "self.bytes.extend(key);",
        says: "the entry of `apricot`, which shares 2 bytes with `apple`",
    },
    Wrong {
        what: "the key before is always the first",
        old: "        self.last_key = key.to_vec();\n",
        new: "        if self.last_key.is_empty() {\n            self.last_key = key.to_vec();\n        }\n",
        says: "the entry of `pier`, which shares 1 byte with `pear`",
    },
    Wrong {
        what: "value and key have exchanged lengths",
        old: "        put_varint(&mut self.bytes, (key.len() - shared) as u64);
        put_varint(&mut self.bytes, value.len() as u64);",
        new: "        put_varint(&mut self.bytes, value.len() as u64);
        put_varint(&mut self.bytes, (key.len() - shared) as u64);",
        says: "the entry of `apple`, the first",
    },
    Wrong {
        what: "an entry at a restart point shares a prefix",
        old: "        } else {\n            shared = key",
        new: "        }\n        if self.entries > 0 {\n            shared = key",
        says: "the entry at restart point 1 shares bytes with the one before",
    },
    Wrong {
        what: "a restart point one entry too late",
        old: "self.entries.is_multiple_of(self.interval)",
        new: "self.entries.is_multiple_of(self.interval + 1)",
        says: "entry 16 is not there",
    },
    Wrong {
        what: "a restart point is noted behind its entry",
        old: "            self.restarts.push(self.bytes.len() as u32);\n",
        new: "            self.restarts.push((self.bytes.len() + key.len() + value.len() + 3) as u32);\n",
        says: "the restart points",
    },
    Wrong {
        what: "the reader keeps all of the last key",
        old: "        self.key.truncate(shared);\n",
        new: "",
        says: "key 1",
    },
    Wrong {
        what: "the reader takes each length as one byte",
        old: "self.at = self.end - rest.len();",
        new: "self.at += 3 + own as usize + value_bytes as usize;",
        says: "whose length takes two bytes",
    },
    Wrong {
        what: "the reader does not check what an entry shares",
        old: "if shared > self.key.len() {",
        new: "if false {",
        says: "shares 100 bytes with a key of 14 is read without an error",
    },
    Wrong {
        what: "the reader slices without a check",
        old: "        self.key.extend(take(&mut rest, own)?);\n",
        new: "        self.key.extend(&rest[..own as usize]);\n        rest = &rest[own as usize..];\n",
        says: "out of range",
    },
    Wrong {
        what: "the search walks from the start of the block",
        old: "self.entries_from(low)?",
        new: "self.entries()",
        says: "it walks from the start",
    },
    Wrong {
        what: "the search ends at the end of a restart interval",
        old: "self.entries_from(low)? {",
        new: "self.entries_from(low)?.take(RESTART_INTERVAL) {",
        says: "behind the key of entry 15 of 17",
    },
    Wrong {
        what: "the search starts a restart interval too late",
        old: "if is_before(&key) => low = middle,",
        new: "if is_before(&key) => low = (middle + 1).min(self.restarts - 1),",
        says: "the key of entry ",
    },
    Wrong {
        what: "the halving never gets shorter than two",
        old: "while high - low > 1 {",
        new: "while low < high {",
        says: super::ENDLESS,
    },
    Wrong {
        what: "an equal key counts as before",
        old: "if !is_before(&key) {\n                return Ok(Some((key, value)));",
        new: "if !is_before(&key) && !is_before(&key[..key.len() - 1]) {\n                return Ok(Some((key, value)));",
        says: "the key of entry 0 of 1",
    },
];
