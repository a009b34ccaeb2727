//! [`KeyRanges`]: the key ranges of one level's files, where a lookup finds them together.
//!
//! The keys themselves lie behind three pointers a file, each a trip to memory. Here the first 8
//! bytes of each bound, after the prefix that all bounds of the level share, stand in two arrays.
//! They decide nearly always; equal heads are settled by the keys.
//!
//! ```text
//! smallest  [u64 u64 u64 …]      in the order of the level's files
//! largest   [u64 u64 u64 …]
//! ```

use std::cmp::Ordering;

use super::Level;
use crate::key::{head, user_key};

/// Up to so many files, counting all beats a binary search.
const LINEAR: usize = 32;

/// See the module. Its methods are to be given the files that it was made from.
pub(super) struct KeyRanges {
    common_prefix: Vec<u8>,
    smallest: Vec<u64>,
    largest: Vec<u64>,
}

impl KeyRanges {
    pub fn of(files: &Level) -> KeyRanges {
        let bounds = |file: &'_ super::TableFile| {
            [file.meta.smallest.clone(), file.meta.largest.clone()].map(|mut bound| {
                bound.truncate(user_key(&bound).len());
                bound
            })
        };
        let bounds: Vec<[Vec<u8>; 2]> = files.iter().map(|file| bounds(file)).collect();
        let mut keys = bounds.iter().flatten();
        let mut common = keys.next().cloned().unwrap_or_default();
        for key in keys {
            let shared = common.iter().zip(key).take_while(|(a, b)| a == b).count();
            common.truncate(shared);
        }
        let heads = |which: usize| {
            bounds.iter().map(|bounds| head(&bounds[which][common.len()..])).collect()
        };
        KeyRanges { smallest: heads(0), largest: heads(1), common_prefix: common }
    }

    /// Of files whose ranges may overlap: the first from `start` on that may hold `key`.
    #[inline]
    pub fn next_overlapping(&self, files: &Level, start: usize, key: &[u8]) -> Option<usize> {
        let wanted = head(key.strip_prefix(&self.common_prefix[..])?);
        (start..files.len()).find(|&i| {
            self.smallest[i] <= wanted
                && wanted <= self.largest[i]
                && self.begins_by(files, i, wanted, key)
                && (wanted < self.largest[i] || key <= user_key(&files[i].meta.largest))
        })
    }

    /// Of files in key order whose ranges are disjoint: the one that may hold `key`.
    #[inline]
    pub fn only(&self, files: &Level, key: &[u8]) -> Option<usize> {
        let wanted = head(key.strip_prefix(&self.common_prefix[..])?);
        let mut i = match self.largest.len() <= LINEAR {
            true => self.largest.iter().map(|&head| usize::from(head < wanted)).sum(),
            false => self.largest.partition_point(|&head| head < wanted),
        };
        if self.largest.get(i) == Some(&wanted) {
            let ties = self.largest[i..].partition_point(|&head| head == wanted);
            i += files[i..i + ties].partition_point(|file| user_key(&file.meta.largest) < key);
        }
        (i < files.len() && self.begins_by(files, i, wanted, key)).then_some(i)
    }

    /// Whether file `i` begins at or before `key`, whose head is `wanted`.
    #[inline]
    fn begins_by(&self, files: &Level, i: usize, wanted: u64, key: &[u8]) -> bool {
        match self.smallest[i].cmp(&wanted) {
            Ordering::Less => true,
            Ordering::Equal => user_key(&files[i].meta.smallest) <= key,
            Ordering::Greater => false,
        }
    }
}
