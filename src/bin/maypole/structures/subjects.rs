//! Every structure under one interface: how it is made, and what it can do.

use std::hint::black_box;

use maypole::filter::textbook::scalable::Options;
use maypole::filter::textbook::{
    BloomFilter, Cascade, CountingBloom, CuckooFilter, Full, Layout, QuotientFilter, ScalableBloom,
};
use maypole::filter::{Family, FilterBuilder, FilterReader, FilterSpec};
use xorf::{BinaryFuse8, BinaryFuse16, Filter as _};

use crate::failure::{Failure, Result};

/// How full a quotient filter is made: the middle of what its paper recommends.
pub const QUOTIENT_LOAD: f64 = 0.85;

/// What a measurement needs of a filter.
pub trait Filter {
    fn contains(&self, hash: u64) -> bool;

    fn bytes(&self) -> usize;

    /// Adds keys up to the first that finds no room, and tells how many it added.
    fn add(&mut self, _hashes: &[u64]) -> usize {
        0
    }

    /// How many it answers "maybe" to.
    fn count(&self, hashes: &[u64]) -> usize {
        hashes.iter().filter(|&&hash| self.contains(hash)).count()
    }

    /// The same, each query waiting for the one before: a zero that the compiler cannot see makes
    /// its hash from the answers so far.
    fn count_in_a_chain(&self, hashes: &[u64]) -> u64 {
        let zero = black_box(0);
        hashes.iter().fold(0u64, |found, &hash| {
            found.wrapping_add(u64::from(self.contains(hash ^ (found & zero))))
        })
    }
}

/// A structure to measure.
pub struct Subject {
    pub name: &'static str,
    pub deletes: bool,
    pub make: Make,
}

/// A filter that was built.
type Built = Result<Box<dyn Filter>>;

/// How a filter is made.
pub enum Make {
    /// Empty, for this many keys and such a rate. Keys are added, also more than planned.
    Dynamic(fn(usize, f64) -> Box<dyn Filter>),
    /// From all its keys and for such a rate. Only the cascade looks at the absent keys.
    Static(fn(&[u64], f64, &[u64]) -> Built),
}

pub fn all() -> Vec<Subject> {
    use Make::{Dynamic, Static};
    let subject = |name, deletes, make| Subject { name, deletes, make };
    vec![
        subject(
            "bloom, shared array",
            false,
            Dynamic(|keys, rate| Box::new(BloomFilter::for_rate(Layout::Shared, keys, rate))),
        ),
        subject(
            "bloom, split arrays",
            false,
            Dynamic(|keys, rate| Box::new(BloomFilter::for_rate(Layout::Split, keys, rate))),
        ),
        subject(
            "counting bloom",
            true,
            Dynamic(|keys, rate| Box::new(CountingBloom::for_rate(keys, rate))),
        ),
        subject("scalable bloom", false, Dynamic(scalable)),
        subject("cuckoo", true, Dynamic(|keys, rate| Box::new(CuckooFilter::for_rate(keys, rate)))),
        subject(
            "quotient",
            true,
            Dynamic(|keys, rate| Box::new(QuotientFilter::for_rate(keys, rate, QUOTIENT_LOAD))),
        ),
        subject("cascade", false, Static(cascade)),
        subject("binary fuse", false, Static(fuse)),
        subject("maypole bloom", false, Static(|keys, rate, _| own(keys, rate, Family::Bloom))),
        subject("maypole ribbon", false, Static(|keys, rate, _| own(keys, rate, Family::Ribbon))),
        subject("maypole burr", false, Static(|keys, rate, _| own(keys, rate, Family::Burr))),
    ]
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

/// Fingerprints of 8 bits where their rate is low enough, of 16 otherwise.
fn fuse(keys: &[u64], rate: f64, _: &[u64]) -> Built {
    let failed = |error| Failure::new(format_args!("binary fuse: {error}"));
    if rate >= 1.0 / 256.0 {
        Ok(Box::new(BinaryFuse8::try_from(keys).map_err(failed)?))
    } else {
        Ok(Box::new(BinaryFuse16::try_from(keys).map_err(failed)?))
    }
}

fn own(keys: &[u64], rate: f64, family: Family) -> Built {
    let spec = FilterSpec::fpr(rate, family).map_err(Failure::new)?;
    Ok(Box::new(reader(keys, spec)?))
}

/// A filter of the database over `keys`.
pub fn reader(keys: &[u64], spec: FilterSpec) -> Result<FilterReader> {
    // The database verifies its filters; the other structures do not, and their times stand beside.
    let mut builder = FilterBuilder::new(spec).verify(false);
    keys.iter().for_each(|&hash| builder.add(hash));
    let block = builder.finish().ok_or_else(|| Failure::new("no filter was built"))?;
    Ok(block.into_reader())
}

/// Adds keys one by one until one does not fit.
fn add_while(hashes: &[u64], mut fits: impl FnMut(u64) -> bool) -> usize {
    hashes.iter().take_while(|&&hash| fits(hash)).count()
}

impl Filter for BloomFilter {
    fn contains(&self, hash: u64) -> bool {
        self.contains(hash)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn add(&mut self, hashes: &[u64]) -> usize {
        hashes.iter().for_each(|&hash| {
            self.insert(hash);
        });
        hashes.len()
    }
}

impl Filter for CountingBloom {
    fn contains(&self, hash: u64) -> bool {
        self.contains(hash)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn add(&mut self, hashes: &[u64]) -> usize {
        hashes.iter().for_each(|&hash| self.insert(hash));
        hashes.len()
    }
}

impl Filter for ScalableBloom {
    fn contains(&self, hash: u64) -> bool {
        self.contains(hash)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn add(&mut self, hashes: &[u64]) -> usize {
        add_while(hashes, |hash| self.add(hash) != Err(Full))
    }
}

impl Filter for CuckooFilter {
    fn contains(&self, hash: u64) -> bool {
        self.contains(hash)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn add(&mut self, hashes: &[u64]) -> usize {
        add_while(hashes, |hash| self.insert(hash).is_ok())
    }
}

impl Filter for QuotientFilter {
    fn contains(&self, hash: u64) -> bool {
        self.contains(hash)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn add(&mut self, hashes: &[u64]) -> usize {
        add_while(hashes, |hash| self.insert(hash).is_ok())
    }
}

impl Filter for Cascade {
    fn contains(&self, hash: u64) -> bool {
        self.contains(hash)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

impl Filter for FilterReader {
    fn contains(&self, hash: u64) -> bool {
        self.may_contain(hash)
    }

    fn bytes(&self) -> usize {
        self.bytes().len()
    }
}

impl Filter for BinaryFuse8 {
    fn contains(&self, hash: u64) -> bool {
        xorf::Filter::contains(self, &hash)
    }

    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Filter for BinaryFuse16 {
    fn contains(&self, hash: u64) -> bool {
        xorf::Filter::contains(self, &hash)
    }

    fn bytes(&self) -> usize {
        2 * self.len()
    }
}
