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
    kind: String,
    /// Empty if the section belongs to no family.
    family: String,
    /// Names and values.
    options: Vec<(String, String)>,
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
        Some(OptionsText::parse(&String::from_utf8_lossy(&bytes)))
    }

    fn parse(text: &str) -> OptionsText {
        let mut options = OptionsText::default();
        for line in text.lines().map(str::trim) {
            let section = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
            if let Some(section) = section {
                let (kind, family) = section.split_once(' ').unwrap_or((section, ""));
                let family = unescape(family.trim().trim_matches('"'));
                let kind = kind.to_owned();
                options.sections.push(Section { kind, family, options: Vec::new() });
            } else if let Some((name, value)) = line.split_once('=')
                && !line.starts_with('#')
                && let Some(section) = options.sections.last_mut()
            {
                section.options.push((name.trim().to_owned(), unescape(value.trim())));
            }
        }
        options
    }

    /// An option of the database.
    pub fn database(&self, name: &str) -> Option<&str> {
        self.find("DBOptions", "", name)
    }

    /// An option of a column family's tables.
    pub fn table(&self, family: &str, name: &str) -> Option<&str> {
        self.find("TableOptions/BlockBasedTable", family, name)
    }

    /// An option of a column family itself.
    pub fn family(&self, family: &str, name: &str) -> Option<&str> {
        self.find("CFOptions", family, name)
    }

    fn find(&self, section: &str, family: &str, wanted: &str) -> Option<&str> {
        let sections = self.sections.iter().filter(|it| it.kind == section && it.family == family);
        let entry = sections.flat_map(|it| &it.options).find(|(name, _)| name == wanted);
        entry.map(|(_, value)| &value[..])
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::put_file;
    use super::*;
    use crate::fs::MemFs;

    const TEXT: &str = "# This is a RocksDB option file.\n\
        [Version]\n  rocksdb_version=10.4.2\n\
        [DBOptions]\n  wal_dir=/a\\:b\n  max_open_files=-1\n\
        [CFOptions \"default\"]\n  merge_operator=nullptr\n\
        [TableOptions/BlockBasedTable \"default\"]\n  filter_policy=ribbonfilter:10:0\n\
        [CFOptions \"a b\"]\n  merge_operator={id=x;a=b}\n  #merge_operator=no\n  no option\n";

    #[test]
    fn options_are_found_by_section_and_family() {
        let options = OptionsText::parse(TEXT);
        assert_eq!(options.database("wal_dir"), Some("/a:b"));
        assert_eq!(options.database("merge_operator"), None);
        assert_eq!(options.find("CFOptions", "a b", "merge_operator"), Some("{id=x;a=b}"));
        assert_eq!(options.table("default", "filter_policy"), Some("ribbonfilter:10:0"));
        assert_eq!(options.table("a b", "filter_policy"), None);
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
