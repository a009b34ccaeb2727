//! Keys to query filters with. Some are drawn from the tables, others are made up from those.
//!
//! ```text
//! anchors      keys of some data blocks of each table that is read, and of tables that overlap it
//! neighbours   the anchors of other tables that lie in a table's range
//! own shape    an anchor with other digits and letters at its end, within the range
//! any bytes    an anchor with any other bytes at its end, within the range
//! ```
//!
//! A filter sees only the hash of a key. A good hash makes any key as good a query as a real one,
//! but the 32-bit hash of legacy Bloom filters is weak on keys that differ in a few digits. So
//! queries have the shape of the keys, and the others show whether that makes a difference. If the
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
/// A table gets queries of three kinds: keys of tables that overlap it, and made-up keys of both
/// shapes. For each kind, this many queries are divided among the tables that are read in a level, but each table
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

/// How to make up a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// A digit becomes a digit, a letter a letter of its case, or a hexadecimal digit if the key has
    /// no other letters.
    Own,
    Any,
}

/// A key to query a filter with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Query {
    pub key: Vec<u8>,
    pub shape: Shape,
}

/// Makes up a key from `smallest` to `largest` of this shape.
pub fn of_shape(
    shape: Shape,
    anchor: &[u8],
    (smallest, largest): (&[u8], &[u8]),
    random: &mut SmallRng,
) -> Option<Vec<u8>> {
    match shape {
        Shape::Own => mutated(anchor, smallest, largest, random),
        Shape::Any => made_up(anchor, smallest, largest, random),
    }
}

/// As [`made_up`], but the last digits and letters become others of their class: four of them, or
/// two, or one. `None` if that gives no other key, as with keys that have neither.
fn mutated(
    anchor: &[u8],
    smallest: &[u8],
    largest: &[u8],
    random: &mut SmallRng,
) -> Option<Vec<u8>> {
    let is_hex = anchor.iter().all(|byte| !byte.is_ascii_alphabetic() || byte.is_ascii_hexdigit());
    let classes: &[&[u8]] = match is_hex {
        true => &[b"0123456789", b"0123456789abcdef", b"0123456789ABCDEF"],
        false => &[b"0123456789", b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"],
    };
    // A hexadecimal key has digits and letters at the same positions.
    let has = |letters: std::ops::RangeInclusive<u8>| {
        is_hex && anchor.iter().any(|byte| letters.contains(byte))
    };
    let first = if has(b'a'..=b'f') {
        1
    } else if has(b'A'..=b'F') {
        2
    } else {
        0
    };
    for count in [CHANGED_BYTES, CHANGED_BYTES / 2, 1] {
        let mut key = anchor.to_vec();
        let changed = key.iter_mut().rev().filter(|byte| byte.is_ascii_alphanumeric()).take(count);
        for byte in changed {
            let class = classes[first..].iter().find(|class| class.contains(byte));
            *byte = class.and_then(|class| class.choose(random)).copied().unwrap_or(*byte);
        }
        if smallest <= &key[..] && &key[..] <= largest && key != anchor {
            return Some(key);
        }
    }
    None
}

/// A key from `smallest` to `largest` that differs from `anchor` only at its end. First the last
/// four bytes are replaced by random ones, then only the last two, and then four bytes are
/// appended, until the key is in the range. `None` if no try succeeds.
fn made_up(
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
) -> Vec<Query> {
    let table = &tables[i];
    let mut each = (QUERIES / tables_of_level.max(1)).max(MIN_QUERIES);
    if part < 1.0 {
        each = each.min(MAX_BY_BLOCKS);
    }
    let (own, others): (Vec<_>, Vec<_>) =
        anchors.between(&table.smallest, &table.largest).iter().partition(|(_, from)| *from == i);
    let neighbours = others.sample(random, each);
    let mut queries: Vec<Query> =
        neighbours.map(|(key, _)| Query { key: key.clone(), shape: Shape::Own }).collect();
    for _ in 0..each {
        let Some((anchor, _)) = own.choose(random) else { break };
        let range = (&table.smallest[..], &table.largest[..]);
        for shape in [Shape::Own, Shape::Any] {
            let key = of_shape(shape, anchor, range, random);
            queries.extend(key.map(|key| Query { key, shape }));
        }
    }
    queries.sort_unstable();
    queries.dedup_by(|a, b| a.key == b.key);
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

    /// Legacy Bloom filters let 3.03 % of decimal keys through, and 1.15 % of keys with any bytes at
    /// their end, which alone were queried.
    #[test]
    fn made_up_keys_have_the_shape_of_their_anchor() {
        let random = &mut SmallRng::seed_from_u64(6);
        for (anchor, is_same) in [
            (&b"user:0000421337"[..], &u8::is_ascii_digit as &dyn Fn(&u8) -> bool),
            (b"00ab12cdef", &|byte: &u8| b"0123456789abcdef".contains(byte)),
            (b"row-Kqzx", &u8::is_ascii_lowercase),
        ] {
            let end = anchor.len() - 3;
            for _ in 0..200 {
                let key = mutated(anchor, b"", b"\xff", random).unwrap();
                assert!(key.len() == anchor.len() && key != anchor && key[..4] == anchor[..4]);
                assert!(key[end..].iter().all(is_same), "{}", key.escape_ascii());
            }
        }
        assert_eq!(mutated(b"\0\x01\xfe", b"", b"\xff\xff", random), None, "neither");
    }
}
