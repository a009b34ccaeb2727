use super::Wrong;

pub const WRONG: &[Wrong] = &[
    Wrong {
        what: "the memory of a level does not depend on its keys",
        old: "keys as f64 * bits_for_rate(rate)",
        new: "(keys / keys.max(1)) as f64 * bits_for_rate(rate)",
        says: "1000 keys at 1/2 and 10 at 1/4",
    },
    Wrong {
        what: "the halving goes to the wrong side",
        old: "> bits { low = middle }",
        new: "< bits { low = middle }",
        says: "the rates take",
    },
    Wrong {
        what: "the halving ends too early",
        old: "for _ in 0..100 {",
        new: "for _ in 0..10 {",
        says: "the rates use only",
    },
    Wrong {
        what: "rates above 1",
        old: ".exp2() * keys as f64).min(1.0))",
        new: ".exp2() * keys as f64))",
        says: "10,000 bits are too few for the last level",
    },
    Wrong {
        what: "the same rate in each level",
        old: "(log2_lambda.exp2() * keys as f64).min(1.0)",
        new: "log2_lambda.exp2() * (keys / keys) as f64",
        says: "level 1 has 10 times the keys of level 0, and 1.00 times its rate",
    },
    Wrong {
        what: "larger levels get the lower rates",
        old: "log2_lambda.exp2() * keys as f64",
        new: "log2_lambda.exp2() / keys as f64",
        says: "level 1 has 10 times the keys of level 0, and 0.10 times its rate",
    },
    Wrong {
        what: "rates follow the square root of the keys",
        old: "log2_lambda.exp2() * keys as f64",
        new: "log2_lambda.exp2() * (keys as f64).sqrt()",
        says: "level 1 has 10 times the keys of level 0, and 3.16 times its rate",
    },
    Wrong {
        what: "the budget is that of one key",
        old: "bits_per_key * total as f64",
        new: "bits_per_key",
        says: "the mean over all keys is",
    },
    Wrong {
        what: "the mean is over the levels",
        old: "bits_per_key * total as f64",
        new: "bits_per_key * keys.len() as f64",
        says: "the mean over all keys is",
    },
    Wrong {
        what: "rates are returned as bits",
        old: "rates.into_iter().map(bits_for_rate).collect()",
        new: "rates",
        says: "the mean over all keys is",
    },
];
