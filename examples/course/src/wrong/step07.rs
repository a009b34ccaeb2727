use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "a newer version replaces the older one",
        old: "        self.entries.insert((key",
        new: "        self.entries.retain(|(other, _), _| other != key);\n        self.entries.insert((key",
        says: "before it was overwritten",
    },
    Wrong {
        what: "the next key is taken for the sought one",
        old: "(split_key(&found).0 == key).then(|| entry_of(&found, value))",
        new: "Some(entry_of(&found, value))",
        says: "`pear` is another key",
    },
    Wrong {
        what: "keys that begin like the sought one are taken for it",
        old: "split_key(&found).0 == key",
        new: "found.starts_with(key)",
        says: "`pear` is another key",
    },
    Wrong {
        what: "a lookup begins behind its own number",
        old: "self.entries_from(key, sequence).next()?",
        new: "self.entries_from(key, sequence.saturating_sub(1)).next()?",
        says: "when it was written",
    },
    Wrong {
        what: "a lookup takes the newest version, whatever its number",
        old: "self.entries_from(key, sequence).next()?",
        new: "self.entries_from(key, sequence.max(u64::MAX)).next()?",
        says: "before it was overwritten",
    },
    Wrong {
        what: "a tombstone is found as nothing",
        old: "(split_key(&found).0 == key).then(",
        new: "(split_key(&found).0 == key && split_key(&found).2 == VALUE).then(",
        says: "a tombstone is an entry",
    },
    Wrong {
        what: "a tombstone gets the kind of a value",
        old: "if value.is_some() { VALUE } else { DELETION };
            (internal_key",
        new: "if value.is_some() { VALUE } else { VALUE };
            (internal_key",
        says: "a tombstone is an entry",
    },
    Wrong {
        what: "all entries, wherever the walk should begin",
        old: "self.entries.range(place..).map(",
        new: "self.entries.range((Vec::new(), Reverse(place.1.0.max(u64::MAX)))..).map(",
        says: "`plum` was written twice",
    },
    Wrong {
        what: "the table is written in place",
        old: "    let temporary = path.with_extension(\"tmp\");
    disk::write(&temporary, &table.finish(bits_per_key))?;
    disk::rename(&temporary, path)
",
        new: "    disk::write(path, &table.finish(bits_per_key))\n",
        says: "flush() wrote in place",
    },
    Wrong {
        what: "the temporary file stays",
        old: "disk::rename(&temporary, path)",
        new: "disk::write(&temporary.with_extension(\"old\"), b\"\")?;\n    disk::rename(&temporary, path)",
        says: "flush() left a temporary file",
    },
    Wrong {
        what: "the table has no checksums",
        old: "TableBuilder::new(ROCKSDB)",
        new: "TableBuilder::new(super::step05_table::PLAIN)",
        says: "a table with the ending ROCKSDB",
    },
    Wrong {
        what: "the table has no filter",
        old: "&table.finish(bits_per_key)",
        new: "&table.finish(0.0 * bits_per_key)",
        says: "the table has no filter",
    },
    Wrong {
        what: "the CRC is of the length too",
        old: "    let crc = crc32fast::hash(payload).to_le_bytes();
    let length = (payload.len() as u32).to_le_bytes();
",
        new: "    let length = (payload.len() as u32).to_le_bytes();
    let crc = crc32fast::hash(&[&length, payload].concat()).to_le_bytes();
",
        says: "the first record is",
    },
    Wrong {
        what: "the length stands before the CRC",
        old: "[&crc, &length, payload].concat()",
        new: "[&length, &crc, payload].concat()",
        says: "the first record is",
    },
    Wrong {
        what: "the CRC is not compared",
        old: "Ok(payload) if crc32fast::hash(payload) == crc =>",
        new: "Ok(payload) if crc32fast::hash(payload) == crc || crc > 0 =>",
        says: "a bit of byte",
    },
    Wrong {
        what: "a torn record is passed over, and the log is read on",
        old: "            _ => break,",
        new: "            Ok(_) => {}\n            Err(_) => break,",
        says: "replay does not end before that record",
    },
    Wrong {
        what: "the last record is lost",
        old: "    payloads\n    // end",
        new: "    payloads.pop();\n    payloads\n    // end",
        says: "left: replayed",
    },
    Wrong {
        what: "a torn record is a panic",
        old: "while let (Ok(crc), Ok(length)) = (fixed32(rest, 0), fixed32(rest, 4)) {",
        new: "while !rest.is_empty() {
        let crc = fixed32(rest, 0).expect(\"the CRC of a record\");
        let length = fixed32(rest, 4).expect(\"the length of a record\");",
        says: "the CRC of a record",
    },
];
