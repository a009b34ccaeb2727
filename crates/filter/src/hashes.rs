//! [`HashList`]: the key hashes of one filter while its table is being written; and the grouping
//! and mixing of hashes, which builders share.
//!
//! A filter's size depends on the number of keys, which is known only at the end. So the hashes are
//! kept until then: 8 bytes a key, in chunks of fixed size. A single growing `Vec` would copy all
//! hashes at every doubling, and hold the old and the new copy at the same time: up to 3 × 8 bytes
//! a key. Chunks waste at most the free part of the last one.

use alloc::vec::Vec;

use super::family::KeyHash;

/// Hashes in a full chunk: 64 KiB.
const CHUNK_HASHES: usize = 8192;

/// Key hashes in the order they were added.
#[derive(Default)]
pub(crate) struct HashList {
    /// The full chunks, of exactly [`CHUNK_HASHES`] hashes each.
    full: Vec<Vec<KeyHash>>,
    /// The chunk that is being filled; empty only if the list is empty.
    open: Vec<KeyHash>,
}

impl HashList {
    #[inline]
    pub fn push(&mut self, hash: KeyHash) {
        if self.open.len() == CHUNK_HASHES {
            self.start_chunk();
        }
        self.open.push(hash);
    }

    /// Starts a chunk, whose full capacity is allocated at once. Only the list's first chunk grows
    /// by reallocation, because the hashes of a small table rarely fill it.
    #[cold]
    fn start_chunk(&mut self) {
        let filled = core::mem::replace(&mut self.open, Vec::with_capacity(CHUNK_HASHES));
        self.full.push(filled);
    }

    pub fn len(&self) -> usize {
        self.full.len() * CHUNK_HASHES + self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The hash added first.
    pub fn first(&self) -> Option<KeyHash> {
        self.chunks().next().map(|chunk| chunk[0])
    }

    /// The hash added last.
    #[inline]
    pub fn last(&self) -> Option<KeyHash> {
        self.open.last().copied()
    }

    /// The hashes in order, a chunk at a time. No chunk is empty.
    pub fn chunks(&self) -> impl Iterator<Item = &[KeyHash]> + Clone {
        let open = (!self.open.is_empty()).then_some(&self.open);
        self.full.iter().chain(open).map(Vec::as_slice)
    }

    /// The hashes in order.
    pub fn iter(&self) -> impl Iterator<Item = KeyHash> + Clone {
        self.chunks().flatten().copied()
    }
}

/// Writes `hashes` to `ordered`, group after group. `group_of` returns the group of a hash, a
/// number below `groups`. `ends` gets the index in `ordered` at which each group ends. The previous
/// contents of `ordered` and `ends` are replaced, and their memory is reused.
#[inline]
pub(crate) fn group(
    hashes: impl Iterator<Item = KeyHash> + Clone,
    groups: usize,
    group_of: impl Fn(KeyHash) -> usize,
    ordered: &mut Vec<KeyHash>,
    ends: &mut Vec<u32>,
) {
    ends.clear();
    ends.resize(groups, 0);
    hashes.clone().for_each(|hash| ends[group_of(hash)] += 1);
    // At first, `ends` holds the number of hashes in each group. The loop replaces each number by
    // the start of its group. Then every hash that is written advances its group's entry, which in
    // the end is the group's end.
    let mut start = 0;
    for end in ends.iter_mut() {
        start += core::mem::replace(end, start);
    }
    ordered.resize(start as usize, 0);
    hashes.for_each(|hash| {
        let next = &mut ends[group_of(hash)];
        ordered[*next as usize] = hash;
        *next += 1;
    });
}

/// A bijection in which every input bit affects every output bit: the finalizer of splitmix64.
#[inline]
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
impl FromIterator<KeyHash> for HashList {
    fn from_iter<I: IntoIterator<Item = KeyHash>>(hashes: I) -> HashList {
        let mut list = HashList::default();
        hashes.into_iter().for_each(|hash| list.push(hash));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_order_across_chunks() {
        for len in [0, 1, CHUNK_HASHES, CHUNK_HASHES + 1, 3 * CHUNK_HASHES + 5] {
            let list: HashList = (0..len as u64).collect();
            assert_eq!(list.len(), len);
            assert_eq!(list.is_empty(), len == 0);
            assert!(list.iter().eq(0..len as u64));
            assert_eq!(list.chunks().map(<[u64]>::len).sum::<usize>(), len);
            assert_eq!(list.first(), (len > 0).then_some(0));
            assert_eq!(list.last(), (len as u64).checked_sub(1));
        }
    }
}
