//! Reads keys that are not generated: from a file or standard input, one key a line, or from the
//! tables of another database.

use std::fs;
use std::io::Read;
use std::path::Path;

use maypole::table::SstReader;

use super::list::KeyList;
use crate::commands::entries::load::no_keys;
use crate::failure::{Failure, Result};
use crate::show::text::{counted, escape, size, unescape};
use crate::{input, progress, space};

/// A key, and its value if the source has one.
pub type Entry<'a> = (&'a [u8], Option<&'a [u8]>);

/// The text of a file, or of standard input for `-`, without the byte order mark of UTF-8. The text
/// may take half of the available memory, because the other half is for a copy of its lines in the
/// order of loading.
pub fn read(file: &Path) -> Result<Vec<u8>> {
    let (source, bytes) = input::source(file)?;
    space::check_memory(2 * bytes.unwrap_or(0))?;
    let text = read_at_most(source, space::available_memory() / 2, file)?;
    let text = input::as_text(text, file)?;
    if text.is_empty() { Err(no_keys(file)) } else { Ok(text) }
}

/// Reads to the end. Fails if the end is not reached within `most` bytes, because a pipe may have
/// no end.
fn read_at_most(mut source: impl Read, most: u64, file: &Path) -> Result<Vec<u8>> {
    let mut text: Vec<u8> = Vec::new();
    loop {
        let room = (most.saturating_sub(text.len() as u64)).min(PIECE_BYTES) as usize;
        // `read_to_end` needs memory for one more byte to find the end.
        if room == 0 || text.try_reserve(room + 1).is_err() {
            return Err(Failure::new(format_args!(
                "{}: more than {}: keys are held in memory, and no more of it is available",
                input::name(file),
                size(text.len() as u64)
            )));
        }
        let read = source.by_ref().take(room as u64).read_to_end(&mut text);
        if read.map_err(|error| Failure::of_file(file, "read", &error))? < room {
            return Ok(text);
        }
    }
}

/// Bytes that are read before more memory is allocated.
const PIECE_BYTES: u64 = 16 << 20;

/// Splits a text into lines. The text must not be empty, because an empty text would give one empty
/// line. A line feed at the end of the text starts no further line. If a carriage return is before
/// every line feed, these carriage returns are removed too, also one at the end of the text.
/// Otherwise all carriage returns remain.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let has_crlf = {
        let mut ends = text.split_inclusive(|&byte| byte == b'\n').filter(|l| l.ends_with(b"\n"));
        let first = ends.next().is_some_and(|line| line.ends_with(b"\r\n"));
        first && ends.all(|line| line.ends_with(b"\r\n"))
    };
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.split(|&byte| byte == b'\n')
        .map(move |line| if has_crlf { line.strip_suffix(b"\r").unwrap_or(line) } else { line })
}

/// The lookups of a file of queries.
#[derive(Default)]
pub struct Recorded {
    /// The keys, in the order of the file.
    pub keys: KeyList,
    /// For each key, whether a memtable answered the lookup. Of the outcomes that
    /// `Db::record_lookups` writes, only this one is used: which table holds a key is looked up in
    /// the tables that are there now, but what was in memory then is not known otherwise.
    pub in_memtable: Vec<bool>,
}

impl Recorded {
    /// The keys of the lookups that no memtable answered.
    pub fn in_tables(&self) -> impl Iterator<Item = &[u8]> {
        let lookups = self.keys.iter().zip(&self.in_memtable);
        lookups.filter(|(_, in_memtable)| !**in_memtable).map(|(key, _)| key)
    }
}

/// Reads a file of queries, one a line: the key, in which `\xNN` stands for a byte and `\\` for a
/// backslash, and perhaps a tab and the outcome of the lookup. An unknown outcome is none.
pub fn queries(file: &Path) -> Result<Recorded> {
    let text = read(file)?;
    let mut recorded = Recorded::default();
    for line in lines(&text) {
        let mut fields = line.splitn(2, |&byte| byte == b'\t');
        let key = unescape(fields.next().unwrap_or_default());
        if recorded.in_memtable.try_reserve(1).is_err() || !recorded.keys.try_push(&key) {
            return Err(Failure::new("the keys take more memory than there is"));
        }
        recorded.in_memtable.push(fields.next() == Some(b"memtable"));
    }
    Ok(recorded)
}

/// The entries of the lines, sorted by key, each key once. With `tsv` a line is a key, a tab and a
/// value.
pub fn distinct_entries<'a>(
    text: &'a [u8],
    tsv: bool,
    file: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<Entry<'a>>> {
    let mut entries: Vec<Entry> = Vec::new();
    for (n, line) in lines(text).enumerate() {
        if !tsv {
            entries.push((line, None));
            continue;
        }
        let Some(tab) = line.iter().position(|&byte| byte == b'\t') else {
            return Err(Failure::new(format_args!(
                "{}: line {}: expected a key, a tab and a value, found {:?}",
                input::name(file),
                n + 1,
                escape(&line[..line.len().min(60)])
            )));
        };
        entries.push((&line[..tab], Some(&line[tab + 1..])));
    }
    let all = entries.len();
    // If several entries have the same key, the last one counts, as if the entries were put in
    // their order.
    entries.reverse();
    entries.sort_by_key(|entry| entry.0);
    entries.dedup_by_key(|entry| entry.0);
    if entries.len() < all {
        let distinct = counted(entries.len() as u64, "distinct key");
        let all = counted(all as u64, "line");
        notes.push(format!("{}: {all}, {distinct}", input::name(file)));
    }
    Ok(entries)
}

/// The keys of tables that RocksDB or Maypole wrote, deleted keys included. A key with several
/// versions in one table is listed once. A key in several tables may be listed more than once.
pub fn of_tables(files: &[impl AsRef<Path>]) -> Result<KeyList> {
    let mut keys = KeyList::default();
    let bar = progress::bar(files.len() as u64, "reading tables");
    for file in files {
        let file = file.as_ref();
        space::check_memory(2 * fs::metadata(file).map_or(0, |metadata| metadata.len()))?;
        let mut entries = SstReader::open(file)?.entries();
        while let Some(entry) = entries.next_entry()? {
            // Memory may run out at any key. The check above is of the sizes of the files, but
            // their blocks may be compressed, so the keys may take more memory.
            if keys.last() != Some(entry.user_key) && !keys.try_push(entry.user_key) {
                return Err(Failure::new("the keys of the tables take more memory than there is"));
            }
        }
        bar.inc(1);
    }
    match keys.len() {
        0 => Err(Failure::new("the tables hold no keys")),
        _ => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<&[u8]> {
        lines(text.as_bytes()).collect()
    }

    /// A file without an end, such as `/dev/zero` or a pipe from `yes`, was once read until memory
    /// was gone. Now reading fails at a limit.
    #[test]
    fn a_text_has_an_end_or_is_refused() {
        let path = Path::new("-");
        for bytes in [0, 1, 99, 100] {
            let text = read_at_most(&vec![b'k'; bytes][..], 101, path).unwrap();
            assert_eq!(text.len(), bytes);
        }
        for endless in [101, 1000] {
            let read = read_at_most(std::io::repeat(b'\n').take(endless), 101, path);
            let Err(Failure::Message(message)) = read else { panic!("{endless} bytes were read") };
            assert!(message.starts_with("standard input: more than 101 B"), "{message}");
        }
        assert!(read_at_most(std::io::repeat(b'a'), 3 * PIECE_BYTES, path).is_err());
    }

    #[test]
    fn carriage_returns_are_no_part_of_keys_where_all_lines_end_in_one() {
        assert_eq!(of("a\r\nb\r\n"), [b"a", b"b"]);
        assert_eq!(of("a\r\nb"), [b"a", b"b"]);
        assert_eq!(of("a\r\nb\n"), [&b"a\r"[..], b"b"]);
        assert_eq!(of("a\n\nb"), [&b"a"[..], b"", b"b"]);
        assert_eq!(of("\r"), [b"\r"]);
        assert_eq!(of("\n"), [b""]);
    }

    #[test]
    fn queries_keep_what_came_of_them_and_lines_without_it_are_valid() {
        use std::io::Write;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"a\tmemtable\n\\x00\\x09\tL3\nb\nc\tmemtable?\n\\\\\tmemtable\tx\n\td")
            .unwrap();
        let recorded = queries(file.path()).unwrap();
        let keys: Vec<&[u8]> = recorded.keys.iter().collect();
        assert_eq!(keys, [&b"a"[..], b"\0\t", b"b", b"c", b"\\", b""]);
        assert_eq!(recorded.in_memtable, [true, false, false, false, false, false]);
        assert_eq!(recorded.in_tables().next(), Some(&b"\0\t"[..]));
    }

    #[test]
    fn a_tab_separates_key_and_value_and_the_last_of_equal_keys_counts() {
        let mut notes = Vec::new();
        let file = Path::new("f");
        let text = b"b\t1\na\tx\ty\nb\t2\n";
        let entries = distinct_entries(text, true, file, &mut notes).unwrap();
        assert_eq!(entries, [(&b"a"[..], Some(&b"x\ty"[..])), (b"b", Some(b"2"))]);
        assert_eq!(notes.len(), 1);
        let error = distinct_entries(b"a\tb\nc\n", true, file, &mut notes).unwrap_err();
        let Failure::Message(message) = error else { panic!() };
        assert!(message.contains("line 2") && message.contains("tab"), "{message}");
    }
}
