use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "a tombstone does not end a lookup",
        old: "                if let Some(entry) = found {
                    return Ok(entry.value);
                }
",
        new: "                if let Some(Entry { value: Some(value), .. }) = found {
                    return Ok(Some(value));
                }
",
        says: "4 is its deletion, in level 0",
    },
    Wrong {
        what: "a tombstone in the memtable does not end a lookup",
        old: "        if let Some(entry) = self.memtable.get(key, sequence) {
            return Ok(entry.value);
        }
",
        new: "        if let Some(value) = self.memtable.get(key, sequence).and_then(|entry| entry.value) {
            return Ok(Some(value));
        }
",
        says: "4 is its deletion, in the memtable",
    },
    Wrong {
        what: "the memtable is searched last",
        old: "        if let Some(entry) = self.memtable.get(key, sequence) {
            return Ok(entry.value);
        }
        let hash = hash64(key);
        for (level",
        new: "        let hash = hash64(key);
        if !self.levels.iter().all(Vec::is_empty) || self.memtable.get(key, sequence).is_some() {
            let old = self.levels.iter().flatten().find_map(|t| {
                t.get(&Uncached, key, sequence).ok().flatten()
            });
            if let Some(entry) = old.or_else(|| self.memtable.get(key, sequence)) {
                return Ok(entry.value);
            }
        }
        for (level",
        says: "1, 2 and 3 are puts, 4 is its deletion",
    },
    Wrong {
        what: "the oldest table of a level is searched first",
        old: "            for table in tables {\n                let mut counts",
        new: "            for table in tables.iter().rev() {\n                let mut counts",
        says: "1, 2 and 3 are puts, 4 is its deletion",
    },
    Wrong {
        what: "deep levels are searched first",
        old: "in self.levels.iter().enumerate() {\n            for table in tables {\n                let mut",
        new: "in self.levels.iter().enumerate().rev() {\n            for table in tables {\n                let mut",
        says: "level 2 has an old entry of it",
    },
    Wrong {
        what: "lookups always show the newest version",
        old: "table.get(&*self.blocks, key, sequence)?",
        new: "table.get(&*self.blocks, key, self.last_sequence)?",
        says: "1, 2 and 3 are puts, 4 is its deletion",
    },
    Wrong {
        what: "the filter gets the hash of another key",
        old: "let hash = hash64(key);",
        new: "let hash = hash64(&[key, &sequence.to_le_bytes()].concat());",
        says: "Does it get the hash of the user key?",
    },
    Wrong {
        what: "a table is searched, whatever its filter says",
        old: "                    counts[level].useful += 1;
                    continue;
",
        new: "                    counts[level].useful += 1;
                    table.get(&*self.blocks, key, sequence)?;
                    continue;
",
        says: "reads of level 1 for 400 lookups",
    },
    Wrong {
        what: "only false positives count as full positives",
        old: "counts[level].full_positive += 1;",
        new: "counts[level].full_positive += u64::from(found.is_none());",
        says: "each query is useful or a full positive",
    },
    Wrong {
        what: "every maybe counts as a true one",
        old: "full_true_positive += u64::from(found.is_some())",
        new: "full_true_positive += 1",
        says: "full true positives of level",
    },
    Wrong {
        what: "counts go to the level below",
        old: "counts[level].useful += 1;",
        new: "counts[(level + 1) % LEVELS].useful += 1;",
        says: "level 0 has 2 tables",
    },
    Wrong {
        what: "a lookup goes on after the entry is found",
        old: "                if let Some(entry) = found {\n",
        new: "                if let Some(entry) = found {
                    for (deeper, tables) in self.levels.iter().enumerate().skip(level + 1) {
                        counts[deeper].useful += tables.len() as u64;
                    }
",
        says: "deeper levels are not queried",
    },
    Wrong {
        what: "the rate is divided by all lookups",
        old: "let absent = false_positive + self.useful;",
        new: "let absent = self.full_positive + self.useful;",
        says: "50 present keys say nothing of the rate",
    },
    Wrong {
        what: "the rate of no queries is zero",
        old: "(absent > 0).then(|| false_positive as f64 / absent as f64)",
        new: "Some(false_positive as f64 / absent.max(1) as f64)",
        says: "there is no rate before the first query",
    },
    Wrong {
        what: "the rate is a division by zero",
        old: "(absent > 0).then(|| false_positive as f64 / absent as f64)",
        new: "Some(false_positive as f64 / absent as f64)",
        says: "there is no rate before the first query",
    },
    Wrong {
        what: "compaction keeps the oldest entry",
        old: "newest.entry(split_key(&key).0.to_vec()).or_insert((key, value));",
        new: "newest.insert(split_key(&key).0.to_vec(), (key, value));",
        says: "the newest entry of each key",
    },
    Wrong {
        what: "compaction takes the level below for the newer one",
        old: "self.levels[level].iter().chain(&self.levels[into])",
        new: "self.levels[into].iter().chain(&self.levels[level])",
        says: "the newest entry of each key",
    },
    Wrong {
        what: "a tombstone is dropped too early",
        old: "        if self.levels[into + 1..].iter().all(Vec::is_empty) {
            newest",
        new: "        {
            newest",
        says: "must stay, because it hides the entry in level 2",
    },
    Wrong {
        what: "a tombstone is never dropped",
        old: "            newest.retain(|_, (key, _)| split_key(key).2 == VALUE);\n",
        new: "",
        says: "has nothing to hide",
    },
    Wrong {
        what: "the target of the compaction counts as a deeper level",
        old: "self.levels[into + 1..]",
        new: "self.levels[into..]",
        says: "has nothing to hide",
    },
    Wrong {
        what: "the merged tables stay",
        old: "self.replace(removed, into, newest.into_values().collect())",
        new: "removed.clear();\n        self.replace(removed, into, newest.into_values().collect())",
        says: "tables by level, after compact(0)",
    },
    Wrong {
        what: "the table of the level below stays",
        old: "            removed.push(table.number);\n",
        new: "            if self.levels[level].iter().any(|other| other.number == table.number) {
                removed.push(table.number);
            }
",
        says: "the newest entry of each key",
    },
    Wrong {
        what: "compaction leaves its table in the level",
        old: "self.replace(removed, into, newest.into_values().collect())",
        new: "self.replace(removed, level, newest.into_values().collect())",
        says: "tables by level, after compact(0)",
    },
    Wrong {
        what: "a merged level has all versions, in the order of bytes",
        old: "newest.entry(split_key(&key).0.to_vec()).or_insert((key, value));",
        new: "newest.entry(key.clone()).or_insert((key, value));",
        says: "the newest entry of each key",
    },
];
