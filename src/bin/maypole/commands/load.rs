//! `load`: a file of keys into a database.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use clap::Args;
use maypole::{Db, WriteBatch};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::failure::{Failure, Result};
use crate::show::text;
use crate::{args, progress};

/// Bytes of keys and values that are written together.
pub const BATCH_BYTES: usize = 256 << 10;

/// Put every line of a file into a database, as a key with a made-up value.
///
/// A key is the bytes of its line, without the line feed; an empty line is the empty key, and of
/// equal lines one is kept. A missing database is created. Everything is in tables, and survives a
/// power loss, when the command is done.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Load {
    /// Directory of the database
    db: PathBuf,
    /// The file of keys, one a line
    #[arg(long, value_name = "F")]
    key_file: PathBuf,
    /// Bytes of each value
    #[arg(long, value_name = "B", default_value_t = 100, value_parser = args::value_bytes())]
    value_size: usize,
}

impl Load {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let failed = |error| Failure::of_file(&self.key_file, "read", &error);
        let file = File::open(&self.key_file)
            .map_err(|error| Failure::of_file(&self.key_file, "open", &error))?;
        let file_bytes = file.metadata().map_err(failed)?.len();
        let mut lines = BufReader::with_capacity(1 << 20, file);
        if lines.fill_buf().map_err(failed)?.is_empty() {
            return Err(no_keys(&self.key_file));
        }

        let values = Values::new(self.value_size);
        let db = Db::open(&self.db)?;
        let bar = progress::bar(file_bytes, "loading");
        let (mut line, mut batch, mut count) = (Vec::new(), WriteBatch::new(), 0u64);
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line).map_err(failed)?;
            if read > 0 {
                let key = line.strip_suffix(b"\n").unwrap_or(&line);
                batch.put(key, values.of(count));
                count += 1;
                bar.inc(read as u64);
            }
            if read == 0 || batch.size_bytes() >= BATCH_BYTES {
                db.write(std::mem::take(&mut batch))?;
            }
            if read == 0 {
                break;
            }
        }
        bar.finish_and_clear();
        let spinner = progress::spinner("flushing");
        db.flush()?;
        db.close()?;
        spinner.finish_and_clear();
        writeln!(out, "{} lines loaded", text::count(count))?;
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
