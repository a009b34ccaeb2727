use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "seek() stays at the restart point",
        old: "        while self.entry().is_some_and(|(key, _)| is_before(key)) {
            self.next()?;
        }
",
        new: "",
        says: "seek to key000000! number 9 goes to key000000 number 9",
    },
    Wrong {
        what: "seek() goes one entry too far",
        old: "        while self.entry().is_some_and(|(key, _)| is_before(key)) {
            self.next()?;
        }
",
        new: "        while self.entry().is_some_and(|(key, _)| is_before(key)) {
            self.next()?;
        }
        if self.entry().is_some() && sequence < u64::MAX {
            self.next()?;
        }
",
        says: "goes to",
    },
    Wrong {
        what: "seek() takes the restart point behind the place",
        old: "self.rest = self.block.entries_from(low)?;",
        new: "self.rest = self.block.entries_from(high.min(self.block.restarts - 1))?;",
        says: "a block of 17 entries",
    },
    Wrong {
        what: "seek() walks from the start of the block",
        old: "self.rest = self.block.entries_from(low)?;",
        new: "self.rest = self.block.entries();",
        says: "it walks from the start",
    },
    Wrong {
        what: "seek() goes on from where the cursor was",
        old: "        self.rest = self.block.entries_from(low)?;
        self.next()?;
",
        new: "        if self.current.is_none() {
            self.rest = self.block.entries_from(low)?;
            self.next()?;
        }
",
        says: "seek to",
    },
    Wrong {
        what: "seek() does not step onto its first entry",
        old: "        self.rest = self.block.entries_from(low)?;
        self.next()?;
",
        new: "        self.rest = self.block.entries_from(low)?;\n",
        says: "and 0 calls of next() the cursor is at the end",
    },
    Wrong {
        what: "next() stays at the last entry",
        old: "        self.current = self.rest.next().transpose()?;
        Ok(())
        // end
    }

    fn entry(&self) -> Option<&KeyValue> {
        self.current.as_ref()
    }
}

/// A cursor over a table. It",
        new: "        if let Some(entry) = self.rest.next() {
            self.current = Some(entry?);
        }
        Ok(())
        // end
    }

    fn entry(&self) -> Option<&KeyValue> {
        self.current.as_ref()
    }
}

/// A cursor over a table. It",
        says: "behind the last entry the cursor is at",
    },
    Wrong {
        what: "the walk ends with the first block",
        old: "        self.load()?;
        self.data.as_mut().map_or(Ok(()), |data| data.next())
",
        new: "        self.data = None;\n        Ok(())\n",
        says: "calls of next() the cursor is at the end",
    },
    Wrong {
        what: "the first entry of each block is passed over",
        old: "        self.data.as_mut().map_or(Ok(()), |data| data.next())
",
        new: "        if let Some(data) = &mut self.data {
            data.next()?;
            data.next()?;
        }
        Ok(())
",
        says: "a table of 1000 entries: after",
    },
    Wrong {
        what: "the cursor is at no entry of the next block",
        old: "        self.data.as_mut().map_or(Ok(()), |data| data.next())
",
        new: "        Ok(())\n",
        says: "calls of next() the cursor is at the end",
    },
    Wrong {
        what: "the whole table is read at once",
        old: "            index.seek(user_key, sequence)?;
",
        new: "            index.seek(user_key, sequence)?;
            self.table.entries()?;
",
        says: "blocks that a seek reads",
    },
    Wrong {
        what: "each next() reads its block again",
        old: "        if let Some(data) = &mut self.data {
            data.next()?;
            if data",
        new: "        if let Some((_, handle)) = self.index.as_ref().and_then(|index| index.entry()) {
            self.table.read_block(Handle::take(&mut &handle[..])?)?;
        }
        if let Some(data) = &mut self.data {
            data.next()?;
            if data",
        says: "blocks after one next()",
    },
    Wrong {
        what: "a damaged block is taken for the end",
        old: "        self.load()?;
        self.data.as_mut()",
        new: "        if self.load().is_err() {
            self.data = None;
        }
        self.data.as_mut()",
        says: "next() says that there are no more",
    },
    Wrong {
        what: "a damaged entry is taken for the end",
        old: "        // yours: one line
        self.current = self.rest.next().transpose()?;
",
        new: "        // yours: one line
        self.current = self.rest.next().and_then(|entry| entry.ok());
",
        says: "walks over a damaged entry without an error",
    },
    Wrong {
        what: "seek() compares user keys alone",
        old: "let is_before = |key: &[u8]| is_before(key, user_key, sequence);",
        new: "let is_before = |key: &[u8]| is_before(key, user_key, sequence.max(u64::MAX));",
        says: "seek to",
    },
];
