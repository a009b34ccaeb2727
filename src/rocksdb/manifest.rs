//! [`Manifest`]: the column families and tables that result from the version edits of a MANIFEST.
//!
//! ```text
//! family 0, `default`, is there from the start
//! edit in an atomic group   held back until the group is whole; ignored if the file ends before
//!                           that
//! edit                      creation or drop, then tables that leave, then tables that enter
//! end                       next file number, last sequence number and a log number must be known
//! ```
//!
//! A family that this build cannot read is kept, with the reason ([`Family::refusal`]), because the
//! other families of its database can still be read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::edit::{Edit, ListedTable};
use super::log::{LogEnd, RecordLog};
use crate::encoding::key::SequenceNumber;
use crate::encoding::text::escape;
use crate::error::{Damage, Result};
use crate::fs::Fs;
use crate::table::is_bytewise;
use crate::version::edit::LEVELS;

/// A column family: its tables, and which logs it needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Family {
    pub id: u32,
    pub name: Vec<u8>,
    /// `None` if no edit names it, which means bytewise.
    pub comparator: Option<String>,
    /// All writes of the family in logs below this number are in tables.
    pub log_number: u64,
    /// By file number.
    pub tables: BTreeMap<u64, ListedTable>,
    /// Whether keys have user-defined timestamps, which RocksDB cuts off when it writes a table.
    pub cuts_timestamps: bool,
}

/// The content of a MANIFEST.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub path: PathBuf,
    pub number: u64,
    /// Length of the file when it was read.
    pub file_bytes: u64,
    /// By id.
    pub families: BTreeMap<u32, Family>,
    pub next_file: u64,
    pub last_sequence: SequenceNumber,
    least_log: u64,
    /// Logs that must exist, and the least length of each; `None` if it is not known.
    pub synced_logs: BTreeMap<u64, Option<u64>>,
}

impl Manifest {
    /// Reads the MANIFEST of this number at `path`.
    ///
    /// # Errors
    /// Damage and unsupported features, with the offset of the edit.
    pub fn read(fs: &dyn Fs, path: &Path, number: u64) -> Result<Manifest> {
        let mut log = RecordLog::open(fs, path, number)?;
        let mut builder = Builder::default();
        let mut offset = 0;
        while let Some(record) = log.next()? {
            offset = record.offset;
            let in_file = |refusal: super::Refusal| refusal.in_file(path, offset);
            let edit = Edit::decode(record.payload).map_err(in_file)?;
            builder.take(edit).map_err(|damage| damage.in_file(path, offset))?;
        }
        if let LogEnd::Damaged(damage) = log.end() {
            return Err(damage.clone().in_file(path, 0));
        }
        let missing = |what: &str| {
            let expected = format_args!("a version edit with the {what}");
            Damage::new(0, expected, "none").in_file(path, offset)
        };
        for table in builder.families.values_mut().flat_map(|family| family.tables.values_mut()) {
            // LevelDB's MANIFEST gives no sequence numbers of tables. So the table's largest one is
            // taken to be the last one of the database, which no entry exceeds.
            if !table.has_sequences {
                table.largest_sequence = builder.last_sequence.unwrap_or(0);
            }
        }
        let next_file = builder.next_file.ok_or_else(|| missing("next file number"))?;
        let last_sequence = builder.last_sequence.ok_or_else(|| missing("last sequence number"))?;
        if !builder.has_log_number {
            return Err(missing("log number"));
        }
        Ok(Manifest {
            path: path.to_owned(),
            number,
            file_bytes: log.file_bytes(),
            families: builder.families,
            next_file,
            last_sequence,
            least_log: builder.least_log,
            synced_logs: builder.synced_logs,
        })
    }

    /// The lowest number of a log that some family may need.
    pub fn first_log(&self) -> u64 {
        let least = self.families.values().map(|family| family.log_number).min().unwrap_or(0);
        least.max(self.least_log)
    }
}

/// The state that results from the edits so far.
struct Builder {
    families: BTreeMap<u32, Family>,
    next_file: Option<u64>,
    last_sequence: Option<SequenceNumber>,
    has_log_number: bool,
    least_log: u64,
    synced_logs: BTreeMap<u64, Option<u64>>,
    /// The edits of an atomic group so far.
    group: Vec<Edit>,
}

impl Default for Builder {
    fn default() -> Builder {
        let default = Family { name: b"default".into(), ..Family::default() };
        Builder {
            families: BTreeMap::from([(0, default)]),
            next_file: None,
            last_sequence: None,
            has_log_number: false,
            least_log: 0,
            synced_logs: BTreeMap::new(),
            group: Vec::new(),
        }
    }
}

impl Builder {
    /// Applies the next edit. An edit of an atomic group is held back until the group is complete.
    fn take(&mut self, edit: Edit) -> Result<(), Damage> {
        let expected = self.group.last().and_then(|last| last.group_left);
        match (expected, edit.group_left) {
            (None, None) => return self.apply(edit),
            (None, Some(_)) => {}
            (Some(before), Some(left)) if before.checked_sub(1) == Some(left) => {}
            (Some(before), found) => {
                let none = || "one of no group".into();
                let found = found.map_or_else(none, |left| format!("one before {left} others"));
                let expected = format_args!("an edit of a group of which {before} are missing");
                return Err(Damage::new(0, expected, found));
            }
        }
        let is_last = edit.group_left == Some(0);
        self.group.push(edit);
        match is_last {
            true => {
                std::mem::take(&mut self.group).into_iter().try_for_each(|edit| self.apply(edit))
            }
            false => Ok(()),
        }
    }

    fn apply(&mut self, edit: Edit) -> Result<(), Damage> {
        self.next_file = edit.next_file.or(self.next_file);
        self.last_sequence = edit.last_sequence.or(self.last_sequence);
        self.has_log_number |= edit.log_number.is_some();
        self.least_log = self.least_log.max(edit.least_log.unwrap_or(0));
        for (log, bytes) in edit.synced_logs {
            let known = self.synced_logs.entry(log).or_default();
            *known = (*known).max(bytes);
        }
        if let Some(first) = edit.deleted_logs {
            self.synced_logs.retain(|&log, _| log >= first);
        }
        let id = edit.family;
        if let Some(name) = edit.created {
            let is_taken = id != 0 && self.families.contains_key(&id);
            if is_taken || self.families.values().any(|it| it.id != id && it.name == name) {
                let name = escape(&name);
                let found = format_args!("\"{name}\", {id}, which exists already");
                return Err(Damage::new(0, "a new column family", found));
            }
            let family = self.families.entry(id).or_default();
            (family.id, family.name) = (id, name);
        }
        let Some(family) = self.families.get_mut(&id) else {
            let found = format_args!("number {id}, which does not exist");
            return Err(Damage::new(0, "an edit of a column family", found));
        };
        if edit.dropped {
            self.families.remove(&id);
            return Ok(());
        }
        family.comparator = edit.comparator.or(family.comparator.take());
        family.log_number = family.log_number.max(edit.log_number.unwrap_or(0));
        family.cuts_timestamps |= edit.cuts_timestamps;
        for (level, number) in edit.removed {
            let found = family.tables.remove(&number).map(|table| table.level);
            if found != Some(level) {
                let found = found.map_or("no such table".into(), |found| format!("level {found}"));
                let expected = format_args!("table {number} in level {level} to remove");
                return Err(Damage::new(0, expected, found));
            }
        }
        for table in edit.added {
            let number = table.number;
            if let Some(before) = family.tables.insert(number, table) {
                let found = format_args!("it in level {} already", before.level);
                return Err(Damage::new(0, format_args!("table {number} to enter once"), found));
            }
        }
        Ok(())
    }
}

impl Family {
    /// The reason why this build does not read the family; `None` if it does.
    pub fn refusal(&self) -> Option<String> {
        if self.cuts_timestamps {
            return Some("keys with user-defined timestamps".into());
        }
        if let Some(comparator) = self.comparator.as_ref().filter(|name| !is_bytewise(name)) {
            return Some(format!("the comparator {comparator}, which orders keys in its own way"));
        }
        if let Some(table) = self.tables.values().find(|table| table.path != 0) {
            return Some(format!(
                "table {} in another directory (db_paths, cf_paths)",
                table.number
            ));
        }
        if let Some(table) = self.tables.values().find(|table| table.level as usize >= LEVELS) {
            return Some(format!(
                "table {} in level {}; Maypole has levels 0 to {}",
                table.number,
                table.level,
                LEVELS - 1
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::{EditBytes, LogBytes, listed, put_file};
    use super::*;
    use crate::error::Error;
    use crate::fs::MemFs;

    fn read(edits: &[&EditBytes]) -> Result<Manifest> {
        let mut log = LogBytes::new(None);
        edits.iter().for_each(|edit| log.add(&edit.0));
        let (fs, path) = (MemFs::new(), Path::new("MANIFEST-000005"));
        put_file(&fs, path, &log.bytes);
        Manifest::read(&fs, path, 5)
    }

    fn edit(make: impl FnOnce(&mut EditBytes) -> &mut EditBytes) -> EditBytes {
        let mut edit = EditBytes::default();
        make(&mut edit);
        edit
    }

    /// The start of every MANIFEST.
    fn start() -> EditBytes {
        edit(|e| e.text(1, "leveldb.BytewiseComparator").number(2, 4).number(3, 6).number(4, 90))
    }

    fn damage(result: Result<Manifest>) -> String {
        match result {
            Err(error @ Error::Corruption { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn families_come_and_go_and_tables_move() {
        let manifest = read(&[
            &start(),
            &edit(|e| e.number(200, 1).text(201, "users").text(1, "rev:x")),
            &edit(|e| e.number(200, 2).text(201, "gone")),
            &edit(|e| e.number(200, 1).number(2, 9).table(&listed(0, 7, "a", "f"))),
            &edit(|e| e.number(200, 1).removed(0, 7).table(&listed(3, 7, "a", "f"))),
            &edit(|e| e.number(200, 2).flag(202)),
            &edit(|e| e.number(2, 8).number(4, 120).number(10, 5)),
            // The default family has log number 8, so a lower one is ignored.
            &edit(|e| e.number(2, 3)),
        ])
        .unwrap();
        let names: Vec<_> = manifest.families.values().map(|family| &family.name[..]).collect();
        assert_eq!(names, [&b"default"[..], b"users"]);
        let users = &manifest.families[&1];
        assert_eq!((users.tables[&7].level, users.log_number), (3, 9));
        assert!(users.refusal().unwrap().contains("rev:x"));
        assert_eq!(manifest.families[&0].log_number, 8);
        assert_eq!((manifest.last_sequence, manifest.first_log()), (120, 8));
    }

    #[test]
    fn a_group_counts_when_it_is_whole() {
        let first = edit(|e| e.number(300, 1).table(&listed(0, 7, "a", "b")));
        let last = edit(|e| e.number(300, 0).table(&listed(0, 8, "a", "b")));
        let tables = |edits: &[&EditBytes]| read(edits).unwrap().families[&0].tables.len();
        assert_eq!(tables(&[&start(), &first, &last]), 2);
        assert_eq!(tables(&[&start(), &first]), 0, "the end of the file cuts the group off");
        let lone = edit(|e| e.number(300, 0).table(&listed(0, 8, "a", "b")));
        assert_eq!(tables(&[&start(), &lone]), 1);
        damage(read(&[&start(), &first, &start()]));
        damage(read(&[&start(), &first, &first]));
    }

    #[test]
    fn edits_that_contradict_each_other_are_damage() {
        let add = edit(|e| e.table(&listed(1, 7, "a", "b")));
        damage(read(&[&start(), &add, &add]));
        damage(read(&[&start(), &edit(|e| e.removed(1, 7))]));
        damage(read(&[&start(), &add, &edit(|e| e.removed(2, 7))]));
        damage(read(&[&start(), &edit(|e| e.number(200, 5).number(2, 9))]));
        damage(read(&[&start(), &edit(|e| e.number(200, 5).text(201, "default"))]));
        for missing in [2, 3, 4] {
            let some = edit(|e| {
                [2, 3, 4]
                    .into_iter()
                    .filter(|&tag| tag != missing)
                    .fold(e, |e, tag| e.number(tag, 9))
            });
            damage(read(&[&some]));
        }
        assert!(damage(read(&[])).contains("next file number"));
    }

    #[test]
    fn a_changed_byte_of_a_manifest_is_damage_and_a_cut_one_is_its_end() {
        let mut log = LogBytes::new(None);
        log.add(&start().0);
        let whole = log.bytes.len();
        log.add(&edit(|e| e.table(&listed(1, 7, "a", "b"))).0);
        let (fs, path) = (MemFs::new(), Path::new("MANIFEST-000005"));
        for cut in whole..log.bytes.len() {
            put_file(&fs, path, &log.bytes[..cut]);
            assert!(Manifest::read(&fs, path, 5).unwrap().families[&0].tables.is_empty());
        }
        for at in whole..log.bytes.len() {
            let mut changed = log.bytes.clone();
            changed[at] ^= 1;
            put_file(&fs, path, &changed);
            // A changed bit may enlarge the record's length beyond the end of the file. Then the
            // record looks as if the file was cut off.
            match Manifest::read(&fs, path, 5) {
                Ok(manifest) => assert!(
                    (4..6).contains(&(at - whole)) && manifest.families[&0].tables.is_empty()
                ),
                Err(error) => assert!(matches!(error, Error::Corruption { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn a_family_that_lookups_would_answer_wrongly_is_refused_by_name() {
        let with = |tables: &[ListedTable]| {
            let tables = tables.iter().map(|table| (table.number, table.clone())).collect();
            Family { tables, ..Family::default() }.refusal()
        };
        let reason = |tables: &[ListedTable]| with(tables).unwrap();
        assert_eq!(with(&[listed(6, 1, "a", "f")]), None);
        assert!(reason(&[listed(7, 1, "a", "f")]).contains("level 7"));
        assert!(reason(&[ListedTable { path: 1, ..listed(1, 1, "a", "f") }]).contains("cf_paths"));
        let comparator =
            |name: &str| Family { comparator: Some(name.into()), ..Family::default() }.refusal();
        assert_eq!(comparator("leveldb.BytewiseComparator"), None);
        assert_eq!(comparator("RocksDB_SE_v3.10"), None);
        for other in ["rev:RocksDB_SE_v3.10", "leveldb.BytewiseComparator.u64ts"] {
            assert!(comparator(other).unwrap().contains(other));
        }
        assert!(Family { cuts_timestamps: true, ..Family::default() }.refusal().is_some());
    }
}
