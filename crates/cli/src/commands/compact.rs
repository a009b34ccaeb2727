//! `compact`: merges the tables of a database, or those of a range of keys, into one sorted run.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::{Db, FilterPolicy, Stats};

use crate::args::{InKeyspace, KeyRange};
use crate::failure::Result;
use crate::output::object;
use crate::progress;
use crate::show::text::{counted, size};

/// Rewrite the tables of a database into its last level, without old versions and deletions.
///
/// The new tables get the filters of --filter, so this command also changes the filters of a
/// database. A keyspace other than `default` stores its policy: --filter replaces it. With --prefix,
/// --from or --to, only tables that overlap this range of keys are rewritten. The command needs as
/// much free space as the tables that it rewrites. The figures of before do not include writes that
/// only the log holds.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Compact {
    /// Directory of the database
    db: PathBuf,
    #[command(flatten)]
    keyspace: InKeyspace,
    #[command(flatten)]
    range: KeyRange,
    /// Filters of the new tables: a policy (see compare --help)
    /// [default: bloom(10), or that of the keyspace]
    #[arg(long, value_name = "POLICY", verbatim_doc_comment)]
    filter: Option<FilterPolicy>,
    /// Print a JSON object: before and after, each {tables, entries, bytes, filter_bytes}
    #[arg(long)]
    json: bool,
}

/// What the tables of a database hold.
struct Holds {
    tables: usize,
    entries: u64,
    bytes: u64,
    filter_bytes: u64,
}

impl Holds {
    fn of(stats: &Stats) -> Holds {
        Holds {
            tables: stats.files.len(),
            entries: stats.files.iter().map(|file| file.entries).sum(),
            bytes: stats.files.iter().map(|file| file.file_bytes).sum(),
            filter_bytes: stats.filter_bytes(),
        }
    }

    fn to_json(&self) -> String {
        object! { self => tables, entries, bytes, filter_bytes }
    }
}

impl Compact {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let builder = Db::builder(&self.db);
        // Opening for writing may begin an automatic compaction, which would change what is counted.
        // But a read-only handle keeps all tables open, for which the descriptors may be too few.
        let unchanged = match builder.clone().open_read_only() {
            Ok(db) => Some(self.keyspace.of(&db)?.stats()),
            Err(_) => None,
        };
        let db = self.keyspace.open(builder, self.filter)?;
        let before = Holds::of(&unchanged.unwrap_or_else(|| db.stats()));
        progress::during("compacting", || {
            db.compact_range(self.range.bounds())?;
            db.wait_for_compaction()
        })?;
        let after = Holds::of(&db.stats());
        db.close()?;
        if self.json {
            let object = object! { before = before.to_json(), after = after.to_json() };
            writeln!(out, "{object}")?;
            return Ok(());
        }
        for (when, holds) in [("before", before), ("after ", after)] {
            writeln!(
                out,
                "{when}: {}, {}, {}, filters {}",
                counted(holds.tables as u64, "table"),
                counted(holds.entries, "entry"),
                size(holds.bytes),
                size(holds.filter_bytes)
            )?;
        }
        Ok(())
    }
}
