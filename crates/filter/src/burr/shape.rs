//! The sizes that follow from the width w of a ribbon. They are part of the format.
//!
//! ```text
//! start positions of a layer   | bucket 0          | bucket 1          | ...     2w each
//! of a bucket                  | class 2 | 1 |   0 |                             the right end is class 0
//!                                        up  lo    0   counted from the right end
//! ```
//!
//! Building keeps or bumps whole classes: the keys of a bumped class go to the next layer. A
//! bucket's *threshold*, 0 to 3, is the number of classes that it keeps. These are the classes
//! whose numbers are below the threshold.

/// Classes of a bucket.
pub(super) const CLASSES: usize = 3;

/// The most columns of a filter, and the number of fingerprint bits that a hash yields.
pub(super) const MAX_COLUMNS: u32 = 32;

/// The division of a layer's start positions into buckets and classes. It follows from the width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// w: coefficients of a row, slots of a block. 32 or 64.
    pub width: u32,
    /// The number of start positions in class 0, which is at the right end of the bucket.
    pub lo: u32,
    /// The number of start positions in classes 0 and 1 together.
    pub up: u32,
}

impl Shape {
    /// The shape of a ribbon of this width. The class limits `lo` and `up` are part of the format.
    /// Measured sizes and times hardly change when these limits are moved a little.
    pub const fn of_width(width: u32) -> Shape {
        if width == 32 { Shape { width, lo: 43, up: 54 } } else { Shape { width, lo: 98, up: 115 } }
    }

    /// Start positions of a bucket.
    pub const fn bucket(self) -> u32 {
        1 << self.bucket_shift()
    }

    /// The binary logarithm of [`Shape::bucket`].
    pub const fn bucket_shift(self) -> u32 {
        self.width.trailing_zeros() + 1
    }

    /// How many of the start positions in block `block` stay if the threshold of its bucket is
    /// `threshold`. A bucket has two blocks, and the start positions at its right end stay.
    pub fn kept_in_block(self, block: u32, threshold: u8) -> u32 {
        let kept = self.limits() >> (8 * u32::from(threshold)) & 0xff;
        if block % 2 == 1 { kept.min(self.width) } else { kept.saturating_sub(self.width) }
    }

    /// Byte t of the result, for the thresholds t from 0 to 3, is the number of start positions
    /// that a bucket with this threshold keeps, counted from its right end.
    pub const fn limits(self) -> u32 {
        self.lo << 8 | self.up << 16 | self.bucket() << 24
    }
}
