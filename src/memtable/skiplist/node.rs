//! The nodes of a skip list: their layout in the arena, and how readers follow their links.
//!
//! A node of height h is one piece of the arena. Its links are *before* its address, so that the
//! key is at the same offset in all nodes, usually on the cache line of link 0:
//!
//! ```text
//! SIZE      MEANING
//! 8 (h-1)   links h-1 … 1, the highest first: the next node of at least that level
//! 8         link 0: the next node
//! ◄─────────────────────────────────────────────────── address of the node
//! 8         the previous node
//! 4         bytes of the internal key: n
//! 4         bytes of the value: m
//! n         internal key: user key | trailer
//! m         value
//! ```

use std::cmp::Ordering as KeyOrder;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::encoding::bytes::compare_words;
use crate::encoding::key;
use crate::memtable::arena::{ALIGNMENT, Arena, Bump};
use crate::sync::atomic::{AtomicPtr, Ordering};

pub(super) type Link = AtomicPtr<Node>;

#[repr(C)]
pub(super) struct Node {
    previous: Link,
    key_bytes: u32,
    value_bytes: u32,
    /// loom does not see the key and the value, which follow the node in memory. Each access to
    /// them also accesses this cell, so that loom reports a read that is not ordered after the
    /// write.
    #[cfg(loom)]
    bytes: loom::cell::UnsafeCell<()>,
}

const _: () = assert!(align_of::<Node>() <= ALIGNMENT && align_of::<Link>() <= ALIGNMENT);
const _: () = assert!(size_of::<Link>().is_multiple_of(align_of::<Node>()));

/// A node of a list that outlives `'a`.
///
/// Invariants: the node is built, and this thread sees everything that was written to build it,
/// because the thread followed a link to the node or built the node itself; the arena of the list
/// lives for `'a`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRef<'a> {
    pub node: NonNull<Node>,
    arena: PhantomData<&'a Arena>,
}

impl<'a> NodeRef<'a> {
    /// # Safety
    ///
    /// `node` and `'a` satisfy the invariants of the type.
    #[inline]
    pub unsafe fn new(node: NonNull<Node>) -> NodeRef<'a> {
        NodeRef { node, arena: PhantomData }
    }

    /// # Safety
    ///
    /// The node is higher than `level`, which is the case if it was reached at `level` or above.
    #[inline(always)]
    pub unsafe fn link(self, level: usize) -> &'a Link {
        // SAFETY: the links of the node are before it, as drawn above; they are in its piece, whose
        // provenance the pointer has, and are only ever accessed as atomics.
        unsafe { self.node.cast::<Link>().sub(level + 1).as_ref() }
    }

    /// The next node of at least `level`.
    ///
    /// # Safety
    ///
    /// The same as for [`NodeRef::link`].
    #[inline(always)]
    pub unsafe fn next(self, level: usize) -> Option<NodeRef<'a>> {
        // SAFETY: by the caller's promise.
        let next = NonNull::new(unsafe { self.link(level) }.load(Ordering::Acquire))?;
        // SAFETY: Acquire pairs with the Release of the store that published the node.
        Some(unsafe { NodeRef::new(next) })
    }

    /// The link to the previous node, which is the head for the first entry.
    #[inline]
    pub fn previous(self) -> &'a Link {
        // SAFETY: the node is built; the field is only ever accessed as an atomic.
        unsafe { &(*self.node.as_ptr()).previous }
    }

    #[inline]
    pub fn as_ptr(self) -> *mut Node {
        self.node.as_ptr()
    }

    /// The internal key and the value. Both are empty in the head.
    #[inline(always)]
    pub fn entry(self) -> (&'a [u8], &'a [u8]) {
        let node = self.node.as_ptr();
        #[cfg(loom)]
        // SAFETY: the node is built.
        unsafe { &(*node).bytes }.with(|_| ());
        // SAFETY: the node is built: its lengths and bytes are written, the bytes follow the fixed
        // part in the same piece, and neither is written again.
        unsafe {
            let key = node.add(1).cast::<u8>();
            let (key_bytes, value_bytes) = ((*node).key_bytes, (*node).value_bytes);
            (
                std::slice::from_raw_parts(key, key_bytes as usize),
                std::slice::from_raw_parts(key.add(key_bytes as usize), value_bytes as usize),
            )
        }
    }

    /// Whether the node's key comes before the internal key `user_key | trailer`. Not valid for the
    /// head.
    #[inline(always)]
    pub fn is_before(self, user_key: &[u8], trailer: u64) -> bool {
        let (key, _) = self.entry();
        match compare_words(key::user_key(key), user_key) {
            KeyOrder::Less => true,
            KeyOrder::Equal => key::trailer(key) > trailer,
            KeyOrder::Greater => false,
        }
    }

    /// Starts to fetch the node that the link of `level` points to.
    ///
    /// # Safety
    ///
    /// The same as for [`NodeRef::link`].
    #[inline(always)]
    pub unsafe fn prefetch_next(self, level: usize) {
        // The prefetch is left out of models, where it would only be one more load to interleave.
        #[cfg(not(loom))]
        // SAFETY: by the caller's promise.
        crate::memory::prefetch(unsafe { self.link(level) }.load(Ordering::Relaxed));
        #[cfg(loom)]
        let _ = level;
    }
}

/// A new node with the internal key `user_key | trailer`. No link points to it yet, and its own
/// links are empty.
#[inline(always)]
pub(super) fn build_node(
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
    // SAFETY: the piece is as large as everything that is written, in the order drawn above, and
    // has no other user; its alignment suffices for links and node (asserted above).
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
