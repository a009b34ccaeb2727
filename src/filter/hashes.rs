//! [`HashList`]: the key hashes of one filter while its table is being written.
//!
//! A filter's size depends on the number of keys, which is known only at the end, so the hashes
//! wait: 8 bytes a key. They wait in chunks of fixed size. One growing `Vec` would hold the old and
//! the new copy together at every doubling (up to 3 × 8 bytes a key at the peak, and a copy of
//! everything); chunks cost at most one unfilled chunk.

use super::KeyHash;

/// Hashes in a full chunk: 64 KiB.
const CHUNK_HASHES: usize = 8192;

/// Key hashes in the order they were added.
#[derive(Default)]
pub(crate) struct HashList {
    /// Every chunk but the last has exactly [`CHUNK_HASHES`]; none is empty.
    chunks: Vec<Vec<KeyHash>>,
    last: Option<KeyHash>,
}

impl HashList {
    #[inline]
    pub fn push(&mut self, hash: KeyHash) {
        self.last = Some(hash);
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_HASHES => chunk.push(hash),
            _ => self.start_chunk(hash),
        }
    }

    #[cold]
    fn start_chunk(&mut self, hash: KeyHash) {
        // The first chunk grows from nothing: most lists of a small table never fill it.
        let capacity = if self.chunks.is_empty() { 0 } else { CHUNK_HASHES };
        let mut chunk = Vec::with_capacity(capacity);
        chunk.push(hash);
        self.chunks.push(chunk);
    }

    pub fn len(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK_HASHES + last.len(),
            None => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The hash added first.
    pub fn first(&self) -> Option<KeyHash> {
        self.chunks.first().map(|chunk| chunk[0])
    }

    /// The hash added last.
    #[inline]
    pub fn last(&self) -> Option<KeyHash> {
        self.last
    }

    /// The hashes in order, a chunk at a time. No chunk is empty.
    pub fn chunks(&self) -> impl Iterator<Item = &[KeyHash]> {
        self.chunks.iter().map(Vec::as_slice)
    }

    /// The hashes in order.
    pub fn iter(&self) -> impl Iterator<Item = KeyHash> {
        self.chunks.iter().flatten().copied()
    }
}

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
