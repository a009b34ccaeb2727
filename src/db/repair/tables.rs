//! The tables: which are whole, which can be read in part, and which have the name of another
//! table.
//!
//! The entries of an ingested table store no sequence numbers of their own. All of them have one
//! *global sequence number*, which the MANIFEST states. If no MANIFEST that can be read states it,
//! and the table's properties do not either, it is guessed.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::keyspaces::Statement;
use super::manifests::Parts;
use super::report::Loss;
use super::work::{FileLocation, Placed, Repair, is_table_damage};
use crate::compaction::run::{self, Job};
use crate::compaction::{LAST_LEVEL, Plan, PlanKind, Planner, Unavailable};
use crate::db::maintenance::ingest::smallest_and_largest;
use crate::encoding::key;
use crate::encoding::key::{SequenceNumber, user_key};
use crate::error::{Damage, Result};
use crate::fs::{self, Fs};
use crate::known_files;
use crate::range_tombstones::RangeTombstone;
use crate::sync::atomic::AtomicBool;
use crate::table::{Hole, Salvage, Survey, Table, property_names as property, readable_properties};
use crate::version::names::FileKind;
use crate::version::{FileMeta, KeyspaceId, Recovered, TableFile, Version, names};

/// The keys that a loss may concern.
type Keys = (Bound<Vec<u8>>, Bound<Vec<u8>>);

const ALL_KEYS: Keys = (Bound::Unbounded, Bound::Unbounded);

/// A whole table that no whole MANIFEST describes.
struct Whole {
    number: u64,
    table: Arc<Table>,
    survey: Survey,
    /// What a part of a MANIFEST says of it.
    listed: Option<KeyspaceId>,
    global_sequence: Option<SequenceNumber>,
}

/// A damaged table, and what is known of it.
struct Suspect<'a> {
    number: u64,
    /// The keyspace, if a MANIFEST states it.
    listed: Option<KeyspaceId>,
    level: usize,
    /// The global sequence number, if the table was ingested and a MANIFEST states it.
    global_sequence: Option<SequenceNumber>,
    /// What a whole MANIFEST says of it.
    meta: Option<&'a FileMeta>,
}

impl Repair<'_> {
    /// Adds the tables that a whole MANIFEST lists to the new trees, each in its keyspace and level.
    pub(super) fn listed_tables(&mut self, recovered: &Recovered) -> Result<()> {
        for (&number, (level, meta)) in &recovered.files {
            let (level, global_sequence, keyspace) = (*level, meta.global_sequence, meta.keyspace);
            let why = match self.open_listed(number, meta, level) {
                Ok((file, survey)) => {
                    self.see(&survey, number);
                    let location = FileLocation::InPlace;
                    self.tree.push(Placed { keyspace, level, file, location });
                    continue;
                }
                Err(error) if is_table_damage(&error) => error,
                Err(error) => return Err(error),
            };
            self.report.problems.push(why.to_string());
            match self.find_elsewhere(number, meta, level)? {
                Some((from, file)) => {
                    let found = format!("table {number} is there as {}", from.display());
                    self.report.problems.push(found);
                    let location = FileLocation::NamedAs(from);
                    self.tree.push(Placed { keyspace, level, file, location });
                }
                None => {
                    let (listed, meta) = (Some(keyspace), Some(meta));
                    self.salvage(Suspect { number, listed, level, global_sequence, meta })?;
                }
            }
        }
        Ok(())
    }

    /// Opens the file with this number. It must be the one that `meta` describes, and whole.
    fn open_listed(
        &self,
        number: u64,
        meta: &FileMeta,
        level: usize,
    ) -> Result<(Arc<TableFile>, Survey)> {
        let file = self.whole.open(FileMeta { number, ..meta.clone() }, level)?;
        let survey = check_whole(&file.table)?;
        check_sequences(&file.table, meta, &survey)?;
        Ok((file, survey))
    }

    /// Looks for the table that `meta` describes in the files that have the names of other tables.
    /// Returns the path of that file, and the table with a new number.
    fn find_elsewhere(
        &mut self,
        number: u64,
        meta: &FileMeta,
        level: usize,
    ) -> Result<Option<(PathBuf, Arc<TableFile>)>> {
        for other in self.tables.clone().into_iter().filter(|&other| other != number) {
            let path = names::table_path(&self.dir, other);
            if self.fs.open(&path)?.len() != meta.file_bytes {
                continue;
            }
            if let Ok((file, survey)) = self.open_listed(other, meta, level) {
                self.see(&survey, other);
                let meta = FileMeta { number: self.store.new_number()?, ..file.meta.clone() };
                return Ok(Some((path, self.table_file(meta, Arc::clone(&file.table)))));
            }
        }
        Ok(None)
    }

    /// Reports those entries of table `number` that this build does not understand.
    fn see(&mut self, survey: &Survey, number: u64) {
        let path = names::table_path(&self.dir, number);
        self.report.not_understood.extend(survey.not_understood(&path));
        self.may_hold_unknown |= survey.unknown.is_some();
    }

    /// Takes all tables but the obsolete ones. Their levels are not known, so they will be merged.
    pub(super) fn all_tables(&mut self, parts: &Parts) -> Result<()> {
        let mut whole = Vec::new();
        let mut suspects = Vec::new();
        // The tables from which `guess` estimates lost global sequence numbers, each with its file
        // number and largest sequence number. They are the tables whose entries store sequence
        // numbers, and the damaged tables that a MANIFEST describes.
        let mut newest: Vec<(u64, SequenceNumber)> = Vec::new();
        let numbers: Vec<u64> =
            self.tables.iter().copied().filter(|it| !parts.removed.contains(it)).collect();
        for &number in &numbers {
            let path = names::table_path(&self.dir, number);
            let opened = self.whole.open_table(&path, None, LAST_LEVEL, 0).and_then(|table| {
                let survey = check_whole(&table)?;
                Ok((table, survey))
            });
            match opened {
                Ok((table, survey)) => {
                    self.may_hold_unknown |= survey.unknown.is_some();
                    // The sequence numbers come from the entries, because the properties of many
                    // tables do not hold them.
                    let own = survey.sequences.filter(|_| !table.needs_global_sequence());
                    newest.extend(own.map(|(_, largest)| (number, largest)));
                    let meta = parts.of(number, table.properties().identity());
                    let listed = meta.map(|meta| meta.keyspace);
                    let global_sequence = meta.and_then(|meta| meta.global_sequence);
                    whole.push(Whole { number, table, survey, listed, global_sequence });
                }
                Err(error) if is_table_damage(&error) => {
                    self.report.problems.push(error.to_string());
                    let meta = parts.of(number, None);
                    newest.extend(meta.map(|meta| (number, meta.largest_sequence)));
                    let listed = meta.map(|meta| meta.keyspace);
                    let global_sequence = meta.and_then(|meta| meta.global_sequence);
                    suspects.push(Suspect {
                        number,
                        listed,
                        level: 0,
                        global_sequence,
                        meta: None,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        newest.sort_unstable();
        self.newest = newest;
        self.add_stated_keyspaces(&whole, &suspects)?;
        for table in whole {
            let stated = table.table.properties().column_family();
            if let Some(keyspace) = self.keyspace_of(table.number, table.listed, stated) {
                self.add_whole(keyspace, table)?;
            }
        }
        for suspect in suspects {
            self.salvage(suspect)?;
        }
        for (number, meta) in &parts.entered {
            if !parts.removed.contains(number) && !numbers.contains(number) {
                let what = "a table that is missing, unless a part of the MANIFEST that cannot be read \
                            removed it";
                self.lose(*number, Some(meta.keyspace), (0, 0), keys_of(meta), what);
            }
        }
        Ok(())
    }

    /// Adds the keyspaces that tables state, those of damaged tables included.
    fn add_stated_keyspaces(&mut self, whole: &[Whole], suspects: &[Suspect]) -> Result<()> {
        let mut statements = Vec::new();
        let mut add = |listed, stated: Option<_>| {
            statements.extend(stated.map(|stated| Statement { listed, stated }));
        };
        whole.iter().for_each(|it| add(it.listed, it.table.properties().column_family()));
        for it in suspects {
            let path = names::table_path(&self.dir, it.number);
            let open = |file| Salvage::open(file, it.global_sequence);
            match self.fs.open(&path).and_then(open) {
                Ok(salvage) => add(it.listed, salvage.column_family),
                Err(error) if is_table_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.keyspaces.add_stated(statements);
        Ok(())
    }

    /// The keyspace of a table. `None`, with a line in the report, if it was dropped.
    fn keyspace_of(
        &mut self,
        number: u64,
        listed: Option<KeyspaceId>,
        stated: Option<(u64, Vec<u8>)>,
    ) -> Option<KeyspaceId> {
        let keyspace = self.keyspaces.of_table(listed, stated);
        if keyspace.is_none() {
            let path = names::table_path(&self.dir, number);
            let what = format!("{}: a table of a keyspace that was dropped", path.display());
            self.report.problems.push(what);
        }
        keyspace
    }

    fn add_whole(&mut self, keyspace: KeyspaceId, table: Whole) -> Result<()> {
        let Whole { number, mut table, survey, listed, mut global_sequence } = table;
        let path = names::table_path(&self.dir, number);
        let guessed = table.needs_global_sequence() && global_sequence.is_none();
        if table.needs_global_sequence() {
            let sequence = global_sequence.unwrap_or_else(|| self.guess(number));
            global_sequence = Some(sequence);
            table = self.whole.open_table(&path, global_sequence, LAST_LEVEL, 0)?;
        }
        let Some((smallest, largest)) = smallest_and_largest(&table)? else { return Ok(()) };
        let properties = table.properties();
        let (mut smallest_sequence, mut largest_sequence) = survey.sequences.unwrap_or_default();
        if let Some(sequence) = global_sequence {
            (smallest_sequence, largest_sequence) = (sequence, sequence);
        }
        let meta = FileMeta {
            number,
            file_bytes: table.block_file().file().len(),
            entries: properties.entries(),
            deletions: properties.number(property::DELETIONS).unwrap_or(0),
            smallest_sequence,
            largest_sequence,
            global_sequence,
            smallest,
            largest,
            identity: properties.identity(),
            ..FileMeta::default()
        };
        if guessed {
            self.lose(number, Some(keyspace), (0, 0), keys_of(&meta), GUESSED);
        }
        let is_stated = table.properties().column_family().is_some()
            || table.properties().number(property::COLUMN_FAMILY_ID) == Some(0);
        let is_ingested = global_sequence.is_some();
        if is_ingested && !is_stated && listed.is_none() && self.keyspaces.had_others() {
            self.lose(number, None, (0, 0), keys_of(&meta), UNKNOWN_KEYSPACE);
        }
        let (level, file) = (0, self.table_file(meta, table));
        self.tree.push(Placed { keyspace, level, file, location: FileLocation::InPlace });
        Ok(())
    }

    /// Guesses the lost global sequence number of an ingested table. Tables with lower file numbers
    /// hold only older writes, so the guess is one more than their largest sequence number.
    fn guess(&self, number: u64) -> SequenceNumber {
        let before = self.newest.iter().take_while(|&&(other, _)| other < number);
        before.map(|&(_, newest)| newest).max().unwrap_or(0) + 1
    }

    /// Writes the readable part of a table to a new one. Reports what is lost.
    fn salvage(&mut self, suspect: Suspect) -> Result<()> {
        let Suspect { number, listed, level, mut global_sequence, meta } = suspect;
        let path = names::table_path(&self.dir, number);
        let keys = meta.map_or(ALL_KEYS, keys_of);
        let file = match self.fs.open(&path) {
            Ok(file) => file,
            Err(error) if is_table_damage(&error) => {
                self.lose(number, listed, (0, 0), keys, "a table that is missing");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let file_bytes = file.len();
        let opened = Salvage::open(Arc::clone(&file), global_sequence).and_then(|salvage| {
            if !salvage.needs_global_sequence {
                return Ok((salvage, false));
            }
            global_sequence = Some(self.guess(number));
            Ok((Salvage::open(Arc::clone(&file), global_sequence)?, true))
        });
        let (salvage, guessed) = match opened {
            Ok(opened) => opened,
            Err(error) if is_table_damage(&error) => {
                self.report.problems.push(error.to_string());
                let what = "a table from which nothing can be read";
                self.lose(number, listed, (0, file_bytes), keys, what);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if salvage.lost_properties && listed.is_none() && self.keyspaces.had_others() {
            let what = "a table whose keyspace is not known";
            self.lose(number, None, (0, file_bytes), keys, what);
            return Ok(());
        }
        let stated = salvage.column_family.clone();
        let is_known = listed.is_some() || stated.is_some() || !self.keyspaces.had_others();
        let Some(keyspace) = self.keyspace_of(number, listed, stated) else { return Ok(()) };
        let of = Some(keyspace);
        if meta.is_some_and(|meta| self.is_another(&salvage, meta, &path)) {
            self.lose(number, of, (0, 0), keys, "a table that another one has replaced");
            return Ok(());
        }
        if guessed {
            self.lose(number, of, (0, 0), keys.clone(), GUESSED);
            if !is_known {
                self.lose(number, None, (0, 0), keys.clone(), UNKNOWN_KEYSPACE);
            }
        }
        if salvage.lost_properties && meta.is_none() && global_sequence.is_none() {
            let what = "the properties of a table: if it was ingested, its place among the writes";
            self.lose(number, of, (0, 0), keys.clone(), what);
        }
        if salvage.lost_ranges {
            let what = "the range deletions of a table, if it had any";
            self.lose(number, of, (0, 0), keys.clone(), what);
        }
        let (file, holes) = self.write_salvaged(&salvage, keyspace, level, meta)?;
        let kept = file.as_ref().map_or(0, |file| file.meta.entries);
        self.report.problems.push(format!("{}: {kept} entries were salvaged", path.display()));
        for Hole { offset, bytes, after, before, why } in holes {
            let why = why.to_string();
            // The problem of the first hole may be in the report already, because it was the error
            // of the opening.
            if !self.report.problems.contains(&why) {
                self.report.problems.push(why);
            }
            // The lost range includes the key that follows the hole, because the hole may have held
            // newer versions of this key. The range excludes the key that precedes the hole,
            // because the hole can only have held older versions of that key.
            let from = after.map_or(keys.0.clone(), Bound::Excluded);
            let to = before.map_or(keys.1.clone(), Bound::Included);
            self.lose(number, of, (offset, bytes), (from, to), "a part of a table");
        }
        if let Some(file) = file {
            self.add_new(keyspace, level, file);
        }
        Ok(())
    }

    /// Whether the file is another table, and not a damaged form of the one that `meta` describes.
    fn is_another(&self, salvage: &Salvage, meta: &FileMeta, path: &Path) -> bool {
        if let (Some(listed), Some(found)) = (meta.identity, salvage.identity()) {
            return listed != found;
        }
        // The caller has found that the file does not match `meta`. A whole file that does not
        // match is another table.
        let alone = self.whole.open_table(path, meta.global_sequence, LAST_LEVEL, 0);
        alone.is_ok_and(|table| check_whole(&table).is_ok())
    }

    fn write_salvaged(
        &self,
        salvage: &Salvage,
        keyspace: KeyspaceId,
        level: usize,
        meta: Option<&FileMeta>,
    ) -> Result<(Option<Arc<TableFile>>, Vec<Hole>)> {
        let filter = self.filter_of(keyspace, level, meta.map_or(0, |meta| meta.entries));
        let store = self.store_of(keyspace);
        let mut table = store.create(&filter, level)?;
        if let Some(meta) = meta {
            // The table keeps its place in level 0, although its newest entry may be lost.
            table.raise_largest_sequence(meta.largest_sequence);
        }
        let mut is_empty = true;
        let holes = salvage.entries(|key, value| {
            is_empty = false;
            table.add(key, value)
        })?;
        // Range deletions count only within the table's bounds, as in an open table.
        let ranges = match meta {
            Some(meta) => {
                let end = key::user_key_behind(&meta.largest);
                salvage.ranges().cloned().and_then(|it| it.within(user_key(&meta.smallest), &end))
            }
            None => salvage.ranges().cloned(),
        };
        let ranges = ranges.iter().flat_map(|ranges| ranges.iter());
        let mut ranges: Vec<RangeTombstone<'_>> = ranges.collect();
        ranges.sort_unstable_by(|a, b| a.start.cmp(b.start).then(b.sequence.cmp(&a.sequence)));
        is_empty &= ranges.is_empty();
        ranges.into_iter().try_for_each(|range| table.add_range(range))?;
        Ok((if is_empty { None } else { Some(table.finish()?) }, holes))
    }

    /// Merges all tables of a keyspace into new ones of the last level. This is correct whatever the
    /// levels were, because each entry has its sequence number.
    pub(super) fn merge_all(&mut self, keyspace: KeyspaceId) -> Result<()> {
        // The last sequence number is raised before the merge, because the merge may drop a
        // tombstone that has the largest number of the tree.
        self.include_tree();
        let all = std::mem::take(&mut self.tree);
        let (inputs, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| it.keyspace == keyspace);
        self.tree = others;
        let version = Version::of(inputs.iter().map(|it| (0, Arc::clone(&it.file))));
        let (metas, free) = (version.metas(), Unavailable::default());
        let shape = self.keyspaces.options(keyspace).shape.clone();
        let planner = Planner::new(&metas, &shape, &free);
        let Some(plan) = planner.plan_files(&metas[0], 0, LAST_LEVEL) else { return Ok(()) };
        let plan = Plan { kind: PlanKind::Merge, ..plan };
        let entries = metas[0].iter().map(|meta| meta.entries).sum();
        let job = Job {
            store: &self.store_of(keyspace),
            version: &version,
            shape: &shape,
            snapshots: Vec::new(),
            filter: &self.filter_of(keyspace, LAST_LEVEL, entries),
            cancelled: &AtomicBool::new(false),
            parts: self.options.compaction_threads,
        };
        let merged = run::run(&job, &plan);
        // Tables that were written only to be merged are obsolete.
        let written = inputs.iter().filter(|it| matches!(it.location, FileLocation::New));
        written.for_each(|it| it.file.discard());
        for file in merged?.outputs {
            // The merge kept the entries that are not understood. They are found by reading,
            // because no property counts them.
            if self.may_hold_unknown {
                let survey = file.table.survey()?;
                self.see(&survey, file.meta.number);
            }
            self.add_new(keyspace, LAST_LEVEL, file);
        }
        Ok(())
    }

    /// Reports the loss of bytes, given as (offset, bytes), of a table of this keyspace.
    fn lose(
        &mut self,
        number: u64,
        keyspace: Option<KeyspaceId>,
        (offset, bytes): (u64, u64),
        (from, to): Keys,
        what: &str,
    ) {
        let file = names::table_path(&self.dir, number);
        let keyspace = keyspace.or_else(|| (!self.keyspaces.had_others()).then_some(0));
        let keyspace = keyspace.map(|id| self.keyspaces.name(id));
        let what = what.into();
        self.report.losses.push(Loss { file, offset, bytes, keyspace, from, to, what });
    }
}

const GUESSED: &str = "the sequence number of an ingested table: treated as newer than the tables \
                       with lower numbers";

const UNKNOWN_KEYSPACE: &str = "the keyspace of an ingested table: treated as \"default\"";

/// The keys that a table holds.
fn keys_of(meta: &FileMeta) -> Keys {
    let [smallest, largest] = [&meta.smallest, &meta.largest].map(|key| user_key(key).to_vec());
    (Bound::Included(smallest), Bound::Included(largest))
}

/// Examines the tables of a directory without any MANIFEST. Rejects tables of other programs, and
/// tables that need a feature that this build lacks.
pub(super) fn refuse_other_engines(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let names = fs::names_in(fs, dir)?;
    let kinds: Vec<FileKind> = names.iter().filter_map(|name| names::parse(name)).collect();
    if kinds.iter().any(|kind| matches!(kind, FileKind::Manifest(_))) {
        return Ok(());
    }
    for kind in kinds {
        let FileKind::Table(number) = kind else { continue };
        let path = names::table_path(dir, number);
        if let Some(known) = known_files::of_file(fs, &path) {
            return Err(known.refused(&path));
        }
        if let Ok(file) = fs.open(&path) {
            readable_properties(&file)?;
        }
    }
    Ok(())
}

/// Checks that the sequence numbers of a table's entries are within the range that the MANIFEST
/// lists, whatever the properties of the table say.
pub(super) fn check_sequences(table: &Table, meta: &FileMeta, survey: &Survey) -> Result<()> {
    let listed = (meta.smallest_sequence, meta.largest_sequence);
    match survey.sequences {
        Some((smallest, largest)) if smallest < listed.0 || largest > listed.1 => {
            let expected = format_args!("sequence numbers from {} to {}", listed.0, listed.1);
            let damage = Damage::new(0, expected, format_args!("{smallest} to {largest}"));
            Err(damage.in_file(table.block_file().path(), 0))
        }
        _ => Ok(()),
    }
}

/// Checks every byte of a table, and that its filter denies none of its keys.
pub(super) fn check_whole(table: &Table) -> Result<Survey> {
    let survey = table.survey()?;
    match survey.check.filter_misses {
        0 => Ok(survey),
        misses => {
            let found = format_args!("one that denies {misses} of them");
            let damage = Damage::new(0, "a filter that contains every key", found);
            Err(damage.in_file(table.block_file().path(), 0))
        }
    }
}
