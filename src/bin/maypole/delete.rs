//! `delete`: removes one key.

use std::path::PathBuf;

use clap::Args;

use crate::args::{self, Bytes};
use crate::failure::Result;

/// Remove a key from a database.
///
/// A key that is not there is no failure. When the command is done the removal survives a power
/// loss.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Delete {
    /// Directory of the database
    db: PathBuf,
    /// The key; \xNN stands for a byte
    #[arg(value_parser = args::bytes(), allow_negative_numbers = true)]
    key: Bytes,
}

impl Delete {
    pub fn run(self) -> Result {
        let db = args::open_existing(&self.db)?;
        db.delete(self.key.0)?;
        Ok(db.close()?)
    }
}
