//! The advice that follows from what was measured: "do X, unless Y".
//!
//! Each rule is a function that returns its advice, or `None` if a figure that it needs is unknown.
//! [`advise`] is a pure function of a [`Situation`]. The test at the end of this file lists
//! situations and the sentences that each must give.

use maypole::filter::Family;

use super::policies::{self, Row};
use super::source::Engine;
use super::wanted::{Policy, Wanted};
use crate::show::text::{count, counted, percent, size};

/// Advice that saves less memory than this is not given.
const WORTH_BYTES: f64 = (1 << 20) as f64;
/// Advice that saves a lookup less time than this, in microseconds, is not given.
const WORTH_MICROS: f64 = 0.5;
/// Advice for more bits names the smallest filter with which an absent lookup reads at most this
/// many blocks, or else the largest filter.
const FEW_BLOCKS: f64 = 0.05;
/// If filters and indexes take a larger share of the block cache than this, they leave too little
/// of it to data blocks.
const MUCH_OF_CACHE: f64 = 0.5;
/// If at most this share of the lookups is of absent keys, the last level needs no filters.
const FEW_ABSENT: f64 = 0.01;
/// By default RocksDB divides its cache into at most 2^6 shards, so a block larger than 1/64 of the
/// cache may not fit into its shard.
const SHARE_OF_SHARD: u64 = 64;

/// What the rules know of a column family.
#[derive(Debug, Clone)]
pub struct Situation {
    pub engine: Engine,
    pub wanted: Wanted,
    pub tables: usize,
    pub file_bytes: u64,
    /// The share of the keys that are in tables without a usable filter.
    pub keys_without: f64,
    /// Whether all tables without a usable filter are in the last level.
    pub only_last_without: bool,
    /// The number of tables whose filter is damaged.
    pub damaged: usize,
    /// The number of tables with an undamaged filter that is not what OPTIONS ask for.
    pub differing: usize,
    /// The filter family, such as Bloom, whose filters hold the most keys.
    pub family: Option<Family>,
    /// The bits per key that the filters of this family store.
    pub bits_per_key: f64,
    pub filter_bytes: u64,
    pub index_bytes: u64,
    /// The stored bytes of the filters and indexes of level 0.
    pub level_0_bytes: u64,
    /// The stored bytes of the largest block of any filter and, in the next field, of any index. A
    /// partitioned index counts as 0, and so does a partitioned filter whose partitions were not
    /// read.
    pub largest_filter: u64,
    pub largest_index: u64,
    pub are_partitioned: bool,
    pub cache_bytes: Option<u64>,
    /// The mean number of data blocks that a lookup of an absent key reads with the stored filters
    /// and, in the next field, without any filter.
    pub absent_blocks: f64,
    pub absent_blocks_without: f64,
    /// The share of lookups of absent keys among those of `--query-file`; `None` without that file.
    pub share_absent: Option<f64>,
    /// The false-positive rate of the last level's filters; `None` if none was queried.
    pub rate: Option<f64>,
    /// The cost of a read, in microseconds.
    pub read_cost: f64,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Advice {
    /// What to do, without a full stop.
    pub action: String,
    pub unless: String,
    /// Options as OPTIONS writes them, or calls of Maypole's API.
    pub options: Vec<String>,
    /// When the action takes effect, and for which tables.
    pub when: String,
    /// What the action gains, and usually also what it costs.
    pub worth: String,
}

/// All advice, the most urgent first. The list is never empty.
pub fn advise(s: &Situation) -> Vec<Advice> {
    if s.tables == 0 {
        return vec![Advice {
            action: "Nothing to advise: there is no table yet".into(),
            unless: "data is in the log alone; flush it first".into(),
            ..Advice::default()
        }];
    }
    let rules = [
        damaged,
        left_over,
        without_filter,
        last_level_without,
        spare_last_level,
        differing,
        legacy,
        fewer_bytes,
        more_bits,
        too_large_for_cache,
        not_charged,
        level_0_not_pinned,
    ];
    let mut all: Vec<Advice> = rules.iter().filter_map(|rule| rule(s)).collect();
    if all.is_empty() {
        all.push(keep(s));
    }
    all
}

impl Situation {
    fn is_rocksdb(&self) -> bool {
        self.engine == Engine::RocksDb
    }

    fn row(&self, family: Family, bits: u32) -> Option<&Row> {
        self.rows.iter().find(|row| {
            row.family == Some(family)
                && row.rocksdb_bits == Some(bits)
                && !row.last_level_without
                && !row.partitioned
        })
    }

    /// The smallest bumped ribbon filter with at most 1.1 times the reads of `bloom`.
    fn burr_like(&self, bloom: &Row) -> Option<&Row> {
        let burr = self.rows.iter().filter(|row| row.family == Some(Family::Burr));
        let alike = burr.filter(|row| row.absent_blocks <= 1.1 * bloom.absent_blocks);
        alike.min_by(|a, b| a.filter_bytes.total_cmp(&b.filter_bytes))
    }

    /// Microseconds that reading `blocks` blocks takes.
    fn micros(&self, blocks: f64) -> f64 {
        blocks * self.read_cost
    }

    /// Whether an option that saves each absent lookup `blocks` reads is worth advice: whether it
    /// saves at least [`WORTH_MICROS`] in a mean lookup or, if the share of absent lookups is
    /// unknown, in an absent one.
    fn is_worth(&self, blocks: f64) -> bool {
        self.micros(blocks) * self.share_absent.unwrap_or(1.0) >= WORTH_MICROS
    }

    /// How a changed policy reaches the tables of this tree, in words: "new tables only; …".
    fn when_rewritten(&self) -> String {
        let bytes = size(self.file_bytes);
        match self.engine {
            Engine::RocksDb => format!(
                "new tables only: flush and compaction write them; `ldb compact` rewrites all {bytes}"
            ),
            Engine::Maypole => {
                format!(
                    "new tables only; `maypole compact DB --filter POLICY` rewrites all {bytes}"
                )
            }
        }
    }

    /// The bits per key, as RocksDB counts them, for which the present filters were probably made.
    /// This is a guess from the bits that they store: the one of [`policies::ROCKSDB_BITS`] with
    /// which filters of their family store about as many.
    fn like_bloom_bits(&self) -> Option<u32> {
        let of_row = |bits: &&u32| {
            let row = self.family.and_then(|family| self.row(family, **bits));
            let stored = row.map_or(f64::from(**bits), |row| row.bits_per_key);
            (stored - self.bits_per_key).abs()
        };
        policies::ROCKSDB_BITS.iter().min_by(|a, b| of_row(a).total_cmp(&of_row(b))).copied()
    }

    fn options_of(&self, row: &Row) -> Vec<String> {
        match (self.engine, &row.rocksdb) {
            (Engine::RocksDb, Some(policy)) => vec![format!("filter_policy={policy}")],
            (Engine::RocksDb, None) => Vec::new(),
            (Engine::Maypole, _) => vec![format!("Db::builder(path).filter(\"{}\")", row.maypole)],
        }
    }

    /// The bits of a row in words. Ribbon stores fewer bits than RocksDB counts, so both numbers
    /// are given for it: "10 as RocksDB counts, 7.0 bits stored".
    fn bits_of(&self, row: &Row) -> String {
        match (row.family, row.rocksdb_bits) {
            (Some(Family::Ribbon), Some(bits)) => {
                format!("{bits} as RocksDB counts, {:.1} bits stored", row.bits_per_key)
            }
            _ => format!("{:.1} bits stored", row.bits_per_key),
        }
    }
}

fn damaged(s: &Situation) -> Option<Advice> {
    (s.damaged > 0).then(|| Advice {
        action: format!(
            "Rewrite {} whose filter is damaged: it answers maybe to every key",
            counted(s.damaged as u64, "table")
        ),
        unless: "the files are being replaced from a backup anyway".into(),
        options: Vec::new(),
        when: "at once: compact the range of these tables (--files names them)".into(),
        worth: format!("up to {:.0} µs for each absent lookup that meets one", s.read_cost),
    })
}

fn left_over(s: &Situation) -> Option<Advice> {
    let is_left_over =
        s.is_rocksdb() && s.wanted.policy == Some(Policy::None) && s.filter_bytes > 0;
    is_left_over.then(|| {
        let saved = s.absent_blocks_without - s.absent_blocks;
        let bits = s.like_bloom_bits().unwrap_or(10);
        let policy = policies::option(s.family.unwrap_or(Family::Bloom), bits);
        Advice {
            action: "Name a filter policy: the tables have filters, and without a policy RocksDB \
                     reads none of them"
                .into(),
            unless: "the program that opens the database sets one itself".into(),
            options: vec![format!("filter_policy={policy}")],
            when: "with the next opening, for the filters that are there too".into(),
            worth: format!(
                "{saved:.2} blocks for each absent lookup, {:.0} µs; {} of memory",
                s.micros(saved),
                size(s.filter_bytes)
            ),
        }
    })
}

fn without_filter(s: &Situation) -> Option<Advice> {
    let is_asked_for = matches!(s.wanted.policy, Some(Policy::Bloom(_) | Policy::Ribbon(_)));
    if s.keys_without < 0.05 || (s.only_last_without && s.wanted.for_hits == Some(true)) {
        return None;
    }
    let row = s.row(Family::Ribbon, 10)?;
    let saved = s.absent_blocks - row.absent_blocks;
    if !s.is_worth(saved) {
        return None;
    }
    let share = percent(s.keys_without);
    let what = match is_asked_for {
        false => format!("Set a filter: {share} of the keys are in tables without one"),
        true => format!("Rewrite the tables without a filter, which hold {share} of the keys"),
    };
    Some(Advice {
        action: what,
        unless: "lookups of absent keys are rare, or the database is only scanned".into(),
        options: match is_asked_for {
            true => Vec::new(),
            false => s.options_of(row),
        },
        when: s.when_rewritten(),
        worth: format!(
            "{saved:.2} blocks for each absent lookup, {:.0} µs; {} of memory ({}), {} to build",
            s.micros(saved),
            size(row.filter_bytes as u64),
            s.bits_of(row),
            seconds(row.build_seconds)
        ),
    })
}

fn last_level_without(s: &Situation) -> Option<Advice> {
    if !(s.only_last_without && s.wanted.for_hits == Some(true) && s.keys_without >= 0.05) {
        return None;
    }
    let row = s.row(s.family.unwrap_or(Family::Ribbon), 10)?;
    let saved = s.absent_blocks - row.absent_blocks;
    s.is_worth(saved).then(|| Advice {
        action: "Give the last level filters too: each absent lookup reads a block there".into(),
        unless: "nearly all lookups find their key".into(),
        options: vec!["optimize_filters_for_hits=false".into()],
        when: s.when_rewritten(),
        worth: format!(
            "{saved:.2} blocks for each absent lookup, {:.0} µs; {} of memory",
            s.micros(saved),
            size((row.filter_bytes - s.filter_bytes as f64).max(0.0) as u64)
        ),
    })
}

fn spare_last_level(s: &Situation) -> Option<Advice> {
    let share = s.share_absent.filter(|&share| share <= FEW_ABSENT && s.keys_without < 0.05)?;
    let row = s.rows.iter().find(|row| row.last_level_without && row.family == s.family)?;
    let saved = s.filter_bytes as f64 - row.filter_bytes;
    let more = (row.absent_blocks - s.absent_blocks) * share;
    (saved >= WORTH_BYTES).then(|| Advice {
        action: format!(
            "Leave the last level without filters: {} of the recorded lookups are of absent keys",
            percent(share)
        ),
        unless: "other lookups than the recorded ones come".into(),
        options: match s.engine {
            Engine::RocksDb => vec!["optimize_filters_for_hits=true".into()],
            Engine::Maypole => s.options_of(row),
        },
        when: s.when_rewritten(),
        worth: format!(
            "{} of memory, for {more:.3} more blocks ({:.1} µs) of a mean lookup",
            size(saved as u64),
            s.micros(more)
        ),
    })
}

fn differing(s: &Situation) -> Option<Advice> {
    let is_said_already = s.wanted.policy == Some(Policy::None);
    (s.differing > 0 && !is_said_already).then(|| Advice {
        action: format!(
            "Compact the column family: {} of {} have other filters than OPTIONS ask for",
            count(s.differing as u64),
            counted(s.tables as u64, "table")
        ),
        unless: "compaction rewrites these tables soon anyway".into(),
        options: Vec::new(),
        when: format!(
            "`ldb compact`, or CompactRange with bottommost_level_compaction=kForce: all {}",
            size(s.file_bytes)
        ),
        worth: "what the new policy promises; the figures above are those of the old filters"
            .into(),
    })
}

fn legacy(s: &Situation) -> Option<Advice> {
    let row = s.row(Family::Bloom, 10).filter(|_| s.family == Some(Family::LegacyBloom))?;
    let saved = s.absent_blocks - row.absent_blocks;
    s.is_worth(saved).then(|| Advice {
        action:
            "Write tables of format_version 5: older ones have Bloom filters of 32-bit hashes, \
                 which let more through the larger they are"
                .into(),
        unless: "a RocksDB older than 6.6 must read the tables".into(),
        options: vec!["format_version=5".into()],
        when: s.when_rewritten(),
        worth: format!(
            "{saved:.2} blocks for each absent lookup, {:.1} µs, with 10 bits",
            s.micros(saved)
        ),
    })
}

fn fewer_bytes(s: &Situation) -> Option<Advice> {
    let bits = s.like_bloom_bits().filter(|_| s.family == Some(Family::Bloom))?;
    let bloom = s.row(Family::Bloom, bits)?;
    let smaller = match s.engine {
        Engine::RocksDb => s.row(Family::Ribbon, bits)?,
        Engine::Maypole => s.burr_like(bloom)?,
    };
    let saved = bloom.filter_bytes - smaller.filter_bytes;
    if saved < WORTH_BYTES || s.keys_without > 0.5 {
        return None;
    }
    let family = if s.is_rocksdb() { "Ribbon" } else { "bumped ribbon" };
    Some(Advice {
        action: format!("Use {family} in place of Bloom, {}, at the same rate", s.bits_of(smaller)),
        unless: "compaction already waits for the processor".into(),
        options: s.options_of(smaller),
        when: s.when_rewritten(),
        worth: format!(
            "{} of memory ({:.0} %); building takes {} in place of {}",
            size(saved as u64),
            saved * 100.0 / bloom.filter_bytes,
            seconds(smaller.build_seconds),
            seconds(bloom.build_seconds)
        ),
    })
}

fn more_bits(s: &Situation) -> Option<Advice> {
    let family = s.family.filter(|_| s.keys_without < 0.05 && s.damaged == 0)?;
    let now = s.like_bloom_bits()?;
    if s.absent_blocks <= 2.0 * FEW_BLOCKS {
        return None;
    }
    let rows = policies::ROCKSDB_BITS.iter().filter(|&&bits| bits > now);
    let rows: Vec<&Row> = rows.filter_map(|&bits| s.row(family, bits)).collect();
    let row = rows.iter().find(|row| row.absent_blocks <= FEW_BLOCKS).or(rows.last())?;
    let saved = s.absent_blocks - row.absent_blocks;
    let bytes = row.filter_bytes - s.filter_bytes as f64;
    (s.is_worth(saved) && bytes > 0.0).then(|| Advice {
        action: format!("Use more bits: {}", s.bits_of(row)),
        unless: "lookups of absent keys are rare, or memory is short".into(),
        options: s.options_of(row),
        when: s.when_rewritten(),
        worth: format!(
            "{saved:.2} blocks for each absent lookup, {:.1} µs; {} more memory",
            s.micros(saved),
            size(bytes as u64)
        ),
    })
}

fn too_large_for_cache(s: &Situation) -> Option<Advice> {
    let cache = s.cache_bytes.filter(|_| s.is_rocksdb() && s.wanted.charged == Some(true))?;
    let metadata = s.filter_bytes + s.index_bytes;
    let largest = s.largest_filter.max(s.largest_index);
    let is_much = metadata as f64 > MUCH_OF_CACHE * cache as f64;
    let is_large = largest > cache / SHARE_OF_SHARD;
    if s.are_partitioned || !(is_much || is_large) || largest == 0 {
        return None;
    }
    Some(Advice {
        action: format!(
            "Cut filters and indexes into parts: they take {} of a block cache of {}, the largest \
             block {}",
            size(metadata),
            size(cache),
            size(largest)
        ),
        unless: format!("the cache can be made larger than {}", size(2 * metadata)),
        options: [
            "partition_filters=true",
            "index_type=kTwoLevelIndexSearch",
            "pin_top_level_index_and_filter=true",
        ]
        .map(str::to_owned)
        .to_vec(),
        when: s.when_rewritten(),
        worth: format!(
            "a miss reads a part of 4 KiB in place of {}, and evicts as little data",
            size(largest)
        ),
    })
}

fn not_charged(s: &Situation) -> Option<Advice> {
    let cache = s.cache_bytes.filter(|_| s.is_rocksdb() && s.wanted.charged == Some(false))?;
    let metadata = s.filter_bytes + s.index_bytes;
    (metadata > cache).then(|| Advice {
        action: format!(
            "Charge filters and indexes to the block cache: open tables hold {} of them outside a \
             cache of {}, and no option bounds that",
            size(metadata),
            size(cache)
        ),
        unless: "that memory is there, and no lookup may read a filter from a file".into(),
        options: [
            "cache_index_and_filter_blocks=true",
            "partition_filters=true",
            "index_type=kTwoLevelIndexSearch",
        ]
        .map(str::to_owned)
        .to_vec(),
        when: "charging with the next opening; parts in new tables only".into(),
        worth: format!(
            "memory has a bound; make the cache {} larger to keep its data",
            size(metadata)
        ),
    })
}

fn level_0_not_pinned(s: &Situation) -> Option<Advice> {
    let cache = s.cache_bytes?;
    let is_open = s.is_rocksdb()
        && s.wanted.charged == Some(true)
        && s.wanted.pins_level_0 == Some(false)
        && s.level_0_bytes > 0
        && s.level_0_bytes * 8 <= cache;
    is_open.then(|| Advice {
        action: format!(
            "Pin filters and indexes of level 0, which every lookup needs: {}",
            size(s.level_0_bytes)
        ),
        unless: "level 0 grows far beyond its usual size".into(),
        options: vec!["pin_l0_filter_and_index_blocks_in_cache=true".into()],
        when: "with the next opening".into(),
        worth: "no lookup reads a filter of level 0 from a file".into(),
    })
}

fn keep(s: &Situation) -> Advice {
    let rate = s.rate.map_or(String::new(), |rate| {
        format!(", the last level's filters let {} through", percent(rate))
    });
    Advice {
        action: format!(
            "Keep what there is: an absent lookup reads {:.3} blocks{rate}",
            s.absent_blocks
        ),
        unless: "memory is short, or a read costs much more".into(),
        ..Advice::default()
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.1 => format!("{:.0} ms", s * 1000.0),
        s if s < 10.0 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(family: Family, bits: u32, stored: f64, absent_blocks: f64) -> Row {
        Row {
            name: format!("{family}:{bits}"),
            maypole: format!("{family}({stored})"),
            rocksdb: Some(policies::option(family, bits)),
            last_level_without: false,
            partitioned: false,
            family: Some(family),
            rocksdb_bits: Some(bits),
            filter_bytes: stored * 1e8 / 8.0,
            bits_per_key: stored,
            build_seconds: if family == Family::Bloom { 1.0 } else { 4.0 },
            absent_blocks,
            present_blocks: Some(1.0),
        }
    }

    /// A hundred million keys with Bloom filters of 10 bits, as OPTIONS ask for.
    fn usual() -> Situation {
        let rows = [(8, 0.06, 5.5), (10, 0.03, 7.0), (12, 0.01, 8.5), (16, 0.002, 11.6)];
        let rows = rows.iter().flat_map(|&(bits, blocks, stored)| {
            [
                row(Family::Bloom, bits, bits.into(), blocks),
                row(Family::Ribbon, bits, stored, blocks),
            ]
        });
        Situation {
            engine: Engine::RocksDb,
            wanted: Wanted { policy: Some(Policy::Bloom(Some(10.0))), ..Wanted::default() },
            tables: 100,
            file_bytes: 10 << 30,
            keys_without: 0.0,
            only_last_without: false,
            damaged: 0,
            differing: 0,
            family: Some(Family::Bloom),
            bits_per_key: 10.0,
            filter_bytes: 125_000_000,
            index_bytes: 50_000_000,
            level_0_bytes: 1 << 20,
            largest_filter: 1 << 20,
            largest_index: 400_000,
            are_partitioned: false,
            cache_bytes: None,
            absent_blocks: 0.03,
            absent_blocks_without: 3.0,
            share_absent: None,
            rate: Some(0.01),
            read_cost: 80.0,
            rows: rows.collect(),
        }
    }

    fn ribbons() -> Situation {
        Situation {
            wanted: Wanted { policy: Some(Policy::Ribbon(Some(10.0))), ..Wanted::default() },
            family: Some(Family::Ribbon),
            bits_per_key: 7.0,
            filter_bytes: 87_500_000,
            ..usual()
        }
    }

    /// The table lists for each situation how each piece of advice begins, and what else must occur
    /// in the advice.
    #[test]
    fn every_situation_gives_its_sentences() {
        let charged = |policy| Wanted {
            policy: Some(policy),
            charged: Some(true),
            pins_level_0: Some(false),
            ..Wanted::default()
        };
        let none = Situation {
            wanted: Wanted { policy: Some(Policy::None), ..Wanted::default() },
            keys_without: 1.0,
            family: None,
            bits_per_key: 0.0,
            filter_bytes: 0,
            absent_blocks: 3.0,
            rate: None,
            ..usual()
        };
        let burr = Row {
            name: "burr(7)".into(),
            maypole: "burr(7)".into(),
            rocksdb: None,
            rocksdb_bits: None,
            ..row(Family::Burr, 7, 7.0, 0.031)
        };
        let last_without = Row {
            last_level_without: true,
            filter_bytes: 8_750_000.0,
            ..row(Family::Ribbon, 10, 7.0, 1.02)
        };
        let table: Vec<(&str, Situation, &[&str], &[&str])> = vec![
            ("no table", Situation { tables: 0, ..usual() }, &["Nothing to advise"], &[]),
            (
                "Bloom, and all is well",
                usual(),
                &["Use Ribbon in place of Bloom, 10 as RocksDB counts, 7.0 bits stored"],
                &["filter_policy=ribbonfilter:10:0", "30 %", "new tables only", "4.0 s"],
            ),
            ("Ribbon, and all is well", ribbons(), &["Keep what there is"], &["0.030 blocks"]),
            (
                "no filter",
                none.clone(),
                &["Set a filter: 100 % of the keys"],
                &["filter_policy=ribbonfilter:10:0", "2.97 blocks", "238 µs", "83.4 MiB"],
            ),
            (
                "no filter, and no recorded lookup of an absent key",
                Situation { share_absent: Some(0.0), ..none.clone() },
                &["Keep what there is"],
                &[],
            ),
            (
                "no filter, and reads cost nothing",
                Situation { read_cost: 0.1, ..none },
                &["Keep what there is"],
                &[],
            ),
            (
                "no filter in tables of an older policy",
                Situation { keys_without: 0.4, absent_blocks: 0.9, differing: 40, ..ribbons() },
                &["Rewrite the tables without a filter", "Compact the column family: 40 of 100"],
                &["40.0 % of the keys", "kForce"],
            ),
            (
                "none in the last level, on purpose",
                Situation {
                    wanted: Wanted { for_hits: Some(true), ..ribbons().wanted },
                    keys_without: 0.9,
                    only_last_without: true,
                    absent_blocks: 1.01,
                    filter_bytes: 8_750_000,
                    ..ribbons()
                },
                &["Give the last level filters too"],
                &["optimize_filters_for_hits=false", "nearly all lookups find their key"],
            ),
            (
                "recorded lookups, nearly all of present keys",
                Situation {
                    share_absent: Some(0.001),
                    rows: ribbons().rows.into_iter().chain([last_without]).collect(),
                    ..ribbons()
                },
                &["Leave the last level without filters: 0.100 % of the recorded lookups"],
                &["optimize_filters_for_hits=true", "75.1 MiB", "0.001 more blocks (0.1 µs)"],
            ),
            (
                "filters without a policy",
                Situation {
                    wanted: Wanted { policy: Some(Policy::None), ..Wanted::default() },
                    differing: 100,
                    ..ribbons()
                },
                &["Name a filter policy"],
                &["filter_policy=ribbonfilter:10:0", "with the next opening", "2.97 blocks"],
            ),
            (
                "a damaged filter",
                Situation { damaged: 1, ..ribbons() },
                &["Rewrite 1 table whose filter is damaged"],
                &["answers maybe"],
            ),
            (
                "too few bits",
                Situation { bits_per_key: 5.5, absent_blocks: 0.3, filter_bytes: 1, ..ribbons() },
                &["Use more bits: 10 as RocksDB counts, 7.0 bits stored"],
                &["0.27 blocks", "21.6 µs"],
            ),
            (
                "filters of before 6.6",
                Situation { family: Some(Family::LegacyBloom), absent_blocks: 0.09, ..usual() },
                &["Write tables of format_version 5"],
                &["format_version=5", "0.06 blocks", "4.8 µs"],
            ),
            (
                "filters that fill the cache",
                Situation {
                    wanted: charged(Policy::Ribbon(Some(10.0))),
                    cache_bytes: Some(128 << 20),
                    ..ribbons()
                },
                &["Cut filters and indexes into parts", "Pin filters and indexes of level 0"],
                &["partition_filters=true", "pin_l0_filter_and_index_blocks_in_cache=true"],
            ),
            (
                "parts in a cache that is too small",
                Situation {
                    wanted: charged(Policy::Ribbon(Some(10.0))),
                    cache_bytes: Some(4 << 20),
                    are_partitioned: true,
                    ..ribbons()
                },
                &["Keep what there is"],
                &[],
            ),
            (
                "more metadata than cache, which nothing bounds",
                Situation {
                    wanted: Wanted { charged: Some(false), ..ribbons().wanted },
                    cache_bytes: Some(8 << 20),
                    ..ribbons()
                },
                &["Charge filters and indexes to the block cache: open tables hold 131.1 MiB"],
                &["cache_index_and_filter_blocks=true"],
            ),
            (
                "a database of Maypole's",
                Situation {
                    engine: Engine::Maypole,
                    wanted: Wanted::default(),
                    rows: usual().rows.into_iter().chain([burr]).collect(),
                    ..usual()
                },
                &["Use bumped ribbon in place of Bloom, 7.0 bits stored"],
                &["maypole compact DB", "filter(\\\"burr(7)"],
            ),
        ];
        for (name, situation, actions, others) in table {
            let advice = advise(&situation);
            let found: Vec<&str> = advice.iter().map(|advice| &advice.action[..]).collect();
            assert_eq!(found.len(), actions.len(), "{name}: {found:?}");
            for (found, action) in found.iter().zip(actions) {
                assert!(found.starts_with(action), "{name}: {found}");
            }
            let text = format!("{advice:?}");
            for other in others {
                assert!(text.contains(other), "{name}: {other}: {text}");
            }
            assert!(advice.iter().all(|advice| !advice.unless.is_empty()), "{name}");
        }
    }
}
