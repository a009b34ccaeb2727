//! The text of the file `STATS`.
//!
//! ```text
//! maypole stats 1                        what this is, and the version of the format
//! open 4711 1764000000000 1764000060000 1000
//! cache 67108864 data 81920 20 index 4096 1 filter 1280 1
//! tables 3072
//! metadata 6400
//! memtables 12345 100
//! held 0
//! cursors 1048576 65536 3 4 12000        a line only while cursors hold earlier states of the tree
//! debt 0
//! snapshots 65536 12000                  a line only while there are snapshots
//! predicted 0.0086
//! level 0 files 1 bytes 90000 …
//! dead 0 4096 50                         a line for each level that has dead entries
//! expected 0 8.6                         a line for each level whose filters' rates are known
//! keyspace by\x20name files 1 …           a line for each other keyspace that is named
//! keyspaces 7 files 9 …                  a line for those that are not, and how many they are
//! ticker bloom.filter.useful 991         a line for each that is not 0
//! crc32c 1a2b3c4d                        of all bytes before this line
//! ```
//!
//! `docs/format.md` describes the text field by field. A reader checks the checksum first, which
//! proves that some version of Maypole has written the text. A line whose first word is unknown is
//! skipped, and so is an unknown ticker, because a later version may add them. Everything else that
//! is wrong is an error.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::keyspaces::KeyspaceStats;
use super::published::PublishedStats;
use super::report::{HeldByCursors, LevelStats, Stats};
use crate::cache::{BlockKind, KindUsage};
use crate::db::checked_text::{checked_lines, last_line_at, with_checksum};
use crate::encoding::text::{escape, unescape};
use crate::error::{Damage, Error, Result};
use crate::stats::Ticker;
use crate::version::{LEVELS, MAX_NAME_BYTES};

const FIRST_LINE: &str = "maypole stats ";
const VERSION: &str = "1";
const MOST: u64 = 1 << 60;
const KINDS: [(BlockKind, &str); 3] =
    [(BlockKind::Data, "data"), (BlockKind::Index, "index"), (BlockKind::Filter, "filter")];

/// The counts of a level or of a keyspace, as `name value` pairs.
macro_rules! level_fields {
    ($level:ident, $with:ident) => {
        $with!("files", $level.files);
        $with!("bytes", $level.file_bytes);
        $with!("entries", $level.entries);
        $with!("filters", $level.filter_bytes);
        $with!("useful", $level.counts.filter.useful);
        $with!("positive", $level.counts.filter.full_positive);
        $with!("true", $level.counts.filter.full_true_positive);
        $with!("untrusted", $level.counts.filter.untrusted);
        $with!("unfiltered", $level.counts.unfiltered);
        $with!("blocks", $level.counts.data_blocks_examined);
        $with!("reads", $level.counts.reads);
        $with!("read_bytes", $level.counts.read_bytes);
    };
}

pub(super) fn write(stats: &PublishedStats) -> String {
    let mut text = format!("{FIRST_LINE}{VERSION}\n");
    // Writing to a string cannot fail.
    let _ = write_lines(stats, &mut text);
    with_checksum(text)
}

fn write_lines(stats: &PublishedStats, text: &mut String) -> std::fmt::Result {
    let state = if stats.is_open { "open" } else { "closed" };
    let (opened, written) = (millis(stats.opened), millis(stats.written));
    let interval = stats.interval.as_millis();
    writeln!(text, "{state} {} {opened} {written} {interval}", stats.process_id)?;
    write!(text, "cache {}", stats.cache_capacity_bytes)?;
    for (kind, name) in KINDS {
        let usage = stats.cache.iter().find(|(of, _)| *of == kind).map(|&(_, usage)| usage);
        let usage = usage.unwrap_or_default();
        write!(text, " {name} {} {}", usage.bytes, usage.entries)?;
    }
    writeln!(text, "\ntables {}", stats.cache_tables_bytes)?;
    writeln!(text, "metadata {}", stats.metadata_bytes)?;
    writeln!(text, "pinned {}", stats.pinned_metadata_bytes)?;
    writeln!(text, "memtables {} {}", stats.memtable_bytes, stats.memtable_entries)?;
    writeln!(text, "held {}", stats.held_by_readers_bytes)?;
    let held = &stats.held_by_cursors;
    if *held != HeldByCursors::default() {
        let HeldByCursors { memtable_bytes, table_bytes, states, cursors, oldest } = held;
        let oldest = oldest.as_millis();
        writeln!(text, "cursors {memtable_bytes} {table_bytes} {states} {cursors} {oldest}")?;
    }
    writeln!(text, "debt {}", stats.compaction_debt_bytes)?;
    if let Some(age) = stats.oldest_snapshot {
        writeln!(text, "snapshots {} {}", stats.held_by_snapshots_bytes, age.as_millis())?;
    }
    writeln!(text, "predicted {}", rate_text(stats.predicted_fpr))?;
    for level in &stats.levels {
        write!(text, "level {}", level.level)?;
        macro_rules! print {
            ($name:literal, $value:expr) => {
                write!(text, " {} {}", $name, $value)?;
            };
        }
        level_fields!(level, print);
        writeln!(text, " predicted {}", rate_text(level.predicted_fpr))?;
        // Dead entries have a line of their own, because older readers reject an unknown field of a
        // level's line, but skip an unknown line.
        if (level.dead_bytes, level.dead_entries) != (0, 0) {
            writeln!(text, "dead {} {} {}", level.level, level.dead_bytes, level.dead_entries)?;
        }
        if let Some(expected) = level.expected_false_positives.filter(is_count) {
            writeln!(text, "expected {} {expected}", level.level)?;
        }
    }
    for keyspace in &stats.keyspaces {
        match keyspace.name.is_empty() {
            true => write!(text, "keyspaces {}", keyspace.keyspaces)?,
            false => write!(text, "keyspace {}", escape(&keyspace.name).replace(' ', "\\x20"))?,
        }
        macro_rules! print {
            ($name:literal, $value:expr) => {
                write!(text, " {} {}", $name, $value)?;
            };
        }
        level_fields!(keyspace, print);
        writeln!(text, " memtables {}", keyspace.memtable_bytes)?;
    }
    for (ticker, count) in stats.tickers.iter().filter(|&(_, count)| count > 0) {
        writeln!(text, "ticker {} {count}", ticker.name())?;
    }
    Ok(())
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

fn rate_text(rate: Option<f64>) -> String {
    let rate = rate.filter(|rate| (0.0..=1.0).contains(rate));
    rate.map_or("-".into(), |rate| rate.to_string())
}

/// What is wrong with a line.
struct Wrong(&'static str);

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<PublishedStats> {
    let corrupt = |offset: usize, expected: &str, found: String| {
        Damage::new(offset, expected, found).in_file(path, 0)
    };
    if !bytes.starts_with(FIRST_LINE.as_bytes()) {
        let found = quoted(bytes);
        return Err(corrupt(0, "published counters, which begin with \"maypole stats\"", found));
    }
    let version = bytes[FIRST_LINE.len()..].split(|&byte| byte == b'\n').next();
    if version != Some(VERSION.as_bytes()) {
        let version = quoted(version.unwrap_or_default());
        let what = format!("published counters of version {version}: take a newer Maypole");
        return Err(Error::Unsupported { file: path.to_owned(), what });
    }
    let lines = checked_lines(bytes).ok_or_else(|| {
        let expected = "the CRC-32C of all bytes before it; the file is not synced, and is \
                        rewritten while the database is open";
        corrupt(last_line_at(bytes), expected, quoted(&bytes[last_line_at(bytes)..]))
    })?;
    let mut stats = empty();
    let mut is_stated = false;
    for (offset, line) in lines {
        is_stated |= line.starts_with("open ") || line.starts_with("closed ");
        read_line(&mut stats, line)
            .map_err(|Wrong(expected)| corrupt(offset, expected, quoted(line.as_bytes())))?;
    }
    match is_stated {
        true => Ok(stats),
        false => Err(corrupt(bytes.len(), "a line that says open or closed", "none".into())),
    }
}

fn empty() -> PublishedStats {
    let cache = KINDS.map(|(kind, _)| (kind, KindUsage::default())).into();
    PublishedStats { cache, ..PublishedStats::of_nobody(Stats::default()) }
}

/// The start of an unexpected text, on one line.
fn quoted(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(40)];
    format!("\"{}\"", start.escape_ascii())
}

fn read_line(stats: &mut PublishedStats, line: &str) -> std::result::Result<(), Wrong> {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let expected = match name {
        "open" | "closed" => "a process, two times and an interval",
        "cache" => "a capacity, and bytes and entries of each kind of block",
        "tables" | "metadata" | "held" | "debt" => "a number of bytes",
        "memtables" => "bytes and entries",
        "cursors" => "two numbers of bytes, two counts, and milliseconds",
        "snapshots" => "bytes, and milliseconds",
        "predicted" => "a rate between 0 and 1, or -",
        "level" => "a level below the one before, and its counts",
        "dead" => "a level that was listed, bytes and entries",
        "keyspace" => "a name of 1 to 255 bytes, and the counts of this keyspace",
        "keyspaces" => "how many keyspaces, and their counts",
        _ => "the name of a ticker and its count",
    };
    read_words(stats, name, &mut words).ok_or(Wrong(expected))
}

/// Reads the words that follow `name` on a line. `None` if they are not the words that a line of
/// this name must have.
fn read_words<'a>(
    stats: &mut PublishedStats,
    name: &str,
    words: &mut impl Iterator<Item = &'a str>,
) -> Option<()> {
    match name {
        "open" | "closed" => {
            stats.is_open = name == "open";
            stats.process_id = number(words)?;
            stats.opened = time(words)?;
            stats.written = time(words)?;
            stats.interval = Duration::from_millis(number(words)?);
        }
        "cache" => {
            stats.cache_capacity_bytes = number(words)?;
            stats.cache.clear();
            for (kind, name) in KINDS {
                named(words, name)?;
                let usage = KindUsage { bytes: number(words)?, entries: number(words)? };
                stats.cache.push((kind, usage));
            }
        }
        "tables" => stats.cache_tables_bytes = number(words)?,
        "metadata" => stats.metadata_bytes = number(words)?,
        "pinned" => stats.pinned_metadata_bytes = number(words)?,
        "memtables" => {
            stats.memtable_bytes = number(words)?;
            stats.memtable_entries = number(words)?;
        }
        "held" => stats.held_by_readers_bytes = number(words)?,
        "cursors" => {
            stats.held_by_cursors = HeldByCursors {
                memtable_bytes: number(words)?,
                table_bytes: number(words)?,
                states: number(words)?,
                cursors: number(words)?,
                oldest: Duration::from_millis(number(words)?),
            };
        }
        "debt" => stats.compaction_debt_bytes = number(words)?,
        "snapshots" => {
            stats.held_by_snapshots_bytes = number(words)?;
            stats.oldest_snapshot = Some(Duration::from_millis(number(words)?));
        }
        "predicted" => stats.predicted_fpr = rate(words.next())?,
        "level" => stats.levels.push(level(words, &stats.levels)?),
        "dead" => {
            let n: usize = number(words)?;
            let level = stats.levels.iter_mut().find(|level| level.level == n)?;
            level.dead_bytes = number(words)?;
            level.dead_entries = number(words)?;
        }
        "expected" => {
            let n: usize = number(words)?;
            let level = stats.levels.iter_mut().find(|level| level.level == n)?;
            level.expected_false_positives = Some(words.next()?.parse().ok().filter(is_count)?);
        }
        "keyspace" => {
            let name = unescape(words.next()?.as_bytes());
            if name.is_empty() || name.len() > MAX_NAME_BYTES {
                return None;
            }
            stats.keyspaces.push(keyspace(words, name, 1)?);
        }
        "keyspaces" => {
            let count = number(words)?;
            stats.keyspaces.push(keyspace(words, Vec::new(), count)?);
        }
        "ticker" => {
            let name = words.next()?;
            let count = number(words)?;
            if let Some(ticker) = Ticker::ALL.into_iter().find(|ticker| ticker.name() == name) {
                stats.tickers.set(ticker, count);
            }
        }
        _ => {}
    }
    Some(())
}

/// Reads the line of a level. Each level must be deeper than the one before, so that there are at
/// most [`LEVELS`].
fn level<'a>(
    words: &mut impl Iterator<Item = &'a str>,
    before: &[LevelStats],
) -> Option<LevelStats> {
    let mut level = LevelStats { level: number(words)?, ..LevelStats::default() };
    if level.level >= LEVELS || before.last().is_some_and(|last| last.level >= level.level) {
        return None;
    }
    macro_rules! parse {
        ($name:literal, $value:expr) => {
            named(words, $name)?;
            $value = number(words)?;
        };
    }
    level_fields!(level, parse);
    named(words, "predicted")?;
    level.predicted_fpr = rate(words.next())?;
    Some(level)
}

/// Reads the counts of the keyspace `name`, or of several whose names are not known.
fn keyspace<'a>(
    words: &mut impl Iterator<Item = &'a str>,
    name: Vec<u8>,
    keyspaces: usize,
) -> Option<KeyspaceStats> {
    let mut keyspace = KeyspaceStats { name, keyspaces, ..KeyspaceStats::default() };
    macro_rules! parse {
        ($name:literal, $value:expr) => {
            named(words, $name)?;
            $value = number(words)?;
        };
    }
    level_fields!(keyspace, parse);
    named(words, "memtables")?;
    keyspace.memtable_bytes = number(words)?;
    Some(keyspace)
}

fn named<'a>(words: &mut impl Iterator<Item = &'a str>, name: &str) -> Option<()> {
    (words.next() == Some(name)).then_some(())
}

/// Reads a number. Rejects numbers from [`MOST`] on, so that sums of a few counts do not overflow.
/// No real count comes near [`MOST`].
fn number<'a, N: TryFrom<u64>>(words: &mut impl Iterator<Item = &'a str>) -> Option<N> {
    let number = words.next()?.parse::<u64>().ok().filter(|&number| number < MOST)?;
    N::try_from(number).ok()
}

/// Whether this is a mean number of events, as [`number`] is one of events.
fn is_count(mean: &f64) -> bool {
    (0.0..MOST as f64).contains(mean)
}

fn time<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(number(words)?))
}

/// `Some(None)` for a rate that is not known.
fn rate(word: Option<&str>) -> Option<Option<f64>> {
    match word? {
        "-" => Some(None),
        word => word.parse().ok().filter(|rate| (0.0..=1.0).contains(rate)).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> PublishedStats {
        let mut stats = empty();
        stats.is_open = true;
        stats.process_id = 4711;
        stats.opened = UNIX_EPOCH + Duration::from_millis(1_764_000_000_000);
        stats.written = UNIX_EPOCH + Duration::from_millis(1_764_000_060_000);
        stats.interval = Duration::from_secs(1);
        stats.cache = KINDS.map(|(kind, _)| (kind, KindUsage { bytes: 4096, entries: 1 })).into();
        stats.cache_tables_bytes = 3072;
        (stats.metadata_bytes, stats.pinned_metadata_bytes) = (6400, 5000);
        stats.predicted_fpr = Some(0.1 + 0.2);
        stats.oldest_snapshot = Some(Duration::from_millis(12_345));
        stats.held_by_snapshots_bytes = 65_536;
        stats.held_by_cursors = HeldByCursors {
            memtable_bytes: 1_048_576,
            table_bytes: 65_536,
            states: 3,
            cursors: 4,
            oldest: Duration::from_millis(12_000),
        };
        stats.tickers.set(Ticker::BloomUseful, 991);
        let mut level = LevelStats { level: 3, files: 2, entries: 9, ..LevelStats::default() };
        (level.dead_entries, level.dead_bytes) = (4, 400);
        level.counts.filter.useful = 991;
        level.counts.unfiltered = 5;
        level.expected_false_positives = Some(0.1 + 0.2);
        let mut named = KeyspaceStats { files: 7, ..KeyspaceStats::default() };
        (named.name, named.keyspaces, named.memtable_bytes) = (b"a b\\\xff\n".into(), 1, 77);
        named.counts = level.counts;
        let rest = KeyspaceStats { name: Vec::new(), keyspaces: 9900, ..named.clone() };
        stats.keyspaces = vec![named, rest];
        stats.levels = vec![level.clone(), LevelStats { level: 6, ..level }];
        stats
    }

    fn reread(text: &str) -> Result<PublishedStats> {
        let crc = crc32c::crc32c(text.as_bytes());
        read(Path::new("/db/STATS"), format!("{text}crc32c {crc:08x}\n").as_bytes())
    }

    fn body() -> String {
        let text = write(&sample());
        text[..last_line_at(text.as_bytes())].to_string()
    }

    #[test]
    fn what_is_written_is_read_and_what_later_versions_add_is_skipped() {
        let text = write(&sample());
        assert_eq!(read(Path::new("STATS"), text.as_bytes()).unwrap(), sample());
        assert_eq!(reread(&body()).unwrap(), sample());
        let more = body() + "weather sunny 21\nticker of.the.future 7\n";
        assert_eq!(reread(&more).unwrap(), sample());
        // The first version of the text had no lines `cursors`, `dead`, `expected`, `keyspace`,
        // `keyspaces`, `metadata`, `pinned`, `snapshots` and `tables`. A text without these lines is
        // still read.
        let new = [
            "cursors",
            "dead",
            "expected",
            "keyspace",
            "keyspaces",
            "metadata",
            "pinned",
            "snapshots",
            "tables",
        ];
        let is_new = |line: &&str| new.contains(&line.split(' ').next().unwrap());
        let lines: Vec<String> =
            body().lines().filter(|line| !is_new(line)).map(|line| format!("{line}\n")).collect();
        let mut stats = sample();
        (stats.oldest_snapshot, stats.held_by_snapshots_bytes) = (None, 0);
        (stats.cache_tables_bytes, stats.metadata_bytes) = (0, 0);
        stats.pinned_metadata_bytes = 0;
        stats.held_by_cursors = HeldByCursors::default();
        stats.keyspaces.clear();
        for level in &mut stats.levels {
            (level.dead_entries, level.dead_bytes) = (0, 0);
            level.expected_false_positives = None;
        }
        assert_eq!(reread(&lines.concat()).unwrap(), stats);
        assert_eq!(body().lines().filter(is_new).count(), 11);
        assert_eq!(lines.len() + 11, body().lines().count());
        assert!(
            lines
                .iter()
                .filter(|line| line.starts_with("level "))
                .all(|line| { line.split(' ').count() == 28 && line.contains(" predicted -") })
        );
        // If a predicted rate is not between 0 and 1, `STATS` gets no prediction.
        let mut stats = sample();
        stats.predicted_fpr = Some(f64::NAN);
        stats.levels[0].predicted_fpr = Some(2.0);
        let read = read(Path::new("STATS"), write(&stats).as_bytes()).unwrap();
        assert_eq!((read.predicted_fpr, read.levels[0].predicted_fpr), (None, None));
    }

    #[test]
    fn a_wrong_line_under_a_right_checksum_is_named() {
        for (right, wrong) in [
            ("open 4711", "open"),
            ("open 4711", "open -1"),
            ("open 4711", "open 99999999999"),
            ("open 4711", "ajar 4711"),
            ("tables 3072", "tables"),
            ("metadata 6400", "metadata"),
            ("cursors 1048576 65536 3 4 12000", "cursors 1048576 65536 3 4"),
            ("debt 0", "debt 0x"),
            ("debt 0", "debt 1152921504606846976"),
            ("snapshots 65536", "snapshots"),
            ("snapshots 65536 12345", "snapshots 65536 -1"),
            ("dead 6", "dead 5"),
            ("dead 6 400 4", "dead 6 400"),
            ("expected 6", "expected 5"),
            ("expected 6 0.3", "expected 6 -0.3"),
            ("cache 0", "cache"),
            ("data 4096", "date 4096"),
            ("level 6", "level 7"),
            ("level 6", "level 3"),
            ("level 3", "level 18446744073709551615"),
            ("useful 991", "useful 1152921504606846976"),
            ("predicted 0.30000000000000004", "predicted 1.5"),
            ("predicted -", "predicted NaN"),
            ("ticker bloom.filter.useful 991", "ticker bloom.filter.useful"),
            (r"keyspace a\x20b\\\xff\x0a files", "keyspace  files"),
            (r"keyspace a\x20b\\\xff\x0a files", "keyspace files"),
            ("keyspaces 9900", "keyspaces"),
            ("memtables 77", "memtables"),
        ] {
            let text = body();
            assert!(text.contains(right), "{right}: {text}");
            let offset = text.find(right).unwrap();
            let error = reread(&text.replacen(right, wrong, 1)).unwrap_err();
            let Error::Corruption { offset: at, .. } = error else { panic!("{wrong}: {error}") };
            assert!(wrong.starts_with("ajar") || at <= offset as u64, "{wrong}: {at}");
        }
    }

    #[test]
    fn any_changed_byte_is_an_error_or_a_value_that_is_written_the_same() {
        let body = body();
        let mut read = 0;
        for at in body.find('\n').unwrap() + 1..body.len() {
            for byte in [b' ', b'-', b'9', b'.', b'e', b'\n'] {
                let mut text = body.clone().into_bytes();
                text[at] = byte;
                let Ok(stats) = reread(str::from_utf8(&text).unwrap()) else { continue };
                assert_eq!(
                    super::read(Path::new("STATS"), write(&stats).as_bytes()).unwrap(),
                    stats
                );
                read += 1;
            }
        }
        assert!(read > 100, "{read} values");
    }

    #[test]
    fn sums_of_the_largest_numbers_are_numbers() {
        let mut level = sample().levels.remove(0);
        level.filter_bytes = MOST - 1;
        level.dead_bytes = MOST - 1;
        level.counts.filter.useful = MOST - 1;
        level.counts.filter.full_positive = MOST - 1;
        let mut stats = sample();
        stats.levels = (0..LEVELS).map(|n| LevelStats { level: n, ..level.clone() }).collect();
        let stats = read(Path::new("STATS"), write(&stats).as_bytes()).unwrap();
        let sum = LEVELS as u64 * (MOST - 1);
        assert_eq!((stats.filter_bytes(), stats.counts().filter.asked()), (sum, 2 * sum));
    }
}
