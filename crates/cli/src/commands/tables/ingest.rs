//! `ingest`: adds table files to a database.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::Db;
use maypole::table::SstReader;

use crate::args::InKeyspace;
use crate::failure::Result;
use crate::output::object;
use crate::progress;
use crate::show::text::{counted, size};

/// Add table files to a database, as one write that is newer than all earlier ones.
///
/// The files come from `maypole write-table` or from RocksDB's SstFileWriter, and the key ranges of
/// no two may overlap. Each is copied, read whole and checked, and keeps its filter. Tables are
/// rejected if they have merge operands or other entries that only RocksDB reads, sequence numbers
/// other than 0, a column family other than the default one, or a key order other than that of the
/// bytes. A missing database or keyspace is created. Either all files enter the database or none.
/// When the command is done, the new entries survive a power loss.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Ingest {
    /// Directory of the database
    db: PathBuf,
    #[command(flatten)]
    keyspace: InKeyspace,
    /// The table files
    #[arg(value_name = "FILES", required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON object: tables, entries, bytes
    #[arg(long)]
    json: bool,
}

impl Ingest {
    pub fn run(self, out: &mut dyn Write) -> Result {
        // The files are opened before a database is created, because a file may be missing or not
        // be a table.
        let (mut entries, mut bytes) = (0u64, 0);
        for file in &self.files {
            let table = SstReader::open(file)?;
            entries = table.properties().entries().saturating_add(entries);
            bytes += table.file_bytes();
        }
        let db = self.keyspace.open_or_create(Db::builder(&self.db), None)?;
        progress::during("copying and checking tables", || db.ingest(&self.files))?;
        db.close()?;
        let tables = self.files.len();
        match self.json {
            true => writeln!(out, "{}", object! { tables, entries, bytes })?,
            false => {
                let (tables, entries) =
                    (counted(tables as u64, "table"), counted(entries, "entry"));
                writeln!(out, "{tables}, {entries}, {} taken in", size(bytes))?;
            }
        }
        Ok(())
    }
}
