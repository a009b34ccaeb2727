//! The options of the command.

use std::path::PathBuf;

use clap::Args;

use crate::args::{self, Bytes};

/// Say what the filters of a database do and what other filters would do on its keys.
///
///     maypole advise /var/lib/app/rocksdb
///     maypole advise /var/lib/app/rocksdb --sample 1% --files
///
/// DIR is a database of RocksDB or of Maypole. It may be in use: nothing is written to it and no
/// lock is taken. For each keyspace or column family the command prints
///
/// - the filters that are stored, by level: kind, bits a key, memory, and the tables whose filter
///   is not what OPTIONS asks for;
/// - their measured false-positive rate: each filter is queried with keys of other tables and with
///   made-up keys within the range of its table, which look like the table's keys;
/// - the data blocks that lookups of absent and present keys read;
/// - memory, build time and data blocks read with other policies, from filters that the command
///   builds of the tables' keys;
/// - advice: what to do, when not to do it, and the options to set.
///
/// All tables are read, unless --sample is given. Then only some tables are read, at least one a
/// level, and of tables above 72 MiB only some blocks. Build times are those of one thread on this
/// machine. An entry that only RocksDB reads, such as a merge operand, counts as a key, but a
/// lookup that meets one does not count.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Advise {
    /// Directory of the database
    pub dir: PathBuf,
    /// Only this keyspace or column family; \xNN stands for a byte [default: all with tables]
    #[arg(long, visible_alias = "column-family", value_name = "NAME", value_parser = args::bytes())]
    pub keyspace: Option<Bytes>,
    /// Read this share of each level, such as 1% or 0.01
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = args::share_in(1e-9..=1.0, "a share such as 1% or 0.01, above 0 and at most 100%"))]
    pub sample: f64,
    /// Print a row for each table too
    #[arg(long)]
    pub files: bool,
    /// Capacity of RocksDB's block cache, such as 512M [default: what LOG says]
    #[arg(long, value_name = "BYTES", value_parser = args::cache_bytes())]
    pub cache: Option<usize>,
    /// What a read of a data block costs, in microseconds: 80 on flash, 2 from the cache of the
    /// operating system
    #[arg(long, value_name = "MICROS", default_value_t = args::USUAL_READ_MICROS, value_parser = args::number_in(0.0..=1e9, "microseconds such as 80 or 2.5"), verbatim_doc_comment)]
    pub read_cost: f64,
    /// Look up the keys of this file, one a line, in place of keys drawn from the tables, so that
    /// the figures are means over the lookups of a real program. \xNN stands for a byte. What
    /// follows a tab is what came of the lookup: those that a memtable answered search no table.
    /// Predicts the data blocks that a lookup searches in vain, as it is and as advised. Of more
    /// than a million lookups, or than 100,000 keys, only every n-th counts
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    pub query_file: Option<PathBuf>,
    /// Draw another sample and other keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the same figures into this directory, as an HTML page and as JSON
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print a JSON object: schema, engine, read_cost_micros, families, refused
    #[arg(long)]
    pub json: bool,
}
