//! `explain`: the path of one lookup, as text and as JSON.

use std::fs;
use std::path::PathBuf;

use maypole::Db;
use serde_json::Value;

use crate::{Done, maypole};

/// A database with three sources: all keys in a deep level, newer values of some of them in level
/// 0, and one more key that was not flushed.
fn database(filter: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Db::builder(&path).filter(filter).open().unwrap();
    for n in 0..2000 {
        db.put(format!("key {n:04}"), [b'v'; 30]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    for n in (0..2000).step_by(50) {
        db.put(format!("key {n:04}"), "newer").unwrap();
    }
    db.flush().unwrap();
    db.put("key 0000 in memory", "value").unwrap();
    db.close().unwrap();
    (dir, path)
}

/// The JSON of a call.
fn json(done: Done) -> Value {
    serde_json::from_str(&done.well()).unwrap()
}

/// Appends one line for each field in `value`: its path and the kind of its value. Of an array only
/// the first item is listed.
fn shape(value: &Value, path: &str, out: &mut Vec<String>) {
    let kind = match value {
        Value::Object(fields) => {
            let under =
                |name: &str| if path.is_empty() { name.into() } else { format!("{path}.{name}") };
            fields.iter().for_each(|(name, value)| shape(value, &under(name), out));
            return;
        }
        Value::Array(items) if !items.is_empty() => {
            return shape(&items[0], &format!("{path}[]"), out);
        }
        Value::Array(_) => "[]",
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
    };
    out.push(format!("{path} {kind}"));
}

#[test]
fn every_step_of_a_lookup_is_printed_in_order() {
    let (_dir, db) = database("bloom(10)");
    let report = maypole!("explain", &db, "key 0100").well();
    let starts: Vec<&str> = report
        .lines()
        .filter_map(|line| line.split("  ").next().filter(|s| !s.is_empty()))
        .collect();
    assert_eq!(
        starts,
        ["key", "memtable", "level 0", "below", "found", "took", "read", "without"],
        "{report}"
    );
    for part in [
        "key        \"key 0100\"\n",
        "1 entry, ",
        ": not there",
        ".sst, \"key 0000\" to \"key 1950\": in its range",
        "  filter   bloom, ",
        "wanted are ones\n",
        "           bit   ",
        "           found     1   1   1   1   1   1\n",
        "maybe, and that is true: a true positive",
        "  index    data block 0 of 1",
        "  block    ",
        ", read ",
        "           a value of 5 bytes, number ",
        "below      one more file or level, not searched",
        "found      a value of 5 bytes",
        "1 table searched, 1 data block, ",
        "filters spared nothing",
    ] {
        assert!(report.contains(part), "{part:?} in\n{report}");
    }
    // Standard output is no terminal, so the report has no colours.
    assert!(!report.contains('\x1b'), "{report:?}");

    let report = maypole!("explain", &db, "key 0101", "--warm").well();
    assert!(report.contains("level 6"), "{report}");
    assert!(report.contains(", in memory") && !report.contains(", read "), "{report}");
    let report = maypole!("explain", &db, "key 0000 in memory").well();
    assert!(report.contains("1 entry, ") && report.contains("found, a value"), "{report}");
    let report = maypole!("explain", &db, "zebra").well();
    assert!(report.contains("not in its range") && !report.contains("filter  "), "{report}");
    // Unlike for `get`, an absent key is no failure.
    assert!(report.contains("found      nothing: the key is absent"), "{report}");
}

/// A trace once did not implement `Display`, so a program could not print what `explain` prints.
/// Now `explain` prints the trace by `Display`. This is checked for a database at two widths, and
/// for a table.
#[test]
fn a_trace_prints_itself_as_the_command_does() {
    // The words of a text without its times, which differ from call to call.
    let without_times = |text: &str| -> Vec<String> {
        let words: Vec<&str> = text.split(' ').collect();
        let is_time = |n: usize| {
            let unit = words.get(n + 1).map_or("", |word| word.trim_end_matches([',', ';', '\n']));
            words[n].starts_with(|c: char| c.is_ascii_digit())
                && ["ns", "µs", "ms"]
                    .iter()
                    .any(|time| unit.split(['\n', ',', ';']).next() == Some(time))
        };
        (0..words.len()).filter(|&n| !is_time(n)).map(|n| words[n].replace("µs", "ns")).collect()
    };
    let (_dir, path) = database("bloom(10)");
    for key in ["key 0100", "key 0101", "key 0000 in memory", "zebra"] {
        let db = Db::builder(&path).open_read_only().unwrap();
        let trace = db.explain(key).unwrap();
        let same = |printed: &str, text: &str| {
            assert_eq!(without_times(printed), without_times(text), "{printed}\n{text}");
        };
        same(&maypole!("explain", &path, key, "--read-only").well(), &trace.to_string());
        let narrow = crate::run_at(60, &["explain", path.to_str().unwrap(), key, "--read-only"]);
        same(&narrow.well(), &format!("{trace:60}"));
        // With colours, the trace has the same text.
        let colored = format!("{trace:#}");
        assert!(colored.contains("\x1b[1m"), "{colored}");
        let mut plain = colored;
        for code in ["0", "1", "2", "31", "32", "33"] {
            plain = plain.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(plain, trace.to_string());
        let Some(file) = trace.levels.iter().find_map(|level| level.file.as_ref()) else {
            continue;
        };
        let table = &file.table.path;
        let trace =
            maypole::table::SstReader::open(table).unwrap().explain(key.as_bytes()).unwrap();
        let printed = maypole!("explain", table, key).well();
        same(&printed, &format!("key        \"{key}\"\n{trace}"));
    }
}

/// A lookup whose filters all said no once told "0 data blocks, 0 B", although it had read the
/// filters.
#[test]
fn all_that_was_read_is_told() {
    let (_dir, db) = database("bloom(10)");
    let explained = |key: &str| {
        let report = maypole!("explain", &db, key, "--read-only").well();
        let trace = json(maypole!("explain", &db, key, "--read-only", "--json"));
        (
            report.lines().find_map(|line| line.strip_prefix("read       ")).unwrap().to_string(),
            trace,
        )
    };
    let bytes = |trace: &Value, step: &str| -> u64 {
        let tables = trace["levels"].as_array().unwrap().iter();
        tables
            .filter_map(|level| level["file"]["table"].pointer(step)?["read_bytes"].as_u64())
            .sum()
    };
    let size = maypole::text::size;
    let absent = (0..100).map(|n| explained(&format!("key {n:04}x")));
    let (read, trace) = absent.into_iter().find(|(_, trace)| trace["cost"]["tables"] == 0).unwrap();
    assert_eq!(read, format!("2 filters of {}", size(bytes(&trace, "/filter"))));
    let (read, trace) = explained("key 0100");
    let [filter, index, block] = ["/filter", "/index", "/blocks/0"].map(|it| bytes(&trace, it));
    let (filter, index, block) = (size(filter), size(index), size(block));
    assert_eq!(read, format!("1 filter of {filter}, 1 index of {index}, 1 data block of {block}"));
    let warm = maypole!("explain", &db, "key 0100", "--warm").well();
    assert!(warm.contains("\nread       nothing from files\n"), "{warm}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_filters_answer_is_shown_bit_by_bit_and_judged() {
    for (filter, name, bits) in [
        ("bloom(2)", "bloom", "bit"),
        ("ribbon(2)", "ribbon", "column"),
        ("burr(2)", "burr", "column"),
    ] {
        let (_dir, db) = database(filter);
        let (mut noes, mut false_positives) = (0, 0);
        for n in 0..20 {
            let key = format!("key {n:04}x");
            let report = maypole!("explain", &db, &key, "--read-only").well();
            let trace = json(maypole!("explain", &db, &key, "--read-only", "--json"));
            for level in trace["levels"].as_array().unwrap() {
                let filter = &level["file"]["table"]["filter"];
                let query = &filter["query"];
                let all = query["bits"].as_array().or(query["columns"].as_array()).unwrap();
                let agrees = all.iter().all(|bit| bit["found"] == bit["wanted"]);
                // Level 0 has few keys, and a filter of few keys is a Bloom filter whatever was
                // requested.
                let of_bloom = filter["family"] == "bloom" && level["level"] == 0;
                assert!(of_bloom || filter["family"] == name, "{trace}");
                let verdict = if agrees { "false positive" } else { "no" };
                assert_eq!(filter["verdict"], verdict, "{trace}");
            }
            noes += report.matches("no: the key is certainly not there").count();
            false_positives += report.matches("maybe, in vain: a false positive; ").count();
            assert!(report.contains(&format!("           {bits} ")), "{report}");
            let marked = report.lines().any(|line| line.trim_start().starts_with('!'));
            assert_eq!(marked, report.contains("no: "), "{report}");
        }
        assert_eq!(noes + false_positives, 40, "{filter}");
        assert!(noes > 3 && false_positives > 1, "{filter}: {noes} {false_positives}");
    }
}

#[test]
fn the_shape_of_the_json_stays() {
    let (_dir, db) = database("bloom(10)");
    let trace = json(maypole!("explain", &db, "key 0100", "--json"));
    let mut found = Vec::new();
    shape(&trace, "", &mut found);
    // The fields come back sorted by their names.
    let expected = "\
cost.block_bytes number
cost.blocks number
cost.tables number
cost_without_filters.block_bytes number
cost_without_filters.blocks number
cost_without_filters.tables number
hash string
key string
levels[].file.entries number
levels[].file.file_bytes number
levels[].file.largest string
levels[].file.number number
levels[].file.smallest string
levels[].file.table.blocks[].bytes number
levels[].file.table.blocks[].found bool
levels[].file.table.blocks[].nanos number
levels[].file.table.blocks[].number number
levels[].file.table.blocks[].offset number
levels[].file.table.blocks[].read_bytes number
levels[].file.table.blocks[].reads number
levels[].file.table.blocks[].search_nanos number
levels[].file.table.blocks[].stored_bytes number
levels[].file.table.filter.bytes number
levels[].file.table.filter.family string
levels[].file.table.filter.hash string
levels[].file.table.filter.nanos number
levels[].file.table.filter.partition null
levels[].file.table.filter.predicted_fpr number
levels[].file.table.filter.prefix null
levels[].file.table.filter.query.bits[].found number
levels[].file.table.filter.query.bits[].number number
levels[].file.table.filter.query.bits[].wanted number
levels[].file.table.filter.query.kind string
levels[].file.table.filter.query.line number
levels[].file.table.filter.query.line_bytes number
levels[].file.table.filter.query.lines number
levels[].file.table.filter.read_bytes number
levels[].file.table.filter.reads number
levels[].file.table.filter.verdict string
levels[].file.table.found.kind number
levels[].file.table.found.sequence number
levels[].file.table.found.value_bytes number
levels[].file.table.index.block number
levels[].file.table.index.blocks number
levels[].file.table.index.nanos number
levels[].file.table.index.partition null
levels[].file.table.index.read_bytes number
levels[].file.table.index.reads number
levels[].file.table.mean_block_bytes number
levels[].file.table.path string
levels[].file.table.range_deletion null
levels[].files number
levels[].largest string
levels[].level number
levels[].range_check_nanos number
levels[].smallest string
levels_spared number
memtables[].bytes number
memtables[].entries number
memtables[].found_kind null
memtables[].nanos number
memtables[].range_deletion null
nanos number
outcome string
sequence number
value_bytes number";
    assert_eq!(found.join("\n"), expected);
    assert_eq!((&trace["outcome"], &trace["key"]), (&"value".into(), &"key 0100".into()));
    assert_eq!(trace["value_bytes"], 5);

    // The traces of filters of other families.
    for (filter, kind, fields) in [
        ("ribbon(7)", "slots", "bumped coefficients columns end_byte first_byte kind slots start"),
        ("burr(7)", "slots", "bumped coefficients columns end_byte first_byte kind slots start"),
    ] {
        let (_dir, db) = database(filter);
        let trace = json(maypole!("explain", &db, "key 0101", "--json"));
        let query = &trace["levels"][1]["file"]["table"]["filter"]["query"];
        let names: Vec<&str> = query.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!((&query["kind"], names.join(" ").as_str()), (&kind.into(), fields), "{query}");
    }
}

/// The user keys of a listing of `inspect --entries`, each once.
fn keys_of(listing: &str) -> Vec<Vec<u8>> {
    let key = |line: &str| {
        let hex = line.strip_prefix('\'')?.split('\'').next()?.as_bytes();
        let digits =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        Some(hex.chunks(2).map(digits).collect())
    };
    let mut keys: Vec<Vec<u8>> = listing.lines().filter_map(key).collect();
    keys.dedup();
    keys
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn rocksdbs_tables_are_explained_whatever_their_filter() {
    let fixtures = crate::rocksdb_tables();
    let escaped = |key: &[u8]| key.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    for (name, listing, family, partitions) in [
        ("r11-v5-versions-none", "r11-v5-versions-none", Some("bloom"), None),
        ("r11-v6-ribbon-lz4", "r11", Some("ribbon"), None),
        ("r11-v7-bloom-none", "r11", Some("bloom"), None),
        ("r7-v2-nofilter-none", "r7", None, None),
        ("r7-v4-legacybloom-none", "r7", Some("legacy_bloom"), None),
        ("r7-v5-bloom-snappy", "r7", Some("bloom"), None),
        ("r7-v5-partitioned-zstd", "r7", Some("bloom"), Some(5)),
    ] {
        let table = fixtures.join(name).with_extension("sst");
        let keys =
            keys_of(&fs::read_to_string(fixtures.join(listing).with_extension("scan")).unwrap());
        assert!(keys.len() > 20, "{name}");
        let (mut parts, mut noes) = (Vec::new(), 0);
        for n in 0..10 {
            let key = &keys[n * (keys.len() - 1) / 9];
            let trace = json(maypole!("explain", &table, escaped(key), "--json"));
            let table_trace = &trace["table"];
            assert!(table_trace["found"]["value_bytes"].is_u64(), "{name}: {trace}");
            let filter = &table_trace["filter"];
            match family {
                None => assert!(filter.is_null(), "{name}: {trace}"),
                Some(family) => {
                    let judged = (&filter["family"], &filter["verdict"]);
                    assert_eq!(judged, (&family.into(), &"true positive".into()), "{name}");
                    assert_eq!(filter["partition"]["of"].as_u64(), partitions, "{name}");
                    assert!(filter["predicted_fpr"].as_f64().unwrap() < 0.03, "{name}: {filter}");
                    parts.extend(filter["partition"]["number"].as_u64());
                }
            }
            // The next possible key, which is absent.
            let absent = format!("{}\\x00", escaped(key));
            let report = maypole!("explain", &table, absent).well();
            assert!(report.contains("\nfound      nothing"), "{name}: {report}");
            noes += report.matches("no: the key is certainly not there").count();
        }
        assert_eq!(noes > 6, family.is_some(), "{name}: {noes}");
        parts.dedup();
        assert_eq!(parts.len() > 3, partitions.is_some(), "{name}: {parts:?}");
    }
    let ranges = fixtures.join("r7-v5-range-only.sst");
    let report = maypole!("explain", &ranges, "nothing of it").well();
    assert!(report.contains("behind the last of 0 data blocks"), "{report}");
}

#[cfg(unix)]
#[test]
fn it_is_read_only_where_it_must_be() {
    use std::os::unix::fs::PermissionsExt;

    let (_dir, path) = database("bloom(10)");
    let db = Db::open(&path).unwrap();
    let done = maypole!("explain", &path, "key 0100");
    assert!(done.code == 0 && done.err.contains("already open elsewhere"), "{}", done.err);
    assert!(done.out.contains("found      a value of 5 bytes"), "{}", done.out);
    maypole!("explain", &path, "key 0100", "--read-only").well();
    db.close().unwrap();

    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    let done = maypole!("explain", &path, "key 0101", "--json");
    mode(0o755);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("\"outcome\": \"value\""), "{}", done.out);

    let missing = path.join("missing");
    let error = maypole!("explain", &missing, "key").badly(1);
    assert!(error.contains("missing") && !missing.exists(), "{error}");
    let no_table = path.join("CURRENT");
    let error = maypole!("explain", &no_table, "key").badly(1);
    assert!(error.contains("CURRENT"), "{error}");
}
