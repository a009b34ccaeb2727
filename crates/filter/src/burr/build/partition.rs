//! Grouping the hashes of a layer by bucket and class: step 1 of building.
//!
//! A *bucket* is a run of start positions, and a *class* is a part of a bucket
//! ([`shape`](crate::burr::shape)). Elimination (step 2, [`super::banding`]) needs the keys
//! of each bucket together, class after class. Within a class any order will do, because whether a
//! set of rows can be solved does not depend on their order. So nothing is sorted. Two passes
//! distribute the hashes: one to *windows*, runs of buckets whose keys are eliminated together, and
//! one to the groups of a window. Each pass first counts the hashes of every destination.
//!
//! ```text
//!  hashes as added         windows of 512 buckets          groups (bucket, class)
//!  ..................  =>  | window 0 | window 1 | ..  =>  | 0,0 | 0,1 | 0,2 | 1,0 | ...
//!                          only if there are several       one window at a time, in the cache
//! ```

use alloc::vec::Vec;

use crate::burr::row::start;
use crate::burr::shape::{CLASSES, Shape};
use crate::hashes::group;

/// Buckets of a window, unless the layer would then have more than [`MAX_WINDOWS`] windows. The
/// hashes of a window take about 256 KiB with w = 32 and 512 KiB with w = 64, so they stay in the
/// second-level cache.
const WINDOW_BUCKETS: u32 = 512;

/// With more windows than this, the first pass would write to more cache lines than the cache
/// holds.
const MAX_WINDOWS: u32 = 1024;

/// Buckets of a window in a layer with `buckets` buckets.
pub fn window_buckets(buckets: u32) -> u32 {
    WINDOW_BUCKETS.max(buckets.div_ceil(MAX_WINDOWS)).next_power_of_two()
}

/// Maps the hashes of one layer to windows, and the hashes of a window to groups.
#[derive(Clone, Copy)]
pub(super) struct Grouping {
    starts: u32,
    shape: Shape,
    bucket_shift: u32,
    window_shift: u32,
}

/// The groups of one window.
#[derive(Default)]
pub(super) struct Window {
    /// The first bucket, and the number of buckets.
    pub first_bucket: u32,
    pub buckets: u32,
    hashes: Vec<u64>,
    /// The end of each group in `hashes`; group = bucket × CLASSES + class.
    ends: Vec<u32>,
}

impl Grouping {
    pub fn new(starts: u32, shape: Shape) -> Grouping {
        let buckets = starts.div_ceil(shape.bucket());
        let window_shift = window_buckets(buckets).ilog2();
        Grouping { starts, shape, bucket_shift: shape.bucket_shift(), window_shift }
    }

    pub fn buckets(&self) -> u32 {
        self.starts.div_ceil(self.shape.bucket())
    }

    #[inline(always)]
    fn window(&self, hash: u64) -> usize {
        (start(hash, self.starts) >> self.bucket_shift >> self.window_shift) as usize
    }

    #[inline(always)]
    fn group(&self, hash: u64, first_bucket: u32) -> usize {
        let start = start(hash, self.starts);
        let bucket = (start >> self.bucket_shift) - first_bucket;
        let from_right = !start & ((1 << self.bucket_shift) - 1);
        let class = u32::from(from_right >= self.shape.lo) + u32::from(from_right >= self.shape.up);
        bucket as usize * CLASSES + class as usize
    }

    /// Calls `consume` with every window from left to right. `chunks` are the hashes, in any order.
    pub fn for_each_window(&self, chunks: &[&[u64]], mut consume: impl FnMut(&Window)) {
        let windows = self.buckets().div_ceil(1 << self.window_shift) as usize;
        let mut window = Window::default();
        if windows == 1 {
            window.fill(self, 0, chunks);
            return consume(&window);
        }
        let (mut hashes, mut ends) = (Vec::new(), Vec::new());
        let all = chunks.iter().copied().flatten().copied();
        group(all, windows, |hash| self.window(hash), &mut hashes, &mut ends);
        let mut first = 0;
        for (index, end) in ends.into_iter().enumerate() {
            let first_bucket = (index as u32) << self.window_shift;
            window.fill(self, first_bucket, &[&hashes[first..end as usize]]);
            consume(&window);
            first = end as usize;
        }
    }
}

impl Window {
    fn fill(&mut self, grouping: &Grouping, first_bucket: u32, chunks: &[&[u64]]) {
        self.first_bucket = first_bucket;
        self.buckets = (1 << grouping.window_shift).min(grouping.buckets() - first_bucket);
        let all = chunks.iter().copied().flatten().copied();
        let group_of = |hash| grouping.group(hash, first_bucket);
        group(all, self.buckets as usize * CLASSES, group_of, &mut self.hashes, &mut self.ends);
    }

    /// The hashes of bucket number `bucket` of the window, class after class, and for each class
    /// the index of its first hash.
    pub fn bucket(&self, bucket: u32) -> (&[u64], [usize; CLASSES]) {
        let group = bucket as usize * CLASSES;
        let first = if group == 0 { 0 } else { self.ends[group - 1] as usize };
        let [end0, end1, end2] = [0, 1, 2].map(|class| self.ends[group + class] as usize);
        (&self.hashes[first..end2], [0, end0 - first, end1 - first])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burr::row::mix;

    #[test]
    fn every_hash_lands_in_its_bucket_and_class() {
        for (width, starts) in [(32, 32), (32, 40_000), (64, 200_000)] {
            let shape = Shape::of_width(width);
            let hashes: Vec<u64> = (0..u64::from(starts)).map(mix).collect();
            let (left, right) = hashes.split_at(hashes.len() / 3);
            let mut seen = Vec::new();
            let mut next_bucket = 0;
            Grouping::new(starts, shape).for_each_window(&[left, &[], right], |window| {
                assert_eq!(window.first_bucket, next_bucket);
                next_bucket += window.buckets;
                for bucket in 0..window.buckets {
                    let (hashes, class_starts) = window.bucket(bucket);
                    for (i, &hash) in hashes.iter().enumerate() {
                        let start = start(hash, starts);
                        assert_eq!(start / shape.bucket(), window.first_bucket + bucket);
                        let from_right = shape.bucket() - 1 - start % shape.bucket();
                        let class = class_starts.iter().filter(|&&start| start <= i).count() - 1;
                        let expected = match from_right {
                            v if v < shape.lo => 0,
                            v if v < shape.up => 1,
                            _ => 2,
                        };
                        assert_eq!(class, expected);
                    }
                    seen.extend_from_slice(hashes);
                }
            });
            assert_eq!(next_bucket, starts.div_ceil(shape.bucket()));
            let mut expected = hashes.clone();
            expected.sort_unstable();
            seen.sort_unstable();
            assert_eq!(seen, expected);
        }
    }
}
