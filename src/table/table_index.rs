//! [`TableIndex`]: an index, or a part of it, as the cache holds it.

use std::ops::Range;

use crate::cache::slots::{Cached, Slots};
use crate::table::block::Block;
use crate::table::index::Index;

/// A parsed index, or one part of it, and the slots of the data blocks it leads to.
pub(crate) struct TableIndex {
    pub index: Index,
    pub blocks: Slots<Block>,
    /// Which part it is; 0 if it is whole. Pieces of a whole one count from 1 on.
    pub part: usize,
    /// The numbers of all parts of its kind.
    pub parts: Range<usize>,
}

impl Cached for TableIndex {}
