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
//! ```
//!
//! How bits per key reach a table (*from* names the file that makes the call):
//!
//! ```text
//! FilterPolicy::spec_for   a spec for this table                  from db/background/flushes.rs, …
//! TableOptions::filter     carries it to a FilterBuilder          in table/builder/mod.rs
//! FilterSpec::plan_for     family and target for this many keys   from filter/builder.rs
//! FamilyInfo::build        the family makes the filter            in filter/<family>/
//! ```
//!
//! ```text
//! mod.rs       the rules, and which filter each gives        budget.rs   a budget divided among runs
//! context.rs   what a rule knows about the tree              text.rs     rules as text
//! ```

mod budget;
mod context;
#[cfg(test)]
mod tests;
mod text;

use crate::filter::{Family, FilterEncoding, FilterSpec, SpecError};
use crate::version::{FileMeta, Version};
use budget::{Budget, SLACK, WORST_FPR, share, stored_bits};

pub(crate) use context::FilterContext;

/// Which filter a new table gets.
///
/// As text, a policy is a filter for every table (a [`FilterSpec`]), `levels(FILTER, …)`,
/// `bottommost_none(FILTER)`, `budget(SIZE, FAMILY)` or `budget(BITS/key, FAMILY)`.
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
            Rule::Budget(budget, _) => SLACK * budget.bits(entries),
        };
        (bits / 8.0) as u64
    }

    /// The first family among the policy's filters that RocksDB does not read. `None` if RocksDB
    /// reads all of them.
    pub(crate) fn family_unknown_to_rocksdb(&self) -> Option<Family> {
        let mut families: Vec<Family> = match &self.0 {
            Rule::Uniform(spec) | Rule::BottommostNone(spec) => spec.family().into_iter().collect(),
            Rule::Levels(specs) => specs.iter().filter_map(FilterSpec::family).collect(),
            Rule::Budget(_, family) => vec![*family],
        };
        families.retain(|family| family.encoding() != FilterEncoding::RocksDb);
        families.first().copied()
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

    /// The filter that a table of `version` gets if it is written again, in the same level.
    pub(crate) fn spec_at(&self, version: &Version, level: usize, file: &FileMeta) -> FilterSpec {
        // `FilterContext::new` counts the entries of each run: those of the tables in `metas` and of
        // one more table, which `new_entries` describes. A table of level 0 is a run of its own, so it
        // is taken out of `metas` and counted as the one more. A table of a deeper level stays in
        // `metas`, where it counts for its level's run, so the one more table has no entries.
        let mut metas = version.metas();
        metas[0].retain(|meta| meta.number != file.number);
        let new_entries = if level == 0 { file.entries } else { 0 };
        self.spec_for(&FilterContext::new(&metas, level, new_entries))
    }

    /// Whether a table that was written with the filter `has` fits the policy, which would give it
    /// the filter `wanted` now. The shares of a budget change with every write, so filters of about
    /// the same size fit.
    pub(crate) fn is_met_by(&self, has: FilterSpec, wanted: FilterSpec) -> bool {
        let [bits, wanted_bits] = [has, wanted].map(|spec| spec.bloom_bits_per_key());
        let is_close = matches!(self.0, Rule::Budget(..))
            && has.family() == wanted.family()
            && SLACK * bits >= wanted_bits
            && SLACK * wanted_bits >= bits;
        has == wanted || is_close
    }

    /// What the policy's budget allows; `None` for a policy without a budget.
    pub(crate) fn allowance(&self) -> Option<Allowance> {
        match self.0 {
            Rule::Budget(budget, family) => Some(Allowance { budget, family }),
            _ => None,
        }
    }
}

/// What a budget allows the filters of a tree. The filters may exceed the budget by a twentieth,
/// because a table keeps its filter until it is rewritten.
pub(crate) struct Allowance {
    budget: Budget,
    /// The family of the filters that the policy gives.
    pub family: Family,
}

impl Allowance {
    /// The most bits of all filters in a tree with this many entries.
    pub fn most_bits(&self, entries: u64) -> f64 {
        SLACK * self.budget.bits(entries)
    }

    /// The bits a key that a table in this context gets.
    pub fn bits_per_key(&self, context: &FilterContext) -> f64 {
        stored_bits(share(self.budget, self.family, context), self.family)
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
