//! Shows the counters that a program has published about a database. A program that opens a
//! database with `Builder::publish_stats` writes them into the file `STATS` of the database's
//! directory: after each interval in which they changed, and at closing.
//!
//! ```text
//! STATS ─► Source::read ─► figures   the four figures, and when to act on them
//!                          report    everything, for people
//!                          watch     the figures and their rates, repeated at an interval
//!                          json, tablestats   for programs; the library has the text for Prometheus
//! ```
//!
//! Nothing here opens a database.

pub mod figures;
pub mod json;
pub mod report;
pub mod tablestats;
pub mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use maypole::{Db, Error, PublishedStats};

use crate::failure::{Failure, Result};
use crate::output::printable;

/// A database whose counters are read.
pub struct Source {
    /// The path as it was given, for messages.
    given: PathBuf,
    /// The path in the output: absolute, on one line.
    pub name: String,
}

impl Source {
    pub fn new(path: &Path) -> Source {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Source { given: path.to_owned(), name: printable(&absolute.display().to_string()) }
    }

    /// The published counters; `None` if there are none.
    pub fn read(&self) -> Result<Option<PublishedStats>> {
        Db::published_stats(&self.given).map_err(|error| match error {
            Error::Corruption { .. } => Failure::new(format_args!(
                "{error}. Nothing depends on this file: remove it, or let a program that publishes \
                 replace it"
            )),
            error => error.into(),
        })
    }

    /// The published counters. If there are none, fails with a message that says what to do.
    pub fn read_published(&self) -> Result<PublishedStats> {
        self.read()?.ok_or_else(|| {
            Failure::new(format_args!("{}: no counters are published. {HOW}", self.given.display()))
        })
    }

    /// Whether, after these counters were written, a program that publishes nothing opened the
    /// database. If so, the file `CURRENT`, which is replaced at each opening, is clearly newer
    /// than `STATS`, because a program that publishes would have replaced `STATS` too.
    fn is_left_behind(&self, stats: &PublishedStats) -> bool {
        let changed = |name| fs::metadata(self.given.join(name)).and_then(|file| file.modified());
        let (Ok(opened), Ok(written)) = (changed("CURRENT"), changed("STATS")) else {
            return false;
        };
        let patience = stats.interval * 2 + Duration::from_secs(1);
        opened.duration_since(written).is_ok_and(|later| later > patience)
    }

    /// Who wrote the counters, and when.
    pub fn origin(&self, stats: &PublishedStats) -> String {
        let since = |time: SystemTime| SystemTime::now().duration_since(time).unwrap_or_default();
        let counted = span(stats.written.duration_since(stats.opened).unwrap_or_default());
        let (id, ago) = (stats.process_id, span(since(stats.written)));
        let mut text = match stats.is_open {
            true => format!(
                "counted in {counted} by process {id}, which has it open; written {ago} ago"
            ),
            false => format!("counted in {counted} by process {id}, which closed it {ago} ago"),
        };
        if stats.is_open && !is_running(id) {
            text += ". No such process runs here: it is elsewhere, or it ended without closing";
        }
        if self.is_left_behind(stats) {
            text +=
                ". Since then the database was opened again, by a program that publishes nothing";
        }
        text
    }
}

/// The part of a message that says how a program publishes its counters.
pub const HOW: &str = "They are in the memory of the program that has the database open. Let it open \
    the database with Builder::publish_stats(Duration::from_secs(1)), and it leaves them in the file \
    STATS for this command";

fn is_running(process_id: u32) -> bool {
    // Without /proc the answer is unknown, so the process counts as running.
    !Path::new("/proc/self").exists() || Path::new(&format!("/proc/{process_id}")).exists()
}

/// An approximate duration in words, in microseconds or milliseconds if it is short.
pub fn short_span(seconds: f64) -> String {
    match seconds {
        ..0.001 => format!("{:.1} µs", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        ..10.0 => format!("{seconds:.2} s"),
        _ => span(Duration::from_secs_f64(seconds)),
    }
}

/// An approximate duration in words.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        let spans = [0, 400, 9_999, 59_000, 121_000, 7_200_000, 999_999_000];
        let texts = spans.map(|millis| span(Duration::from_millis(millis)));
        let short = [0.0, 0.0042, 4.321, 75.0].map(short_span);
        assert_eq!(short, ["0.0 µs", "4.2 ms", "4.32 s", "75 s"]);
        assert_eq!(texts, ["0.0 s", "0.4 s", "10.0 s", "59 s", "2 min", "2 h", "11 days"]);
    }
}
