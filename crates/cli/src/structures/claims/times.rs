//! Claims about what a build and a query cost.

use maypole_filter::textbook::QuotientFilter;

use super::claim::Unit::*;
use super::claim::{Claim, HERE, TUTORIALS, Verdict};
use super::lab::{Lab, ONE_PERCENT};
use crate::failure::{Failure, Result};
use crate::structures::measure::{self, Rounds};
use crate::structures::subjects::{self, Filter};

pub fn ribbon(lab: &Lab) -> Result<Vec<Claim>> {
    let own: Vec<_> = subjects::own_families().collect();
    let rows = measure::rows(&own, lab.keys, ONE_PERCENT, lab.seed)?;
    let noise = rows.iter().map(|row| row.noise).fold(1.0, f64::max);
    let [bloom, ribbon, burr, ..] = &rows[..] else {
        return Err(Failure::new("a family is missing"));
    };
    let [build, burr_build] =
        [ribbon, burr].map(|row| row.build_ns_per_key / bloom.build_ns_per_key);
    let [query, burr_query] = [ribbon, burr].map(|row| row.query_absent_ns / bloom.query_absent_ns);
    let slower = Claim {
        says: "A Ribbon filter is 3 to 4 times slower to build than a Bloom filter.",
        source: "RocksDB's documentation of its Ribbon filter",
        verdict: Verdict::of(build, 2.7..=4.4, 2.0..=6.0).by_times(noise),
        rule: "RocksDB's formats at 1 %; true from 2.7 to 4.4 times, half true from 2 to 6",
        figures: vec![("build time against bloom", Times, build), ("of burr", Times, burr_build)],
        because: "It solves an equation for each key where a Bloom filter sets a few bits of one \
                  line; how much that is depends on the implementation and the number of keys.",
        instead: format!("It is {build:.1} times as slow here."),
        see: "cargo bench --bench filter -- build",
    };
    let equal = Claim {
        says: "A Ribbon filter is as fast to query as a Bloom filter.",
        source: TUTORIALS,
        verdict: Verdict::of(query, 0.0..=1.15, 0.0..=1.5).by_times(noise),
        rule: "absent keys, one warm filter, each query waiting for the last; true up to 1.15 \
               times the time, half true up to 1.5",
        figures: vec![("query time against bloom", Times, query), ("of burr", Times, burr_query)],
        because: "It reads several words for each bit of the fingerprint; only where the memory is \
                  slow do both mostly wait for it.",
        instead: format!("A query takes {query:.2} times as long here."),
        see: "cargo bench --bench filter -- memory-one",
    };
    Ok(vec![slower, equal])
}

/// The load of the quotient filters: of the two that are merged, and of the one that is built from
/// the keys of both.
const LOAD: f64 = 0.9;

pub fn quotient_merging(lab: &Lab) -> Result<Vec<Claim>> {
    // Two tables of equal size. The second rewrites a fifth of the keys of the first.
    let half = lab.keys / 2;
    let (first, second) = (&lab.present[..half], &lab.present[half * 4 / 5..half * 9 / 5]);
    let distinct = &lab.present[..half * 9 / 5];
    let made = |keys: &[u64]| {
        let mut filter = QuotientFilter::for_rate(keys.len(), ONE_PERCENT, LOAD);
        filter.add(keys);
        filter
    };
    let inputs = (made(first), made(second));
    let (merge, merged) = Rounds::of(distinct.len(), || inputs.0.merged(&inputs.1));
    let (rebuild, rebuilt) = Rounds::of(distinct.len(), || made(distinct));
    let merged = merged.ok_or_else(|| Failure::new("the quotient filters could not be merged"))?;
    let (merge_ns, rebuild_ns) = (merge.shortest(), rebuild.shortest());
    let worse = lab.rate(&merged) / lab.rate(&rebuilt);
    Ok(vec![Claim {
        says: "Quotient filters can be merged, which helps compaction.",
        source: "Bender et al., Don't Thrash, 2012",
        verdict: Verdict::of_cases(&[merge_ns < rebuild_ns, worse < 1.1])
            .by_times(merge.noise().max(rebuild.noise())),
        rule: "two tables, a fifth of the keys in both; true if merging is faster than building \
               anew and its rate less than 10 % higher, half true if one of the two",
        figures: vec![
            ("merge of a key", Ns, merge_ns),
            ("rebuild of a key", Ns, rebuild_ns),
            ("rate against a new one", Times, worse),
            ("entries for each key", Count, merged.len() as f64 / distinct.len() as f64),
        ],
        because: "A merge doubles the table and takes a bit from each remainder, and keeps what \
                  compaction drops; compaction has every key at hand anyway, and hashing one takes \
                  a few nanoseconds.",
        instead: format!(
            "A merge takes {merge_ns:.1} ns a key and a new filter {rebuild_ns:.1}; the merged \
                one has {worse:.2} times the rate."
        ),
        see: HERE,
    }])
}
