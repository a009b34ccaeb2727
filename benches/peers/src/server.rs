//! The parent's handle of an engine's process, which runs [`crate::serve`].

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Options;
use crate::engine::{Kind, Result};

/// The parent's handle of an engine's process.
pub struct Server {
    pub kind: Kind,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    pub fn start(kind: Kind, dir: &Path, options: &Options) -> Result<Server> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(kind.name())
            .arg("--dir")
            .arg(dir.join(kind.name()))
            .args(options.for_server())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no pipe")?;
        let output = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Server { kind, child, input, output })
    }

    /// Runs one workload; returns its first figure, which is usually nanoseconds an operation.
    pub fn ask(&mut self, workload: &str, seed: u64) -> Result<f64> {
        Ok(self.ask_all(workload, seed)?[0])
    }

    /// Like [`Server::ask`], but returns all figures of the workload.
    pub fn ask_all(&mut self, workload: &str, seed: u64) -> Result<Vec<f64>> {
        let failed = || format!("{} failed at {workload}", self.kind.name());
        writeln!(self.input, "{workload} {seed}").map_err(|_| failed())?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let figures: Vec<f64> =
            line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
        if figures.is_empty() { Err(failed().into()) } else { Ok(figures) }
    }

    /// Peak resident memory in bytes, as the system counted it.
    pub fn peak_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    }

    /// Bytes of the pages that the process has made dirty so far, including those of a log that is
    /// written through a memory mapping.
    pub fn written_bytes(&self) -> Option<u64> {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).ok()?;
        let line = io.lines().find(|line| line.starts_with("write_bytes:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    /// Processor time of all its threads so far, in user and in system mode.
    pub fn processor_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // After the name, which ends at the last parenthesis, utime and stime are the 12th and 13th
        // fields (proc(5)).
        let fields = stat.rsplit_once(')').ok_or("no name in stat")?.1.split_whitespace();
        let ticks: Vec<u64> =
            fields.skip(11).take(2).map(str::parse).collect::<std::result::Result<_, _>>()?;
        Ok(ticks.iter().sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    pub fn stop(mut self) -> Result<()> {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}
