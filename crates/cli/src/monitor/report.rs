//! The report of `stats`: the figures, the tree level by level, memory, counters.

use std::io::Write;

use maypole::{
    BlockKind, HeldByCursors, KeyspaceStats, KindUsage, LevelStats, PublishedStats, Stats,
};

use super::figures::{Figures, InVain, ReadCost, in_vain, warnings};
use super::{HOW, Source, short_span, span};
use crate::args::DEFAULT;
use crate::failure::Result;
use crate::show::sheet::{Column, Screen, Sheet, or_dash};
use crate::show::text::{count, counted, escape, percent, size, small};

pub fn published(
    source: &Source,
    stats: &PublishedStats,
    read_cost: ReadCost,
    out: &mut dyn Write,
) -> Result {
    let screen = Screen::stdout();
    writeln!(out, "{}", screen.bold(&source.name))?;
    writeln!(out, "{}\n", screen.wrap(&source.origin(stats)))?;
    heading("Filters", &screen, out)?;
    screen.say(lines(&Figures::new(stats, read_cost), read_cost), out)?;
    warn(stats, &screen, out)?;
    heading("\nTree", &screen, out)?;
    writeln!(out, "{}\n", tree(&stats.levels, true).to_text(&screen))?;
    others(&stats.keyspaces, true, out)?;
    let in_vain = in_vain(stats);
    if !in_vain.is_empty() {
        heading("Data blocks that a lookup searches in vain", &screen, out)?;
        writeln!(out, "{}", searches(&in_vain).to_text(&screen))?;
        screen.say(in_vain.iter().filter_map(|row| Some(row.difference()? + ".")), out)?;
        writeln!(out)?;
    }
    heading("Dead data", &screen, out)?;
    let dead = dead_data(stats).into_iter();
    screen.say(dead.map(|(name, figure)| format!("  {name:<13} {figure}")), out)?;
    heading("\nMemory", &screen, out)?;
    let memory = Memory {
        memtable_bytes: stats.memtable_bytes,
        memtable_entries: stats.memtable_entries,
        held_bytes: stats.held_by_readers_bytes,
        held_by_cursors: stats.held_by_cursors,
        capacity_bytes: stats.cache_capacity_bytes,
        cache: &stats.cache,
        tables_bytes: stats.cache_tables_bytes,
        metadata_bytes: stats.metadata_bytes,
        pinned_bytes: stats.pinned_metadata_bytes,
    };
    memory.print(out)?;
    heading("\nCounters", &screen, out)?;
    for (ticker, number) in stats.tickers.iter().filter(|&(_, number)| number > 0) {
        writeln!(out, "  {:<36} {:>19}", ticker.name(), count(number))?;
    }
    Ok(())
}

/// The report of a database whose counters are not published, and which this command has just
/// opened. Nothing has been counted since it was opened, so no counts are shown. `is_own`: whether
/// it is a database of Maypole's, so that its counters can be published.
pub fn opened(source: &Source, stats: &Stats, is_own: bool, out: &mut dyn Write) -> Result {
    let screen = Screen::stdout();
    let mut name = source.name.clone();
    if stats.keyspace != DEFAULT {
        name += &format!(", keyspace {}", escape(&stats.keyspace));
    }
    writeln!(out, "{}\n", screen.bold(&name))?;
    heading("Tree", &screen, out)?;
    writeln!(out, "{}\n", tree(&stats.levels, false).to_text(&screen))?;
    others(&stats.keyspaces, false, out)?;
    for table in &stats.damaged {
        writeln!(out, "level {}, set aside from compaction: {}", table.level, table.error)?;
    }
    heading("Memory", &screen, out)?;
    let memory = Memory {
        memtable_bytes: stats.memtable_bytes as u64,
        memtable_entries: stats.memtable_entries as u64,
        held_bytes: stats.held_by_readers_bytes as u64,
        held_by_cursors: stats.held_by_cursors,
        capacity_bytes: stats.cache_capacity_bytes as u64,
        cache: &stats.cache,
        tables_bytes: stats.cache_tables_bytes as u64,
        metadata_bytes: stats.metadata_bytes as u64,
        pinned_bytes: stats.pinned_metadata_bytes as u64,
    };
    memory.print(out)?;
    writeln!(out, "  to compact    {:>10}", size(stats.compaction_debt_bytes))?;
    let (dead, entries) = dead_of(&stats.levels);
    writeln!(out, "  dead, about   {:>10}   {}", size(dead), counted(entries, "entry"))?;
    if !is_own {
        return Ok(());
    }
    heading("\nCounters", &screen, out)?;
    screen.say([format!("none are published. {HOW}.")], out)
}

fn heading(text: &str, screen: &Screen, out: &mut dyn Write) -> Result {
    writeln!(out, "{}", screen.bold(text))?;
    Ok(())
}

/// The dead bytes and entries of all levels.
fn dead_of(levels: &[LevelStats]) -> (u64, u64) {
    levels.iter().fold((0, 0), |(bytes, entries), level| {
        (bytes + level.dead_bytes, entries + level.dead_entries)
    })
}

/// The dead data that compaction would free. If there are snapshots, also the data that it cannot
/// free because of them.
pub fn dead_data(stats: &PublishedStats) -> Vec<(&'static str, String)> {
    let (dead, entries) = dead_of(&stats.levels);
    let mut lines = vec![("dead, about", format!("{}, {}", size(dead), counted(entries, "entry")))];
    if let Some(age) = stats.oldest_snapshot {
        let held = size(stats.held_by_snapshots_bytes);
        lines.push(("for snapshots", format!("{held}, the oldest is {} old", span(age))));
    }
    lines
}

pub fn warn(stats: &PublishedStats, screen: &Screen, out: &mut dyn Write) -> Result {
    screen.say(warnings(stats).iter().map(|warning| format!("WARNING: {warning}.")), out)
}

fn lines(figures: &Figures, read_cost: ReadCost) -> Vec<String> {
    let hits = match figures.hit_rate {
        Some(rate) => format!(
            "{}: {} of {} queries were answered with no (over 90 % is healthy where most lookups miss)",
            percent(rate),
            count(figures.useful),
            count(figures.asked)
        ),
        None => "-: no filter was queried yet".to_string(),
    };
    let predicted = figures.predicted_fpr.map_or("nothing".to_string(), percent);
    let rate = match (figures.observed_fpr, figures.observed_fpr_least, figures.observed_fpr_most) {
        (Some(rate), Some(least), Some(most)) => format!(
            "{}, between {} and {} (95 %); predicted {predicted}",
            percent(rate),
            percent(least),
            percent(most)
        ),
        _ => format!("-: no absent key was looked up; predicted {predicted}"),
    };
    let memory = format!(
        "{}: {} of filters, {} of them resident; {} of block cache and memtables",
        figures.memory_share.map_or("-".to_string(), percent),
        size(figures.filter_bytes),
        size(figures.resident_filter_bytes),
        size(figures.memory_bytes)
    );
    let saved = format!(
        "{}, at most: a block in the cache is not read. At {}: {}",
        count(figures.reads_saved),
        read_cost.name(),
        short_span(figures.seconds_saved)
    );
    vec![
        format!("hit rate        {hits}"),
        format!("false positives {rate}"),
        format!("reads saved     {saved}"),
        format!("share of memory {memory}"),
        format!(
            "no filter       {} useless searches of tables without one, or that passed it by",
            count(figures.unfiltered)
        ),
    ]
}

/// The tree level by level. `counted`: whether to show the counters of lookups.
pub fn tree(levels: &[LevelStats], counted: bool) -> Sheet {
    let bits = |level: &LevelStats| match level.entries {
        0 => None,
        entries => Some(format!("{:.2}", level.filter_bytes as f64 * 8.0 / entries as f64)),
    };
    let columns: &[Column<LevelStats>] = &[
        ("level", &|level| level.level.to_string().into()),
        ("files", &|level| count(level.files as u64).into()),
        ("size", &|level| size(level.file_bytes).into()),
        ("entries", &|level| count(level.entries).into()),
        ("filters", &|level| size(level.filter_bytes).into()),
        ("bits/key", &|level| or_dash(bits(level))),
        ("predicted", &|level| or_dash(level.predicted_fpr.map(percent))),
        ("observed", &|level| or_dash(level.counts.filter.observed_fpr().map(percent))),
        ("useful", &|level| count(level.counts.filter.useful).into()),
        ("full positive", &|level| count(level.counts.filter.full_positive).into()),
        ("false positive", &|level| count(level.counts.filter.false_positive()).into()),
        ("no filter", &|level| count(level.counts.unfiltered).into()),
    ];
    Sheet::of(levels, if counted { columns } else { &columns[..7] })
}

/// A table of the keyspaces other than `default`, if there are any. `counted`: whether to show the
/// counters of lookups.
pub fn others(keyspaces: &[KeyspaceStats], counted: bool, out: &mut dyn Write) -> Result {
    if keyspaces.is_empty() {
        return Ok(());
    }
    let screen = Screen::stdout();
    let columns: &[Column<KeyspaceStats>] = &[
        ("keyspace", &|of| of.to_string().into()),
        ("files", &|of| count(of.files as u64).into()),
        ("size", &|of| size(of.file_bytes).into()),
        ("entries", &|of| count(of.entries).into()),
        ("memtables", &|of| size(of.memtable_bytes).into()),
        ("filters", &|of| size(of.filter_bytes).into()),
        ("observed", &|of| or_dash(of.counts.filter.observed_fpr().map(percent))),
        ("useful", &|of| count(of.counts.filter.useful).into()),
        ("full positive", &|of| count(of.counts.filter.full_positive).into()),
        ("false positive", &|of| count(of.counts.filter.false_positive()).into()),
        ("no filter", &|of| count(of.counts.unfiltered).into()),
    ];
    heading("Other keyspaces", &screen, out)?;
    let sheet = Sheet::of(keyspaces, if counted { columns } else { &columns[..6] });
    writeln!(out, "{}\n", sheet.to_text(&screen))?;
    Ok(())
}

fn searches(rows: &[InVain]) -> Sheet {
    let columns: &[Column<InVain>] = &[
        ("level", &|row| row.level.to_string().into()),
        ("predicted", &|row| or_dash(row.predicted.map(small))),
        ("observed", &|row| small(row.observed).into()),
        ("95 % interval", &|row| format!("{}-{}", small(row.low), small(row.high)).into()),
    ];
    Sheet::of(rows, columns)
}

struct Memory<'a> {
    memtable_bytes: u64,
    memtable_entries: u64,
    held_bytes: u64,
    held_by_cursors: HeldByCursors,
    capacity_bytes: u64,
    cache: &'a [(BlockKind, KindUsage)],
    /// Bytes of the block cache that open tables and slots take. 0 if the program that published
    /// the counters does not report it.
    tables_bytes: u64,
    /// Bytes of memory that all filters and indexes need. 0 if there are none, or if the program
    /// that published the counters does not report it.
    metadata_bytes: u64,
    /// See [`Stats::pinned_metadata_bytes`].
    pinned_bytes: u64,
}

impl Memory<'_> {
    fn print(&self, out: &mut dyn Write) -> Result {
        let (bytes, entries) = (size(self.memtable_bytes), counted(self.memtable_entries, "entry"));
        writeln!(out, "  memtables     {bytes:>10}   {entries}")?;
        if self.held_bytes > 0 {
            let held = size(self.held_bytes);
            writeln!(out, "  readers       {held:>10}   kept for callbacks of the process")?;
        }
        let held = &self.held_by_cursors;
        if held.states > 0 {
            let (memory, tables) = (size(held.memtable_bytes), size(held.table_bytes));
            writeln!(out, "  cursors       {memory:>10}   of flushed memtables, and {tables} of")?;
            writeln!(out, "                             obsolete tables, kept for {held}")?;
        }
        let kinds: u64 = self.cache.iter().map(|(_, usage)| usage.bytes as u64).sum();
        let (used, capacity) = (size(kinds + self.tables_bytes), size(self.capacity_bytes));
        writeln!(out, "  block cache   {used:>10}   of {capacity}")?;
        for (kind, usage) in self.cache {
            let kind = format!("{kind:?}").to_lowercase();
            let (bytes, entries) =
                (size(usage.bytes as u64), counted(usage.entries as u64, "entry"));
            writeln!(out, "    {kind:<11} {bytes:>10}   {entries}")?;
        }
        if self.tables_bytes > 0 {
            let tables = size(self.tables_bytes);
            writeln!(out, "    tables      {tables:>10}   for open tables and slots")?;
        }
        if self.metadata_bytes > 0 {
            let needed = size(self.metadata_bytes);
            writeln!(out, "    needed      {needed:>10}   by all filters and indexes")?;
        }
        if self.pinned_bytes > 0 {
            let pinned = size(self.pinned_bytes);
            writeln!(out, "    pinned      {pinned:>10}   whole, until a compaction writes parts")?;
        }
        Ok(())
    }
}
