//! Computes the memory and the reads that other filter policies would need on this tree.
//!
//! A policy gives each level one kind of filter. `scan` has built filters of each kind from some
//! keys of each level. The sizes of these filters, scaled to all keys of the level, give the
//! memory. The reads follow from the false-positive rates of these filters, and from the number of
//! tables that a lookup would search in vain if there were no filters, which the measured lookups
//! have counted:
//!
//! ```text
//! blocks of an absent lookup  = Σ over levels of  tables without the key · rate
//! blocks of a present lookup  = the same sum, plus the blocks read in the table of its entry
//! ```
//!
//! The blocks that recorded lookups search in vain are computed by [`Searches`], with the same rates.

use maypole::filter::{Family, FilterSpec};

use super::lookups::Measured;
use super::scanned::{Asked, Built};
use super::searches::Searches;
use super::tables::Table;
use crate::recommend::Estimate;
use crate::show::grouped;

/// The bits per key, as RocksDB counts them, of the Bloom and Ribbon policies that `advise` tries.
pub const ROCKSDB_BITS: [u32; 4] = [8, 10, 12, 16];
/// The suffix in the name of a policy that gives each level its own bits.
pub const BY_LEVEL: &str = " by level";
/// The stored bits per key of the filters of Maypole's own kinds that `advise` tries. Each of these
/// filters has about the false-positive rate of a Bloom filter with one of the [`ROCKSDB_BITS`]. No
/// fuse filter has about the rate of a Bloom filter with 8 bits.
const BURR_BITS: [f64; 4] = [5.5, 7.0, 8.0, 10.5];
const FUSE_BITS: [f64; 3] = [8.0, 9.1, 11.4];

/// The bytes of one partition of a filter: RocksDB's default `metadata_block_size`, 4096 bytes,
/// less its `block_size_deviation`, 10 %.
const PART_BYTES: usize = 3687;
/// `advise` tries partitioned filters with only one setting: this many bits per key, as RocksDB
/// counts them. A Ribbon filter with this setting stores about the second number of bits per key.
const PARTED_BITS: u32 = 10;
const PARTED_RIBBON_BITS: usize = 7;

/// A filter of one kind and size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind {
    pub spec: FilterSpec,
    pub family: Family,
    /// The bits per key as RocksDB counts them, if RocksDB has the family.
    pub rocksdb_bits: Option<u32>,
    /// The number of keys of a partition; `None` if the filter is one block.
    pub part_keys: Option<usize>,
    /// Whether the filter holds whole keys, although those of the tables hold prefixes alone.
    pub whole_keys: bool,
}

/// All kinds of filters that `scan` builds.
pub fn kinds(tables: &[Table]) -> Vec<Kind> {
    let kind = |spec: Result<FilterSpec, _>, family, rocksdb_bits| {
        let (part_keys, whole_keys) = (None, false);
        spec.ok().map(|spec: FilterSpec| Kind { spec, family, rocksdb_bits, part_keys, whole_keys })
    };
    let (bits, own) = (ROCKSDB_BITS.iter(), |bits: &f64| *bits);
    let bloom = bits.clone().map(|&b| kind(FilterSpec::bloom(b.into()), Family::Bloom, Some(b)));
    let ribbon =
        bits.map(|&b| kind(FilterSpec::ribbon_like_bloom(b.into()), Family::Ribbon, Some(b)));
    let burr = BURR_BITS.iter().map(own).map(|b| kind(FilterSpec::burr(b), Family::Burr, None));
    let fuse = FUSE_BITS
        .iter()
        .map(own)
        .map(|b| kind(FilterSpec::stored(b, Family::Fuse), Family::Fuse, None));
    let whole: Vec<Kind> = bloom.chain(ribbon).chain(burr).chain(fuse).flatten().collect();
    let parted = whole.iter().filter(|kind| kind.rocksdb_bits == Some(PARTED_BITS));
    let parted = parted.map(|kind| {
        let bits = if kind.family == Family::Ribbon { PARTED_RIBBON_BITS } else { 10 };
        Kind { part_keys: Some(PART_BYTES * 8 / bits), ..*kind }
    });
    let parted: Vec<Kind> = parted.collect();
    let usual = whole.iter().filter(|kind| kind.rocksdb_bits == Some(PARTED_BITS));
    let of_prefixes = tables.iter().any(|table| table.feed.is_of_prefixes_alone());
    let with_keys = usual.filter(|_| of_prefixes).map(|kind| Kind { whole_keys: true, ..*kind });
    let with_keys = with_keys.collect();
    [whole, parted, with_keys].concat()
}

/// A level of the tree and what was measured in it.
#[derive(Debug, Clone, Default)]
pub struct Level {
    pub level: usize,
    /// About how many hashes (of keys, prefixes or both) the filters of the level hold together, or
    /// would hold if every table had a filter.
    pub keys: f64,
    pub asked: Asked,
    pub asked_of_any_bytes: Asked,
    /// The filters that were built of keys of this level, in the order of [`kinds`].
    pub built: Vec<Built>,
}

/// The levels that hold tables, from the shallowest.
pub fn levels(tables: &[Table], kinds: usize) -> Vec<Level> {
    let level = |(level, tables): (usize, Vec<&Table>)| {
        let built = vec![Built::default(); kinds];
        let mut level = Level { level, built, ..Level::default() };
        let (mut entries_read, mut keys_read) = (0, 0);
        for scanned in tables.iter().filter_map(|table| table.scanned.as_ref()) {
            level.asked += scanned.asked;
            level.asked_of_any_bytes += scanned.asked_of_any_bytes;
            level.built.iter_mut().zip(&scanned.built).for_each(|(sum, built)| sum.add(built));
            entries_read += scanned.entries;
            keys_read += scanned.keys;
        }
        let keys = |table: &&Table| match (table.form, &table.scanned) {
            (Some(_), _) => table.keys as f64,
            (None, Some(scanned)) if scanned.is_whole => scanned.keys as f64,
            _ => table.entries as f64 * keys_read as f64 / entries_read.max(1) as f64,
        };
        level.keys = tables.iter().map(keys).sum();
        level
    };
    grouped(tables.iter().map(|table| (table.level, table))).into_iter().map(level).collect()
}

/// The memory and the reads of a policy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    pub name: String,
    /// The policy as Maypole writes it.
    pub maypole: String,
    /// The value of RocksDB's `filter_policy`; `None` if RocksDB has no such policy.
    pub rocksdb: Option<String>,
    /// Whether RocksDB leaves the last level without filters, by `optimize_filters_for_hits`.
    pub last_level_without: bool,
    /// Whether filters are partitioned, as with RocksDB's `partition_filters`.
    pub partitioned: bool,
    /// Whether filters hold whole keys too, although the stored ones hold prefixes alone.
    pub whole_keys: bool,
    pub family: Option<Family>,
    pub rocksdb_bits: Option<u32>,
    pub filter_bytes: f64,
    pub bits_per_key: f64,
    /// Seconds that one thread takes to build all filters.
    pub build_seconds: f64,
    pub absent_blocks: f64,
    /// `None` if no present key could be looked up.
    pub present_blocks: Option<f64>,
    /// The data blocks that a mean recorded lookup searches in vain; `None` without recorded ones.
    pub in_vain: Option<Estimate>,
    /// For each level that holds tables, the position of its kind of filter, or `None` without one.
    pub kinds: Vec<Option<usize>>,
}

/// The lookups for which policies are computed.
#[derive(Clone, Copy)]
pub struct Load<'a> {
    pub measured: &'a Measured,
    /// The searches of recorded lookups, and the tables in which they are; `None` without a record.
    pub recorded: Option<(&'a Searches, &'a [Table])>,
}

/// The rows of all policies, except those whose filters could not be queried. If no lookup of one
/// kind was measured, its blocks are 0.
///
/// `stored_bytes` is the size of the stored filters: the memory that the policies "by level"
/// divide.
pub fn rows(levels: &[Level], kinds: &[Kind], load: Load, stored_bytes: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    let name = |kind: &Kind| match (kind.rocksdb_bits, kind.part_keys) {
        (Some(bits), None) if kind.whole_keys => format!("{}:{bits}, keys", kind.family),
        (Some(bits), None) => format!("{}:{bits}", kind.family),
        (Some(bits), Some(_)) => format!("{}:{bits}, parts", kind.family),
        (None, _) => kind.spec.to_string(),
    };
    let last = levels.len().saturating_sub(1);
    let of_kind = |(i, kind): (usize, &Kind), last_level_without: bool| {
        let (name, maypole) = match last_level_without {
            true => {
                (format!("{}, last none", name(kind)), format!("bottommost_none({})", kind.spec))
            }
            false => (name(kind), kind.spec.to_string()),
        };
        let kind_of = |n| (n < last || !last_level_without).then_some(i);
        Some(Row {
            rocksdb: kind.rocksdb_bits.map(|bits| option(kind.family, bits)),
            last_level_without,
            partitioned: kind.part_keys.is_some(),
            whole_keys: kind.whole_keys,
            family: Some(kind.family),
            rocksdb_bits: kind.rocksdb_bits,
            ..row(name, maypole, levels, load, kind_of)?
        })
    };
    let usual = |(_, kind): &(usize, &Kind)| {
        last > 0 && kind.rocksdb_bits == Some(10) && kind.part_keys.is_none() && !kind.whole_keys
    };
    let all = || kinds.iter().enumerate();
    rows.extend(row("none".into(), "none".into(), levels, load, |_| None));
    rows.extend(all().filter_map(|kind| of_kind(kind, false)));
    rows.extend(all().filter(usual).filter_map(|kind| of_kind(kind, true)));
    for family in [Family::Bloom, Family::Ribbon, Family::Burr] {
        rows.extend(by_level(family, levels, kinds, load, stored_bytes));
    }
    rows
}

/// Divides a budget of memory among the levels: each level gets a filter of this family or none, so
/// that absent lookups, or recorded ones if there are any, search the fewest blocks in vain. The
/// budget is the memory of the stored filters, or 7 bits per key if there are none.
fn by_level(
    family: Family,
    levels: &[Level],
    kinds: &[Kind],
    load: Load,
    stored_bytes: u64,
) -> Option<Row> {
    let is_choice = |&i: &usize| {
        let kind = &kinds[i];
        kind.family == family && kind.part_keys.is_none() && !kind.whole_keys
    };
    let choices = (0..kinds.len()).filter(is_choice).map(Some);
    let choices: Vec<Option<usize>> = std::iter::once(None).chain(choices).collect();
    if levels.len() < 2 || choices.len() < 2 {
        return None;
    }
    let keys: f64 = levels.iter().map(|level| level.keys).sum();
    let budget = if stored_bytes > 0 { stored_bytes as f64 } else { keys * 7.0 / 8.0 };
    let searched = match load.recorded {
        Some((searches, tables)) => &searches.by_level(tables),
        None => &load.measured.absent.tables_in_vain,
    };
    // For each level and each choice: the bytes of the filters, and the blocks that a lookup
    // searches in vain.
    let mut cells: Vec<Vec<(f64, f64)>> = Vec::new();
    for (n, level) in levels.iter().enumerate() {
        let in_vain = in_vain(searched, level);
        let of = |&choice: &Option<usize>| match choice {
            None => Some((0.0, in_vain)),
            Some(kind) => {
                let built = built(levels, n, kind)?;
                let bytes = level.keys * built.bytes as f64 / built.keys as f64;
                Some((bytes, built.rate() * in_vain))
            }
        };
        cells.push(choices.iter().map(of).collect::<Option<_>>()?);
    }
    // A tree usually has at most seven levels, so all combinations can be tried.
    let count = choices.len().checked_pow(u32::try_from(levels.len()).ok()?)?;
    let choice_of =
        |combination: usize, n: usize| combination / choices.len().pow(n as u32) % choices.len();
    let sums = |combination: usize| {
        let cells = cells.iter().enumerate().map(|(n, cells)| cells[choice_of(combination, n)]);
        cells.fold((0.0, 0.0), |(bytes, blocks), cell| (bytes + cell.0, blocks + cell.1))
    };
    let fitting = (0..count).map(|i| (i, sums(i))).filter(|(_, (bytes, _))| *bytes <= budget);
    let (best, _) = fitting.min_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b))?;
    let kind_of = |n: usize| choices[choice_of(best, n)];
    let row = row(String::new(), String::new(), levels, load, kind_of)?;
    let spec = |n| kind_of(n).map_or(FilterSpec::NONE, |kind| kinds[kind].spec).to_string();
    let mut specs: Vec<String> = (0..levels.len()).map(spec).collect();
    if levels[0].level > 0 {
        // The list of a `levels(...)` policy begins with level 0, and goes on with the other levels
        // that hold data. Here level 0 has no tables, so it gets the filter of the first level that
        // has some.
        specs.insert(0, specs[0].clone());
    }
    let maypole = format!("levels({})", specs.join(", "));
    Some(Row { name: format!("{family}{BY_LEVEL}"), maypole, ..row })
}

/// The size, build time and false-positive rate of the filters of a kind that were built for level
/// `n`. What is missing is taken from the filters of this kind in all levels together: the rate, if
/// the filters of level `n` were never queried; everything, if none was built. `None` if no filter
/// of this kind was queried.
fn built(levels: &[Level], n: usize, kind: usize) -> Option<Built> {
    let own = std::iter::once(levels[n].built[kind]);
    let all = levels.iter().map(|level| level.built[kind]);
    let built = sum(own.clone()).filter(|built| built.asked.queries > 0).or_else(|| {
        let all = sum(all)?;
        sum(own).map(|own| Built { asked: all.asked, ..own }).or(Some(all))
    })?;
    (built.asked.queries > 0).then_some(built)
}

/// The mean number of tables of `level` that a lookup without filters searches in vain. `tables` is
/// [`Lookups::tables_in_vain`](super::lookups::Lookups::tables_in_vain).
fn in_vain(tables: &[f64], level: &Level) -> f64 {
    tables.get(level.level).copied().unwrap_or(0.0)
}

/// The value of RocksDB's `filter_policy`.
pub fn option(family: Family, bits: u32) -> String {
    match family {
        Family::Ribbon => format!("ribbonfilter:{bits}:0"),
        _ => format!("bloomfilter:{bits}:false"),
    }
}

/// The row of a policy that gives level `n` the kind `kind_of(n)`, or no filter if that is `None`.
fn row(
    name: String,
    maypole: String,
    levels: &[Level],
    load: Load,
    kind_of: impl Fn(usize) -> Option<usize>,
) -> Option<Row> {
    let measured = load.measured;
    let kinds: Vec<Option<usize>> = (0..levels.len()).map(kind_of).collect();
    let rates = rates(levels, &kinds)?;
    let in_vain_recorded = load.recorded.and_then(|(searches, tables)| {
        Some(searches.with(&rates_of_tables(levels, tables, &kinds)?))
    });
    let (mut bytes, mut nanos, mut keys) = (0.0, 0.0, 0.0);
    let (mut absent, mut present) = (0.0, own_blocks(measured));
    for (n, level) in levels.iter().enumerate() {
        keys += level.keys;
        if let Some(kind) = kinds[n] {
            let built = built(levels, n, kind)?;
            bytes += level.keys * built.bytes as f64 / built.keys as f64;
            nanos += level.keys * built.key_nanos;
        }
        absent += rates[n] * in_vain(&measured.absent.tables_in_vain, level);
        present += rates[n] * in_vain(&measured.present.tables_in_vain, level);
    }
    Some(Row {
        name,
        maypole,
        filter_bytes: bytes,
        bits_per_key: bytes * 8.0 / f64::max(keys, 1.0),
        build_seconds: nanos / 1e9,
        absent_blocks: absent,
        present_blocks: (measured.present.count > 0).then_some(present),
        in_vain: in_vain_recorded,
        kinds,
        ..Row::default()
    })
}

/// For each level, the false-positive rate of filters of these kinds; 1 without filters. `None` if
/// the filters of one kind could not be queried.
fn rates(levels: &[Level], kinds: &[Option<usize>]) -> Option<Vec<f64>> {
    let rate = |(n, kind): (usize, &Option<usize>)| match *kind {
        None => Some(1.0),
        Some(kind) => Some(built(levels, n, kind)?.rate()),
    };
    kinds.iter().enumerate().map(rate).collect()
}

/// For each table, the rate of its filter, if each level has this kind: that of the filter that was
/// built of its keys, because one of few keys has a rate of its own; or else that of its level.
pub fn rates_of_tables(
    levels: &[Level],
    tables: &[Table],
    kinds: &[Option<usize>],
) -> Option<Vec<f64>> {
    let rates = rates(levels, kinds)?;
    let rate = |table: &Table| {
        let n = position(levels, table.level);
        let own = table.scanned.as_ref().zip(kinds[n]).map(|(scanned, kind)| scanned.built[kind]);
        own.filter(|built| built.asked.queries > 0).map_or(rates[n], |built| built.rate())
    };
    Some(tables.iter().map(rate).collect())
}

/// The position of a level in `levels`.
pub fn position(levels: &[Level], level: usize) -> usize {
    levels.partition_point(|of| of.level < level)
}

/// The figures of several built filters, added up; `None` if no filter was built.
fn sum(built: impl Iterator<Item = Built>) -> Option<Built> {
    let mut all = Built::default();
    built.for_each(|built| all.add(&built));
    (all.keys > 0).then_some(all)
}

/// The mean number of blocks that a present lookup reads in the table that holds its entry: all
/// blocks that it reads without filters, less one for each table that it searches in vain.
fn own_blocks(measured: &Measured) -> f64 {
    let in_vain: f64 = measured.present.tables_in_vain.iter().sum();
    (measured.present.blocks_without_filters - in_vain).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::lookups::Lookups;
    use super::*;

    fn built(keys: u64, bits: u64, wrong: u64) -> Built {
        let asked = Asked { queries: 1000, wrong };
        let predicted = wrong as f64 / 1000.0;
        Built { keys, bytes: keys * bits / 8, key_nanos: 10.0, predicted, asked }
    }

    #[test]
    fn memory_and_reads_are_those_of_the_levels() {
        let kinds = [Kind {
            spec: FilterSpec::bloom(10.0).unwrap(),
            family: Family::Bloom,
            rocksdb_bits: Some(10),
            part_keys: None,
            whole_keys: false,
        }];
        let level = |level, keys, wrong| Level {
            level,
            keys,
            built: vec![built(100, 10, wrong)],
            ..Level::default()
        };
        let levels = [level(0, 1000.0, 10), level(3, 9000.0, 20)];
        let lookups = |blocks, tables_in_vain: [f64; 4]| Lookups {
            count: 1,
            blocks: 0.0,
            blocks_without_filters: blocks,
            tables_in_vain: tables_in_vain.to_vec(),
        };
        let measured = Measured {
            absent: lookups(3.0, [2.0, 0.0, 0.0, 1.0]),
            present: lookups(2.5, [1.5, 0.0, 0.0, 0.0]),
            ..Measured::default()
        };
        let rows = rows(&levels, &kinds, Load { measured: &measured, recorded: None }, 0);
        let names: Vec<&str> = rows.iter().map(|row| &row.name[..]).collect();
        assert_eq!(names, ["none", "bloom:10", "bloom:10, last none", "bloom by level"]);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        close(rows[0].absent_blocks, 3.0);
        close(rows[0].present_blocks.unwrap(), 2.5);
        close(rows[1].absent_blocks, 2.0 * 0.01 + 0.02);
        close(rows[1].present_blocks.unwrap(), 1.0 + 1.5 * 0.01);
        // The filters that were built take 1.25 bytes a key: 100 keys of 10 bits take 125 bytes.
        close(rows[1].filter_bytes, 10_000.0 * 1.25);
        close(rows[1].build_seconds, 10_000.0 * 10e-9);
        close(rows[2].filter_bytes, 1000.0 * 1.25);
        close(rows[2].absent_blocks, 2.0 * 0.01 + 1.0);
        assert_eq!(rows[1].rocksdb.as_deref(), Some("bloomfilter:10:false"));
    }
    #[test]
    fn a_budget_is_divided_so_that_absent_lookups_read_least() {
        let kind = |bits| Kind {
            spec: FilterSpec::burr(bits).unwrap(),
            family: Family::Burr,
            rocksdb_bits: None,
            part_keys: None,
            whole_keys: false,
        };
        let kinds = [kind(5.5), kind(8.0)];
        let level = |level, keys| Level {
            level,
            keys,
            built: vec![built(800, 5, 30), built(800, 8, 4)],
            ..Level::default()
        };
        // A small level and one of a hundred times its size. Every lookup reaches both.
        let levels = [level(1, 1000.0), level(6, 100_000.0)];
        let lookups = Lookups {
            count: 1,
            blocks_without_filters: 2.0,
            tables_in_vain: vec![0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0],
            ..Lookups::default()
        };
        let measured =
            Measured { absent: lookups.clone(), present: lookups, ..Measured::default() };
        let load = Load { measured: &measured, recorded: None };
        let divide = |levels: &[Level], bytes| by_level(Family::Burr, levels, &kinds, load, bytes);
        let policy = |bytes| divide(&levels, bytes).unwrap().maypole;
        // The first budget allows 8 bits in the small level only, and the second in both levels;
        // the third allows no filter in the large level.
        assert_eq!(policy(64_000), "levels(burr(8), burr(8), burr(5.5))");
        assert_eq!(policy(200_000), "levels(burr(8), burr(8), burr(8))");
        assert_eq!(policy(2_000), "levels(burr(8), burr(8), none)");
        assert_eq!(divide(&levels[..1], 1), None);
        assert_eq!(by_level(Family::Bloom, &levels, &kinds, load, 64_000), None);
    }
}
