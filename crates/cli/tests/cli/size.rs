//! `size`: its figures are those of the textbook's formulas, and its rows are consistent.

use maypole::table::MetadataForm;
use maypole::{BlockKind, Compression, Db};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::maypole;

fn rows(text: &str) -> Vec<Value> {
    let object: Value = serde_json::from_str(text).unwrap();
    assert_eq!(object["schema"], 1);
    assert!(object["verdict"]["sentence"].as_str().unwrap().starts_with("Take "), "{object}");
    object["filters"].as_array().unwrap().clone()
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_textbook_says_ten_bits_for_one_percent() {
    let text = maypole!("size", "--keys", "1000000", "--rate", "0.01", "--json").well();
    for rate in ["0.01", "1%"] {
        assert_eq!(text, maypole!("size", "--keys", "1M", "--rate", rate, "--json").well());
    }
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

/// A textbook's filter of one key and one bit says "maybe" to every query. `size` once printed a
/// bound of -0.00 bits for its rate, and `-inf` for its bits divided by the bound.
#[test]
fn a_rate_of_100_percent_has_a_bound_of_zero_and_no_multiple_of_it() {
    let text = maypole!("size", "--keys", "1", "--bits", "1").out;
    let textbook = text.lines().find(|line| line.contains("textbook bloom")).unwrap();
    let cells: Vec<&str> = textbook.split_whitespace().skip(2).collect();
    assert_eq!(cells[..7], ["1", "B", "1.00", "-", "1", "100", "%"], "{text}");
    assert!(text.contains("log2(1/p) = 0.00 bits"), "{text}");
    assert!(!text.contains("-0.0") && !text.contains("inf") && !text.contains("NaN"), "{text}");
    let rows = rows(&maypole!("size", "--keys", "1", "--bits", "1", "--json").out);
    assert_eq!((&rows[0]["fpr"], &rows[0]["times_bound"]), (&1.0.into(), &Value::Null));
}

/// A database whose filters and indexes outgrow the block cache reads them again and again. `size`
/// once computed only filters, so that a plan looked right although its filters and indexes did not
/// fit into the cache. Now it warns.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
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
    // With entries of this size, indexes take 1.4 to 1.5 bytes a key, as docs/performance.md says.
    let index_bytes = bloom["index_bytes"].as_f64().unwrap();
    assert!((1.4..1.5).contains(&(index_bytes / 800e6)), "{index_bytes}");
    assert!(bloom["top_bytes"].as_f64().unwrap() < index_bytes / 50.0, "{bloom}");
}

/// The memory that `size` computes is what filters and indexes take in a cache, with keys as in
/// docs/performance.md. `size` once took the bytes of an index in its file for 29 a block, of which
/// tables have about 21. It also counted too few partitions, because it ignored that filter and
/// index are partitioned at the same keys.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_computed_memory_is_that_of_a_real_tree() {
    const KEYS: u64 = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let open = |form: MetadataForm, cache_bytes| {
        let builder = Db::builder(dir.path().join(format!("{form:?}"))).metadata(form);
        builder.compression(Compression::None).block_cache_bytes(cache_bytes).open().unwrap()
    };
    let keys = || {
        let mut rng = StdRng::seed_from_u64(3);
        (0..KEYS).map(move |_| format!("user{:016x}", rng.random::<u64>()))
    };
    // The bytes of filters and indexes in memory, and the bytes of open tables. With parts, the
    // cache holds all of them only because they take less than if they were whole.
    let held = |form, cache_bytes| {
        let db = open(form, 64 << 20);
        keys().for_each(|key| db.put(key, [7; 100]).unwrap());
        db.compact_range(..).unwrap();
        db.close().unwrap();
        let db = open(form, cache_bytes);
        db.warm_up().unwrap();
        let stats = db.stats();
        let kinds = stats.cache.iter().filter(|(kind, _)| *kind != BlockKind::Data);
        let bytes = kinds.map(|(_, usage)| usage.bytes).sum::<usize>();
        let file_bytes: u64 = stats.files.iter().map(|file| file.file_bytes).sum();
        (bytes as f64, stats.cache_tables_bytes as f64, file_bytes / KEYS)
    };
    let (whole, whole_tables, entry_bytes) = held(MetadataForm::Whole, 64 << 20);
    let (parts, parts_tables, _) = held(MetadataForm::Parts, whole as usize * 9 / 8);
    let tops = parts_tables - whole_tables;

    let call = [format!("--keys={KEYS}"), format!("--entry-bytes={entry_bytes}")];
    let text = maypole!("size", &call[0], &call[1], "--bits=10", "--json").well();
    let bloom = rows(&text).into_iter().find(|row| row["filter"] == "bloom").unwrap();
    let number = |field: &str| bloom[field].as_f64().unwrap();
    // Top-level indexes as small as these have a header that counts.
    for (computed, real, most) in [
        (number("bytes") + number("index_bytes"), whole, 0.05),
        (number("parts_bytes"), parts + tops, 0.05),
        (number("top_bytes"), tops, 0.2),
    ] {
        assert!((computed / real - 1.0).abs() < most, "{computed}, in memory {real}: {bloom}");
    }
}
