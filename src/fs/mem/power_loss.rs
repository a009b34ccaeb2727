//! Makes an image after a power loss by the rules of [`super`]. A seed determines the image.

use std::sync::Arc;

use super::tree::{Directory, File, Node};
use crate::sync::{Mutex, lock};

/// The size of the blocks of a file. A block survives a power loss as a whole or not at all.
const BLOCK_BYTES: usize = 4 << 10;

/// Decides which changes a power loss leaves.
pub struct PowerLoss {
    random: u64,
    block_survival_tenths: u64,
    change_survival_tenths: u64,
}

impl PowerLoss {
    pub fn new(seed: u64) -> PowerLoss {
        let mut loss =
            PowerLoss { random: seed, block_survival_tenths: 0, change_survival_tenths: 0 };
        // Each image has its own odds of survival, in tenths. With odds of 0 or 10 it loses all or
        // nothing. With the other odds this would be rare, because each block and each change is
        // decided independently.
        let odds = [0, 2, 5, 8, 10];
        loss.block_survival_tenths = odds[loss.below(odds.len())];
        loss.change_survival_tenths = odds[loss.below(odds.len())];
        loss
    }

    /// The directory and its files as the power loss leaves them, all durable.
    pub fn directory(&mut self, directory: &Directory) -> Directory {
        let mut entries = directory.durable.clone();
        for change in &directory.pending {
            if self.happens(self.change_survival_tenths) {
                change.apply(&mut entries);
            }
        }
        for node in entries.values_mut() {
            if let Node::File(file) = node {
                let left = self.file(&lock(file));
                *node = Node::File(Arc::new(Mutex::new(left)));
            }
        }
        Directory { now: entries.clone(), durable: entries, pending: Vec::new() }
    }

    fn file(&mut self, file: &File) -> File {
        let file = file.abandoned();
        let mut len = file.bytes.len();
        if len == file.synced_bytes {
            return file;
        }
        if self.happens(5) {
            len = file.synced_bytes + self.below(len - file.synced_bytes + 1);
        }
        let mut bytes = file.bytes[..len].to_vec();
        let mut start = file.synced_bytes;
        while start < len {
            let end = ((start / BLOCK_BYTES + 1) * BLOCK_BYTES).min(len);
            if !self.happens(self.block_survival_tenths) {
                bytes[start..end].fill(0);
                if self.happens(2) {
                    let stale = self.below(start + 1);
                    bytes[start..end].copy_from_slice(&file.bytes[stale..stale + end - start]);
                }
            }
            start = end;
        }
        File { bytes: Arc::new(bytes), synced_bytes: len, zeros_behind: 0 }
    }

    fn happens(&mut self, tenths: u64) -> bool {
        (self.below(10) as u64) < tenths
    }

    /// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), reduced to `0..bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}
