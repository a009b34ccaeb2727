//! `write-table`: writes sorted entries from standard input to a table file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use maypole::filter::FilterSpec;
use maypole::fs::{Fs, RealFs};
use maypole::table::{SstWriter, TableOptions, TableSummary};
use maypole::{Compression, Db, Error};

use crate::failure::{Failure, Result};
use crate::input::{Format, Input};
use crate::output::object;
use crate::scratch::Scratch;
use crate::show::text::{counted, escape, percent, size};
use crate::{args, progress};

/// Build a table file of sorted entries, for `maypole ingest` or RocksDB's IngestExternalFile.
///
/// Entries come from standard input, distinct keys in ascending order of their bytes:
///
///     LC_ALL=C sort -t "$(printf '\t')" -u -k 1,1 FILE | maypole write-table --out FILE.sst
///
/// If a key is not above the one before it, the command fails and names the line. The file gets its
/// name only when it is complete and durable, and then replaces an older file of that name. Several
/// calls can run at the same time, each with its own range of keys.
///
/// --json prints one object: file, entries, bytes, data_blocks, raw_bytes (of keys and values),
/// smallest, largest, filter, filter_bytes, bits_per_key, predicted_fpr (the false-positive rate to
/// expect). Without a filter the last four are null.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct WriteTable {
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The format of the entries
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "tsv")]
    format: Format,
    /// The table's filter: none, bloom(BITS), ribbon(BITS), fpr(RATE, FAMILY), ... (see compare).
    /// RocksDB uses bloom and ribbon, and ignores burr and fuse
    #[arg(long, value_name = "FILTER", default_value = "bloom(10)", verbatim_doc_comment)]
    filter: FilterSpec,
    /// Compression of data blocks: none, snappy, lz4 or zstd
    #[arg(long, value_name = "NAME", value_parser = args::compression, default_value = "lz4")]
    compression: Compression,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl WriteTable {
    pub fn run(self, out: &mut dyn Write) -> Result {
        self.check_name()?;
        self.check_parent()?;
        let mut input = Input::open(Path::new("-"), self.format)?;
        if input.is_at_end()? {
            return Err(Failure::new("standard input: no entries: a table needs one"));
        }
        // The table is written in a temporary directory, which is removed if the call is
        // interrupted.
        let scratch = Scratch::new(self.parent(), ".maypole-write-table-")?;
        let unfinished = scratch.path().join("table.sst");
        let summary = self.write(&mut input, &unfinished)?;
        RealFs.rename(&unfinished, &self.out)?;
        RealFs.sync_dir(self.parent())?;
        scratch.close()?;
        self.report(&summary, out)
    }

    /// Checks that the call would not replace a directory, a device or its own input.
    fn check_name(&self) -> Result {
        let shown = self.out.display();
        match fs::metadata(&self.out) {
            Ok(there) if is_standard_input(&there) => Err(Failure::new(format_args!(
                "{shown}: is also standard input, and would be replaced: take another name"
            ))),
            there
                if self.out.file_name().is_none()
                    || there.as_ref().is_ok_and(|it| !it.is_file()) =>
            {
                Err(Failure::new(format_args!("{shown}: expected the name of a file")))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the directory is not that of a database, because the new table could replace one
    /// of the database's tables.
    fn check_parent(&self) -> Result {
        match Db::published_stats(self.parent()) {
            Ok(_) => Err(Failure::new(format_args!(
                "{}: is in the directory of a database, whose tables have such names: write it elsewhere, \
                 then ingest it",
                self.out.display()
            ))),
            // A database of another engine.
            Err(error @ Error::Unsupported { .. }) => Err(error.into()),
            // There is no database.
            Err(_) => Ok(()),
        }
    }

    fn parent(&self) -> &Path {
        let parent = self.out.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    fn write(&self, input: &mut Input, path: &Path) -> Result<TableSummary> {
        let options = TableOptions {
            compression: self.compression,
            filter: self.filter,
            ..TableOptions::default()
        };
        let mut writer = SstWriter::create(path, options)?;
        let _spinner = progress::spinner("writing the table");
        let mut last: Option<Vec<u8>> = None;
        while let Some((key, value)) = input.next_entry()? {
            if last.as_deref().is_some_and(|last| key <= last) {
                let (key, last) = (key.to_vec(), last.unwrap_or_default());
                return Err(out_of_order(input, &key, &last));
            }
            let added = writer.put(key, value);
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            added.map_err(|error| Failure::new(format_args!("{}: {error}", input.location())))?;
        }
        Ok(writer.finish()?)
    }

    fn report(&self, summary: &TableSummary, out: &mut dyn Write) -> Result {
        let TableSummary { entries, file_bytes, data_blocks, .. } = *summary;
        let file = escape(self.out.as_os_str().as_encoded_bytes());
        // The summary has internal keys. Each ends in 8 bytes of sequence number and kind, which
        // are left out here.
        let user_key = |key: &[u8]| escape(&key[..key.len().saturating_sub(8)]);
        let (smallest, largest) = (user_key(&summary.smallest), user_key(&summary.largest));
        let raw_bytes = summary.raw_key_bytes + summary.raw_value_bytes - 8 * entries;
        let info = summary.filter.as_ref();
        let filter = info.and_then(|info| info.family).map(|family| family.to_string());
        let filter_bytes = info.map(|info| info.bytes);
        let bits_per_key = info.map(|info| info.bits_per_key());
        let predicted_fpr = info.and_then(|info| info.predicted_fpr);
        if self.json {
            let object = object! {
                file, entries, bytes = file_bytes, data_blocks, raw_bytes, smallest, largest,
                filter, filter_bytes, bits_per_key, predicted_fpr
            };
            writeln!(out, "{object}")?;
            return Ok(());
        }
        let (entries, bytes) = (counted(entries, "entry"), size(file_bytes));
        writeln!(out, "{file}: {entries}, {bytes}, from {smallest} to {largest}")?;
        match (filter, filter_bytes, bits_per_key, predicted_fpr) {
            (Some(filter), Some(bytes), Some(bits), Some(fpr)) => writeln!(
                out,
                "filter: {filter}, {}, {bits:.2} bits a key, {} false positives to expect",
                size(bytes),
                percent(fpr)
            )?,
            _ => writeln!(out, "filter: none")?,
        }
        Ok(())
    }
}

/// Whether standard input comes from this file. Always false outside Unix.
fn is_standard_input(file: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        use std::os::unix::fs::MetadataExt;
        let input = std::io::stdin().as_fd().try_clone_to_owned().map(fs::File::from);
        let input = input.and_then(|input| input.metadata());
        input.is_ok_and(|input| (input.dev(), input.ino()) == (file.dev(), file.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        false
    }
}

fn out_of_order(input: &Input, key: &[u8], last: &[u8]) -> Failure {
    let (key, last) = (escape(key), escape(last));
    let what = match key == last {
        true => format!("the key \"{key}\" is there already"),
        false => format!("the key \"{key}\" is below the one before it, \"{last}\""),
    };
    Failure::new(format_args!(
        "{}: {what}: distinct keys in the order of their bytes are needed, as `LC_ALL=C sort` gives \
         them (--help says more)",
        input.location()
    ))
}
