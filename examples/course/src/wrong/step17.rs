use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "queries that found their key count, too",
        old: "counts.useful + counts.full_positive - counts.full_true_positive",
        new: "counts.useful + counts.full_positive",
        says: "queries of level 0 for keys that it lacks",
    },
    Wrong {
        what: "only what a filter saved counts",
        old: "counts.useful + counts.full_positive - counts.full_true_positive",
        new: "counts.useful",
        says: "queries of level 0 for keys that it lacks",
    },
    Wrong {
        what: "only what was in vain counts",
        old: "counts.useful + counts.full_positive - counts.full_true_positive",
        new: "counts.full_positive - counts.full_true_positive",
        says: "queries of level 0 for keys that it lacks",
    },
    Wrong {
        what: "who is asked more often gets a higher rate",
        old: "lambda * level.keys as f64 / level.absent as f64",
        new: "lambda * level.keys as f64 * level.absent as f64",
        says: "it has as many keys as level 0 and is asked twice as often",
    },
    Wrong {
        what: "the policy is Monkey's",
        old: "lambda * level.keys as f64 / level.absent as f64",
        new: "lambda * level.keys as f64",
        says: "it has as many keys as level 0 and is asked twice as often",
    },
    Wrong {
        what: "only what is asked counts, and not how many keys there are",
        old: "lambda * level.keys as f64 / level.absent as f64",
        new: "lambda / level.absent as f64",
        says: "it has 4 times the keys of level 0",
    },
    Wrong {
        what: "rates may be above 1",
        old: " / level.absent as f64).min(1.0),",
        new: " / level.absent as f64),",
        says: "a rate is at most 1",
    },
    Wrong {
        what: "λ is at most 1, as in step 10",
        old: "(-1000.0, 64.0)",
        new: "(-1000.0, 0.0)",
        says: "that λ must be above 1",
    },
    Wrong {
        what: "a level that nobody asks gets the best filter",
        old: "Asked { absent: 0, .. } => 1.0,",
        new: "Asked { absent: 0, .. } => 1e-3,",
        says: "the rate of a level that nobody asks",
    },
    Wrong {
        what: "a level that nobody asks is divided by zero",
        old: "        Asked { keys: 0, .. } | Asked { absent: 0, .. } => 1.0,
        _ => (lambda * level.keys as f64 / level.absent as f64).min(1.0),
",
        new: "        _ => (lambda * level.keys as f64 / level.absent as f64).clamp(0.0, 1.0),\n",
        says: "the rate of a level without keys",
    },
    Wrong {
        what: "a level that was emptied has the rate 0, whose bits are no number",
        old: "Asked { keys: 0, .. } | Asked { absent: 0, .. }",
        new: "Asked { absent: 0, .. }",
        says: "and was emptied since then",
    },
    Wrong {
        what: "the budget is exceeded",
        old: "    rates(high)\n",
        new: "    rates(low - 0.1)\n",
        says: "of a budget of 1000",
    },
    Wrong {
        what: "the interval is halved to the wrong side",
        old: "> bits { low = middle } else { high = middle }",
        new: "< bits { low = middle } else { high = middle }",
        says: "of a budget of 1000",
    },
    Wrong {
        what: "the interval is halved too few times",
        old: "for _ in 0..100 {",
        new: "for _ in 0..10 {",
        says: "the rates use only",
    },
    Wrong {
        what: "the budget is for one key",
        old: "bits_per_key * total as f64",
        new: "bits_per_key * (total as f64).min(1.0)",
        says: "the mean over all keys is",
    },
    Wrong {
        what: "the budget is for the levels that are asked most",
        old: "bits_per_key * total as f64",
        new: "bits_per_key * asked.iter().map(|level| level.keys.min(level.absent)).sum::<u64>() as f64",
        says: "the mean over all keys is",
    },
    Wrong {
        what: "rates are returned instead of bits",
        old: ".into_iter().map(bits_for_rate).collect()",
        new: ".into_iter().collect()",
        says: "the mean over all keys is",
    },
];
