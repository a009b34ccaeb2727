use super::{ENDLESS, Wrong};

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "the cache evicts the newest block",
        old: "min_by_key(|(_, block)| (block.kind != Kind::Data, block.used))",
        new: "max_by_key(|(_, block)| (block.kind == Kind::Data, block.used))",
        says: "this block was used after the two others, so it stays",
    },
    Wrong {
        what: "a hit does not count as a use",
        old: "            block.used = used;\n",
        new: "",
        says: "this block was used after the two others, so it stays",
    },
    Wrong {
        what: "filters are evicted first",
        old: "block.kind != Kind::Data",
        new: "block.kind == Kind::Data",
        says: "displaced the filter",
    },
    Wrong {
        what: "filters are evicted like data",
        old: "(block.kind != Kind::Data, block.used)",
        new: "block.used",
        says: "displaced the filter",
    },
    Wrong {
        what: "filters stay and indexes do not",
        old: "block.kind != Kind::Data",
        new: "block.kind == Kind::Filter",
        says: "displaced the index",
    },
    Wrong {
        what: "blocks of different tables have one name",
        old: "(table.number, handle.offset)",
        new: "(0, handle.offset)",
        says: "blocks that table 2 read, in round 0",
    },
    Wrong {
        what: "hits are not counted",
        old: "            self.hits.set(self.hits.get() + 1);\n",
        new: "",
        says: "hits and misses of 12 queries",
    },
    Wrong {
        what: "a hit counts as a miss too",
        old: "        if let Some(block) = self",
        new: "        self.misses.set(self.misses.get() + 1);\n        if let Some(block) = self",
        says: "hits and misses of 12 queries",
    },
    Wrong {
        what: "what was read is not kept",
        old: "            self.blocks.borrow_mut().insert(name, block);\n",
        new: "",
        says: "blocks that table 1 read, in round 1",
    },
    Wrong {
        what: "one block is evicted, although more room is needed",
        old: "while self.used() + bytes.len() > self.capacity && self.evict() {}",
        new: "if self.used() + bytes.len() > self.capacity {\n                self.evict();\n            }",
        says: "bytes in a cache of",
    },
    Wrong {
        what: "the new block is not counted when room is made",
        old: "while self.used() + bytes.len() > self.capacity",
        new: "while self.used() > self.capacity",
        says: "bytes in a cache of",
    },
    Wrong {
        what: "a block that is larger than the cache is kept",
        old: "if bytes.len() <= self.capacity {",
        new: "{",
        says: "bytes in a cache of",
    },
    Wrong {
        what: "room is made for a block that is larger than the cache",
        old: "        if bytes.len() <= self.capacity {
            while self.used() + bytes.len() > self.capacity && self.evict() {}",
        new: "        while self.used() + bytes.len() > self.capacity && self.evict() {}
        if bytes.len() <= self.capacity {",
        says: "was evicted for a block that is larger than the cache",
    },
    Wrong {
        what: "an empty cache is evicted from without an end",
        old: "        if bytes.len() <= self.capacity {
            while self.used() + bytes.len() > self.capacity && self.evict() {}",
        new: "        {
            while self.used() + bytes.len() > self.capacity {
                self.evict();
            }",
        says: ENDLESS,
    },
    Wrong {
        what: "the blocks are borrowed while room is made",
        old: "        // A block that is larger than the cache is read and not kept.\n",
        new: "        let mut blocks = self.blocks.borrow_mut();\n        blocks.remove(&name);\n",
        says: "already mutably borrowed",
    },
];
