//! [`Handles`]: where the blocks of an index are in the file.
//!
//! ```text
//! near   first: u64, [(start: u32, bytes: u32)]   start: the block's offset minus `first`
//! far    [(offset: u64, bytes: u32)]              twice the memory
//! ```
//!
//! A file of less than 4 GiB has near handles only.

use crate::memory::prefetch;
use crate::table::format::footer::BlockHandle;

/// Block handles in ascending order of their offsets. Each block has less than 4 GiB.
pub(in crate::table) enum Handles {
    Near(u64, Box<[(u32, u32)]>),
    Far(Box<[(u64, u32)]>),
}

impl Handles {
    pub fn new(handles: &[BlockHandle]) -> Handles {
        let first = handles.first().map_or(0, |handle| handle.offset);
        let near = |handle: &BlockHandle| {
            let start = handle.offset.checked_sub(first)?;
            Some((u32::try_from(start).ok()?, handle.bytes as u32))
        };
        match handles.iter().map(near).collect() {
            Some(near) => Handles::Near(first, near),
            None => Handles::Far(handles.iter().map(|h| (h.offset, h.bytes as u32)).collect()),
        }
    }

    pub fn get(&self, i: usize) -> BlockHandle {
        let (offset, bytes) = match self {
            Handles::Near(first, handles) => (first + u64::from(handles[i].0), handles[i].1),
            Handles::Far(handles) => handles[i],
        };
        BlockHandle { offset, bytes: bytes.into() }
    }

    pub fn len(&self) -> usize {
        match self {
            Handles::Near(_, handles) => handles.len(),
            Handles::Far(handles) => handles.len(),
        }
    }

    /// Starts to fetch handle `i` from memory.
    #[inline]
    pub fn prefetch(&self, i: usize) {
        match self {
            Handles::Near(_, handles) => prefetch(handles.as_ptr().wrapping_add(i)),
            Handles::Far(handles) => prefetch(handles.as_ptr().wrapping_add(i)),
        }
    }

    pub fn heap_bytes(&self) -> usize {
        match self {
            Handles::Near(_, handles) => size_of_val(&**handles),
            Handles::Far(handles) => size_of_val(&**handles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handle_is_returned_as_it_was_given_and_takes_eight_bytes_within_4_gib() {
        let far = u64::from(u32::MAX);
        for (blocks, bytes_each) in [
            (vec![], 8),
            (vec![(7, 0), (12, far - 1)], 8),
            // Only the distance from the first block counts.
            (vec![(1 << 60, 100), ((1 << 60) + far, 3)], 8),
            (vec![(1 << 60, 100), ((1 << 60) + far + 1, 3)], 16),
            (vec![(9, 100), (10 + far, far - 1)], 16),
        ] {
            let handle = |(offset, bytes)| BlockHandle { offset, bytes };
            let given: Vec<BlockHandle> = blocks.into_iter().map(handle).collect();
            let kept = Handles::new(&given);
            assert_eq!((kept.len(), kept.heap_bytes()), (given.len(), bytes_each * given.len()));
            for (i, handle) in given.iter().enumerate() {
                assert_eq!(kept.get(i), *handle);
                kept.prefetch(i);
            }
        }
    }
}
