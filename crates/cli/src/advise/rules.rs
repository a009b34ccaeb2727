//! The advice that follows from what was measured: "do X, unless Y".
//!
//! Which filter to take is decided by [`recommend`], as in every other command. The other rules are
//! about what is wrong with the stored filters, and about the memory that RocksDB gives them. Each
//! rule is a function that returns its advice, or `None` if a figure that it needs is unknown.
//! [`advise`] is a pure function of a [`Situation`]. The test at the end of this file lists
//! situations and the sentences that each must give.

use maypole::filter::Family;
use maypole::wilson_interval_95;

use super::lookups::Lookups;
use super::policies::{self, Row};
use super::source::Engine;
use super::wanted::{Policy, Wanted};
use crate::recommend::words::{self, micros, seconds};
use crate::recommend::{self as rule, Estimate, Filter, Recommendation, recommend};
use crate::show::text::{count, counted, percent, size, small};

/// If filters and indexes take a larger share of the block cache than this, they leave too little
/// of it to data blocks.
const MUCH_OF_CACHE: f64 = 0.5;
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
    pub keys: f64,
    /// The number of tables whose filter is damaged.
    pub damaged: usize,
    /// The number of tables with an undamaged filter that is not what OPTIONS ask for.
    pub differing: usize,
    /// Whether the filter of a table holds prefixes alone.
    pub of_prefixes_alone: bool,
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
    /// The lookups that were measured with the stored filters.
    pub absent: Lookups,
    pub present: Lookups,
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
        another_filter,
        differing,
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

/// The recommended filter as JSON; `null` if no policy could be computed.
pub fn verdict(s: &Situation) -> String {
    s.to_rule().map_or("null".into(), |known| words::json(&known, &recommend(&known)))
}

/// The name of the row that is recommended in place of what there is.
pub fn recommended(s: &Situation) -> Option<String> {
    let known = s.to_rule()?;
    let recommended = recommend(&known);
    (!recommended.is_kept).then(|| recommended.take.name.clone())
}

impl Situation {
    fn is_rocksdb(&self) -> bool {
        self.engine == Engine::RocksDb
    }

    /// What the rule of all commands knows: all rows that the engine can make of an option. Filters
    /// in parts have the rates of whole ones, and the rows "by level" depend on the memory that the
    /// stored filters take, so that following them would give another row.
    fn to_rule(&self) -> Option<rule::Situation> {
        let filter = |row: &Row| Filter {
            name: row.name.clone(),
            bytes: row.filter_bytes,
            absent: Estimate::exact(row.absent_blocks),
            present: Estimate::exact(row.present_blocks.unwrap_or(0.0)),
            is_for_rocksdb: row.rocksdb.is_some() || row.family.is_none(),
            is_usual: self.is_usual(row),
            build_seconds: Some(row.build_seconds),
        };
        let may = |row: &&Row| row.family.is_some() && !row.partitioned;
        Some(rule::Situation {
            keys: self.keys,
            filters: self.rows.iter().filter(may).map(filter).collect(),
            without: self.rows.iter().find(|row| row.name == "none").map(filter)?,
            now: Some(Filter {
                name: "what there is".into(),
                bytes: self.filter_bytes as f64,
                absent: measured(&self.absent),
                present: measured(&self.present),
                is_for_rocksdb: true,
                ..Filter::default()
            }),
            share_absent: self.share_absent,
            read_micros: self.read_cost,
            must_suit_rocksdb: self.is_rocksdb(),
            prices: None,
        })
    }

    /// Whether the row is of what OPTIONS ask for or, if that has no row, of Bloom with 10 bits.
    fn is_usual(&self, row: &Row) -> bool {
        let is_plain = !row.last_level_without && !row.partitioned;
        let is_row = |family, bits: f64| {
            row.family == Some(family) && row.rocksdb_bits.is_some_and(|of| f64::from(of) == bits)
        };
        is_plain
            && match self.wanted.policy {
                Some(Policy::Ribbon(Some(bits))) => is_row(Family::Ribbon, bits),
                Some(Policy::Bloom(Some(bits))) => is_row(Family::Bloom, bits),
                _ => is_row(Family::Bloom, 10.0),
            }
    }

    /// How a changed policy reaches the tables of this tree, in words: "new tables only; …".
    fn when_rewritten(&self) -> String {
        match self.engine {
            Engine::RocksDb => format!(
                "new tables only: flush and compaction write them; `ldb compact` rewrites all {}",
                size(self.file_bytes)
            ),
            Engine::Maypole => {
                "new tables only; `maypole apply-filter DB POLICY` gives it to all tables".into()
            }
        }
    }

    /// The bits per key, as RocksDB counts them, for which the present filters were probably made:
    /// the one of [`policies::ROCKSDB_BITS`] with which filters of their family store about as many.
    fn like_bloom_bits(&self) -> Option<u32> {
        let row = |bits: u32| {
            let mut rows = self.rows.iter();
            rows.find(|row| row.family == self.family && row.rocksdb_bits == Some(bits))
        };
        let of_row = |bits: &&u32| {
            let stored = row(**bits).map_or(f64::from(**bits), |row| row.bits_per_key);
            (stored - self.bits_per_key).abs()
        };
        policies::ROCKSDB_BITS.iter().min_by(|a, b| of_row(a).total_cmp(&of_row(b))).copied()
    }

    /// The options that give new tables the filters of `row`; `None` stands for no filters.
    fn options_of(&self, row: Option<&Row>) -> Vec<String> {
        let Some(row) = row else {
            return match self.engine {
                Engine::RocksDb => vec!["filter_policy=nullptr".into()],
                Engine::Maypole => vec!["Db::builder(path).filter(\"none\")".into()],
            };
        };
        if self.engine == Engine::Maypole {
            let keys = if row.whole_keys { ".filter_keys(FilterKeys::Both(prefix))" } else { "" };
            return vec![format!("Db::builder(path).filter(\"{}\"){keys}", row.maypole)];
        }
        let mut options: Vec<String> =
            row.rocksdb.iter().map(|policy| format!("filter_policy={policy}")).collect();
        if row.whole_keys {
            options.push("whole_key_filtering=true".into());
        }
        if row.last_level_without != (self.wanted.for_hits == Some(true)) {
            options.push(format!("optimize_filters_for_hits={}", row.last_level_without));
        }
        if self.family == Some(Family::LegacyBloom) {
            options.push("format_version=5".into());
        }
        options
    }

    /// Whether OPTIONS ask for the filters of `row` already, so that only tables must be rewritten.
    fn is_asked_for(&self, row: &Row) -> bool {
        let text = self.wanted.policy_text.as_deref();
        let policies = [text, row.rocksdb.as_deref()].map(|text| text.map(Policy::parse));
        text.is_some() && policies[0] == policies[1] && self.options_of(Some(row)).len() == 1
    }

    /// A row in words. Ribbon stores fewer bits than RocksDB counts, so both numbers are given.
    fn name_of(&self, row: &Row) -> String {
        let stored = format!("{:.1} bits stored", row.bits_per_key);
        match (row.rocksdb_bits, &row.rocksdb) {
            (Some(_), Some(_)) if self.is_rocksdb() => format!("{} ({stored})", row.name),
            _ => format!("{} ({stored})", row.maypole),
        }
    }

    /// The lookups that count: those of absent keys or, with recorded lookups, all of them.
    fn lookup(&self) -> &'static str {
        if self.share_absent.is_some() { "a mean lookup" } else { "an absent lookup" }
    }
}

/// The data blocks of measured lookups, with their interval.
fn measured(of: &Lookups) -> Estimate {
    let gets = of.count.max(1) as f64;
    // The blocks in the table of a present key's entry are read for certain.
    let tables: f64 = of.tables_in_vain.iter().sum();
    let certain = (of.blocks_without_filters - tables).clamp(0.0, of.blocks);
    let read = ((of.blocks - certain) * gets).round() as u64;
    let trials = read.max(of.count * tables.ceil().max(1.0) as u64);
    let (low, high) = wilson_interval_95(read, trials).unwrap_or((0.0, 1.0));
    let times = trials as f64 / gets;
    Estimate { value: of.blocks, low: certain + low * times, high: certain + high * times }
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

fn are_left_over(s: &Situation) -> bool {
    s.is_rocksdb() && s.wanted.policy == Some(Policy::None) && s.filter_bytes > 0
}

fn left_over(s: &Situation) -> Option<Advice> {
    are_left_over(s).then(|| {
        let saved = s.absent.blocks_without_filters - s.absent.blocks;
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
                saved * s.read_cost,
                size(s.filter_bytes)
            ),
        }
    })
}

/// The filter that the rule of all commands recommends, if it is not what there is. Damaged filters
/// and those that RocksDB does not read must be mended first, because they do not show what the
/// stored filters are worth.
fn another_filter(s: &Situation) -> Option<Advice> {
    if s.damaged > 0 || are_left_over(s) {
        return None;
    }
    let known = s.to_rule()?;
    let now = known.now.as_ref()?;
    let recommended = recommend(&known);
    let Recommendation { take, is_kept: false, unless, .. } = &recommended else { return None };
    let row = s.rows.iter().find(|row| row.name == take.name && row.family.is_some());
    let is_asked_for = row.is_some_and(|row| s.is_asked_for(row));
    if is_asked_for && s.differing == 0 {
        // The tables are what RocksDB makes of these options, so compaction would change nothing.
        return None;
    }
    let action = match row {
        None => {
            format!("Write no filters: none saves {} {}", s.lookup(), micros(rule::LEAST_MICROS))
        }
        Some(row) if is_asked_for => format!(
            "Compact the column family, so that all tables have what OPTIONS ask for: {}",
            s.name_of(row)
        ),
        Some(row) => format!("Use {}", s.name_of(row)),
    };
    let (before, after) = (known.reads(now).value, known.reads(take).value);
    let time = (before - after) * s.read_cost;
    let is_for_time = time >= rule::LEAST_MICROS;
    let mut reasons: Vec<String> = unless.iter().map(words::reason).collect();
    reasons.extend((s.of_prefixes_alone).then(|| "only seeks of a prefix use the filters".into()));
    reasons.push(match (s.share_absent, is_for_time) {
        (Some(_), _) => "other lookups than the recorded ones come".into(),
        (None, true) => "lookups of absent keys are rare".into(),
        (None, false) => "compaction already waits for the processor".into(),
    });
    let saved = match time {
        time if time.abs() < 0.05 => "as fast".to_string(),
        time if time > 0.0 => format!("{} less", micros(time)),
        time => format!("{} more", micros(-time)),
    };
    let build =
        row.map_or(String::new(), |row| format!("; {} to build", seconds(row.build_seconds)));
    Some(Advice {
        action,
        unless: reasons.join(", or "),
        options: if is_asked_for { Vec::new() } else { s.options_of(row) },
        when: s.when_rewritten(),
        worth: format!(
            "{} reads {} blocks in place of {} ({saved}); filters take {} in place of {}{build}",
            s.lookup(),
            small(after),
            small(before),
            size(take.bytes as u64),
            size(s.filter_bytes)
        ),
    })
}

fn differing(s: &Situation) -> Option<Advice> {
    let is_said_already = s.wanted.policy == Some(Policy::None) || another_filter(s).is_some();
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
    let (kind, of) = match s.absent.count {
        0 => ("a present", &s.present),
        _ => ("an absent", &s.absent),
    };
    let known = s.to_rule();
    let recommended = known.as_ref().map(recommend);
    let unless = recommended.iter().flat_map(|of| of.unless.iter().map(words::reason));
    let unless: Vec<String> = unless.collect();
    Advice {
        action: format!("Keep what there is: {kind} lookup reads {:.3} blocks{rate}", of.blocks),
        unless: match unless.is_empty() {
            true => "memory is short, or a read costs much more".into(),
            false => unless.join(", or "),
        },
        ..Advice::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred million keys, of which each lookup reaches three tables.
    const KEYS: f64 = 1e8;

    fn row(family: Family, bits: u32, stored: f64, absent_blocks: f64) -> Row {
        Row {
            name: format!("{family}:{bits}"),
            maypole: format!("{family}({stored})"),
            rocksdb: Some(policies::option(family, bits)),
            family: Some(family),
            rocksdb_bits: Some(bits),
            filter_bytes: stored * KEYS / 8.0,
            bits_per_key: stored,
            build_seconds: if family == Family::Bloom { 1.0 } else { 4.0 },
            absent_blocks,
            present_blocks: Some(1.0 + absent_blocks * 2.0 / 3.0),
            ..Row::default()
        }
    }

    fn lookups(blocks: f64, certain: f64, tables: f64) -> Lookups {
        Lookups {
            count: 100_000,
            blocks: certain + blocks,
            blocks_without_filters: certain + tables,
            tables_in_vain: vec![tables],
        }
    }

    /// The filters of these bits that let an absent lookup read so many blocks.
    fn stored(s: Situation, bits_per_key: f64, absent_blocks: f64) -> Situation {
        Situation {
            bits_per_key,
            filter_bytes: (bits_per_key * KEYS / 8.0) as u64,
            absent: lookups(absent_blocks, 0.0, 3.0),
            present: lookups(absent_blocks * 2.0 / 3.0, 1.0, 2.0),
            ..s
        }
    }

    /// Bloom filters of 10 bits, as OPTIONS ask for.
    fn usual() -> Situation {
        let rows = [(8, 0.06, 5.5), (10, 0.03, 7.0), (12, 0.01, 8.5), (16, 0.002, 11.6)];
        let rows = rows.iter().flat_map(|&(bits, blocks, stored)| {
            [
                row(Family::Bloom, bits, bits.into(), blocks),
                row(Family::Ribbon, bits, stored, blocks),
            ]
        });
        let none = Row {
            name: "none".into(),
            maypole: "none".into(),
            absent_blocks: 3.0,
            present_blocks: Some(3.0),
            ..Row::default()
        };
        let s = Situation {
            engine: Engine::RocksDb,
            wanted: wanted("bloomfilter:10:false"),
            tables: 100,
            file_bytes: 10 << 30,
            keys: KEYS,
            damaged: 0,
            differing: 0,
            of_prefixes_alone: false,
            family: Some(Family::Bloom),
            bits_per_key: 0.0,
            filter_bytes: 0,
            index_bytes: 50_000_000,
            level_0_bytes: 1 << 20,
            largest_filter: 1 << 20,
            largest_index: 400_000,
            are_partitioned: false,
            cache_bytes: None,
            absent: Lookups::default(),
            present: Lookups::default(),
            share_absent: None,
            rate: Some(0.01),
            read_cost: 80.0,
            rows: rows.chain([none]).collect(),
        };
        stored(s, 10.0, 0.03)
    }

    fn wanted(policy: &str) -> Wanted {
        Wanted {
            policy: Some(Policy::parse(policy)),
            policy_text: Some(policy.into()),
            ..Wanted::default()
        }
    }

    fn ribbons() -> Situation {
        let s = Situation {
            wanted: wanted("ribbonfilter:10:0"),
            family: Some(Family::Ribbon),
            ..usual()
        };
        stored(s, 7.0, 0.03)
    }

    /// The table lists for each situation how each piece of advice begins, and what else must occur
    /// in the advice.
    #[test]
    fn every_situation_gives_its_sentences() {
        let charged = || Wanted {
            charged: Some(true),
            pins_level_0: Some(false),
            ..wanted("ribbonfilter:10:0")
        };
        let none = Situation { wanted: wanted("nullptr"), family: None, rate: None, ..usual() };
        let none = stored(none, 0.0, 3.0);
        let with = |s: Situation, row: Row| Situation {
            rows: s.rows.into_iter().chain([row]).collect(),
            ..s
        };
        let burr = Row {
            maypole: "burr(7)".into(),
            rocksdb: None,
            rocksdb_bits: None,
            ..row(Family::Burr, 7, 7.0, 0.029)
        };
        let last_without = Row {
            name: "ribbon:10, last none".into(),
            last_level_without: true,
            filter_bytes: 8_750_000.0,
            present_blocks: Some(1.02),
            ..row(Family::Ribbon, 10, 0.7, 1.02)
        };
        let prefixes = Situation { of_prefixes_alone: true, ..usual() };
        let keys = Row {
            name: "ribbon:10, keys".into(),
            whole_keys: true,
            ..row(Family::Ribbon, 10, 7.1, 0.02)
        };
        let passed = |row: &Row| match &row.name[..] {
            "none" => row.clone(),
            _ => Row { absent_blocks: 2.9, filter_bytes: 1e5, ..row.clone() },
        };
        let prefixes = Situation { rows: prefixes.rows.iter().map(passed).collect(), ..prefixes };
        let table: Vec<(&str, Situation, &[&str], &[&str])> = vec![
            ("no table", Situation { tables: 0, ..usual() }, &["Nothing to advise"], &[]),
            (
                "Bloom, and all is well",
                usual(),
                &["Use ribbon:10 (7.0 bits stored)"],
                &[
                    "filter_policy=ribbonfilter:10:0",
                    "0.0300 blocks in place of 0.0300 (as fast)",
                    "83.4 MiB in place of 119.2 MiB",
                    "new tables only",
                    "4.0 s",
                    "1.6 µs a lookup are worth 17.9 MiB of memory (then ribbon:12)",
                ],
            ),
            ("Ribbon, and all is well", ribbons(), &["Keep what there is"], &["0.030 blocks"]),
            (
                "no filter",
                none.clone(),
                &["Use ribbon:10 (7.0 bits stored)"],
                &[
                    "filter_policy=ribbonfilter:10:0",
                    "0.0300 blocks in place of 3.0000 (238 µs less)",
                    "83.4 MiB in place of 0 B",
                    "lookups of absent keys are rare",
                ],
            ),
            (
                "no filter, and reads cost nothing",
                Situation { read_cost: 0.1, ..none },
                &["Keep what there is"],
                &[],
            ),
            (
                "no filter in tables of an older policy",
                stored(Situation { differing: 40, ..ribbons() }, 4.2, 0.9),
                &[
                    "Compact the column family, so that all tables have what OPTIONS ask for: ribbon:10",
                ],
                &["70 µs less", "rewrites all"],
            ),
            (
                "other filters than OPTIONS ask for, which are as good",
                Situation { differing: 40, wanted: wanted("bloomfilter:8:false"), ..ribbons() },
                &["Compact the column family: 40 of 100"],
                &["kForce"],
            ),
            (
                "none in the last level, on purpose",
                stored(
                    Situation {
                        wanted: Wanted { for_hits: Some(true), ..wanted("ribbonfilter:10:0") },
                        ..ribbons()
                    },
                    0.7,
                    1.01,
                ),
                &["Use ribbon:10"],
                &["optimize_filters_for_hits=false", "lookups of absent keys are rare"],
            ),
            (
                "recorded lookups, nearly all of present keys",
                with(Situation { share_absent: Some(0.001), ..ribbons() }, last_without.clone()),
                &["Use ribbon:10, last none"],
                &["optimize_filters_for_hits=true", "8.34 MiB in place of 83.4 MiB"],
            ),
            (
                "recorded lookups, all of present keys",
                with(
                    Situation { share_absent: Some(0.0), absent: Lookups::default(), ..ribbons() },
                    last_without,
                ),
                &["Use ribbon:10, last none"],
                &["other lookups than the recorded ones come"],
            ),
            (
                "filters without a policy",
                Situation { wanted: wanted("nullptr"), differing: 100, ..ribbons() },
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
                stored(Situation { differing: 100, ..ribbons() }, 3.5, 0.3),
                &[
                    "Compact the column family, so that all tables have what OPTIONS ask for: ribbon:10",
                ],
                &["0.0300 blocks in place of 0.3000 (22 µs less)", "83.4 MiB in place of 41.7 MiB"],
            ),
            (
                "far too many bits, of before 6.6",
                Situation { family: Some(Family::LegacyBloom), ..stored(usual(), 250.0, 0.0132) },
                &["Use ribbon:12 (8.5 bits stored)"],
                &[
                    "format_version=5",
                    "0.0100 blocks in place of 0.0132",
                    "101.3 MiB in place of 2.91 GiB",
                ],
            ),
            (
                "filters of before 6.6",
                Situation { family: Some(Family::LegacyBloom), ..stored(usual(), 10.0, 0.15) },
                &["Use ribbon:10"],
                &["format_version=5", "9.6 µs less"],
            ),
            (
                "prefixes alone, which absent keys pass",
                with(stored(prefixes.clone(), 0.01, 2.9), keys.clone()),
                &["Use ribbon:10, keys (7.1 bits stored)"],
                &["whole_key_filtering=true", "only seeks of a prefix use the filters"],
            ),
            (
                "filters that fill the cache",
                Situation { wanted: charged(), cache_bytes: Some(128 << 20), ..ribbons() },
                &["Cut filters and indexes into parts", "Pin filters and indexes of level 0"],
                &["partition_filters=true", "pin_l0_filter_and_index_blocks_in_cache=true"],
            ),
            (
                "parts in a cache that is too small",
                Situation {
                    wanted: charged(),
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
                with(
                    Situation { engine: Engine::Maypole, wanted: Wanted::default(), ..usual() },
                    burr,
                ),
                &["Use burr(7) (7.0 bits stored)"],
                &["maypole apply-filter DB", "filter(\\\"burr(7)"],
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
