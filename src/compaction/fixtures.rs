//! Small trees for the tests of the pure functions.

use super::plan::Unavailable;
use super::targets::{Levels, TreeShape};
use crate::encoding::key::internal_key;
use crate::version::FileMeta;

pub const SHAPE: TreeShape = TreeShape {
    l0_trigger: 4,
    level_base_bytes: 100,
    level_multiplier: 10,
    table_bytes: 10,
    memtable_bytes: 25,
};

/// The metadata of a file whose smallest and largest keys are the single bytes `smallest` and
/// `largest`. Its number of entries is 1.
pub fn file(number: u64, smallest: u8, largest: u8, file_bytes: u64) -> FileMeta {
    FileMeta {
        number,
        file_bytes,
        entries: 1,
        smallest_sequence: 1,
        largest_sequence: 1,
        smallest: internal_key(&[smallest], 1, 1),
        largest: internal_key(&[largest], 1, 1),
        ..FileMeta::default()
    }
}

/// The files by level, in the given order.
pub fn levels(files: &[(usize, FileMeta)]) -> Levels<'_> {
    let mut levels: Levels = Default::default();
    for (level, file) in files {
        levels[*level].push(file);
    }
    levels
}

/// A state in which compactions are reading these files.
pub fn busy(numbers: &[u64]) -> Unavailable {
    Unavailable { busy: numbers.iter().copied().collect(), ..Unavailable::default() }
}
