//! Export: writes a RocksDB database from a database of Maypole's.
//!
//! ```text
//!   flush ─► new directory ─► each table: a link, a copy, or written again with another filter
//!                          ─► MANIFEST, OPTIONS, IDENTITY ─► CURRENT
//! ```
//!
//! Each keyspace becomes a column family with its number and its name. All are of one moment
//! ([`Inner::cut`]).
//!
//! The tables are RocksDB's already, so they stay as they are, with their levels, sequence numbers
//! and bounds. RocksDB treats four things differently from Maypole:
//!
//! - *An ingested table* has one sequence number for all its entries. RocksDB takes it from the
//!   largest sequence number that the MANIFEST lists for the table.
//! - *Level 0* is sorted by largest sequence number, as in Maypole, but RocksDB refuses to open a
//!   database unless the smallest numbers descend too ([`descend`]).
//! - *Filters* are used only if OPTIONS names a filter policy.
//! - *Filters of Maypole's own families* have names that RocksDB ignores, so it reads such a table
//!   without a filter.

#[cfg(test)]
mod tests;

use std::path::Path;

use crate::db::background::jobs::work_in_this_thread;
use crate::db::inner::Inner;
use crate::db::inner::cut::Cut;
use crate::db::inner::database::Database;
use crate::db::inner::trees::DEFAULT_NAME;
use crate::db::maintenance::checkpoint::{SharedTables, make_database};
use crate::db::options::lasting;
use crate::encoding::text::escape;
use crate::error::{Error, Result};
use crate::filter::{Family, FilterEncoding, FilterSpec};
use crate::filter_policy::FilterPolicy;
use crate::fs;
use crate::rocksdb::{ListedTable, NewDatabase, NewFamily};
use crate::table::format::identity::{TableIdentity, new_db_identity};
use crate::table::{
    BYTEWISE_COMPARATOR, Table, TableOptions, property_names as property, user_comparator,
};
use crate::version::{KeyspaceRecord, TableFile, TableStore, Version, names};

/// The epoch number of tables below level 0 (see [`number_epochs`]).
const DEEPER_EPOCH: u64 = 1;

/// What [`Db::export_rocksdb`](crate::Db::export_rocksdb) made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// Tables that are hard links to files of the exported database, so they take no space of their
    /// own.
    pub linked: usize,
    /// Tables that were copied.
    pub copied: usize,
    /// Tables that were written again with another filter.
    pub refiltered: usize,
    /// The tables that keep their filters although another one was requested, and why, in words.
    pub not_refiltered: Vec<String>,
    /// Bytes of all tables.
    pub file_bytes: u64,
    /// Why the first of the copied tables was not linked.
    pub not_linked: Option<String>,
    /// Tables with a filter that RocksDB does not know. It reads them without one.
    pub unknown_filters: usize,
    /// The filter policy of the column family `default` in OPTIONS, in RocksDB's words:
    /// `bloomfilter:10:false`. `None`: none of its tables has a filter.
    pub filter_policy: Option<String>,
    /// The names of the other column families, and the filter policy of each.
    pub other_families: Vec<(Vec<u8>, Option<String>)>,
}

/// See [`Db::export_rocksdb`](crate::Db::export_rocksdb).
pub(in crate::db) fn export_rocksdb(
    inner: &Inner,
    dir: &Path,
    filter: Option<&FilterPolicy>,
) -> Result<ExportReport> {
    inner.database.status.check_writable()?;
    // As for a checkpoint, closing waits for this call.
    let _working = work_in_this_thread(inner)?;
    if let Some(family) = filter.and_then(FilterPolicy::family_unknown_to_rocksdb) {
        let known = Family::written().filter(|it| it.encoding() == FilterEncoding::RocksDb);
        let known: Vec<&str> = known.map(Family::name).collect();
        return Err(Error::InvalidArgument(format!(
            "RocksDB does not know filters of the family {family}; give {}",
            known.join(" or ")
        )));
    }
    let fs = &inner.database.store.fs;
    let dir = lasting(&**fs, dir)?;
    let fill = || fill_rocksdb(inner, &dir, filter);
    make_database(&**fs, &inner.database.store.dir, &dir, || inner.flush_all(), fill)
}

/// Makes the files of the RocksDB database in `dir`.
fn fill_rocksdb(inner: &Inner, dir: &Path, filter: Option<&FilterPolicy>) -> Result<ExportReport> {
    let database = &*inner.database;
    let Cut { trees, keyspaces: (records, next), last_sequence: flushed_sequence } = inner.cut()?;
    let (mut shared, mut report) = (SharedTables::default(), ExportReport::default());
    let nothing = Version::default();
    let named = |record: KeyspaceRecord| (record.id, record.name);
    let mut families = Vec::new();
    for (id, name) in
        std::iter::once((0, DEFAULT_NAME.to_vec())).chain(records.into_iter().map(named))
    {
        let tree = trees.iter().find(|(tree, _)| tree.id == id);
        let mut export = Export {
            database,
            version: tree.map_or(&nothing, |(_, state)| &state.sources.version),
            tables: tree
                .map_or_else(TableOptions::default, |(tree, _)| tree.options().tables.clone()),
            dir,
            filter,
            shared: &mut shared,
            report: &mut report,
            prevailing: None,
        };
        families.push(export.family(id, name)?);
    }
    let tables = families.iter().flat_map(|family| &family.tables);
    let largest = tables.map(|table| table.largest_sequence).max();
    let mut policies = families.iter().map(|it| (it.name.clone(), it.filter_policy.clone()));
    let filter_policy = policies.next().and_then(|(_, policy)| policy);
    let other_families = policies.collect();
    let new = NewDatabase {
        identity: new_db_identity(),
        last_sequence: largest.unwrap_or(0).max(flushed_sequence),
        largest_family: next.map_or(0, |next| next - 1),
        families,
    };
    new.write(&*database.store.fs, dir)?;
    let SharedTables { linked, copied, file_bytes, not_linked } = shared;
    let of_all = ExportReport { linked, copied, file_bytes, not_linked, ..report };
    Ok(ExportReport { filter_policy, other_families, ..of_all })
}

/// The export of a keyspace, whose tables are added one after the other.
struct Export<'a> {
    database: &'a Database,
    version: &'a Version,
    /// How tables of the keyspace are written.
    tables: TableOptions,
    dir: &'a Path,
    filter: Option<&'a FilterPolicy>,
    /// What was made of all keyspaces so far.
    shared: &'a mut SharedTables,
    report: &'a mut ExportReport,
    /// The filter that OPTIONS will name: the filter of the table with the most entries, among the
    /// tables whose filters RocksDB knows. If there is no such table, all tables that have a filter
    /// are compared. The pair before the filter is the weight by which `saw` compares tables:
    /// whether RocksDB knows the filter, and the number of entries.
    prevailing: Option<((bool, u64), FilterSpec)>,
}

impl Export<'_> {
    /// Makes the files of all tables, and returns what RocksDB's MANIFEST and OPTIONS say of them.
    fn family(&mut self, id: u32, name: Vec<u8>) -> Result<NewFamily> {
        let version = self.version;
        let stated = version
            .files()
            .map(|(_, file)| (file.path(), file.table.properties().text(property::COMPARATOR)));
        let comparator = one_comparator(stated)?;
        let mut tables: Vec<_> = version.files().map(|(level, file)| listed(level, file)).collect();
        if !descend(&mut tables) {
            let what = format!(
                "an export while level 0 of keyspace \"{}\" has more tables of one write than RocksDB \
                 can tell apart; compact the keyspace first",
                escape(&name)
            );
            return Err(Error::Unsupported { file: self.database.store.dir.clone(), what });
        }
        for ((level, file), table) in version.files().zip(&mut tables) {
            self.database.status.check_open()?;
            (table.file_bytes, table.identity) = self.add(level, file)?;
        }
        number_epochs(&mut tables);
        let filter_policy = self.prevailing.and_then(|(_, spec)| spec.rocksdb_policy());
        Ok(NewFamily { id, name, comparator, tables, filter_policy })
    }

    /// Makes the file of a table. Returns its bytes and its identity.
    fn add(&mut self, level: usize, file: &TableFile) -> Result<(u64, Option<TableIdentity>)> {
        let Database { store, status, .. } = self.database;
        let target = names::table_path(self.dir, file.meta.number);
        if let Some(policy) = self.filter {
            let store: &TableStore = &store.with_options(self.tables.clone());
            let spec = policy.filters_of_all(self.version).spec_at(level, file);
            let (number, goes_on) = (store.new_number()?, || status.check_open());
            match store.refilter_to(&target, number, file, spec, goes_on) {
                Ok(meta) => {
                    self.report.refiltered += 1;
                    self.shared.file_bytes += meta.file_bytes;
                    self.saw((true, file.meta.entries), spec);
                    return Ok((meta.file_bytes, meta.identity));
                }
                // The table has something that only RocksDB writes. So its filter is one that RocksDB
                // knows, and the table is exported with it. If the started file stays, the link
                // fails, and a copy replaces the file.
                Err(error @ Error::Unsupported { .. }) => {
                    self.report.not_refiltered.push(error.to_string());
                    fs::tidy_away(&*store.fs, &target);
                }
                Err(error) => return Err(error),
            }
        }
        self.shared.add(&*store.fs, file, &target)?;
        if let Some(encoding) = file.table.filter_encoding() {
            let is_known = encoding == FilterEncoding::RocksDb;
            self.report.unknown_filters += usize::from(!is_known);
            if let Some(spec) = spec_of(&file.table) {
                self.saw((is_known, file.meta.entries), spec);
            }
        }
        Ok((file.meta.file_bytes, file.table.properties().identity()))
    }

    fn saw(&mut self, weight: (bool, u64), spec: FilterSpec) {
        if self.prevailing.is_none_or(|(most, _)| weight > most) {
            self.prevailing = Some((weight, spec));
        }
    }
}

/// The filter that a table was written with. If the table does not state it, this is a filter with
/// as many bits per key, of the same family, or a Bloom filter if the family is not known.
fn spec_of(table: &Table) -> Option<FilterSpec> {
    let stated = table.properties().text(property::FILTER_SPEC).and_then(|text| text.parse().ok());
    stated.or_else(|| {
        let info = table.filter_info()?;
        let of_family = |family| FilterSpec::stored(info.bits_per_key(), family).ok();
        info.family.and_then(of_family).or_else(|| FilterSpec::bloom(info.bits_per_key()).ok())
    })
}

/// The name of the comparator that all tables state. A table that states none has bytewise order.
fn one_comparator<'a>(stated: impl Iterator<Item = (&'a Path, Option<&'a str>)>) -> Result<String> {
    let mut found = None;
    for (path, name) in stated {
        let name = name.map_or(BYTEWISE_COMPARATOR, user_comparator);
        let first = *found.get_or_insert(name);
        if name != first {
            return Err(Error::Unsupported {
                file: path.to_owned(),
                what: format!(
                    "an export of tables with the comparators {first} and {name}, while RocksDB gives a \
                     column family one"
                ),
            });
        }
    }
    Ok(found.unwrap_or(BYTEWISE_COMPARATOR).to_owned())
}

/// What RocksDB's MANIFEST says of a table that is exported as it is.
fn listed(level: usize, file: &TableFile) -> ListedTable {
    let meta = &file.meta;
    ListedTable {
        level: level as u32,
        number: meta.number,
        file_bytes: meta.file_bytes,
        smallest: meta.smallest.clone(),
        largest: meta.largest.clone(),
        smallest_sequence: meta.smallest_sequence,
        largest_sequence: meta.largest_sequence,
        has_sequences: true,
        // RocksDB compares the identity in the MANIFEST with the one in the table's properties, so
        // both must be the same.
        identity: file.table.properties().identity(),
        ..ListedTable::default()
    }
}

/// Makes the smallest sequence numbers of level 0 descend like the largest ones, because RocksDB
/// otherwise refuses to open the database. Returns whether that was possible.
///
/// RocksDB sorts the files by (largest, smallest), newest first. The smallest number of each file
/// must be below the smallest number of the file before it. For a file whose two numbers are equal,
/// it is enough that they are below the largest number of the file before it.
///
/// In Maypole's trees the smallest numbers need not descend: the sequence numbers of the tables of
/// one flush interleave, and those of one ingestion are the same. Such tables share no key. RocksDB
/// uses the smallest sequence number for this check only, so another number in its place does no
/// harm. A smallest number that does not descend is replaced by:
///
/// - the table's own largest number, if it is below the largest number of the file before it. The
///   table then looks like an ingested table.
/// - one less than the smallest number of the file before it, if both have the same largest number.
fn descend(tables: &mut [ListedTable]) -> bool {
    let mut newer: Option<(u64, u64)> = None;
    for table in level_0_newest_first(tables) {
        let (smallest, largest) = (table.smallest_sequence, table.largest_sequence);
        if let Some((newer_smallest, newer_largest)) = newer {
            let descends = match smallest == largest {
                true => largest < newer_largest || largest == 0,
                false => smallest < newer_smallest,
            };
            table.smallest_sequence = match (descends, largest < newer_largest) {
                (true, _) => smallest,
                (false, true) => largest,
                (false, false) if newer_smallest > 0 => newer_smallest - 1,
                (false, false) => return false,
            };
        }
        newer = Some((table.smallest_sequence, largest));
    }
    true
}

/// Gives the tables of level 0 the epoch numbers by which RocksDB 7.10 and later order that level:
/// the newest table gets the largest. The tables of deeper levels all get the number that RocksDB
/// gives them, because RocksDB ignores epoch numbers unless every table has one.
///
/// Sequence numbers alone do not order all tables of level 0: a merge of some of them may make a
/// table with both smaller and larger sequence numbers than another table, if no input of the merge
/// shared a key with that table.
fn number_epochs(tables: &mut [ListedTable]) {
    tables.iter_mut().for_each(|table| table.epoch = DEEPER_EPOCH);
    for (epoch, table) in (DEEPER_EPOCH + 1..).zip(level_0_newest_first(tables).into_iter().rev()) {
        table.epoch = epoch;
    }
}

/// The tables of level 0, in the order in which RocksDB searches them.
fn level_0_newest_first(tables: &mut [ListedTable]) -> Vec<&mut ListedTable> {
    let mut level_0: Vec<_> = tables.iter_mut().filter(|table| table.level == 0).collect();
    level_0.sort_by_key(|it| std::cmp::Reverse((it.largest_sequence, it.smallest_sequence)));
    level_0
}
