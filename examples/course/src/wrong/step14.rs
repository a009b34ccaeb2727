use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "two snapshots of one state count as one",
        old: "*self.held.borrow_mut().entry(sequence).or_default() += 1;",
        new: "self.held.borrow_mut().insert(sequence, 1);",
        says: "one of two snapshots 9 was dropped",
    },
    Wrong {
        what: "a snapshot is never let go",
        old: "            if *count == 0 {
                held.remove(&self.sequence);
            }
",
        new: "",
        says: "both snapshots 9 were dropped",
    },
    Wrong {
        what: "the first of two snapshots lets go of the number",
        old: "            if *count == 0 {",
        new: "            if *count <= 1 {",
        says: "one of two snapshots 9 was dropped",
    },
    Wrong {
        what: "dropping a snapshot removes all older ones",
        old: "                held.remove(&self.sequence);
",
        new: "                *held = held.split_off(&(self.sequence + 1));
",
        says: "both snapshots 9 were dropped",
    },
    Wrong {
        what: "a snapshot sees the write after it",
        old: "db.get_at(key, self.sequence)",
        new: "db.get_at(key, self.sequence + 1)",
        says: "in a snapshot before the first write",
    },
    Wrong {
        what: "a snapshot sees what is there now",
        old: "db.get_at(key, self.sequence)",
        new: "db.get(key)",
        says: "in a snapshot before the first write",
    },
    Wrong {
        what: "a scan of a snapshot sees what is there now",
        old: "scan(db, from, self.sequence)",
        new: "scan(db, from, db.last_sequence)",
        says: "a scan of a snapshot, after three later writes",
    },
    Wrong {
        what: "a scan of a snapshot begins at the first key",
        old: "scan(db, from, self.sequence)",
        new: "scan(db, &from[..0], self.sequence)",
        says: "the same from `b` on",
    },
    Wrong {
        what: "every version that is newer than some snapshot is kept",
        old: "(sequence..newer).contains(snapshot)",
        new: "*snapshot <= newer && sequence > 0",
        says: "the snapshot 9 sees version 9",
    },
    Wrong {
        what: "the snapshot of the write itself does not see it",
        old: "(sequence..newer).contains(snapshot)",
        new: "(sequence + 1..newer).contains(snapshot)",
        says: "the snapshot 5 sees it",
    },
    Wrong {
        what: "the snapshot of the next write sees this one",
        old: "(sequence..newer).contains(snapshot)",
        new: "(sequence..=newer).contains(snapshot)",
        says: "the snapshot 9 sees version 9",
    },
    Wrong {
        what: "the oldest snapshot alone counts",
        old: "snapshots.iter().any(",
        new: "snapshots.iter().take(1).any(",
        says: "the snapshot 8 sees it",
    },
    Wrong {
        what: "the newest snapshot alone counts",
        old: "snapshots.iter().any(",
        new: "snapshots.iter().rev().take(1).any(",
        says: "the snapshot 8 sees it",
    },
    Wrong {
        what: "the newest version is kept only if a snapshot sees it",
        old: "else { return true };",
        new: "else { return snapshots.iter().any(|snapshot| *snapshot >= sequence) };",
        says: "it is the newest version",
    },
    Wrong {
        what: "the version of another key counts as the next newer one",
        old: "last.as_ref().filter(|(last, _)| last == key).map(",
        new: "last.as_ref().map(",
        says: "the newest version of each key",
    },
    Wrong {
        what: "tombstones are not kept",
        old: "if is_needed(sequence, newer, snapshots) {",
        new: "if is_needed(sequence, newer, snapshots) && split_key(&entry.0).2 != 0 {",
        says: "also if it is a tombstone",
    },
    Wrong {
        what: "an empty first key has a newer version",
        old: "let mut last: Option<(Vec<u8>, u64)> = None;",
        new: "let mut last: Option<(Vec<u8>, u64)> = Some((Vec::new(), 0));",
        says: "The first key is empty",
    },
];
