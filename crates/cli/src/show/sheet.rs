//! Tables that fit the screen on which they are shown. The first of these forms that fits is taken:
//!
//! ```text
//! 1   everything, in full
//! 2   columns in which all rows agree become one line above the table
//! 3   like 2, with shortened numbers: 1,977,211 becomes 1.98M
//! 4   like 2, then like 3, but rows become columns, and columns rows
//! 5   records: each row a heading, each column a line
//! ```
//!
//! If the width is unknown, as in a pipe, the table is shown in full.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stdout};

use crate::failure::Result;
use crate::output::table;

#[derive(Debug, Clone, Copy, Default)]
pub struct Screen {
    /// In characters; `None` if it is unknown.
    pub width: Option<usize>,
    /// In lines; `None` if the output is no terminal, or its size is unknown.
    pub height: Option<usize>,
    /// Whether the output is a terminal, where bars help the reader.
    pub is_terminal: bool,
    pub has_color: bool,
    /// Whether the locale does not use Unicode. If so, rules and bars are drawn in ASCII.
    pub is_ascii: bool,
}

impl Screen {
    /// The screen of standard output. The width comes from the variable `COLUMNS`, or else from the
    /// terminal. `NO_COLOR` or a dumb terminal disables color. The locale decides between Unicode
    /// and ASCII.
    pub fn stdout() -> Screen {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let said = std::env::var("COLUMNS").ok().and_then(|width| width.parse().ok());
        let is_terminal = stdout().is_terminal();
        let asked = is_terminal.then(|| console::Term::stdout().size_checked()).flatten();
        Screen {
            width: said.or(asked.map(|(_, columns)| columns.into())).filter(|&width| width > 0),
            height: asked.map(|(lines, _)| lines.into()).filter(|&height| height > 0),
            is_terminal,
            has_color: is_terminal && !is_set("NO_COLOR") && !is_dumb(),
            is_ascii: locale_is_ascii(|name| std::env::var(name).ok()),
        }
    }

    /// The text as the locale can show it: without Unicode, its rules, bars and other drawn
    /// characters become ASCII.
    pub fn drawn(&self, text: &str) -> String {
        if !self.is_ascii {
            return text.to_string();
        }
        let plain = |c: char| match c {
            '─' | '–' => '-',
            '═' => '=',
            '│' => '|',
            '█' | '▉' | '▊' | '▋' | '▇' | '▆' | '▅' | '▄' => '#',
            '▌' | '▍' | '▃' | '▂' => '+',
            '▎' | '▏' | '▁' => '.',
            'µ' => 'u',
            '×' => 'x',
            '…' => '~',
            // A braille character has up to eight dots. Their number gives the ASCII character.
            '\u{2800}'..='\u{28ff}' => match (u32::from(c) - 0x2800).count_ones() {
                0 => ' ',
                1..=2 => '.',
                3..=5 => '+',
                _ => '#',
            },
            c => c,
        };
        text.chars().map(plain).collect()
    }

    /// Prints texts, each on lines of its own that fit the screen.
    pub fn say(
        &self,
        texts: impl IntoIterator<Item = impl AsRef<str>>,
        out: &mut dyn Write,
    ) -> Result {
        for text in texts {
            writeln!(out, "{}", self.drawn(&self.wrap(text.as_ref())))?;
        }
        Ok(())
    }

    pub fn bold(&self, text: &str) -> String {
        if self.has_color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() }
    }

    pub fn dim(&self, text: &str) -> String {
        if self.has_color { format!("\x1b[2m{text}\x1b[0m") } else { text.to_string() }
    }

    /// A text with its lines broken between words. The lines after the first are indented.
    pub fn wrap(&self, text: &str) -> String {
        self.wrapped("", text, 1)
    }

    /// Like [`Screen::wrap`], for a text after a label. The lines after the first are aligned with
    /// the text if the screen is wide enough.
    pub fn wrap_beside(&self, label: &str, text: &str) -> String {
        let beside = label.chars().count() + 2;
        let narrow = self.width.is_some_and(|width| width < 3 * beside);
        self.wrapped(&format!("{label}  "), text, if narrow { 2 } else { beside })
    }

    fn wrapped(&self, start: &str, text: &str, set_in: usize) -> String {
        let Some(width) = self.width else { return format!("{start}{text}") };
        // On a narrow screen, a blank label is cut to the indentation of the later lines.
        let start = if start.trim().is_empty() { &start[..start.len().min(set_in)] } else { start };
        let mut lines = vec![start.strip_suffix(' ').unwrap_or(start).to_string()];
        for word in text.split(' ') {
            let line = &lines[lines.len() - 1];
            let is_full = line.chars().count() + 1 + word.chars().count() > width;
            if is_full && !line.trim().is_empty() {
                lines.push(" ".repeat(set_in.max(1) - usize::from(set_in > 1)));
            }
            let n = lines.len() - 1;
            let line = &mut lines[n];
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.join("\n")
    }
}

/// Whether the terminal declares that it can only show lines of text.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether the locale does not use Unicode: `C`, `POSIX`, or an encoding other than UTF-8.
/// `variable` reads an environment variable. Without a locale Unicode is assumed, because current
/// terminals support it.
fn locale_is_ascii(variable: impl Fn(&str) -> Option<String>) -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    let Some(locale) = said.into_iter().find(|value| !value.is_empty()) else { return false };
    let locale = locale.to_ascii_lowercase();
    let encoding = locale.split_once('.').map(|(_, encoding)| encoding);
    match encoding {
        Some(encoding) => !encoding.starts_with("utf-8") && !encoding.starts_with("utf8"),
        None => locale == "c" || locale == "posix",
    }
}

/// A figure, in full and short.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub long: String,
    short: String,
}

impl Cell {
    pub fn new(long: impl Into<String>, short: impl Into<String>) -> Cell {
        Cell { long: long.into(), short: short.into() }
    }
}

pub fn or_dash(value: Option<impl Display>) -> Cell {
    value.map_or("-".to_string(), |value| value.to_string()).into()
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { short: text.clone(), long: text }
    }
}

/// A table. The first column names the rows.
pub struct Sheet {
    /// A line feed in a name divides it into lines. If the first line is empty, the first line of
    /// the column before holds for this column too, and the two columns form a group.
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
}

/// The name of a column, and a function from a row to its cell in this column.
pub type Column<'a, R> = (&'static str, &'a dyn Fn(&R) -> Cell);

impl Sheet {
    pub fn of<R>(rows: &[R], columns: &[Column<'_, R>]) -> Sheet {
        let cells = |row| columns.iter().map(|(_, cell)| cell(row)).collect();
        let names = columns.iter().map(|(name, _)| *name);
        Sheet { columns: names.collect(), rows: rows.iter().map(cells).collect() }
    }

    /// The sheet without the column `name`, unless this column `is_wanted`.
    pub fn with_if(mut self, is_wanted: bool, name: &str) -> Sheet {
        if let Some(column) = self.columns.iter().position(|&it| it == name && !is_wanted) {
            self.columns.remove(column);
            self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
        self
    }

    pub fn to_text(&self, screen: &Screen) -> String {
        screen.drawn(&self.in_unicode(screen))
    }

    fn in_unicode(&self, screen: &Screen) -> String {
        let long = |cell: &Cell| cell.long.clone();
        let short = |cell: &Cell| cell.short.clone();
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let whole = self.table(&all, long);
        let Some(width) = screen.width else { return self.painted(&whole, screen) };
        let fits = |text: &String| text.lines().all(|line| line.chars().count() <= width);
        if fits(&whole) {
            return self.painted(&whole, screen);
        }
        let (shared, different): (Vec<usize>, Vec<usize>) =
            all.into_iter().partition(|&column| self.is_shared(column));
        let said: Vec<String> = shared
            .iter()
            .map(|&column| format!("{} {}", self.name(column), self.rows[0][column].long))
            .collect();
        let said = match said.is_empty() {
            true => String::new(),
            false => screen.wrap(&format!("all rows: {}", said.join(", "))) + "\n",
        };
        let tables = [
            self.table(&different, long),
            self.table(&different, short),
            self.turned(&different, long),
            self.turned(&different, short),
        ];
        match tables.into_iter().find(fits) {
            Some(table) => said + &self.painted(&table, screen),
            None => said + &self.records(&different, screen),
        }
    }

    fn table(&self, columns: &[usize], text: impl Fn(&Cell) -> String) -> String {
        // A name that begins with a line feed belongs to the group of the column before it. If that
        // column is not shown, the name states the group.
        let header: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(n, &column)| match self.columns[column].strip_prefix('\n') {
                Some(rest) if n == 0 || columns[n - 1] + 1 != column => {
                    format!("{}\n{rest}", self.group(column))
                }
                _ => self.columns[column].to_string(),
            })
            .collect();
        table(header, self.rows.iter().map(|row| columns.iter().map(|&c| text(&row[c])).collect()))
    }

    /// The table with its rows as columns. The names of the rows are divided into lines between
    /// words.
    fn turned(&self, columns: &[usize], text: impl Fn(&Cell) -> String) -> String {
        let names = self.rows.iter().map(|row| row[0].long.replace(' ', "\n"));
        let header: Vec<String> = std::iter::once(self.name(0)).chain(names).collect();
        let figures = columns.iter().filter(|&&column| column > 0).map(|&column| {
            let cells = self.rows.iter().map(|row| text(&row[column]));
            std::iter::once(self.name(column)).chain(cells).collect()
        });
        table(header, figures)
    }

    /// Whether all rows have the same cell in a column. The first column, which names the rows, is
    /// not shared.
    fn is_shared(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().map(|row| &row[column]);
        let first = cells.next();
        column > 0 && self.rows.len() > 1 && cells.all(|cell| Some(cell) == first)
    }

    /// The group of a column: the first line of its name or, if that line is empty, the first line
    /// of the nearest earlier name whose first line is not empty.
    fn group(&self, column: usize) -> &str {
        let firsts = self.columns[..=column].iter().rev().map(|name| name.split('\n').next());
        firsts.flatten().find(|first| !first.is_empty()).unwrap_or("")
    }

    /// The name of a column, on one line.
    fn name(&self, column: usize) -> String {
        match self.columns[column].split_once('\n') {
            Some((_, rest)) => format!("{} {rest}", self.group(column)),
            None => self.columns[column].to_string(),
        }
    }

    fn records(&self, columns: &[usize], screen: &Screen) -> String {
        let widest = columns.iter().skip(1).map(|&c| self.name(c).chars().count()).max();
        let widest = widest.unwrap_or(0);
        let mut lines = Vec::new();
        for row in &self.rows {
            lines.push(screen.bold(&row[0].long));
            for &column in columns.iter().skip(1) {
                let (name, value) = (self.name(column), &row[column].long);
                let line = format!("  {name:widest$}  {value}");
                match screen.width.is_some_and(|width| line.chars().count() > width) {
                    true => lines.push(format!("  {name}\n    {value}")),
                    false => lines.push(line),
                }
            }
        }
        lines.join("\n")
    }

    /// Paints rules faintly and names of rows brightly.
    fn painted(&self, table: &str, screen: &Screen) -> String {
        let lines = table.lines().map(|line| {
            if line.starts_with(['─', '═']) {
                return screen.dim(line);
            }
            let names = self.rows.iter().map(|row| row[0].long.as_str());
            let name = names.filter(|name| line.starts_with(&format!("{name} "))).max();
            name.map_or(line.to_string(), |name| screen.bold(name) + &line[name.len()..])
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A bar of up to `width` characters for a fraction `part`, in steps of an eighth of a character.
pub fn bar(part: f64, width: usize) -> String {
    const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (part.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    // Every part above 0 is visible.
    let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    bar.extend((!eighths.is_multiple_of(8)).then(|| EIGHTHS[eighths % 8 - 1]));
    format!("{bar:width$}")
}

/// A curve of one line. Each figure becomes a character, whose height is the ratio of the figure to
/// the largest one.
pub fn sparkline(figures: &[f64]) -> String {
    const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = figures.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    figures.iter().map(|figure| EIGHTHS[(figure / most * 7.0).round() as usize % 8]).collect()
}

/// A count with three significant digits: `1.98M`.
pub fn short_count(number: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("G", 1e9), ("M", 1e6), ("k", 1e3)];
    let value = number as f64;
    // The factor is below 1 because of rounding: 999,500 is shown as 1.00M, not as 1000k.
    let Some((unit, size)) = UNITS.into_iter().find(|(_, size)| value >= size * 0.9995) else {
        return number.to_string();
    };
    let value = value / size;
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let row = |name: &str, useful: u64| {
            vec![
                Cell::from(name.to_string()),
                Cell::from("4".to_string()),
                Cell::new(format!("{useful},000"), short_count(useful * 1000)),
                Cell::from("12".to_string()),
                Cell::from(format!("{useful}")),
            ]
        };
        Sheet {
            columns: vec!["policy", "levels", "useful", "absent\nmean", "\np99"],
            rows: vec![row("bloom(10)", 1234), row("none", 999)],
        }
    }

    #[test]
    fn a_sparkline_is_as_high_as_its_figures() {
        assert_eq!(sparkline(&[0.0, 50.0, 100.0, 14.0]), "▁▅█▂");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
        let ascii = Screen { is_ascii: true, ..Screen::default() };
        assert_eq!(ascii.drawn(&sparkline(&[0.0, 20.0, 100.0])), ".+#");
    }

    fn at(width: usize) -> String {
        sheet().to_text(&Screen { width: Some(width), ..Screen::default() })
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in 22..100 {
            let text = at(width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(text.contains("bloom(10)") && text.contains("none"));
        }
    }

    #[test]
    fn first_shared_columns_go_then_digits_then_the_table() {
        let pipe = sheet().to_text(&Screen::default());
        assert!(pipe.contains("levels") && pipe.contains("1234,000") && !pipe.contains("all rows"));
        assert_eq!(at(100), pipe);
        let without = at(36);
        assert!(without.starts_with("all rows: levels 4, absent mean 12\n"), "{without}");
        assert!(without.contains("1234,000") && without.contains("absent"), "{without}");
        assert!(at(28).contains("1.23M"), "{}", at(28));
        let records = at(22);
        assert!(records.contains("bloom(10)\n  useful      1234,000\n  absent p99"), "{records}");
    }

    /// On a screen of 80 columns, a comparison was once shown as records, with one figure a line
    /// and more lines than fit the screen. Now rows become columns first.
    #[test]
    fn rows_become_columns_before_they_become_records() {
        let columns = vec!["policy", "one figure", "another\none", "\nfourth", "fifth figure"];
        let row = |name: &str, figure: u64| {
            let cells = (1..5).map(|n| Cell::from(format!("{}", n * figure)));
            std::iter::once(Cell::from(name.to_string())).chain(cells).collect()
        };
        let sheet = Sheet { columns, rows: vec![row("budget(7/key, burr)", 12), row("none", 7)] };
        let text = sheet.to_text(&Screen { width: Some(40), ..Screen::default() });
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        for line in ["burr)", "one figure 12 7", "another fourth 36 21", "fifth figure 48 28"] {
            assert!(lines.iter().any(|found| found.ends_with(line)), "{line}: {text}");
        }
    }

    /// With `LANG=C` and `LC_ALL=C`, Unicode characters were once printed. Now ASCII characters are
    /// printed.
    #[test]
    fn a_locale_without_unicode_gets_ascii() {
        let is_ascii = |set: &[(&str, &str)]| {
            let value =
                |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
            locale_is_ascii(value)
        };
        for ascii in [
            &[("LANG", "C")][..],
            &[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")],
            &[("LC_ALL", "POSIX")],
            &[("LC_CTYPE", "de_DE.ISO-8859-1"), ("LANG", "de_DE.UTF-8")],
        ] {
            assert!(is_ascii(ascii), "{ascii:?}");
        }
        for unicode in [
            &[][..],
            &[("LANG", "")],
            &[("LANG", "C.UTF-8")],
            &[("LANG", "en_US.utf8")],
            &[("LANG", "de_DE.UTF-8@euro")],
            &[("LC_ALL", ""), ("LANG", "en_US.UTF-8")],
        ] {
            assert!(!is_ascii(unicode), "{unicode:?}");
        }
        let screen = Screen { is_ascii: true, ..Screen::default() };
        let text = sheet().to_text(&screen);
        assert!(text.is_ascii() && text.contains("bloom(10)") && text.contains("---"), "{text}");
        assert_eq!(screen.drawn(&bar(0.5, 3)), "#+ ");
    }

    #[test]
    fn colour_changes_no_letter() {
        let screen = Screen { has_color: true, ..Screen::default() };
        let mut text = sheet().to_text(&screen);
        for code in ["\x1b[1m", "\x1b[2m", "\x1b[0m"] {
            assert!(text.contains(code));
            text = text.replace(code, "");
        }
        assert_eq!(text, sheet().to_text(&Screen::default()));
    }

    #[test]
    fn bars_and_counts_are_short() {
        assert_eq!([bar(0.0, 3), bar(1.0, 3), bar(0.5, 3)], ["   ", "███", "█▌ "]);
        assert_eq!(bar(1e-9, 2), "▏ ");
        let counts = [7, 999, 1000, 9_999, 137_996, 999_999, 2_000_000, 12_345_678_901];
        let short = ["7", "999", "1.00k", "10.0k", "138k", "1.00M", "2.00M", "12.3G"];
        assert_eq!(counts.map(short_count), short);
    }
}
