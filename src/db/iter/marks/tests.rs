//! Compares the marks, which are intervals of keys in which cursors show nothing, with a plain
//! oracle, which knows at which sequence numbers each key is visible. So a mark that hides a
//! visible entry is found at once.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::keeper::Keeper;
use super::shared::{Extent, MAX_KEY_BYTES, MAX_MARKS, MAX_PROPOSALS, Marks, Proposal};
use crate::encoding::key::SequenceNumber;
use crate::sync::{lock, pin};

/// A key has one byte, so that there are few keys, and the bounds of marks often coincide.
type Key = u8;

/// For each key, the sequence numbers of its writes, ascending, and whether each of them is a put.
#[derive(Default)]
struct Oracle {
    history: BTreeMap<Key, Vec<(SequenceNumber, bool)>>,
    last: SequenceNumber,
}

impl Oracle {
    fn write(&mut self, key: Key, is_put: bool) {
        self.last += 1;
        self.history.entry(key).or_default().push((self.last, is_put));
    }

    fn is_visible(&self, key: Key, sequence: SequenceNumber) -> bool {
        let versions = self.history.get(&key).into_iter().flatten();
        versions.rev().find(|&&(at, _)| at <= sequence).is_some_and(|&(_, is_put)| is_put)
    }

    fn first_visible(&self, from: Key, sequence: SequenceNumber) -> Option<Key> {
        (from..=Key::MAX).find(|&key| self.is_visible(key, sequence))
    }

    fn last_visible(&self, before: Option<Key>, sequence: SequenceNumber) -> Option<Key> {
        let end = before.map_or(256, u16::from);
        (0..end).rev().map(|key| key as Key).find(|&key| self.is_visible(key, sequence))
    }
}

struct Run {
    oracle: Oracle,
    keeper: Keeper,
    marks: Marks,
    /// Proposals of earlier walks that the keeper has not received yet.
    late: Vec<Proposal>,
    jumps: u64,
}

impl Run {
    fn new() -> Run {
        let (oracle, keeper, marks) = (Oracle::default(), Keeper::default(), Marks::new());
        Run { oracle, keeper, marks, late: Vec::new(), jumps: 0 }
    }

    fn write(&mut self, key: Key, is_put: bool) {
        if is_put {
            self.keeper.wrote(&[key], &[key]);
            self.keeper.publish(&self.marks);
        }
        self.oracle.write(key, is_put);
    }

    /// Does what a cursor does: seeks, jumps over marks, and walks from there. Returns its
    /// proposal.
    fn walk(&mut self, from: Key, sequence: SequenceNumber) -> Option<Proposal> {
        let first = self.oracle.first_visible(from, sequence);
        let start = match self.marks.forward(&[from], sequence) {
            None => vec![from],
            Some(end) => {
                self.jumps += 1;
                let end = end.map(|end| end.to_vec());
                let passes =
                    first.filter(|&first| end.as_ref().is_none_or(|end| end[..] > [first][..]));
                assert_eq!(passes, None, "a mark hides it from a seek to {from} at {sequence}");
                end?
            }
        };
        Proposal::new(&start, first.as_ref().map(std::slice::from_ref), sequence)
    }

    fn walk_back(&mut self, before: Option<Key>, sequence: SequenceNumber) -> Option<Proposal> {
        let last = self.oracle.last_visible(before, sequence);
        let bound = before.map(|key| vec![key]);
        let start = match self.marks.backward(bound.as_deref(), sequence) {
            None => bound,
            Some(from) => {
                self.jumps += 1;
                let passes = last.filter(|&last| from[..] <= [last][..]);
                assert_eq!(passes, None, "a mark hides it before {before:?} at {sequence}");
                Some(from.to_vec())
            }
        };
        let from = last.map_or(Vec::new(), |last| vec![last, 0]);
        Proposal::new(&from, start.as_deref(), sequence)
    }

    fn check_marks(&self) {
        assert!(self.keeper.is_watching() || !self.marks.is_active());
        let guard = pin();
        let list = self.marks.list.load(&guard);
        assert!(list.len() <= MAX_MARKS);
        for mark in list {
            for pair in mark.extents.windows(2) {
                let (newer, older) = (&pair[0], &pair[1]);
                assert!(newer.sequence >= older.sequence);
                assert_eq!(newer.interval.meet(&older.interval), older.interval);
            }
            assert!(mark.extents.len() <= 3);
        }
    }
}

/// Random writes, ingested ranges, walks at the newest and at older sequence numbers, proposals
/// that come at once and late: no mark ever hides an entry from a read at any sequence number.
#[test]
fn no_mark_hides_what_is_there() {
    let mut jumps = 0;
    for seed in 0..if cfg!(miri) { 2 } else { 300 } {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut run = Run::new();
        let keys = rng.random_range(5..=255u8);
        let puts = rng.random_range(5..60);
        let late = rng.random_range(0..100);
        for _ in 0..600 {
            let key = rng.random_range(0..keys);
            match rng.random_range(0..200) {
                0..100 => run.write(key, rng.random_range(0..100) < puts),
                100 => {
                    let last = key.saturating_add(rng.random_range(0..5));
                    run.keeper.wrote(&[key], &[last]);
                    run.keeper.publish(&run.marks);
                    // All these keys get one sequence number, as in an ingestion.
                    run.oracle.last += 1;
                    for key in key..=last {
                        let at = run.oracle.last;
                        run.oracle.history.entry(key).or_default().push((at, true));
                    }
                }
                101..190 => {
                    // The walk reads at the newest sequence number, or at a slightly older one.
                    let age = if rng.random() { 0 } else { rng.random_range(0..20) };
                    let sequence = run.oracle.last.saturating_sub(age);
                    let whole: bool = rng.random();
                    let proposal = match rng.random() {
                        true => run.walk(if whole { 0 } else { key }, sequence),
                        false => run.walk_back((!whole).then_some(key), sequence),
                    };
                    run.late.extend(proposal);
                }
                _ => {}
            }
            if rng.random_range(0..100) >= late {
                for proposal in std::mem::take(&mut run.late) {
                    let last = run.oracle.last;
                    run.keeper.consider(proposal, last);
                }
                run.keeper.publish(&run.marks);
            }
            run.check_marks();
        }
        jumps += run.jumps;
    }
    assert!(cfg!(miri) || jumps > 3_000, "{jumps} jumps");
}

/// A queue whose proposals always come late, two writes after the walk. The mark still keeps up
/// with the queue.
#[test]
fn a_mark_follows_a_queue_that_never_stands_still() {
    let mut run = Run::new();
    let (mut first, mut next) = (0, 3);
    (0..3).for_each(|key| run.write(key, true));
    let mut most = 0;
    for _ in 0..240 {
        let sequence = run.oracle.last;
        let start = run.marks.forward(&[], sequence).flatten().map_or(vec![], |end| end.to_vec());
        most = most.max(first - start.first().unwrap_or(&0));
        let proposal = Proposal::new(&start, Some(&[first]), sequence);
        run.write(next, true);
        run.write(first, false);
        (first, next) = (first + 1, next + 1);
        if let Some(proposal) = proposal {
            run.keeper.consider(proposal, run.oracle.last);
            run.keeper.publish(&run.marks);
        }
        assert_eq!(run.oracle.first_visible(0, run.oracle.last), Some(first));
    }
    assert!(most < 10, "{most} tombstones before the mark and the first entry");
}

fn only_mark(run: &Run) -> Vec<Extent> {
    let list = run.marks.list.load_arc(&pin());
    assert_eq!(list.len(), 1);
    list[0].extents.clone()
}

/// Regression: each time a mark grew, its sequence number grew too. A reader that had loaded its
/// own number a moment before could not use the mark, and passed ten million tombstones. Now the
/// mark keeps older and shorter extents for such readers.
#[test]
fn a_reader_that_comes_late_finds_a_shorter_mark() {
    let mut run = Run::new();
    let key = |n: u64| (n as u32).to_be_bytes();
    let steps = 100;
    for n in 1..=steps {
        run.oracle.last = n * 1_000;
        let proposal = Proposal::new(&[], Some(&key(n)), run.oracle.last).unwrap();
        run.keeper.consider(proposal, run.oracle.last);
        run.keeper.publish(&run.marks);
        let extents = only_mark(&run);
        assert_eq!(extents[0].sequence, run.oracle.last);
        let oldest = extents.last().unwrap().sequence;
        assert!(n < 2 || oldest < run.oracle.last);
        assert!(n < 40 || (16_000..40_000).contains(&(run.oracle.last - oldest)), "{n} {oldest}");
    }
    let late = run.oracle.last - 1;
    let end = run.marks.forward(&[], late).unwrap().unwrap();
    assert!(end[..] >= key(steps - 40)[..] && end[..] < key(steps)[..]);
    assert_eq!(run.marks.forward(&[], 10), None);
}

/// Regression: a database was emptied, found empty, and filled again in random order. Each put cut
/// a mark that no reader used any more. Now such a mark is dropped after a few cuts.
#[test]
fn marks_that_nobody_uses_go_when_their_keys_are_filled_again() {
    let mut run = Run::new();
    let everything = Proposal::new(&[], None, 0).unwrap();
    run.keeper.consider(everything, 0);
    run.keeper.publish(&run.marks);
    assert_eq!(run.marks.forward(&[], 0), Some(None));
    let mut rng = StdRng::seed_from_u64(7);
    let mut cuts = 0;
    for _ in 0..2_000 {
        let key: [u8; 8] = rng.random();
        let before = run.keeper.published;
        run.keeper.wrote(&key, &key);
        run.keeper.publish(&run.marks);
        cuts += run.keeper.published - before;
    }
    assert!(cuts < 200, "{cuts} cuts");
}

#[test]
fn a_mark_that_is_used_outlives_those_that_are_not_and_there_are_never_too_many() {
    let mut run = Run::new();
    let propose = |run: &mut Run, n: u8| {
        run.keeper.consider(Proposal::new(&[n, 0], Some(&[n, 1]), 0).unwrap(), 0);
        run.keeper.publish(&run.marks);
    };
    (0..=255).for_each(|n| {
        propose(&mut run, n);
        assert!(run.marks.forward(&[0, 0], 0).is_some(), "after {n}");
        run.check_marks();
    });
    assert!(run.marks.forward(&[1, 0], 0).is_none());
    assert!(run.marks.forward(&[255, 0], 0).is_some());
}

#[test]
fn long_keys_bound_no_mark_and_end_a_watch() {
    let long = vec![b'x'; MAX_KEY_BYTES + 1];
    assert!(Proposal::new(&long, None, 1).is_none());
    assert!(Proposal::new(b"a", Some(&long), 1).is_none());
    assert!(Proposal::new(b"b", Some(b"b"), 1).is_none());
    let mut run = Run::new();
    run.keeper.consider(Proposal::new(b"a", Some(b"b"), 0).unwrap(), 0);
    run.keeper.wrote(&long, &long);
    run.keeper.publish(&run.marks);
    assert!(!run.marks.is_active() && !run.keeper.is_watching());
}

#[test]
fn proposals_wait_for_a_leader_and_are_bounded() {
    let mut run = Run::new();
    for n in 0..100 {
        run.marks.propose(Proposal::new(&[n], Some(&[n + 1]), 0).unwrap());
    }
    assert!(run.marks.has_proposals());
    assert_eq!(lock(&run.marks.proposals).len(), MAX_PROPOSALS);
    run.keeper.take_in(&run.marks, 0);
    assert!(!run.marks.has_proposals() && run.marks.is_active());
    let end = run.marks.forward(&[0], 0).unwrap().unwrap();
    assert_eq!(*end, [MAX_PROPOSALS as u8]);
}

/// Regression: a cursor requested the flush of a memtable. The interval that it had walked over
/// could not become a mark, because its key was too long, so it made no proposal, and no writer
/// looked for the request.
#[test]
fn a_request_for_a_flush_reaches_a_writer_without_a_proposal() {
    let marks = Marks::new();
    assert!(!marks.has_proposals() && marks.take_flush_wanted() == 0);
    marks.ask_for_flush(7);
    assert!(marks.has_proposals(), "a writer looks only if this is set");
    assert_eq!((marks.take_flush_wanted(), marks.take_flush_wanted()), (7, 0));
    assert!(marks.take_proposals().is_empty());
    assert!(!marks.has_proposals());
}
