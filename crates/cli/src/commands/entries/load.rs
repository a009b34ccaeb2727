//! `load`: puts the entries of a file, or of standard input, into a database.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::{Db, FilterPolicy, WriteBatch};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::args::InKeyspace;
use crate::failure::{Failure, Result};
use crate::input::{self, Format, Input};
use crate::output::object;
use crate::show::text;
use crate::{args, progress};

/// A batch is written when its entries take at least this many bytes.
pub const BATCH_BYTES: usize = 256 << 10;

const VALUE_BYTES: usize = 100;

/// Put the entries of a file, or of standard input, into a database, in any order.
///
/// Without --format, each line without its line feed is a key, and the values are generated. A
/// carriage return belongs to the key, and an empty line is the empty key. A byte order mark of
/// UTF-8 is skipped; UTF-16 and compressed files are rejected.
///
///     maypole load my-numbers --key-file numbers
///     maypole scan a | maypole load b --key-file - --format escaped
///
/// If a key occurs several times, its last entry counts. A missing database or keyspace is created.
/// When the command is done, all entries are in tables and survive a power loss. A line that cannot
/// be read ends the command with an error, and some of the lines before it may have been loaded.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Load {
    /// Directory of the database
    db: PathBuf,
    #[command(flatten)]
    keyspace: InKeyspace,
    /// The file; - is standard input
    #[arg(long, value_name = "F")]
    key_file: PathBuf,
    /// The format of the entries
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "keys")]
    format: Format,
    /// The same as --format tsv
    #[arg(long, conflicts_with = "format")]
    tsv: bool,
    /// Bytes of each generated value, with --format keys only [default: 100]
    #[arg(
        long,
        alias = "value-size",
        value_name = "BYTES",
        value_parser = args::value_bytes(),
        verbatim_doc_comment
    )]
    value_bytes: Option<usize>,
    /// Filters of the tables that this call writes: a policy (see compare --help). The database
    /// does not store the policy, so every program that opens it chooses the filters of new tables.
    /// Only with --keyspace it is stored, as that of the keyspace [default: bloom(10), or stored]
    #[arg(long, value_name = "POLICY", verbatim_doc_comment)]
    filter: Option<FilterPolicy>,
    /// Print a JSON object: entries, tables, bytes (of tables), filter_bytes
    #[arg(long)]
    json: bool,
}

impl Load {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let format = if self.tsv { Format::Tsv } else { self.format };
        let makes_values = format == Format::Keys;
        if self.value_bytes.is_some() && !makes_values {
            return Err(Failure::Call(
                "--value-bytes is for generated values, but this format holds values: leave it out, or \
                 take --format keys"
                    .into(),
            ));
        }
        let mut input = Input::open(&self.key_file, format)?;
        if input.is_at_end()? {
            return Err(match makes_values {
                true => no_keys(&self.key_file),
                false => Failure::new(format_args!("{}: no entries", input::name(&self.key_file))),
            });
        }
        let values = makes_values.then(|| Values::new(self.value_bytes.unwrap_or(VALUE_BYTES)));
        // The first entry is read before the database is created, so that a file in another format
        // leaves no database behind.
        let mut batch = WriteBatch::new();
        let mut entries = 0u64;
        let mut add = |batch: &mut WriteBatch, key: &[u8], value: &[u8]| {
            batch.put(key, values.as_ref().map_or(value, |values| values.of(entries)));
            entries += 1;
        };
        if let Some((key, value)) = input.next_entry()? {
            add(&mut batch, key, value);
        }
        let db = self.keyspace.open_or_create(Db::builder(&self.db), self.filter.clone())?;
        let bar = match input.file_bytes {
            Some(bytes) => progress::bar(bytes, "loading"),
            None => progress::spinner("loading"),
        };
        while let Some((key, value)) = input.next_entry()? {
            add(&mut batch, key, value);
            if batch.size_bytes() >= BATCH_BYTES {
                bar.set_position(input.bytes_read);
                db.write(std::mem::take(&mut batch))?;
            }
        }
        db.write(batch)?;
        bar.finish_and_clear();
        progress::during("flushing", || db.flush())?;
        let stats = db.stats();
        db.close()?;
        match self.json {
            false => writeln!(out, "{} loaded", text::counted(entries, "entry"))?,
            true => {
                let bytes: u64 = stats.files.iter().map(|file| file.file_bytes).sum();
                let (tables, filter_bytes) = (stats.files.len(), stats.filter_bytes());
                writeln!(out, "{}", object! { entries, tables, bytes, filter_bytes })?;
            }
        }
        Ok(())
    }
}

/// The error for an empty file of keys.
pub fn no_keys(path: &std::path::Path) -> Failure {
    Failure::new(format_args!(
        "{}: no keys: expected one key a line, found nothing",
        input::name(path)
    ))
}

/// Makes values of one size from printable characters. The values of different keys may be equal.
pub struct Values {
    text: Vec<u8>,
    size: usize,
}

/// A value is a slice of the generated text that starts at one of this many offsets.
const STARTS: u64 = 4096;

impl Values {
    pub fn new(size: usize) -> Values {
        let mut random = SmallRng::seed_from_u64(0);
        let text = (0..size + STARTS as usize).map(|_| random.random_range(b' '..=b'~')).collect();
        Values { text, size }
    }

    /// The value of the `i`-th key.
    pub fn of(&self, i: u64) -> &[u8] {
        let start = (i % STARTS) as usize;
        &self.text[start..start + self.size]
    }
}
