//! A table's cursor: [`Cursor::step`], which moves as `next` does, but only if the move cannot
//! fail, and seeks for which [`Cursor::fetch_for_seek`] has prefetched memory.

use std::sync::Arc;

use super::{context, mixed_entries, options, table};
use crate::cursor::{Cursor, Fetch};
use crate::encoding::key;
use crate::table::{Compression, ScanOptions, TableCursor};

#[test]
fn steps_go_through_blocks_and_over_their_ends_as_next_does() {
    let entries = mixed_entries(2000);
    for cache_bytes in [8 << 20, 0] {
        let context = context(cache_bytes);
        let table = table(&entries, options(Compression::None), &context);
        let blocks = table.properties().number("rocksdb.num.data.blocks").unwrap() as usize;
        let mut left = Vec::new();
        for _ in 0..2 {
            let mut cursor = TableCursor::new(Arc::clone(&table), ScanOptions::default());
            cursor.seek_to_first().unwrap();
            let mut left_to_next = 0;
            for pair in entries.windows(2) {
                match cursor.step() {
                    Some(step) => {
                        let repeats = key::user_key(&pair[0].0) == key::user_key(&pair[1].0);
                        assert_eq!(step.repeats, repeats, "{:?}", pair[1].0);
                        assert_eq!(step.trailer, key::trailer(&pair[1].0));
                    }
                    None => {
                        left_to_next += 1;
                        assert_eq!(cursor.key(), pair[0].0, "it did not move");
                        cursor.next().unwrap();
                    }
                }
                assert_eq!((cursor.key(), cursor.value()), (&pair[1].0[..], &pair[1].1[..]));
                assert_eq!(cursor.value_slice(), pair[1].1);
            }
            assert!(cursor.step().is_none() && cursor.valid(), "at the end it stays for `next`");
            // `step` returns `None` only at the end of a block, and only if the next block is not
            // in memory.
            assert!(left_to_next == 0 || left_to_next == blocks - 1, "{left_to_next}");
            left.push(left_to_next);
        }
        // The second walk finds the blocks in memory if the cache could keep them.
        assert_eq!(left, [blocks - 1, if cache_bytes == 0 { blocks - 1 } else { 0 }]);
    }
}

#[test]
fn a_walk_goes_on_by_steps_after_it_turned() {
    let entries = mixed_entries(600);
    let table = table(&entries, options(Compression::None), &context(8 << 20));
    let mut cursor = TableCursor::new(table, ScanOptions::default());
    for start in (0..entries.len() - 40).step_by(11) {
        cursor.seek(&entries[start + 20].0).unwrap();
        for i in (start..start + 20).rev() {
            cursor.prev().unwrap();
            assert_eq!(cursor.key(), entries[i].0);
        }
        for (key, _) in &entries[start + 1..start + 40] {
            if cursor.step().is_none() {
                cursor.next().unwrap();
            }
            assert_eq!(&cursor.key(), key);
        }
    }
}

#[test]
fn a_seek_that_was_prepared_comes_to_the_same_entry() {
    let entries = mixed_entries(600);
    for cache_bytes in [8 << 20, 30 << 10, 0] {
        let table = table(&entries, options(Compression::None), &context(cache_bytes));
        let mut prepared = TableCursor::new(Arc::clone(&table), ScanOptions::default());
        let mut plain = TableCursor::new(table, ScanOptions::default());
        let targets = entries.iter().flat_map(|(target, _)| {
            let user = key::user_key(target);
            [target.clone(), key::seek_key(user, 3), key::seek_key(&[user, &[0]].concat(), 9)]
        });
        for target in targets.chain([key::seek_key(&[0xff; 40], 1)]) {
            for fetch in [Fetch::Block, Fetch::Entries] {
                prepared.fetch_for_seek(&target, fetch);
            }
            prepared.seek(&target).unwrap();
            plain.seek(&target).unwrap();
            assert_eq!(prepared.valid(), plain.valid(), "{target:?}");
            assert!(!plain.valid() || prepared.key() == plain.key(), "{target:?}");
        }
        // If the cursor moves elsewhere after a preparation, the next seek does not use it.
        prepared.fetch_for_seek(&entries[500].0, Fetch::Block);
        prepared.seek_to_first().unwrap();
        prepared.seek(&entries[3].0).unwrap();
        assert_eq!(prepared.key(), entries[3].0);
    }
}
