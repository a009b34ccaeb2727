//! `inspect`: shows a table file of Maypole or RocksDB; with `--annotate`, also a log or a
//! MANIFEST; with `--filter`, a picture of the table's filter.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::annotate::AnnotatedFile;
use maypole::filter::FilterReader;
use maypole::table::{BlockHandle, SstReader, TableCheck};
use serde_json::{Value, json};

use crate::args;
use crate::commands::stats::filter as filter_json;
use crate::failure::{Failure, Result};
use crate::output::{json_list, object};
use crate::picture;
use crate::progress;
use crate::show::sheet::Screen;
use crate::show::text::{counted, escape, percent, size};

/// Print the parts of a table file: footer, metaindex, properties, range deletions, filter.
///
/// FILE is any table that RocksDB (format_version 2 to 7) or Maypole wrote. The command reads the
/// whole file, checks every checksum and the order of the keys, and queries the filter for every
/// key. The first damage found, and a filter that misses a key, are failures: exit code 1.
///
/// --annotate prints every field of the file with its meaning. FILE may then also be a WAL or a
/// MANIFEST of Maypole. Damage is no failure: the dump shows which bytes cannot be decoded.
///
/// --filter draws the filter. The picture of a Bloom filter shows which share of the bits of each
/// cache line is set, and compares the numbers of set bits with theory. The picture of a ribbon
/// shows the equations of its keys, each with its few adjacent columns (the band). A burr filter
/// has several layers: keys that do not fit into one are passed on (bumped) to the next. Its
/// picture also shows how many keys each layer bumped, and for each bucket of start positions the
/// threshold that decides which keys stay. To count these keys, the command reads all keys of the
/// table. A fuse filter is described in one line, without a picture. If the table has no usable
/// filter, the command says why there is no picture.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Inspect {
    /// The table file
    file: PathBuf,
    /// Print every entry instead, as RocksDB's `sst_dump --command=scan --output_hex` does:
    /// 'KEY HEX' seq:N, type:T => VALUE HEX. Range deletions are not printed
    #[arg(long, verbatim_doc_comment)]
    entries: bool,
    /// Print offset, bytes and meaning of every field instead. Long fields are cut
    #[arg(long, conflicts_with = "entries")]
    annotate: bool,
    /// Print a JSON object instead: format_version, checksum, metaindex, properties,
    /// range_deletions (how many), filter, filter_partitions, data_blocks, entries, filter_misses,
    /// unknown_entries
    #[arg(long, conflicts_with_all = ["entries", "annotate"], verbatim_doc_comment)]
    json: bool,
    /// Draw the filter instead
    #[arg(long, conflicts_with_all = ["entries", "annotate", "json"])]
    filter: bool,
    /// With --filter: write the picture to this file too, as SVG. The name ends in .svg
    #[arg(long, value_name = "FILE.svg", requires = "filter", value_parser = args::svg_file())]
    out: Option<PathBuf>,
}

impl Inspect {
    pub fn run(self, out: &mut dyn Write) -> Result {
        if self.annotate {
            write!(out, "{}", AnnotatedFile::open(&self.file)?)?;
            return Ok(());
        }
        let table = SstReader::open(&self.file)?;
        if self.entries {
            let mut entries = table.entries();
            while let Some(entry) = entries.next_entry()? {
                writeln!(out, "{entry}")?;
            }
            return Ok(());
        }
        if self.filter {
            return self.picture(&table, out);
        }
        if !self.json {
            footer(&table, out)?;
            metaindex(&table, out)?;
            properties(&table, out)?;
            range_deletions(&table, out)?;
            filter(&table, out)?;
        }
        // The whole table is read, and the filter queried for every key.
        let check = progress::during("reading the whole table", || table.verify())?;
        match self.json {
            true => writeln!(out, "{}", to_json(&table, &check)?)?,
            false => checked(&check, out)?,
        }
        match check.filter_misses {
            0 => Ok(()),
            misses => Err(Failure::new(format_args!(
                "{}: the filter misses {} that are there",
                self.file.display(),
                counted(misses, "key")
            ))),
        }
    }

    /// Prints the picture of the filter. A filter that cannot be drawn is a failure only if `--out`
    /// is given.
    fn picture(&self, table: &SstReader, out: &mut dyn Write) -> Result {
        let picture = match (picture::of(table)?, &self.out) {
            (Ok(picture), Some(_)) if picture.panels.is_empty() => Err(picture.title),
            (picture, _) => picture,
        };
        let picture = match (picture, &self.out) {
            (Ok(picture), _) => picture,
            (Err(why), None) => {
                writeln!(out, "Nothing to draw: {why}")?;
                return Ok(());
            }
            (Err(why), Some(path)) => {
                return Err(Failure::new(format_args!(
                    "{}: nothing to draw: {why}; {} was not written",
                    self.file.display(),
                    path.display()
                )));
            }
        };
        if let Some(path) = &self.out {
            fs::write(path, picture::svg(&picture))
                .map_err(|error| Failure::of_file(path, "write", &error))?;
        }
        write!(out, "{}", picture::text(&picture, &Screen::stdout()))?;
        Ok(())
    }
}

fn checked(check: &TableCheck, out: &mut dyn Write) -> Result {
    let text = format!(
        "Checked: {}, {}, {}: checksums and key order are right",
        counted(check.data_blocks, "data block"),
        counted(check.entries, "entry"),
        counted(check.range_deletions, "range deletion")
    );
    writeln!(out, "\n{}", Screen::stdout().wrap(&text))?;
    writeln!(out, "filter misses: {}", check.filter_misses)?;
    if check.unknown_entries > 0 {
        writeln!(
            out,
            "not understood: {} of types other than 0, 1 and 7, which only RocksDB reads; --entries \
             shows types",
            counted(check.unknown_entries, "entry")
        )?;
    }
    Ok(())
}

fn to_json(table: &SstReader, check: &TableCheck) -> Result<String> {
    let metaindex = table.metaindex().iter().map(|(name, handle)| {
        object! { handle => name = json!(escape(name.as_bytes())), offset, bytes }
    });
    let text = |value: &dyn std::fmt::Display| json!(escape(value.to_string().as_bytes()));
    let properties: serde_json::Map<String, Value> =
        table.properties().iter().map(|(name, value)| (name.into_owned(), text(&value))).collect();
    let filter = table.filter()?;
    Ok(object! {
        check =>
            format_version = table.footer().format_version,
            checksum = json!(table.footer().checksum.name()), metaindex = json_list(metaindex),
            properties = Value::Object(properties), range_deletions,
            filter = filter.as_ref().map_or("null".into(), filter_json),
            filter_partitions = table.filters()?.len(), data_blocks, entries, filter_misses,
            unknown_entries
    })
}

fn footer(table: &SstReader, out: &mut dyn Write) -> Result {
    let footer = table.footer();
    writeln!(out, "Footer")?;
    line(out, "format_version", footer.format_version)?;
    line(out, "checksum", footer.checksum.name())?;
    if footer.checksum_context_base != 0 {
        line(out, "checksum context", format_args!("{:#010x}", footer.checksum_context_base))?;
    }
    line(out, "metaindex", extent(footer.metaindex))?;
    if let Some(index) = footer.index {
        line(out, "index", extent(index))?;
    }
    Ok(())
}

fn metaindex(table: &SstReader, out: &mut dyn Write) -> Result {
    writeln!(out, "\nMetaindex")?;
    for (name, handle) in table.metaindex() {
        line(out, name, extent(*handle))?;
    }
    Ok(())
}

fn properties(table: &SstReader, out: &mut dyn Write) -> Result {
    writeln!(out, "\nProperties")?;
    for (name, value) in table.properties().iter() {
        // Names and texts come from a file, so they are made printable for the terminal.
        let value = escape(value.to_string().as_bytes());
        line(out, &name, value.trim_end())?;
    }
    Ok(())
}

const RANGES_SHOWN: usize = 20;

fn range_deletions(table: &SstReader, out: &mut dyn Write) -> Result {
    let ranges = table.range_deletions();
    if ranges.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nRange deletions")?;
    for range in ranges.iter().take(RANGES_SHOWN) {
        let sequence = format_args!("seq {}", range.sequence).to_string();
        let (start, end) = (escape(&range.start), escape(&range.end));
        line(out, &sequence, format_args!("\"{start}\" to before \"{end}\""))?;
    }
    match ranges.len().saturating_sub(RANGES_SHOWN) {
        0 => Ok(()),
        more => line(out, "and more", more),
    }
}

fn filter(table: &SstReader, out: &mut dyn Write) -> Result {
    writeln!(out, "\nFilter")?;
    let Some(filter) = table.filter()? else {
        return match picture::filter_not_read(table) {
            Some(name) => line(out, "family", format_args!("one that is not read here: {name}")),
            None => line(out, "family", "none"),
        };
    };
    let parts = table.filters()?;
    match (filter.family, parts.iter().find_map(FilterReader::untrusted)) {
        (Some(family), None) => line(out, "family", family)?,
        (_, reason) => {
            let reason = reason.unwrap_or("unknown");
            line(out, "family", format_args!("cannot be used, answers maybe: {reason}"))?;
        }
    }
    if let Some(why) = table.filter_is_unasked() {
        line(out, "asked", format_args!("never: {why}"))?;
    }
    if parts.len() != 1 {
        line(out, "partitions", parts.len())?;
    }
    line(out, "bytes", format_args!("{} ({})", filter.bytes, size(filter.bytes)))?;
    line(out, "keys", filter.keys)?;
    if filter.keys > 0 {
        line(out, "bits/key", format_args!("{:.3}", filter.bits_per_key()))?;
    }
    if let Some(probes) = parts.first().and_then(FilterReader::probes) {
        line(out, "probes", probes)?;
    }
    let bits_set = |part: &FilterReader| Some(part.fill()? * part.bytes().len() as f64);
    if let Some(bytes_set) = parts.iter().map(bits_set).sum::<Option<f64>>() {
        let fill = percent(bytes_set / filter.bytes.max(1) as f64);
        line(out, "fill", format_args!("{fill} of the bits are set"))?;
    }
    match filter.predicted_fpr {
        Some(rate) => line(out, "predicted rate", percent(rate)),
        None => Ok(()),
    }
}

fn line(out: &mut dyn Write, name: &str, value: impl std::fmt::Display) -> Result {
    let (name, value) = (escape(name.as_bytes()), value.to_string());
    let screen = Screen::stdout();
    let text = format!("  {name:<56} {value}");
    let fits = |text: &str| screen.width.is_none_or(|width| text.chars().count() <= width);
    // A line that is wider than the screen is printed without padding. If it is still too wide, the
    // value is printed below its name.
    match fits(&text) {
        true => writeln!(out, "{text}")?,
        false if fits(&format!("  {name}  {value}")) => writeln!(out, "  {name}  {value}")?,
        false => {
            writeln!(out, "{}\n{}", cut(&name, 2, &screen), cut(&value, 4, &screen))?;
        }
    }
    Ok(())
}

/// Breaks a text into indented lines as wide as the screen. It breaks words too, because the text
/// may be one long word.
fn cut(text: &str, set_in: usize, screen: &Screen) -> String {
    let room = screen.width.map_or(usize::MAX, |width| width.saturating_sub(set_in).max(1));
    let characters: Vec<char> = text.chars().collect();
    let lines = characters.chunks(room).map(|line| line.iter().collect::<String>());
    lines.map(|line| " ".repeat(set_in) + &line).collect::<Vec<_>>().join("\n")
}

fn extent(handle: BlockHandle) -> String {
    format!("offset {}, {} bytes", handle.offset, handle.bytes)
}
