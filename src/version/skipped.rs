//! Sequence numbers that are in no WAL: those of ingested tables.
//!
//! ```text
//!   WAL       1 2 3 . 5 6 . . 9        a replay requires consecutive numbers
//!   skipped         4     7 8          except for these
//! ```
//!
//! Only numbers above the last flushed sequence number are kept, because a replay starts after it.
//! Ranges that touch are merged, so between any two ranges there is an unflushed write. The number
//! of ranges is therefore at most the number of unflushed writes plus one.

use std::collections::BTreeMap;

use crate::encoding::key::SequenceNumber;

/// A set of sequence numbers, stored as ranges that neither overlap nor touch: the first and the
/// last number of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Skipped(BTreeMap<SequenceNumber, SequenceNumber>);

impl Skipped {
    /// Adds the numbers from `first` to `last`, some of which may be in the set already.
    pub fn add(&mut self, mut first: SequenceNumber, mut last: SequenceNumber) {
        while let Some((&start, &end)) = self.0.range(..=last.saturating_add(1)).next_back()
            && end.saturating_add(1) >= first
        {
            self.0.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.0.insert(first, last);
    }

    /// The last number of the skipped range that holds `sequence + 1`; `sequence` if no range holds
    /// it. After the write `sequence`, a WAL continues with the number after the returned one.
    pub fn after(&self, sequence: SequenceNumber) -> SequenceNumber {
        let next = sequence.saturating_add(1);
        self.0.range(..=next).next_back().map_or(sequence, |(_, &end)| end.max(sequence))
    }

    /// Removes the numbers up to `sequence`.
    pub fn forget(&mut self, sequence: SequenceNumber) {
        let above = self.0.split_off(&sequence.saturating_add(1));
        let cut = self.0.last_key_value().map(|(_, &end)| end).filter(|&end| end > sequence);
        self.0 = above;
        self.0.extend(cut.map(|end| (sequence + 1, end)));
    }

    /// The ranges in ascending order: the first and the last number of each.
    pub fn ranges(&self) -> impl Iterator<Item = (SequenceNumber, SequenceNumber)> {
        self.0.iter().map(|(&first, &last)| (first, last))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The largest number; 0 when there is none.
    pub fn largest(&self) -> SequenceNumber {
        self.0.last_key_value().map_or(0, |(_, &last)| last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::MAX_SEQUENCE;

    fn of(ranges: &[(u64, u64)]) -> Skipped {
        let mut skipped = Skipped::default();
        ranges.iter().for_each(|&(first, last)| skipped.add(first, last));
        skipped
    }

    fn ranges(skipped: &Skipped) -> Vec<(u64, u64)> {
        skipped.ranges().collect()
    }

    #[test]
    fn neighbours_become_one_range() {
        assert_eq!(ranges(&of(&[(4, 4), (8, 8), (6, 6)])), [(4, 4), (6, 6), (8, 8)]);
        assert_eq!(ranges(&of(&[(4, 4), (8, 8), (6, 6), (7, 7), (5, 5)])), [(4, 8)]);
        assert_eq!(ranges(&of(&[(4, 9), (1, 2), (20, 30), (6, 21)])), [(1, 2), (4, 30)]);
        assert_eq!(ranges(&of(&[(4, 4), (6, 6), (1, MAX_SEQUENCE)])), [(1, MAX_SEQUENCE)]);
        let thousands: Vec<_> = (1..5000).map(|number| (number, number)).collect();
        assert_eq!(ranges(&of(&thousands)), [(1, 4999)]);
    }

    #[test]
    fn a_number_is_followed_over_a_range_and_no_further() {
        let skipped = of(&[(4, 5), (7, 7)]);
        let after: Vec<u64> = (2..9).map(|sequence| skipped.after(sequence)).collect();
        assert_eq!(after, [2, 5, 5, 5, 7, 7, 8]);
        assert_eq!(skipped.largest(), 7);
    }

    #[test]
    fn what_is_flushed_is_forgotten() {
        for (up_to, expected) in
            [(3, vec![(4, 6), (9, 9)]), (4, vec![(5, 6), (9, 9)]), (6, vec![(9, 9)]), (9, vec![])]
        {
            let mut skipped = of(&[(4, 6), (9, 9)]);
            skipped.forget(up_to);
            assert_eq!(ranges(&skipped), expected);
        }
    }

    /// The ranges come from a file, so they may be in any order and may overlap.
    #[test]
    fn ranges_in_any_order_are_the_union_of_their_numbers() {
        let mut random = 1u64;
        for _ in 0..2000 {
            let mut skipped = Skipped::default();
            let mut union = std::collections::BTreeSet::new();
            for _ in 0..6 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (first, length) = ((random >> 40) % 20, (random >> 50) % 5);
                skipped.add(first, first + length);
                union.extend(first..=first + length);
            }
            let listed: Vec<u64> = skipped.ranges().flat_map(|(a, b)| a..=b).collect();
            assert_eq!(listed, union.into_iter().collect::<Vec<_>>());
            assert!(ranges(&skipped).windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }
}
