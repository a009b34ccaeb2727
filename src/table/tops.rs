//! Tops: the lists of the parts of a filter and of an index ([`super::parts`]).
//!
//! A top is an index that leads to parts instead of data blocks. It is read when the table is
//! opened, and kept in memory until the table is closed.

use crate::error::{Error, Result};
use crate::memory::LineBuf;

use super::format::file::BlockFile;
use super::format::footer::BlockHandle;
use super::format::properties::IndexForm;
use super::index::handles::Handles;
use super::index::{Index, IndexParser};

/// The top of a filter in parts.
pub(super) struct FilterTop {
    handles: Handles,
    /// The separators of the filter's parts. `None`: filter and index are cut at the same keys, so
    /// the top of the index has these separators. Even then the index may have more parts: the
    /// surplus parts at its end belong to the last part of the filter.
    separators: Option<Index>,
}

impl FilterTop {
    /// `index`: the top of the index.
    pub fn new(top: Index, index: Option<&Index>) -> FilterTop {
        let handles: Vec<_> = (0..top.len()).map(|part| top.handle(part)).collect();
        FilterTop {
            handles: Handles::new(&handles),
            separators: match index {
                Some(index) if index.begins_as(&top) => None,
                _ => Some(top),
            },
        }
    }

    /// The separators by which the filter part of a key is found. `index`: the top of the index.
    pub fn separators<'a>(&'a self, index: Option<&'a Index>) -> Option<&'a Index> {
        self.separators.as_ref().or(index)
    }

    pub fn parts(&self) -> usize {
        self.handles.len()
    }

    pub fn handle(&self, part: usize) -> BlockHandle {
        self.handles.get(part)
    }

    /// Whether filter and index are cut at the same keys, so that the filter needs no separators of
    /// its own. Several of the last parts of the index may belong to the filter's last part.
    pub fn shares_separators(&self) -> bool {
        self.separators.is_none()
    }

    pub fn heap_bytes(&self) -> usize {
        self.handles.heap_bytes() + self.separators.as_ref().map_or(0, Index::heap_bytes)
    }
}

/// Reads the top of an index or filter. `None`: the top is damaged, or lists no parts.
pub(super) fn read_top(
    file: &BlockFile,
    handle: BlockHandle,
    form: IndexForm,
) -> Result<Option<Index>> {
    // The blocks of the index may store the first key of each data block. A top stores none.
    let mut parser = IndexParser::new(IndexForm { first_keys: false, ..form }, file.limit());
    let block = match file.read_metadata_block(handle) {
        Err(Error::Corruption { .. }) => return Ok(None),
        block => block?,
    };
    match parser.add(&block) {
        Ok(()) if !parser.handles().is_empty() => Ok(Some(parser.finish(LineBuf::zeroed))),
        _ => Ok(None),
    }
}
