//! `put`: one key, one value.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::Db;

use crate::args::{self, Bytes, InKeyspace};
use crate::failure::Result;

/// Set a key of a database to a value.
///
/// A missing database or keyspace is created. When the command is done the write survives a power
/// loss.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Put {
    /// Directory of the database
    db: PathBuf,
    #[command(flatten)]
    keyspace: InKeyspace,
    /// The key; \xNN stands for a byte
    #[arg(value_parser = args::bytes(), allow_negative_numbers = true)]
    key: Bytes,
    /// The value, in the same notation
    #[arg(value_parser = args::bytes(), allow_negative_numbers = true)]
    value: Bytes,
}

impl Put {
    pub fn run(self, _: &mut dyn Write) -> Result {
        let db = self.keyspace.open_or_create(Db::builder(&self.db), None)?;
        db.put(self.key.0, self.value.0)?;
        Ok(db.close()?)
    }
}
