//! [`LargePages`]: memory in pages of 2 MiB.
//!
//! A processor caches the address translations of a few thousand pages. For any other page it walks
//! the kernel's page tables in memory. With pages of 4 KiB the cached translations cover some ten
//! MiB, so nearly every random access to a much larger range also reads a page table. With pages of
//! 2 MiB few accesses read one: a random load from a range of 256 MiB takes 142 ns instead of 170
//! (`docs/measurements/reads-in-memory.md`).
//!
//! ```text
//! addresses    | page | page | page | · · · · · · · · · |     start at a multiple of 2 MiB
//!                touched: has memory   not yet: has none
//! ```
//!
//! Pages of 2 MiB are requested on Linux only, by `madvise(MADV_HUGEPAGE)`, which has an effect
//! unless the system's transparent huge pages are switched off. A kernel that has no large page
//! available gives small pages, and nothing else changes. Memory of the program's allocator rarely
//! gets large pages. The allocator's heap grows in steps much smaller than 2 MiB, and the program
//! touches the memory of a step at once, so the kernel backs that memory with small pages.

use std::ptr::NonNull;

#[cfg(target_os = "linux")]
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a large page on x86-64, and on AArch64 with small pages of 4 KiB.
pub(crate) const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Memory in a range of addresses of its own. All its bytes are 0 at first.
///
/// Invariant: `start` is a private anonymous mapping of `bytes` bytes, readable and writable. The
/// address and the size are multiples of [`LARGE_PAGE_BYTES`].
pub(crate) struct LargePages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread; the owner decides which thread touches which bytes.
unsafe impl Send for LargePages {}
// SAFETY: as above.
unsafe impl Sync for LargePages {}

impl LargePages {
    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(target_os = "linux")]
impl LargePages {
    /// Reserves addresses for `bytes` bytes, rounded up to whole pages. A page takes memory when it
    /// is first touched. `None` when the system has no addresses left.
    pub fn reserve(bytes: usize) -> Option<LargePages> {
        let bytes = bytes.checked_next_multiple_of(LARGE_PAGE_BYTES)?;
        // With one more page, the mapping contains `bytes` bytes from an aligned address on.
        let mapped_bytes = bytes.checked_add(LARGE_PAGE_BYTES)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so the new mapping replaces no other.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped_bytes, access, flags) };
        let mapped = mapped.ok()?.cast::<u8>();
        let front = mapped.align_offset(LARGE_PAGE_BYTES);
        let start = mapped.wrapping_add(front);
        // SAFETY: the two pieces that `munmap` removes are in the mapping made above, outside the
        // part that is kept, and no reference to them exists. If the kernel keeps a piece, only
        // addresses are wasted. The advice changes no byte.
        unsafe {
            if front > 0 {
                let _ = munmap(mapped.cast(), front);
            }
            let _ = munmap(start.wrapping_add(bytes).cast(), LARGE_PAGE_BYTES - front);
            let _ = madvise(start.cast(), bytes, Advice::LinuxHugepage);
        }
        Some(LargePages { start: NonNull::new(start)?, bytes })
    }

    /// Returns the memory of page `page` to the kernel. The page holds zeros when it is touched
    /// again.
    ///
    /// # Safety
    ///
    /// There is no reference to a byte of the page.
    pub unsafe fn release(&self, page: usize) {
        let offset = page * LARGE_PAGE_BYTES;
        assert!(offset < self.bytes);
        let start = self.start.as_ptr().wrapping_add(offset);
        // SAFETY: the page is inside the mapping, and by the caller's promise no reference to it
        // exists. If the call fails, the page keeps its memory and its bytes.
        let _ = unsafe { madvise(start.cast(), LARGE_PAGE_BYTES, Advice::LinuxDontNeed) };
    }
}

#[cfg(target_os = "linux")]
impl Drop for LargePages {
    fn drop(&mut self) {
        // SAFETY: this value is the only owner of the mapping.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Large pages are not implemented for other systems.
#[cfg(not(target_os = "linux"))]
impl LargePages {
    pub fn reserve(_bytes: usize) -> Option<LargePages> {
        None
    }

    pub unsafe fn release(&self, _page: usize) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_aligned_and_all_of_it_can_be_used_and_given_back() {
        let pages = LargePages::reserve(3 * LARGE_PAGE_BYTES - 1).unwrap();
        assert_eq!(pages.bytes(), 3 * LARGE_PAGE_BYTES);
        assert_eq!(pages.start().addr().get() % LARGE_PAGE_BYTES, 0);
        let last = pages.start().as_ptr().wrapping_add(pages.bytes() - 1);
        // SAFETY: there is no other reference to these bytes.
        unsafe {
            assert_eq!(last.read(), 0);
            pages.start().as_ptr().write(7);
            last.write(7);
            pages.release(2);
            assert_eq!((pages.start().as_ptr().read(), last.read()), (7, 0));
        }
    }

    #[test]
    fn what_is_larger_than_the_addresses_is_declined() {
        assert!(LargePages::reserve(usize::MAX).is_none());
        assert!(LargePages::reserve(usize::MAX - LARGE_PAGE_BYTES).is_none());
        assert!(LargePages::reserve(1 << 60).is_none());
    }
}
