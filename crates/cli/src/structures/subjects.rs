//! Every structure under one interface: how it is made, and what it can do.

use std::hint::black_box;

use maypole::filter::{Family, FilterBuilder, FilterReader, FilterSpec};
use maypole_filter::textbook::scalable::Options;
use maypole_filter::textbook::{
    BloomFilter, Cascade, CountingBloom, CuckooFilter, Full, Layout, QuotientFilter, ScalableBloom,
};

use crate::failure::{Failure, Result};

/// The prefix of the names of the database's own families.
pub const OWN: &str = "maypole ";

/// The share of the slots that a quotient filter is planned to use.
pub const QUOTIENT_LOAD: f64 = 0.85;

/// What a measurement needs of a filter.
pub trait Filter {
    fn contains(&self, hash: u64) -> bool;

    fn bytes(&self) -> usize;

    /// Adds keys until one does not fit. Returns how many it added.
    fn add(&mut self, _hashes: &[u64]) -> usize {
        0
    }

    /// For how many of the hashes the filter answers "maybe".
    fn count(&self, hashes: &[u64]) -> usize {
        hashes.iter().filter(|&&hash| self.contains(hash)).count()
    }

    /// Like [`Filter::count`], but each query waits for the one before: its hash is XORed with a
    /// zero that is computed from the earlier answers. The compiler cannot see that this is always
    /// zero.
    fn count_in_a_chain(&self, hashes: &[u64]) -> u64 {
        let zero = black_box(0);
        hashes.iter().fold(0u64, |found, &hash| {
            found.wrapping_add(u64::from(self.contains(hash ^ (found & zero))))
        })
    }
}

pub struct Subject {
    pub name: String,
    pub deletes: bool,
    /// Whether the structure is built once, from all its keys. Structures that are not static are
    /// measured also with more keys than planned.
    pub is_static: bool,
    pub make: Make,
}

type Built = Result<Box<dyn Filter>>;

/// Builds a filter of the keys in the first argument, for the rate in the second one. The third
/// argument has absent keys. Only the cascade uses them: it is never wrong for these keys, so it
/// ignores the rate.
type Make = Box<dyn Fn(&[u64], f64, &[u64]) -> Built>;

pub fn all() -> Vec<Subject> {
    let dynamic = |name: &'static str, deletes, make: fn(usize, f64) -> Box<dyn Filter>| Subject {
        name: name.into(),
        deletes,
        is_static: false,
        make: Box::new(move |keys, rate, _| filled(name, make(keys.len(), rate), keys)),
    };
    let textbook = vec![
        dynamic("bloom, shared array", false, |keys, rate| {
            Box::new(BloomFilter::for_rate(Layout::Shared, keys, rate))
        }),
        dynamic("bloom, split arrays", false, |keys, rate| {
            Box::new(BloomFilter::for_rate(Layout::Split, keys, rate))
        }),
        dynamic("counting bloom", true, |keys, rate| Box::new(CountingBloom::for_rate(keys, rate))),
        dynamic("scalable bloom", false, scalable),
        dynamic("cuckoo", true, |keys, rate| Box::new(CuckooFilter::for_rate(keys, rate))),
        dynamic("quotient", true, |keys, rate| {
            Box::new(QuotientFilter::for_rate(keys, rate, QUOTIENT_LOAD))
        }),
        built_once("cascade".into(), Box::new(cascade)),
    ];
    textbook.into_iter().chain(own_families()).collect()
}

/// The families of the database, in the order of reports.
pub fn own_families() -> impl Iterator<Item = Subject> {
    Family::written().map(|family| {
        built_once(format!("{OWN}{family}"), Box::new(move |keys, rate, _| own(keys, rate, family)))
    })
}

fn built_once(name: String, make: Make) -> Subject {
    Subject { name, deletes: false, is_static: true, make }
}

/// Adds the keys to an empty filter. Fails if one does not fit.
fn filled(name: &str, mut filter: Box<dyn Filter>, keys: &[u64]) -> Built {
    match filter.add(keys) {
        added if added == keys.len() => Ok(filter),
        added => Err(Failure::new(format_args!(
            "{name}: full with {added} of {} planned keys",
            keys.len()
        ))),
    }
}

fn scalable(keys: usize, rate: f64) -> Box<dyn Filter> {
    let options = Options { capacity: keys as u64, rate, ..Options::default() };
    Box::new(ScalableBloom::new(options).expect("the arguments' ranges are narrower"))
}

fn cascade(keys: &[u64], _: f64, absent: &[u64]) -> Built {
    match Cascade::new(keys, absent) {
        Some(cascade) => Ok(Box::new(cascade)),
        None => Err(Failure::new("a key is present and absent")),
    }
}

fn own(keys: &[u64], rate: f64, family: Family) -> Built {
    let spec = FilterSpec::fpr(rate, family).map_err(Failure::new)?;
    Ok(Box::new(reader(keys, spec)?))
}

pub fn reader(keys: &[u64], spec: FilterSpec) -> Result<FilterReader> {
    // The database verifies its filters. The other structures do not, so verification would distort
    // the comparison of times.
    let mut builder = FilterBuilder::new(spec).verify(false);
    keys.iter().for_each(|&hash| builder.add(hash));
    let block = builder.finish().ok_or_else(|| Failure::new("no filter was built"))?;
    Ok(block.into_reader())
}

/// Implements [`Filter`] for the textbooks' filters. The closure adds a key, and returns `false` if
/// the filter is full.
macro_rules! textbook {
    ($($Filter:ty: $add:expr,)+) => {$(
        impl Filter for $Filter {
            fn contains(&self, hash: u64) -> bool {
                self.contains(hash)
            }

            fn bytes(&self) -> usize {
                self.bytes()
            }

            fn add(&mut self, hashes: &[u64]) -> usize {
                let add: fn(&mut $Filter, u64) -> bool = $add;
                hashes.iter().take_while(|&&hash| add(self, hash)).count()
            }
        }
    )+};
}
textbook! {
    BloomFilter: |filter, hash| { filter.insert(hash); true },
    CountingBloom: |filter, hash| { filter.insert(hash); true },
    ScalableBloom: |filter, hash| filter.add(hash) != Err(Full),
    CuckooFilter: |filter, hash| filter.insert(hash).is_ok(),
    QuotientFilter: |filter, hash| filter.insert(hash).is_ok(),
    Cascade: |_, _| false,
}

impl Filter for FilterReader {
    fn contains(&self, hash: u64) -> bool {
        self.may_contain(hash)
    }

    fn bytes(&self) -> usize {
        self.bytes().len()
    }
}
