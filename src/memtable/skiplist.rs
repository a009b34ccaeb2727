//! A skip list of entries in an arena: one writer, any number of readers, no lock.
//!
//! ```text
//! level 2   head ──────────────────────────────────► c ─► ∅
//! level 1   head ────────────► b ──────────────────► c ─► ∅
//! level 0   head ──► a ──────► b ──────► b' ───────► c ─► ∅      forward
//!           head ◄── a ◄────── b ◄────── b' ◄─────── c           back
//! ```
//!
//! A node of height h is one piece of the arena. Its links lie *before* its address, so that the
//! key has the same place in all of them, on the cache line of link 0:
//!
//! ```text
//! SIZE      MEANING
//! 8 (h-1)   links h-1 … 1, the highest first: the next node of at least that level
//! 8         link 0: the next node
//! ◄─────────────────────────────────────────────────── address of the node
//! 8         the node before
//! 4         bytes of the internal key: n
//! 4         bytes of the value: m
//! n         internal key: user key | trailer
//! m         value
//! ```
//!
//! # Why readers need no lock
//!
//! 1. A node is written completely before the first link to it is stored (Release). A reader has
//!    every node from such a link (Acquire), so it sees all of its bytes.
//! 2. Afterwards only links and the back pointer change, which are atomics. No node is removed or
//!    moved while the list lives.
//! 3. Links are stored from level 0 up. A reader that finds a node at some level finds it at all
//!    levels below, so it never descends past an entry that it has passed.
//! 4. An insert that *happened before* a search is found by it: each link on the way is at least as
//!    new as that insert left it. An insert that runs beside it is found or not; the store hides it
//!    anyway, since its sequence number is not visible yet.
//!
//! # What was measured
//!
//! 100,000 entries of 20 + 100 bytes in random order (16 MiB), prototypes, medians of 9 runs, AMD
//! Zen 4, nanoseconds an insert and a get:
//!
//! ```text
//! 470  590   1/4 of the nodes rise, keys compared by memcmp
//! 390  430   3/8 rise, keys compared by words, the next nodes prefetched: what is here
//! 440  440   with a key prefix beside each link; 610 and 640 when the keys begin alike
//! 470  380   upper levels and their prefixes in memory of their own; then 650 and 720
//! 610  340   what is here, on huge pages
//! ```
//!
//! `benches/memtable.rs` measures this version.

use std::cmp::Ordering as KeyOrder;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::arena::{ALIGNMENT, Arena, Bump};
use crate::cursor::{Cursor, Step};
use crate::encoding::key;
use crate::error::Result;
use crate::memory::prefetch;
use crate::sync::atomic::{AtomicPtr, Ordering};

/// With [`RISE_EIGHTHS`], enough for some ten million entries.
#[cfg(not(loom))]
const MAX_HEIGHT: usize = 16;
#[cfg(loom)]
const MAX_HEIGHT: usize = 2;

/// Of eight nodes, how many reach the next level. A search compares about `log(n) / (p log(1/p))`
/// keys, which is least at p = 1/e; 3/8 is near it.
const RISE_EIGHTHS: u64 = 3;

type Link = AtomicPtr<Node>;

#[repr(C)]
struct Node {
    previous: Link,
    key_bytes: u32,
    value_bytes: u32,
    /// Stands for the bytes of the node: loom reports an access that is not ordered after the
    /// writing of them.
    #[cfg(loom)]
    bytes: loom::cell::UnsafeCell<()>,
}

const _: () = assert!(align_of::<Node>() <= ALIGNMENT && align_of::<Link>() <= ALIGNMENT);
const _: () = assert!(size_of::<Link>().is_multiple_of(align_of::<Node>()));

/// A node of a list that outlives `'a`.
///
/// Invariants: the node is built, and this thread is ordered after that (it came over a link, or
/// this thread built it); the arena of the list lives for `'a`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NodeRef<'a> {
    node: NonNull<Node>,
    list: PhantomData<&'a SkipList>,
}

impl<'a> NodeRef<'a> {
    /// # Safety
    ///
    /// `node` and `'a` keep the invariants of the type.
    unsafe fn new(node: NonNull<Node>) -> NodeRef<'a> {
        NodeRef { node, list: PhantomData }
    }

    /// # Safety
    ///
    /// The node is higher than `level`. It is if the node was reached at `level` or above.
    #[inline(always)]
    unsafe fn link(self, level: usize) -> &'a Link {
        // SAFETY: the links of the node lie before it, as drawn above; they are in its piece, whose
        // provenance the pointer has, and are only ever accessed as atomics.
        unsafe { self.node.cast::<Link>().sub(level + 1).as_ref() }
    }

    /// The next node of at least `level`.
    ///
    /// # Safety
    ///
    /// As [`NodeRef::link`].
    #[inline(always)]
    unsafe fn next(self, level: usize) -> Option<NodeRef<'a>> {
        // SAFETY: the caller's promise.
        let next = NonNull::new(unsafe { self.link(level) }.load(Ordering::Acquire))?;
        // SAFETY: Acquire meets the Release of the store that published the node.
        Some(unsafe { NodeRef::new(next) })
    }

    /// The link to the node before, which is the head for the first one.
    fn previous(self) -> &'a Link {
        // SAFETY: the node is built; the field is only ever accessed as an atomic.
        unsafe { &(*self.node.as_ptr()).previous }
    }

    fn as_ptr(self) -> *mut Node {
        self.node.as_ptr()
    }

    /// The internal key and the value. Of the head: nothing and nothing.
    #[inline(always)]
    fn entry(self) -> (&'a [u8], &'a [u8]) {
        let node = self.node.as_ptr();
        #[cfg(loom)]
        // SAFETY: the node is built.
        unsafe { &(*node).bytes }.with(|_| ());
        // SAFETY: the node is built: its lengths and bytes are written, the bytes follow the fixed
        // part in the same piece, and nobody writes either again.
        unsafe {
            let key = node.add(1).cast::<u8>();
            let (key_bytes, value_bytes) = ((*node).key_bytes, (*node).value_bytes);
            (
                std::slice::from_raw_parts(key, key_bytes as usize),
                std::slice::from_raw_parts(key.add(key_bytes as usize), value_bytes as usize),
            )
        }
    }

    /// Whether the node's key comes before the internal key `user_key | trailer`. Not of the head.
    #[inline(always)]
    fn is_before(self, user_key: &[u8], trailer: u64) -> bool {
        let (key, _) = self.entry();
        match key::compare_words(key::user_key(key), user_key) {
            KeyOrder::Less => true,
            KeyOrder::Equal => key::trailer(key) > trailer,
            KeyOrder::Greater => false,
        }
    }

    /// Starts to fetch the node that the link of `level` leads to.
    ///
    /// # Safety
    ///
    /// As [`NodeRef::link`].
    #[inline(always)]
    unsafe fn prefetch_next(self, level: usize) {
        // Not in models: it is one more load to interleave, with no effect.
        #[cfg(not(loom))]
        // SAFETY: the caller's promise.
        prefetch(unsafe { self.link(level) }.load(Ordering::Relaxed));
        #[cfg(loom)]
        let _ = level;
    }
}

/// What readers share. Entries are put in by its [`SkipListWriter`].
pub(super) struct SkipList {
    /// Of full height, with no key. Built before the list is shared.
    head: NonNull<Node>,
    arena: Arena,
}

// SAFETY: what `head` reaches is in `arena`, which may be dropped by any thread.
unsafe impl Send for SkipList {}
// SAFETY: "Why readers need no lock" above; a second writer is excluded by `SkipListWriter`.
unsafe impl Sync for SkipList {}

impl SkipList {
    /// Bytes taken from the allocator.
    pub fn allocated_bytes(&self) -> usize {
        self.arena.allocated_bytes()
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

    /// The neighbours of the place where the internal key `user_key | trailer` belongs: the last
    /// node before it, which may be the head, and the first at or after it. `passed` is told the
    /// last node before it on every level, from the highest to 0.
    #[inline(always)]
    fn search<'a>(
        &'a self,
        user_key: &[u8],
        trailer: u64,
        mut passed: impl FnMut(usize, NodeRef<'a>),
    ) -> (NodeRef<'a>, Option<NodeRef<'a>>) {
        let mut before = self.head();
        // Known not to be before the key: levels often share their next node.
        let mut after = None;
        let mut level = MAX_HEIGHT - 1;
        loop {
            // SAFETY: `before` is the head or was reached at this level or above.
            let next = unsafe { before.next(level) };
            if let Some(node) = next
                && next != after
            {
                if level > 0 {
                    // What is needed next, whatever the comparison says: the node below `node`, or
                    // the links of `node`. Hides about a sixth of a search.
                    // SAFETY: as above; `node` was reached at this level.
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

/// The right to insert into one list: there is one of it, and it is not `Clone`.
pub(super) struct SkipListWriter {
    list: Arc<SkipList>,
    bump: Bump,
    /// For each level the last node of it at or before the latest insert, which is `splice[0]`
    /// itself; all heads at first. An insert right after the latest one, as every one is when keys
    /// come in order, needs no search.
    splice: [NonNull<Node>; MAX_HEIGHT],
    random: u64,
}

// SAFETY: the pointers lead into the arena of `list`, which any thread may use.
unsafe impl Send for SkipListWriter {}

impl SkipListWriter {
    /// An empty list that is expected to grow to `arena_bytes`.
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
    /// Panics when key or value is 4 GiB or more.
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
        // SAFETY: built just now, in the arena of `list`.
        let node = unsafe { NodeRef::new(node) };
        node.previous().store(before.as_ptr(), Ordering::Relaxed);
        for (level, left) in self.splice[..height].iter_mut().enumerate() {
            // SAFETY: of `left`: it is the head or was reached at `level`; of `node`: its height.
            let (left_link, link) = unsafe { (NodeRef::new(*left).link(level), node.link(level)) };
            // A reader follows the link of a level only after it came over that level, so each is
            // set in time, and the key is there before the first.
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
        // The high bits are the better ones.
        let mut bits = self.random >> 16;
        let mut height = 1;
        while height < MAX_HEIGHT && bits & 7 < RISE_EIGHTHS {
            height += 1;
            bits >>= 3;
        }
        height
    }
}

/// A node with its key and value that no link leads to yet, and whose own links lead nowhere. Its
/// key is `user_key | trailer`.
#[inline(always)]
fn build_node(
    arena: &Arena,
    bump: &mut Bump,
    height: usize,
    user_key: &[u8],
    trailer: &[u8],
    value: &[u8],
) -> NonNull<Node> {
    let below_4_gib = |bytes: usize| u32::try_from(bytes).expect("keys and values below 4 GiB");
    let key_bytes = user_key.len() + trailer.len();
    let fixed = Node {
        previous: Link::default(),
        key_bytes: below_4_gib(key_bytes),
        value_bytes: below_4_gib(value.len()),
        #[cfg(loom)]
        bytes: loom::cell::UnsafeCell::new(()),
    };
    let links_bytes = height * size_of::<Link>();
    let piece = bump.allocate(arena, links_bytes + size_of::<Node>() + key_bytes + value.len());
    // SAFETY: the piece has the sum of all that is written, in the order drawn above, and belongs
    // to nobody else; its alignment suffices for links and node (asserted above).
    unsafe {
        let node = piece.add(links_bytes).cast::<Node>();
        for level in 0..height {
            node.cast::<Link>().sub(level + 1).write(Link::default());
        }
        node.write(fixed);
        #[cfg(loom)]
        (*node).bytes.with_mut(|_| ());
        let mut end = node.add(1).cast::<u8>();
        for part in [user_key, trailer, value] {
            end.copy_from_nonoverlapping(part.as_ptr(), part.len());
            end = end.add(part.len());
        }
        NonNull::new_unchecked(node)
    }
}

/// Walks a list both ways while it grows. A move sees every insert that happened before it.
pub(crate) struct SkipListCursor {
    list: Arc<SkipList>,
    /// Never the head.
    node: Option<NonNull<Node>>,
}

// SAFETY: the pointer leads into the arena of `list`, which any thread may use.
unsafe impl Send for SkipListCursor {}
// SAFETY: as above; a shared cursor only reads.
unsafe impl Sync for SkipListCursor {}

impl SkipListCursor {
    /// On no entry.
    pub(super) fn new(list: Arc<SkipList>) -> SkipListCursor {
        SkipListCursor { list, node: None }
    }

    /// Panics when the cursor stands on no entry.
    fn node(&self) -> NodeRef<'_> {
        let node = self.node.expect("the cursor stands on an entry");
        // SAFETY: the cursor got the node from `list`, which it holds.
        unsafe { NodeRef::new(node) }
    }

    /// To `node`, or to no entry if it is the head.
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
            // Neighbours are far apart in memory: the next one travels while this one is used. Takes
            // a third off a walk that spends 250 ns on each entry, as a flush does.
            // SAFETY: as above.
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
        // As in `next`. SAFETY: every node has level 0.
        unsafe { next.prefetch_next(0) };
        let (last_key, key) = (last.entry().0, next.entry().0);
        let repeats = key::user_key(last_key) == key::user_key(key);
        self.node = Some(next.node);
        Some(Step { repeats, trailer: key::trailer(key) })
    }

    fn prev(&mut self) -> Result<()> {
        let before = self.node().previous().load(Ordering::Acquire);
        // Every node but the head has one before it.
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
