//! Gathers a [`Stats`].

use std::sync::Arc;

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
        return Stats::default();
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
            counts: file.table.file_counters().sums(),
        })
        .collect();
    let obsolete = database.store.obsolete.counts();
    let levels = (0..LEVELS).map(|level| level_stats(level, &files, obsolete[level]));
    let levels = levels.filter(|level| level.files > 0 || level.counts != FileCounts::default());
    let cache = &database.store.context.cache;
    let pinned =
        read_state.sources.version.files().map(|(_, file)| file.table.pinned_whole_bytes());
    Stats {
        path: database.store.dir.clone(),
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
        held_by_cursors: held_by_cursors(database, tree, &read_state),
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
pub(super) fn held_by_cursors(
    database: &Database,
    tree: &Tree,
    current: &ReadState,
) -> HeldByCursors {
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
        table_bytes: database.store.obsolete.used_bytes(),
        states: earlier.len() as u64,
        cursors: readers.sum(),
        oldest: earlier.first().map(|(_, replaced)| replaced.elapsed()).unwrap_or_default(),
    }
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
