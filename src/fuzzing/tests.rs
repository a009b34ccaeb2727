//! The fuzz targets, fed random bytes, changed samples, and the seeds of `fuzz/seeds`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::databases::{DIR, IMAGE, Image};
use super::*;
use crate::encoding::key::internal_key;
use crate::table::{
    Compression, Dialect, FilterKeys, PrefixExtractor, SstWriter, TableBuilder, TableOptions,
};

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 13] = [
    ("block", block),
    ("edit", edit),
    ("footer", footer),
    ("index", index),
    ("log", log),
    ("manifest", manifest),
    ("operations", operations),
    ("policy", policy),
    ("properties", properties),
    ("rocksdb_log", rocksdb_log),
    ("rocksdb_manifest", rocksdb_manifest),
    ("table", table),
    ("wal", wal),
];

fn root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn every_target_has_its_fuzzer_and_seeds_and_no_seed_breaks_a_promise() {
    // When Cargo packages Maypole, it leaves out the package in `fuzz`, so a downloaded Maypole has
    // no fuzzers.
    if !root("fuzz").exists() && !root(".ci").exists() {
        println!("skipped: the fuzzers are not in a downloaded package");
        return;
    }
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    let files = fs::read_dir(root("fuzz/fuzz_targets")).unwrap();
    let files: BTreeSet<String> = files
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    // The fuzzers of filters are tested in `maypole-filter`.
    let files: BTreeSet<String> =
        files.into_iter().filter(|name| !name.starts_with("filter_")).collect();
    assert_eq!(files, names);
    let manifest = fs::read_to_string(root("fuzz/Cargo.toml")).unwrap();
    for (name, target) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml lacks {name}");
        let mut seeds = 0;
        for seed in fs::read_dir(root("fuzz/seeds").join(name)).unwrap() {
            let bytes = fs::read(seed.unwrap().path()).unwrap();
            assert!(bytes.len() <= 8 << 10, "{name}: a seed of {} bytes", bytes.len());
            target(&bytes);
            seeds += 1;
        }
        assert!(seeds > 0, "{name} has no seeds");
    }
}

#[test]
fn a_changed_table_is_refused_or_read_to_its_end() {
    let good = table_sample(Compression::None, "burr(8)");
    let mut random = StdRng::seed_from_u64(4);
    for position in 0..good.len() {
        let mut changed = good.clone();
        changed[position] ^= 1 << random.random_range(0..8);
        table(&changed);
    }
    mutations(9, 2000, &good, table);
    mutations(11, 3000, &parted_table_sample(), table);
    mutations(10, 1000, &table_sample(Compression::Zstd, "ribbon(7)"), table);
}

#[test]
fn any_bytes_are_read_as_an_edit() {
    let mut random = StdRng::seed_from_u64(5);
    for _ in 0..20_000 {
        let mut data = vec![0u8; random.random_range(0..60)];
        random.fill(&mut data[..]);
        data.iter_mut().for_each(|byte| *byte >>= random.random_range(0..8));
        edit(&data);
    }
}

#[test]
fn a_database_opens_with_a_changed_wal_or_manifest_or_refuses() {
    let Image { fs, manifest: name, wal: wal_name } = &*IMAGE;
    let read = |name: &str| fs.read(&Path::new(DIR).join(name)).unwrap();
    mutations(11, 300, &read(name), manifest);
    mutations(12, 300, &read(wal_name), wal);
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_rocksdb_directory_with_a_changed_manifest_or_log_is_refused_or_read() {
    for [good_manifest, good_log] in rocks::samples() {
        mutations(15, 300, &good_manifest, rocksdb_manifest);
        mutations(16, 300, &good_log, rocksdb_log);
    }
}

#[test]
fn any_operations_answer_as_a_map_does() {
    let mut random = StdRng::seed_from_u64(13);
    for _ in 0..40 {
        let mut data = vec![0; random.random_range(0..1200)];
        random.fill(&mut data[..]);
        operations(&data);
    }
}

#[test]
fn any_text_is_refused_or_printed_as_it_was_meant() {
    for text in POLICIES {
        mutations(14, 500, text.as_bytes(), policy);
    }
}

const POLICIES: [&str; 11] = [
    "none",
    "bloom(9.9)",
    "fpr(0.01, burr)",
    "levels(bloom(14), ribbon(10), none)",
    "bottommost_none(burr(7))",
    "budget(6/key, bloom)",
    "budget(64MiB, burr)",
    "budget(6/key, fuse)",
    "fixed(4)",
    "capped(8)",
    "delimiter(2f, 1)",
];

fn table_sample(compression: Compression, filter: &str) -> Vec<u8> {
    let fs = MemFs::new();
    let path = Path::new("seed.sst");
    let options = TableOptions {
        compression,
        block_bytes: 128,
        filter: filter.parse().unwrap(),
        ..TableOptions::default()
    };
    let mut writer = SstWriter::create_in(Arc::new(fs.clone()), path, options).unwrap();
    for n in 0..60 {
        writer.put(format!("key {n:03}").as_bytes(), &[n; 9]).unwrap();
    }
    writer.delete_range(b"key 010", b"key 020").unwrap();
    writer.finish().unwrap();
    fs.read(path).unwrap()
}

/// A table whose filter and index are divided into parts.
fn parted_table_sample() -> Vec<u8> {
    let fs = MemFs::new();
    let path = Path::new("seed.sst");
    let options = TableOptions {
        compression: Compression::None,
        block_bytes: 64,
        filter_keys: FilterKeys::Both(PrefixExtractor::fixed(6).unwrap()),
        ..TableOptions::default()
    };
    let dialect = Dialect::Database { file_number: 7 };
    let builder = TableBuilder::new(fs.create(path).unwrap(), options, dialect).unwrap();
    let mut builder = builder.with_parts_of(60);
    for n in 0..120u8 {
        builder.add(&internal_key(format!("key {n:03}").as_bytes(), 9, 1), &[n; 9]).unwrap();
    }
    builder.finish().unwrap();
    let bytes = fs.read(path).unwrap();
    put_file(&fs, path, &bytes);
    assert!(SstReader::open_in(&fs, path).unwrap().filters().unwrap().len() > 2);
    bytes
}

/// The first data block, the index block and the properties block of a table. The seeds of the
/// targets `block`, `index` and `properties` are made from them.
fn table_parts() -> [Vec<u8>; 3] {
    let bytes = table_sample(Compression::None, "none");
    let fs = MemFs::new();
    put_file(&fs, Path::new("t.sst"), &bytes);
    let reader = SstReader::open_in(&fs, "t.sst").unwrap();
    let part = |handle: crate::table::BlockHandle| {
        bytes[handle.offset as usize..][..handle.bytes as usize].to_vec()
    };
    let place = |wanted: &str| {
        let named = reader.metaindex().iter().find(|(name, _)| name == wanted);
        named.unwrap().1
    };
    // The first entry of the index consists of two length bytes, a key, and the handle of the first
    // data block. The second length is that of the key.
    let index = part(reader.footer().index.unwrap());
    let first = index[2 + usize::from(index[1])..].to_vec();
    let mut decoder = crate::encoding::coding::Decoder::new(&first);
    let data = crate::table::BlockHandle::decode(&mut decoder).unwrap();
    [part(data), index, part(place("rocksdb.properties"))]
}

/// Replaces the seeds in `fuzz/seeds`, except those of `log`, which a fuzzer found, and of filters.
/// To run this test: `cargo test --lib fuzzing::tests::write -- --ignored`.
#[test]
#[ignore = "writes into the source"]
fn write_the_seeds() {
    let mut seeds: Vec<(&str, Vec<Vec<u8>>)> = Vec::new();
    let [data, index, properties] = table_parts();
    seeds.push(("block", vec![[&[0][..], &data].concat(), [&[1][..], &data].concat()]));
    // The first byte of the input of `index` has the options of the target. Here keys are user
    // keys, handles are stored as differences, and the file has 64 KiB.
    seeds.push(("index", vec![[&[0b1000_0110][..], &index].concat()]));
    seeds.push(("properties", vec![properties]));
    let table = table_sample(Compression::None, "burr(8)");
    let footer = &table[table.len() - FOOTER_BYTES..];
    seeds.push(("footer", vec![[&[16 << 2][..], footer].concat()]));
    let tables = [(Compression::Lz4, "bloom(9)"), (Compression::Zstd, "ribbon(7)")];
    let tables = tables.map(|(compression, filter)| table_sample(compression, filter));
    seeds.push(("table", [vec![table], tables.to_vec(), vec![parted_table_sample()]].concat()));
    seeds.push(("policy", POLICIES.iter().map(|text| text.as_bytes().to_vec()).collect()));
    let operations = (0..900u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    seeds.push(("operations", vec![operations, vec![0, 1, 2, 28, 0, 0, 31, 0, 0, 23, 1, 0]]));
    let file = FileMeta {
        number: 9,
        file_bytes: 1 << 33,
        entries: 300,
        smallest: internal_key(b"", 9, 1),
        largest: internal_key(&[0xff; 30], 7, 0),
        ..FileMeta::default()
    };
    let edit = VersionEdit {
        next_file: Some(12),
        removed: vec![(0, 3)],
        added: vec![(1, file)],
        ..VersionEdit::default()
    };
    seeds.push(("edit", vec![edit.encode()]));
    let Image { fs: image, manifest, wal } = &*IMAGE;
    let read = |name: &str| image.read(&Path::new(DIR).join(name)).unwrap();
    seeds.push(("manifest", vec![read(manifest)]));
    // The zeros that `MemFs` appends to the WAL of a killed process are cut off, which keeps the
    // seed small.
    let mut wal = read(wal);
    wal.truncate(wal.iter().rposition(|&byte| byte != 0).unwrap() + 1);
    seeds.push(("wal", vec![wal]));
    let [rocksdbs, leveldbs] = rocks::samples();
    for (at, target) in ["rocksdb_manifest", "rocksdb_log"].into_iter().enumerate() {
        seeds.push((target, vec![rocksdbs[at].clone(), leveldbs[at].clone()]));
    }
    for (name, inputs) in seeds {
        let dir = root("fuzz/seeds").join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        for (i, input) in inputs.iter().enumerate() {
            fs::write(dir.join(format!("{i:02}")), input).unwrap();
        }
    }
}
