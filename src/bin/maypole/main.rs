//! The command line: `maypole COMMAND …`.
//!
//! ```text
//! compare/      the main job: one tree per filter policy, measured on the same keys
//! bench/        db_bench's workloads on one database
//! structures/   filters by themselves, and what is said of them
//! put get delete scan load stats verify repair   on a database
//! inspect                                     on one table file, whoever wrote it
//!
//! args       how arguments are read           text      how bytes are shown
//! failure    what ends a command              progress  bars on a terminal
//! output     tables, JSON, the machine        clock     what reading it costs
//! scratch    directories that never stay      space     what a run takes of a disk
//! ```
//!
//! It uses the library's public interface only. Results go to standard output, everything else to
//! standard error. Exit code 0: done. 1: it failed, said in one line. 2: it was called wrongly, said
//! in one line, and nothing was touched.

// They panic where their stream is closed.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod bench;
mod clock;
mod compare;
mod delete;
mod failure;
mod get;
mod inspect;
mod load;
mod output;
mod progress;
mod put;
mod repair;
mod scan;
mod scratch;
mod space;
mod stats;
mod structures;
mod text;
mod verify;

use std::io::{BufWriter, Write, stdout};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{Failure, Result};
use output::tell;

/// Maypole: an embedded key-value store that keeps its data in RocksDB tables with a filter each.
///
/// `maypole compare` measures what filters of several kinds and sizes would save on your keys, and
/// what they cost; `maypole bench` measures reads and writes of one database. The other commands work
/// on one database or one table file.
///
/// Keys and values are bytes. On the command line and in what is printed, \xNN stands for the byte
/// with the hexadecimal number NN and \\ for a backslash; a backslash before anything else stands for
/// itself. What one command prints, another one takes.
///
/// Exit code 0: done. 1: failed. 2: called wrongly, nothing was touched.
#[derive(Parser)]
#[command(name = "maypole", version, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Compare(compare::Compare),
    Bench(bench::Bench),
    Structures(structures::Structures),
    Put(put::Put),
    Get(get::Get),
    Delete(delete::Delete),
    Scan(scan::Scan),
    Load(load::Load),
    Stats(stats::Stats),
    Inspect(inspect::Inspect),
    Verify(verify::Verify),
    Repair(repair::Repair),
}

impl Command {
    fn run(self, out: &mut dyn Write) -> Result {
        match self {
            Command::Compare(command) => command.run(out),
            Command::Bench(command) => command.run(out),
            Command::Structures(command) => command.run(out),
            Command::Put(command) => command.run(),
            Command::Get(command) => command.run(out),
            Command::Delete(command) => command.run(),
            Command::Scan(command) => command.run(out),
            Command::Load(command) => command.run(out),
            Command::Stats(command) => command.run(out),
            Command::Inspect(command) => command.run(out),
            Command::Verify(command) => command.run(out),
            Command::Repair(command) => command.run(out),
        }
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let mut out = BufWriter::new(stdout().lock());
    let done = cli.command.run(&mut out);
    // Also after a failure: what was found before it is worth showing.
    let flushed = out.flush().map_err(Failure::from);
    scratch::wait_if_interrupted();
    match done.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        // `maypole scan db | head`: nobody reads on, and that is fine.
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Message(message)) => {
            tell(format_args!("error: {}", failure::one_line(&message)));
            ExitCode::FAILURE
        }
    }
}

/// A call that cannot be understood, or that asks for help.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Standard output for what was asked for, standard error otherwise.
            let printed = error.print().and_then(|()| stdout().flush());
            if let Err(Failure::Message(message)) = printed.map_err(Failure::from) {
                tell(format_args!("error: {message}"));
                return ExitCode::FAILURE;
            }
        }
        _ => {
            // clap says what is wrong first, and goes on with usage and hints.
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
