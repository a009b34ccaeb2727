use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "the new table is not synced",
        old: "            disk::sync(&table_path(&self.directory, number))?;\n",
        new: "            disk::open(&table_path(&self.directory, number))?;\n",
        says: "there is no step `sync 000001.sst`",
    },
    Wrong {
        what: "the name of the new table is not synced",
        old: "            disk::sync_directory(&self.directory)?;
        }
        let file",
        new: "        }
        let file",
        says: "there is no step `sync the directory`",
    },
    Wrong {
        what: "the table is synced after the MANIFEST",
        old: "        if let Some(number) = edit.added {
            disk::sync(&table_path(&self.directory, number))?;
            disk::sync_directory(&self.directory)?;
        }
        let file = disk::open(&self.path)?;
        disk::append(&file, &self.path, &record(&encode(edit)))?;
        disk::sync(&self.path)
",
        new: "        let file = disk::open(&self.path)?;
        disk::append(&file, &self.path, &record(&encode(edit)))?;
        disk::sync(&self.path)?;
        if let Some(number) = edit.added {
            disk::sync(&table_path(&self.directory, number))?;
            disk::sync_directory(&self.directory)?;
        }
        Ok(())
",
        says: "the change is appended when its table is on the disk",
    },
    Wrong {
        what: "the MANIFEST is not synced",
        old: "        disk::append(&file, &self.path, &record(&encode(edit)))?;
        disk::sync(&self.path)
",
        new: "        disk::append(&file, &self.path, &record(&encode(edit)))\n",
        says: "there is no step `sync MANIFEST`",
    },
    Wrong {
        what: "the MANIFEST is synced before the change is appended",
        old: "        disk::append(&file, &self.path, &record(&encode(edit)))?;
        disk::sync(&self.path)
",
        new: "        disk::sync(&self.path)?;
        disk::append(&file, &self.path, &record(&encode(edit)))
",
        says: "the last `sync MANIFEST` is before `to MANIFEST`",
    },
    Wrong {
        what: "the MANIFEST is written anew at each change",
        old: "        let file = disk::open(&self.path)?;
        disk::append(&file",
        new: "        let all = read(&self.path)?;
        disk::write(&self.path, &all)?;
        let file = disk::open(&self.path)?;
        disk::append(&file",
        says: "a change is appended, and nothing is written anew",
    },
    Wrong {
        what: "changes are appended to the old MANIFEST, behind a torn record",
        old: "        disk::write(&temporary, &records)?;
",
        new: "        let old = read(&self.path)?;
        disk::write(&temporary, if old.is_empty() { &records } else { &old })?;
",
        says: "a change behind a torn record is lost",
    },
    Wrong {
        what: "the new MANIFEST is written in place",
        old: "        disk::write(&temporary, &records)?;
        disk::sync(&temporary)?;
        disk::rename(&temporary, &self.path)?;
",
        new: "        disk::write(&self.path, &records)?;
        disk::sync(&self.path)?;
        disk::write(&temporary, b\"\")?;
",
        says: "the MANIFEST is written in place",
    },
    Wrong {
        what: "the new MANIFEST is not synced",
        old: "        disk::sync(&temporary)?;\n",
        new: "",
        says: "its bytes must be on the disk before",
    },
    Wrong {
        what: "the new MANIFEST is synced after it is renamed",
        old: "        disk::sync(&temporary)?;
        disk::rename(&temporary, &self.path)?;
",
        new: "        disk::rename(&temporary, &self.path)?;
        disk::sync(&self.path)?;
",
        says: "its bytes must be on the disk before",
    },
    Wrong {
        what: "the new MANIFEST's name is not synced",
        old: "        disk::rename(&temporary, &self.path)?;
        disk::sync_directory(&self.directory)?;
",
        new: "        disk::rename(&temporary, &self.path)?;
",
        says: "its new name must be on the disk",
    },
    Wrong {
        what: "the new MANIFEST forgets which entries are in tables",
        old: "        let records: Vec<u8> = edits",
        new: "        listing.flushed *= 0;
        let records: Vec<u8> = edits",
        says: "after 1 changes, read for",
    },
    Wrong {
        what: "the new MANIFEST has all old changes",
        old: "        let records: Vec<u8> = edits(&listing).iter().flat_map(|e| record(&encode(e))).collect();
",
        new: "        let old = read(&self.path)?;
        let records: Vec<u8> = payloads(&old).iter().flat_map(|payload| record(payload)).collect();
",
        says: "a new one needs only what exists",
    },
    Wrong {
        what: "only the last change is read",
        old: "            listing.apply(&decode(payload)?);
",
        new: "            listing = Listing::default();
            listing.apply(&decode(payload)?);
",
        says: "after 2 changes",
    },
    Wrong {
        what: "the tables are listed in LEVELS",
        old: "Box::new(Manifest::new(directory))",
        new: "Box::new(super::step08_levels::ListFile(directory.join(\"LEVELS\")))",
        says: "the tables are listed in LEVELS",
    },
    Wrong {
        what: "the memtable is never flushed",
        old: "if self.db.memtable.bytes >= self.memtable_bytes {",
        new: "if self.db.memtable.bytes >= self.memtable_bytes << 20 {",
        says: "and is flushed at 600",
    },
    Wrong {
        what: "every write is flushed",
        old: "if self.db.memtable.bytes >= self.memtable_bytes {",
        new: "if self.memtable_bytes > 0 {",
        says: "is flushed before it is full",
    },
    Wrong {
        what: "nothing is compacted",
        old: "            settle(&mut self.db, self.limits, &self.snapshots.sequences())?;\n",
        new: "",
        says: "level 0 has 2 tables after write",
    },
    Wrong {
        what: "compactions forget the snapshots",
        old: "&self.snapshots.sequences())?;",
        new: "&[])?;",
        says: "the snapshot that was taken after",
    },
    Wrong {
        what: "sync() syncs nothing",
        old: "self.db.log.sync()",
        new: "Ok(())",
        says: "there is no step `sync log`",
    },
    Wrong {
        what: "sync() flushes instead, at each call",
        old: "self.db.log.sync()",
        new: "self.db.flush()",
        says: "there is no step `sync log`",
    },
    Wrong {
        what: "the log is emptied before the flush",
        old: "            self.db.flush()?;\n",
        new: "            self.db.log.clear()?;\n            self.db.flush()?;\n",
        says: "writes must be there",
    },
    Wrong {
        what: "a deletion is written as an empty value",
        old: "None => self.db.delete(key)?,",
        new: "None => self.db.put(key, b\"\")?,",
        says: "shows another state",
    },
];
