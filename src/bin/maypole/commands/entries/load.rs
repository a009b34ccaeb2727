//! `load`: entries of a file, or of standard input, into a database.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::{Db, FilterPolicy, WriteBatch};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::failure::{Failure, Result};
use crate::input::{Format, Input};
use crate::show::text;
use crate::{args, progress};

/// Bytes of keys and values that are written together.
pub const BATCH_BYTES: usize = 256 << 10;

/// Put the entries of a file, or of standard input, into a database, in any order.
///
/// Without --format every line is a key, and its value is made up: the bytes of the line without
/// the line feed; an empty line is the empty key. Of equal keys the last one counts. A missing
/// database is created. Everything is in tables, and survives a power loss, when the command is
/// done. A line that cannot be read is a failure; some of those before it may be loaded then.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Load {
    /// Directory of the database
    db: PathBuf,
    /// The file; - is standard input
    #[arg(long, value_name = "F")]
    key_file: PathBuf,
    /// How the entries are written down
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "keys")]
    format: Format,
    /// The same as --format tsv
    #[arg(long, conflicts_with = "format")]
    tsv: bool,
    /// Bytes of each value that is made up
    #[arg(
        long,
        alias = "value-size",
        value_name = "B",
        default_value_t = 100,
        value_parser = args::value_bytes(),
        conflicts_with = "tsv"
    )]
    value_bytes: usize,
    /// Filters of the tables that this call writes: a policy, as compare takes it. The database
    /// does not keep it: whoever opens it next says which filters its new tables get
    #[arg(long, value_name = "POLICY", default_value = "bloom(10)", verbatim_doc_comment)]
    filter: FilterPolicy,
    /// Print a JSON object: entries, tables, bytes (of tables), filter_bytes
    #[arg(long)]
    json: bool,
}

impl Load {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let format = if self.tsv { Format::Tsv } else { self.format };
        let mut input = Input::open(&self.key_file, format)?;
        if input.is_at_end()? {
            return Err(no_keys(&self.key_file));
        }
        let values = (format == Format::Keys).then(|| Values::new(self.value_bytes));
        let db = Db::builder(&self.db).filter(self.filter.clone()).open()?;
        let bar = match input.file_bytes {
            Some(bytes) => progress::bar(bytes, "loading"),
            None => progress::spinner("loading"),
        };
        let (mut batch, mut entries) = (WriteBatch::new(), 0u64);
        while let Some((key, value)) = input.next_entry()? {
            batch.put(key, values.as_ref().map_or(value, |values| values.of(entries)));
            entries += 1;
            if batch.size_bytes() >= BATCH_BYTES {
                bar.set_position(input.bytes_read);
                db.write(std::mem::take(&mut batch))?;
            }
        }
        db.write(batch)?;
        bar.finish_and_clear();
        let spinner = progress::spinner("flushing");
        db.flush()?;
        let stats = db.stats();
        db.close()?;
        spinner.finish_and_clear();
        match self.json {
            false => writeln!(out, "{} entries loaded", text::count(entries))?,
            true => {
                let bytes: u64 = stats.files.iter().map(|file| file.file_bytes).sum();
                let (tables, filters) = (stats.files.len(), stats.filter_bytes());
                writeln!(
                    out,
                    "{{\"entries\": {entries}, \"tables\": {tables}, \"bytes\": {bytes}, \
                     \"filter_bytes\": {filters}}}"
                )?;
            }
        }
        Ok(())
    }
}

/// What is said of an empty file of keys.
pub fn no_keys(path: &std::path::Path) -> Failure {
    Failure::new(format_args!(
        "{}: no keys: expected one key a line, found nothing",
        path.display()
    ))
}

/// Made-up values: printable, all of one size, and not all alike.
pub struct Values {
    text: Vec<u8>,
    size: usize,
}

/// Values start at this many different offsets of the text.
const STARTS: u64 = 4096;

impl Values {
    /// Values of `size` bytes.
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
