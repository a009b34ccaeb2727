use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "the filter has internal keys",
        old: "hash64(user_key)",
        new: "hash64(internal_key)",
        says: "is in the table and is denied",
    },
    Wrong {
        what: "the filter gets the hash of each version",
        old: "if self.hashes.is_empty() || split_key(&self.last_key).0 != user_key {",
        new: "{",
        says: "for 4 user keys with 203 versions",
    },
    Wrong {
        what: "the filter lacks an empty first key",
        old: "self.hashes.is_empty() || split_key",
        new: "split_key",
        says: "`` is in the table and is denied",
    },
    Wrong {
        what: "sequence numbers ascend",
        old: "(key, Reverse(number)) < (user_key, Reverse(sequence))",
        new: "(key, number) < (user_key, sequence)",
        says: "comes before `fig` number",
    },
    Wrong {
        what: "internal keys are compared as bytes",
        old: "(key, Reverse(number)) < (user_key, Reverse(sequence))",
        new: "(key, number.to_le_bytes()) < (user_key, sequence.to_le_bytes())",
        says: "comes before `fig` number",
    },
    Wrong {
        what: "an entry comes before itself",
        old: "(key, Reverse(number)) < (user_key, Reverse(sequence))",
        new: "(key, Reverse(number)) <= (user_key, Reverse(sequence))",
        says: "does not come before",
    },
    Wrong {
        what: "a data block ends one entry too late",
        old: "        self.data.add(internal_key, value);
        if self.hashes.is_empty() || split_key(&self.last_key).0 != user_key {
            self.hashes.push(hash64(user_key));
        }
        self.last_key = internal_key.to_vec();
        if self.data.size() >= BLOCK_BYTES {
            self.end_data_block();
        }
",
        new: "        if self.data.size() >= BLOCK_BYTES {
            self.data.add(internal_key, value);
            self.end_data_block();
        } else {
            self.data.add(internal_key, value);
        }
        if self.hashes.is_empty() || split_key(&self.last_key).0 != user_key {
            self.hashes.push(hash64(user_key));
        }
        self.last_key = internal_key.to_vec();
",
        says: "is not found",
    },
    Wrong {
        what: "data blocks never end",
        old: "if self.data.size() >= BLOCK_BYTES {",
        new: "if self.data.size() >= 1 << 30 {",
        says: "data blocks, expected 80 to 90",
    },
    Wrong {
        what: "the handle includes the trailer",
        old: "size: block.len() as u64 };",
        new: "size: block.len() as u64 + TRAILER_BYTES };",
        says: "that of the block, without the trailer",
    },
    Wrong {
        what: "the checksum does not cover the compression byte",
        old: "(self.ending.checksum)(&self.file[handle.offset as usize..])",
        new: "(self.ending.checksum)(block)",
        says: "the block and the byte 0",
    },
    Wrong {
        what: "the checksum is big-endian",
        old: "self.file.extend(checksum.to_le_bytes());",
        new: "self.file.extend(checksum.to_be_bytes());",
        says: "the block and the byte 0",
    },
    Wrong {
        what: "the filter is not entered in the metaindex",
        old: "            metaindex.add(FILTER, &handle.encode());\n",
        new: "",
        says: "the table has no filter",
    },
    Wrong {
        what: "a table without a filter denies every key",
        old: "else { return Ok(true) };",
        new: "else { return Ok(false) };",
        says: "a table without a filter denies a key",
    },
    Wrong {
        what: "the next key is taken for the sought one",
        old: ".filter(|(key, _)| split_key(key).0 == user_key)",
        new: "",
        says: "is not in the table and is found",
    },
    Wrong {
        what: "the whole table is searched",
        old: "        let Some((_, handle)) = index.seek(is_before)? else { return Ok(None) };
",
        new: "        let here = self.entries()?.into_iter().find(|(key, _)| !is_before(key));
        let Some((_, handle)) = index.seek(is_before)? else { return Ok(None) };
        if here.is_none() {
            return Ok(None);
        }
",
        says: "blocks that one get() reads",
    },
    Wrong {
        what: "the filter is queried again by get()",
        old: "        let index = Block::new(blocks",
        new: "        self.may_contain(blocks, hash64(user_key))?;\n        let index = Block::new(blocks",
        says: "blocks that one get() reads",
    },
    Wrong {
        what: "a lookup compares user keys alone",
        old: "let is_before = |key: &[u8]| is_before(key, user_key, sequence);",
        new: "let _ = sequence;\n        let is_before = |key: &[u8]| split_key(key).0 < user_key;",
        says: "the version of `plum` at number",
    },
];
