//! One cursor over many: entries of all sources in internal-key order.
//!
//! ```text
//!   current ──► the source whose entry is next
//!   heap        the other sources that are on an entry, nearest on top
//! ```
//!
//! The current source stays outside the heap, so that a step within one source costs one
//! comparison, with the top of the heap. In a fully compacted tree nearly every step stays within
//! one source.
//!
//! Sources should hold distinct internal keys. If two sources hold the same key, the entry of the
//! source that was given first comes first, or last if the cursor moves backward.
//!
//! Invariant: each source but the current one is on an entry after the current key (forward) or
//! before it (backward), or on no entry.

use std::cmp::Ordering;
use std::path::Path;

use super::{Cursor, Fetch, Step};
use crate::encoding::bytes::compare_words;
use crate::encoding::key;
use crate::error::Result;
use crate::slice::Slice;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// An index beyond all sources. So `sources.get(current)` returns `None` when there is no entry,
/// and nothing else needs to check for that.
const NO_SOURCE: usize = usize::MAX;

pub(crate) struct MergingCursor<C> {
    sources: Vec<C>,
    /// Index of the source that is on the current entry; [`NO_SOURCE`] when there is none.
    current: usize,
    /// Indices of the other valid sources, a binary heap in the order of `direction`.
    heap: Vec<usize>,
    direction: Direction,
    /// Whether the direction is forward, and the heap is empty or its top is known to have another
    /// user key than the current entry.
    is_alone: bool,
}

impl<C: Cursor> MergingCursor<C> {
    pub fn new(sources: Vec<C>) -> Self {
        let heap = Vec::with_capacity(sources.len());
        MergingCursor {
            sources,
            current: NO_SOURCE,
            heap,
            direction: Direction::Forward,
            is_alone: false,
        }
    }

    /// The sources. The caller may change their read options, such as whether blocks enter the
    /// cache, but not their positions.
    pub fn sources_mut(&mut self) -> &mut [C] {
        &mut self.sources
    }

    /// The index of the source of the current entry; `NO_SOURCE` if there is no entry.
    #[inline]
    pub fn current_source(&self) -> usize {
        self.current
    }

    /// Whether source `a` goes before source `b`.
    fn before(&self, a: usize, b: usize) -> bool {
        let order = key::compare(self.sources[a].key(), self.sources[b].key());
        self.is_before(order.then(a.cmp(&b)))
    }

    fn is_before(&self, order: Ordering) -> bool {
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    /// Rebuilds `heap` and `current` once all sources have moved.
    fn gather(&mut self, direction: Direction) {
        self.direction = direction;
        self.heap.clear();
        self.heap.extend((0..self.sources.len()).filter(|&i| self.sources[i].valid()));
        for i in (0..self.heap.len() / 2).rev() {
            self.sift_down(i);
        }
        self.current = self.pop().unwrap_or(NO_SOURCE);
        self.is_alone = self.heap.is_empty() && self.direction == Direction::Forward;
    }

    fn pop(&mut self) -> Option<usize> {
        if self.heap.is_empty() {
            return None;
        }
        let top = self.heap.swap_remove(0);
        self.sift_down(0);
        Some(top)
    }

    fn sift_down(&mut self, mut parent: usize) {
        loop {
            let mut child = 2 * parent + 1;
            if child >= self.heap.len() {
                return;
            }
            if child + 1 < self.heap.len() && self.before(self.heap[child + 1], self.heap[child]) {
                child += 1;
            }
            if !self.before(self.heap[child], self.heap[parent]) {
                return;
            }
            self.heap.swap(parent, child);
            parent = child;
        }
    }

    /// Restores the order of the sources after the current one has moved.
    #[inline]
    fn settle(&mut self, current: usize) {
        if !self.sources[current].valid() {
            self.current = self.pop().unwrap_or(NO_SOURCE);
            self.is_alone = self.heap.is_empty() && self.direction == Direction::Forward;
        } else if let Some(&top) = self.heap.first() {
            self.compare_to_top(current, top);
        }
    }

    #[inline]
    fn compare_to_top(&mut self, current: usize, top: usize) {
        let (key, top_key) = (self.sources[current].key(), self.sources[top].key());
        let user_keys = compare_words(key::user_key(top_key), key::user_key(key));
        self.is_alone = user_keys != Ordering::Equal && self.direction == Direction::Forward;
        let order = user_keys.then_with(|| key::trailer(key).cmp(&key::trailer(top_key)));
        if self.is_before(order.then(top.cmp(&current))) {
            self.heap[0] = current;
            self.sift_down(0);
            self.current = top;
            self.is_alone = false;
        }
    }

    /// Changes the direction: moves all sources but the current one to the nearest entry after the
    /// current entry (forward) or before it (backward), and rebuilds the heap.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let current = self.current;
        let Some(source) = self.sources.get(current) else { return Ok(()) };
        let target = source.key().to_vec();
        self.current = NO_SOURCE;
        for (i, source) in self.sources.iter_mut().enumerate() {
            if i == current {
                continue;
            }
            match direction {
                Direction::Forward => source.seek(&target)?,
                Direction::Backward => source.seek_before(&target)?,
            }
        }
        self.gather(direction);
        // `gather` has made the same source current again: it is on `target`, and all other sources
        // are now after `target` (forward) or before it (backward).
        Ok(())
    }

    fn on_error<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.current = NO_SOURCE;
        }
        result
    }

    fn move_all(
        &mut self,
        direction: Direction,
        mut step: impl FnMut(&mut C) -> Result<()>,
    ) -> Result<()> {
        let moved = self.sources.iter_mut().try_for_each(&mut step);
        self.on_error(moved)?;
        self.gather(direction);
        Ok(())
    }

    /// Skips entries, but only in those sources for which `may_skip` returns `true`. If the cursor
    /// moves forward, each such source that is before the internal key `target` moves to `target`.
    /// If it moves backward, each such source that is at or after `target` moves to its last entry
    /// before `target`.
    pub fn skip(&mut self, target: &[u8], may_skip: impl Fn(&C) -> bool) -> Result<()> {
        let direction = self.direction;
        let skipped =
            self.sources.iter_mut().filter(|source| source.valid()).try_for_each(|source| {
                let is_before = key::compare(source.key(), target).is_lt();
                match direction {
                    Direction::Forward if is_before && may_skip(source) => source.seek(target),
                    Direction::Backward if !is_before && may_skip(source) => {
                        source.seek_before(target)
                    }
                    _ => Ok(()),
                }
            });
        self.on_error(skipped)?;
        self.gather(direction);
        Ok(())
    }

    fn advance(&mut self, direction: Direction) -> Result<()> {
        if self.direction != direction {
            let turned = self.turn(direction);
            self.on_error(turned)?;
        }
        let current = self.current;
        let Some(source) = self.sources.get_mut(current) else { return Ok(()) };
        let moved = match direction {
            Direction::Forward => source.next(),
            Direction::Backward => source.prev(),
        };
        self.on_error(moved)?;
        self.settle(current);
        Ok(())
    }
}

impl<C: Cursor> Cursor for MergingCursor<C> {
    #[inline]
    fn valid(&self) -> bool {
        self.current != NO_SOURCE
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.move_all(Direction::Forward, C::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.move_all(Direction::Backward, C::seek_to_last)
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        for fetch in [Fetch::Block, Fetch::Entries] {
            self.sources.iter_mut().for_each(|source| source.fetch_for_seek(target, fetch));
        }
        self.move_all(Direction::Forward, |source| source.seek(target))
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        self.move_all(Direction::Backward, |source| source.seek_before(target))
    }

    fn next(&mut self) -> Result<()> {
        self.advance(Direction::Forward)
    }

    /// Steps the current source, but only if no other source can be on an entry of the same user
    /// key (`is_alone`). If another source is, its entry might come next, and [`Step::repeats`],
    /// which the current source computes from its own entries alone, could be wrong.
    #[inline(always)]
    fn step(&mut self) -> Option<Step> {
        let current = self.current;
        let source = self.sources.get_mut(current)?;
        if !self.is_alone {
            return None;
        }
        let step = source.step()?;
        if let Some(&top) = self.heap.first() {
            self.compare_to_top(current, top);
            if self.current != current {
                return Some(Step { repeats: false, trailer: key::trailer(self.key()) });
            }
        }
        Some(step)
    }

    fn prev(&mut self) -> Result<()> {
        self.advance(Direction::Backward)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.sources[self.current].key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.sources[self.current].value()
    }

    #[inline]
    fn value_slice(&self) -> Slice {
        self.sources[self.current].value_slice()
    }

    fn file(&self) -> Option<&Path> {
        self.sources.get(self.current)?.file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    /// A sorted vector as a cursor. If `position` is `len()` or more, the cursor is on no entry.
    struct VecCursor {
        entries: Vec<Vec<u8>>,
        position: usize,
    }

    impl Cursor for VecCursor {
        fn valid(&self) -> bool {
            self.position < self.entries.len()
        }
        fn seek_to_first(&mut self) -> Result<()> {
            self.position = 0;
            Ok(())
        }
        fn seek_to_last(&mut self) -> Result<()> {
            self.position = self.entries.len().wrapping_sub(1);
            Ok(())
        }
        fn seek(&mut self, target: &[u8]) -> Result<()> {
            self.position = self.entries.partition_point(|e| key::compare(e, target).is_lt());
            Ok(())
        }
        fn seek_before(&mut self, target: &[u8]) -> Result<()> {
            self.seek(target)?;
            self.position = self.position.wrapping_sub(1);
            Ok(())
        }
        fn next(&mut self) -> Result<()> {
            self.position += 1;
            Ok(())
        }
        fn step(&mut self) -> Option<Step> {
            // Returns `None` sometimes, so that `next` is called too.
            let [last, entry] = self.entries.get(self.position..self.position + 2)? else {
                return None;
            };
            if key::sequence(entry).is_multiple_of(5) {
                return None;
            }
            self.position += 1;
            let repeats = key::user_key(last) == key::user_key(entry);
            Some(Step { repeats, trailer: key::trailer(entry) })
        }
        fn prev(&mut self) -> Result<()> {
            self.position = self.position.wrapping_sub(1);
            Ok(())
        }
        fn key(&self) -> &[u8] {
            &self.entries[self.position]
        }
        fn value(&self) -> &[u8] {
            self.key()
        }
    }

    #[test]
    fn a_merge_walks_like_one_sorted_list_through_any_turns() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut steps = 0;
        for source_count in 0..6 {
            let mut sources: Vec<Vec<Vec<u8>>> = vec![Vec::new(); source_count];
            let mut all = Vec::new();
            if source_count > 0 {
                for sequence in 1..60 {
                    let user_key = [rng.random_range(b'a'..b'h'), rng.random_range(0..4)];
                    let entry = internal_key(&user_key, sequence, 1);
                    sources[rng.random_range(0..source_count)].push(entry.clone());
                    all.push(entry);
                }
            }
            all.sort_by(|a, b| key::compare(a, b));
            let cursors = sources.into_iter().map(|mut entries| {
                entries.sort_by(|a, b| key::compare(a, b));
                VecCursor { entries, position: usize::MAX }
            });
            let mut merged = MergingCursor::new(cursors.collect());
            let mut model = VecCursor { entries: all, position: usize::MAX };
            for _ in 0..3000 {
                let target =
                    internal_key(&[rng.random_range(b'a'..b'i')], rng.random_range(0..60), 1);
                match rng.random_range(0..16) {
                    0 => (merged.seek_to_first().unwrap(), model.seek_to_first().unwrap()),
                    1 => (merged.seek_to_last().unwrap(), model.seek_to_last().unwrap()),
                    2 => (merged.seek(&target).unwrap(), model.seek(&target).unwrap()),
                    3 => {
                        (merged.seek_before(&target).unwrap(), model.seek_before(&target).unwrap())
                    }
                    4..8 if model.valid() => (merged.next().unwrap(), model.next().unwrap()),
                    8..12 if model.valid() => (merged.prev().unwrap(), model.prev().unwrap()),
                    12.. if model.valid() => {
                        let last = merged.key().to_vec();
                        if let Some(step) = merged.step() {
                            steps += 1;
                            model.next().unwrap();
                            let repeats = key::user_key(model.key()) == key::user_key(&last);
                            assert_eq!(step.repeats, repeats);
                            assert_eq!(step.trailer, key::trailer(model.key()));
                        }
                        ((), ())
                    }
                    _ => ((), ()),
                };
                assert_eq!(merged.valid(), model.valid());
                if model.valid() {
                    assert_eq!(merged.key(), model.key());
                }
            }
        }
        assert!(steps > 100, "{steps} steps");
    }
}
