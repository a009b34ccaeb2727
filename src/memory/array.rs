//! [`LineArray`]: an array of values in memory that starts at a cache line.
//!
//! ```text
//! memory   value 0 | value 1 | … | value n-1 | the rest of the buffer
//!          ^ address: a multiple of 64
//! ```
//!
//! Lookups read such arrays at random positions, which large pages make faster
//! ([`super::large_pages`]). The array is in large pages if its buffer comes from the pool of a
//! block cache (`cache/pool.rs`).
//!
//! Invariant: the first `count` values are initialised. The buffer is never read as bytes, because
//! values may be atomics, which can change while shared references to them exist.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use maypole_filter::memory::{LINE_BYTES, LineBuf};

/// The array; see the module.
pub(crate) struct LineArray<T> {
    memory: LineBuf,
    count: usize,
    values: PhantomData<T>,
}

impl<T> LineArray<T> {
    /// Bytes that a buffer for `count` values needs.
    pub const fn needed_bytes(count: usize) -> usize {
        count.checked_mul(size_of::<T>()).expect("an array is smaller than the address space")
    }

    /// Creates an array of `count` values in `memory`. `value(i)` returns the value at index `i`.
    ///
    /// Panics if the memory is too short.
    pub fn new(memory: LineBuf, count: usize, mut value: impl FnMut(usize) -> T) -> LineArray<T> {
        const { assert!(align_of::<T>() <= LINE_BYTES) };
        assert!(Self::needed_bytes(count) <= memory.len(), "memory for {count} values");
        let start = memory.start().cast::<T>();
        for i in 0..count {
            // SAFETY: value `i` is within the buffer, to which this function has exclusive access.
            // It is aligned, because the buffer starts at a line. If `value` panics, the values
            // that are already written leak, which is safe.
            unsafe { start.add(i).write(value(i)) };
        }
        LineArray { memory, count, values: PhantomData }
    }

    /// Bytes of memory that the array takes.
    pub fn heap_bytes(&self) -> usize {
        self.memory.memory_bytes()
    }
}

impl<T> Deref for LineArray<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` wrote `count` values there, and only `drop` drops them.
        unsafe { NonNull::slice_from_raw_parts(self.memory.start().cast(), self.count).as_ref() }
    }
}

impl<T> Drop for LineArray<T> {
    fn drop(&mut self) {
        let values = NonNull::slice_from_raw_parts(self.memory.start().cast::<T>(), self.count);
        // SAFETY: `new` wrote the values, and no reference to them is left.
        unsafe { values.drop_in_place() };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn values_stand_side_by_side_and_are_dropped_once() {
        let owner = Arc::new(());
        for count in [0, 1, 7, 100] {
            let memory = LineBuf::zeroed(LineArray::<Arc<()>>::needed_bytes(count));
            let array = LineArray::new(memory, count, |_| Arc::clone(&owner));
            assert_eq!((array.len(), Arc::strong_count(&owner)), (count, count + 1));
            assert_eq!(array.as_ptr().addr() % LINE_BYTES, 0);
            drop(array);
            assert_eq!(Arc::strong_count(&owner), 1);
        }
    }

    #[test]
    fn atomics_change_behind_shared_references() {
        let memory = LineBuf::zeroed(LineArray::<AtomicUsize>::needed_bytes(50));
        let array = LineArray::new(memory, 50, AtomicUsize::new);
        let third = &raw const array[3];
        std::thread::scope(|scope| {
            scope
                .spawn(|| array.iter().for_each(|value| _ = value.fetch_add(1, Ordering::Relaxed)));
        });
        // The values keep their addresses when the array moves.
        let moved = array;
        // SAFETY: the array is alive.
        assert_eq!(unsafe { &*third }.load(Ordering::Relaxed), 4);
        assert!(moved.iter().enumerate().all(|(i, value)| value.load(Ordering::Relaxed) == i + 1));
    }

    #[test]
    #[should_panic(expected = "memory for 9 values")]
    fn memory_that_is_too_short_is_refused() {
        LineArray::new(LineBuf::zeroed(71), 9, |i| i as u64);
    }
}
