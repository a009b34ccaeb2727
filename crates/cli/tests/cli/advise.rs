//! `advise`: on RocksDB's directories, on Maypole's, and on directories that are neither.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use maypole::table::SstReader;
use maypole::{Compression, Db, FilterKeys, PrefixExtractor, RocksDb};
use serde_json::Value;

use crate::rocksdb_dirs::{state_of, unpacked};
use crate::{maypole, run};

/// Returns what `maypole advise DIR OPTIONS…` prints. Checks that it succeeds, and that standard
/// error has only notes.
fn text(dir: &Path, options: &[&str]) -> String {
    let mut call = vec!["advise", dir.to_str().unwrap()];
    call.extend(options);
    let done = run(&call);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.lines().all(|line| line.starts_with("note: ")), "{}", done.err);
    done.out
}

fn json(dir: &Path, options: &[&str]) -> Value {
    let text = text(dir, &[&["--json"], options].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The report on the only column family.
fn family(dir: &Path, options: &[&str]) -> Value {
    let found = json(dir, options);
    assert_eq!(found["families"].as_array().unwrap().len(), 1, "{found}");
    found["families"][0].clone()
}

/// The text in the field `name` of each object of an array.
fn texts<'a>(array: &'a Value, name: &str) -> Vec<&'a str> {
    array.as_array().unwrap().iter().map(|object| object[name].as_str().unwrap()).collect()
}

/// The row of the filter policy `name` in the report on a column family.
fn policy<'a>(family: &'a Value, name: &str) -> &'a Value {
    let mut rows = family["policies"].as_array().unwrap().iter();
    rows.find(|row| row["policy"] == name).unwrap_or_else(|| panic!("{name}: {family}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Replaces the text `from` by `to` in the newest OPTIONS file.
fn edit_options(dir: &Path, from: &str, to: &str) {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let options = |path: &PathBuf| path.to_str().unwrap().contains("OPTIONS-");
    let newest = names.filter(options).max().unwrap();
    let text = fs::read_to_string(&newest).unwrap();
    assert!(text.contains(from), "{from}");
    fs::write(newest, text.replace(from, to)).unwrap();
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn filters_of_rocksdb_are_told_measured_and_compared_and_nothing_changes() {
    let dir = unpacked("11.9-pred");
    let before = state_of(dir.path());
    let found = family(dir.path(), &["--files"]);
    assert_eq!(state_of(dir.path()), before);
    assert_eq!(found["filter_policy"], "bloomfilter:10:false");
    assert_eq!(found["tables_read"], found["tables"]);
    assert_eq!(found["files"].as_array().unwrap().len() as u64, found["tables"]);
    assert_eq!(texts(&found["findings"], "finding"), [""; 0], "OPTIONS ask for what is there");
    let mut queries = 0;
    for row in found["filters"].as_array().unwrap() {
        assert_eq!((&row["filter"], &row["holds"]), (&"bloom".into(), &"keys".into()), "{row}");
        assert!((9.9..10.5).contains(&number(&row["bits_per_key"])), "{row}");
        // RocksDB's own estimate for 10 bits is 0.95 %. The bounds are wide, because small filters
        // deviate much from their expected rate.
        assert!((0.006..0.013).contains(&number(&row["measured_fpr"])), "{row}");
        let inside = number(&row["fpr_low"])..=number(&row["fpr_high"]);
        assert!(inside.contains(&number(&row["measured_fpr"])), "{row}");
        queries += row["queries"].as_u64().unwrap();
    }
    assert!(queries > 50_000, "{queries}");

    let (now, same) = (policy(&found, "NOW, as stored"), policy(&found, "bloom:10"));
    let (none, more) = (policy(&found, "none"), policy(&found, "bloom:16"));
    let memory = |row: &Value| number(&row["filter_bytes"]);
    assert!((memory(same) / memory(now) - 1.0).abs() < 0.02, "{same} {now}");
    assert!(memory(policy(&found, "ribbon:10")) < 0.8 * memory(same), "{found}");
    let blocks = |row: &Value| number(&row["blocks_per_absent_get"]);
    let without = number(&found["absent"]["blocks_without_filters"]);
    assert!(memory(none) == 0.0 && (blocks(none) - without).abs() < 0.01 * without, "{none}");
    assert!((blocks(same) - blocks(now)).abs() < 0.02, "{same} {now}");
    assert!(blocks(more) < blocks(same) && blocks(same) < 0.1 && blocks(none) > 2.0, "{found}");
    let saved = number(&none["saved_micros_per_absent_get"]);
    assert!((saved - 80.0 * (blocks(now) - blocks(none))).abs() < 1e-6, "80 µs a read: {saved}");
    assert!(texts(&found["advice"], "action")[0].starts_with("Keep what there is"), "{found}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_terminal_gets_eighty_columns_and_every_level() {
    let dir = unpacked("11.9-pred");
    let done = Command::new(env!("CARGO_BIN_EXE_maypole"))
        .args([Path::new("advise"), dir.path(), Path::new("--files")])
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in [
        "Column family default: 4 tables in 2 levels",
        "OPTIONS ask for filter_policy=bloomfilter:10:false",
        "\nFilters as they are stored\n",
        "\nTables\n",
        "\nMemory: filters ",
        "A lookup of absent keys reads ",
        "bloom:10, parts",
        "ribbon:10, parts",
        "bloom by level",
        "ribbon by level",
        "burr by level",
        "\nAdvice\n1.  Keep what there is",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let error = String::from_utf8(done.stderr).unwrap();
    assert!(error.starts_with("note: reads ") && error.contains(" s\n"), "{error}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn tables_of_an_older_policy_are_found_and_bloom_of_a_flush_is_none() {
    let dir = unpacked("11.9-pred");
    let asked = "filter_policy=bloomfilter:10:false";
    edit_options(dir.path(), asked, "filter_policy=ribbonfilter:10:0");
    let found = family(dir.path(), &["--files"]);
    let [finding] = found["findings"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!(finding["finding"], "Bloom of 10.1 bits; OPTIONS ask for Ribbon");
    let files = found["files"].as_array().unwrap();
    let deep: Vec<&Value> = files.iter().filter(|f| f["level"] != 0).map(|f| &f["file"]).collect();
    assert_eq!(finding["files"].as_array().unwrap().iter().collect::<Vec<_>>(), deep, "{found}");
    assert!(texts(&found["advice"], "action")[0].starts_with("Compact the column family"));

    edit_options(
        dir.path(),
        "filter_policy=ribbonfilter:10:0",
        "filter_policy=bloomfilter:14:false",
    );
    let found = family(dir.path(), &[]);
    let told = texts(&found["findings"], "finding");
    assert!(told.iter().all(|told| told.ends_with("OPTIONS ask for 14.0")), "{told:?}");
    assert!(!told.is_empty());

    // If OPTIONS name the policy without its bits a key, `advise` does not judge the sizes of the
    // filters.
    edit_options(dir.path(), "filter_policy=bloomfilter:14:false", "filter_policy=bloomfilter");
    let found = family(dir.path(), &[]);
    assert_eq!(texts(&found["findings"], "finding"), [""; 0]);
    assert!(text(dir.path(), &[]).contains("without bits, so that sizes are not judged"));

    // Without a policy, RocksDB reads no filters.
    edit_options(dir.path(), "filter_policy=bloomfilter", "filter_policy=nullptr");
    let found = family(dir.path(), &[]);
    let told = texts(&found["findings"], "finding");
    assert_eq!(told, ["filter left over: OPTIONS name no policy, so it is not used"]);
    assert_eq!(found["advice"][0]["options"][0], "filter_policy=bloomfilter:10:false");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_extractor_of_the_options_is_compared_with_the_tables() {
    let dir = unpacked("11.9-pred");
    edit_options(
        dir.path(),
        "  prefix_extractor=nullptr",
        "  prefix_extractor=rocksdb.FixedPrefix.4",
    );
    let found = family(dir.path(), &[]);
    let told = texts(&found["findings"], "finding");
    assert_eq!(told, ["no prefixes; OPTIONS name rocksdb.FixedPrefix.4"]);
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_family_without_filters_is_advised_to_have_them() {
    let dir = unpacked("11.9-rangedel");
    let found = family(dir.path(), &[]);
    assert_eq!(found["filters"][0]["filter"], "none");
    assert_eq!(found["filter_bytes"], 0);
    let advice = &found["advice"][0];
    assert!(advice["action"].as_str().unwrap().starts_with("Use bloom:10"), "{advice}");
    assert_eq!(advice["options"][0], "filter_policy=bloomfilter:10:false");
    assert_eq!(
        (&found["verdict"]["take"], found["verdict"]["keeps_what_there_is"].as_bool()),
        (&"bloom:10".into(), Some(false))
    );
    // If a read costs no time, a filter saves none, so `advise` does not recommend one.
    let found = family(dir.path(), &["--read-cost", "0"]);
    assert!(texts(&found["advice"], "action")[0].starts_with("Keep what there is"), "{found}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn entries_that_only_rocksdb_reads_are_keys_all_the_same() {
    for name in ["7.8.3-merge", "11.9-blob"] {
        let dir = unpacked(name);
        let before = state_of(dir.path());
        let found = family(dir.path(), &[]);
        assert!(found["not_read"].as_u64() > Some(0), "{name}: {found}");
        assert!(found["absent"]["lookups"].as_u64() > Some(1000), "{name}: {found}");
        assert!(number(&policy(&found, "bloom:10")["filter_bytes"]) > 0.0, "{name}");
        assert_eq!(state_of(dir.path()), before, "{name}");
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn column_families_are_told_one_by_one() {
    let dir = unpacked("10.4.2-cfs");
    let found = json(dir.path(), &[]);
    assert_eq!((&found["schema"], &found["engine"]), (&1.into(), &"rocksdb".into()));
    assert_eq!(texts(&found["families"], "column_family"), ["default", "alpha", "beta", "delta"]);
    let found = family(dir.path(), &["--column-family", "alpha"]);
    assert_eq!((&found["column_family"], &found["tables"]), (&"alpha".into(), &2.into()));
    let error = maypole!("advise", dir.path(), "--column-family", "gamma").badly(1);
    assert!(error.contains("gamma") && error.contains("delta"), "{error}");
}

const LOG: &str = "\
1 --------------- Options for column family [default]:
    capacity : 65536
rocksdb.bloom.filter.useful COUNT : 980
rocksdb.bloom.filter.full.positive COUNT : 120
rocksdb.bloom.filter.full.true.positive COUNT : 100
";

/// Regression: the counters in LOG are sums over all column families. If `--column-family` chose
/// one of several column families, `advise` showed these sums as counters of the chosen one.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_counters_of_several_column_families_are_not_told_of_one() {
    let dir = unpacked("10.4.2-cfs");
    fs::write(dir.path().join("LOG"), LOG).unwrap();
    let found = family(dir.path(), &["--column-family", "default"]);
    assert_eq!((&found["cache_bytes"], &found["rocksdb_counters"]), (&65536.into(), &Value::Null));
    assert!(!text(dir.path(), &["--column-family", "default"]).contains("RocksDB counted"));
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_log_file_tells_cache_and_counters() {
    let dir = unpacked("11.9-pred");
    fs::write(dir.path().join("LOG"), LOG).unwrap();
    let found = family(dir.path(), &[]);
    assert_eq!(found["cache_bytes"], 65536);
    assert_eq!(found["rocksdb_counters"]["useful"], 980);
    assert!(
        text(dir.path(), &[]).contains("RocksDB counted a rate of 2.00 % itself, in 1,000 queries")
    );
    assert_eq!(family(dir.path(), &["--cache", "1M"])["cache_bytes"], 1 << 20);
}

/// A filter block whose checksum is wrong lets every key through. `advise` reports the table of
/// this filter, and measures the filters of the other tables as usual.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_damaged_filter_answers_maybe_and_is_counted() {
    let dir = unpacked("11.9-pred");
    let tables = family(dir.path(), &["--files"]);
    let number = tables["files"][0]["file"].as_u64().unwrap();
    let path = dir.path().join(format!("{number:06}.sst"));
    let table = SstReader::open(&path).unwrap();
    let name = "fullfilter.rocksdb.BuiltinBloomFilter";
    let (_, handle) = table.metaindex().iter().find(|(other, _)| other == name).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[handle.offset as usize + 7] ^= 1;
    fs::write(&path, bytes).unwrap();

    let found = family(dir.path(), &["--files"]);
    let damaged = &found["files"][0];
    assert_eq!((&damaged["filter"], &damaged["measured_fpr"]), (&"damaged".into(), &1.0.into()));
    assert!(damaged["finding"].as_str().unwrap().contains("answers maybe"), "{damaged}");
    assert!(found["files"][1]["measured_fpr"].as_f64() < Some(0.02), "{found}");
    let advice = texts(&found["advice"], "action")[0];
    assert!(advice.starts_with("Rewrite 1 table whose filter is damaged"), "{advice}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn damaged_data_ends_the_reading_of_its_table_alone() {
    let dir = unpacked("11.9-pred");
    let number = family(dir.path(), &["--files"])["files"][0]["file"].as_u64().unwrap();
    let path = dir.path().join(format!("{number:06}.sst"));
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let found = family(dir.path(), &["--files"]);
    let told = texts(&found["findings"], "finding");
    assert!(told.len() == 1 && told[0].starts_with("data damaged: "), "{told:?}");
    assert_eq!(found["files"][1]["finding"], Value::Null);
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_sample_reads_at_least_a_table_of_each_level() {
    let dir = unpacked("10.4.2-recycled-live");
    let found = family(dir.path(), &["--sample", "1%"]);
    assert_eq!((&found["levels"], &found["tables_read"]), (&3.into(), &3.into()), "{found}");
    let read = |row: &Value| row["read"].as_u64().unwrap();
    assert!(found["filters"].as_array().unwrap().iter().all(|row| read(row) == 1), "{found}");
    assert!(number(&found["bytes_read"]) < 0.5 * number(&found["file_bytes"]), "{found}");
    assert!(text(dir.path(), &["--sample", "1%"]).contains("A sample: 3 of 11 tables read"));
    for wrong in ["0", "101%", "many"] {
        maypole!("advise", dir.path(), "--sample", wrong).badly(2);
    }
}

/// A tree of several levels whose tables have filters of `policy`.
fn grown(path: &Path, policy: &str) -> Db {
    grown_with(path, policy, FilterKeys::Whole, 60_000)
}

fn grown_with(path: &Path, policy: &str, keys: FilterKeys, count: u64) -> Db {
    let db = Db::builder(path)
        .filter(policy)
        .filter_keys(keys)
        .compression(Compression::None)
        .memtable_bytes(1 << 18)
        .table_bytes(1 << 16)
        .level_base_bytes(1 << 16)
        .open()
        .unwrap();
    for i in 0..count {
        // Every key once, in no order.
        db.put(format!("{:012}", i.wrapping_mul(7919) % count * 10), [7; 50]).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    db
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_database_of_maypole_is_advised_while_it_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let db = grown(dir.path(), "bloom(10)");
    let stats = db.stats();
    let before = state_of(dir.path());
    let found = json(dir.path(), &[]);
    assert_eq!(state_of(dir.path()), before);
    assert_eq!(found["engine"], "maypole");
    let family = &found["families"][0];
    assert_eq!(family["tables"], stats.files.len());
    assert_eq!(family["filter_bytes"], stats.filter_bytes());
    assert!(number(&family["levels"]) >= 2.0, "{family}");
    let same = number(&policy(family, "bloom:10")["filter_bytes"]);
    assert!((same / stats.filter_bytes() as f64 - 1.0).abs() < 0.02, "{same}");
    // The figures that `advise` computes for another policy agree with those that it measures on a
    // copy of the database with this policy.
    let burr = policy(family, "burr(7)");
    let copy = tempfile::tempdir().unwrap();
    let copy = copy.path().join("copy");
    db.copy_with_filters(&copy, &"burr(7)".parse().unwrap()).unwrap();
    let rewritten = self::family(&copy, &[]);
    let real = number(&rewritten["filter_bytes"]);
    assert!((number(&burr["filter_bytes"]) / real - 1.0).abs() < 0.02, "{burr} {real}");
    let (computed, measured) =
        (number(&burr["blocks_per_absent_get"]), number(&rewritten["absent"]["blocks"]));
    // Both figures, the computed one and the measured one, are means of the blocks of five thousand
    // lookups. They may differ by seven standard deviations of such a mean.
    let slack = 7.0 * (computed.max(measured) / 5000.0).sqrt();
    assert!((computed - measured).abs() < slack, "{computed} {measured}");
    db.put("still", "open").unwrap();
}

#[test]
fn recorded_lookups_replace_drawn_ones() {
    let dir = unpacked("11.9-rangedel");
    let recorded = tempfile::tempdir().unwrap();
    let file = recorded.path().join("keys");
    // None of these keys is present, and only the last one is within the range of the tables.
    fs::write(&file, "\\x00\n\\x01\nzzzz\nzzzzz\nkey500x\n").unwrap();
    let file = file.to_str().unwrap();
    let found = family(dir.path(), &["--query-file", file]);
    assert_eq!((&found["absent"]["lookups"], &found["share_absent"]), (&5.into(), &1.0.into()));
    assert!(number(&found["absent"]["blocks"]) < 1.0, "{found}");
    assert!(text(dir.path(), &["--query-file", file]).contains("recorded lookups, 100 %"));
    let many = unpacked("10.4.2-cfs");
    let error = maypole!("advise", many.path(), "--query-file", file).badly(2);
    assert!(error.contains("--column-family"), "{error}");
}

/// A lookup that a memtable answered searches no table, although a table has its key now: the share
/// of such lookups stays. Keys that are looked up often count as often.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn lookups_that_a_memtable_answered_search_nothing() {
    let dir = tempfile::tempdir().unwrap();
    drop(grown_with(dir.path(), "none", FilterKeys::Whole, 20_000));
    let recorded = dir.path().join("recorded");
    let found = |outcome: &str, times: usize| {
        let absent: String = (0..2000).map(|i| format!("{:012}\tabsent\n", i * 100 + 5)).collect();
        let present: String = (0..1000).map(|i| format!("{:012}\t{outcome}\n", i * 200)).collect();
        fs::write(&recorded, absent + &present.repeat(times)).unwrap();
        family(dir.path(), &["--query-file", recorded.to_str().unwrap()])
    };
    let in_vain = |found: &Value, row: &str| number(&policy(found, row)["in_vain_per_get"]);
    let [searched, remembered, often] =
        [("L6", 1), ("memtable", 1), ("memtable", 6)].map(|(outcome, times)| found(outcome, times));
    assert_eq!((&searched["in_memtable"], &remembered["in_memtable"]), (&0.into(), &1000.into()));
    assert_eq!(remembered["present"]["lookups"], 1000);
    assert_eq!(remembered["present"]["blocks"], 0.0);
    let absent = number(&remembered["absent"]["blocks_without_filters"]);
    for row in ["NOW, as stored", "none"] {
        assert!(in_vain(&searched, row) > in_vain(&remembered, row) + 0.01, "{searched}");
        assert!((in_vain(&remembered, row) - absent * 2.0 / 3.0).abs() < 1e-9, "{remembered}");
        assert!((in_vain(&often, row) - absent / 4.0).abs() < 1e-9, "{often}");
    }
    assert!(in_vain(&remembered, "bloom:10") < 0.02 * absent, "{remembered}");
    let text = text(dir.path(), &["--query-file", recorded.to_str().unwrap()]);
    assert!(text.contains("75.0 % were answered by a memtable"), "{text}");
    assert!(
        text.contains("Predicted data blocks searched in vain by a recorded lookup: "),
        "{text}"
    );
    assert!(text.contains("; with bloom:10: 0.0"), "{text}");
}

/// Whoever follows the advice and asks again is told to keep what there is: on databases without
/// filters, with too few and with too many bits, of several families and policies, by both means
/// that write other filters.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn followed_advice_ends() {
    let databases = [
        ("none", 60_000),
        // These take over a mebibyte more than they need to.
        ("bloom(100)", 110_000),
        ("bloom(3)", 60_000),
        ("ribbon(3)", 30_000),
        ("burr(2)", 30_000),
        ("fuse(5)", 30_000),
        ("bottommost_none(bloom(10))", 30_000),
        ("levels(none, bloom(4), bloom(2))", 30_000),
    ];
    for (n, (policy, keys)) in databases.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
        let db = grown_with(&path, policy, FilterKeys::Whole, keys);
        let found = family(&path, &[]);
        let advice = &found["advice"][0];
        let option = advice["options"][0].as_str().unwrap_or_else(|| panic!("{policy}: {found}"));
        let advised = option.split('"').nth(1).unwrap();
        assert_eq!(found["verdict"]["keeps_what_there_is"], false, "{policy}: {found}");
        let followed = match n % 2 {
            0 => {
                drop(db);
                maypole!("apply-filter", &path, advised).well();
                &path
            }
            _ => {
                db.copy_with_filters(&copy, &advised.parse().unwrap()).unwrap();
                &copy
            }
        };
        let again = family(followed, &[]);
        let actions = texts(&again["advice"], "action");
        assert!(actions.len() == 1 && actions[0].starts_with("Keep"), "{policy}: {actions:?}");
        assert_eq!(again["verdict"]["keeps_what_there_is"], true, "{policy}: {again}");
        // What was promised is what is there.
        let (told, real) =
            (number(&found["verdict"]["filter_bytes"]), number(&again["filter_bytes"]));
        assert!((told / real - 1.0).abs() < 0.05, "{policy}: {told} bytes, then {real}");
    }
}

/// The same on RocksDB's directories. The advice is followed in a database that is imported from
/// the directory and exported again.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn followed_advice_ends_on_rocksdbs_directories() {
    for fixture in ["5.3-small", "11.9-rangedel", "9.8.4-legacy"] {
        let source = unpacked(fixture);
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let found = family(source.path(), &[]);
        assert_eq!(found["verdict"]["keeps_what_there_is"], false, "{fixture}: {found}");
        let advice = &found["advice"][0];
        assert_eq!(advice["options"][0], "filter_policy=bloomfilter:10:false", "{found}");
        assert_eq!(found["verdict"]["take"], "bloom:10", "{found}");
        maypole!("import", source.path(), path("db")).well();
        maypole!("apply-filter", path("db"), "bloom(10)").well();
        maypole!("export", path("db"), path("rocks")).well();
        let again = family(&path("rocks"), &[]);
        assert_eq!(again["filter_policy"], "bloomfilter:10:false");
        let actions = texts(&again["advice"], "action");
        assert!(actions.len() == 1 && actions[0].starts_with("Keep"), "{fixture}: {actions:?}");
    }
}

/// Legacy Bloom filters are weak on decimal keys: 1.15 % were measured with keys made up of any
/// bytes, and three to five times as many of the keys that programs look up got through.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_rate_of_legacy_filters_is_that_of_real_keys() {
    let dir = unpacked("9.8.4-legacy");
    let found = family(dir.path(), &[]);
    let row = &found["filters"][0];
    assert_eq!(row["filter"], "legacy_bloom", "{row}");
    let file = &family(dir.path(), &["--files"])["files"][0]["file"];
    let table = dir.path().join(format!("{:06}.sst", file.as_u64().unwrap()));
    let table = SstReader::open(table).unwrap();
    let absent = (0..105_000u64).filter(|n| n % 3 > 0);
    let maybe = absent.clone().filter(|n| table.may_contain(format!("{n:08}").as_bytes()).unwrap());
    let real = maybe.count() as f64 / absent.count() as f64;
    let measured = number(&row["measured_fpr"]);
    assert!(real > 0.03 && (measured / real - 1.0).abs() < 0.15, "{measured}, really {real}");
    let notes = found["notes"].to_string();
    assert!(notes.contains("of the stored keys' own shape get through, and 1."), "{notes}");
    let options = &found["advice"][0]["options"];
    assert_eq!(options[1], "format_version=5", "{options}");
}

/// A file of present lookups alone once gave no table of policies, and no advice, although it is then
/// that the last level needs no filters.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn present_lookups_alone_are_advised_too() {
    let dir = tempfile::tempdir().unwrap();
    drop(grown(dir.path(), "bloom(10)"));
    let recorded = tempfile::NamedTempFile::new().unwrap();
    let keys: String = (0..5000).map(|i| format!("{:012}\n", i * 7919 % 60_000 * 10)).collect();
    fs::write(&recorded, keys).unwrap();
    let file = recorded.path().to_str().unwrap();
    let found = family(dir.path(), &["--query-file", file]);
    assert_eq!((&found["absent"]["lookups"], &found["share_absent"]), (&0.into(), &0.0.into()));
    let (all, last_none) = (policy(&found, "bloom:10"), policy(&found, "bloom:10, last none"));
    assert_eq!(all["blocks_per_absent_get"], Value::Null);
    let blocks = |row: &Value| number(&row["blocks_per_present_get"]);
    assert!((blocks(all) - blocks(last_none)).abs() < 1e-6 && blocks(all) >= 1.0, "{found}");
    assert!(number(&last_none["filter_bytes"]) < 0.5 * number(&all["filter_bytes"]), "{found}");
    assert!(found["notes"].to_string().contains("no absent lookups were measured"), "{found}");
    let text = text(dir.path(), &["--query-file", file]);
    assert!(text.contains("bloom:10, last none") && text.contains("\nAdvice\n1. "), "{text}");
}

/// Filters of prefixes alone let absent keys through whose prefix is there. Parts of them were once
/// predicted to keep nearly all out, because each part was queried with keys of other parts. And no
/// row said what filters of whole keys would do.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn filters_of_prefixes_are_predicted_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = PrefixExtractor::fixed(6).unwrap();
    let db = grown_with(dir.path(), "bloom(10)", FilterKeys::Prefix(prefix), 60_000);
    let found = family(dir.path(), &[]);
    let blocks = |name: &str| number(&policy(&found, name)["blocks_per_absent_get"]);
    let now = blocks("NOW, as stored");
    assert!(now > 0.5, "{found}");
    for name in ["bloom:10", "bloom:10, parts", "ribbon:10, parts"] {
        assert!((blocks(name) / now - 1.0).abs() < 0.1, "{name}: {}, now {now}", blocks(name));
    }
    assert!(blocks("bloom:10, keys") < 0.1, "{found}");
    let advice = &found["advice"][0];
    assert!(advice["action"].as_str().unwrap().starts_with("Use bloom(10)"), "{advice}");
    assert!(advice["options"][0].as_str().unwrap().contains("FilterKeys::Both"), "{advice}");
    drop(db);
    // Followed: the tables are written again with filters of both.
    let db = Db::builder(dir.path()).filter_keys(FilterKeys::Both(prefix)).open().unwrap();
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let again = family(dir.path(), &[]);
    assert!(texts(&again["advice"], "action")[0].starts_with("Keep"), "{}", again["advice"]);
    // The compaction left fewer tables that a lookup comes to, so the rates are compared.
    let tables = |found: &Value| {
        let levels = found["absent"]["tables_in_vain_by_level"].as_array().unwrap();
        levels.iter().map(number).sum::<f64>()
    };
    let told = blocks("bloom:10, keys") / tables(&found);
    let real = number(&again["absent"]["blocks"]) / tables(&again);
    // Of 5,000 lookups, about fifty search a block in vain.
    assert!((told - real).abs() < 0.007, "a rate of {told}, then {real}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_page_is_written_elsewhere_and_never_into_the_database() {
    let dir = unpacked("11.9-pred");
    let before = state_of(dir.path());
    let out = tempfile::tempdir().unwrap();
    let page = out.path().join("page");
    for _ in 0..2 {
        text(dir.path(), &["--out", page.to_str().unwrap()]);
        let html = fs::read_to_string(page.join("index.html")).unwrap();
        assert!(html.contains("Column family default") && html.contains("<svg"), "{html}");
        assert!(html.contains("Keep what there is"), "{html}");
        // What there is once looked like seven other points of the plot.
        assert_eq!(html.matches(r#"class="series c5" data-name="NOW, as stored""#).count(), 1);
        assert_eq!(html.matches(r#"class="series c5""#).count(), 1);
        let json = fs::read_to_string(page.join("advise.json")).unwrap();
        assert!(serde_json::from_str::<Value>(&json).unwrap()["families"][0].is_object());
    }
    for inside in [dir.path().to_owned(), dir.path().join("page"), dir.path().join("a/b")] {
        maypole!("advise", dir.path(), "--out", inside).badly(2);
    }
    assert_eq!(state_of(dir.path()), before);
}

#[test]
#[ignore = "needs Chromium; .ci/long runs it"]
fn a_browser_shows_the_advice() {
    let dir = tempfile::tempdir().unwrap();
    drop(grown(dir.path(), "bloom(10)"));
    let out = tempfile::tempdir().unwrap();
    text(dir.path(), &["--out", out.path().to_str().unwrap()]);
    let html = fs::read_to_string(out.path().join("index.html")).unwrap();
    crate::page::check_alone(&html);
    match crate::page::browse(out.path(), |_| ()) {
        None => println!("the page in a browser: skipped, there is no Chromium"),
        Some(shown) => println!("the page in a browser: {shown} points of advise"),
    }
}

#[test]
fn an_empty_database_has_nothing_to_advise() {
    let dir = tempfile::tempdir().unwrap();
    drop(Db::open(dir.path()).unwrap());
    let found = family(dir.path(), &[]);
    assert_eq!((&found["tables"], &found["absent"]["lookups"]), (&0.into(), &0.into()));
    assert!(texts(&found["advice"], "action")[0].starts_with("Nothing to advise"), "{found}");
    let rocksdb = unpacked("11.9-unflushed");
    assert!(text(rocksdb.path(), &[]).contains("Nothing to advise: there is no table yet"));
}

#[test]
fn what_is_neither_is_called_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("PG_VERSION"), "16\n").unwrap();
    let error = maypole!("advise", dir.path()).badly(1);
    assert!(error.contains("a database of PostgreSQL"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = maypole!("advise", empty.path()).badly(1);
    assert!(error.contains("no database"), "{error}");
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "nothing is created");
    maypole!("advise", empty.path().join("nowhere")).badly(1);
    let error = maypole!("advise", unpacked("11.9-udt").path()).badly(1);
    assert!(error.contains("user-defined timestamps"), "{error}");
}

/// The false-positive rate that `advise` measures agrees with the tickers of RocksDB's own lookups.
#[test]
#[ignore = "needs RocksDB's db_bench"]
fn the_measured_rate_is_that_of_rocksdbs_own_tickers() {
    let dir = tempfile::tempdir().unwrap();
    let bench = |benchmarks: &str, more: &[&str]| {
        let done = Command::new("db_bench")
            .arg(format!("--db={}", dir.path().display()))
            .arg(format!("--benchmarks={benchmarks}"))
            .args(["--num=1000000", "--seed=7", "--value_size=20", "--bloom_bits=10"])
            .args(["--write_buffer_size=4194304", "--target_file_size_base=4194304"])
            .args(["--max_bytes_for_level_base=16777216", "--compression_type=none"])
            .args(more)
            .output()
            .unwrap_or_else(|e| panic!("{e}: install RocksDB's tools (Debian: rocksdb-tools)"));
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    // The memtable is flushed, because otherwise the import below would write it to one more table.
    bench("fillrandom,flush,waitforcompaction", &[]);
    let before = state_of(dir.path());
    let found = family(dir.path(), &[]);
    assert_eq!(state_of(dir.path()), before);
    let rows = found["filters"].as_array().unwrap();
    assert!(rows.len() >= 2, "{found}");
    // The false-positive rate to expect if a share of `share_present` of all lookups find their
    // key, and the variance of this rate. The levels have different rates, because filters of small
    // tables have more bits a key. So each level's rate is weighted by the number of tables of this
    // level that a lookup searches in vain.
    let expected = |share_present: f64| {
        let (mut tables, mut wrong, mut variance) = (0.0, 0.0, 0.0);
        for row in rows {
            let level = row["level"].as_u64().unwrap() as usize;
            let in_vain = |kind: &str| number(&found[kind]["tables_in_vain_by_level"][level]);
            let weight =
                share_present * in_vain("present") + (1.0 - share_present) * in_vain("absent");
            let (rate, queries) = (number(&row["measured_fpr"]), number(&row["queries"]));
            tables += weight;
            wrong += weight * rate;
            variance += weight * weight * rate * (1.0 - rate) / queries;
        }
        (wrong / tables, variance / (tables * tables))
    };
    // A million puts of random keys, out of a million keys, leave out a share of 1/e of the keys.
    let shares = [("readmissing", 0.0), ("readrandom", 1.0 - (-1.0f64).exp())];
    for (lookups, share_present) in shares {
        let told = bench(lookups, &["--use_existing_db", "--statistics", "--reads=300000"]);
        let ticker = |name: &str| -> f64 {
            let lines = told.lines().filter_map(|line| line.strip_prefix(name));
            let count = lines.filter_map(|rest| rest.strip_prefix(" COUNT : ")).next_back();
            count.unwrap_or_else(|| panic!("{name}: {told}")).trim().parse().unwrap()
        };
        let positive = ticker("rocksdb.bloom.filter.full.positive")
            - ticker("rocksdb.bloom.filter.full.true.positive");
        let asked = ticker("rocksdb.bloom.filter.useful") + positive;
        let theirs = positive / asked;
        let (ours, variance) = expected(share_present);
        let deviation = (variance + theirs * (1.0 - theirs) / asked).sqrt();
        assert!(
            (theirs - ours).abs() < 3.5 * deviation,
            "{lookups}: RocksDB's {theirs}, here {ours}, deviation {deviation}"
        );
        let blocks = number(&found["absent"]["blocks"]);
        if lookups == "readmissing" {
            let theirs = positive / 300_000.0;
            let slack = 5.0 * (theirs.max(blocks) / 5000.0).sqrt();
            assert!((theirs - blocks).abs() < slack, "{theirs} blocks, here {blocks}");
        }
    }
    // The figures that `advise` computes for another policy agree with those that it measures on
    // the imported tree with this policy.
    let target = tempfile::tempdir().unwrap();
    let (imported, copy) = (target.path().join("imported"), target.path().join("copy"));
    let before = state_of(dir.path());
    RocksDb::open_read_only(dir.path()).unwrap().import("default", &imported).unwrap();
    let db = Db::builder(&imported).open().unwrap();
    db.copy_with_filters(&copy, &"ribbon_like_bloom(10)".parse().unwrap()).unwrap();
    drop(db);
    assert_eq!(state_of(dir.path()), before);
    let told = policy(&found, "ribbon:10");
    let real = family(&copy, &[]);
    let ratio = number(&told["filter_bytes"]) / number(&real["filter_bytes"]);
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}: {told}");
    let (told, real) = (number(&told["blocks_per_absent_get"]), number(&real["absent"]["blocks"]));
    let slack = 7.0 * (told.max(real) / 5000.0).sqrt();
    assert!((told - real).abs() < slack, "{told} {real}");
}

/// In tables below format_version 5, RocksDB's policy for Bloom filters makes filters of 32-bit
/// hashes, and its policy for Ribbon makes Ribbon filters. As both are what the policy asks for,
/// `advise` reports no finding.
#[test]
#[ignore = "needs RocksDB's db_bench"]
fn filters_of_old_versions_are_what_their_version_gives() {
    let kinds = [("--use_ribbon_filter=false", "legacy_bloom"), ("--use_ribbon_filter", "ribbon")];
    for (policy, kind) in kinds {
        let dir = tempfile::tempdir().unwrap();
        let done = Command::new("db_bench")
            .arg(format!("--db={}", dir.path().display()))
            .args(["--benchmarks=fillrandom,compact", "--num=50000", "--format_version=4"])
            .args(["--bloom_bits=10", policy])
            .output()
            .unwrap_or_else(|e| panic!("{e}: install RocksDB's tools (Debian: rocksdb-tools)"));
        assert!(done.status.success());
        let found = family(dir.path(), &[]);
        assert_eq!(found["filters"][0]["filter"], kind, "{found}");
        assert_eq!(texts(&found["findings"], "finding"), [""; 0]);
        assert!((0.005..0.02).contains(&number(&found["filters"][0]["measured_fpr"])), "{found}");
    }
}

/// RocksDB flushes, compacts and deletes tables while `advise` reads the database.
#[test]
#[ignore = "needs RocksDB's db_bench"]
fn a_database_of_rocksdb_is_advised_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Command::new("db_bench")
        .arg(format!("--db={}", dir.path().display()))
        .args(["--benchmarks=fillrandom", "--num=100000000", "--seed=7", "--bloom_bits=10"])
        .args(["--write_buffer_size=1048576", "--target_file_size_base=1048576"])
        .args(["--max_bytes_for_level_base=4194304", "--benchmark_write_rate_limit=3000000"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("{e}: install RocksDB's tools (Debian: rocksdb-tools)"));
    let tables = || {
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().ends_with(".sst")).collect::<Vec<_>>()
    };
    while tables().len() < 6 {
        assert_eq!(writer.try_wait().unwrap(), None, "it writes");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (mut gone, mut read) = (0, 0);
    while gone < 10 && read < 20 {
        let before = tables();
        let found = family(dir.path(), &[]);
        assert!(number(&found["tables"]) > 1.0, "{found}");
        assert_eq!(texts(&found["findings"], "finding"), [""; 0]);
        let after = tables();
        gone += before.iter().filter(|name| !after.contains(name)).count();
        read += 1;
    }
    assert_eq!(writer.try_wait().unwrap(), None, "it wrote all the time");
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(gone >= 10, "{gone} tables went while {read} readings were made");
}
