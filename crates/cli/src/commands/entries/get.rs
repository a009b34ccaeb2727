//! `get`: the value of one key.

use std::io::Write;

use clap::Args;

use crate::args::{self, Bytes, ReadDb};
use crate::failure::{Failure, Result};
use crate::show::text::escape;

/// Print the value of a key.
///
/// If the key is absent, the command fails with exit code 1.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Get {
    #[command(flatten)]
    db: ReadDb,
    /// The key; \xNN stands for a byte
    #[arg(value_parser = args::bytes(), allow_negative_numbers = true)]
    key: Bytes,
    /// Print the bytes of the value as they are, and nothing after them
    #[arg(long)]
    raw: bool,
}

impl Get {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = self.db.open()?;
        let Some(value) = db.get(&self.key.0)? else {
            return Err(Failure::new(format_args!(
                "no value for the key \"{}\"",
                escape(&self.key.0)
            )));
        };
        match self.raw {
            true => out.write_all(&value)?,
            false => writeln!(out, "{}", escape(&value))?,
        }
        Ok(db.close()?)
    }
}
