//! [`Found`]: the result of a lookup in a table.

use std::ops::Range;

use crate::cache::slots::Lease;
use crate::encoding::key::SequenceNumber;
use crate::slice::Slice;
use crate::table::block::Block;

/// An entry in its block.
pub(crate) struct Found<'g> {
    /// The stored kind byte, which may be one that this crate does not write.
    pub kind: u8,
    pub sequence: SequenceNumber,
    pub(super) block: Lease<'g, Block>,
    pub(super) value: Range<usize>,
}

impl Found<'_> {
    #[inline(always)]
    pub fn value(&self) -> &[u8] {
        // This is not written as an index expression, because that would compile to two calls that
        // panic, and `expect` compiles to one. With less code, the closures that read a value in a
        // lookup stay small enough to be inlined.
        self.block.bytes().get(self.value.clone()).expect("the value lies in its block")
    }

    /// The value as a slice that keeps the block alive, without a copy.
    #[inline]
    pub fn value_slice(&self) -> Slice {
        if self.value.is_empty() {
            return Slice::empty();
        }
        Slice::share(self.block.to_arc(), self.value.clone())
    }

    pub(super) fn into_owned(self) -> Found<'static> {
        Found { block: self.block.into_owned(), ..self }
    }
}
