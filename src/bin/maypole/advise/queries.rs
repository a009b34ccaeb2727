//! Keys to ask filters for: drawn from the tables, and made up between their keys.
//!
//! ```text
//! anchors      keys of some data blocks of each table that is read, and of tables that overlap it
//! neighbours   the anchors of other tables that lie in a table's range
//! made up      an anchor with other bytes at its end, within the range
//! ```
//!
//! A filter sees the hash of a key and nothing else, so made-up keys ask it as real ones do. What a
//! table holds is found out when it is read, so that keys of neighbours may be in it.

use maypole::table::SstReader;
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::sample::{Part, distinct};
use super::tables::Table;
use crate::failure::Result;

/// Data blocks that anchors come from, of all tables together, and of one table.
const BLOCKS: usize = 400;
const LEAST_BLOCKS: usize = 2;
const MOST_BLOCKS: usize = 64;
/// Tables beside those that are read which give anchors, for each of these.
const NEIGHBOURS: usize = 4;
/// Queries of all tables of a level together, of either kind, and of one table at least.
const QUERIES: usize = 60_000;
const LEAST_QUERIES: usize = 100;
/// Where only part of a table is read, each query may read a block.
const MOST_BY_BLOCKS: usize = 1000;
/// Bytes at the end of an anchor that a made-up key has others of.
const CHANGED_BYTES: usize = 4;

/// Keys of one table, in order.
pub struct Anchors {
    /// Its position.
    pub table: usize,
    pub keys: Vec<Vec<u8>>,
}

/// Draws anchors of the tables that are read, and of some that overlap them.
pub fn anchors(
    tables: &[Table],
    drawn: &[(usize, Part)],
    random: &mut SmallRng,
) -> Result<Vec<Anchors>> {
    let mut wanted: Vec<usize> = drawn.iter().map(|&(i, _)| i).collect();
    for &(i, _) in drawn {
        let others = (0..tables.len()).filter(|&j| {
            tables[j].level != tables[i].level
                && tables[j].smallest <= tables[i].largest
                && tables[j].largest >= tables[i].smallest
        });
        wanted.extend(others.take(NEIGHBOURS));
    }
    wanted.sort_unstable();
    wanted.dedup();
    let each = (BLOCKS / wanted.len().max(1)).clamp(LEAST_BLOCKS, MOST_BLOCKS);
    let mut found = Vec::new();
    for table in wanted {
        let reader = &tables[table].reader;
        let keys = keys_of_blocks(reader, each, random)?;
        if !keys.is_empty() {
            found.push(Anchors { table, keys });
        }
    }
    Ok(found)
}

/// The keys of so many data blocks. What is damaged gives none: the reading of the table says so.
fn keys_of_blocks(
    reader: &SstReader,
    blocks: usize,
    random: &mut SmallRng,
) -> Result<Vec<Vec<u8>>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let Ok(all) = reader.data_blocks() else { return Ok(keys) };
    for block in distinct(blocks, all, random) {
        let mut of_block: Vec<Vec<u8>> = Vec::new();
        let read = reader.each_key_of_block(block, |key| of_block.push(key.to_vec()));
        if read.is_ok() {
            keys.extend(of_block);
        }
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// A key that is like `anchor` but for its last bytes, from `smallest` to `largest`; `None` where
/// some attempts gave none.
pub fn made_up(
    anchor: &[u8],
    smallest: &[u8],
    largest: &[u8],
    random: &mut SmallRng,
) -> Option<Vec<u8>> {
    // The end of a long anchor may be what makes it lie near a bound: then more bytes change.
    for bytes in [CHANGED_BYTES, CHANGED_BYTES, 2 * CHANGED_BYTES, 4 * CHANGED_BYTES] {
        let mut key = anchor.to_vec();
        key.resize(key.len().max(bytes), 0);
        let start = key.len() - bytes;
        random.fill(&mut key[start..]);
        if smallest <= &key[..] && &key[..] <= largest && key != anchor {
            return Some(key);
        }
    }
    None
}

/// The queries of a table that is read, ascending and without duplicates.
pub fn of_table(
    tables: &[Table],
    anchors: &[Anchors],
    (i, part): (usize, Part),
    tables_of_level: usize,
    random: &mut SmallRng,
) -> Vec<Vec<u8>> {
    let table = &tables[i];
    let mut each = (QUERIES / tables_of_level.max(1)).max(LEAST_QUERIES);
    if part != Part::Whole {
        each = each.min(MOST_BY_BLOCKS);
    }
    let mut queries = Vec::new();
    let is_inside = |key: &&Vec<u8>| table.smallest <= **key && **key <= table.largest;
    let others = anchors.iter().filter(|other| other.table != i);
    let others: Vec<&Vec<u8>> =
        others.flat_map(|other| other.keys.iter().filter(is_inside)).collect();
    queries.extend(others.sample(random, each).map(|key| (*key).clone()));
    if let Some(own) = anchors.iter().find(|own| own.table == i) {
        for _ in 0..each {
            let anchor = own.keys.choose(random);
            let key = anchor.and_then(|a| made_up(a, &table.smallest, &table.largest, random));
            queries.extend(key);
        }
    }
    queries.sort_unstable();
    queries.dedup();
    queries
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn made_up_keys_lie_in_the_range() {
        let random = &mut SmallRng::seed_from_u64(5);
        for (anchor, smallest, largest) in [
            (&b"key00007"[..], &b"key00000"[..], &b"key00009"[..]),
            (b"b", b"a", b"c"),
            (b"0000000100000000", b"0000000000000000", b"0000000900000000"),
        ] {
            let made: Vec<_> = (0..200)
                .filter_map(|_| made_up(anchor, smallest, largest, random))
                .inspect(|key| assert!(smallest <= &key[..] && &key[..] <= largest))
                .collect();
            assert!(!made.is_empty(), "{}", anchor.escape_ascii());
        }
        assert_eq!(made_up(b"only", b"only", b"only", random), None);
    }
}
