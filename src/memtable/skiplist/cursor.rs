//! A cursor over a skip list that may be growing.

use std::ptr::NonNull;
use std::sync::Arc;

use super::SkipList;
use super::node::{Node, NodeRef};
use crate::cursor::{Cursor, Step};
use crate::encoding::key;
use crate::error::Result;
use crate::sync::atomic::Ordering;

/// Iterates over a list in both directions while it grows. A move sees every insert that happened
/// before it.
pub(crate) struct SkipListCursor {
    list: Arc<SkipList>,
    /// The current entry, never the head.
    node: Option<NonNull<Node>>,
}

// SAFETY: the pointer points into the arena of `list`, which any thread may use.
unsafe impl Send for SkipListCursor {}
// SAFETY: as above; a shared cursor only reads.
unsafe impl Sync for SkipListCursor {}

impl SkipListCursor {
    /// A cursor that is not on an entry.
    pub(in crate::memtable) fn new(list: Arc<SkipList>) -> SkipListCursor {
        SkipListCursor { list, node: None }
    }

    /// The current node. Panics when the cursor is not on an entry.
    fn node(&self) -> NodeRef<'_> {
        let node = self.node.expect("the cursor is on an entry");
        // SAFETY: the cursor got the node from `list`, which it holds.
        unsafe { NodeRef::new(node) }
    }

    /// Moves to `node`, or to no entry if it is the head.
    fn stand_on(&mut self, node: NonNull<Node>) {
        self.node = (node != self.list.head).then_some(node);
    }
}

impl Cursor for SkipListCursor {
    fn valid(&self) -> bool {
        self.node.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.node = self.list.first().map(|first| first.node);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.stand_on(self.list.last().node);
        Ok(())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let (_, found) = self.list.search(key::user_key(target), key::trailer(target), |_, _| ());
        self.node = found.map(|found| found.node);
        Ok(())
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        let (before, _) = self.list.search(key::user_key(target), key::trailer(target), |_, _| ());
        self.stand_on(before.node);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        // SAFETY: every node has level 0.
        let next = unsafe { self.node().next(0) };
        if let Some(next) = next {
            // Neighbouring nodes are far apart in memory, so the node after `next` is fetched while
            // the caller uses `next`. This shortens iterations that do much work on each entry, as
            // a flush does.
            // SAFETY: every node has level 0.
            unsafe { next.prefetch_next(0) };
        }
        self.node = next.map(|next| next.node);
        Ok(())
    }

    fn step(&mut self) -> Option<Step> {
        let last = self.node?;
        // SAFETY: the cursor got the node from `list`, which it holds; every node has level 0.
        let (last, next) = unsafe {
            let last = NodeRef::new(last);
            (last, last.next(0)?)
        };
        // The node after `next` is fetched early, for the reason given in the method `next`.
        // SAFETY: every node has level 0.
        unsafe { next.prefetch_next(0) };
        let (last_key, key) = (last.entry().0, next.entry().0);
        let repeats = key::user_key(last_key) == key::user_key(key);
        self.node = Some(next.node);
        Some(Step { repeats, trailer: key::trailer(key) })
    }

    fn prev(&mut self) -> Result<()> {
        let before = self.node().previous().load(Ordering::Acquire);
        // The pointer is not null: the cursor is never on the head, the only node without a
        // predecessor.
        self.stand_on(NonNull::new(before).unwrap_or(self.list.head));
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.node().entry().0
    }

    fn value(&self) -> &[u8] {
        self.node().entry().1
    }
}
