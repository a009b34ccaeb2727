//! A trace as text: a line for each step, with what it took at its end.
//!
//! ```text
//! level 4    file 000012 of 3, "apple" to "melon"                 50 ns
//!   filter   bloom, 2.51 KiB                                     210 ns, in memory
//!            line 3 of 40, bytes 192 to 256; wanted are ones
//!            bit      17 230 301 377
//!            found     1   0   1   1
//!                          !
//!            no: …
//! ```

use std::io::Write;

use maypole::filter::{BumpedLayer, ProbedBit, QueryTrace};
use maypole::table::{BlockTrace, FilterTrace, FilterVerdict, FoundTrace, StepCost, TableTrace};
use maypole::{LevelTrace, LookupCost, LookupOutcome, LookupTrace, MemtableTrace};

use crate::failure::Result;
use crate::show::sheet::{Paint, Screen};
use crate::show::text::{count, counted, escape, percent, size};

/// Where the text of a line begins.
const LABEL: usize = 11;
/// The width of the text before what a step took, where there is room.
const TEXT: usize = 62;
/// What a step took, at most: `9999.9 µs, read 1023.9 MiB` and a space on both sides.
const TOOK: usize = 28;
/// Bits in a row, where there is room.
const BITS: usize = 14;
/// Bytes of a key that are shown.
const KEY: usize = 24;

/// The way of a lookup in a database.
pub fn lookup(trace: &LookupTrace, screen: &Screen, out: &mut dyn Write) -> Result {
    let mut page = Page { screen, out };
    page.heading("key", &short(&trace.key))?;
    page.plain("", &format!("hash {:#018x}, sees writes up to {}", trace.hash, trace.sequence))?;
    page.gap()?;
    match &trace.memtables[..] {
        [] => page.plain("memtables", "empty")?,
        all => all.iter().try_for_each(|memtable| page.memtable(memtable))?,
    }
    for level in &trace.levels {
        page.level(level)?;
    }
    match trace.levels_spared {
        0 => {}
        1 => page.plain("below", "one more file or level, not searched")?,
        below => page.plain("below", &format!("{below} more files and levels, not searched"))?,
    }
    page.gap()?;
    page.outcome(trace)?;
    page.costs(trace)
}

/// The way of a lookup in one table.
pub fn table_lookup(
    key: &[u8],
    trace: &TableTrace,
    screen: &Screen,
    out: &mut dyn Write,
) -> Result {
    let mut page = Page { screen, out };
    page.heading("key", &short(key))?;
    page.plain("table", &escape(trace.path.as_os_str().as_encoded_bytes()))?;
    page.table(trace)?;
    page.gap()?;
    let outcome = match &trace.found {
        Some(found) => entry(found),
        None if trace.was_skipped() => "nothing, and no data block was read".to_string(),
        None => "nothing".to_string(),
    };
    page.heading("found", &outcome)?;
    page.plain("took", &time(trace.nanos()))
}

struct Page<'a> {
    screen: &'a Screen,
    out: &'a mut dyn Write,
}

impl Page<'_> {
    fn memtable(&mut self, memtable: &MemtableTrace) -> Result {
        let MemtableTrace { entries, bytes, found, range_deletion, nanos, .. } = *memtable;
        let found = match (found, range_deletion) {
            (Some(kind), _) => format!("found, {}", kind_name(kind)),
            (None, Some(_)) => "a range deletion covers the key".into(),
            (None, None) => "not there".into(),
        };
        let entries = counted(entries as u64, "entry");
        let text = format!("{entries}, {}: {found}", size(bytes as u64));
        self.line("memtable", &text, &time(nanos))
    }

    fn level(&mut self, level: &LevelTrace) -> Result {
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
            return self.line(&name, &text, &took);
        };
        let of = if level.files == 1 { String::new() } else { format!(" of {}", level.files) };
        let (from, to) = (short(&file.smallest), short(&file.largest));
        let text = format!("{:06}.sst{of}, {from} to {to}: in its range", file.number);
        self.line(&name, &text, &took)?;
        self.table(&file.table)
    }

    fn table(&mut self, table: &TableTrace) -> Result {
        if let Some(sequence) = table.range_deletion {
            self.plain("  deleted", &format!("by a range deletion, number {sequence}"))?;
        }
        match &table.filter {
            Some(filter) => self.filter(filter)?,
            None => self.plain("  filter", "none that can be queried for the key")?,
        }
        if let Some(index) = &table.index {
            let blocks = count(index.blocks as u64);
            let mut text = match index.block {
                Some(block) => format!("data block {} of {blocks}", count(block as u64)),
                None => format!("behind the last of {blocks} data blocks"),
            };
            if let Some((part, parts)) = index.partition {
                text.push_str(&format!(", part {part} of {parts}"));
            }
            self.line("  index", &text, &step(&index.cost))?;
        }
        for block in &table.blocks {
            self.block(block)?;
        }
        match (&table.found, &table.index) {
            (Some(found), _) => self.plain("", &entry(found)),
            (None, Some(_)) => self.plain("", "the key is not there"),
            (None, None) => Ok(()),
        }
    }

    fn block(&mut self, block: &BlockTrace) -> Result {
        let stored = count(block.stored_bytes);
        let mut text = format!("{stored} bytes at {}", count(block.offset));
        if block.bytes as u64 > block.stored_bytes {
            text.push_str(&format!(", {} uncompressed", count(block.bytes as u64)));
        }
        self.line("  block", &text, &step(&block.cost))?;
        self.line("  search", "in the block", &time(block.search_nanos))
    }

    fn filter(&mut self, filter: &FilterTrace) -> Result {
        let family = filter.family.map_or("unusable", |family| family.name());
        let mut text = format!("{family}, {}", size(filter.bytes as u64));
        if let Some((part, parts)) = filter.partition {
            text.push_str(&format!(", part {part} of {parts}"));
        }
        self.line("  filter", &text, &step(&filter.cost))?;
        if let Some(prefix) = &filter.prefix {
            self.plain("", &format!("asked for the prefix {}", short(prefix)))?;
        }
        self.query(&filter.query)?;
        let expected = match filter.predicted_fpr {
            Some(rate) => format!("; {} of absent keys have one", percent(rate)),
            None => String::new(),
        };
        let (paint, text) = match (filter.verdict, &filter.query) {
            (FilterVerdict::No, _) => {
                (Paint::Green, "no: the key is certainly not there, the table is skipped".into())
            }
            (FilterVerdict::TruePositive, _) => {
                (Paint::Green, "maybe, and that is true: a true positive".into())
            }
            (FilterVerdict::FalsePositive, _) => {
                (Paint::Red, format!("maybe, in vain: a false positive{expected}"))
            }
            (_, QueryTrace::Untrusted(reason)) => {
                (Paint::Yellow, format!("maybe, since it cannot be trusted: {reason}"))
            }
            _ => (Paint::Yellow, "maybe, since it cannot be trusted".into()),
        };
        let text = self.screen.paint(paint, &text);
        self.plain("", &text)
    }

    fn query(&mut self, query: &QueryTrace) -> Result {
        match query {
            QueryTrace::Line { line, lines, line_bytes, bits } => {
                let at = u64::from(*line) * u64::from(*line_bytes);
                let end = at + u64::from(*line_bytes);
                let (line, lines) = (count(u64::from(*line)), count(u64::from(*lines)));
                let bytes = extent(at, end);
                self.plain("", &format!("line {line} of {lines}, {bytes}; wanted are ones"))?;
                self.bits("bit", bits, false)
            }
            QueryTrace::Slots { bumped, start, slots, coefficients, bytes, columns } => {
                self.bumped(bumped)?;
                let (start, slots) = (count(u64::from(*start)), count(u64::from(*slots)));
                let sum = coefficients.count_ones();
                let bytes = extent(bytes.start as u64, bytes.end as u64);
                self.plain(
                    "",
                    &format!("slot {start} of {slots}, {bytes}; the sum of {sum} slots"),
                )?;
                if columns.is_empty() {
                    return self.plain("", "there is no column here: every key passes");
                }
                self.bits("column", columns, true)
            }
            QueryTrace::Fingerprint { slots: [first, second, third], of, bits } => {
                let of = count(u64::from(*of));
                self.plain("", &format!("slots {first}, {second} and {third} of {of}; their sum"))?;
                self.bits("bit", bits, true)
            }
            QueryTrace::Tags { bumped, tag, tags, found } => {
                self.bumped(bumped)?;
                let is = if *found { "is" } else { "is not" };
                self.plain("", &format!("its tag {tag:#x} {is} among the {tags} tags"))
            }
            _ => Ok(()),
        }
    }

    fn bumped(&mut self, layers: &[BumpedLayer]) -> Result {
        for (number, layer) in layers.iter().enumerate() {
            let BumpedLayer { start, bucket, class, threshold } = layer;
            let text = format!(
                "layer {number}: slot {start}, bucket {bucket}, class {class}: bumped, the bucket \
                 kept {threshold}"
            );
            self.plain("", &text)?;
        }
        Ok(())
    }

    /// A column for each bit; what disagrees is marked, also without colour.
    fn bits(&mut self, name: &str, bits: &[ProbedBit], show_wanted: bool) -> Result {
        let room = self.screen.width.map_or(BITS, |width| width.saturating_sub(LABEL + 7) / 4);
        for bits in bits.chunks(room.clamp(1, BITS)) {
            let row = |text: &dyn Fn(&ProbedBit) -> String| -> String {
                bits.iter().map(|bit| format!("{:>4}", text(bit))).collect()
            };
            let digit = |bit: bool| u8::from(bit).to_string();
            self.plain("", &format!("{name:<7}{}", row(&|bit| bit.number.to_string())))?;
            let found: String = bits
                .iter()
                .map(|bit| {
                    let paint = if bit.agrees() { Paint::Green } else { Paint::Red };
                    let digit = format!("{:>4}", u8::from(bit.found));
                    self.screen.paint(paint, &digit)
                })
                .collect();
            self.plain("", &format!("{:<7}{found}", "found"))?;
            if show_wanted {
                self.plain("", &format!("{:<7}{}", "wanted", row(&|bit| digit(bit.wanted))))?;
            }
            let marks = row(&|bit| if bit.agrees() { String::new() } else { "!".into() });
            if !marks.trim().is_empty() {
                self.plain("", format!("{:<7}{marks}", "").trim_end())?;
            }
        }
        Ok(())
    }

    fn outcome(&mut self, trace: &LookupTrace) -> Result {
        let text = match (trace.outcome, &trace.value) {
            (_, Some(value)) => format!("a value of {}", counted(value.len() as u64, "byte")),
            (LookupOutcome::Tombstone, _) => "nothing: the key was deleted".into(),
            (LookupOutcome::RangeDeletion, _) => "nothing: a range with the key was deleted".into(),
            _ => "nothing: the key is absent".into(),
        };
        self.heading("found", &text)
    }

    fn costs(&mut self, trace: &LookupTrace) -> Result {
        let (cost, without) = (trace.cost(), trace.cost_without_filters());
        let took = self.screen.drawn(&time(trace.nanos()));
        self.plain("took", &format!("{took}; {}", searched(cost)))?;
        self.plain("without", &format!("filters: {}", searched(without)))?;
        let spared = without.tables - cost.tables;
        let text = match spared {
            0 => "filters spared nothing".to_string(),
            tables => format!("filters spared {}", counted(tables, "table")),
        };
        let paint = if spared > 0 { Paint::Green } else { Paint::None };
        let text = self.screen.paint(paint, &text);
        self.plain("", &text)
    }

    fn heading(&mut self, label: &str, text: &str) -> Result {
        let text = self.screen.bold(text);
        self.plain(label, &text)
    }

    fn plain(&mut self, label: &str, text: &str) -> Result {
        writeln!(self.out, "{label:<LABEL$}{text}")?;
        Ok(())
    }

    fn line(&mut self, label: &str, text: &str, took: &str) -> Result {
        let took = self.screen.dim(&self.screen.drawn(took));
        let room = self.screen.width.map_or(TEXT, |width| width.saturating_sub(LABEL + TOOK));
        let room = room.min(TEXT);
        writeln!(self.out, "{label:<LABEL$}{text:<room$}  {took}")?;
        Ok(())
    }

    fn gap(&mut self) -> Result {
        writeln!(self.out)?;
        Ok(())
    }
}

fn searched(cost: LookupCost) -> String {
    let LookupCost { tables, blocks, block_bytes, .. } = cost;
    let (tables, blocks) = (counted(tables, "table"), counted(blocks, "data block"));
    format!("{tables} searched, {blocks}, {}", size(block_bytes))
}

fn entry(found: &FoundTrace) -> String {
    let (kind, bytes) = (kind_name(found.kind), counted(found.value_bytes as u64, "byte"));
    match found.value_bytes {
        0 => format!("{kind}, number {}", found.sequence),
        _ => format!("{kind} of {bytes}, number {}", found.sequence),
    }
}

fn kind_name(kind: u8) -> String {
    match kind {
        0 => "a tombstone".into(),
        1 => "a value".into(),
        2 => "a merge operand".into(),
        7 => "a single deletion".into(),
        kind => format!("an entry of kind {kind}"),
    }
}

fn extent(start: u64, end: u64) -> String {
    format!("bytes {} to {}", count(start), count(end))
}

/// A key, quoted, cut if it is long.
fn short(key: &[u8]) -> String {
    match key.get(..KEY) {
        Some(start) if key.len() > KEY => {
            format!("\"{}\"… ({} bytes)", escape(start), count(key.len() as u64))
        }
        _ => format!("\"{}\"", escape(key)),
    }
}

fn step(cost: &StepCost) -> String {
    match cost.was_in_memory() {
        true => format!("{}, in memory", time(cost.nanos)),
        false => format!("{}, read {}", time(cost.nanos), size(cost.read_bytes)),
    }
}

fn time(nanos: u64) -> String {
    match nanos {
        0..10_000 => format!("{} ns", count(nanos)),
        10_000..10_000_000 => format!("{:.1} µs", nanos as f64 / 1e3),
        _ => format!("{:.1} ms", nanos as f64 / 1e6),
    }
}
