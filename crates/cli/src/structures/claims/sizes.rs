//! Claims about the memory that a structure takes.

use maypole_filter::textbook::{
    BloomFilter, CountingBloom, CuckooFilter, Layout, QuotientFilter, formulas,
};

use super::claim::Unit::*;
use super::claim::{Claim, HERE, TUTORIALS, Verdict};
use super::lab::{Lab, ONE_PERCENT};
use crate::failure::Result;
use crate::show::text::percent;
use crate::structures::subjects::Filter;

fn bits_per_key(filter: &impl Filter, keys: usize) -> f64 {
    filter.bytes() as f64 * 8.0 / keys as f64
}

/// Bits a key of a standard Bloom filter whose false-positive rate is `rate`.
fn standard_bits(keys: usize, rate: f64) -> f64 {
    formulas::whole_shape(keys, rate).0 as f64 / keys as f64
}

pub fn counting(lab: &Lab) -> Result<Vec<Claim>> {
    let bloom = BloomFilter::for_rate(Layout::Shared, lab.keys, ONE_PERCENT).bytes();
    let times = CountingBloom::for_rate(lab.keys, ONE_PERCENT).bytes() as f64 / bloom as f64;
    Ok(vec![Claim {
        says: "A counting Bloom filter is 3 to 4 times as large as a standard one.",
        source: "Fan, Cao, Almeida and Broder, Summary Cache, 2000, and tutorials",
        verdict: Verdict::of(times, 2.95..=4.05, 2.0..=6.0),
        rule: "true from 3 to 4 times, half true from 2 to 6",
        figures: vec![("size against a standard one", Times, times)],
        because: "Counters of four bits make it four; three bits overflow too often to be used.",
        instead: format!("It is {times:.1} times as large."),
        see: HERE,
    }])
}

pub fn cuckoo(lab: &Lab) -> Result<Vec<Claim>> {
    let mut smaller = Vec::new();
    let (mut crossing, mut at_one_percent) = (0.0f64, (f64::INFINITY, 0.0));
    for fingerprint_bits in 8..=14 {
        let mut filter = CuckooFilter::new(lab.keys, fingerprint_bits);
        filter.add(lab.planned());
        let (rate, bits) = (lab.rate(&filter), bits_per_key(&filter, lab.keys));
        let bloom = standard_bits(lab.keys, rate);
        if rate <= 0.031 {
            smaller.push(bits < bloom);
        }
        if bits < bloom {
            crossing = crossing.max(rate);
        }
        if (rate - ONE_PERCENT).abs() < (at_one_percent.0 - ONE_PERCENT).abs() {
            at_one_percent = (rate, bits / bloom);
        }
    }
    Ok(vec![Claim {
        says: "A cuckoo filter is smaller than a Bloom filter below a rate of 3 %.",
        source: "Fan, Andersen, Kaminsky and Mitzenmacher, Cuckoo Filter, 2014",
        verdict: Verdict::of_cases(&smaller),
        rule: "fingerprints of 8 to 14 bits, 95 % full; true if it is smaller at each rate up to \
               3.1 %, half true if at some",
        figures: vec![
            ("highest rate where it is smaller", Rate, crossing),
            ("size against a Bloom filter near 1 %", Times, at_one_percent.1),
        ],
        because: "The plain filter spends three bits a key on its eight slots; the 3 % of its \
                  paper are those of the semi-sorted variant.",
        instead: format!("A plain cuckoo filter is smaller below a rate of {}.", percent(crossing)),
        see: HERE,
    }])
}

pub fn ribbon(lab: &Lab) -> Result<Vec<Claim>> {
    let [(_, bloom), (_, ribbon), (_, burr)] =
        [lab.own("fpr(0.01, bloom)")?, lab.own("fpr(0.01, ribbon)")?, lab.own("fpr(0.01, burr)")?];
    let saved = 1.0 - ribbon / bloom;
    Ok(vec![Claim {
        says: "A Ribbon filter is 30 % smaller than a Bloom filter.",
        source: "RocksDB's documentation of its Ribbon filter",
        verdict: Verdict::of(saved, 0.27..=0.33, 0.2..=0.4),
        rule: "RocksDB's formats at a rate of 1 %; true from 27 to 33 % saved, half true from 20 \
               to 40 %",
        figures: vec![
            ("bloom", Bits, bloom),
            ("ribbon", Bits, ribbon),
            ("saved", Share, saved),
            ("saved by burr", Share, 1.0 - burr / bloom),
        ],
        because: "It stays within a few hundredths of the fewest bits possible, where a Bloom \
                  filter takes 1.44 times those and its cache lines a little more.",
        instead: format!("It is {} smaller at a rate of 1 %.", percent(saved)),
        see: HERE,
    }])
}

pub fn quotient(lab: &Lab) -> Result<Vec<Claim>> {
    let more = [0.75, 0.9].map(|load| {
        let mut filter = QuotientFilter::for_rate(lab.keys, ONE_PERCENT, load);
        filter.add(lab.planned());
        bits_per_key(&filter, lab.keys) / standard_bits(lab.keys, lab.rate(&filter)) - 1.0
    });
    Ok(vec![Claim {
        says: "A quotient filter is 10 to 25 % larger than a Bloom filter.",
        source: "Bender et al., Don't Thrash, 2012, and tutorials",
        verdict: Verdict::of_cases(&more.map(|more| (0.07..=0.28).contains(&more))),
        rule: "at the rate it has, 75 and 90 % full; true from 7 to 28 % at both, half true at one",
        figures: vec![
            ("larger when 75 % full", Share, more[0]),
            ("larger when 90 % full", Share, more[1]),
        ],
        because: "Its three marks and its empty slots cost that much near 1 %; well filled and at \
                  a tenth of that rate it is no larger, because it pays one bit where a Bloom \
                  filter pays 1.44.",
        instead: format!(
            "It is {} larger when 75 % full and {} larger when 90 % full.",
            percent(more[0]),
            percent(more[1])
        ),
        see: HERE,
    }])
}

/// The size that a tutorial gives for a million URLs.
const CLAIMED_BYTES: f64 = 117.0 * 1024.0;

pub fn a_million_urls(lab: &Lab) -> Result<Vec<Claim>> {
    let filter = BloomFilter::for_rate(Layout::Shared, lab.keys, ONE_PERCENT);
    let bytes = filter.bytes() as f64 / lab.keys as f64 * 1e6;
    let claimed = lab.standard(CLAIMED_BYTES * 8.0 / 1e6, 1);
    Ok(vec![Claim {
        says: "117 KB serve a million URLs at a rate of 1 %.",
        source: TUTORIALS,
        verdict: Verdict::of(bytes / CLAIMED_BYTES, 0.0..=1.05, 0.0..=2.0),
        rule: "true if it takes no more than 1.05 times that, half true up to twice",
        figures: vec![
            ("size for a million", Kib, bytes / 1024.0),
            ("size against the claim", Times, bytes / CLAIMED_BYTES),
            ("rate with 117 KiB", Rate, lab.rate(&claimed)),
        ],
        because: "A million keys of 9.6 bits are 1.2 million bytes; the claim is too low by a \
                  factor of ten.",
        instead: format!("{:.0} KiB serve a million keys at 1 %.", bytes / 1024.0),
        see: HERE,
    }])
}

/// Bytes of a key, and common sizes of a value.
const KEY_BYTES: f64 = 24.0;
const VALUE_BYTES: [f64; 3] = [16.0, 100.0, 1000.0];
/// How many times as large as memory the data is.
const DATA_OVER_MEMORY: [f64; 3] = [1.0, 10.0, 100.0];

pub fn share_of_data(lab: &Lab) -> Result<Vec<Claim>> {
    let (_, bits) = lab.own("fpr(0.01, bloom)")?;
    let share = VALUE_BYTES.map(|value| bits / 8.0 / (KEY_BYTES + value));
    let of_memory = DATA_OVER_MEMORY.map(|times| times * share[1]);
    let says_share = Claim {
        says: "Filters take 1 to 2 % of the data.",
        source: TUTORIALS,
        verdict: Verdict::of_cases(&share.map(|share| (0.0095..=0.0205).contains(&share))),
        rule: "bloom at 1 %, keys of 24 bytes, values of 16, 100 and 1,000; true if it is 0.95 to \
               2.05 % for all, half true if for some",
        figures: vec![
            ("share with values of 16 bytes", Share, share[0]),
            ("of 100 bytes", Share, share[1]),
            ("of 1,000 bytes", Share, share[2]),
        ],
        because: "A filter's size goes with the number of keys; the share only tells how large the \
                  values are.",
        instead: format!(
            "A filter takes {bits:.1} bits a key: {} of the data with values of 16 bytes, {} \
                with values of 1,000.",
            percent(share[0]),
            percent(share[2])
        ),
        see: "maypole compare --value-bytes B",
    };
    let of_memory_claim = Claim {
        says: "Filters should stay under 5 % of memory.",
        source: TUTORIALS,
        verdict: Verdict::of_cases(&of_memory.map(|share| share < 0.05)),
        rule: "values of 100 bytes, data 1, 10 and 100 times the memory; true if filters are below \
               5 % of memory in all cases, half true if in some",
        figures: vec![
            ("share when the data is as large as memory", Share, of_memory[0]),
            ("10 times as large", Share, of_memory[1]),
            ("100 times as large", Share, of_memory[2]),
        ],
        because: "It says nothing of what is best: where the data is much larger than memory, a \
                  filter saves more reads than the blocks that its bytes could cache; fix the \
                  budget by measuring.",
        instead: format!(
            "Filters take {} of memory where the data is as large as memory and {} where it is \
                100 times as large.",
            percent(of_memory[0]),
            percent(of_memory[2])
        ),
        see: "maypole compare --cold --cache BYTES --policies none,bloom(5),bloom(10)",
    };
    Ok(vec![says_share, of_memory_claim])
}
