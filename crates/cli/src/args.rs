//! Parsers of arguments. They reject a wrong argument before any file is touched.

use std::ffi::OsString;
use std::ops::{Bound, RangeInclusive};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, PathBufValueParser, TypedValueParser};
use maypole::{Builder, Compression, Db, DbIterator, Error, FilterPolicy, RocksDb};

use crate::failure::{Failure, Result};
use crate::output::{printable, tell};
use crate::show::text;

/// The name of the keyspace that every database has.
pub const DEFAULT: &[u8] = b"default";

/// A key or a value. (A bare `Vec<u8>` would mean "many arguments" to clap.)
#[derive(Debug, Clone)]
pub struct Bytes(pub Vec<u8>);

/// Reads a key or value in which `\xNN` stands for a byte.
pub fn bytes() -> impl TypedValueParser<Value = Bytes> {
    OsStringValueParser::new().map(|text: OsString| Bytes(text::unescape(text.as_encoded_bytes())))
}

/// Reads a number of bytes: `1048576`, `1M`, `1MiB`; K, M, G and T are powers of 1024.
pub fn byte_count(text: &str) -> std::result::Result<usize, String> {
    let wrong = || "expected a number of bytes such as 1048576, 64M or 1GiB".to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let count: usize = digits.trim_end().parse().map_err(|_| wrong())?;
    count.checked_mul(1 << shift).ok_or_else(|| "too many bytes for this machine".to_string())
}

/// Like [`byte_count`], but only for numbers within `range`.
pub fn byte_count_in(
    range: RangeInclusive<usize>,
) -> impl Fn(&str) -> std::result::Result<usize, String> + Clone {
    move |text| {
        let bytes = byte_count(text)?;
        let (least, most) = (range.start(), range.end());
        match range.contains(&bytes) {
            true => Ok(bytes),
            false => Err(format!("expected {least} to {most} bytes, not {bytes}")),
        }
    }
}

/// Reads a number of keys or other things: `1000000`, `10k`, `1.5M`, `2G`; k, M and G are powers of
/// 1000.
fn count(text: &str) -> std::result::Result<u64, String> {
    let wrong = || "expected a number such as 1000000, 10k, 1.5M or 2G".to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let zeros = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 3,
        "m" | "M" => 6,
        "g" | "G" => 9,
        _ => return Err(wrong()),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let part_is_there = part.is_empty() != digits.contains('.');
    // Fractions of a key are rejected, such as 1.5 and 1.0005k.
    if whole.is_empty()
        || !part_is_there
        || part.len() > zeros
        || !is_number(whole)
        || !is_number(part)
    {
        return Err(wrong());
    }
    // The point is dropped, and zeros are appended for the unit: 1.5M becomes 15 and five zeros.
    // The number is built as text, because a product of floating-point numbers would not be exact.
    let all = format!("{whole}{part:0<zeros$}");
    all.parse().map_err(|_| format!("{text} is too many"))
}

/// Like [`count`], but only for numbers within `range`.
pub fn count_in<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> std::result::Result<T, String> + Clone {
    move |text| {
        let (least, most) = (text::count(*range.start()), text::count(*range.end()));
        let number = count(text).map(|number| range.contains(&number).then_some(number))?;
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("expected {least} to {most}"))
    }
}

/// The most bytes of a generated value. The limit exists because several copies of a value are in
/// memory at once.
const MAX_VALUE_BYTES: usize = 64 << 20;

pub fn value_bytes() -> impl Fn(&str) -> std::result::Result<usize, String> + Clone {
    byte_count_in(0..=MAX_VALUE_BYTES)
}

/// The most bytes of a block cache: more than any machine has, and small enough that sums with it
/// do not overflow.
const MAX_CACHE_BYTES: usize = 1 << 48;

pub fn cache_bytes() -> impl Fn(&str) -> std::result::Result<usize, String> + Clone {
    byte_count_in(0..=MAX_CACHE_BYTES)
}

/// Reads a compression's name: `none`, `snappy`, `lz4` or `zstd`.
pub fn compression(text: &str) -> std::result::Result<Compression, String> {
    match text {
        "none" => Ok(Compression::None),
        "snappy" => Ok(Compression::Snappy),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        _ => Err("expected none, snappy, lz4 or zstd".into()),
    }
}

/// Reads the name of an SVG file to write. It must end in `.svg`, so that a table file that is
/// given by mistake is not overwritten.
pub fn svg_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg")) {
            true => Ok(path),
            false => Err("expected a name that ends in .svg"),
        }
    })
}

/// Opens a database that must exist, to write to it.
pub fn open_existing(path: &Path) -> Result<Db> {
    Ok(Db::builder(path).create_if_missing(false).open()?)
}

/// A handle of the keyspace `name`, which must exist, with the options that it has.
pub fn existing_keyspace(db: &Db, name: &[u8]) -> Result<Db> {
    /// The most names in the message.
    const MOST: usize = 20;
    let names = db.keyspaces();
    if names.iter().any(|known| known == name) {
        return Ok(db.keyspace(name)?);
    }
    let mut known: Vec<String> = names.iter().take(MOST).map(|name| text::escape(name)).collect();
    let more = names.len() - known.len();
    known.extend((more > 0).then(|| format!("and {more} more")));
    Err(Failure::new(format_args!(
        "{}: there is no keyspace \"{}\"; there are: {}",
        db.stats().path.display(),
        text::escape(name),
        known.join(", ")
    )))
}

/// The keyspace of a command that writes.
#[derive(Args)]
pub struct InKeyspace {
    /// The keyspace; \xNN stands for a byte [default: default]
    #[arg(long, value_name = "NAME", value_parser = bytes())]
    keyspace: Option<Bytes>,
}

impl InKeyspace {
    /// Opens a database and the keyspace. If the database exists, the keyspace must exist too.
    /// `filter` is the policy of the keyspace from now on: a database stores that of each keyspace
    /// but `default`.
    pub fn open(&self, options: Builder, filter: Option<FilterPolicy>) -> Result<Db> {
        self.opened(options.create_if_missing(false), filter, existing_keyspace)
    }

    /// Like [`InKeyspace::open`], but creates what is missing.
    pub fn open_or_create(&self, options: Builder, filter: Option<FilterPolicy>) -> Result<Db> {
        self.opened(options, filter, |db, name| Ok(db.keyspace(name)?))
    }

    fn opened(
        &self,
        options: Builder,
        filter: Option<FilterPolicy>,
        open: impl FnOnce(&Db, &[u8]) -> Result<Db>,
    ) -> Result<Db> {
        let with_filter = |options: Builder| match filter {
            Some(filter) => options.filter(filter),
            None => options,
        };
        let Some(name) = self.keyspace.as_ref().filter(|name| name.0 != DEFAULT) else {
            return Ok(with_filter(options).open()?);
        };
        let keyspace = open(&options.open()?, &name.0)?;
        Ok(keyspace.keyspace_with(&name.0, with_filter)?)
    }

    /// A handle of the keyspace, which must exist, of a database that is open.
    pub fn of(&self, db: &Db) -> Result<Db> {
        existing_keyspace(db, self.keyspace.as_ref().map_or(DEFAULT, |name| &name.0))
    }
}

/// Opens a directory, which Maypole refused to open as its own with the error `refused`, as a
/// database of RocksDB or LevelDB.
pub fn open_rocksdb(options: Builder, refused: Error) -> Result<RocksDb> {
    let opened = options.open_rocksdb();
    // If the directory is such a database, the second error says why it cannot be read. Otherwise
    // the first error describes the directory better.
    let known = match &refused {
        Error::Unsupported { what, .. } => what.split(';').next(),
        _ => None,
    };
    match known.filter(|known| known.starts_with("this is a database")) {
        Some(known) => opened.map_err(|error| match error.to_string() {
            text if text.contains(known) => Failure::new(text),
            text => Failure::new(format_args!("{known}: {text}")),
        }),
        None => opened.map_err(|_| refused.into()),
    }
}

/// The database of a command that only reads.
#[derive(Args)]
pub struct ReadDb {
    /// Directory of the database, which may be RocksDB's or LevelDB's
    #[arg(value_name = "DB")]
    path: PathBuf,
    /// The keyspace, or column family of RocksDB; \xNN stands for a byte [default: default]
    #[arg(long, visible_alias = "column-family", value_name = "NAME", value_parser = bytes())]
    keyspace: Option<Bytes>,
    /// Write nothing, not even a lock. This is the default if the directory cannot be written or
    /// another process has the database open; standard error then says so
    #[arg(long, verbatim_doc_comment)]
    read_only: bool,
}

impl ReadDb {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the keyspace, if one other than `default` is given.
    pub fn keyspace(&self) -> Option<&[u8]> {
        self.keyspace.as_ref().map(|name| &name.0[..]).filter(|&name| name != DEFAULT)
    }

    pub fn open(&self) -> Result<Db> {
        let name = self.keyspace().unwrap_or(DEFAULT);
        let options = Db::builder(&self.path).create_if_missing(false);
        let opened = match self.read_only {
            true => options.clone().open_read_only(),
            false => options.clone().open(),
        };
        let db = match opened {
            Err(error @ Error::Unsupported { .. }) => {
                return Ok(open_rocksdb(options, error)?.column_family(name)?);
            }
            Err(error) if !self.read_only && keeps_from_writing(&error) => {
                let db = options.open_read_only()?;
                tell(format_args!("note: opened read-only: {}", printable(&error.to_string())));
                db
            }
            opened => opened?,
        };
        let db = existing_keyspace(&db, name)?;
        if let Some(error) = db.stats().out_of_space {
            let error = printable(&error.to_string());
            tell(format_args!("note: opened without space to write: {error}"));
        }
        Ok(db)
    }
}

/// The keys that a command works on: those that satisfy all of these options.
#[derive(Args)]
pub struct KeyRange {
    /// Only keys that start with this; \xNN stands for a byte
    #[arg(long, value_name = "P", value_parser = bytes())]
    prefix: Option<Bytes>,
    /// Only keys at or after this one, in the same notation
    #[arg(long, value_name = "A", value_parser = bytes())]
    from: Option<Bytes>,
    /// Only keys before this one, in the same notation
    #[arg(long, value_name = "B", value_parser = bytes())]
    to: Option<Bytes>,
}

impl KeyRange {
    pub fn bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let KeyRange { prefix, from, to } = self;
        let (start, end) = match prefix {
            None => (None, None),
            Some(Bytes(prefix)) => (Some(prefix.clone()), end_of_prefix(prefix)),
        };
        // `end` is `None` if all bytes of the prefix are 255. Then every key above the prefix
        // begins with it, so the range needs no upper bound.
        let first = start.into_iter().chain(from.map(|from| from.0)).max();
        let past = end.into_iter().chain(to.map(|to| to.0)).min();
        (
            first.map_or(Bound::Unbounded, Bound::Included),
            past.map_or(Bound::Unbounded, Bound::Excluded),
        )
    }

    /// The entries whose keys are in this range.
    pub fn entries(self, db: &Db) -> DbIterator {
        match self {
            KeyRange { prefix: Some(prefix), from: None, to: None } => db.prefix(prefix.0),
            range => db.range(range.bounds()),
        }
    }
}

/// The first key after all keys that begin with `prefix`; `None` if there is none.
fn end_of_prefix(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}

/// Whether the error means only that this process cannot open the database for writing, so that
/// opening it read-only may succeed.
fn keeps_from_writing(error: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error {
        Error::Locked { .. } => true,
        Error::Io { source, .. } => matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem),
        _ => false,
    }
}

/// The assumed cost of reading a data block, in microseconds, if this cost is neither measured nor
/// given: the cost of a read from flash.
pub const USUAL_READ_MICROS: f64 = 80.0;

pub fn micros() -> impl Fn(&str) -> std::result::Result<f64, String> + Clone {
    number_in(0.0..=1e9, "microseconds between 0 and 1000000000, such as 100")
}

/// Reads a share, such as `1%`, `0.5 %` or `0.01`, within `range`, which `expected` describes in the
/// error message.
pub fn share_in(
    range: RangeInclusive<f64>,
    expected: &'static str,
) -> impl Fn(&str) -> std::result::Result<f64, String> + Clone {
    move |text| {
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text, 1.0),
        };
        number_in(range.start() * scale..=range.end() * scale, expected)(number)
            .map(|number| number / scale)
    }
}

/// Reads a number within `range`, which `expected` describes in the error message.
pub fn number_in(
    range: RangeInclusive<f64>,
    expected: &'static str,
) -> impl Fn(&str) -> std::result::Result<f64, String> + Clone {
    move |text| {
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_passes_every_option() {
        use Bound::{Excluded, Included, Unbounded};
        let of = |prefix: Option<&[u8]>, from: Option<&str>, to: Option<&str>| {
            let text = |text: &str| Bytes(text.into());
            let prefix = prefix.map(|prefix| Bytes(prefix.into()));
            KeyRange { prefix, from: from.map(text), to: to.map(text) }.bounds()
        };
        let (b, bb, c) = (|| b"b".to_vec(), || b"bb".to_vec(), || b"c".to_vec());
        assert_eq!(of(None, None, None), (Unbounded, Unbounded));
        assert_eq!(of(Some(b"b"), None, None), (Included(b()), Excluded(c())));
        assert_eq!(of(Some(b"b"), Some("a"), Some("z")), (Included(b()), Excluded(c())));
        assert_eq!(of(Some(b"b"), Some("bb"), None), (Included(bb()), Excluded(c())));
        assert_eq!(of(Some(b"b"), None, Some("bb")), (Included(b()), Excluded(bb())));
        assert_eq!(of(Some(b""), None, None), (Included(Vec::new()), Unbounded));
        assert_eq!(of(Some(b"\xff\xff"), None, None), (Included(vec![255; 2]), Unbounded));
        assert_eq!(of(Some(b"b\xff"), None, None).1, Excluded(c()));
    }

    #[test]
    fn counts_take_units_of_thousands() {
        for (text, expected) in [
            ("0", 0),
            ("1000000", 1_000_000),
            ("007", 7),
            ("10k", 10_000),
            ("10K", 10_000),
            ("100M", 100_000_000),
            ("2G", 2_000_000_000),
            ("1.5M", 1_500_000),
            ("0.001k", 1),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "k",
            ".5M",
            "1.M",
            "1.5",
            "1.0005k",
            "1..5M",
            "-1",
            "+1",
            "1 M",
            "1e6",
            "1T",
            "10kk",
            "10KiB",
            "ten",
            "1_000",
            "18446744073709551616",
            "99999999999G",
            "١",
        ] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        let few = count_in::<usize>(3..=1000);
        assert_eq!([few("3"), few("1k")], [Ok(3), Ok(1000)]);
        assert_eq!(few("2"), Err("expected 3 to 1,000".into()));
        assert!(few("1.001k").is_err() && few("2G").is_err());
        assert!(count_in::<u8>(0..=u64::MAX)("256").is_err(), "it does not fit");
    }

    #[test]
    fn a_share_is_a_part_of_one() {
        let share = share_in(0.001..=1.0, "a share");
        assert_eq!((share("1%"), share("0.5 %"), share(" 0.25 ")), (Ok(0.01), Ok(0.005), Ok(0.25)));
        assert_eq!((share("100%"), share("0.1%")), (Ok(1.0), Ok(0.001)));
        for wrong in ["0", "0%", "101%", "-1%", "nan", "%", "one", "1%%"] {
            assert_eq!(share(wrong), Err("expected a share".into()), "{wrong}");
        }
    }

    #[test]
    fn byte_counts_take_units() {
        assert_eq!(byte_count("4096"), Ok(4096));
        assert_eq!(byte_count("0"), Ok(0));
        assert_eq!(byte_count("64M"), Ok(64 << 20));
        assert_eq!(byte_count("2 GiB"), Ok(2 << 30));
        for wrong in ["", "M", "-1", "1.5G", "12 parsecs", "99999999999T"] {
            assert!(byte_count(wrong).is_err(), "{wrong}");
        }
    }
}
