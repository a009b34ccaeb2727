//! `size`: its figures are those of the textbook's formulas, and its rows are consistent.

use serde_json::Value;

use crate::maypole;

fn rows(text: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(text).unwrap().as_array().unwrap().clone()
}

#[test]
fn the_textbook_says_ten_bits_for_one_percent() {
    let text = maypole!("size", "--keys", "1000000", "--rate", "0.01", "--json").well();
    assert_eq!(text, maypole!("size", "--keys", "1M", "--rate", "0.01", "--json").well());
    let rows = rows(&text);
    let of = |filter: &str| rows.iter().find(|row| row["filter"] == filter).unwrap();
    let number = |filter: &str, field: &str| of(filter)[field].as_f64().unwrap();
    // For n = 10^6 keys and a rate of p = 0.01, the textbook gives m = 9,585,059 bits and k = 6.64
    // probes. With 7 probes, m = -7 n / ln(1 - p^(1/7)).
    let seven = -7.0 / (1.0 - 0.01f64.powf(1.0 / 7.0)).ln();
    assert!((number("textbook bloom", "bits_per_key") - seven).abs() < 1e-4);
    assert_eq!(of("textbook bloom")["bytes"], (seven * 1e6 / 8.0).ceil() as u64);
    assert_eq!(of("textbook bloom")["probes"], 7);
    assert!((number("lower bound", "bits_per_key") - 100f64.log2()).abs() < 1e-9);
    let bits =
        ["lower bound", "burr", "ribbon", "bloom"].map(|filter| number(filter, "bits_per_key"));
    assert!(bits.windows(2).all(|pair| pair[0] < pair[1]), "{bits:?}");
    for row in &rows {
        let rates = [
            "fpr",
            "fpr_at_1_5_times_the_keys",
            "fpr_at_2_times_the_keys",
            "fpr_at_5_times_the_keys",
        ]
        .map(|field| row[field].as_f64().unwrap());
        match row["filter"].as_str() {
            // The fingerprints of a fuse filter have a whole number of bits, so its rate is the
            // largest power of 1/2 that is at most the requested rate.
            Some("fuse") => assert_eq!(rates[0], 0.5f64.powi(7), "{row}"),
            _ => assert!((rates[0] / 0.01 - 1.0).abs() < 0.03, "{row}"),
        }
        assert!(rates.windows(2).all(|pair| pair[0] < pair[1]), "{row}");
    }
}

#[test]
fn bits_give_a_rate_and_memory_a_share() {
    let text =
        maypole!("size", "--keys=1000000000", "--bits=10", "--memory=16G", "--levels=3").well();
    for part in ["1.16 GiB", "p = (1 - e^(-k n/m))^k", "of 16.0 GiB of memory", "tree of 3 levels"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Three keys are too few for some families. `size` prints a note of each, and does not fail.
    let done = maypole!("size", "--keys=3");
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.lines().all(|line| line.starts_with("note: ")), "{}", done.err);
}

/// A database whose filters and indexes outgrow the block cache reads them again and again. `size`
/// once computed only filters, so that a plan looked right although its filters and indexes did not
/// fit into the cache. Now it warns.
#[test]
fn filters_and_indexes_that_exceed_the_cache_are_a_warning() {
    let call = ["size", "--keys=800M", "--entry-bytes=125", "--bits=10"];
    let with = |cache| maypole!(call[0], call[1], call[2], call[3], cache).well();
    let (large, small) = (with("--cache=8G"), with("--cache=512M"));
    assert!(!large.contains("Warning"), "{large}");
    let warning = "indexes do not fit into the block cache.";
    let unwrapped = small.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains(warning), "{small}");

    let text = maypole!(call[0], call[1], call[2], call[3], "--json").well();
    let bloom = rows(&text).into_iter().find(|row| row["filter"] == "bloom").unwrap();
    // With entries of this size, indexes take 1.4 bytes a key, as docs/scaling.md states.
    let index_bytes = bloom["index_bytes"].as_f64().unwrap();
    assert!((index_bytes / 800e6 / 1.4 - 1.0).abs() < 0.02, "{index_bytes}");
    assert!(bloom["top_bytes"].as_f64().unwrap() < index_bytes / 50.0, "{bloom}");
}
