//! What the deletions, overwrites, queues and checkpoints of a living database cost: the time of an
//! operation, and what is left on disk after compaction has settled.
//!
//! ```text
//! loads   what each load does to an engine      pace   operations against a clock
//! ```
//!
//! The loads run one after the other, each on one engine after the other. Each run has a process
//! and a directory of its own, and the directory is removed afterwards. RocksDB runs with its
//! options for trees with many deletions. A row with a `+` is the same engine with help from the
//! application; the text of the load says what the help is.

mod disk;
mod loads;
mod pace;

use std::process::{Command, Stdio};

use clap::Args;

use crate::Options;
use crate::engine::{Kind, Result};
use loads::{Figures, LOADS, Load, Place};

#[derive(Args, Clone)]
pub struct Living {
    /// Scale of the loads: the number of operations and entries is multiplied by it.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// The most seconds of a phase that pops entries (popfirst, queue) or scans (overwritehot).
    /// Such a phase is cut short at this time, and the figures say how many entries were popped.
    #[arg(long, default_value_t = 12)]
    phase_seconds: u64,
    /// Ingest: the puts a second; 0 for no limit.
    #[arg(long, default_value_t = loads::PUTS_PER_SECOND)]
    puts_per_second: u64,
    #[command(flatten)]
    options: Options,
}

/// One load on one engine, in this process: started by [`Living::compare`].
#[derive(Args)]
pub struct One {
    engine: Kind,
    load: String,
    /// The help from the application, if any.
    #[arg(long, default_value = "")]
    help_from_application: String,
    #[command(flatten)]
    living: Living,
}

impl Living {
    pub fn compare(&self) -> Result<()> {
        for load in LOADS.iter().filter(|load| self.options.wants(load.name)) {
            self.measure(load)?;
        }
        Ok(())
    }

    /// One load on every engine; prints a row for each.
    fn measure(&self, load: &Load) -> Result<()> {
        let mut rows: Vec<(String, Figures)> = Vec::new();
        for &kind in &self.options.engines {
            if load.not.contains(&kind) {
                continue;
            }
            let helps = load.helps.iter().filter(|(of, _)| *of == kind).map(|(_, help)| *help);
            for help in std::iter::once("").chain(helps) {
                let separator = if help.is_empty() { "" } else { "+" };
                let name = format!("{}{separator}{help}", kind.name());
                eprintln!("{name}: {}", load.name);
                rows.push((name, self.start(load, kind, help)?));
            }
        }
        println!("{}: {}", load.name, load.text);
        print(&rows);
        println!();
        Ok(())
    }

    /// Runs a load in a process of its own.
    fn start(&self, load: &Load, kind: Kind, help: &str) -> Result<Figures> {
        let parent = self.options.dir.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = tempfile::tempdir_in(parent)?;
        let output = Command::new(std::env::current_exe()?)
            .args(["living-load", kind.name(), load.name])
            .arg(format!("--help-from-application={help}"))
            .arg(format!("--scale={}", self.scale))
            .arg(format!("--phase-seconds={}", self.phase_seconds))
            .arg(format!("--puts-per-second={}", self.puts_per_second))
            .arg("--dir")
            .arg(scratch.path())
            .args(self.options.for_server())
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(format!("{} failed at {}", kind.name(), load.name).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let figure = |line: &str| -> Result<(String, f64)> {
            let (name, figure) = line.rsplit_once('\t').ok_or("expected NAME, a tab, FIGURE")?;
            Ok((name.to_string(), figure.parse()?))
        };
        text.lines().map(figure).collect()
    }
}

impl One {
    pub fn run(&self) -> Result<()> {
        let load = LOADS.iter().find(|load| load.name == self.load).ok_or("no such load")?;
        let options = &self.living.options;
        let place = Place {
            kind: self.engine,
            help: &self.help_from_application,
            dir: options.dir.as_deref().ok_or("living-load needs --dir")?,
            options: options.clone(),
            scale: self.living.scale,
            phase: std::time::Duration::from_secs(self.living.phase_seconds),
            puts_per_second: self.living.puts_per_second,
        };
        for (name, figure) in (load.run)(place)? {
            println!("{name}\t{figure}");
        }
        Ok(())
    }
}

/// A row for each engine, a column for each figure that any of them has.
fn print(rows: &[(String, Figures)]) {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|(_, figures)| figures) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let width = |column: &str| column.chars().count().max(8) + 2;
    print!("{:<18}", "");
    columns.iter().for_each(|column| print!("{column:>width$}", width = width(column)));
    println!();
    for (name, figures) in rows {
        print!("{name:<18}");
        for column in &columns {
            let figure = figures.iter().find(|(name, _)| name == column).map(|(_, figure)| *figure);
            print!("{:>width$}", figure.map_or("-".into(), digits), width = width(column));
        }
        println!();
    }
}

/// A whole number has no decimals. Any other number has three decimals below 1, three digits in all
/// from 1 to 100, and no decimals from 100 on.
fn digits(figure: f64) -> String {
    match figure.abs() {
        _ if figure.is_nan() => "-".into(),
        _ if figure == figure.trunc() => format!("{figure}"),
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        1.0.. => format!("{figure:.2}"),
        _ => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_three_digits_and_whole_ones_have_no_point() {
        let shown = [1234.5, 12.345, 1.2345, 0.01234, 1e6, 0.0, f64::NAN].map(digits);
        assert_eq!(shown, ["1234", "12.3", "1.23", "0.012", "1000000", "0", "-"]);
    }
}
