//! Claims about the false-positive rate that a filter has for its size.

use maypole_filter::textbook::{BloomFilter, Layout, formulas};

use super::claim::Unit::*;
use super::claim::{Claim, HERE, TUTORIALS, Verdict};
use super::lab::{Lab, ONE_PERCENT};
use crate::failure::Result;
use crate::show::text::percent;
use crate::structures::subjects::Filter;

pub fn five_times_the_keys(lab: &Lab) -> Result<Vec<Claim>> {
    const CLAIMED: f64 = 0.18;
    let mut filter = BloomFilter::for_rate(Layout::Shared, lab.keys, ONE_PERCENT);
    let (mut reached, mut twice) = (f64::NAN, f64::NAN);
    let mut held = 0;
    for twentieths in 1..=100 {
        let next = lab.keys * twentieths / 20;
        filter.add(&lab.present[held..next]);
        held = next;
        // The rate only grows with the number of keys, and it reaches 18 % between one and three
        // times the planned keys. So it is measured in this range until it reaches 18 %, and in any
        // case at two times the planned keys, for `twice`.
        if (20..=60).contains(&twentieths) && (reached.is_nan() || twentieths == 40) {
            let rate = lab.rate(&filter);
            if reached.is_nan() && rate >= CLAIMED {
                reached = twentieths as f64 / 20.0;
            }
            if twentieths == 40 {
                twice = rate;
            }
        }
    }
    let rate = lab.rate(&filter);
    Ok(vec![Claim {
        says: "A filter sized for 1 million keys at 1 % that holds 5 million is wrong for 18 %.",
        source: TUTORIALS,
        verdict: Verdict::of(rate, 0.15..=0.21, 0.1..=0.3),
        rule: "true from 15 to 21 % at 5 times the planned keys, half true from 10 to 30 %",
        figures: vec![
            ("rate at 2 times", Rate, twice),
            ("rate at 5 times", Rate, rate),
            ("keys where 18 % is reached", Times, reached),
        ],
        because: "Nearly every bit is set by then, and the filter answers maybe to most keys; 18 % \
                  comes soon after twice the keys.",
        instead: format!("It is wrong for {}.", percent(rate)),
        see: "maypole structures",
    }])
}

pub fn bits_that_halve(lab: &Lab) -> Result<Vec<Claim>> {
    let [before, after, right] = [9.6, 10.3, 9.6 + 1.44]
        .map(|bits| lab.rate(&lab.standard(bits, formulas::whole_hashes(bits))));
    Ok(vec![Claim {
        says: "0.7 bits more a key halve the rate.",
        source: TUTORIALS,
        verdict: Verdict::of(after / before, 0.45..=0.55, 0.4..=0.6),
        rule: "standard Bloom filters of 9.6 and 10.3 bits; true if the rate becomes 0.45 to 0.55 \
               of what it was, half true from 0.4 to 0.6",
        figures: vec![
            ("rate with 0.7 bits more", Times, after / before),
            ("with 1.44 bits more", Times, right / before),
        ],
        because: "Halving takes 1/ln 2 = 1.44 bits; 0.69 = ln 2 is the share of the bits a key \
                  that the hashes are.",
        instead: format!(
            "1.44 bits more a key make the rate {:.2} of what it was; 0.7 bits make it {:.2}.",
            right / before,
            after / before
        ),
        see: HERE,
    }])
}

pub fn bits_for_a_tenth(lab: &Lab) -> Result<Vec<Claim>> {
    let standard = |bits| lab.rate(&lab.standard(bits, formulas::whole_hashes(bits)));
    let times = standard(9.6) / standard(9.6 + 4.8);
    let lines = lab.own("bloom(9.6)")?.0 / lab.own("bloom(14.4)")?.0;
    Ok(vec![Claim {
        says: "4.8 bits more a key make the rate a tenth.",
        source: TUTORIALS,
        verdict: Verdict::of_cases(&[times, lines].map(|times| (9.0..=11.0).contains(&times))),
        rule: "9.6 and 14.4 bits; true if the rate falls 9 to 11 times in a standard Bloom filter \
               and in RocksDB's, half true if in one",
        figures: vec![("standard falls by", Times, times), ("RocksDB's falls by", Times, lines)],
        because: "A filter whose probes stay within one cache line gains less from bits: some \
                  lines are fuller than others, and it takes 5.6 bits there.",
        instead: format!(
            "They divide the rate by {times:.1} in a standard filter and by {lines:.1} in RocksDB's."
        ),
        see: HERE,
    }])
}

pub fn bits_for_one_percent(lab: &Lab) -> Result<Vec<Claim>> {
    let standard = lab.rate(&lab.standard(9.6, 7));
    let (lines, _) = lab.own("bloom(9.6)")?;
    Ok(vec![Claim {
        says: "9.6 bits a key give a rate of 1 %.",
        source: "the textbook's formula, m/n = log2(1/p) / ln 2",
        verdict: Verdict::of_cases(
            &[standard, lines].map(|rate| (0.0093..=0.0107).contains(&rate)),
        ),
        rule: "true from 0.93 to 1.07 % in a standard Bloom filter and in RocksDB's, half true in \
               one",
        figures: vec![("standard", Rate, standard), ("RocksDB's", Rate, lines)],
        because: "It is the textbook's figure; within one cache line 1 % takes 9.9 bits.",
        instead: format!(
            "They give {} in a standard filter and {} in RocksDB's.",
            percent(standard),
            percent(lines)
        ),
        see: HERE,
    }])
}

pub fn whole_hashes(lab: &Lab) -> Result<Vec<Claim>> {
    // Truncation matters most at 2.87 bits a key, where the best number of hashes is 1.99. At 9.6
    // bits a key it is 6.65.
    let penalty = [2.87, 4.0, 9.6, 14.4].map(|bits| {
        let best = formulas::best_hashes(bits);
        let [down, near] =
            [best.floor(), best.round()].map(|k| lab.standard(bits, (k as u32).max(1)));
        lab.rate(&down) / lab.rate(&near) - 1.0
    });
    let harmless = penalty.map(|more| more < 0.04);
    Ok(vec![Claim {
        says: "Whether the number of hashes is rounded or truncated makes no difference.",
        source: TUTORIALS,
        verdict: Verdict::of_cases(&harmless),
        rule: "true if truncating makes the rate less than 4 % worse at 2.87, 4, 9.6 and 14.4 bits \
               a key, half true if at some",
        figures: vec![
            ("worse at 2.87 bits", Share, penalty[0]),
            ("at 4", Share, penalty[1]),
            ("at 9.6", Share, penalty[2]),
            ("at 14.4", Share, penalty[3]),
        ],
        because: "The curve is flat around its minimum, so at common sizes one hash less is even a \
                  little faster for nearly nothing; with one or two hashes it matters.",
        instead: format!(
            "Truncating makes the rate {} worse at 2.87 bits and {} worse at 14.4.",
            percent(penalty[0]),
            percent(penalty[3])
        ),
        see: HERE,
    }])
}

pub fn reads_saved(lab: &Lab) -> Result<Vec<Claim>> {
    let mut filter = BloomFilter::for_rate(Layout::Shared, lab.keys, ONE_PERCENT);
    filter.add(lab.planned());
    let saved = 1.0 - lab.rate(&filter);
    filter.add(&lab.present[lab.keys..]);
    let overfilled = 1.0 - lab.rate(&filter);
    Ok(vec![Claim {
        says: "Filters save over 90 % of the reads for absent keys.",
        source: TUTORIALS,
        verdict: Verdict::of(saved, 0.9..=1.0, 0.5..=1.0),
        rule: "true if a filter made for 1 % answers no to 90 % of absent keys, half true from 50 \
               %",
        figures: vec![("saved", Share, saved), ("saved with 5 times the keys", Share, overfilled)],
        because: "One minus the rate is saved at each table that is asked, if the filters are in \
                  memory and sized for their keys; lookups that find their key save less.",
        instead: format!(
            "They save {}, and {} with five times the keys.",
            percent(saved),
            percent(overfilled)
        ),
        see: "maypole compare",
    }])
}

pub fn rocksdb_ten_bits(lab: &Lab) -> Result<Vec<Claim>> {
    let (rate, _) = lab.own("bloom(10)")?;
    Ok(vec![Claim {
        says: "RocksDB's documentation: 10 bits a key yield a rate of about 1 %.",
        source: "RocksDB's wiki on its Bloom filter",
        verdict: Verdict::of(rate, 0.009..=0.011, 0.007..=0.013),
        rule: "RocksDB's format, bit for bit; true from 0.9 to 1.1 %, half true from 0.7 to 1.3 %",
        figures: vec![("rate", Rate, rate)],
        because: "A standard filter of 10 bits would have 0.82 %; the difference is the price of \
                  one cache line a query.",
        instead: format!("10 bits yield {}.", percent(rate)),
        see: HERE,
    }])
}
