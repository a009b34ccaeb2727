//! RocksDB's own tools read the tables that `maypole write-table` makes.

use std::path::Path;

use crate::rocksdb_tools::{ingest, our_scan, run, sst_dump};

/// Keys as db_bench makes them: the number in 8 bytes, big-endian, and eight times "0".
fn bench_key(i: u64) -> Vec<u8> {
    [&i.to_be_bytes()[..], b"00000000"].concat()
}

/// Makes a table by `maypole write-table`, which reads the entries from standard input in its
/// binary form.
fn write_table(path: &Path, filter: &str, keys: std::ops::Range<u64>) {
    let mut input = Vec::new();
    for i in keys {
        let (key, value) = (bench_key(i), format!("value {i}").repeat(5));
        for field in [&key[..], value.as_bytes()] {
            input.extend_from_slice(&(field.len() as u32).to_le_bytes());
            input.extend_from_slice(field);
        }
    }
    let options = ["write-table", "--format", "binary", "--filter", filter, "--out"];
    crate::run_with(&[&options[..], &[path.to_str().unwrap()]].concat(), &input).well();
}

/// The value of a counter in the output of `db_bench --statistics`.
fn statistic(text: &str, name: &str) -> u64 {
    let start = format!("rocksdb.{name} COUNT : ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).trim().parse().unwrap()
}

/// In db_bench, each lookup queries a filter. Every present key is found, after the filter said
/// "maybe". Of the absent keys, the filters let about one in a hundred pass.
#[test]
#[ignore = "needs RocksDB's sst_dump, ldb and db_bench"]
fn rocksdb_ingests_what_write_table_makes_and_finds_every_key_by_its_filter() {
    const KEYS: u64 = 20_000;
    // With this number of random reads, about one run in 10^4 leaves out a key.
    const READS: u64 = 20 * KEYS;
    for filter in ["bloom(10)", "ribbon_like_bloom(10)"] {
        let directory = tempfile::tempdir().unwrap();
        let parts = [0..KEYS / 2, KEYS / 2..KEYS];
        for (n, part) in parts.into_iter().enumerate() {
            let table = directory.path().join(format!("part{n}.sst"));
            write_table(&table, filter, part);
            for command in ["check", "verify"] {
                let (file, command) =
                    (format!("--file={}", table.display()), format!("--command={command}"));
                let (_, errors) = run("sst_dump", &[&file, &command]);
                assert_eq!(errors, "");
            }
            assert_eq!(sst_dump(&table), our_scan(&table));
            ingest(directory.path(), &table);
        }
        let db = format!("--db={}", directory.path().join("db").display());
        let read = |benchmark: &str| {
            let benchmark = format!("--benchmarks={benchmark}");
            let (num, reads) = (format!("--num={KEYS}"), format!("--reads={READS}"));
            let always = ["--use_existing_db", "--bloom_bits=10", "--statistics"];
            let sizes = ["--key_size=16", "--compression_type=lz4"];
            run("db_bench", &[&[&db, &*benchmark, &num, &reads], &always[..], &sizes].concat()).0
        };
        let present = read("readrandom");
        assert!(present.contains(&format!("({READS} of {READS} found)")), "{filter}: {present}");
        for name in ["bloom.filter.full.positive", "bloom.filter.full.true.positive"] {
            assert_eq!(statistic(&present, name), READS, "{filter}: {name}");
        }
        assert_eq!(statistic(&present, "bloom.filter.useful"), 0, "{filter}");
        let absent = read("readmissing");
        assert!(absent.contains(&format!("(0 of {READS} found)")), "{filter}: {absent}");
        let (denied, passed) = (
            statistic(&absent, "bloom.filter.useful"),
            statistic(&absent, "bloom.filter.full.positive"),
        );
        let rate = passed as f64 / (denied + passed) as f64;
        assert!(denied + passed > READS / 2 && (0.002..0.02).contains(&rate), "{filter}: {rate}");
    }
}
