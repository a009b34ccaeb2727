//! Which tables are read, and how much of each.
//!
//! `share` is the fraction of the database that `--sample` asks for; 1 reads everything. In each
//! level, tables are drawn at random, at least one, until this share of the level's bytes is to be
//! read. A small table is read whole. A large one is read only as far as it is needed for the
//! share, in blocks that are drawn at random.

use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::tables::Table;

/// Only tables larger than this are read in part. Tables of `target_file_size_base=64MiB` slightly
/// exceed 64 MiB and are still read whole.
const WHOLE_TABLE_BYTES: u64 = 72 << 20;
/// The fewest bytes that are read of a large table. Fewer would save little time, because the
/// table's index must be read first.
const MIN_BYTES: u64 = 4 << 20;

/// Draws tables. Returns the position of each in `tables`, and the share of its data blocks to
/// read: 1 is the whole table.
pub fn draw(tables: &[Table], share: f64, random: &mut SmallRng) -> Vec<(usize, f64)> {
    let mut drawn = Vec::new();
    for level in 0..=tables.iter().map(|table| table.level).max().unwrap_or(0) {
        let mut here: Vec<usize> = (0..tables.len())
            .filter(|&i| tables[i].level == level && tables[i].entries > 0)
            .collect();
        let all: u64 = here.iter().map(|&i| tables[i].file_bytes).sum();
        here.shuffle(random);
        let mut left = all as f64 * share;
        for i in here {
            if left <= 0.0 {
                break;
            }
            let bytes = tables[i].file_bytes;
            let part = part_of(bytes, left, share);
            left -= bytes as f64 * part;
            drawn.push((i, part));
        }
    }
    drawn.sort_unstable_by_key(|&(i, _)| i);
    drawn
}

fn part_of(bytes: u64, wanted: f64, share: f64) -> f64 {
    match share >= 1.0 || bytes <= WHOLE_TABLE_BYTES {
        true => 1.0,
        false => (wanted.max(MIN_BYTES as f64) / bytes as f64).min(1.0),
    }
}

/// `count` random numbers below `most`, ascending, without duplicates. A number that is drawn twice
/// is not replaced by another, so there may be fewer than `count`.
pub fn distinct(count: usize, most: usize, random: &mut SmallRng) -> Vec<usize> {
    let mut numbers: Vec<usize> = match count >= most {
        true => return (0..most).collect(),
        false => (0..count).map(|_| random.random_range(0..most)).collect(),
    };
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tables_are_read_by_blocks() {
        assert_eq!(part_of(64 << 20, 1.0, 0.01), 1.0);
        assert_eq!(part_of(1 << 30, 1.0, 1.0), 1.0);
        assert_eq!(part_of(1 << 30, f64::from(1 << 26), 0.5), 1.0 / 16.0);
        assert_eq!(part_of(1 << 30, 1.0, 0.01), 1.0 / 256.0);
        assert_eq!(part_of(1 << 30, 1e10, 0.01), 1.0);
    }
}
