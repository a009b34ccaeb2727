use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "the last source is taken",
        old: "place.is_none_or(|(user_key, sequence)| is_before(key, user_key, sequence))",
        new: "place.is_none_or(|(user_key, sequence)| !is_before(key, user_key, sequence))",
        says: "User keys ascend, and newer versions come first",
    },
    Wrong {
        what: "user keys alone are compared",
        old: "is_before(key, user_key, sequence))",
        new: "split_key(key).0 < user_key && sequence > 0)",
        says: "newer versions come first",
    },
    Wrong {
        what: "internal keys are compared as bytes",
        old: "place.is_none_or(|(user_key, sequence)| is_before(key, user_key, sequence))",
        new: "self.first.is_none_or(|first| self.sources[first].entry().is_none_or(|(other, _)| key < other))",
        says: "newer versions come first",
    },
    Wrong {
        what: "all sources at the same key go on",
        old: "        if let Some(first) = self.first {
            self.sources[first].next()?;
        }
",
        new: "        let key = self.entry().map(|(key, _)| split_key(key).0.to_vec());
        for source in &mut self.sources {
            if source.entry().map(|(key, _)| split_key(key).0.to_vec()) == key && key.is_some() {
                source.next()?;
            }
        }
",
        says: "Left: yours; right: expected",
    },
    Wrong {
        what: "all sources go on",
        old: "        if let Some(first) = self.first {
            self.sources[first].next()?;
        }
",
        new: "        for source in &mut self.sources {
            source.next()?;
        }
",
        says: "Left: yours; right: expected",
    },
    Wrong {
        what: "next() does not choose anew",
        old: "            self.sources[first].next()?;
        }
        self.choose();
",
        new: "            self.sources[first].next()?;
            if self.sources[first].entry().is_none() {
                self.choose();
            }
        }
",
        says: "Left: yours; right: expected",
    },
    Wrong {
        what: "seek() moves only sources that are at an entry",
        old: "            source.seek(user_key, sequence)?;
",
        new: "            if self.first.is_none() || source.entry().is_some() {
                source.seek(user_key, sequence)?;
            }
",
        says: "`seek` to the start after one source came to its end",
    },
    Wrong {
        what: "a tombstone is shown as an empty value",
        old: "found = (kind == VALUE).then(|| (key.to_vec(), value.clone()));",
        new: "let _ = (kind, VALUE);\n                found = Some((key.to_vec(), value.clone()));",
        says: "`a` and `c` were deleted",
    },
    Wrong {
        what: "a tombstone hides nothing",
        old: "if sequence <= self.sequence && self.last.as_deref() != Some(key) {",
        new: "if sequence <= self.sequence && self.last.as_deref() != Some(key) && kind == VALUE {",
        says: "`a` and `c` were deleted",
    },
    Wrong {
        what: "the scan ends at a tombstone",
        old: "            if found.is_some() {
                return Ok(found);
            }
",
        new: "            if found.is_some() || kind != VALUE {
                return Ok(found);
            }
",
        says: "`a` and `c` were deleted",
    },
    Wrong {
        what: "every version is shown",
        old: "sequence <= self.sequence && self.last.as_deref() != Some(key)",
        new: "sequence <= self.sequence",
        says: "of each key the newest version",
    },
    Wrong {
        what: "an empty first key is not shown",
        old: "self.last.as_deref() != Some(key)",
        new: "self.last.as_deref().unwrap_or_default() != key",
        says: "the first key is empty",
    },
    Wrong {
        what: "what is newer than the scan is shown",
        old: "sequence <= self.sequence && self.last",
        new: "self.last",
        says: "a scan at number",
    },
    Wrong {
        what: "what is newer than the scan hides what is older",
        old: "            if sequence <= self.sequence && self.last.as_deref() != Some(key) {
                self.last = Some(key.to_vec());
                found =",
        new: "            if self.last.as_deref() != Some(key) {
                self.last = Some(key.to_vec());
                found = (sequence <= self.sequence)
                    .then(|| (key.to_vec(), value.clone()))
                    .filter(|_| kind == VALUE);
            }
            if false {
                found =",
        says: "a scan at number",
    },
    Wrong {
        what: "the write of the scan's own number is not seen",
        old: "sequence <= self.sequence &&",
        new: "sequence < self.sequence &&",
        says: "a scan at number",
    },
    Wrong {
        what: "the memtable is forgotten",
        old: "    cursor.sources.push(Box::new(MemtableCursor::new(&db.memtable)));\n",
        new: "    cursor.sources.retain(|_| true);\n",
        says: "keys of the memtable",
    },
    Wrong {
        what: "of level 0 only the newest table is scanned",
        old: "db.levels.iter().flatten());",
        new: "db.levels.iter().flat_map(|level| level.first()));",
        says: "keys of the older table of level 0",
    },
    Wrong {
        what: "deep levels are forgotten",
        old: "db.levels.iter().flatten());",
        new: "db.levels.iter().take(2).flatten());",
        says: "keys of level 2",
    },
];
