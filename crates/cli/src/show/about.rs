//! The conditions of a run: its command, date, processor, build and seed.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::html;
use super::svg::escape;
use crate::output::{json_object, machine};

/// What a reader must know to trust the figures of a run, and to reproduce them.
#[derive(Debug, Default)]
pub struct Origin {
    pub command: String,
    pub date: String,
    pub machine: String,
    pub build: String,
    pub seed: u64,
}

impl Origin {
    /// The origin of a run of this process, now.
    pub fn now(seed: u64) -> Origin {
        Origin { command: command(), date: date(), machine: machine(), build: build(), seed }
    }

    /// A JSON object of the origin's fields, followed by those of `more`.
    pub fn to_json(&self, more: &[(&str, Value)]) -> String {
        let own = [
            ("command", json!(self.command)),
            ("date", json!(self.date)),
            ("machine", json!(self.machine)),
            ("build", json!(self.build)),
            ("seed", json!(self.seed)),
        ];
        json_object(own.iter().chain(more).map(|(name, value)| (name, value)))
    }

    /// The last section of a page: the conditions of the run, followed by those in `more`, the
    /// exact command, and `files`, a sentence that says which other files contain the figures.
    pub fn to_html(&self, more: &[(&str, &str)], files: &str) -> String {
        let mut html = String::from("<dl class=\"about\">\n");
        let seed = self.seed.to_string();
        let own = [
            ("processor", &*self.machine),
            ("build", &self.build),
            ("date", &self.date),
            ("seed", &seed),
        ];
        for (name, what) in own.iter().chain(more) {
            let _ = writeln!(html, "<dt>{name}</dt><dd>{}</dd>", escape(what));
        }
        let _ = write!(
            html,
            "</dl>\n<p class=\"soft\">The exact command:</p>\n<pre>{}</pre>\n\
             <p class=\"soft\">{files}</p>\n",
            escape(&self.command)
        );
        html::folded("How it was measured", &html)
    }
}

/// The command line, quoted for a shell.
fn command() -> String {
    let arguments = std::env::args_os().skip(1);
    let quoted = arguments.map(|argument| quote(&argument.to_string_lossy()));
    std::iter::once("maypole".to_string()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// The word, in quotes if it is empty or has characters that a shell may interpret.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The version, the profile and the target of this build.
pub fn build() -> String {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let flags = option_env!("RUSTFLAGS").filter(|flags| !flags.is_empty());
    let flags = flags.map_or(String::new(), |flags| format!(", RUSTFLAGS={flags}"));
    format!(
        "maypole {}, {profile}, {}-{}{flags}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}

fn date() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, minutes) = (since.as_secs() / 86_400, since.as_secs() / 60 % 1440);
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// The Gregorian year, month and day of the day that is `days` after 1970-01-01. The computation
/// lets years start on 1 March, so that the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, every five months have 153 days: March to July, then August to December.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(19_783), (2024, 3, 1));
        assert_eq!(civil(20_453), (2025, 12, 31));
    }

    #[test]
    fn commands_can_be_typed_again() {
        assert_eq!(quote("--keys=20000"), "--keys=20000");
        assert_eq!(quote("none,bloom(10)"), "'none,bloom(10)'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
    }
}
