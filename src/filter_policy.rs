//! [`FilterPolicy`]: which filter a new table gets, from where in the tree it will stand.
//!
//! The filter library knows one filter at a time ([`FilterSpec`]); the tree knows levels. A policy
//! is asked whenever a table is written, so a changed policy reaches the whole tree as compaction
//! rewrites it.
//!
//! ```text
//! bloom(10)  burr(7)  fpr(0.01, burr) …    any spec: the same filter for every table
//! levels(bloom(12), bloom(10), burr(7))    level 0, the next level that holds data, …; last repeats
//! bottommost_none(bloom(10))               no filter where no deeper level holds data
//! budget(64MiB, burr)  budget(7/key, burr) so much memory for all filters together
//! ```
//!
//! **Budget.** A lookup of an absent key asks every sorted run; run *i* lets it through with
//! probability ε_i, so it reads Σ ε_i blocks in vain. Bits are worth most in small runs: taking a
//! bit a key from the last level pays for several in all the others. Minimising Σ ε_i for a given
//! memory Σ n_i · bits(ε_i) gives ε_i = λ n_i, at most 1: the rate of a run is proportional to its
//! size (Dayan, Athanassoulis and Idreos, "Monkey", SIGMOD 2017). The sizes are those the tree has
//! once the table is in it; λ is found by bisection on what the family really stores. A tree with
//! fewer than four runs, such as one just loaded, keeps the share free of the small runs that later
//! writes will bring. A table keeps its filter until it is rewritten, and what its place may have
//! shrinks as the tree grows. So when all filters together exceed the budget by a twentieth, tables that
//! hold more than their share are rewritten as soon as no other compaction is due.

use std::fmt;
use std::str::FromStr;

use crate::filter::{Family, FilterSpec, SpecError, sizing};
use crate::version::{FileMeta, LEVELS, Version};

/// Which filter a new table gets.
///
/// ```
/// use maypole::FilterPolicy;
///
/// for text in ["none", "bloom(9.9)", "levels(bloom(14), bloom(10))", "budget(6/key, bloom)"] {
///     let policy: FilterPolicy = text.parse()?;
///     assert_eq!(policy.to_string(), text);
/// }
/// # Ok::<(), maypole::filter::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FilterPolicy(Rule);

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Uniform(FilterSpec),
    Levels(Vec<FilterSpec>),
    BottommostNone(FilterSpec),
    Budget(Budget, Family),
}

/// Memory for all filters of a tree together.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Budget {
    Bytes(u64),
    BitsPerKey(f64),
}

/// Filters that let more than this through are not worth their look-up.
const WORST_FPR: f64 = 0.6;

/// No run gets a lower rate than this: beyond it bits buy nothing that could be measured.
const BEST_FPR: f64 = 1e-4;

/// How far filters may exceed what they should hold before tables are rewritten for it.
const SLACK: f64 = 1.05;

const FORMS: &str = "a filter for every table (such as bloom(10)), levels(FILTER, …), \
                     bottommost_none(FILTER), budget(SIZE, FAMILY) or budget(BITS/key, FAMILY)";

impl FilterPolicy {
    /// The same filter for every table.
    pub fn uniform(spec: FilterSpec) -> FilterPolicy {
        FilterPolicy(Rule::Uniform(spec))
    }

    /// The first filter for level 0, the next for the first level under it that holds data, and so
    /// on; the last repeats.
    ///
    /// # Errors
    ///
    /// When `specs` is empty.
    pub fn levels(specs: Vec<FilterSpec>) -> Result<FilterPolicy, SpecError> {
        if specs.is_empty() {
            return Err(SpecError("levels(): at least one filter must be given".into()));
        }
        Ok(FilterPolicy(Rule::Levels(specs)))
    }

    /// `spec` everywhere but in the deepest level that holds data. For keys that are nearly always
    /// there: the last level holds nine tenths of the filter memory, and such lookups end in it.
    #[doc(alias = "optimize_filters_for_hits")]
    pub fn bottommost_none(spec: FilterSpec) -> FilterPolicy {
        FilterPolicy(Rule::BottommostNone(spec))
    }

    /// At most `bytes` for all filters together, divided so that absent lookups read least.
    ///
    /// # Errors
    ///
    /// When `bytes` is 0, or `family` cannot be written.
    pub fn budget_bytes(bytes: u64, family: Family) -> Result<FilterPolicy, SpecError> {
        if bytes == 0 {
            return Err(SpecError("budget(0): give a size such as 64MiB".into()));
        }
        Self::budget(Budget::Bytes(bytes), family)
    }

    /// So many bits a key on average, divided so that absent lookups read least.
    ///
    /// # Errors
    ///
    /// When `bits_per_key` is not between 0.1 and 32, or `family` cannot be written.
    pub fn budget_bits_per_key(
        bits_per_key: f64,
        family: Family,
    ) -> Result<FilterPolicy, SpecError> {
        if !(0.1..=32.0).contains(&bits_per_key) {
            return Err(SpecError(format!(
                "budget({bits_per_key}/key): bits per key must lie between 0.1 and 32"
            )));
        }
        Self::budget(Budget::BitsPerKey(bits_per_key), family)
    }

    fn budget(budget: Budget, family: Family) -> Result<FilterPolicy, SpecError> {
        // Whether the family can be written at all.
        FilterSpec::fpr(0.01, family)?;
        Ok(FilterPolicy(Rule::Budget(budget, family)))
    }

    /// The filter of a table that is about to be written.
    pub(crate) fn spec_for(&self, context: &FilterContext) -> FilterSpec {
        match &self.0 {
            Rule::Uniform(spec) => *spec,
            Rule::Levels(specs) => specs[context.depth.min(specs.len() - 1)],
            Rule::BottommostNone(_) if context.is_last => FilterSpec::NONE,
            Rule::BottommostNone(spec) => *spec,
            Rule::Budget(budget, family) => {
                let rate = share(*budget, *family, context);
                match rate > WORST_FPR {
                    true => FilterSpec::NONE,
                    false => FilterSpec::fpr(rate, *family).unwrap_or(FilterSpec::NONE),
                }
            }
        }
    }

    /// Level and number of the table to rewrite in its place because all filters together exceed
    /// the budget by a twentieth, and this one's holds most above its share.
    pub(crate) fn overspent(
        &self,
        version: &Version,
        is_held: impl Fn(u64) -> bool,
    ) -> Option<(usize, u64)> {
        let Rule::Budget(budget, family) = self.0 else { return None };
        let metas = version.metas();
        let infos = || version.files().filter_map(|(l, f)| Some((l, f, f.table.filter_info()?)));
        let held_bits: f64 = infos().map(|(_, _, info)| info.bytes as f64 * 8.0).sum();
        let entries = metas.iter().flatten().map(|meta| meta.entries).sum();
        if held_bits <= SLACK * budget.bits(entries) {
            return None;
        }
        // Those of level 0 go soon. A filter of another family was not written by this policy, or is
        // what a failed build fell back to: a rewrite might change nothing. Small filters are not as
        // exact as the sizes that are compared.
        let candidates: Vec<_> = infos()
            .filter(|(level, file, info)| {
                let may_shrink = info.family == Some(family) && info.keys >= 10_000;
                *level > 0 && may_shrink && !is_held(file.meta.number)
            })
            .collect();
        // What follows takes milliseconds, and this is asked at every change of the tree.
        if candidates.is_empty() {
            return None;
        }
        let share_bits: [f64; LEVELS] = std::array::from_fn(|level| {
            stored_bits(share(budget, family, &FilterContext::new(&metas, level, 0)), family)
        });
        candidates
            .into_iter()
            .filter(|(level, _, info)| info.bits_per_key() > SLACK * share_bits[*level])
            .map(|(level, file, info)| {
                let excess = (info.bits_per_key() - share_bits[level]) * info.keys as f64;
                (excess, level, file.meta.number)
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, level, number)| (level, number))
    }
}

impl Budget {
    /// Of a tree of so many entries.
    fn bits(self, entries: u64) -> f64 {
        match self {
            Budget::Bytes(bytes) => bytes as f64 * 8.0,
            Budget::BitsPerKey(bits) => bits * entries as f64,
        }
    }
}

/// The rate that the budget gives to the run of the table that `context` describes.
fn share(budget: Budget, family: Family, context: &FilterContext) -> f64 {
    let rates = divide(budget, family, &with_runs_to_come(&context.run_entries));
    rates.get(context.run).copied().unwrap_or(1.0)
}

/// The runs, and those that a tree of a few levels would have beside them: of each missing one of
/// the first four the size that levels aim at, a tenth of the one below.
fn with_runs_to_come(run_entries: &[u64]) -> Vec<u64> {
    let largest = run_entries.iter().copied().max().unwrap_or(0);
    let missing = (run_entries.len() as u32..4).map(|run| largest / 10u64.pow(run));
    run_entries.iter().copied().chain(missing).collect()
}

/// The false-positive rate of each run that minimises their sum within the budget.
fn divide(budget: Budget, family: Family, run_entries: &[u64]) -> Vec<f64> {
    let entries: u64 = run_entries.iter().sum();
    let budget_bits = budget.bits(entries);
    let rates = |log2_lambda: f64| {
        let rate = move |&n: &u64| (log2_lambda.exp2() * n.max(1) as f64).clamp(BEST_FPR, 1.0);
        run_entries.iter().map(rate)
    };
    let cost_bits = |log2_lambda: f64| -> f64 {
        rates(log2_lambda)
            .zip(run_entries)
            .map(|(rate, &n)| n as f64 * stored_bits(rate, family))
            .sum()
    };
    // A larger λ costs less. All that λ can be: every rate at its least, every rate 1.
    let (mut low, mut high) = (-80.0, 0.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match cost_bits(middle) > budget_bits {
            true => low = middle,
            false => high = middle,
        }
    }
    rates(high).collect()
}

/// Bits a key that a family stores for a rate, about: within 2 % from ten thousand keys.
fn stored_bits(rate: f64, family: Family) -> f64 {
    if rate > WORST_FPR {
        return 0.0;
    }
    match family {
        Family::Bloom | Family::LegacyBloom => {
            f64::from(sizing::bloom_millibits_for_fpr(rate)) / 1000.0
        }
        Family::Ribbon => 1.05 * sizing::lower_bound_bits_per_key(rate),
        Family::Burr => 1.02 * sizing::lower_bound_bits_per_key(rate),
    }
}

impl Default for FilterPolicy {
    /// `bloom(10)`.
    fn default() -> FilterPolicy {
        FilterPolicy::uniform(FilterSpec::bloom(10.0).unwrap_or(FilterSpec::NONE))
    }
}

impl From<FilterSpec> for FilterPolicy {
    fn from(spec: FilterSpec) -> FilterPolicy {
        FilterPolicy::uniform(spec)
    }
}

impl fmt::Display for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Rule::Uniform(spec) => spec.fmt(f),
            Rule::Levels(specs) => {
                let specs: Vec<String> = specs.iter().map(FilterSpec::to_string).collect();
                write!(f, "levels({})", specs.join(", "))
            }
            Rule::BottommostNone(spec) => write!(f, "bottommost_none({spec})"),
            Rule::Budget(Budget::Bytes(bytes), family) => {
                let (count, unit) = UNITS
                    .iter()
                    .find(|&&(_, size)| bytes % size == 0)
                    .map_or((*bytes, "B"), |&(unit, size)| (bytes / size, unit));
                write!(f, "budget({count}{unit}, {family})")
            }
            Rule::Budget(Budget::BitsPerKey(bits), family) => {
                write!(f, "budget({bits}/key, {family})")
            }
        }
    }
}

/// Largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl FromStr for FilterPolicy {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<FilterPolicy, SpecError> {
        let text = text.trim();
        let unknown = || SpecError(format!("unknown filter policy {text:?}: expected {FORMS}"));
        let Some((name, rest)) = text.split_once('(') else {
            return text.parse().map(FilterPolicy::uniform);
        };
        let arguments = || rest.strip_suffix(')').map(split_arguments).ok_or_else(unknown);
        match name.trim_end() {
            "levels" => {
                let specs: Result<Vec<FilterSpec>, SpecError> =
                    arguments()?.into_iter().map(str::parse).collect();
                FilterPolicy::levels(specs?)
            }
            "bottommost_none" => match arguments()?[..] {
                [spec] => Ok(FilterPolicy::bottommost_none(spec.parse()?)),
                _ => Err(unknown()),
            },
            "budget" => match arguments()?[..] {
                [size] => parse_budget(text, size, "bloom"),
                [size, family] => parse_budget(text, size, family),
                _ => Err(unknown()),
            },
            _ => text.parse().map(FilterPolicy::uniform),
        }
    }
}

fn parse_budget(text: &str, size: &str, family: &str) -> Result<FilterPolicy, SpecError> {
    let family: Family = family.parse()?;
    let wrong = |number: &str| SpecError(format!("{text}: {number:?} is not a number"));
    if let Some(bits) = size.strip_suffix("/key") {
        let bits_per_key = bits.trim_end().parse().map_err(|_| wrong(bits))?;
        return FilterPolicy::budget_bits_per_key(bits_per_key, family);
    }
    let (number, unit) = UNITS
        .iter()
        .find_map(|&(name, bytes)| Some((size.strip_suffix(name)?, bytes)))
        .ok_or_else(|| {
            SpecError(format!("{text}: {size:?} needs a unit: B, KiB, MiB, GiB or /key"))
        })?;
    let number: u64 = number.trim_end().parse().map_err(|_| wrong(number))?;
    FilterPolicy::budget_bytes(number.saturating_mul(unit), family)
}

/// Splits at the commas that stand in no parentheses.
fn split_arguments(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let at_top = |character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' => return depth == 0,
            _ => {}
        }
        false
    };
    list.split(at_top).map(str::trim).filter(|argument| !argument.is_empty()).collect()
}

/// What the tree looks like when a table is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterContext {
    /// Whether no deeper level holds data.
    pub is_last: bool,
    /// 0 for level 0; 1 for the first level under it that holds data, and so on.
    pub depth: usize,
    /// Entries of each sorted run that a lookup may have to search, the new one included: every
    /// table of level 0, then every level that holds data.
    pub run_entries: Vec<u64>,
    /// Which of them the table will be part of.
    pub run: usize,
}

impl FilterContext {
    /// `new_entries` are about to join `level`, beside the tables that `levels` lists. Tables that
    /// the new one replaces must not be among them: their entries would count twice.
    pub fn new(levels: &[Vec<&FileMeta>; LEVELS], level: usize, new_entries: u64) -> FilterContext {
        let mut run_entries: Vec<u64> = levels[0].iter().map(|file| file.entries).collect();
        let (mut run, mut depth) = (run_entries.len(), 0);
        if level == 0 {
            run_entries.push(new_entries);
        }
        for (l, files) in levels.iter().enumerate().skip(1) {
            let mut entries: u64 = files.iter().map(|file| file.entries).sum();
            if l == level {
                run = run_entries.len();
                entries += new_entries;
            }
            if entries > 0 {
                run_entries.push(entries);
                depth += usize::from(l <= level);
            }
        }
        let is_last = levels[level + 1..].iter().all(Vec::is_empty);
        FilterContext { is_last, depth, run_entries, run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> FilterPolicy {
        text.parse().unwrap()
    }

    #[test]
    fn a_policy_prints_as_it_reads() {
        for text in [
            "none",
            "bloom(9.9)",
            "levels(bloom(12), bloom(10), none)",
            "levels(fpr(0.01, bloom), bloom(3))",
            "bottommost_none(bloom(10))",
            "budget(64MiB, bloom)",
            "budget(1536KiB, burr)",
            "budget(7.5/key, ribbon)",
        ] {
            let once = policy(text);
            assert_eq!(policy(&once.to_string()), once, "{text}");
        }
        assert_eq!(policy("levels(bloom:12,bloom:10)"), policy("levels(bloom(12), bloom(10))"));
        assert_eq!(policy("budget(7/key)").to_string(), "budget(7/key, bloom)");
    }

    #[test]
    fn a_wrong_policy_is_refused_in_one_line() {
        for text in [
            "levels()",
            "levels(bloom(0))",
            "levels(bloom(10)",
            "bottommost_none()",
            "bottommost_none(bloom(10), none)",
            "budget()",
            "budget(0MiB)",
            "budget(64)",
            "budget(-1MiB)",
            "budget(7/key, cuckoo)",
            "budget(nan/key)",
            "budget(99/key)",
            "blom(10)",
        ] {
            let error = text.parse::<FilterPolicy>().unwrap_err().to_string();
            assert!(!error.contains('\n') && error.len() > 15, "{text}: {error}");
        }
    }

    fn context(depth: usize, run: usize, run_entries: &[u64], is_last: bool) -> FilterContext {
        FilterContext { is_last, depth, run_entries: run_entries.to_vec(), run }
    }

    #[test]
    fn levels_and_the_bottommost_one_get_what_they_were_given() {
        let levels = policy("levels(bloom(12), bloom(10), bloom(7))");
        for (depth, expected) in
            [(0, "bloom(12)"), (1, "bloom(10)"), (2, "bloom(7)"), (5, "bloom(7)")]
        {
            let spec = levels.spec_for(&context(depth, 0, &[1], false));
            assert_eq!(spec.to_string(), expected);
        }
        let hits = policy("bottommost_none(bloom(10))");
        assert_eq!(hits.spec_for(&context(1, 0, &[1], false)).to_string(), "bloom(10)");
        assert!(hits.spec_for(&context(1, 0, &[1], true)).is_none());
    }

    /// Four runs, each ten times the one before, 10 bits a key of Bloom: the table of the theory
    /// says 0.0117 wasted reads where uniform bits give 0.0328, a factor of 2.79. Lines of one cache
    /// line cost a little more at low rates than the ideal filter of that table.
    #[test]
    fn a_budget_is_kept_and_wastes_fewer_reads_than_uniform_bits() {
        let runs = [1_000, 10_000, 100_000, 1_000_000];
        let entries: u64 = runs.iter().sum();
        let rates = divide(Budget::BitsPerKey(10.0), Family::Bloom, &runs);
        let bits: f64 =
            rates.iter().zip(runs).map(|(&e, n)| n as f64 * stored_bits(e, Family::Bloom)).sum();
        let per_key = bits / entries as f64;
        assert!((9.9..=10.0).contains(&per_key), "{per_key}");
        let wasted: f64 = rates.iter().sum();
        let uniform = 4.0 * sizing::bloom_fpr(10_000);
        assert!(uniform / wasted > 2.4, "{uniform} against {wasted}");
        assert!(rates.is_sorted(), "a larger run must have the higher rate: {rates:?}");
    }

    /// Each level filled in turn from the last one up, as a bulk load does: what the tables hold
    /// together stays within the budget, and uses most of it.
    #[test]
    fn a_tree_that_is_loaded_bottom_up_stays_within_its_budget() {
        let policy = policy("budget(7/key, bloom)");
        let mut runs = Vec::new();
        let mut bits = 0.0;
        for entries in [1_000_000, 75_000, 7_500, 2_000] {
            runs.push(entries);
            let spec = policy.spec_for(&context(0, runs.len() - 1, &runs, false));
            let text = spec.to_string();
            let rate = text.strip_prefix("fpr(").and_then(|text| text.split([',', ')']).next());
            let rate = rate.unwrap().parse().unwrap();
            bits += entries as f64 * stored_bits(rate, Family::Bloom);
        }
        let per_key = bits / runs.iter().sum::<u64>() as f64;
        assert!((6.7..=7.0).contains(&per_key), "{per_key}");
    }

    #[test]
    fn what_joins_a_level_is_added_to_what_stays_there() {
        let mut levels: [Vec<&FileMeta>; LEVELS] = Default::default();
        let stays = FileMeta { entries: 70, ..FileMeta::default() };
        levels[6].push(&stays);
        let context = FilterContext::new(&levels, 6, 30);
        assert_eq!((context.run_entries, context.run, context.is_last), (vec![100], 0, true));
    }

    #[test]
    fn a_budget_too_small_for_the_last_run_leaves_it_without_a_filter() {
        let policy = policy("budget(0.5/key, bloom)");
        let runs = [1_000, 1_000_000];
        assert!(policy.spec_for(&context(1, 1, &runs, true)).is_none());
        assert!(!policy.spec_for(&context(0, 0, &runs, false)).is_none());
    }
}
