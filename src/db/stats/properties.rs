//! Properties under the names that RocksDB gives them, for monitoring tools that query these names.
//!
//! Properties for which Maypole has no true value are absent.

use std::fmt::Write;

use super::collect::{held_by_cursors, stats};
use crate::db::inner::database::Database;
use crate::db::inner::tree::Tree;
use crate::db::read_state::ReadState;
use crate::db::write::write_stall::{WriteStall, write_stall_for};
use crate::version::{LEVELS, Version};

/// See [`Db::property`](crate::Db::property).
pub(in crate::db) fn property(database: &Database, tree: &Tree, name: &str) -> Option<String> {
    database.status.process().check().ok()?;
    let name = name.strip_prefix("rocksdb.")?;
    let read_state = || tree.reading.current();
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let level: usize = level.parse().ok().filter(|&level| level < LEVELS)?;
        return Some(read_state().sources.version.levels[level].len().to_string());
    }
    let number = match name {
        "stats" => return Some(stats(database, tree).to_string()),
        "levelstats" => return Some(level_stats_text(&read_state().sources.version)),
        "estimate-num-keys" => tree.reading.current().approximate_len(),
        "live-sst-files-size" => live_table_bytes(&read_state()),
        // With the tables that only readers keep.
        "total-sst-files-size" => live_table_bytes(&read_state()) + tree.left.used_bytes(),
        "cur-size-all-mem-tables" => memtable_bytes(&read_state()),
        // With the flushed memtables that only readers keep.
        "size-all-mem-tables" => {
            let read_state = read_state();
            let held = held_by_cursors(tree, &read_state).memtable_bytes;
            memtable_bytes(&read_state) + held
        }
        "num-immutable-mem-table" => read_state().sources.frozen.len() as u64,
        "num-entries-active-mem-table" => read_state().sources.memtable.len() as u64,
        "num-entries-imm-mem-tables" => {
            read_state().sources.frozen.iter().map(|memtable| memtable.len() as u64).sum()
        }
        "estimate-pending-compaction-bytes" => tree.lock().pressure.debt_bytes,
        "num-running-flushes" => tree.lock().flushing.into(),
        "num-running-compactions" => tree.lock().compactions as u64,
        "is-write-stopped" => {
            let stall = write_stall_for(tree.lock().pressure);
            matches!(stall, WriteStall::Stop(_)).into()
        }
        "num-snapshots" => database.sequences.snapshots.len() as u64,
        "block-cache-capacity" => database.store.context.cache.capacity() as u64,
        "block-cache-usage" => database.store.context.cache.usage() as u64,
        _ => return None,
    };
    Some(number.to_string())
}

fn live_table_bytes(state: &ReadState) -> u64 {
    state.sources.version.files().map(|(_, file)| file.meta.file_bytes).sum()
}

fn memtable_bytes(state: &ReadState) -> u64 {
    state.sources.memtables().map(|memtable| memtable.bytes() as u64).sum()
}

/// Files and bytes of each level, also of empty ones.
fn level_stats_text(version: &Version) -> String {
    let mut text = String::from("level files bytes\n");
    for (level, files) in version.levels.iter().enumerate() {
        let bytes: u64 = files.iter().map(|file| file.meta.file_bytes).sum();
        let _ = writeln!(text, "{level:>5} {:>5} {bytes}", files.len());
    }
    text
}
