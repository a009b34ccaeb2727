//! [`FilterPolicy`]: which filter a new table gets, depending on its place in the tree.
//!
//! The filter library knows one filter at a time ([`FilterSpec`]); the tree knows levels. A policy
//! is consulted whenever a table is written, so a changed policy reaches the whole tree as
//! compaction rewrites it.
//!
//! ```text
//! bloom(10)  burr(7)  fpr(0.01, burr) …    any spec: the same filter for every table
//! levels(bloom(12), bloom(10), burr(7))    level 0, the next level that holds data, …; last repeats
//! bottommost_none(bloom(10))               no filter where no deeper level holds data
//! capped(bloom(10), 1MiB)                  a spec too: fewer bits for tables with too many keys
//! budget(64MiB, burr)  budget(7/key, burr) a limit for all filters together
//! learned(64MiB, burr) learned(7/key, burr)  the same limit; most bits where lookups fail
//! ```
//!
//! How bits per key reach a table (*from* names the file that makes the call):
//!
//! ```text
//! FilterPolicy::filters    what chooses a spec for new tables     from db/background/flushes.rs, …
//! ChooseFilter::choose     a spec for this table                  from version/store.rs
//! TableBuilder::set_filter carries it to a FilterBuilder          in table/builder/mod.rs
//! FilterSpec::plan_for     family and target for this many keys   from filter/builder.rs
//! FamilyInfo::build        the family makes the filter            in filter/<family>/
//! ```
//!
//! ```text
//! mod.rs       the rules, and which filter each gives        budget.rs   a budget divided among runs
//! context.rs   what a rule knows about the tree              learned.rs  among tables, by what they are asked
//! text.rs      rules as text
//! ```

mod budget;
mod context;
mod learned;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;

use crate::filter::{Family, FilterEncoding, FilterSpec, SpecError};
use crate::version::{ChooseFilter, LEVELS, TableFile, Version};
use budget::{Budget, Division, SLACK, share, spec_of_rate, stored_bits};
use learned::LearnedFilters;

pub(crate) use context::FilterContext;

/// Which filter a new table gets.
///
/// As text, a policy is a filter for every table (a [`FilterSpec`]), `levels(FILTER, …)`,
/// `bottommost_none(FILTER)`, `budget(SIZE, FAMILY)` or `budget(BITS/key, FAMILY)`, or the same with
/// `learned`.
///
/// ```
/// use maypole::FilterPolicy;
///
/// fn policy_of(settings: &str) -> maypole::Result<FilterPolicy> {
///     Ok(settings.parse::<FilterPolicy>()?)
/// }
///
/// for text in ["none", "bloom(9.9)", "levels(bloom(14), bloom(10))", "budget(6/key, bloom)"] {
///     assert_eq!(policy_of(text)?.to_string(), text);
/// }
/// assert!(policy_of("blom(10)").is_err());
/// # Ok::<(), maypole::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FilterPolicy(Rule);

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Uniform(FilterSpec),
    Levels(Vec<FilterSpec>),
    BottommostNone(FilterSpec),
    Budget(Budget, Family),
    Learned(Budget, Family),
}

impl FilterPolicy {
    /// The same filter for every table.
    pub fn uniform(spec: FilterSpec) -> FilterPolicy {
        FilterPolicy(Rule::Uniform(spec))
    }

    /// The first filter is for level 0, the second for the first level under it that holds data,
    /// and so on. All further levels get the last filter.
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

    /// `spec` for all tables except those of the deepest level that holds data, which get no
    /// filter. This suits lookups whose keys nearly always exist. Most of these lookups end in the
    /// deepest level, where a filter would save them no read, although the filters of this level
    /// would take nine tenths of the filter memory.
    #[doc(alias = "optimize_filters_for_hits")]
    pub fn bottommost_none(spec: FilterSpec) -> FilterPolicy {
        FilterPolicy(Rule::BottommostNone(spec))
    }

    /// About `bytes` for all filters of the tree together, divided so that lookups of absent keys
    /// read as few blocks as possible. If the filters exceed `bytes` by more than a twentieth,
    /// tables whose filters exceed their share are rewritten.
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

    /// About `bits_per_key` bits a key on average, otherwise like [`FilterPolicy::budget_bytes`].
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
                "budget({bits_per_key}/key): bits per key must be between 0.1 and 32"
            )));
        }
        Self::budget(Budget::BitsPerKey(bits_per_key), family)
    }

    fn budget(budget: Budget, family: Family) -> Result<FilterPolicy, SpecError> {
        // Rejects a family that cannot be written.
        FilterSpec::fpr(0.01, family)?;
        Ok(FilterPolicy(Rule::Budget(budget, family)))
    }

    /// Like [`FilterPolicy::budget_bytes`], but the bits follow the lookups: tables get the more of
    /// them, the more lookups search the tables for keys that they lack. A table keeps its filter
    /// until it is rewritten anyway, or [`Db::apply_filter_policy`](crate::Db::apply_filter_policy)
    /// is called. The database counts the lookups of each table, of the last million or so. When it
    /// closes, it leaves these counts in the file `ASKED`. Without them, it begins as with a budget.
    ///
    /// # Errors
    ///
    /// Those of [`FilterPolicy::budget_bytes`].
    pub fn learned_bytes(bytes: u64, family: Family) -> Result<FilterPolicy, SpecError> {
        Self::budget_bytes(bytes, family).map(FilterPolicy::learning)
    }

    /// About `bits_per_key` bits a key on average, otherwise like [`FilterPolicy::learned_bytes`].
    ///
    /// # Errors
    ///
    /// Those of [`FilterPolicy::budget_bits_per_key`].
    pub fn learned_bits_per_key(
        bits_per_key: f64,
        family: Family,
    ) -> Result<FilterPolicy, SpecError> {
        Self::budget_bits_per_key(bits_per_key, family).map(FilterPolicy::learning)
    }

    /// The policy that learns how to divide the budget of `self`.
    fn learning(self) -> FilterPolicy {
        match self.0 {
            Rule::Budget(budget, family) => FilterPolicy(Rule::Learned(budget, family)),
            rule => FilterPolicy(rule),
        }
    }

    /// Whether the policy uses what tables are asked.
    pub(crate) fn learns(&self) -> bool {
        matches!(self.0, Rule::Learned(..))
    }

    /// An estimate of the most bytes that the filters of a tree with this many entries take. It
    /// needs no tree, only the policy.
    #[doc(hidden)]
    pub fn most_filter_bytes(&self, entries: u64) -> u64 {
        // No family takes more bits than a Bloom filter of the same rate, so the estimate is that
        // of a Bloom filter.
        let bits = |spec: &FilterSpec| entries as f64 * spec.bloom_bits_per_key();
        let bits = match &self.0 {
            Rule::Uniform(spec) | Rule::BottommostNone(spec) => bits(spec),
            Rule::Levels(specs) => specs.iter().map(bits).fold(0.0, f64::max),
            Rule::Budget(budget, _) | Rule::Learned(budget, _) => SLACK * budget.bits(entries),
        };
        (bits / 8.0) as u64
    }

    /// The first family among the policy's filters that RocksDB does not read. `None` if RocksDB
    /// reads all of them.
    pub(crate) fn family_unknown_to_rocksdb(&self) -> Option<Family> {
        let mut families: Vec<Family> = match &self.0 {
            Rule::Uniform(spec) | Rule::BottommostNone(spec) => spec.family().into_iter().collect(),
            Rule::Levels(specs) => specs.iter().filter_map(FilterSpec::family).collect(),
            Rule::Budget(_, family) | Rule::Learned(_, family) => vec![*family],
        };
        families.retain(|family| family.encoding() != FilterEncoding::RocksDb);
        families.first().copied()
    }

    /// The filters of the tables that a job is about to write to `level`. They replace the tables
    /// `inputs` of `version`, or have `new_entries` entries that no table of `version` has.
    pub(crate) fn filters<'v>(
        &self,
        version: &'v Version,
        level: usize,
        inputs: &BTreeSet<u64>,
        new_entries: u64,
    ) -> Box<dyn ChooseFilter + 'v> {
        if let Rule::Learned(budget, family) = self.0 {
            let filters =
                LearnedFilters::of_job(budget, family, version, level, inputs, new_entries);
            return Box::new(filters);
        }
        // The policy gets the tree without the inputs, because the new tables replace them, and
        // their entries would count twice.
        let (mut stay, mut entries) = (version.metas(), new_entries);
        for level in &mut stay {
            level.retain(|meta| {
                let is_replaced = inputs.contains(&meta.number);
                entries += if is_replaced { meta.entries } else { 0 };
                !is_replaced
            });
        }
        Box::new(self.spec_for(&FilterContext::new(&stay, level, entries)))
    }

    /// The filter of a table that is about to be written, if nothing is known of what tables are
    /// asked.
    pub(crate) fn spec_for(&self, context: &FilterContext) -> FilterSpec {
        match &self.0 {
            Rule::Uniform(spec) => *spec,
            Rule::Levels(specs) => specs[context.depth.min(specs.len() - 1)],
            Rule::BottommostNone(_) if context.is_last => FilterSpec::NONE,
            Rule::BottommostNone(spec) => *spec,
            Rule::Budget(budget, family) | Rule::Learned(budget, family) => {
                spec_of_rate(share(*budget, *family, context), *family)
            }
        }
    }

    /// What tells the filter that each table of `version` gets if it is written again, in its
    /// level.
    pub(crate) fn filters_of_all<'v>(&self, version: &'v Version) -> FiltersOfAll<'v> {
        match self.0 {
            Rule::Learned(budget, family) => {
                FiltersOfAll::Learned(LearnedFilters::of_all(budget, family, version))
            }
            Rule::Budget(budget, family) => {
                FiltersOfAll::Budget(Division::of_all(budget, family, &version.metas()), family)
            }
            _ => {
                let metas = version.metas();
                let spec = |level| self.spec_for(&FilterContext::new(&metas, level, 0));
                FiltersOfAll::Levels(std::array::from_fn(spec))
            }
        }
    }

    /// Whether a table that was written with the filter `has` fits the policy, which would give it
    /// the filter `wanted` now. The shares of a budget change with every write, so filters of about
    /// the same size fit.
    pub(crate) fn is_met_by(&self, has: FilterSpec, wanted: FilterSpec) -> bool {
        let [bits, wanted_bits] = [has, wanted].map(|spec| spec.bloom_bits_per_key());
        let is_close = matches!(self.0, Rule::Budget(..) | Rule::Learned(..))
            && has.family() == wanted.family()
            && SLACK * bits >= wanted_bits
            && SLACK * wanted_bits >= bits;
        has == wanted || is_close
    }

    /// What the policy's budget allows; `None` for a policy without a budget.
    pub(crate) fn allowance(&self) -> Option<Allowance> {
        match self.0 {
            Rule::Budget(budget, family) => Some(Allowance { budget, family, learns: false }),
            Rule::Learned(budget, family) => Some(Allowance { budget, family, learns: true }),
            _ => None,
        }
    }
}

/// See [`FilterPolicy::filters_of_all`]. A budget is divided once, and no table takes more than
/// microseconds, because `apply_filter_policy` holds the lock that writers take.
pub(crate) enum FiltersOfAll<'v> {
    /// All tables of a level get the same filter.
    Levels([FilterSpec; LEVELS]),
    Budget(Division, Family),
    Learned(LearnedFilters<'v>),
}

impl FiltersOfAll<'_> {
    pub fn spec_at(&self, level: usize, file: &TableFile) -> FilterSpec {
        match self {
            FiltersOfAll::Levels(specs) => specs[level],
            FiltersOfAll::Budget(division, family) => {
                spec_of_rate(division.rate(level, &file.meta), *family)
            }
            FiltersOfAll::Learned(filters) => filters.spec_at(level, file),
        }
    }
}

/// What a budget allows the filters of a tree. The filters may exceed the budget by a twentieth,
/// because a table keeps its filter until it is rewritten.
pub(crate) struct Allowance {
    budget: Budget,
    /// The family of the filters that the policy gives.
    pub family: Family,
    learns: bool,
}

/// Tells the bits a key of a table, given its level.
type Shares<'v> = Box<dyn Fn(usize, &TableFile) -> f64 + 'v>;

impl Allowance {
    /// The most bits of all filters in a tree with this many entries.
    pub fn most_bits(&self, entries: u64) -> f64 {
        SLACK * self.budget.bits(entries)
    }

    /// Returns what tells the bits a key that a table of `version`, in this level, gets if it is
    /// written again.
    pub fn shares<'v>(&self, version: &'v Version) -> Shares<'v> {
        if self.learns {
            let filters = LearnedFilters::of_all(self.budget, self.family, version);
            return Box::new(move |level, file| filters.bits_per_key(level, file));
        }
        let family = self.family;
        let division = Division::of_all(self.budget, family, &version.metas());
        Box::new(move |level, file| stored_bits(division.rate(level, &file.meta), family))
    }

    /// When the filters of the tree exceed the budget, a table is rewritten if its filter has more
    /// bits a key than this. `bits_per_key` is the table's share of the budget.
    pub fn most_bits_per_key(&self, bits_per_key: f64) -> f64 {
        SLACK * bits_per_key
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
