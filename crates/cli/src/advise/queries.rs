//! Keys to query filters with. Some are drawn from the tables, others are made up from those.
//!
//! ```text
//! anchors      keys of some data blocks of each table that is read, and of tables that overlap it
//! neighbours   the anchors of other tables that lie in a table's range
//! made up      an anchor with other bytes at its end, within the range
//! ```
//!
//! A filter sees only the hash of a key, so a made-up key is as good a query as a real one. If the
//! table holds the key of a query, the query does not count. `scan` finds that out when it reads
//! the table.

use maypole::table::SstReader;
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::sample::distinct;
use super::tables::Table;

/// The number of data blocks that anchors come from: in all tables together, and the fewest and the
/// most in one table.
const BLOCKS: usize = 400;
const MIN_BLOCKS: usize = 2;
const MAX_BLOCKS: usize = 64;
/// For each table that is read, at most this many tables of other levels that overlap it are added
/// as sources of anchors.
const NEIGHBOURS: usize = 4;
/// A table gets queries of two kinds: keys of tables that overlap it, and made-up keys. For each
/// kind, this many queries are divided among the tables that are read in a level, but each table
/// gets at least the second number.
const QUERIES: usize = 60_000;
const MIN_QUERIES: usize = 100;
/// The most queries of each kind for a table that is read only in part. The limit exists because,
/// whenever the filter answers "maybe", a lookup must read a block to learn whether the unread part
/// holds the key.
const MAX_BY_BLOCKS: usize = 1000;
/// How many bytes at the end of an anchor are replaced to make up a key.
const CHANGED_BYTES: usize = 4;

/// Keys and the position of the table that each was drawn from, in the order of the keys.
pub struct Anchors(Vec<(Vec<u8>, usize)>);

impl Anchors {
    /// Draws anchors of the tables that are read, and of some that overlap them.
    pub fn draw(tables: &[Table], drawn: &[(usize, f64)], random: &mut SmallRng) -> Anchors {
        let mut is_wanted = vec![false; tables.len()];
        for &(i, _) in drawn {
            is_wanted[i] = true;
            let others = (0..tables.len()).filter(|&j| {
                tables[j].level != tables[i].level
                    && tables[j].smallest <= tables[i].largest
                    && tables[j].largest >= tables[i].smallest
            });
            // If all tables are read, none needs to be added.
            if drawn.len() < tables.len() {
                others.take(NEIGHBOURS).for_each(|j| is_wanted[j] = true);
            }
        }
        let wanted = (0..tables.len()).filter(|&i| is_wanted[i]);
        let each = BLOCKS / is_wanted.iter().filter(|&&wanted| wanted).count().max(1);
        let mut anchors = Vec::new();
        for i in wanted {
            let blocks = each.clamp(MIN_BLOCKS, MAX_BLOCKS);
            let keys = keys_of_blocks(&tables[i].reader, blocks, random);
            anchors.extend(keys.into_iter().map(|key| (key, i)));
        }
        anchors.sort_unstable();
        anchors.dedup();
        Anchors(anchors)
    }

    /// The anchors, each with the position of its table.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], usize)> {
        self.0.iter().map(|(key, table)| (&key[..], *table))
    }

    fn between(&self, smallest: &[u8], largest: &[u8]) -> &[(Vec<u8>, usize)] {
        let start = self.0.partition_point(|(key, _)| &key[..] < smallest);
        let end = self.0.partition_point(|(key, _)| &key[..] <= largest);
        self.0.get(start..end).unwrap_or_default()
    }
}

/// The keys of `blocks` data blocks, drawn at random. Stops at the first damaged block.
fn keys_of_blocks(reader: &SstReader, blocks: usize, random: &mut SmallRng) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let choose = |all| distinct(blocks, all, random);
    let _ = reader.each_key_of_blocks(choose, |key| keys.push(key.to_vec()));
    keys
}

/// A key from `smallest` to `largest` that differs from `anchor` only at its end. First the last
/// four bytes are replaced by random ones, then only the last two, and then four bytes are
/// appended, until the key is in the range. `None` if no try succeeds.
pub fn made_up(
    anchor: &[u8],
    smallest: &[u8],
    largest: &[u8],
    random: &mut SmallRng,
) -> Option<Vec<u8>> {
    for (changed, appended) in [(CHANGED_BYTES, 0), (CHANGED_BYTES / 2, 0), (0, CHANGED_BYTES)] {
        let kept = anchor.len().saturating_sub(changed);
        let mut key = anchor.to_vec();
        key.resize(anchor.len() + appended, 0);
        random.fill(&mut key[kept..]);
        if smallest <= &key[..] && &key[..] <= largest && key != anchor {
            return Some(key);
        }
    }
    None
}

/// The queries of a table that is read, ascending and without duplicates.
pub fn of_table(
    tables: &[Table],
    anchors: &Anchors,
    (i, part): (usize, f64),
    tables_of_level: usize,
    random: &mut SmallRng,
) -> Vec<Vec<u8>> {
    let table = &tables[i];
    let mut each = (QUERIES / tables_of_level.max(1)).max(MIN_QUERIES);
    if part < 1.0 {
        each = each.min(MAX_BY_BLOCKS);
    }
    let (own, others): (Vec<_>, Vec<_>) =
        anchors.between(&table.smallest, &table.largest).iter().partition(|(_, from)| *from == i);
    let mut queries: Vec<Vec<u8>> =
        others.sample(random, each).map(|(key, _)| key.clone()).collect();
    for _ in 0..each {
        let anchor = own.choose(random);
        let key = anchor.and_then(|(key, _)| made_up(key, &table.smallest, &table.largest, random));
        queries.extend(key);
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
            let made: Vec<Vec<u8>> = (0..200)
                .filter_map(|_| made_up(anchor, smallest, largest, random))
                .inspect(|key| assert!(smallest <= &key[..] && &key[..] <= largest))
                .collect();
            assert_eq!(made.len(), 200, "{}", anchor.escape_ascii());
            assert!(made.iter().all(|key| key != anchor));
        }
        assert_eq!(made_up(b"only", b"only", b"only", random), None);
    }
}
