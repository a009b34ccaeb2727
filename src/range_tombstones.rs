//! [`RangeTombstones`]: which keys a set of range deletions hides, and from which snapshots.
//!
//! A range deletion is a tombstone for all keys from `start` to before `end`, which RocksDB calls a
//! range tombstone. A snapshot that sees the deletion sees no older versions of those keys. The
//! ranges of a set may overlap. A lookup needs the newest range that covers its key and that its
//! snapshot sees.
//!
//! ```text
//!   ranges      [a ─────────── m) 9              bounds      a   c   f   m   p
//!                   [c ─ f) 4                    fragments   | 0 | 1 | 2 | 3 |
//!                           [f ───── p) 7
//!
//!   tree             (1)                         node 1 covers all fragments, node i is made of
//!                (2)     (3)                     2i and 2i + 1; the leaf of fragment i is 4 + i.
//!              4 5     6 7                       Each range is at the few nodes that make it
//!                                                up; sequence numbers of a node descend.
//! ```
//!
//! The *bounds* are the starts and ends of all ranges. They cut the keys into *fragments*. A query
//! returns the same sequence number for all keys of a fragment. A segment tree over the fragments
//! holds the sequence numbers: the ranges that cover a fragment are at the nodes from its leaf to
//! the root. For n ranges the tree takes n log n memory. With a list of ranges at every fragment, a
//! query would be faster by a factor of log n, but the lists would take n² memory if ranges are
//! nested, as they may be in a hostile table.
//!
//! Empty ranges hide nothing and are left out. A set never changes. It knows sequence numbers, but
//! no tables and no levels: `version/mod.rs`, `lookup/stage.rs`, `db/iter/range_del.rs`,
//! `compaction/ranges.rs` and `compaction/dead.rs` apply it to the tables and levels of the LSM
//! tree.
//!
//! The tests are at the end of this file, although the file is long, because `benches/memtable.rs`
//! includes it by `#[path]` and would not find a test module in another file.

use std::sync::Arc;

use crate::encoding::key::SequenceNumber;
use crate::error::Error;

/// A tombstone for the user keys from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeTombstone<'a> {
    pub start: &'a [u8],
    pub end: &'a [u8],
    pub sequence: SequenceNumber,
}

/// The error for a range that ends before its start. An empty range is no error: as in
/// `BTreeMap::range`, only exchanged ends are a mistake.
pub(crate) fn reversed_range(start: &[u8], end: &[u8]) -> Error {
    Error::InvalidArgument(format!(
        "a range from \"{}\" to \"{}\" ends before its start",
        start.escape_ascii(),
        end.escape_ascii()
    ))
}

/// An immutable set of range deletions, prepared for queries. See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeTombstones {
    /// All bounds, concatenated in `keys`, with the end of each in `key_ends`.
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    /// First fragment, fragment after the last one, and sequence number of each range; newest
    /// first.
    ranges: Vec<(usize, usize, SequenceNumber)>,
    /// Node `i` of the tree has the sequence numbers `sequences[nodes[i]..nodes[i + 1]]`, newest
    /// first.
    nodes: Vec<usize>,
    sequences: Vec<SequenceNumber>,
}

/// A range of keys around the key of a query. All of them have the same newest range deletion that
/// the query's snapshot sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment<'a> {
    /// The first key of the fragment; `None` if it starts before all keys.
    pub start: Option<&'a [u8]>,
    /// The first key after the fragment; `None` if it ends after all keys.
    pub end: Option<&'a [u8]>,
    /// The sequence number of the newest range deletion that covers the fragment; 0 if there is
    /// none.
    pub sequence: SequenceNumber,
}

impl<'a> Fragment<'a> {
    /// All keys, none of them deleted.
    pub const EVERYTHING: Fragment<'static> = Fragment { start: None, end: None, sequence: 0 };

    /// Combines the results of two sets for the same key: the keys in both fragments, and the newer
    /// range deletion.
    pub fn meet(self, other: Fragment<'a>) -> Fragment<'a> {
        Fragment {
            // `None` is before every key.
            start: self.start.max(other.start),
            end: match (self.end, other.end) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            sequence: self.sequence.max(other.sequence),
        }
    }
}

impl RangeTombstones {
    pub fn new<'a>(ranges: impl IntoIterator<Item = RangeTombstone<'a>>) -> RangeTombstones {
        let mut given: Vec<RangeTombstone<'_>> =
            ranges.into_iter().filter(|range| range.start < range.end).collect();
        given.sort_unstable_by_key(|range| std::cmp::Reverse(range.sequence));
        let mut bounds: Vec<&[u8]> = given.iter().flat_map(|r| [r.start, r.end]).collect();
        bounds.sort_unstable();
        bounds.dedup();

        let mut set = RangeTombstones::default();
        set.keys.reserve_exact(bounds.iter().map(|bound| bound.len()).sum());
        for bound in &bounds {
            set.keys.extend_from_slice(bound);
            set.key_ends.push(set.keys.len());
        }
        let position = |bound: &[u8]| bounds.partition_point(|&other| other < bound);
        set.ranges =
            given.iter().map(|r| (position(r.start), position(r.end), r.sequence)).collect();

        // Each node has a part of `sequences`. At first `nodes[i]` is the length of node i's part.
        // Running sums of the lengths then make it the end of the part. Last, the part is filled
        // from its end, with the oldest number first. Each number lowers `nodes[i]` by 1, so that
        // it finally is the start of the part.
        let fragments = set.fragment_count();
        set.nodes = vec![0; 2 * fragments + 1];
        for &(first, behind, _) in &set.ranges {
            for_each_node(fragments, first, behind, |node| set.nodes[node] += 1);
        }
        let mut total = 0;
        for node in &mut set.nodes {
            total += *node;
            *node = total;
        }
        set.sequences = vec![0; total];
        for &(first, behind, sequence) in set.ranges.iter().rev() {
            for_each_node(fragments, first, behind, |node| {
                set.nodes[node] -= 1;
                set.sequences[set.nodes[node]] = sequence;
            });
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The ranges that the set was made of, without the empty ones, newest first.
    pub fn iter(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        self.ranges.iter().map(|&(first, behind, sequence)| RangeTombstone {
            start: self.bound(first),
            end: self.bound(behind),
            sequence,
        })
    }

    /// The smallest start and the largest end of all ranges; `None` if there are none.
    pub fn span(&self) -> Option<(&[u8], &[u8])> {
        let last = self.key_ends.len().checked_sub(1)?;
        Some((self.bound(0), self.bound(last)))
    }

    /// The part of the set from `lower` to before `upper`; `None` if nothing is deleted there.
    pub fn within(self: Arc<Self>, lower: &[u8], upper: &[u8]) -> Option<Arc<RangeTombstones>> {
        let (start, end) = self.span()?;
        if lower <= start && end <= upper {
            return Some(self);
        }
        let set = RangeTombstones::new(self.iter().map(|range| RangeTombstone {
            start: range.start.max(lower),
            end: range.end.min(upper),
            sequence: range.sequence,
        }));
        (!set.is_empty()).then(|| Arc::new(set))
    }

    pub fn heap_bytes(&self) -> usize {
        let numbers = self.key_ends.capacity() + self.nodes.capacity() + self.sequences.capacity();
        let range_bytes = size_of::<(usize, usize, SequenceNumber)>();
        self.keys.capacity() + numbers * size_of::<u64>() + self.ranges.capacity() * range_bytes
    }

    /// The sequence number of the newest range deletion that covers `user_key` and is visible at
    /// `sequence`; 0 if there is none.
    pub fn covering(&self, user_key: &[u8], sequence: SequenceNumber) -> SequenceNumber {
        match self.fragments_up_to(user_key).checked_sub(1) {
            Some(fragment) => self.newest(fragment, sequence),
            None => 0,
        }
    }

    /// The fragment that holds `user_key`, with the newest range deletion that is visible at
    /// `sequence`.
    pub fn fragment_at(&self, user_key: &[u8], sequence: SequenceNumber) -> Fragment<'_> {
        let behind = self.fragments_up_to(user_key);
        let fragment = behind.checked_sub(1);
        Fragment {
            start: fragment.map(|fragment| self.bound(fragment)),
            end: (behind < self.key_ends.len()).then(|| self.bound(behind)),
            sequence: fragment.map_or(0, |fragment| self.newest(fragment, sequence)),
        }
    }

    /// The fragments with keys from `lower` to before `upper` (`None`: unbounded), in order and
    /// clipped to these keys. An item has the start, the end and the number of a fragment; pass the
    /// number to [`Self::newest`]. Some of the fragments may be in no range.
    pub fn clipped<'a>(
        &'a self,
        lower: Option<&'a [u8]>,
        upper: Option<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8], usize)> {
        let first = lower.map_or(0, |lower| self.fragments_up_to(lower).saturating_sub(1));
        (first..self.fragment_count())
            .map(move |fragment| {
                let (start, end) = (self.bound(fragment), self.bound(fragment + 1));
                let start = lower.map_or(start, |lower| start.max(lower));
                (start, upper.map_or(end, |upper| end.min(upper)), fragment)
            })
            .take_while(move |(start, _, _)| upper.is_none_or(|upper| *start < upper))
            .filter(|(start, end, _)| start < end)
    }

    /// The sequence number of the newest range deletion that covers a fragment and is visible at
    /// `sequence`; 0 if there is none.
    pub fn newest(&self, fragment: usize, sequence: SequenceNumber) -> SequenceNumber {
        if fragment >= self.fragment_count() {
            return 0;
        }
        let (mut node, mut newest) = (self.fragment_count() + fragment, 0);
        while node > 0 {
            let here = &self.sequences[self.nodes[node]..self.nodes[node + 1]];
            let seen = here.partition_point(|&newer| newer > sequence);
            newest = newest.max(here.get(seen).copied().unwrap_or(0));
            node /= 2;
        }
        newest
    }

    fn fragment_count(&self) -> usize {
        self.key_ends.len().saturating_sub(1)
    }

    fn bound(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.key_ends[i - 1] };
        &self.keys[start..self.key_ends[i]]
    }

    /// How many bounds are at or before `user_key`. A key with n such bounds is in fragment n - 1,
    /// unless n is 0 or the count of all bounds: then it is outside of all ranges.
    fn fragments_up_to(&self, user_key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.key_ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.bound(middle) <= user_key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// Visits the nodes that together cover exactly the fragments from `first` to before `behind`, in a
/// tree over `fragments` fragments.
fn for_each_node(fragments: usize, first: usize, behind: usize, mut visit: impl FnMut(usize)) {
    let (mut low, mut high) = (first + fragments, behind + fragments);
    while low < high {
        if low % 2 == 1 {
            visit(low);
            low += 1;
        }
        if high % 2 == 1 {
            high -= 1;
            visit(high);
        }
        low /= 2;
        high /= 2;
    }
}

/// The ranges of keys that range deletions cover without a gap, ascending, each as its first key and
/// its exclusive end.
pub(crate) fn joined(mut ranges: Vec<RangeTombstone<'_>>) -> Vec<(&[u8], &[u8])> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<(&[u8], &[u8])> = Vec::new();
    for RangeTombstone { start, end, .. } in ranges {
        match joined.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Does [`RangeTombstones::fragment_at`] for a list of sets, as if they were one set. No set may
/// reach beyond the start of the next one in the list.
pub(crate) fn fragment_of_disjoint<'a>(
    sets: &'a [Arc<RangeTombstones>],
    user_key: &[u8],
    sequence: SequenceNumber,
) -> Fragment<'a> {
    fn start(set: &RangeTombstones) -> Option<&[u8]> {
        set.span().map(|(start, _)| start)
    }
    let behind = sets.partition_point(|set| start(set) <= Some(user_key));
    let mut fragment = match behind.checked_sub(1) {
        Some(reaching) => sets[reaching].fragment_at(user_key, sequence),
        None => Fragment::EVERYTHING,
    };
    // The fragment after a set's last range is unbounded in that set, but ends where the next set
    // starts.
    if fragment.end.is_none() {
        fragment.end = sets.get(behind).and_then(|next| start(next));
    }
    fragment
}

/// A set of this many ranges is not merged with others. A merge of two smaller ones takes a few
/// milliseconds.
const LARGE_SET: usize = 1 << 12;

/// Several sets that are queried as one. A memtable adds a set for each range deletion. Sets of
/// similar size are merged, so there are few sets, and each range is merged only a few times
/// ([`RangeTombstoneSets::with`]).
#[derive(Debug, Clone, Default)]
pub(crate) struct RangeTombstoneSets(Vec<Arc<RangeTombstones>>);

impl RangeTombstoneSets {
    /// A copy with one more range. The range becomes a new set, into which the last sets are merged
    /// as long as they are not larger than it. So each range is sorted at most about log n times,
    /// and n ranges are in at most about log n sets, apart from sets of at least [`LARGE_SET`]
    /// ranges. These are merged no more, because all writers wait for a merge.
    pub fn with(&self, range: RangeTombstone<'_>) -> RangeTombstoneSets {
        let mut sets = self.0.clone();
        let mut top = RangeTombstones::new([range]);
        while let Some(last) = sets.pop_if(|last| last.len() <= top.len() && top.len() < LARGE_SET)
        {
            top = RangeTombstones::new(last.iter().chain(top.iter()));
        }
        if !top.is_empty() {
            sets.push(Arc::new(top));
        }
        RangeTombstoneSets(sets)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<RangeTombstones>> {
        self.0.iter()
    }

    /// [`RangeTombstones::covering`] over all sets.
    pub fn covering(&self, user_key: &[u8], sequence: SequenceNumber) -> SequenceNumber {
        self.0.iter().map(|set| set.covering(user_key, sequence)).max().unwrap_or(0)
    }

    pub fn heap_bytes(&self) -> usize {
        self.0.iter().map(|set| set.heap_bytes() + size_of::<RangeTombstones>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::MAX_SEQUENCE;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    type Owned = (Vec<u8>, Vec<u8>, SequenceNumber);

    fn borrowed(ranges: &[Owned]) -> impl Iterator<Item = RangeTombstone<'_>> {
        ranges.iter().map(|(start, end, sequence)| RangeTombstone {
            start,
            end,
            sequence: *sequence,
        })
    }

    /// The oracle: checks every range.
    fn naive(ranges: &[Owned], key: &[u8], snapshot: SequenceNumber) -> SequenceNumber {
        let holds = |(start, end, sequence): &&Owned| {
            &start[..] <= key && key < &end[..] && *sequence <= snapshot
        };
        ranges.iter().filter(holds).map(|range| range.2).max().unwrap_or(0)
    }

    fn random_key(rng: &mut StdRng) -> Vec<u8> {
        (0..rng.random_range(0..4))
            .map(|_| *b"\0ab\xff".get(rng.random_range(0..4)).unwrap())
            .collect()
    }

    fn random_ranges(rng: &mut StdRng) -> Vec<Owned> {
        let count = rng.random_range(0..20);
        // Some sequence numbers occur twice, as in an ingested table, and some ranges are empty.
        (0..count).map(|_| (random_key(rng), random_key(rng), rng.random_range(1..30))).collect()
    }

    #[test]
    fn the_newest_range_that_holds_a_key_is_found_as_by_asking_every_range() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut covered = 0;
        for _ in 0..3000 {
            let ranges = random_ranges(&mut rng);
            let set = RangeTombstones::new(borrowed(&ranges));
            let mut sets = RangeTombstoneSets::default();
            for range in borrowed(&ranges) {
                sets = sets.with(range);
            }
            assert!(sets.0.len() <= 5);
            for _ in 0..40 {
                let (key, snapshot) = (random_key(&mut rng), rng.random_range(0..32));
                let expected = naive(&ranges, &key, snapshot);
                assert_eq!(set.covering(&key, snapshot), expected, "{ranges:?} {key:?}");
                assert_eq!(sets.covering(&key, snapshot), expected, "{ranges:?} {key:?}");
                let fragment = set.fragment_at(&key, snapshot);
                assert_eq!(fragment.sequence, expected);
                assert!(fragment.start.is_none_or(|start| start <= &key[..]));
                assert!(fragment.end.is_none_or(|end| &key[..] < end));
                let other = random_key(&mut rng);
                if fragment.start.is_none_or(|start| start <= &other[..])
                    && fragment.end.is_none_or(|end| &other[..] < end)
                {
                    assert_eq!(naive(&ranges, &other, snapshot), expected, "one fragment");
                }
                covered += usize::from(expected > 0);
            }
        }
        assert!(covered > 10_000, "{covered}");
    }

    #[test]
    fn clipped_fragments_are_ordered_disjoint_and_hide_what_the_set_hides_there() {
        let mut rng = StdRng::seed_from_u64(2);
        for _ in 0..3000 {
            let ranges = random_ranges(&mut rng);
            let set = RangeTombstones::new(borrowed(&ranges));
            let (lower, upper) = (random_key(&mut rng), random_key(&mut rng));
            let lower = rng.random_bool(0.8).then_some(&lower[..]);
            let upper = rng.random_bool(0.8).then_some(&upper[..]);
            let fragments: Vec<_> = set.clipped(lower, upper).collect();
            assert!(fragments.iter().all(|(start, end, _)| start < end));
            assert!(fragments.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            for _ in 0..20 {
                let (key, snapshot) = (random_key(&mut rng), rng.random_range(0..32));
                let inside = lower.is_none_or(|lower| lower <= &key[..])
                    && upper.is_none_or(|upper| &key[..] < upper);
                let expected = if inside { naive(&ranges, &key, snapshot) } else { 0 };
                let holding =
                    fragments.iter().find(|(start, end, _)| *start <= &key[..] && &key[..] < *end);
                let found = holding.map_or(0, |&(_, _, fragment)| set.newest(fragment, snapshot));
                assert_eq!(found, expected, "{ranges:?} {lower:?} {upper:?} {key:?}");
            }
        }
    }

    #[test]
    fn disjoint_sets_answer_like_one() {
        let mut rng = StdRng::seed_from_u64(3);
        for _ in 0..2000 {
            let ranges = random_ranges(&mut rng);
            let whole = RangeTombstones::new(borrowed(&ranges));
            let mut cuts: Vec<_> =
                (0..rng.random_range(0..4)).map(|_| random_key(&mut rng)).collect();
            cuts.sort();
            let lowers = std::iter::once(None).chain(cuts.iter().map(|cut| Some(&cut[..])));
            let uppers = cuts.iter().map(|cut| Some(&cut[..])).chain([None]);
            let parts = lowers.zip(uppers).map(|(lower, upper)| {
                // Each part has what one table of a level would store: the whole set's range
                // deletions, of every sequence number, clipped to the keys of the part.
                let fragments = whole.clipped(lower, upper);
                let all = fragments.flat_map(|(start, end, fragment)| {
                    let all = (1..30).map(move |snapshot| (snapshot, fragment));
                    all.map(move |(snapshot, fragment)| (start, end, snapshot, fragment))
                });
                RangeTombstones::new(all.filter_map(|(start, end, snapshot, fragment)| {
                    let sequence = whole.newest(fragment, snapshot);
                    (sequence == snapshot).then_some(RangeTombstone { start, end, sequence })
                }))
            });
            let parts: Vec<_> = parts.filter(|set| !set.is_empty()).map(Arc::new).collect();
            for _ in 0..30 {
                let (key, snapshot) = (random_key(&mut rng), rng.random_range(0..32));
                let fragment = fragment_of_disjoint(&parts, &key, snapshot);
                assert_eq!(fragment.sequence, naive(&ranges, &key, snapshot));
                let other = random_key(&mut rng);
                if fragment.start.is_none_or(|start| start <= &other[..])
                    && fragment.end.is_none_or(|end| &other[..] < end)
                {
                    let expected = naive(&ranges, &other, snapshot);
                    assert_eq!(fragment.sequence, expected, "{key:?} {other:?} {fragment:?}");
                }
            }
        }
    }

    #[test]
    fn ranges_within_each_other_take_no_square_of_memory() {
        let keys: Vec<[u8; 4]> = (0..20_000u32).map(u32::to_be_bytes).collect();
        let nested = (0..10_000).map(|i| RangeTombstone {
            start: &keys[i],
            end: &keys[19_999 - i],
            sequence: 1 + i as u64,
        });
        let set = RangeTombstones::new(nested);
        assert_eq!(set.len(), 10_000);
        assert!(set.heap_bytes() < 4 << 20, "{} bytes", set.heap_bytes());
        assert_eq!(set.covering(&keys[9_999], MAX_SEQUENCE), 10_000);
        assert_eq!(set.covering(&keys[9_999], 77), 77);
        assert_eq!(set.covering(&keys[19_999], MAX_SEQUENCE), 0, "the end is exclusive");
        assert_eq!(set.span(), Some((&keys[0][..], &keys[19_999][..])));
    }

    /// A program that keeps a window of keys by range deletions deletes adjacent ranges, one after
    /// the other. A flush treats them as one range.
    #[test]
    fn range_deletions_that_meet_are_one_range() {
        let ranges = [("d", "f"), ("a", "b"), ("b", "c"), ("e", "z"), ("e", "g")];
        let range = |(start, end): (&'static str, &'static str)| RangeTombstone {
            start: start.as_bytes(),
            end: end.as_bytes(),
            sequence: 1,
        };
        let pair = |start: &'static str, end: &'static str| (start.as_bytes(), end.as_bytes());
        assert_eq!(joined(ranges.map(range).into()), [pair("a", "c"), pair("d", "z")]);
        assert_eq!(joined(Vec::new()), []);
    }

    #[test]
    fn a_set_of_empty_ranges_is_empty() {
        let empty = RangeTombstone { start: b"b", end: b"b", sequence: 5 };
        let reversed = RangeTombstone { start: b"b", end: b"a", sequence: 6 };
        let set = RangeTombstones::new([empty, reversed]);
        assert!(set.is_empty() && set.span().is_none());
        assert_eq!(set.covering(b"b", MAX_SEQUENCE), 0);
        assert_eq!(set.clipped(None, None).count(), 0);
        assert_eq!(RangeTombstoneSets::default().with(empty).iter().count(), 0);
    }
}
