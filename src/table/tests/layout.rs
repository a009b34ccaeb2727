//! [`Layout`]: where the blocks of a table lie, as the file itself says. The tests that damage a
//! file, and those that count what is read of it, take the places from here, so that they know
//! nothing of how an open table holds its filter and its index.

use std::cmp::Reverse;

use crate::memory::LineBuf;
use crate::table::Table;
use crate::table::format::footer::BlockHandle;
use crate::table::format::properties::IndexForm;
use crate::table::index::IndexParser;

/// A block that an index or a top lists, with its separator: no key of the block is after it.
pub struct Listed {
    pub user_key: Vec<u8>,
    pub trailer: u64,
    pub handle: BlockHandle,
}

/// See the module. A whole filter or index counts as one part, without a separator.
pub struct Layout {
    /// The index, or its top.
    pub index: BlockHandle,
    pub index_parts: Vec<Listed>,
    /// The name and the place of the filter, or of its top.
    filter: Option<(String, BlockHandle)>,
    pub filter_parts: Vec<Listed>,
    pub data: Vec<Listed>,
}

/// The blocks that the index block at `handle` lists.
fn list(table: &Table, handle: BlockHandle, form: IndexForm) -> Vec<Listed> {
    let file = table.block_file();
    let mut parser = IndexParser::new(form, file.limit());
    parser.add(&file.read_metadata_block(handle).unwrap()).unwrap();
    let index = parser.finish(LineBuf::zeroed);
    let listed = |i| {
        let (user_key, trailer) = index.separator(i);
        Listed { user_key: user_key.to_vec(), trailer, handle: index.handle(i) }
    };
    (0..index.len()).map(listed).collect()
}

fn whole(handle: BlockHandle) -> Vec<Listed> {
    vec![Listed { user_key: Vec::new(), trailer: 0, handle }]
}

/// The first of the blocks whose separator is not before the key; their number if there is none.
fn position(listed: &[Listed], user_key: &[u8], trailer: u64) -> usize {
    listed.partition_point(|it| {
        (&it.user_key[..], Reverse(it.trailer)) < (user_key, Reverse(trailer))
    })
}

impl Layout {
    pub fn of(table: &Table) -> Layout {
        let form = table.properties().index_form().unwrap();
        let top_form = IndexForm { first_keys: false, ..form };
        let is_filter = |(name, _): &&(String, BlockHandle)| {
            ["fullfilter.", "partitionedfilter."].iter().any(|start| name.starts_with(start))
        };
        let filter = table.metaindex().iter().find(is_filter).cloned();
        let in_metaindex = table.metaindex().iter().find(|(name, _)| name == "rocksdb.index");
        let index = table.footer().index.or(in_metaindex.map(|&(_, handle)| handle)).unwrap();
        let index_parts = match form.two_level {
            true => list(table, index, top_form),
            false => whole(index),
        };
        let data = index_parts.iter().flat_map(|part| list(table, part.handle, form)).collect();
        let filter_parts = match &filter {
            Some((name, top)) if name.starts_with('p') => list(table, *top, top_form),
            Some((_, handle)) => whole(*handle),
            None => Vec::new(),
        };
        Layout { index, index_parts, filter, filter_parts, data }
    }

    /// The filter, or its top.
    pub fn filter(&self) -> BlockHandle {
        self.filter.as_ref().unwrap().1
    }

    /// The name of the filter's format, without whether it is in parts.
    pub fn filter_format(&self) -> Option<&str> {
        self.filter.as_ref().map(|(name, _)| name.split_once('.').unwrap().1)
    }

    /// The number of the part that is responsible for the key, also if it does not exist.
    pub fn index_part_of(&self, user_key: &[u8], trailer: u64) -> usize {
        match self.index_parts.len() {
            1 => 0,
            _ => position(&self.index_parts, user_key, trailer),
        }
    }

    /// The number of the part that is queried for the key.
    pub fn filter_part_of(&self, user_key: &[u8]) -> usize {
        position(&self.filter_parts, user_key, u64::MAX).min(self.filter_parts.len() - 1)
    }

    /// The number of the data block that can hold the key.
    pub fn data_block_of(&self, user_key: &[u8], trailer: u64) -> usize {
        position(&self.data, user_key, trailer)
    }
}
