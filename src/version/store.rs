//! [`TableStore`] creates and opens tables. It knows the directory, the next file number and all
//! that the tables of a database have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::edit::{END_OF_FILE_NUMBERS, MAX_FILE_NUMBER};
use super::table_file::{ObsoleteFiles, check_described};
use super::{FileMeta, KeyspaceId, TableContents, TableFile, names};
use crate::cache::PinMetadata;
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::filter::FilterSpec;
use crate::fs::{DescriptorPool, Fs};
use crate::range_tombstones::RangeTombstone;
use crate::stats::Ticker;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::time::system_time;
use crate::table::format::identity::{Creator, table_identity};
use crate::table::garbage::Garbage;
use crate::table::{
    Dialect, MetadataForm, Refilter, Table, TableBuilder, TableContext, TableOptions, TableSummary,
    property_names as property,
};

#[derive(Clone)]
pub(crate) struct TableStore {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
    /// Open tables take their descriptors from this pool.
    pub descriptors: Arc<DescriptorPool>,
    /// Set if the database is opened read-only. Then each table keeps a descriptor of its own and
    /// takes none from the pool. The pool may close a file and open it again by its name, but
    /// another process may have deleted the file by then.
    pub keeps_tables_open: bool,
    /// What all open tables share, such as the cache.
    pub context: TableContext,
    /// Which tables' filters and indexes are pinned.
    pub pin_metadata: PinMetadata,
    /// How tables are written, by default those of the first tree. The filter of these options is
    /// not used: [`TableStore::create`] gets the filter of each table.
    pub options: TableOptions,
    /// The identities of the database and of its session, which new tables record.
    pub creator: Creator,
    pub next_file: Arc<AtomicU64>,
    /// Removes obsolete files.
    pub obsolete: Arc<ObsoleteFiles>,
}

impl TableStore {
    /// The same store, which writes tables by other options.
    pub fn with_options(&self, options: TableOptions) -> TableStore {
        TableStore { options, ..self.clone() }
    }

    /// The same store, which writes tables of this keyspace.
    pub fn in_keyspace(mut self, id: KeyspaceId, name: &[u8]) -> TableStore {
        self.creator.keyspace = (id != 0).then(|| (id, name.to_vec()));
        self
    }

    /// A file number that no file has had yet.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the numbers are used up (see [`MAX_FILE_NUMBER`]).
    pub fn new_number(&self) -> Result<u64> {
        self.new_number_below(END_OF_FILE_NUMBERS)
    }

    /// The number of the MANIFEST that an import or a repair writes. Fails if too few numbers are
    /// left for the files of the new database.
    pub fn number_of_first_manifest(&self) -> Result<u64> {
        self.new_number_below(MAX_FILE_NUMBER - (1 << 32))
    }

    fn new_number_below(&self, end: u64) -> Result<u64> {
        let next = |number| (number < end).then_some(number + 1);
        self.next_file.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).map_err(|number| {
            Error::InvalidArgument(format!(
                "{}: the file numbers are used up: the next is {number}, and the limit is {end}",
                self.dir.display()
            ))
        })
    }

    /// Removes an obsolete file of the database. A failure is counted and is no error
    /// ([`ObsoleteFiles::remove`]).
    pub fn remove_obsolete(&self, path: &Path) {
        self.obsolete.remove(&*self.fs, path);
    }

    /// Opens the table that `meta` describes, which is or will be in `level`. Fills in the fields
    /// that `meta` lacks.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is not the one that `meta` describes.
    pub fn open(&self, meta: FileMeta, level: usize) -> Result<Arc<TableFile>> {
        let context = self.context_for(meta.global_sequence, level, meta.tail_bytes);
        let path = names::table_path(&self.dir, meta.number);
        let table = self.open_in_bounds(&path, &meta, context)?;
        self.described(meta, table, path)
    }

    /// Like [`TableStore::open`], for a table at `path` that a MANIFEST of RocksDB or LevelDB
    /// describes. Such a MANIFEST does not record whether the table was ingested, but a property of
    /// the table does.
    pub fn open_listed(
        &self,
        mut meta: FileMeta,
        level: usize,
        path: PathBuf,
    ) -> Result<Arc<TableFile>> {
        let sequence_if_ingested = Some(meta.largest_sequence);
        let context = self.context_for(None, level, 0);
        let context = TableContext { sequence_if_ingested, takes_leveldbs: true, ..context };
        let table = self.open_in_bounds(&path, &meta, context)?;
        meta.entries = table.properties().entries();
        meta.deletions = table.properties().number(property::DELETIONS).unwrap_or(0);
        meta.global_sequence = table.global_sequence();
        // The smallest sequence number is taken from the table, because a MANIFEST that Maypole has
        // exported may list another one. RocksDB rejects a level 0 in which the smallest sequence
        // numbers of the files are not in the same order as the largest ones. In Maypole's trees
        // they need not be, so the export changes some of the smallest ones.
        let stated = || table.properties().number(property::SMALLEST_SEQUENCE);
        let smallest = meta.global_sequence.or_else(stated);
        meta.smallest_sequence = smallest.unwrap_or(meta.smallest_sequence);
        self.described(meta, table, path)
    }

    fn open_in_bounds(
        &self,
        path: &Path,
        meta: &FileMeta,
        context: TableContext,
    ) -> Result<Arc<Table>> {
        let key_bounds = Some([meta.smallest.clone(), meta.largest.clone()]);
        self.open_in(path, TableContext { key_bounds, ..context })
    }

    fn described(
        &self,
        mut meta: FileMeta,
        table: Arc<Table>,
        path: PathBuf,
    ) -> Result<Arc<TableFile>> {
        check_described(&path, &meta, &table)?;
        meta.identity = meta.identity.or_else(|| table.properties().identity());
        meta.tail_bytes = table.tail_bytes();
        meta.contents = contents_of(&table);
        let obsolete = Arc::clone(&self.obsolete);
        Ok(Arc::new(TableFile::new(meta, table, Arc::clone(&self.fs), path, obsolete)))
    }

    /// Opens the table at `path`. `global_sequence` is the sequence number of all its entries, if
    /// the table was ingested. `tail_bytes` is how many bytes at the file's end are read to open
    /// it; 0 if that is not known.
    pub fn open_table(
        &self,
        path: &Path,
        global_sequence: Option<SequenceNumber>,
        level: usize,
        tail_bytes: u64,
    ) -> Result<Arc<Table>> {
        self.open_in(path, self.context_for(global_sequence, level, tail_bytes))
    }

    fn context_for(
        &self,
        global_sequence: Option<SequenceNumber>,
        level: usize,
        tail_bytes: u64,
    ) -> TableContext {
        let pin_metadata = match self.pin_metadata {
            PinMetadata::None => false,
            PinMetadata::Level0 => level == 0,
            PinMetadata::All => true,
        };
        TableContext { global_sequence, pin_metadata, tail_bytes, ..self.context.clone() }
    }

    fn open_in(&self, path: &Path, context: TableContext) -> Result<Arc<Table>> {
        let file = match self.keeps_tables_open {
            true => self.fs.open(path)?,
            false => self.fs.open_pooled(path, &self.descriptors)?,
        };
        Table::open(file, context)
    }

    /// Counts the keys, the time and the failures of building a new table's filter.
    pub fn count_filter(&self, summary: &TableSummary) {
        let counters = &self.context.counters;
        counters.add(Ticker::FilterBuildFailed, summary.failed_filter_builds);
        if let Some(filter) = &summary.filter {
            counters.add(Ticker::FilterBuildKeys, filter.keys);
            counters.add(Ticker::FilterBuildNanos, summary.filter_build_time.as_nanos() as u64);
        }
    }

    /// The form, whole or in parts, of the filter and index of a table that is created now.
    pub fn metadata_form(&self) -> MetadataForm {
        match self.options.metadata {
            MetadataForm::Auto if self.context.cache.policy().whole_metadata_fills() => {
                MetadataForm::Parts
            }
            MetadataForm::Auto => MetadataForm::Whole,
            form => form,
        }
    }

    /// Starts a new table, for `level`.
    pub fn create<'a>(
        &'a self,
        filter: &'a dyn ChooseFilter,
        level: usize,
    ) -> Result<NewTable<'a>> {
        self.create_in_form(self.metadata_form(), filter, level)
    }

    /// Like [`TableStore::create`], with the form of filter and index given by the caller. So all
    /// tables of one compaction can have the same form. `create` could choose different ones,
    /// because the cache counts the filters and indexes of both inputs and outputs while a
    /// compaction runs.
    pub fn create_in_form<'a>(
        &'a self,
        metadata: MetadataForm,
        filter: &'a dyn ChooseFilter,
        level: usize,
    ) -> Result<NewTable<'a>> {
        let number = self.new_number()?;
        let path = names::table_path(&self.dir, number);
        let file = self.fs.create(&path)?;
        let options = TableOptions { metadata, ..self.options.clone() };
        let dialect = Dialect::Database { file_number: number };
        let builder = TableBuilder::new(file, options, dialect)?.created_by(&self.creator);
        let builder = Some(builder);
        Ok(NewTable { store: self, filter, level, number, path, builder })
    }
}

impl TableStore {
    /// Writes `file` again, as a new table of its level with another filter. Syncs the new file and
    /// opens it; its name is not durable yet. All that its record says of the entries stays the
    /// same: the bounds, which also bound the range deletions, and the largest sequence number, which
    /// is the place in level 0 ([`super::order`]).
    pub fn refilter(
        &self,
        file: &TableFile,
        level: usize,
        filter: FilterSpec,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<Arc<TableFile>> {
        let number = self.new_number()?;
        let path = names::table_path(&self.dir, number);
        let written = self.refilter_to(&path, number, file, filter, goes_on);
        let new = written.and_then(|meta| self.open(meta, level));
        match &new {
            Ok(new) => new.asked.set(file.asked.get()),
            Err(_) => self.remove_obsolete(&path),
        }
        new
    }

    /// Writes `file` again, to `path`, with another filter, and syncs it. `goes_on` may end the call
    /// by an error at any time. Returns the record of the new table, whose `number` no other table of
    /// this session may have, because it is a part of the table's identity.
    pub fn refilter_to(
        &self,
        path: &Path,
        number: u64,
        file: &TableFile,
        filter: FilterSpec,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<FileMeta> {
        let filter_keys = self.options.filter_keys;
        let to = Refilter { filter, filter_keys, creator: &self.creator, number };
        let summary = file.table.refilter(|| self.fs.create(path), &to, goes_on)?;
        self.count_filter(&summary);
        Ok(FileMeta {
            number,
            file_bytes: summary.file_bytes,
            tail_bytes: summary.tail_bytes,
            identity: table_identity(&self.creator.db, &self.creator.session, number),
            ..file.meta.clone()
        })
    }
}

/// The system's clock, in seconds since 1970.
pub(crate) fn seconds_since_1970() -> u64 {
    system_time().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn contents_of(table: &Table) -> TableContents {
    let properties = table.properties();
    let number = |name| properties.number(name).unwrap_or(0);
    let mut garbage =
        properties.raw(property::GARBAGE).and_then(Garbage::decode).unwrap_or_default();
    // Deletions of unknown age get the age of their table. If that is unknown too, they count as
    // new.
    if number(property::DELETIONS) > 0 && garbage.oldest_deletion == 0 {
        let created = number(property::CREATION_TIME);
        garbage.oldest_deletion = if created > 0 { created } else { seconds_since_1970() };
    }
    TableContents {
        garbage,
        ranges: table.ranges().cloned(),
        raw_key_bytes: number(property::RAW_KEY_BYTES),
        raw_value_bytes: number(property::RAW_VALUE_BYTES),
    }
}

/// Chooses the filter of a table whose keys are known.
pub(crate) trait ChooseFilter: Sync {
    fn choose(&self, keys: &NewKeys<'_>) -> Chosen;
}

/// The keys of a table that is about to be finished.
pub(crate) struct NewKeys<'a> {
    /// The bounds of the user keys; empty if there are only range deletions.
    pub smallest: &'a [u8],
    pub largest: &'a [u8],
    pub entries: u64,
}

pub(crate) struct Chosen {
    pub spec: FilterSpec,
    /// How often the table is expected to be asked in vain ([`TableFile::asked`]).
    pub asked: f64,
}

/// The same filter for every table.
impl ChooseFilter for FilterSpec {
    fn choose(&self, _keys: &NewKeys<'_>) -> Chosen {
        Chosen { spec: *self, asked: 0.0 }
    }
}

/// A table being written. If it is dropped unfinished, its file is deleted.
pub(crate) struct NewTable<'a> {
    store: &'a TableStore,
    filter: &'a dyn ChooseFilter,
    level: usize,
    number: u64,
    path: PathBuf,
    builder: Option<TableBuilder>,
}

impl<'a> NewTable<'a> {
    /// The table in `slot`, which is created if there is none.
    pub fn in_slot<'s>(
        slot: &'s mut Option<NewTable<'a>>,
        create: impl FnOnce() -> Result<NewTable<'a>>,
    ) -> Result<&'s mut NewTable<'a>> {
        match slot {
            Some(table) => Ok(table),
            None => Ok(slot.insert(create()?)),
        }
    }

    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        self.builder.as_mut().expect("the table is not finished").add(internal_key, value)
    }

    pub fn add_range(&mut self, range: RangeTombstone<'_>) -> Result<()> {
        self.builder.as_mut().expect("the table is not finished").add_range(range)
    }

    /// See [`TableBuilder::raise_largest_sequence`]. The place of the table in level 0 is then that
    /// of the tables from which it is made ([`super::order`]).
    pub fn raise_largest_sequence(&mut self, sequence: SequenceNumber) {
        let builder = self.builder.as_mut().expect("the table is not finished");
        builder.raise_largest_sequence(sequence);
    }

    /// See [`TableBuilder::describe_deletions`].
    pub fn describe_deletions(&mut self, oldest_deletion: u64, range_hides_bytes: u64) {
        let builder = self.builder.as_mut().expect("the table is not finished");
        builder.describe_deletions(oldest_deletion, range_hides_bytes);
    }

    /// Bytes of the file so far, and bytes of the data block that is being filled, which is not
    /// compressed yet.
    pub fn written_and_filling_bytes(&self) -> (u64, u64) {
        let builder = self.builder.as_ref().expect("the table is not finished");
        let written = builder.written_bytes();
        (written, builder.estimated_file_bytes() - written)
    }

    /// Syncs the file and opens it. Its name is not durable yet: the caller syncs the directory
    /// once for all tables of a job.
    pub fn finish(mut self) -> Result<Arc<TableFile>> {
        let mut builder = self.builder.take().expect("the table is not finished");
        let (smallest, largest) = builder.point_keys().unwrap_or_default();
        let keys = NewKeys { smallest, largest, entries: builder.entries() };
        let Chosen { spec, asked } = self.filter.choose(&keys);
        builder.set_filter(spec);
        let finished = builder.finish().and_then(|summary| {
            self.store.count_filter(&summary);
            let meta = FileMeta {
                number: self.number,
                file_bytes: summary.file_bytes,
                tail_bytes: summary.tail_bytes,
                entries: summary.entries,
                deletions: summary.deletions,
                smallest_sequence: summary.smallest_sequence,
                largest_sequence: summary.largest_sequence,
                global_sequence: None,
                smallest: summary.smallest,
                largest: summary.largest,
                ..FileMeta::default()
            };
            self.store.open(meta, self.level)
        });
        match &finished {
            Ok(file) => file.asked.set(asked),
            Err(_) => self.store.remove_obsolete(&self.path),
        }
        finished
    }
}

impl Drop for NewTable<'_> {
    fn drop(&mut self) {
        if self.builder.is_some() && self.store.obsolete.is_of_this_process() {
            self.store.remove_obsolete(&self.path);
        }
    }
}
