//! Where a data block begins: immediately after the previous block, or at the next page.
//!
//! ```text
//!   pages      │0               4096│            8192│           12288│
//!   packed     │ block 0 ──────┤ block 1 ────┼──┤ block 2 ─────┼─┤        block 1 is in two pages
//!   padded     │ block 0 ──────┤··│ block 1 ────────┤·│ block 2 ────────┤   each is in one
//! ```
//!
//! Devices and operating systems read whole pages. A block of 4 KiB that crosses a page boundary
//! costs two pages: a device transfers 8 KiB for it, and a batch of lookups gets half as many
//! blocks in the same time. So a block is moved to the next page if it then occupies fewer pages,
//! and if the gap has at most 256 bytes.
//!
//! If entries are small, a block ends before the entry that would make it larger than the block
//! size. So with a block size of 4 KiB, a block that begins at a page boundary ends half an entry
//! before the end of the page on average, and the padding has that length. Padding never takes more
//! than a sixteenth of the file. If entries are large or blocks are compressed, most blocks end too
//! far from a page boundary to be followed by padding.
//!
//! Gaps do not disturb readers, because readers find each block by its handle in the index. This
//! holds for every version of RocksDB, whose option `block_align` makes such gaps too.
//!
//! Padding consists of dots. Zeros are not used, because a page that a device has lost reads as
//! zeros, and must not pass for padding. An uncompressed block cannot pass for padding, because its
//! first byte is 0: the number of bytes that its first key shares.

use super::footer::BlockHandle;

/// The smallest unit that devices and operating systems read.
const PAGE_BYTES: u64 = 4096;

/// The most bytes of padding before a block: a sixteenth of the page that the padding saves.
const MAX_PADDING_BYTES: u64 = 256;

/// The longest padding. Shorter padding is the front of it.
const PADDING: [u8; MAX_PADDING_BYTES as usize] = [b'.'; MAX_PADDING_BYTES as usize];

/// The padding to write in front of a data block of `stored_bytes`, trailer included, if the
/// previous block ends at `offset`.
pub(crate) fn padding_before(offset: u64, stored_bytes: u64) -> &'static [u8] {
    let in_page = offset % PAGE_BYTES;
    let padding = (PAGE_BYTES - in_page) % PAGE_BYTES;
    let pages = in_page.saturating_add(stored_bytes).div_ceil(PAGE_BYTES);
    let saves = stored_bytes.div_ceil(PAGE_BYTES) < pages;
    if saves && padding <= MAX_PADDING_BYTES { &PADDING[..padding as usize] } else { &[] }
}

/// At most `bytes` bytes of padding, and some if `bytes` is not 0.
pub(crate) fn padding(bytes: u64) -> &'static [u8] {
    &PADDING[..bytes.min(MAX_PADDING_BYTES) as usize]
}

/// The padding from `offset` to the end of its page, or nothing if that is more than may precede a
/// block.
pub(crate) fn padding_to_page(offset: u64) -> &'static [u8] {
    // A block as large as a page always saves a page by beginning at a page boundary, so only the
    // length of the padding decides.
    padding_before(offset, PAGE_BYTES)
}

impl BlockHandle {
    /// Whether the block `next` follows this block, with nothing or only padding between the two.
    pub(crate) fn is_followed_by(self, next: BlockHandle) -> bool {
        self.end().is_some_and(|end| {
            let gap = next.offset.checked_sub(end);
            gap == Some(0) || gap == Some(padding_to_page(end).len() as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of pages that hold the `bytes` bytes from `offset` on.
    fn pages(offset: u64, bytes: u64) -> u64 {
        (offset + bytes).div_ceil(PAGE_BYTES) - offset / PAGE_BYTES
    }

    #[test]
    fn padding_saves_a_page_and_is_short() {
        let mut padded = 0;
        for offset in (0..2 * PAGE_BYTES).chain([1 << 40, (1 << 40) + 4000]) {
            for bytes in (13..3 * PAGE_BYTES).step_by(29) {
                let padding = padding_before(offset, bytes);
                let start = offset + padding.len() as u64;
                if padding.is_empty() {
                    let next = offset.next_multiple_of(PAGE_BYTES);
                    assert!(
                        next - offset > MAX_PADDING_BYTES
                            || pages(next, bytes) == pages(offset, bytes),
                        "{offset} {bytes}"
                    );
                } else {
                    padded += 1;
                    assert!(start.is_multiple_of(PAGE_BYTES) && padding.len() <= 256);
                    assert!(pages(start, bytes) < pages(offset, bytes), "{offset} {bytes}");
                    assert_eq!(padding, padding_to_page(offset));
                }
                let [end, next] = [offset, start].map(|offset| BlockHandle { offset, bytes: 8 });
                let before = BlockHandle { offset: end.offset.saturating_sub(13), bytes: 8 };
                assert_eq!(before.is_followed_by(next), offset >= 13, "{offset} {bytes}");
                let elsewhere = BlockHandle { offset: next.offset + 300, ..next };
                assert!(!before.is_followed_by(elsewhere));
            }
        }
        assert!(padded > 1000);
    }
}
