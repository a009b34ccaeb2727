//! The command line: `maypole COMMAND …`.
//!
//! ```text
//! compare/      the main job: one tree per filter policy, measured on the same keys
//! structures/   filters without a database, and common claims about them, measured
//! advise/       what the filters of a database do, and what others would do
//! recommend/    the rule by which all of these, and size, recommend a filter
//! bench/        db_bench's workloads on one database
//! explain/      the steps of one lookup
//! commands/     the other commands, on a database or a table file; size computes filter sizes
//! monitor/      what stats shows of a database that is in use
//!
//! picture/      inspect --filter: what a filter looks like
//! show/         figures: text, tables that fit the screen, records, curves, pages
//! args          how arguments are read           failure   what ends a command
//! output        streams, JSON, the machine       progress  bars on a terminal
//! scratch       temporary directories            space     how much of a disk a run takes
//! input         entries from files and streams   clock     what a clock reading costs
//! ```
//!
//! The program uses only the library's public interface. Results go to standard output, everything
//! else to standard error. The exit code is 0 on success, 1 on failure, and 2 if the call was wrong
//! and nothing was touched. A line of text explains each failure.

// `println!` and `eprintln!` panic if their stream is closed.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod advise;
mod args;
mod bench;
mod clock;
mod commands;
mod compare;
mod explain;
mod failure;
mod input;
mod monitor;
mod output;
mod picture;
mod progress;
mod recommend;
mod scratch;
mod show;
mod space;
mod structures;

use std::io::{BufWriter, Write, stdout};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::entries::{count, delete, get, load, put, scan};
use commands::tables::{ingest, inspect, write_table};
use commands::{
    apply_filter, checkpoint, compact, export, import, keyspaces, repair, shell, size, stats,
    verify,
};
use failure::{Failure, Result};
use output::{printable, tell};

/// Maypole: an embedded key-value store that keeps its data in RocksDB tables with a filter each.
///
/// `maypole compare` measures what filters of several kinds and sizes would save on your keys, and
/// what they cost. `maypole size` computes how large filters must be. `maypole structures` measures
/// filters without a database and compares them with those of the textbooks. `maypole bench`
/// measures reads and writes of one database. `maypole explain` shows the steps of one lookup. The
/// other commands work on one database or one table file.
///
/// Keys and values are bytes. In arguments and in output, \xNN is the byte with the hexadecimal
/// number NN, and \\ is a backslash; a backslash before anything else is itself. So a key that one
/// command prints can be an argument of another.
///
/// Numbers of keys may end in k, M or G for thousands, millions and billions, such as 1.5M. Sizes
/// in bytes may end in K, M, G or T, which are powers of 1024.
///
/// Exit code 0: done. 1: failed. 2: called wrongly, nothing was touched.
#[derive(Parser)]
#[command(name = "maypole", version, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

macro_rules! commands {
    ($($(#[$about:meta])* $Name:ident($Type:ty),)+) => {
        #[derive(Subcommand)]
        enum Command {
            $($(#[$about])* $Name($Type),)+
        }

        impl Command {
            fn run(self, out: &mut dyn Write) -> Result {
                match self {
                    $(Command::$Name(command) => command.run(out),)+
                }
            }
        }
    };
}
commands! {
    // Boxed, because its many paths and lists make it larger than the other commands.
    Compare(Box<compare::Compare>),
    Advise(advise::Advise),
    Size(size::Size),
    Bench(bench::Bench),
    Structures(structures::Structures),
    Put(put::Put),
    Get(get::Get),
    Explain(explain::Explain),
    Delete(delete::Delete),
    Scan(scan::Scan),
    Count(count::Count),
    Load(load::Load),
    WriteTable(write_table::WriteTable),
    Ingest(ingest::Ingest),
    Compact(compact::Compact),
    ApplyFilter(apply_filter::ApplyFilter),
    Checkpoint(checkpoint::Checkpoint),
    Import(import::Import),
    Export(export::Export),
    Keyspaces(keyspaces::Keyspaces),
    Stats(stats::Stats),
    Inspect(inspect::Inspect),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Completions(shell::Completions),
    Man(shell::Man),
    #[command(hide = true)]
    FilterSpeed(compare::FilterSpeed),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let mut out = BufWriter::new(stdout().lock());
    let done = cli.command.run(&mut out);
    // Output is flushed also after a failure, because results from before the failure are useful.
    let flushed = out.flush().map_err(Failure::from);
    scratch::wait_if_interrupted();
    match done.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        // In `maypole scan db | head` the reader stops early, which is no failure.
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
            tell(format_args!("error: {}", printable(&message)));
            ExitCode::FAILURE
        }
        Err(Failure::Call(message)) => {
            tell(format_args!("error: {} (--help says more)", printable(&message)));
            ExitCode::from(2)
        }
    }
}

/// Handles a call that cannot be understood, or that asks for help.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Help and version go to standard output, errors to standard error.
            let printed = error.print().and_then(|()| stdout().flush());
            if let Err(Failure::Message(message)) = printed.map_err(Failure::from) {
                tell(format_args!("error: {message}"));
                return ExitCode::FAILURE;
            }
        }
        _ => {
            // clap prints the error, then usage and hints. Only the error is kept.
            let text = error.render().to_string();
            let lines = text.lines().map(str::trim);
            let what: Vec<&str> = lines
                .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
                .filter(|line| !line.is_empty())
                .collect();
            tell(format_args!("{} (--help says more)", what.join(" ")));
        }
    }
    ExitCode::from(error.exit_code() as u8)
}
