//! [`LookupTrace`] as text: the levels from top to bottom, each with the steps in its table.
//!
//! ```text
//! level 4    000012.sst of 3, "apple" to "melon": in its range   50 ns
//!   filter   …                                      the steps: `src/lookup/explain/text.rs`
//! ```

use std::fmt::{self, Display, Formatter};

use super::trace::{LevelTrace, LookupCost, LookupOutcome, LookupTrace, MemtableTrace};
use crate::encoding::text::{count, counted, size};
use crate::lookup::explain::text::{Page, Paint, kind_name, read, short, time};

/// The report of the command `explain`: every step of the lookup with its result and its time, and
/// what the lookup would have cost without filters. `{:#}` adds colours for a terminal. A width
/// such as `{:80}` states the width of the screen, in characters.
impl Display for LookupTrace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut page = Page::new(f);
        page.heading("key", &short(&self.key))?;
        let text = format!("hash {:#018x}, sees writes up to {}", self.hash, self.sequence);
        page.plain("", &text)?;
        page.gap()?;
        match &self.memtables[..] {
            [] => page.plain("memtables", "empty")?,
            all => all.iter().try_for_each(|memtable| in_memtable(memtable, &mut page))?,
        }
        self.levels.iter().try_for_each(|level| in_level(level, &mut page))?;
        match self.levels_spared {
            0 => {}
            1 => page.plain("below", "one more file or level, not searched")?,
            below => {
                page.plain("below", &format!("{below} more files and levels, not searched"))?
            }
        }
        page.gap()?;
        page.heading("found", &outcome(self))?;
        costs(self, &mut page)
    }
}

fn in_memtable(memtable: &MemtableTrace, page: &mut Page<'_, '_>) -> fmt::Result {
    let MemtableTrace { entries, bytes, found, range_deletion, nanos, .. } = *memtable;
    let found = match (found, range_deletion) {
        (Some(kind), _) => format!("found, {}", kind_name(kind)),
        (None, Some(_)) => "a range deletion covers the key".into(),
        (None, None) => "not there".into(),
    };
    let entries = counted(entries as u64, "entry");
    let text = format!("{entries}, {}: {found}", size(bytes as u64));
    page.line("memtable", &text, &time(nanos))
}

fn in_level(level: &LevelTrace, page: &mut Page<'_, '_>) -> fmt::Result {
    let name = format!("level {}", level.level);
    let took = time(level.range_check_nanos);
    let Some(file) = &level.file else {
        let (from, to) = (short(&level.smallest), short(&level.largest));
        let text = match level.files {
            1 => format!("1 file, {from} to {to}: not in its range"),
            files => {
                format!("{} files, {from} to {to}: in no file's range", count(files as u64))
            }
        };
        return page.line(&name, &text, &took);
    };
    let of = if level.files == 1 { String::new() } else { format!(" of {}", level.files) };
    let (from, to) = (short(&file.smallest), short(&file.largest));
    let text = format!("{:06}.sst{of}, {from} to {to}: in its range", file.number);
    page.line(&name, &text, &took)?;
    page.table(&file.table)
}

fn outcome(trace: &LookupTrace) -> String {
    match (trace.outcome, &trace.value) {
        (_, Some(value)) => format!("a value of {}", counted(value.len() as u64, "byte")),
        (LookupOutcome::Tombstone, _) => "nothing: the key was deleted".into(),
        (LookupOutcome::RangeDeletion, _) => "nothing: a range with the key was deleted".into(),
        _ => "nothing: the key is absent".into(),
    }
}

fn costs(trace: &LookupTrace, page: &mut Page<'_, '_>) -> fmt::Result {
    let (cost, without) = (trace.cost(), trace.cost_without_filters());
    page.plain("took", &format!("{}; {}", time(trace.nanos()), searched(cost)))?;
    page.plain("read", &read(trace.tables()))?;
    page.plain("without", &format!("filters: {}", searched(without)))?;
    let text = match without.tables - cost.tables {
        0 => "filters spared nothing".to_string(),
        tables => page.paint(Paint::Green, &format!("filters spared {}", counted(tables, "table"))),
    };
    page.plain("", &text)
}

fn searched(cost: LookupCost) -> String {
    let LookupCost { tables, blocks, block_bytes, .. } = cost;
    let (tables, blocks) = (counted(tables, "table"), counted(blocks, "data block"));
    format!("{tables} searched, {blocks}, {}", size(block_bytes))
}
