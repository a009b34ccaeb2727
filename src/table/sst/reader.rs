//! [`SstReader`]: reads one table file, of this crate or of RocksDB.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::cache::BlockCache;
use crate::cursor::Cursor;
use crate::encoding::hash::hash64;
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber};
use crate::error::{Error, Result};
use crate::filter::{FilterReader, HashKind, KeyHash};
use crate::fs::{Fs, RealFs};
use crate::known_files;
use crate::stats::Counters;
use crate::sync::Process;

use crate::encoding::key::LookupKey;
use crate::table::cursor::TableCursor;
use crate::table::cursor::read_ahead::ScanOptions;
use crate::table::filter::info;
use crate::table::filter::info::FilterInfo;
use crate::table::filter::source::{StoredFilter, TableFilter};
use crate::table::format::footer::{BlockHandle, Footer};
use crate::table::format::properties::{TableProperties, names};
use crate::table::table::{Table, TableContext};
use crate::table::verify::TableCheck;

/// Reads one table file, written by Maypole or by RocksDB with format_version 2 to 7.
///
/// Range deletions are listed but not applied: [`SstReader::entries`] returns also the entries that
/// they delete.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// use maypole::table::SstReader;
///
/// let table = SstReader::open(&path)?;
/// let mut entries = table.entries();
/// while let Some(entry) = entries.next_entry()? {
///     println!("{entry}");
/// }
/// assert!(table.may_contain(b"apple")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SstReader {
    table: Arc<Table>,
    process: Process,
}

/// The capacity of a reader's block cache.
const READER_CACHE_BYTES: usize = 8 << 20;

impl SstReader {
    /// Opens a file. Reads all metadata except the filter and the index: the footer, metaindex,
    /// properties, compression dictionary and range deletions, and the lists of the parts if filter
    /// or index is in parts.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the file cannot be read, [`Error::Corruption`] when what is read is
    /// damaged, [`Error::Unsupported`] when the table needs a feature that this build does not
    /// have.
    pub fn open(path: impl AsRef<Path>) -> Result<SstReader> {
        SstReader::open_in(&RealFs, path)
    }

    /// Like [`SstReader::open`], in another file system.
    ///
    /// # Errors
    ///
    /// Those of [`SstReader::open`].
    pub fn open_in(fs: &dyn Fs, path: impl AsRef<Path>) -> Result<SstReader> {
        let context = TableContext {
            cache: BlockCache::new(READER_CACHE_BYTES),
            counters: Arc::new(Counters::new()),
            pin_metadata: false,
            reads_every_filter: false,
            global_sequence: None,
            sequence_if_ingested: None,
            tail_bytes: 0,
            key_bounds: None,
            takes_leveldbs: false,
        };
        let path = path.as_ref();
        let opened = fs.open(path).and_then(|file| Table::open(file, context));
        let table = opened.map_err(|error| match error {
            // If the path is the directory of another program's database, the error says so.
            Error::Io { .. } => {
                known_files::refuse_foreign_database(fs, path).err().unwrap_or(error)
            }
            error => known_files::or_foreign_file(fs, path, error),
        })?;
        Ok(SstReader { table, process: Process::current() })
    }

    /// A reader of a table that is open already.
    pub(crate) fn of_open(table: Arc<Table>) -> SstReader {
        SstReader { table, process: Process::current() }
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.table.block_file().file().len()
    }

    /// The decoded footer.
    pub fn footer(&self) -> &Footer {
        self.table.footer()
    }

    /// Names and handles of the metadata blocks.
    pub fn metaindex(&self) -> &[(String, BlockHandle)] {
        self.table.metaindex()
    }

    /// What the table says about itself.
    pub fn properties(&self) -> &TableProperties {
        self.table.properties()
    }

    /// All point entries in order, as they are stored.
    pub fn entries(&self) -> SstEntries {
        let options = ScanOptions::for_runs(1, false, (None, None));
        let cursor = TableCursor::new(Arc::clone(&self.table), options);
        SstEntries { cursor, started: false, process: self.process }
    }

    /// Calls `see` with the user key of every entry of some data blocks, so that the caller gets a
    /// sample of a large table. `choose` gets the number of data blocks and returns the numbers of
    /// the blocks to read. Blocks are numbered from 0 on in the order of their keys.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is damaged. Before this error `see` may have been called
    /// with keys of the damaged block.
    ///
    /// # Panics
    ///
    /// When `choose` returns the number of a block that does not exist.
    pub fn each_key_of_blocks(
        &self,
        choose: impl FnOnce(usize) -> Vec<usize>,
        see: impl FnMut(&[u8]),
    ) -> Result<()> {
        self.process.check()?;
        self.table.each_key_of_blocks(choose, see)
    }

    /// The stored filter: one reader for a whole filter, one for each part of a filter in parts,
    /// and none if there is no filter or if this build does not know its form.
    /// [`SstReader::filter_is_unasked`] tells whether lookups query the filter.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or a block of the filter is damaged.
    pub fn filters(&self) -> Result<Vec<FilterReader>> {
        self.process.check()?;
        let filters = self.table.read_filter_parts()?;
        Ok(filters.into_iter().flatten().map(TableFilter::into_reader).collect())
    }

    /// A description of the filter. Reads the filter's bytes and predicts the false-positive rate
    /// from them, whatever the file states. `None` if the table has no filter of a known form.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or a block of the filter is damaged.
    pub fn filter(&self) -> Result<Option<FilterInfo>> {
        if StoredFilter::find(self.table.metaindex()).is_none() {
            return Ok(None);
        }
        let filters = self.filters()?;
        let keys = info::keys(self.properties());
        let bytes: u64 = filters.iter().map(|filter| filter.bytes().len() as u64).sum();
        let fprs = filters.iter().map(|filter| {
            let share = info::share_of_keys(filter, bytes);
            info::predicted_fpr(filter, keys, share) * share
        });
        Ok(Some(FilterInfo {
            family: filters.first().and_then(FilterReader::family),
            bytes,
            keys,
            predicted_fpr: Some(fprs.sum()),
        }))
    }

    /// The reason why lookups do not query the table's filter although its family is known: it
    /// holds only prefixes, and the rule that cut them is unknown. `None` if lookups query the
    /// filter, or if there is none.
    pub fn filter_is_unasked(&self) -> Option<String> {
        StoredFilter::find(self.table.metaindex())?;
        if self.table.filter.stored().is_some() {
            return None;
        }
        Some(match self.properties().text(names::PREFIX_EXTRACTOR) {
            Some(extractor) => format!(
                "it holds prefixes only, of an extractor that is not known here: {}",
                extractor.escape_debug()
            ),
            None => "it holds prefixes only, and no extractor is named".into(),
        })
    }

    /// Whether the filter answers "maybe" for a key. The filter is queried for the key, for the
    /// key's prefix or for both, whichever it holds. Without a filter the result is `true`.
    ///
    /// # Errors
    ///
    /// When the filter cannot be read. A damaged filter is no error: it answers "maybe" for every
    /// key.
    pub fn may_contain(&self, user_key: &[u8]) -> Result<bool> {
        self.process.check()?;
        if self.table.filter.stored().is_none() {
            return Ok(true);
        }
        let lookup = LookupKey::new(user_key, MAX_SEQUENCE);
        self.table.own_filter_admits(&lookup)
    }

    /// Calls `see` with the 64-bit hash of every key, and of every prefix, that the filter holds,
    /// in the order of the keys. If successive keys have equal hashes, `see` is called once for
    /// them; the same holds for prefixes. Does not call `see` if there is no filter, or if the
    /// filter is a legacy Bloom filter, which holds 32-bit hashes.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is damaged.
    pub fn each_filter_hash(&self, mut see: impl FnMut(KeyHash)) -> Result<()> {
        let is_fed_hash64 = |filters: Vec<FilterReader>| {
            filters.first().is_some_and(|filter| filter.hash_kind() == HashKind::Hash64)
        };
        if !is_fed_hash64(self.filters()?) {
            return Ok(());
        }
        let extractor = self.table.filter.extractor();
        let whole = self.properties().whole_key_filtering();
        let (mut last_key, mut last_prefix) = (None, None);
        let mut see_new = |hash: KeyHash, last: &mut Option<KeyHash>| {
            if last.replace(hash) != Some(hash) {
                see(hash);
            }
        };
        let mut entries = self.entries();
        while let Some(entry) = entries.next_entry()? {
            if whole {
                see_new(hash64(entry.user_key), &mut last_key);
            }
            if let Some(prefix) = extractor.and_then(|e| e.prefix_of(entry.user_key)) {
                see_new(hash64(prefix), &mut last_prefix);
            }
        }
        Ok(())
    }

    /// The open table, unless this is a forked child.
    pub(crate) fn checked_table(&self) -> Result<&Table> {
        self.process.check()?;
        Ok(&self.table)
    }

    /// Whether the filter answers "maybe" for the keys from `lower` up to, but without, `upper`
    /// (`None`: no end). The result is always `true` unless the filter holds prefixes and all keys
    /// of that range share one prefix.
    pub fn range_may_match(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        !self.process.is_current() || self.table.range_may_match(lower, upper)
    }

    /// Reads the whole file. Checks every checksum, the number of the entries, that the keys
    /// ascend, and that each key is between the separators of its block. If lookups can query the
    /// filter, also queries it for every key, and counts the keys that it misses
    /// ([`TableCheck::filter_misses`]). The parts of a filter that lookups cannot query are neither
    /// read nor checked.
    ///
    /// # Errors
    ///
    /// The first damage that is found, or the error because of which the file could not be read.
    pub fn verify(&self) -> Result<TableCheck> {
        self.process.check()?;
        self.table.verify()
    }

    /// The ranges that the table deletes, in the order of their first keys. Of ranges with the same
    /// first key, the newest comes first.
    pub fn range_deletions(&self) -> Vec<RangeDeletion> {
        let ranges = self.table.ranges().into_iter().flat_map(|ranges| ranges.iter());
        let mut ranges: Vec<_> = ranges
            .map(|range| RangeDeletion {
                start: range.start.to_vec(),
                end: range.end.to_vec(),
                sequence: range.sequence,
            })
            .collect();
        ranges.sort_by(|a, b| a.start.cmp(&b.start).then(b.sequence.cmp(&a.sequence)));
        ranges
    }
}

/// A tombstone for the keys from `start` up to, but without, `end`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.delete_range(b"a", b"b")?;
/// # writer.finish()?;
/// let ranges = maypole::table::SstReader::open(&path)?.range_deletions();
/// assert_eq!((&ranges[0].start[..], &ranges[0].end[..]), (&b"a"[..], &b"b"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeDeletion {
    /// The first key deleted.
    pub start: Vec<u8>,
    /// The first key not deleted.
    pub end: Vec<u8>,
    /// The position of the deletion in the order of all writes. Entries written later are not
    /// deleted.
    pub sequence: SequenceNumber,
}

/// The entries of a table, in order. Each entry is borrowed until the next call.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// let mut entries = maypole::table::SstReader::open(&path)?.entries();
/// assert_eq!(entries.next_entry()?.unwrap().user_key, b"apple");
/// assert!(entries.next_entry()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SstEntries {
    cursor: TableCursor,
    started: bool,
    process: Process,
}

impl SstEntries {
    /// The next entry; `None` at the end.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is damaged. The entries after the damage are not returned.
    pub fn next_entry(&mut self) -> Result<Option<SstEntry<'_>>> {
        self.process.check()?;
        if self.started {
            if self.cursor.valid() {
                self.cursor.next()?;
            }
        } else {
            self.cursor.seek_to_first()?;
            self.started = true;
        }
        if !self.cursor.valid() {
            return Ok(None);
        }
        let internal_key = self.cursor.key();
        Ok(Some(SstEntry {
            user_key: key::user_key(internal_key),
            sequence: key::sequence(internal_key),
            kind: key::kind_byte(internal_key),
            value: self.cursor.value(),
        }))
    }
}

/// One stored entry. Prints as RocksDB's `sst_dump --command=scan --output_hex` does:
/// `'6B6579' seq:7, type:1 => 76616C7565`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// let mut entries = maypole::table::SstReader::open(&path)?.entries();
/// let entry = entries.next_entry()?.unwrap();
/// assert_eq!(entry.to_string(), "'6170706C65' seq:0, type:1 => 726564");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstEntry<'a> {
    /// The key that was written.
    pub user_key: &'a [u8],
    /// The entry's sequence number: its position in the order of all writes.
    pub sequence: SequenceNumber,
    /// RocksDB's type byte: 0 deletion, 1 value, 2 merge operand, 7 single deletion, …
    pub kind: u8,
    /// The value, as it is stored.
    pub value: &'a [u8],
}

impl fmt::Display for SstEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'")?;
        self.user_key.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
        write!(f, "' seq:{}, type:{} => ", self.sequence, self.kind)?;
        self.value.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

impl fmt::Debug for SstReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.table.block_file().path();
        f.debug_struct("SstReader").field("path", &path).finish_non_exhaustive()
    }
}
