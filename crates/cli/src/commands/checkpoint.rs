//! `checkpoint`: makes a copy of a database, which shares its tables by hard links where possible.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::args;
use crate::failure::Result;
use crate::output::object;
use crate::show::text::{counted, size};

/// Make a copy of a database in a new directory.
///
/// The copy is an independent database. Where the file system can make hard links, the two
/// databases share the tables. A shared table takes no additional space until one of the databases
/// replaces it.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Checkpoint {
    /// Directory of the database
    db: PathBuf,
    /// Directory of the copy, which must not exist
    dir: PathBuf,
    /// Print a JSON object: tables, bytes
    #[arg(long)]
    json: bool,
}

impl Checkpoint {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = args::open_existing(&self.db)?;
        db.checkpoint(&self.dir)?;
        let stats = db.stats();
        db.close()?;
        let others = &stats.keyspaces;
        let tables = stats.files.len() + others.iter().map(|of| of.files).sum::<usize>();
        let bytes = stats.files.iter().map(|file| file.file_bytes);
        let bytes: u64 = bytes.chain(others.iter().map(|of| of.file_bytes)).sum();
        match self.json {
            true => writeln!(out, "{}", object! { tables, bytes })?,
            false => writeln!(out, "{}, {}", counted(tables as u64, "table"), size(bytes))?,
        }
        Ok(())
    }
}
