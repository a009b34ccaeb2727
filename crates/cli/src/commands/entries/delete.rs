//! `delete`: removes one key, or a range of them.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::Db;

use crate::args::{self, Bytes, InKeyspace};
use crate::failure::Result;

/// Remove a key, or a range of keys, from a database.
///
/// Removing an absent key is no failure. When the command is done the removal survives a power
/// loss.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Delete {
    /// Directory of the database
    db: PathBuf,
    #[command(flatten)]
    keyspace: InKeyspace,
    /// The key; \xNN stands for a byte
    #[arg(
        value_parser = args::bytes(),
        allow_negative_numbers = true,
        required_unless_present = "range"
    )]
    key: Option<Bytes>,
    /// Remove all keys from A to before B instead of one key
    #[arg(
        long,
        num_args = 2,
        value_names = ["A", "B"],
        value_parser = args::bytes(),
        allow_negative_numbers = true,
        conflicts_with = "key"
    )]
    range: Option<Vec<Bytes>>,
}

impl Delete {
    pub fn run(self, _: &mut dyn Write) -> Result {
        let db = self.keyspace.open(Db::builder(&self.db), None)?;
        if let Some(key) = self.key {
            db.delete(key.0)?;
        }
        if let Some([begin, end]) = self.range.as_deref() {
            db.delete_range(&begin.0..&end.0)?;
        }
        Ok(db.close()?)
    }
}
