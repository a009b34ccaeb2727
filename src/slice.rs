//! [`Slice`]: bytes that the caller may keep, without a copy of them.
//!
//! ```text
//!   Slice { start, length, owner }
//!             │              └──► block, counted ──► its bytes
//!             └───────────────────────────────────────^
//! ```
//!
//! A block already has a reference count, so a `Slice` of it costs one increment, whereas a
//! `bytes::Bytes` of it would cost an allocation. The feature `bytes` adds the conversion to
//! `Bytes`.
//!
//! Invariant: `start .. start + length` is in memory that `owner` keeps alive, in place and
//! unchanged.

use std::borrow::Borrow;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Memory whose bytes neither move nor change while it lives.
///
/// # Safety
///
/// [`StableBytes::stable_bytes`] must return the same address and the same contents at every call
/// for the whole life of the value, wherever the value itself is moved.
pub(crate) unsafe trait StableBytes: Send + Sync + 'static {
    fn stable_bytes(&self) -> &[u8];
}

// SAFETY: a boxed slice behind a shared reference is neither moved nor changed.
unsafe impl StableBytes for Box<[u8]> {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

/// Owned, immutable bytes. They may share the cached block they were found in.
///
/// A shared block stays in memory as long as any of its slices, even after the cache has evicted
/// it: a 10-byte value keeps about 4 KiB. To keep a value for long, copy it with `to_vec()`.
///
/// ```
/// use maypole::Slice;
///
/// let slice = Slice::from(&b"maypole"[..]);
/// assert_eq!(slice, b"maypole");
/// assert_eq!(&slice[..3], b"may");
/// assert_eq!(slice.clone().to_vec(), b"maypole");
/// ```
#[derive(Clone)]
pub struct Slice {
    start: *const u8,
    length: usize,
    /// Keeps `start` valid. `None` only for the empty slice.
    _owner: Option<Arc<dyn Send + Sync>>,
}

// SAFETY: the bytes are immutable and their owner is `Send + Sync`.
unsafe impl Send for Slice {}
// SAFETY: as above.
unsafe impl Sync for Slice {}

impl Slice {
    /// An empty slice, without an allocation.
    pub fn empty() -> Slice {
        Slice { start: std::ptr::NonNull::dangling().as_ptr(), length: 0, _owner: None }
    }

    /// A copy of `bytes` that shares nothing.
    pub fn copy_from(bytes: &[u8]) -> Slice {
        if bytes.is_empty() {
            return Slice::empty();
        }
        Slice::share(Arc::new(Box::<[u8]>::from(bytes)), 0..bytes.len())
    }

    /// The bytes of `owner` in `range`. Panics if `range` is not within them.
    pub(crate) fn share<O: StableBytes>(owner: Arc<O>, range: Range<usize>) -> Slice {
        let bytes = &owner.stable_bytes()[range];
        let (start, length) = (bytes.as_ptr(), bytes.len());
        Slice { start, length, _owner: Some(owner) }
    }
}

/// Makes many small slices out of few allocations. Slices that are packed one after the other share
/// a chunk, which lives as long as any of them.
///
/// ```text
/// chunk   | slice | slice | slice | free …      written once, front to back, by one packer
/// ```
#[derive(Default)]
pub(crate) struct SlicePacker {
    chunk: Option<Arc<Chunk>>,
    /// The first `used` bytes of the chunk belong to slices that were returned. The packer writes
    /// only to the bytes after them.
    used: usize,
}

struct Chunk(Box<[UnsafeCell<u8>]>);

// SAFETY: a byte is written once, through `&mut` of the only packer of the chunk, before a slice
// with this byte is returned; after that it is only read.
unsafe impl Sync for Chunk {}

impl SlicePacker {
    /// Bytes of the largest chunk. The first chunk has only a sixteenth of them, because many
    /// iterators return few items. Each later chunk is twice as large as the one before, up to the
    /// largest.
    const CHUNK_BYTES: usize = 4 << 10;

    /// A copy of `bytes`.
    #[inline]
    pub fn pack(&mut self, bytes: &[u8]) -> Slice {
        let length = bytes.len();
        if let Some(chunk) = &self.chunk
            && length <= chunk.0.len() - self.used
            && length > 0
        {
            let start = UnsafeCell::raw_get(chunk.0[self.used..].as_ptr());
            self.used += length;
            // SAFETY: `length` bytes from `start` on are in the chunk (checked). They are in no
            // slice yet, and this is the chunk's only packer, borrowed mutably, so no other code
            // uses them now.
            unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), length) };
            return Slice { start, length, _owner: Some(Arc::<Chunk>::clone(chunk)) };
        }
        self.pack_in_new_chunk(bytes)
    }

    #[cold]
    fn pack_in_new_chunk(&mut self, bytes: &[u8]) -> Slice {
        if bytes.len() > Self::CHUNK_BYTES / 16 || bytes.is_empty() {
            return Slice::copy_from(bytes);
        }
        let last_bytes = self.chunk.as_ref().map_or(Self::CHUNK_BYTES / 32, |chunk| chunk.0.len());
        let chunk_bytes = (2 * last_bytes).min(Self::CHUNK_BYTES);
        self.chunk = Some(Arc::new(Chunk((0..chunk_bytes).map(|_| UnsafeCell::new(0)).collect())));
        self.used = 0;
        self.pack(bytes)
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `owner` keeps the bytes alive and, by `StableBytes`, in place and unchanged. The
        // empty slice has a dangling but aligned pointer, which is valid for no bytes.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice::empty()
    }
}

impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Slice {
        Slice::copy_from(bytes)
    }
}

impl From<Slice> for Vec<u8> {
    fn from(slice: Slice) -> Vec<u8> {
        slice.to_vec()
    }
}

/// Converts without a copy: the `Bytes` owns the slice, which keeps its block in memory.
#[cfg(feature = "bytes")]
impl From<Slice> for bytes::Bytes {
    fn from(slice: Slice) -> bytes::Bytes {
        match slice.is_empty() {
            true => bytes::Bytes::new(),
            false => bytes::Bytes::from_owner(slice),
        }
    }
}

/// Serializes the slice as bytes. Formats without a type for bytes write a list of numbers.
#[cfg(feature = "serde")]
impl serde::Serialize for Slice {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

/// Deserializes a slice from bytes, text or a list of numbers.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Slice {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Slice, D::Error> {
        struct Bytes;

        impl<'de> serde::de::Visitor<'de> for Bytes {
            type Value = Slice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Slice, E> {
                Ok(Slice::copy_from(bytes))
            }

            fn visit_str<E>(self, text: &str) -> Result<Slice, E> {
                Ok(Slice::copy_from(text.as_bytes()))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut numbers: A,
            ) -> Result<Slice, A::Error> {
                // No capacity is reserved, because the length that the input claims may be false.
                let mut bytes = Vec::new();
                while let Some(byte) = numbers.next_element()? {
                    bytes.push(byte);
                }
                Ok(Slice::copy_from(&bytes))
            }
        }

        deserializer.deserialize_byte_buf(Bytes)
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Slice {
    fn eq(&self, other: &T) -> bool {
        self[..] == *other.as_ref()
    }
}

impl Eq for Slice {}

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Slice) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Slice) -> std::cmp::Ordering {
        self[..].cmp(&other[..])
    }
}

impl std::hash::Hash for Slice {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_outlives_every_other_handle_on_its_owner() {
        let owner = Arc::new(Box::<[u8]>::from(&b"hello world"[..]));
        let world = Slice::share(Arc::clone(&owner), 6..11);
        drop(owner);
        let again = world.clone();
        drop(world);
        assert_eq!(again, b"world");
    }

    #[test]
    fn empty_slices_are_equal_however_made() {
        assert_eq!(Slice::empty(), Slice::copy_from(b""));
        assert_eq!(&*Slice::default(), b"");
    }

    #[cfg(feature = "bytes")]
    #[test]
    fn bytes_show_the_memory_of_the_slice_and_keep_its_owner() {
        let owner = Arc::new(Box::<[u8]>::from(&b"hello world"[..]));
        let world = Slice::share(Arc::clone(&owner), 6..11);
        let start = world.as_ptr();
        let bytes = bytes::Bytes::from(world);
        assert_eq!((&bytes[..], bytes.as_ptr()), (&b"world"[..], start));
        assert_eq!(Arc::strong_count(&owner), 2);
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!((&part[..], Arc::strong_count(&owner)), (&b"or"[..], 2));
        drop(part);
        assert_eq!(Arc::strong_count(&owner), 1);
        assert!(bytes::Bytes::from(Slice::empty()).is_empty());
    }

    #[test]
    #[should_panic(expected = "range")]
    fn a_window_outside_its_owner_is_refused() {
        Slice::share(Arc::new(Box::<[u8]>::from(&b"abc"[..])), 2..4);
    }

    #[test]
    fn packed_slices_keep_their_bytes_while_later_ones_are_packed_and_others_dropped() {
        let bytes = |i: usize| vec![i as u8; [20, 0, 7, 256, 257, 5000][i % 6]];
        let mut packer = SlicePacker::default();
        let mut kept = Vec::new();
        for i in 0..if cfg!(miri) { 30 } else { 300 } {
            let slice = packer.pack(&bytes(i));
            if i % 3 != 0 {
                kept.push((i, slice));
            }
        }
        drop(packer);
        let kept = std::thread::spawn(move || kept).join().unwrap();
        for (i, slice) in &kept {
            assert_eq!(slice, &bytes(*i), "{i}");
        }
        let starts: std::collections::HashSet<_> =
            kept.iter().filter(|(_, s)| !s.is_empty()).map(|(_, s)| s.as_ptr()).collect();
        assert_eq!(starts.len(), kept.iter().filter(|(_, s)| !s.is_empty()).count());
    }
}
