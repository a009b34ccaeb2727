//! A skip list of entries in an arena: one writer, any number of readers, no lock.
//!
//! ```text
//! level 2   head ──────────────────────────────────► c ─► ∅
//! level 1   head ────────────► b ──────────────────► c ─► ∅
//! level 0   head ──► a ──────► b ──────► b' ───────► c ─► ∅      forward
//!           head ◄── a ◄────── b ◄────── b' ◄─────── c           back
//! ```
//!
//! A node holds an entry: an internal key and a value. The internal key is the user key, followed
//! by the *trailer*: the sequence number and the kind in one 64-bit number. The layout of a node is
//! drawn in [`node`].
//!
//! # Why readers need no lock
//!
//! 1. A node is written completely before the first link to it is stored (Release). A reader
//!    reaches every node through a link or a back pointer (Acquire), so it sees all of its bytes.
//! 2. Afterwards only links and the back pointer change, which are atomics. No node is removed or
//!    moved while the list lives.
//! 3. Links are stored from level 0 up. A reader that finds a node at some level finds it at all
//!    levels below, so a search that descends loses no entry.
//! 4. A search finds an insert that *happened before* it, because each link on its path is as that
//!    insert left it, or newer. It may or may not find a concurrent insert; the database hides that
//!    insert anyway, because its sequence number is not visible yet.
//!
//! # What was measured
//!
//! The first column has the nanoseconds of an insert, the second those of a get. They were measured
//! on prototypes with 100,000 entries of 20 + 100 bytes in random order (16 MiB of memory); medians
//! of 9 runs on an AMD Zen 4:
//!
//! ```text
//! 470  590   1/4 of the nodes reach the next level, keys compared by memcmp
//! 390  430   3/8 reach it, keys compared by words, the next nodes prefetched: this version
//! 440  440   with a key prefix next to each link; 610 and 640 when the keys start alike
//! 470  380   upper levels and their prefixes in separate memory; 650 and 720 when keys start alike
//! 610  340   this version, all of it on huge pages
//! ```
//!
//! Because gets are faster on huge pages, the arena of a large memtable puts its largest chunks on
//! such pages ([`super::arena`]). In the memtable itself, unlike in the prototypes, huge pages make
//! inserts faster too (`docs/measurements/writes.md`). `benches/memtable.rs` measures
//! inserts and gets.

mod cursor;
mod node;

use std::ptr::NonNull;
use std::sync::Arc;

use super::arena::{Arena, Bump};
use crate::encoding::key;
use crate::memory::prefetch;
use crate::sync::atomic::Ordering;
pub(crate) use cursor::SkipListCursor;
use node::{Node, NodeRef, build_node};

/// The greatest height of a node. With [`RISE_EIGHTHS`] it is enough for some ten million entries.
#[cfg(not(loom))]
const MAX_HEIGHT: usize = 16;
#[cfg(loom)]
const MAX_HEIGHT: usize = 2;

/// How many of eight nodes reach the next level. With p as this share, a search compares about
/// `log(n) / (p log(1/p))` keys, which is least at p = 1/e; 3/8 is close to that.
const RISE_EIGHTHS: u64 = 3;

/// The part that readers share. Only its [`SkipListWriter`] inserts.
pub(super) struct SkipList {
    /// A node of full height without a key. It is built before the list is shared.
    head: NonNull<Node>,
    arena: Arena,
}

// SAFETY: all nodes that `head` reaches are in `arena`, which any thread may drop.
unsafe impl Send for SkipList {}
// SAFETY: "Why readers need no lock" above; a second writer is excluded by `SkipListWriter`.
unsafe impl Sync for SkipList {}

impl SkipList {
    /// Bytes of all chunks of the arena.
    pub fn allocated_bytes(&self) -> usize {
        self.arena.allocated_bytes()
    }

    /// Whether the address lies in the memory where the list's keys and values are.
    pub fn holds(&self, address: usize) -> bool {
        self.arena.holds(address)
    }

    /// The newest version of `user_key` at or below the sequence number of `trailer`: its trailer
    /// and value.
    pub fn get(&self, user_key: &[u8], trailer: u64) -> Option<(u64, &[u8])> {
        let (_, found) = self.search(user_key, trailer, |_, _| ());
        let (key, value) = found?.entry();
        (key::user_key(key) == user_key).then(|| (key::trailer(key), value))
    }

    fn head(&self) -> NodeRef<'_> {
        // SAFETY: the head was built before the list was shared, in its arena.
        unsafe { NodeRef::new(self.head) }
    }

    fn first(&self) -> Option<NodeRef<'_>> {
        // SAFETY: every node has level 0.
        unsafe { self.head().next(0) }
    }

    /// The last node, which is the head when there is no entry.
    fn last(&self) -> NodeRef<'_> {
        let mut last = self.head();
        for level in (0..MAX_HEIGHT).rev() {
            // SAFETY: `last` is the head or was reached at this level or above.
            while let Some(next) = unsafe { last.next(level) } {
                last = next;
            }
        }
        last
    }

    /// The neighbours of the internal key `user_key | trailer`: the last node before the key, which
    /// may be the head, and the first node at or after it. Calls `passed` for every level, from the
    /// highest to 0, with the level and the last node of this level before the key.
    #[inline(always)]
    fn search<'a>(
        &'a self,
        user_key: &[u8],
        trailer: u64,
        mut passed: impl FnMut(usize, NodeRef<'a>),
    ) -> (NodeRef<'a>, Option<NodeRef<'a>>) {
        let mut before = self.head();
        // The latest node that the search found to be at or after the key. It is often the next
        // node on lower levels too, and is not compared again there.
        let mut after = None;
        let mut level = MAX_HEIGHT - 1;
        loop {
            // SAFETY: `before` is the head or was reached at this level or above.
            let next = unsafe { before.next(level) };
            if let Some(node) = next
                && next != after
            {
                if level > 0 {
                    // The search next needs one of these two, whatever the comparison says: the
                    // next node one level below, or the links of `node`. Fetching both makes the
                    // search faster.
                    // SAFETY: `before` has the level below too, and `node` was reached at this
                    // level.
                    unsafe {
                        before.prefetch_next(level - 1);
                        prefetch(node.link(level));
                    }
                }
                if node.is_before(user_key, trailer) {
                    before = node;
                    continue;
                }
                after = next;
            }
            passed(level, before);
            if level == 0 {
                return (before, next);
            }
            level -= 1;
        }
    }
}

/// The right to insert into one list. There is one per list, and it is not `Clone`.
pub(super) struct SkipListWriter {
    list: Arc<SkipList>,
    bump: Bump,
    /// For each level, the last node at or before the node of the latest insert; the head at first.
    /// `splice[0]` is the latest node itself. If keys arrive in order, each new node follows the
    /// latest one, so the splice has its predecessors and no search is needed.
    splice: [NonNull<Node>; MAX_HEIGHT],
    random: u64,
}

// SAFETY: the pointers point into the arena of `list`, which any thread may use.
unsafe impl Send for SkipListWriter {}

impl SkipListWriter {
    /// An empty list that is expected to grow to `arena_bytes`, and its writer.
    pub fn new(arena_bytes: usize) -> (Arc<SkipList>, SkipListWriter) {
        let arena = Arena::new();
        let mut bump = Bump::new(arena_bytes);
        let head = build_node(&arena, &mut bump, MAX_HEIGHT, &[], &[], &[]);
        let list = Arc::new(SkipList { head, arena });
        let writer = SkipListWriter {
            list: Arc::clone(&list),
            bump,
            splice: [head; MAX_HEIGHT],
            random: 0x9e37_79b9_7f4a_7c15,
        };
        (list, writer)
    }

    /// Adds an entry. The list must not hold the same internal key.
    ///
    /// Panics when the internal key or the value has 4 GiB or more.
    pub fn insert(&mut self, user_key: &[u8], trailer: u64, value: &[u8]) {
        let height = self.random_height();
        self.insert_with_height(height, user_key, trailer, value);
    }

    pub(super) fn insert_with_height(
        &mut self,
        height: usize,
        user_key: &[u8],
        trailer: u64,
        value: &[u8],
    ) {
        let list = &*self.list;
        // SAFETY: the splice holds nodes of `list`, built by this writer, which holds the list.
        let latest = unsafe { NodeRef::new(self.splice[0]) };
        // SAFETY: every node has level 0.
        let after_latest = unsafe { latest.next(0) };
        let follows_latest = latest != list.head()
            && latest.is_before(user_key, trailer)
            && after_latest.is_none_or(|node| !node.is_before(user_key, trailer));
        let (before, after) = if follows_latest {
            (latest, after_latest)
        } else {
            list.search(user_key, trailer, |level, node| self.splice[level] = node.node)
        };
        debug_assert!(
            after.is_none_or(|node| {
                let (key, _) = node.entry();
                key::user_key(key) != user_key || key::trailer(key) != trailer
            }),
            "an internal key was inserted twice"
        );

        let trailer = trailer.to_le_bytes();
        let node = build_node(&list.arena, &mut self.bump, height, user_key, &trailer, value);
        // SAFETY: the node was built just now, in the arena of `list`.
        let node = unsafe { NodeRef::new(node) };
        node.previous().store(before.as_ptr(), Ordering::Relaxed);
        for (level, left) in self.splice[..height].iter_mut().enumerate() {
            // SAFETY: `left` is the head or was reached at `level`, and `node` is higher than
            // `level`.
            let (left_link, link) = unsafe { (NodeRef::new(*left).link(level), node.link(level)) };
            // A reader follows the node's link of a level only after it reached the node through a
            // link of that level or a higher one, or through a back pointer. All of these are
            // stored after the node's own link, so the reader finds it set.
            link.store(left_link.load(Ordering::Relaxed), Ordering::Relaxed);
            left_link.store(node.as_ptr(), Ordering::Release);
            *left = node.node;
        }
        if let Some(after) = after {
            after.previous().store(node.as_ptr(), Ordering::Release);
        }
    }

    fn random_height(&mut self) -> usize {
        // xorshift64, Marsaglia 2003.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // The lowest bits are the least random.
        let mut bits = self.random >> 16;
        let mut height = 1;
        while height < MAX_HEIGHT && bits & 7 < RISE_EIGHTHS {
            height += 1;
            bits >>= 3;
        }
        height
    }
}
