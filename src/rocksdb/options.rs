//! The text of an OPTIONS file.
//!
//! ```text
//! [DBOptions]                              [Section] or [Section "family"]
//!   wal_dir=/data/wal                      name=value; \ escapes # : \ and n in values
//! [CFOptions "default"]                    # comment
//!   merge_operator=put
//! [TableOptions/BlockBasedTable "default"]
//!   filter_policy=bloomfilter:10:false
//! ```
//!
//! A database can be read without its options. So the parser skips lines that it does not
//! understand, and a damaged or missing file is no error.

use std::path::Path;

use crate::fs::Fs;

/// OPTIONS files with more bytes than this are not read.
const MAX_BYTES: u64 = 64 << 20;

/// Sections with their options, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OptionsText {
    sections: Vec<Section>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Section {
    kind: Vec<u8>,
    /// Empty if the section belongs to no family.
    family: Vec<u8>,
    /// Names and values.
    options: Vec<(Vec<u8>, String)>,
}

impl OptionsText {
    /// Reads the OPTIONS file with the highest number. `None` if that file is too large or cannot
    /// be read, or if there is no OPTIONS file.
    pub fn newest(fs: &dyn Fs, dir: &Path, names: &[String]) -> Option<OptionsText> {
        let number = |name: &&String| name.strip_prefix("OPTIONS-")?.parse::<u64>().ok();
        let newest = names.iter().filter(|name| number(name).is_some()).max_by_key(number)?;
        let file = fs.open(&dir.join(newest)).ok().filter(|file| file.len() <= MAX_BYTES)?;
        let mut bytes = vec![0; file.len() as usize];
        file.read_exact_at(0, &mut bytes).ok()?;
        Some(OptionsText::parse(&bytes))
    }

    /// The text is bytes, because the names of column families are.
    fn parse(text: &[u8]) -> OptionsText {
        let mut options = OptionsText::default();
        for line in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
            let section = line.strip_prefix(b"[").and_then(|line| line.strip_suffix(b"]"));
            if let Some(section) = section {
                let (kind, family) = split_once(section, b' ').unwrap_or((section, b""));
                let quoted = family.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\""));
                let (kind, family) = (kind.to_owned(), unescape(quoted.unwrap_or(family)));
                options.sections.push(Section { kind, family, options: Vec::new() });
            } else if let Some((name, value)) = split_once(line, b'=')
                && !line.starts_with(b"#")
                && let Some(section) = options.sections.last_mut()
            {
                let value = unescape(value.trim_ascii());
                let value = String::from_utf8_lossy(&value).into_owned();
                section.options.push((name.trim_ascii().to_owned(), value));
            }
        }
        options
    }

    /// An option of the database.
    pub fn database(&self, name: &str) -> Option<&str> {
        self.find("DBOptions", b"", name)
    }

    /// An option of a column family's tables.
    pub fn table(&self, family: &[u8], name: &str) -> Option<&str> {
        self.find("TableOptions/BlockBasedTable", family, name)
    }

    /// An option of a column family itself.
    pub fn family(&self, family: &[u8], name: &str) -> Option<&str> {
        self.find("CFOptions", family, name)
    }

    fn find(&self, section: &str, family: &[u8], wanted: &str) -> Option<&str> {
        let is_in = |it: &&Section| it.kind == section.as_bytes() && it.family == family;
        let mut entries = self.sections.iter().filter(is_in).flat_map(|it| &it.options);
        let entry = entries.find(|(name, _)| name == wanted.as_bytes());
        entry.map(|(_, value)| &value[..])
    }
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == at)?;
    Some((&text[..at], &text[at + 1..]))
}

/// The text of a column family's name in the title of a section.
pub(super) fn escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if matches!(byte, b'\\' | b'#' | b':' | b'\r' | b'\n') {
            out.push(b'\\');
        }
        out.push(match byte {
            b'\n' => b'n',
            b'\r' => b'r',
            other => other,
        });
    }
    out
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                other => other.unwrap_or(b'\\'),
            },
            other => other,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::put_file;
    use super::*;
    use crate::fs::MemFs;

    const TEXT: &[u8] = b"# This is a RocksDB option file.\n\
        [Version]\n  rocksdb_version=10.4.2\n\
        [DBOptions]\n  wal_dir=/a\\:b\n  max_open_files=-1\n\
        [CFOptions \"default\"]\n  merge_operator=nullptr\n\
        [TableOptions/BlockBasedTable \"default\"]\n  filter_policy=ribbonfilter:10:0\n\
        [CFOptions \"a b\"]\n  merge_operator={id=x;a=b}\n  #merge_operator=no\n  no option\n\
        [CFOptions \"\x01\"]\n  merge_operator=one\n[CFOptions \"\\n\"]\n  merge_operator=ten\n\
        [CFOptions \"\xff\"]\n  merge_operator=all\n";

    #[test]
    fn options_are_found_by_section_and_family() {
        let options = OptionsText::parse(TEXT);
        assert_eq!(options.database("wal_dir"), Some("/a:b"));
        assert_eq!(options.database("merge_operator"), None);
        assert_eq!(options.find("CFOptions", b"a b", "merge_operator"), Some("{id=x;a=b}"));
        assert_eq!(options.table(b"default", "filter_policy"), Some("ribbonfilter:10:0"));
        assert_eq!(options.table(b"a b", "filter_policy"), None);
        // Names are bytes. Of these three, RocksDB escapes the line feed only.
        let operator = |family: &[u8]| options.family(family, "merge_operator");
        let found = [&b"\x01"[..], b"\n", b"\xff", b"\xfe"].map(operator);
        assert_eq!(found, [Some("one"), Some("ten"), Some("all"), None]);
        for cut in 0..TEXT.len() {
            OptionsText::parse(&TEXT[..cut]);
        }
    }

    #[test]
    fn the_highest_number_is_in_force() {
        let (fs, dir) = (MemFs::new(), Path::new("/"));
        let names = ["OPTIONS-000009", "OPTIONS-000010", "OPTIONS-x", "OPTIONS-000011.dbtmp"];
        for (i, name) in names.iter().enumerate() {
            put_file(&fs, &dir.join(name), format!("[DBOptions]\nn={i}\n").as_bytes());
        }
        let names = names.map(str::to_owned);
        let options = OptionsText::newest(&fs, dir, &names).unwrap();
        assert_eq!(options.database("n"), Some("1"));
        assert_eq!(OptionsText::newest(&fs, dir, &names[2..]), None);
    }
}
