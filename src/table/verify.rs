//! [`Table::verify`]: reads all of a table and checks what can be checked.

use std::path::Path;

use crate::encoding::key;
use crate::encoding::key::{EntryKind, SequenceNumber};
use crate::error::{Damage, Error, Result};
use crate::memory::LineBuf;

use super::block::Block;
use super::block::cursor::BlockCursor;
use super::cursor::read_ahead::WholeScan;
use super::filter::source::TableFilter;
use super::format::properties::names;
use super::index::Index;
use super::open::{PROPERTIES_BLOCK, find_block};
use super::table::Table;
use crate::encoding::key::LookupKey;

/// What [`SstReader::verify`](crate::table::SstReader::verify) returns for a table without damage.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// let check = maypole::table::SstReader::open(&path)?.verify()?;
/// assert_eq!((check.entries, check.filter_misses), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableCheck {
    /// Entries read, range deletions not counted.
    pub entries: u64,
    /// Range deletions read.
    pub range_deletions: u64,
    /// Data blocks read.
    pub data_blocks: u64,
    /// Entries whose key or prefix is absent according to the filter. If this is not 0, the filter
    /// loses keys.
    pub filter_misses: u64,
    /// Entries of a kind that this build does not understand, such as merge operands and references
    /// to blob files. A database returns an error when it reads the key of such an entry.
    pub unknown_entries: u64,
}

/// What [`Table::survey`] found: a [`TableCheck`] and further results.
#[derive(Default)]
pub(crate) struct Survey {
    pub check: TableCheck,
    /// The smallest and the largest sequence number of all entries and range deletions, as readers
    /// see them: in an ingested table both are the number that it was given. `None`: the table is
    /// empty.
    pub sequences: Option<(SequenceNumber, SequenceNumber)>,
    /// The first entry whose kind is not understood: its user key and its kind.
    pub unknown: Option<(Vec<u8>, u8)>,
}

impl Survey {
    fn see(&mut self, sequence: SequenceNumber) {
        let (smallest, largest) = self.sequences.unwrap_or((sequence, sequence));
        self.sequences = Some((smallest.min(sequence), largest.max(sequence)));
    }

    /// A description of the entries of the table at `path` that are not understood, if there are
    /// any.
    pub fn not_understood(&self, path: &Path) -> Option<String> {
        let (user_key, kind) = self.unknown.as_ref()?;
        Some(format!(
            "{}: {}, which this build does not understand; entries of such kinds in the file: {}",
            path.display(),
            key::entry_in_words(user_key, *kind),
            self.check.unknown_entries
        ))
    }
}

/// The error of an entry whose kind this build does not understand.
#[cold]
pub(crate) fn unsupported_entry(file: &Path, user_key: &[u8], kind: u8) -> Error {
    Error::Unsupported {
        file: file.to_owned(),
        what: format!("{}; only RocksDB reads it", key::entry_in_words(user_key, kind)),
    }
}

impl Table {
    /// Does what [`SstReader::verify`](crate::table::SstReader::verify) promises, without the
    /// cache.
    pub fn verify(&self) -> Result<TableCheck> {
        Ok(self.survey()?.check)
    }

    /// Like [`Table::verify`], with further results.
    pub fn survey(&self) -> Result<Survey> {
        let index = self.read_index(LineBuf::zeroed)?;
        let filter = match self.filter.stored() {
            Some(_) => self.read_filter_parts()?,
            None => None,
        };
        for &(_, handle) in self.metaindex() {
            // Opening has checked the properties. They are not checked here, because their checksum
            // may be wrong without damage (`open::read_properties`).
            if find_block(self.metaindex(), PROPERTIES_BLOCK) != Some(handle) {
                self.read_checked(handle)?;
            }
        }
        let mut survey = Survey::default();
        let mut last_key = Vec::new();
        let mut blocks = WholeScan::new(self.block_file(), &index);
        for i in 0..index.len() {
            let handle = index.handle(i);
            let block = self.block_file().decode(blocks.read_stored(i)?)?;
            self.verify_block(&block, &index, i, filter.as_deref(), &mut last_key, &mut survey)
                .map_err(|damage| self.block_file().damaged(damage, handle))?;
            survey.check.data_blocks += 1;
        }
        let ranges = self.ranges().into_iter().flat_map(|ranges| ranges.iter());
        ranges.for_each(|range| survey.see(range.sequence));
        let check = &mut survey.check;
        // Opening has read and checked the range deletions. It has dropped those with an empty
        // range, but the number in the properties includes them.
        let kept = self.ranges().map_or(0, |ranges| ranges.len() as u64);
        check.range_deletions = kept;
        let range_deletions = self.properties().number(names::RANGE_DELETIONS).unwrap_or(kept);
        let stated = self.properties().number(names::ENTRIES);
        if let Some(stated) = stated.filter(|&n| n != check.entries + range_deletions) {
            let found = format_args!("{} and {range_deletions}", check.entries).to_string();
            let expected = format_args!("{stated} entries, range deletions included").to_string();
            return Err(self
                .block_file()
                .damaged(Damage::new(0, expected, found), self.footer().metaindex));
        }
        Ok(survey)
    }

    fn verify_block(
        &self,
        block: &Block,
        index: &Index,
        i: usize,
        filter: Option<&[TableFilter]>,
        last_key: &mut Vec<u8>,
        survey: &mut Survey,
    ) -> Result<(), Damage> {
        self.check_has_entries(block)?;
        block.check_restarts()?;
        let mut cursor = BlockCursor::new(block, self.global_sequence());
        cursor.seek_to_first()?;
        while cursor.valid() {
            let internal_key = cursor.key();
            let user_key = key::user_key(internal_key);
            let printed = || format!("\"{}\"", user_key.escape_ascii());
            if survey.check.entries > 0 && key::compare(last_key, internal_key).is_ge() {
                return Err(Damage::new(0, "keys in ascending order", printed()));
            }
            // The stored trailer is compared, because separators were made from stored keys, whose
            // trailers lack the global sequence number.
            if index.find(user_key, cursor.stored_trailer()) != i {
                return Err(Damage::new(0, "a key between its block's separators", printed()));
            }
            if let Some(filter) = filter {
                let lookup = LookupKey::new(user_key, key::sequence(internal_key));
                let filter = &filter[self.filter.locate(&lookup)];
                survey.check.filter_misses += u64::from(!self.filter_admits(filter, &lookup));
            }
            let kind = key::kind_byte(internal_key);
            if EntryKind::of_point(kind).is_none() {
                survey.check.unknown_entries += 1;
                survey.unknown.get_or_insert_with(|| (user_key.to_vec(), kind));
            }
            survey.see(key::sequence(internal_key));
            survey.check.entries += 1;
            last_key.clear();
            last_key.extend_from_slice(internal_key);
            cursor.next()?;
        }
        Ok(())
    }
}
