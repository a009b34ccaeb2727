//! `count`: the number of keys.

use std::io::Write;

use clap::Args;

use crate::args::{KeyRange, ReadDb};
use crate::failure::Result;
use crate::output::object;

/// Print how many keys there are.
///
/// The count is exact and as slow as a scan, because every entry is read. `maypole stats` is quick
/// but counts old versions and deletions too.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Count {
    #[command(flatten)]
    db: ReadDb,
    #[command(flatten)]
    range: KeyRange,
    /// Print a JSON object: keys, key_bytes, value_bytes
    #[arg(long)]
    json: bool,
}

impl Count {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let db = self.db.open()?;
        let (mut keys, mut key_bytes, mut value_bytes) = (0u64, 0u64, 0u64);
        for entry in self.range.entries(&db) {
            let (key, value) = entry?;
            keys += 1;
            key_bytes += key.len() as u64;
            value_bytes += value.len() as u64;
        }
        match self.json {
            false => writeln!(out, "{keys}")?,
            true => writeln!(out, "{}", object! { keys, key_bytes, value_bytes })?,
        }
        Ok(db.close()?)
    }
}
