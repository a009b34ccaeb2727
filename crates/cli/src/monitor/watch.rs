//! `stats --watch`: the figures and their rates, curves of the last rates, and the levels, repeated
//! at an interval.
//!
//! The *owner* is the program that has the database open. The time saved is the number of reads
//! saved times the mean time of the block reads that the owner has timed. If it has timed none, no
//! time is shown.
//!
//! ```text
//! lookups/s      ▁▂▅█▇▇▅   at most 81,202
//! on a terminal   one screen, drawn over the last one; what does not fit is cut at its end
//! elsewhere       one block a reading, and an empty line after each
//! ```
//!
//! At each publishing interval, the owner writes its counters only if something has changed. So two
//! readings of the watcher may find the same counters. Rates therefore use the owner's time: from
//! the write that the previous reading found to the write that this reading found. But if the owner
//! had been idle, the previous write may be old. So the time starts at most one publishing interval
//! before the previous reading: the previous reading has found everything that the owner counted
//! before that start. If both readings found the same write, the time between the readings is used.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use maypole::PublishedStats;

use super::figures::{Counted, Figures, ReadCost};
use super::{Source, report, short_span, span};
use crate::failure::Result;
use crate::output::table;
use crate::show::sheet::{Screen, is_dumb, sparkline};
use crate::show::text::{count, percent};

/// Shows the figures until standard output is closed, or the file `STATS` is gone.
pub fn watch(source: &Source, every: Duration, out: &mut dyn Write) -> Result {
    let screen = Screen::stdout();
    let mut last = None;
    let mut history = History::default();
    loop {
        let look = Look { stats: source.read_published()?, at: SystemTime::now() };
        let mut block = Vec::new();
        draw(source, &look, last.as_ref(), &mut history, &screen, &mut block)?;
        match screen.is_terminal && !is_dumb() {
            true => redraw(fitting(&block, &screen), last.is_none(), out)?,
            false => {
                block.push(b'\n');
                out.write_all(&block)?;
            }
        }
        out.flush()?;
        last = Some(look);
        sleep(every);
    }
}

/// Lookups and reads saved per second, at each of the last readings.
#[derive(Default)]
struct History(Vec<[f64; 2]>);

impl History {
    /// The most readings that are kept; a narrow screen shows fewer.
    const MOST: usize = 40;

    /// A line for lookups and a line for reads saved, once there are two rates of each.
    fn lines(&self, screen: &Screen) -> Vec<String> {
        let room = screen.width.map_or(History::MOST, |width| width.saturating_sub(36).max(8));
        let first = self.0.len().saturating_sub(room);
        let line = |(n, name): (usize, &str)| {
            let rates: Vec<f64> = self.0[first..].iter().map(|rates| rates[n]).collect();
            let most = rates.iter().copied().fold(0.0, f64::max);
            format!("{name:<14} {}  at most {}", sparkline(&rates), count(most.round() as u64))
        };
        let names = ["lookups/s", "reads saved/s"];
        match self.0.len() {
            0 | 1 => Vec::new(),
            _ => names.into_iter().enumerate().map(line).collect(),
        }
    }
}

struct Look {
    stats: PublishedStats,
    at: SystemTime,
}

impl Look {
    /// What was counted since `last`, and in what time. `None` if the database was opened again.
    fn since(&self, last: &Look) -> Option<(Counted, Duration)> {
        let (now, then) = (&self.stats, &last.stats);
        if (now.opened, now.process_id) != (then.opened, then.process_id) {
            return None;
        }
        let counted = Counted::new(now).since(&Counted::new(then));
        let between = self.at.duration_since(last.at).unwrap_or_default();
        let begin =
            last.at.checked_sub(now.interval).map_or(then.written, |at| at.max(then.written));
        let by_owner = now.written.duration_since(begin).ok().filter(|time| !time.is_zero());
        Some((counted, by_owner.unwrap_or(between)))
    }
}

fn draw(
    source: &Source,
    look: &Look,
    last: Option<&Look>,
    history: &mut History,
    screen: &Screen,
    out: &mut dyn Write,
) -> Result {
    let stats = &look.stats;
    let read_cost = ReadCost::of(stats, None);
    let whole = Figures::new(stats, read_cost);
    let since = last.and_then(|last| look.since(last));
    writeln!(out, "{}", screen.bold(&screen.wrap(&source.name)))?;
    writeln!(out, "{}", screen.wrap(&source.origin(stats)))?;
    report::warn(stats, screen, out)?;
    let recent = since.map(|(counted, time)| {
        (Figures::of(stats, &counted, read_cost), time.as_secs_f64().max(1e-3))
    });
    match &recent {
        Some((figures, seconds)) => {
            let rates = [figures.lookups, figures.reads_saved].map(|n| n as f64 / seconds);
            history.0.push(rates);
            let gone = history.0.len().saturating_sub(History::MOST);
            history.0.drain(..gone);
        }
        None => history.0.clear(),
    }
    let header = match &recent {
        Some((_, seconds)) => format!("last {}", span(Duration::from_secs_f64(*seconds))),
        None if last.is_some() => "opened again".to_string(),
        None => "first look".to_string(),
    };
    let number = |name: &str, of: fn(&Figures) -> u64| {
        let rate = recent.as_ref().map(|(figures, seconds)| of(figures) as f64 / seconds);
        let rate =
            rate.map_or("-".to_string(), |rate| format!("{} /s", count(rate.round() as u64)));
        vec![name.to_string(), rate, count(of(&whole))]
    };
    let share = |name: &str, of: fn(&Figures) -> Option<f64>| {
        let text = |rate: Option<f64>| rate.map_or("-".to_string(), percent);
        let recent = recent.as_ref().and_then(|(figures, _)| of(figures));
        vec![name.to_string(), text(recent), text(of(&whole))]
    };
    let mut rows = vec![
        number("lookups", |figures| figures.lookups),
        number("filters asked", |figures| figures.asked),
        number("useful", |figures| figures.useful),
        number("full positives", |figures| figures.full_positive),
        number("false positives", |figures| figures.false_positive),
        number("useless searches, no filter", |figures| figures.unfiltered),
        share("hit rate", |figures| figures.hit_rate),
        share("observed rate", |figures| figures.observed_fpr),
        share("predicted rate", |figures| figures.predicted_fpr),
        number("reads saved, at most", |figures| figures.reads_saved),
        vec![
            "filters of memory".to_string(),
            String::new(),
            whole.memory_share.map_or("-".to_string(), percent),
        ],
    ];
    if let ReadCost::Measured(micros, _) = read_cost {
        let rate = recent.as_ref().map_or("-".to_string(), |(figures, seconds)| {
            format!("{} /s", short_span(figures.seconds_saved / seconds))
        });
        let name = format!("time saved, at {micros:.1} µs a read");
        rows.push(vec![name, rate, short_span(whole.seconds_saved)]);
    }
    let dead = report::dead_data(stats).into_iter();
    rows.extend(dead.map(|(name, figure)| vec![name.to_string(), String::new(), figure]));
    for line in history.lines(screen) {
        writeln!(out, "{}", screen.drawn(&line))?;
    }
    writeln!(out, "{}", screen.drawn(&table(vec!["", &header, "since the opening"], rows)))?;
    writeln!(out, "{}", report::tree(&stats.levels, true).to_text(screen))?;
    Ok(())
}

/// The start of `block` that fits the screen. A line that is wider than the screen takes several
/// lines of it. If the size is unknown, it is 80 × 24.
fn fitting<'a>(block: &'a [u8], screen: &Screen) -> &'a [u8] {
    let (width, height) = (screen.width.unwrap_or(80), screen.height.unwrap_or(24));
    let (mut taken, mut bytes) = (0, 0);
    for line in block.split_inclusive(|&byte| byte == b'\n') {
        let shown = String::from_utf8_lossy(line);
        taken += console::measure_text_width(shown.trim_end()).div_ceil(width).max(1);
        if taken > height {
            break;
        }
        bytes += line.len();
    }
    // A line feed after the last line of the screen would scroll it.
    let block = &block[..bytes];
    block.strip_suffix(b"\n").unwrap_or(block)
}

/// Redraws the screen line by line, because a cleared screen would flicker.
fn redraw(block: &[u8], is_first: bool, out: &mut dyn Write) -> Result {
    out.write_all(if is_first { b"\x1b[2J\x1b[H" } else { b"\x1b[H" })?;
    for line in block.split_inclusive(|&byte| byte == b'\n') {
        let (text, end) = line.split_at(line.len() - usize::from(line.ends_with(b"\n")));
        out.write_all(text)?;
        // Erases the rest of the line that was here before.
        out.write_all(b"\x1b[K")?;
        out.write_all(end)?;
    }
    out.write_all(b"\x1b[J")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_the_screen_is_cut_at_its_end() {
        let screen = |width, height| Screen { width, height, ..Screen::default() };
        let fit = |block: &str, screen: Screen| {
            String::from_utf8(fitting(block.as_bytes(), &screen).to_vec()).unwrap()
        };
        let block = "\x1b[1mname\x1b[0m\n12345 12345\nµµµµµ\n\nlast\n";
        assert_eq!(fit(block, screen(Some(11), Some(9))), block.trim_end());
        assert_eq!(fit(block, screen(Some(11), Some(3))), "\x1b[1mname\x1b[0m\n12345 12345\nµµµµµ");
        assert_eq!(fit(block, screen(Some(5), Some(4))), "\x1b[1mname\x1b[0m\n12345 12345");
        assert_eq!(fit(&"line\n".repeat(99), screen(None, None)).lines().count(), 24);
    }

    #[test]
    fn a_curve_shows_the_last_looks_that_have_room() {
        let mut history = History(vec![[0.0, 7.0]]);
        assert!(history.lines(&Screen::default()).is_empty(), "one look is no curve");
        history.0.extend([[50.0, 7.0], [100.0, 7.0]]);
        let ascii = Screen { is_ascii: true, ..Screen::default() };
        let lines: Vec<String> =
            history.lines(&ascii).iter().map(|line| ascii.drawn(line)).collect();
        assert_eq!(lines[0], "lookups/s      .##  at most 100");
        assert_eq!(lines[1], "reads saved/s  ###  at most 7");
        history.0 = vec![[1.0, 1.0]; History::MOST];
        let narrow = Screen { width: Some(48), ..Screen::default() };
        assert!(history.lines(&narrow).iter().all(|line| line.chars().count() <= 48));
    }
}
