//! `explain`: the steps of one lookup, in a database or in one table.
//!
//! ```text
//! Db::explain, SstReader::explain  ─►  trace  ─┬─ its Display   for people, colored on a terminal
//!                                              └─ json          for programs
//! ```

mod json;

use std::fmt::Display;
use std::io::Write;

use clap::Args;
use maypole::table::SstReader;

use crate::args::{self, Bytes, ReadDb};
use crate::failure::Result;
use crate::show::sheet::Screen;
use crate::show::text::escape;

/// Show each step of one lookup: the results of memtables, key ranges, filters, indexes and blocks,
/// and the time and the bytes of each.
///
/// For a filter, the command shows every bit that was compared, and whether the answer was right: a
/// "maybe" for an absent key is a false positive. The last lines show the cost of the same lookup
/// without filters. The lookup is that of `get`, but an absent key is not a failure. If the path is
/// that of a table file, the command shows the lookup in this table, which RocksDB may have
/// written.
///
/// The block cache of a database that was just opened is empty, so everything is read from files;
/// see --warm. Times are those of one lookup. The time of each step includes reading the clock,
/// which takes tens of nanoseconds.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Explain {
    #[command(flatten)]
    db: ReadDb,
    /// The key; \xNN stands for a byte
    #[arg(value_parser = args::bytes(), allow_negative_numbers = true)]
    key: Bytes,
    /// Look the key up once before, so that the blocks that it needs are in memory
    #[arg(long)]
    warm: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let key = &self.key.0;
        let screen = Screen::stdout();
        if self.db.path().is_file() {
            let table = SstReader::open(self.db.path())?;
            if self.warm {
                table.explain(key)?;
            }
            let trace = table.explain(key)?;
            match self.json {
                true => writeln!(out, "{}", json::table_lookup(key, &trace))?,
                false => {
                    let key = screen.bold(&format!("\"{}\"", escape(key)));
                    write!(out, "key        {key}\n{}", shown(&trace, &screen))?;
                }
            }
            return Ok(());
        }
        let db = self.db.open()?;
        if self.warm {
            db.explain(key)?;
        }
        let trace = db.explain(key)?;
        match self.json {
            true => writeln!(out, "{}", json::lookup(&trace))?,
            false => write!(out, "{}", shown(&trace, &screen))?,
        }
        Ok(db.close()?)
    }
}

/// The text of a trace, for the width and the colours of the screen. On a screen that shows only
/// ASCII, the time at the end of a line is written in ASCII, such as `us` for `µs`. The rest of the
/// line stays as it is, because it may contain a key.
fn shown(trace: &impl Display, screen: &Screen) -> String {
    // A formatter accepts only widths of 16 bits, so the width is limited.
    let text = match (screen.has_color, screen.width.map(|width| width.min(1000))) {
        (true, Some(width)) => format!("{trace:#width$}"),
        (true, None) => format!("{trace:#}"),
        (false, Some(width)) => format!("{trace:width$}"),
        (false, None) => trace.to_string(),
    };
    let line = |line: &str| {
        let end = line.rfind("  ").filter(|_| !line.starts_with("key ")).unwrap_or(line.len());
        format!("{}{}", &line[..end], screen.drawn(&line[end..]))
    };
    text.split_inclusive('\n').map(line).collect()
}
