//! Gathers a [`Stats`].

use std::sync::Arc;

use super::keyspaces::{KeyspaceStats, MOST_NAMED};
use super::report::{FileStats, HeldByCursors, LevelStats, Stats, predicted_fpr};
use crate::cache::BlockKind;
use crate::compaction::dead;
use crate::db::inner::database::Database;
use crate::db::inner::tree::Tree;
use crate::db::read_state::ReadState;
use crate::db::write::write_stall::write_stall_for;
use crate::encoding::key::user_key;
use crate::memtable::Memtable;
use crate::stats::FileCounts;
use crate::sync::held_by_readers;
use crate::table::filter::info::expected_false_positives;
use crate::version::{LEVELS, ObsoleteCounts};

pub(in crate::db) fn stats(database: &Database, tree: &Tree) -> Stats {
    if !database.status.process().is_current() {
        return Stats { keyspace: tree.name.to_vec(), ..Stats::default() };
    }
    let (pressure, damaged, waiting, conditions) = {
        let state = tree.lock();
        let conditions = tree.conditions(&state);
        let (flushes, compactions) = (&state.work.flushes, &state.work.compactions);
        let waiting = flushes.last_error().or(compactions.last_error()).cloned();
        (state.pressure, state.work.damaged.clone(), waiting, conditions)
    };
    let read_state = tree.reading.current();
    let dead = dead::dead_of_all(&read_state.sources.version.metas(), &conditions);
    let files: Vec<FileStats> = read_state
        .sources
        .version
        .files()
        .zip(&dead)
        .map(|((level, file), dead)| FileStats {
            level,
            number: file.meta.number,
            path: file.path().to_owned(),
            smallest: user_key(&file.meta.smallest).to_vec(),
            largest: user_key(&file.meta.largest).to_vec(),
            file_bytes: file.meta.file_bytes,
            entries: file.meta.entries,
            dead_entries: dead.entries,
            dead_bytes: dead.bytes,
            filter: file.table.filter_info(),
            counts: file.table.block_file().file_counters.sums(),
        })
        .collect();
    let left = tree.left.counts();
    let levels = (0..LEVELS).map(|level| level_stats(level, &files, left[level]));
    let levels = levels.filter(|level| level.files > 0 || level.counts != FileCounts::default());
    let cache = &database.store.context.cache;
    let pinned =
        read_state.sources.version.files().map(|(_, file)| file.table.pinned_whole_bytes());
    Stats {
        path: database.store.dir.clone(),
        keyspace: tree.name.to_vec(),
        keyspaces: if tree.id == 0 { keyspaces(database) } else { Vec::new() },
        levels: levels.collect(),
        tickers: database.counters().sums(),
        cache: [BlockKind::Data, BlockKind::Index, BlockKind::Filter]
            .iter()
            .map(|&kind| (kind, cache.usage_of(kind)))
            .collect(),
        cache_tables_bytes: cache.tables_usage(),
        cache_capacity_bytes: cache.capacity(),
        metadata_bytes: cache.policy().whole_metadata_bytes(),
        pinned_metadata_bytes: pinned.sum(),
        open_files: database.store.descriptors.open_files(),
        max_open_files: database.store.descriptors.capacity(),
        file_reopens: database.store.descriptors.reopened(),
        memtable_bytes: read_state.sources.memtables().map(|memtable| memtable.bytes()).sum(),
        memtable_entries: read_state.sources.memtables().map(|memtable| memtable.len()).sum(),
        held_by_readers_bytes: held_by_readers(),
        held_by_cursors: held_by_cursors(tree, &read_state),
        compaction_debt_bytes: pressure.debt_bytes,
        snapshots: database.sequences.snapshots.len(),
        oldest_snapshot: database.sequences.snapshots.oldest().map(|made| made.elapsed()),
        held_by_snapshots_bytes: dead.iter().map(|dead| dead.held_bytes).sum(),
        write_stall: write_stall_for(pressure),
        damaged,
        out_of_space: database.writing.missing_space().or(waiting),
        files,
    }
}

/// See [`HeldByCursors`]. Costs one step for each memtable of the earlier read states that are
/// held, and readers nothing.
pub(super) fn held_by_cursors(tree: &Tree, current: &ReadState) -> HeldByCursors {
    let earlier = tree.reading.earlier_states();
    let memtables = earlier.iter().flat_map(|(state, _)| state.sources.memtables());
    let is_current =
        |held: &Arc<Memtable>| current.sources.memtables().any(|it| Arc::ptr_eq(it, held));
    let mut memtables: Vec<_> = memtables.filter(|memtable| !is_current(memtable)).collect();
    memtables.sort_unstable_by_key(|memtable| Arc::as_ptr(memtable));
    memtables.dedup_by_key(|memtable| Arc::as_ptr(memtable));
    // One of the references of each state is that of `earlier`.
    let readers = earlier.iter().map(|(state, _)| Arc::strong_count(state) as u64 - 1);
    HeldByCursors {
        memtable_bytes: memtables.iter().map(|memtable| memtable.bytes() as u64).sum(),
        table_bytes: tree.left.used_bytes(),
        states: earlier.len() as u64,
        cursors: readers.sum(),
        oldest: earlier.first().map(|(_, replaced)| replaced.elapsed()).unwrap_or_default(),
    }
}

/// The keyspaces other than `default` that have a tree: the busiest by name, then the sum of the rest.
fn keyspaces(database: &Database) -> Vec<KeyspaceStats> {
    if !database.trees.has_others() {
        return Vec::new();
    }
    let others = database.trees.all().into_iter().skip(1);
    let mut keyspaces: Vec<KeyspaceStats> = others.map(|tree| keyspace_stats(&tree)).collect();
    keyspaces.sort_by(|a, b| b.searches().cmp(&a.searches()).then_with(|| a.name.cmp(&b.name)));
    if keyspaces.len() > MOST_NAMED {
        let rest = keyspaces.split_off(MOST_NAMED);
        keyspaces.extend(rest.into_iter().reduce(|sum, one| sum.with(&one)));
    }
    keyspaces
}

fn keyspace_stats(tree: &Tree) -> KeyspaceStats {
    let read_state = tree.reading.current();
    let memtables = read_state.sources.memtables();
    let counts = tree.left.counts().iter().fold(FileCounts::default(), |sum, it| sum + it.counts);
    let memtable_bytes = memtables.map(|memtable| memtable.bytes() as u64).sum();
    let mut stats = KeyspaceStats {
        name: tree.name.to_vec(),
        keyspaces: 1,
        memtable_bytes,
        counts,
        ..KeyspaceStats::default()
    };
    for (_, file) in read_state.sources.version.files() {
        stats.files += 1;
        stats.file_bytes += file.meta.file_bytes;
        stats.entries += file.meta.entries;
        stats.filter_bytes += file.table.filter_info().map_or(0, |filter| filter.bytes);
        stats.counts += file.table.block_file().file_counters.sums();
    }
    stats
}

fn level_stats(level: usize, files: &[FileStats], obsolete: ObsoleteCounts) -> LevelStats {
    let here: Vec<&FileStats> = files.iter().filter(|file| file.level == level).collect();
    let expected =
        |file: &&FileStats| expected_false_positives(file.filter.as_ref(), file.counts.filter);
    LevelStats {
        level,
        files: here.len(),
        file_bytes: here.iter().map(|file| file.file_bytes).sum(),
        entries: here.iter().map(|file| file.entries).sum(),
        dead_entries: here.iter().map(|file| file.dead_entries).sum(),
        dead_bytes: here.iter().map(|file| file.dead_bytes).sum(),
        filter_bytes: here.iter().filter_map(|file| file.filter.as_ref()).map(|f| f.bytes).sum(),
        counts: here.iter().fold(obsolete.counts, |sum, file| sum + file.counts),
        expected_false_positives: here
            .iter()
            .map(expected)
            .chain([obsolete.expected_false_positives])
            .sum(),
        predicted_fpr: predicted_fpr(here.iter().copied()),
    }
}
