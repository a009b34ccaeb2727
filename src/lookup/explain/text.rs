//! [`TableTrace`] as text: a line for each step, with the step's cost at the end.
//!
//! ```text
//!   filter   bloom, 2.51 KiB                                     210 ns, in memory
//!            line 3 of 40, bytes 192 to 256; wanted are ones
//!            bit      17 230 301 377
//!            found     1   0   1   1
//!                          !
//!            no: …
//! ```
//!
//! `src/db/explain/text.rs` writes the trace of a lookup in a whole database, on the same [`Page`].

use std::fmt::{self, Display, Formatter};

use super::trace::{BlockTrace, FilterTrace, FilterVerdict, FoundTrace, StepCost, TableTrace};
use crate::encoding::text::{count, counted, escape, percent, size};
use crate::filter::inspect::{BumpedLayer, ProbedBit, QueryTrace};

/// The column where the text of a line begins, after the label.
const LABEL: usize = 11;
/// The text before a step's cost is padded to this width, or to less on a narrow screen.
const TEXT: usize = 62;
/// The width of the longest cost, `9999.9 µs, read 1023.9 MiB`, and of the two spaces in front of
/// it.
const TOOK: usize = 28;
/// The most bits in a row.
const BITS: usize = 14;
/// The most bytes of a key that are shown.
const KEY: usize = 24;

/// The steps of the lookup, then what it found and how long it took. `{:#}` adds the colours of a
/// terminal. A width such as `{:80}` states the width of the screen in characters.
impl Display for TableTrace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut page = Page::new(f);
        page.plain("table", &escape(self.path.as_os_str().as_encoded_bytes()))?;
        page.table(self)?;
        page.gap()?;
        let outcome = match &self.found {
            Some(found) => entry(found),
            None if self.was_skipped() => "nothing, and no data block was read".to_string(),
            None => "nothing".to_string(),
        };
        page.heading("found", &outcome)?;
        page.plain("took", &time(self.nanos()))?;
        page.plain("read", &read([self].into_iter()))
    }
}

/// The colour of a text, on a page that has colours.
#[derive(Clone, Copy)]
pub(crate) enum Paint {
    Red,
    Green,
    Yellow,
}

/// Where a trace is written.
pub(crate) struct Page<'a, 'b> {
    out: &'a mut Formatter<'b>,
    has_color: bool,
    /// The width of the screen in characters; `None` if it is unlimited.
    width: Option<usize>,
}

impl<'a, 'b> Page<'a, 'b> {
    pub(crate) fn new(out: &'a mut Formatter<'b>) -> Page<'a, 'b> {
        Page { has_color: out.alternate(), width: out.width(), out }
    }

    pub(crate) fn table(&mut self, table: &TableTrace) -> fmt::Result {
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

    fn block(&mut self, block: &BlockTrace) -> fmt::Result {
        let stored = count(block.stored_bytes);
        let mut text = format!("{stored} bytes at {}", count(block.offset));
        if block.bytes as u64 > block.stored_bytes {
            text.push_str(&format!(", {} uncompressed", count(block.bytes as u64)));
        }
        self.line("  block", &text, &step(&block.cost))?;
        self.line("  search", "in the block", &time(block.search_nanos))
    }

    fn filter(&mut self, filter: &FilterTrace) -> fmt::Result {
        let family = match (filter.family, filter.verdict) {
            (Some(family), _) => family.name(),
            (None, FilterVerdict::PassedBy) => "not read",
            (None, _) => "unusable",
        };
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
            (FilterVerdict::PassedBy, QueryTrace::Untrusted(reason)) => {
                (Paint::Yellow, format!("passed by: {reason}"))
            }
            (_, QueryTrace::Untrusted(reason)) => {
                (Paint::Yellow, format!("maybe, since it cannot be trusted: {reason}"))
            }
            _ => (Paint::Yellow, "maybe, since it cannot be trusted".into()),
        };
        let text = self.paint(paint, &text);
        self.plain("", &text)
    }

    fn query(&mut self, query: &QueryTrace) -> fmt::Result {
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

    fn bumped(&mut self, layers: &[BumpedLayer]) -> fmt::Result {
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

    /// Writes one column for each bit of the filter that a query has read: the bit's number and its
    /// value. The *wanted* value is the one that the bit would have if the filter held the key. A
    /// bit with the other value is red, and has a `!` below it for screens without colours.
    /// `with_wanted`: whether to write a row with the wanted values.
    fn bits(&mut self, name: &str, bits: &[ProbedBit], with_wanted: bool) -> fmt::Result {
        let room = self.width.map_or(BITS, |width| width.saturating_sub(LABEL + 7) / 4);
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
                    self.paint(paint, &digit)
                })
                .collect();
            self.plain("", &format!("{:<7}{found}", "found"))?;
            if with_wanted {
                self.plain("", &format!("{:<7}{}", "wanted", row(&|bit| digit(bit.wanted))))?;
            }
            let marks = row(&|bit| if bit.agrees() { String::new() } else { "!".into() });
            if !marks.trim().is_empty() {
                self.plain("", format!("{:<7}{marks}", "").trim_end())?;
            }
        }
        Ok(())
    }

    pub(crate) fn heading(&mut self, label: &str, text: &str) -> fmt::Result {
        let text = self.styled("1", text);
        self.plain(label, &text)
    }

    pub(crate) fn plain(&mut self, label: &str, text: &str) -> fmt::Result {
        writeln!(self.out, "{label:<LABEL$}{text}")
    }

    pub(crate) fn line(&mut self, label: &str, text: &str, took: &str) -> fmt::Result {
        let took = self.styled("2", took);
        let room = self.width.map_or(TEXT, |width| width.saturating_sub(LABEL + TOOK));
        let room = room.min(TEXT);
        writeln!(self.out, "{label:<LABEL$}{text:<room$}  {took}")
    }

    pub(crate) fn gap(&mut self) -> fmt::Result {
        writeln!(self.out)
    }

    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Red => "31",
            Paint::Green => "32",
            Paint::Yellow => "33",
        };
        self.styled(code, text)
    }

    fn styled(&self, code: &str, text: &str) -> String {
        if self.has_color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

fn entry(found: &FoundTrace) -> String {
    let (kind, bytes) = (kind_name(found.kind), counted(found.value_bytes as u64, "byte"));
    match found.value_bytes {
        0 => format!("{kind}, number {}", found.sequence),
        _ => format!("{kind} of {bytes}, number {}", found.sequence),
    }
}

pub(crate) fn kind_name(kind: u8) -> String {
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
pub(crate) fn short(key: &[u8]) -> String {
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

/// What lookups in `tables` read from files: filters, indexes and data blocks, or parts of them.
pub(crate) fn read<'a>(tables: impl Iterator<Item = &'a TableTrace>) -> String {
    let mut sums = [("filter", 0, 0), ("index", 0, 0), ("data block", 0, 0)];
    for table in tables {
        let filter = table.filter.iter().map(|filter| (0, filter.cost));
        let index = table.index.iter().map(|index| (1, index.cost));
        let blocks = table.blocks.iter().map(|block| (2, block.cost));
        for (kind, cost) in filter.chain(index).chain(blocks).filter(|(_, it)| !it.was_in_memory())
        {
            sums[kind].1 += 1;
            sums[kind].2 += cost.read_bytes;
        }
    }
    let sums: Vec<_> = sums.into_iter().filter(|(_, number, _)| *number > 0).collect();
    let kinds =
        sums.iter().map(|&(kind, n, bytes)| format!("{} of {}", counted(n, kind), size(bytes)));
    match sums.len() {
        0 => "nothing from files".into(),
        _ => kinds.collect::<Vec<_>>().join(", "),
    }
}

pub(crate) fn time(nanos: u64) -> String {
    match nanos {
        0..10_000 => format!("{} ns", count(nanos)),
        10_000..10_000_000 => format!("{:.1} µs", nanos as f64 / 1e3),
        _ => format!("{:.1} ms", nanos as f64 / 1e6),
    }
}
