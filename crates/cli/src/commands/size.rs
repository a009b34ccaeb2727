//! `size`: computes how large filters must be, and their false-positive rates, without measuring.

use std::io::Write;

use clap::Args;
use maypole::filter::{Family, FilterReader, FilterSpec, SpecError, sizing};
use maypole_filter::textbook::{bloom, formulas};

use crate::args;
use crate::compare::lab;
use crate::failure::{Failure, Result};
use crate::output::{SCHEMA, json_lines, tell};
use crate::recommend::{Estimate, Filter, Situation, recommend, words};
use crate::show::record::{self, record};
use crate::show::sheet::{Column, Screen, Sheet, or_dash};
use crate::show::text::{counted, percent, size, small};

/// Compute how large filters must be for a number of keys, and what they will do.
///
/// For every kind of filter this prints bytes, probes, the expected false-positive rate, and the
/// rate if the same bytes hold more keys. Two more rows show the textbook's Bloom filter and the
/// fewest bits that any filter can take. A second table divides the bytes of each filter among the
/// levels of a tree in which each level holds a tenth of the keys of the level below. One row gives
/// all levels the same bits a key. Another row gives smaller levels more bits, as the policy
/// budget(...) does, so that absent lookups read fewer blocks. A third table shows the memory that
/// filters and indexes need together: whole, or in parts if the block cache does not hold them
/// whole. With --cache, the command tells whether it does. The last sentence says which filter to
/// take.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Size {
    /// How many keys, such as 100M
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = args::count_in::<u64>(1..=1_000_000_000_000)
    )]
    keys: u64,
    /// The false-positive rate to reach, such as 0.01 or 1%
    #[arg(long, value_name = "RATE", default_value = "0.01", value_parser = args::share_in(1e-8..=0.5, "a rate between 0.00000001 and 0.5, such as 0.01 or 1%"))]
    rate: f64,
    /// Compute the rate of this number of bits a key instead
    #[arg(long, value_name = "BITS", value_parser = args::number_in(1.0..=30.0, "bits a key between 1 and 30, such as 10"), conflicts_with = "rate")]
    bits: Option<f64>,
    /// Bytes of a key and its value together, for the filters' share of the data
    #[arg(
        long,
        alias = "entry-size",
        value_name = "BYTES",
        default_value_t = 128,
        value_parser = args::byte_count_in(1..=1 << 40)
    )]
    entry_bytes: usize,
    /// Memory of the machine, such as 16G, for the filters' share of it
    #[arg(long, value_name = "BYTES", value_parser = args::byte_count_in(1..=1 << 60))]
    memory: Option<usize>,
    /// Capacity of the block cache, such as 1G, for the filters and indexes that it must hold
    #[arg(long, value_name = "BYTES", value_parser = args::byte_count_in(1..=1 << 60))]
    cache: Option<usize>,
    /// Levels of the tree that hold data
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = args::count_in::<u64>(1..=7))]
    levels: u64,
    /// Print a JSON object: schema, filters, verdict
    #[arg(long)]
    json: bool,
}

record! {
    pub struct SizeRow {
        filter: String,
        keys: u64,
        bytes: u64,
        bits_per_key: f64,
        /// Bits per key, divided by the fewest bits per key that any filter of this rate can take.
        /// `None` at a rate of 100 %, which takes no bits.
        times_bound: Option<f64>,
        probes: Option<u64>,
        fpr: f64,
        /// The false-positive rate if the same bytes hold 1.5 times as many keys.
        fpr_at_1_5_times_the_keys: f64,
        fpr_at_2_times_the_keys: f64,
        fpr_at_5_times_the_keys: f64,
        /// Memory of the indexes of all tables, if they are whole.
        index_bytes: u64,
        /// Memory of the filters and indexes of all tables, if they are partitioned because the
        /// cache does not hold them whole: the partitions and their top-level indexes.
        parts_bytes: u64,
        /// Memory of the top-level indexes, which find the partitions, if filters and indexes are
        /// partitioned.
        top_bytes: u64,
    }
}

/// The filters of a tree with one policy.
struct TreeRow {
    policy: String,
    bytes: f64,
    /// Bits per key, from the smallest level to the largest.
    bits: Vec<f64>,
    /// Data blocks that a lookup of an absent key reads in vain: the sum of the false-positive
    /// rates of all levels.
    reads: f64,
}

impl Size {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let rows = self.rows()?;
        if self.json {
            return self.json(&rows, out);
        }
        let screen = Screen::stdout();
        let wanted = match self.bits {
            None => format!("at most {} false positives", percent(self.rate)),
            Some(bits) => format!("{bits} bits each"),
        };
        let heading = format!("Filters of {}, {wanted}", counted(self.keys, "key"));
        writeln!(out, "{}", screen.bold(&screen.wrap(&heading)))?;
        writeln!(out, "{}\n", filters(&rows).to_text(&screen))?;
        screen.say(self.formulas(&rows[0]), out)?;
        let tree = self.trees(&rows);
        let is_same = |pair: &[TreeRow]| (pair[1].bytes / pair[0].bytes - 1.0).abs() < 0.01;
        let mut heading = format!("The same memory in a tree of {}", counted(self.levels, "level"));
        if !tree.chunks_exact(2).all(is_same) {
            heading = format!(
                "At most the same memory in a tree of {}: no level gets a rate below {}",
                counted(self.levels, "level"),
                percent(BEST_FPR)
            );
        }
        writeln!(out, "\n{}", screen.bold(&screen.wrap(&heading)))?;
        writeln!(out, "{}\n", trees(&tree).to_text(&screen))?;
        let heading = "Memory of filters and indexes, data blocks of 4 KiB";
        writeln!(out, "{}", screen.bold(&screen.wrap(heading)))?;
        writeln!(out, "{}\n", self.memory(&rows[2..]).to_text(&screen))?;
        let warning = self.cache_warning(&rows[2..]);
        screen.say(warning.into_iter().chain(self.shares(&rows)), out)?;
        let situation = self.situation(&rows[2..]);
        let sentence = words::sentence(&situation, &recommend(&situation));
        screen.say([format!("{sentence}.")], out)
    }

    fn json(&self, rows: &[SizeRow], out: &mut dyn Write) -> Result {
        let situation = self.situation(&rows[2..]);
        let verdict = words::json(&situation, &recommend(&situation));
        let filters = json_lines(rows.iter().map(record::to_json));
        writeln!(
            out,
            "{{\n\"schema\": {SCHEMA},\n\"filters\": {filters},\n\"verdict\": {verdict}\n}}"
        )?;
        Ok(())
    }

    /// What the rule knows: each family has the same filter in all levels, and a read has its usual
    /// cost.
    fn situation(&self, rows: &[SizeRow]) -> Situation {
        let levels = self.levels as f64;
        let filter = |name: String, bytes: u64, rate: f64| Filter {
            bytes: bytes as f64,
            absent: Estimate::exact(levels * rate),
            present: Estimate::exact(1.0 + (levels - 1.0) * rate),
            is_for_rocksdb: !name.starts_with("burr") && !name.starts_with("fuse"),
            is_usual: name.starts_with("bloom"),
            build_seconds: None,
            name,
        };
        let of_row = |row: &SizeRow| {
            filter(format!("{}({:.1})", row.filter, row.bits_per_key), row.bytes, row.fpr)
        };
        Situation {
            keys: self.keys as f64,
            filters: rows.iter().map(of_row).collect(),
            without: filter("none".into(), 0, 1.0),
            read_micros: args::USUAL_READ_MICROS,
            ..Situation::default()
        }
    }

    /// A row for the textbook's filter, a row for the lower bound, and a row for each filter
    /// family.
    fn rows(&self) -> Result<Vec<SizeRow>> {
        let mut rows = vec![self.textbook(), self.bound()];
        for family in Family::written() {
            let spec = match self.spec(family) {
                // A family whose limits the arguments exceed gets a note and no row. Bloom has the
                // widest limits, so what even Bloom rejects is an error in the arguments.
                Err(error) if family != Family::Bloom => {
                    tell(format_args!("note: no {family}: {error}"));
                    continue;
                }
                spec => spec.map_err(Failure::new)?,
            };
            let row = self.family(family, spec)?;
            if row.filter != family.name() {
                let filter = &row.filter;
                tell(format_args!(
                    "note: with these few keys, tables get a {filter} filter in place of {family}"
                ));
                continue;
            }
            rows.push(row);
        }
        Ok(rows)
    }

    fn row(
        &self,
        filter: &str,
        bits: f64,
        probes: Option<u64>,
        fpr: impl Fn(f64) -> f64,
    ) -> SizeRow {
        let bytes = (self.keys as f64 * bits / 8.0).ceil() as u64;
        let blocks = (self.data_bytes() / BLOCK_BYTES).ceil();
        let separators_bytes = blocks * separator_bytes(self.keys);
        let stored_index_bytes = separators_bytes + blocks * STORED_INDEX_ENTRY_BYTES;
        // Filter and index are partitioned at the same keys, when a partition of either is full.
        let pairs = stored_index_bytes.max(bytes as f64) / BLOCK_BYTES;
        let top_bytes = pairs * TOP_ENTRY_BYTES;
        let parts_bytes = bytes as f64 + stored_index_bytes + pairs * PAIR_BYTES;
        let bound = sizing::lower_bound_bits_per_key(fpr(1.0));
        SizeRow {
            filter: filter.to_string(),
            keys: self.keys,
            bytes,
            bits_per_key: bits,
            times_bound: (bound > 0.0).then(|| bits / bound),
            probes,
            fpr: fpr(1.0),
            fpr_at_1_5_times_the_keys: fpr(1.5),
            fpr_at_2_times_the_keys: fpr(2.0),
            fpr_at_5_times_the_keys: fpr(5.0),
            index_bytes: (separators_bytes + blocks * INDEX_ENTRY_BYTES) as u64,
            parts_bytes: (parts_bytes + top_bytes) as u64,
            top_bytes: top_bytes as u64,
        }
    }

    fn data_bytes(&self) -> f64 {
        self.keys as f64 * self.entry_bytes as f64
    }

    /// The Bloom filter of the textbooks with the best whole number of probes. Its rate is computed
    /// exactly, because the usual formula only approximates it, and only for many keys.
    fn textbook(&self) -> SizeRow {
        let keys = self.keys as usize;
        let (bits, probes) = match self.bits {
            None => formulas::whole_shape(keys, self.rate),
            Some(bits) => {
                let probes = formulas::whole_hashes(bits).min(bloom::MAX_HASHES);
                (((bits * self.keys as f64).round() as usize).max(1), probes)
            }
        };
        let fpr = |times: f64| {
            formulas::exact_rate(bits, (self.keys as f64 * times).ceil() as usize, probes)
        };
        let each = bits as f64 / self.keys as f64;
        self.row("textbook bloom", each, Some(u64::from(probes)), fpr)
    }

    fn bound(&self) -> SizeRow {
        let bits = self.bits.unwrap_or_else(|| sizing::lower_bound_bits_per_key(self.rate));
        self.row("lower bound", bits, None, |times| (-bits / times).exp2())
    }

    fn spec(&self, family: Family) -> std::result::Result<FilterSpec, SpecError> {
        match self.bits {
            None => FilterSpec::fpr(self.rate, family),
            Some(bits) => FilterSpec::stored(bits, family),
        }
    }

    /// Builds a filter of at most [`MAX_BUILT_KEYS`] keys and returns its figures, scaled to all
    /// keys.
    fn family(&self, family: Family, spec: FilterSpec) -> Result<SizeRow> {
        let keys = self.keys.min(MAX_BUILT_KEYS);
        let build = |spec: FilterSpec| lab::build(spec, keys, 1);
        let block = build(spec).ok_or_else(|| Failure::new("no filter could be built"))?;
        let reader = FilterReader::from_bytes(block.bytes(), block.encoding());
        let bits = block.bits_per_key();
        let fpr = |times: f64| {
            if times == 1.0 {
                return block.predicted_fpr();
            }
            if block.family() == Family::Bloom {
                return reader.predicted_fpr((keys as f64 * times) as u64);
            }
            // Only Bloom can hold more keys than planned. A filter of another family is built again
            // with fewer bits for each key.
            let smaller = FilterSpec::stored(bits / times, family).ok().and_then(build);
            smaller.map_or(1.0, |block| block.predicted_fpr())
        };
        Ok(self.row(block.family().name(), bits, reader.probes().map(u64::from), fpr))
    }

    fn formulas(&self, textbook: &SizeRow) -> Vec<String> {
        let bound = sizing::lower_bound_bits_per_key(textbook.fpr);
        vec![
            match self.bits {
                None => {
                    let bits = formulas::bits_per_key(self.rate);
                    let mut line = format!(
                        "Textbook: m = -n ln p / (ln 2)^2 = {bits:.2} n bits, k = m/n ln 2 = {:.1} probes.",
                        formulas::best_hashes(bits)
                    );
                    if textbook.bits_per_key > 1.01 * bits {
                        let more = ", and a small number of keys, take more.";
                        let few = textbook.bits_per_key > 1.05 * bits;
                        line += " A whole number of probes";
                        line += if few { more } else { " takes more." };
                    }
                    line
                }
                Some(bits) => format!(
                    "Textbook: k = m/n ln 2 = {:.1} probes, p = (1 - e^(-k n/m))^k = {}.",
                    bits * std::f64::consts::LN_2,
                    percent(textbook.fpr)
                ),
            },
            format!(
                "Bound: no filter with a rate of {} takes fewer than log2(1/p) = {bound:.2} bits a key.",
                percent(textbook.fpr)
            ),
            "More keys: the rate when the same bytes have to do for 1.5, 2 and 5 times the keys, as in a \
             budget(SIZE). With bits a key, memory grows with the keys and the rate stays."
                .to_string(),
        ]
    }

    /// Keys of each level, the largest last.
    fn level_keys(&self) -> Vec<f64> {
        let parts: Vec<f64> = (0..self.levels as i32).map(|level| 10f64.powi(level)).collect();
        let sum: f64 = parts.iter().sum();
        parts.iter().map(|part| self.keys as f64 * part / sum).collect()
    }

    /// Two rows for each available family: the same bits on every level, and the same memory
    /// divided as `budget(...)` does.
    fn trees(&self, rows: &[SizeRow]) -> Vec<TreeRow> {
        let levels = self.level_keys();
        let mut trees = Vec::new();
        for row in &rows[2..] {
            let (filter, each, bytes) = (&row.filter, row.bits_per_key, row.bytes as f64);
            let (bits, reads) = (vec![each; levels.len()], row.fpr * levels.len() as f64);
            trees.push(TreeRow { policy: format!("{filter}({each:.1})"), bytes, bits, reads });
            let (bits, reads) = divide(&levels, bytes * 8.0, |rate| bits_for(row, rate));
            let bytes = levels.iter().zip(&bits).map(|(keys, bits)| keys * bits / 8.0).sum();
            let policy = format!("budget({each:.1}/key, {filter})");
            trees.push(TreeRow { policy, bytes, bits, reads });
        }
        trees
    }

    /// The sizes of the filters and indexes that lookups need in the block cache.
    fn memory(&self, rows: &[SizeRow]) -> Sheet {
        let both = |row: &SizeRow| row.bytes + row.index_bytes;
        let of_cache = |bytes: u64| percent(bytes as f64 / self.cache.unwrap_or(0) as f64);
        let columns: &[Column<SizeRow>] = &[
            ("filter", &|row| row.filter.clone().into()),
            ("filters", &|row| size(row.bytes).into()),
            ("indexes", &|row| size(row.index_bytes).into()),
            ("both", &|row| size(both(row)).into()),
            ("in parts\nall", &|row| size(row.parts_bytes).into()),
            ("\ntop levels", &|row| size(row.top_bytes).into()),
            ("both, of\nthe cache", &|row| of_cache(both(row)).into()),
        ];
        Sheet::of(rows, columns).with_if(self.cache.is_some(), "both, of\nthe cache")
    }

    /// A warning that names the families whose filters and indexes the cache does not hold whole.
    fn cache_warning(&self, rows: &[SizeRow]) -> Option<String> {
        let most = MAX_WHOLE_SHARE * self.cache? as f64;
        let both = |row: &SizeRow| (row.bytes + row.index_bytes) as f64;
        let too_large = || rows.iter().filter(|row| both(row) > most);
        let names: Vec<&str> = too_large().map(|row| row.filter.as_str()).collect();
        let needed = too_large().map(both).reduce(f64::max)? / MAX_WHOLE_SHARE;
        Some(format!(
            "Warning: filters ({}) and indexes do not fit into the block cache. New tables get them in parts of \
             4 KiB, and a lookup that finds a part evicted reads it again. A cache of {} holds them whole.",
            names.join(", "),
            size(needed as u64)
        ))
    }

    /// Sentences that tell the filters' share of the data and of the memory, and which shares are
    /// usual.
    fn shares(&self, rows: &[SizeRow]) -> Vec<String> {
        let mut lines = Vec::new();
        let data = self.data_bytes();
        for row in &rows[2..] {
            let share = row.bytes as f64 / data;
            let mut line = format!(
                "{}: {} are {} of {} of data (entries of {})",
                row.filter,
                size(row.bytes),
                percent(share),
                size(data as u64),
                counted(self.entry_bytes as u64, "byte")
            );
            if let Some(memory) = self.memory {
                let share = row.bytes as f64 / memory as f64;
                line += &format!(", {} of {} of memory", percent(share), size(memory as u64));
                if share > MUCH_MEMORY {
                    line += ": much, see below";
                }
            }
            lines.push(line + ".");
        }
        lines.push(
            "Rules of thumb: filters take 1 to 2 % of the data when entries are about a hundred bytes; \
             where they take over 5 % of memory, fewer bits, a Ribbon or a budget leave more to data \
             blocks."
                .to_string(),
        );
        lines
    }
}

const BLOCK_BYTES: f64 = 4096.0;
/// Bytes of memory that a whole index takes for each data block in addition to the separator: a
/// handle, a slot that points to the block while it is cached, the end of the separator and, for a
/// faster search, a second copy of 8 bytes of the separator.
const INDEX_ENTRY_BYTES: f64 = 36.5;
/// Bytes that an index takes in the file for each data block in addition to the separator: a handle
/// of 6 bytes, the lengths of the separator, and a restart point.
const STORED_INDEX_ENTRY_BYTES: f64 = 12.0;
/// Bytes of memory that a partition of the filter and one of the index together take in addition to
/// their stored bytes, in a cache that does not hold all filters and indexes whole.
const PAIR_BYTES: f64 = 640.0;
/// Bytes of memory that top-level indexes take for a partition of the filter and one of the index.
/// One entry finds both: it has two handles, two slots that point to the partitions while they are
/// cached, and one separator.
const TOP_ENTRY_BYTES: f64 = 61.0;
/// If all filters and indexes of a database need more than this share of the block cache, those of
/// new tables are partitioned (`MetadataForm::Auto`).
const MAX_WHOLE_SHARE: f64 = 7.0 / 8.0;
/// The most keys of a filter that is built. Larger filters have nearly the same bits per key and
/// rates.
const MAX_BUILT_KEYS: u64 = 200_000;
/// If filters take a larger share of memory than this, the output says that it is much.
const MUCH_MEMORY: f64 = 0.05;
/// The lowest false-positive rate that a level gets, as in the library's budgets.
const BEST_FPR: f64 = 1e-4;
/// A level whose filter would have a higher false-positive rate than this gets no filter.
const WORST_FPR: f64 = 0.6;

/// The mean length of the separator between two data blocks, in keys such as those of
/// docs/performance.md: 4 bytes that all keys share, and then random hexadecimal digits. A
/// separator is cut after the first byte by which the last key of a block differs from the next
/// key, so it becomes longer by one byte if there are 16 times as many keys.
fn separator_bytes(keys: u64) -> f64 {
    4.0 + (keys as f64).log(16.0)
}

/// The bits per key that a filter of the family of `row` needs for a rate. No number of them is
/// known to be enough where the filter of `row` has a rate of 100 %.
fn bits_for(row: &SizeRow, rate: f64) -> f64 {
    match row.filter.as_str() {
        _ if rate > WORST_FPR => 0.0,
        "bloom" => f64::from(sizing::bloom_millibits_for_fpr(rate)) / 1000.0,
        _ => row.times_bound.unwrap_or(f64::INFINITY) * sizing::lower_bound_bits_per_key(rate),
    }
}

/// Divides `budget_bits` among levels with these numbers of keys. `cost` computes the bits per key
/// that a rate takes. Returns the bits per key of each level and the sum of the false-positive
/// rates. Each rate is in proportion to the level's keys, which makes the sum smallest (Dayan,
/// Athanassoulis and Idreos, "Monkey", SIGMOD 2017).
fn divide(levels: &[f64], budget_bits: f64, cost: impl Fn(f64) -> f64) -> (Vec<f64>, f64) {
    let rate = |log2: f64, keys: f64| (log2.exp2() * keys).clamp(BEST_FPR, 1.0);
    let all = |log2: f64| levels.iter().map(|&keys| keys * cost(rate(log2, keys))).sum::<f64>();
    let (mut low, mut high) = (-80.0, 0.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if all(middle) > budget_bits { low = middle } else { high = middle }
    }
    let bits = levels.iter().map(|&keys| cost(rate(high, keys))).collect();
    let reads = levels.iter().map(|&keys| rate(high, keys));
    (bits, reads.map(|rate| if rate > WORST_FPR { 1.0 } else { rate }).sum())
}

fn filters(rows: &[SizeRow]) -> Sheet {
    let columns: &[Column<SizeRow>] = &[
        ("filter", &|row| row.filter.clone().into()),
        ("bytes", &|row| size(row.bytes).into()),
        ("bits/key", &|row| format!("{:.2}", row.bits_per_key).into()),
        ("times\nbound", &|row| or_dash(row.times_bound.map(|times| format!("{times:.2}")))),
        ("probes", &|row| or_dash(row.probes)),
        ("predicted\nrate", &|row| percent(row.fpr).into()),
        ("more keys\n1.5 x", &|row| percent(row.fpr_at_1_5_times_the_keys).into()),
        ("\n2 x", &|row| percent(row.fpr_at_2_times_the_keys).into()),
        ("\n5 x", &|row| percent(row.fpr_at_5_times_the_keys).into()),
    ];
    Sheet::of(rows, columns)
}

fn trees(rows: &[TreeRow]) -> Sheet {
    let bits = |bits: &f64| format!("{bits:.1}");
    let all_bits = |row: &TreeRow| row.bits.iter().map(bits).collect::<Vec<_>>().join(" / ");
    let columns: &[Column<TreeRow>] = &[
        ("policy", &|row| row.policy.clone().into()),
        ("bytes", &|row| size(row.bytes as u64).into()),
        ("bits/key,\nsmall to large level", &|row| all_bits(row).into()),
        ("reads per\nabsent lookup", &|row| small(row.reads).into()),
    ];
    Sheet::of(rows, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_reads_less_for_the_same_memory() {
        let levels = [1e3, 1e4, 1e5, 1e6];
        let keys: f64 = levels.iter().sum();
        let cost = sizing::lower_bound_bits_per_key;
        let (bits, reads) = divide(&levels, 7.0 * keys, cost);
        let stored: f64 = levels.iter().zip(&bits).map(|(keys, bits)| keys * bits).sum();
        assert!((stored / (7.0 * keys) - 1.0).abs() < 0.001, "{stored}");
        assert!(bits.windows(2).all(|pair| pair[0] >= pair[1]), "{bits:?}");
        let uniform = 4.0 * (-7f64).exp2();
        assert!(reads < uniform / 2.0, "{reads}, {uniform}");
    }

    /// `size` and the verdict of `compare` once called different families the cheapest, because
    /// `compare` took the rate of a table of 499 keys for that of a billion keys. Now both ask the
    /// same rule.
    #[test]
    fn the_verdict_of_compare_on_computed_figures_is_that_of_size() {
        use crate::compare::results::{About, Results, verdict};

        for (keys, rate, family) in
            [(270_000, 0.01, "bloom"), (1_000_000_000, 0.01, "burr"), (5_000_000, 0.001, "burr")]
        {
            let (bits, entry_bytes, memory, levels, json) = (None, 128, None, 3, false);
            let cache = None;
            let size = Size { keys, rate, bits, entry_bytes, memory, cache, levels, json };
            let rows: Vec<SizeRow> = size.rows().unwrap().drain(2..).collect();
            let situation = size.situation(&rows);
            assert!(recommend(&situation).take.name.starts_with(family), "{keys} {rate}");
            let about = About { keys, data_bytes: 128 * keys, ..About::default() };
            let computed = situation
                .filters
                .iter()
                .map(|of| (&*of.name, of.bytes as u64, of.absent.value / 3.0));
            let mut results = Results::computed(about, keys, &computed.collect::<Vec<_>>());
            for row in results.policies.iter_mut().filter(|row| row.policy.starts_with("bloom")) {
                row.policy = "bloom(10)".into();
            }
            let sentence = verdict::words(&results).sentence;
            assert!(sentence.starts_with(&format!("Take {family}")), "{sentence}");
        }
    }
}
