//! The options of an opening, drawn anew each time: any of them may be chosen for any database, and
//! none may change what a reader sees.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use maypole::fs::Fs;
use maypole::table::{MetadataForm, TableOptions};
use maypole::{BlockCache, Builder, Compression, Db, FilterKeys, PinMetadata};
use rand::RngExt;
use rand::rngs::StdRng;

/// Every option that [`Builder`] has, except those that concern opening itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    pub filter: &'static str,
    /// Whether the filters hold prefixes only, or whole keys too; and how prefixes are cut.
    pub prefixes: Option<(bool, &'static str)>,
    pub block_cache_bytes: usize,
    /// Whether the block cache is [`SHARED`] instead.
    pub shares_cache: bool,
    pub pin_metadata: PinMetadata,
    pub metadata: MetadataForm,
    pub reads_every_filter: bool,
    pub compression: Compression,
    pub block_bytes: usize,
    pub memtable_bytes: usize,
    pub table_bytes: u64,
    pub level_base_bytes: u64,
    pub compaction_threads: usize,
    pub max_deletion_age: Duration,
    pub max_open_files: Option<usize>,
    pub publish_stats: bool,
    pub manifest_roll_bytes: Option<u64>,
}

const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The options that a program gets if it sets none, but small tables: with tables of 64 MiB nothing
/// would ever be compacted in a run of a second.
pub const PLAIN: Settings = Settings {
    filter: "bloom(10)",
    prefixes: None,
    block_cache_bytes: 64 << 20,
    shares_cache: false,
    pin_metadata: PinMetadata::None,
    metadata: MetadataForm::Auto,
    reads_every_filter: false,
    compression: Compression::Lz4,
    block_bytes: 4096,
    memtable_bytes: 16 << 20,
    table_bytes: 16 << 10,
    level_base_bytes: 64 << 20,
    compaction_threads: 2,
    max_deletion_age: MONTH,
    max_open_files: None,
    publish_stats: false,
    manifest_roll_bytes: None,
};

/// A small cache, which databases of several runs share.
static SHARED: LazyLock<Arc<BlockCache>> = LazyLock::new(|| BlockCache::new(300 << 10));

const FILTERS: [&str; 20] = [
    "none",
    "bloom(10)",
    "bloom(1)",
    "bloom(3.3)",
    "ribbon(7)",
    "burr(7)",
    "fuse(9)",
    "fuse(4)",
    "ribbon_like_bloom(10)",
    "fpr(0.3)",
    "fpr(0.01, burr)",
    "fpr(0.001, fuse)",
    "capped(bloom(20), 1KiB)",
    "levels(none, bloom(12), burr(5))",
    "bottommost_none(ribbon(6))",
    "budget(6/key, burr)",
    "budget(2KiB, bloom)",
    "budget(100KiB, ribbon)",
    "learned(6/key, burr)",
    "learned(2KiB, bloom)",
];

const EXTRACTORS: [&str; 6] =
    ["fixed(1)", "fixed(7)", "capped(2)", "capped(300)", "delimiter(0x2f,1)", "delimiter(0x61,2)"];

fn one_of<T: Copy>(rng: &mut StdRng, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())]
}

impl Settings {
    /// Draws all options. Sizes that make deep trees of small files are the most frequent.
    pub fn draw(rng: &mut StdRng) -> Settings {
        const KIB: usize = 1 << 10;
        const MIB: usize = 1 << 20;
        Settings {
            filter: one_of(rng, &FILTERS),
            prefixes: rng
                .random_bool(0.3)
                .then(|| (rng.random_bool(0.5), one_of(rng, &EXTRACTORS))),
            block_cache_bytes: one_of(rng, &[0, 1, 10 * KIB, 100 * KIB, MIB, 64 * MIB]),
            shares_cache: rng.random_bool(0.1),
            pin_metadata: one_of(
                rng,
                &[PinMetadata::None, PinMetadata::None, PinMetadata::Level0, PinMetadata::All],
            ),
            metadata: one_of(rng, &[MetadataForm::Auto, MetadataForm::Whole, MetadataForm::Parts]),
            reads_every_filter: rng.random_bool(0.3),
            compression: one_of(rng, &Compression::ALL),
            block_bytes: one_of(
                rng,
                &[64, 200, 512, 4 * KIB, 4 * KIB, 16 * KIB, 64 * KIB, MIB, 16 * MIB],
            ),
            memtable_bytes: one_of(
                rng,
                &[4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 16 * MIB, 16 * MIB, 16 * MIB],
            ),
            table_bytes: one_of(rng, &[4, 16, 16, 16, 64, 1 << 10, 64 << 10]) << 10,
            level_base_bytes: one_of(rng, &[4, 16, 64, 64 << 10, 64 << 10]) << 10,
            compaction_threads: one_of(rng, &[1, 2, 4]),
            max_deletion_age: one_of(rng, &[Duration::ZERO, Duration::from_secs(1), MONTH, MONTH]),
            max_open_files: one_of(rng, &[None, None, Some(1), Some(3), Some(50)]),
            publish_stats: rng.random_bool(0.1),
            manifest_roll_bytes: one_of(rng, &[None, Some(0), Some(1000)]),
        }
    }

    fn filter_keys(&self) -> FilterKeys {
        match self.prefixes {
            None => FilterKeys::Whole,
            Some((true, name)) => FilterKeys::Prefix(name.parse().unwrap()),
            Some((false, name)) => FilterKeys::Both(name.parse().unwrap()),
        }
    }

    pub fn builder(&self, path: &Path, fs: &Arc<dyn Fs>) -> Builder {
        let mut builder = self
            .of_keyspace(Db::builder(path).fs(Arc::clone(fs)))
            .block_cache_bytes(self.block_cache_bytes)
            .pin_metadata(self.pin_metadata)
            .reads_every_filter(self.reads_every_filter)
            .compaction_threads(self.compaction_threads);
        if self.shares_cache {
            builder = builder.block_cache(Arc::clone(&SHARED));
        }
        if let Some(files) = self.max_open_files {
            builder = builder.max_open_files(files);
        }
        if let Some(bytes) = self.manifest_roll_bytes {
            builder = builder.manifest_roll_bytes(bytes);
        }
        if self.publish_stats {
            builder = builder.publish_stats(Duration::from_millis(10));
        }
        builder
    }

    /// Sets those options that a keyspace has for itself.
    pub fn of_keyspace(&self, builder: Builder) -> Builder {
        builder
            .filter(self.filter)
            .filter_keys(self.filter_keys())
            .metadata(self.metadata)
            .compression(self.compression)
            .block_bytes(self.block_bytes)
            .memtable_bytes(self.memtable_bytes)
            .table_bytes(self.table_bytes)
            .level_base_bytes(self.level_base_bytes)
            .max_deletion_age(self.max_deletion_age)
    }

    /// The options of a table that is written to be ingested.
    pub fn of_table(&self) -> TableOptions {
        TableOptions {
            block_bytes: self.block_bytes,
            compression: self.compression,
            filter_keys: self.filter_keys(),
            metadata: self.metadata,
            ..TableOptions::default()
        }
    }

    /// The same settings with one or all of their options as in [`PLAIN`]: simpler ones.
    pub fn simpler(&self) -> Vec<Settings> {
        let mut simpler = vec![PLAIN];
        macro_rules! plain {
            ($($field:ident)*) => {
                $(simpler.push(Settings { $field: PLAIN.$field, ..*self });)*
            };
        }
        plain!(filter prefixes block_cache_bytes shares_cache pin_metadata metadata reads_every_filter
            compression block_bytes memtable_bytes table_bytes level_base_bytes
            compaction_threads max_deletion_age max_open_files publish_stats manifest_roll_bytes);
        simpler.retain(|settings| settings != self);
        simpler
    }
}

/// As calls of a [`Builder`], without those that set a default.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        macro_rules! calls {
            ($($field:ident)*) => {
                $(if self.$field != PLAIN.$field {
                    write!(f, concat!(".", stringify!($field), "({:?})"), self.$field)?;
                })*
            };
        }
        write!(f, ".table_bytes({})", self.table_bytes)?;
        calls!(filter prefixes block_cache_bytes shares_cache pin_metadata metadata reads_every_filter
            compression block_bytes memtable_bytes level_base_bytes compaction_threads
            max_deletion_age max_open_files publish_stats manifest_roll_bytes);
        Ok(())
    }
}
