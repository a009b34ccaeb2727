//! `inspect --filter`: the picture of a table's filter, on a terminal and as a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use maypole::table::{SstWriter, TableOptions};

use crate::maypole;

fn fixture(name: &str) -> PathBuf {
    crate::rocksdb_tables().join(name)
}

/// A table of `keys` keys with the filter of `spec`.
fn table(dir: &Path, spec: &str, keys: u32) -> PathBuf {
    let path = dir.join("filter.sst");
    let options = TableOptions { filter: spec.parse().unwrap(), ..TableOptions::default() };
    let mut writer = SstWriter::create(&path, options).unwrap();
    for key in 0..keys {
        writer.put(&key.to_be_bytes(), b"").unwrap();
    }
    writer.finish().unwrap();
    path
}

/// The sum of the column "found" of a histogram. In the row of each bar, the number of this column
/// is the second from the right.
fn bars_found(picture: &str) -> u64 {
    let start = picture.find("found  theory").expect("a histogram");
    let bars = picture[start..].lines().skip(1).take_while(|line| !line.is_empty());
    bars.map(|bar| bar.split_whitespace().rev().nth(1).unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn each_of_rocksdbs_filters_is_drawn_or_it_is_said_why_not() {
    for (name, lines, says) in [
        ("r7-v5-bloom-snappy.sst", 37, "bloom filter: 1,886 keys"),
        ("r11-v7-bloom-none.sst", 37, "bloom filter: 1,886 keys"),
        ("r11-v5-versions-none.sst", 12, "bloom filter: 603 keys"),
        ("r7-v4-legacybloom-none.sst", 37, "legacy_bloom filter: 1,886 keys"),
        ("r7-v5-partitioned-zstd.sst", 41, "bloom filter in 5 partitions: 1,886 keys"),
    ] {
        let picture = maypole!("inspect", fixture(name), "--filter").well();
        assert!(picture.contains(says), "{name}: {picture}");
        assert!(picture.contains(&format!("\n{lines} lines of 512 bits")), "{name}: {picture}");
        assert_eq!(bars_found(&picture), lines, "{name}: {picture}");
    }
    for name in ["r7-v2-nofilter-none.sst", "r7-v5-range-only.sst"] {
        let picture = maypole!("inspect", fixture(name), "--filter").well();
        assert_eq!(picture, "Nothing to draw: the table has no filter\n");
    }
    let ribbon = maypole!("inspect", fixture("r11-v6-ribbon-lz4.sst"), "--filter").well();
    for says in ["ribbon filter: 1,886 keys", "over 128 slots", "2,048", "Band of equations"] {
        assert!(ribbon.contains(says), "{says}: {ribbon}");
    }
}

/// In a Bloom filter of 40,000 keys, the mean fill and its deviation are near those of theory.
#[test]
fn theory_stands_beside_what_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = table(dir.path(), "bloom(10)", 40_000);
    let picture = maypole!("inspect", &path, "--filter").well();
    let percents_of = |name: &str| -> Vec<f64> {
        let line = picture.lines().find(|line| line.starts_with(name)).expect("a line");
        line.split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    let (found, theory) = (percents_of("Found: "), percents_of("Theory: "));
    assert!((found[0] - theory[0]).abs() < 1.0, "mean fill: {picture}");
    assert!((found[1] / theory[1] - 1.0).abs() < 0.2, "deviation: {picture}");
    assert!(picture.contains("a character is the mean of 2 lines"), "{picture}");
    assert_eq!(bars_found(&picture), 782);
}

#[test]
fn a_bumped_ribbons_layers_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = table(dir.path(), "burr(7)", 20_000);
    let picture = maypole!("inspect", &path, "--filter").well();
    let rows: Vec<Vec<u64>> = picture
        .lines()
        .skip_while(|line| !line.starts_with("layer "))
        .skip(2)
        .take_while(|line| !line.starts_with('─'))
        .map(|row| {
            let words = row.split_whitespace().filter(|word| !word.contains(['.', '–']));
            words.filter_map(|word| word.replace(',', "").parse().ok()).collect()
        })
        .collect();
    assert!(rows.len() >= 2, "{picture}");
    // The last three columns are keys, kept and bumped. The keys that one layer bumps are all keys
    // of the next layer.
    let end = |row: &Vec<u64>| [row[row.len() - 3], row[row.len() - 2], row[row.len() - 1]];
    let mut left = 20_000;
    for [keys, kept, bumped] in rows.iter().map(end) {
        assert_eq!((keys, kept + bumped), (left, keys), "{picture}");
        left = bumped;
    }
    for says in ["Thresholds of layer 0", "Buckets by threshold", "Band of equations", "3: all"] {
        assert!(picture.contains(says), "{says}: {picture}");
    }
}

#[test]
fn a_picture_fits_the_screen() {
    let dir = tempfile::tempdir().unwrap();
    for spec in ["bloom(10)", "burr(7)", "ribbon(7)"] {
        let path = table(dir.path(), spec, 20_000);
        for width in [44, 60, 100] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_maypole"));
            command.arg("inspect").arg(&path).arg("--filter").env("COLUMNS", width.to_string());
            let picture = String::from_utf8(command.output().unwrap().stdout).unwrap();
            assert!(picture.lines().count() > 10, "{picture}");
            for line in picture.lines() {
                assert!(line.chars().count() <= width, "{spec}, {width}: {line}");
            }
        }
    }
}

/// Whether every element is closed, and special characters are escaped.
fn is_well_formed(svg: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1) {
        let Some((tag, text)) = tag.split_once('>') else { return false };
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap_or("");
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        let unescaped = text.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "");
        if unescaped.replace("&quot;", "").contains('&') {
            return false;
        }
    }
    open.is_empty()
}

#[test]
fn the_drawing_is_one_file_for_light_and_dark() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("filter.svg");
    for (spec, cells, bars) in
        [("bloom(10)", 40, true), ("burr(7)", 15, true), ("ribbon(7)", 0, false)]
    {
        let path = table(dir.path(), spec, 2000);
        let printed = maypole!("inspect", &path, "--filter", "--out", &out).well();
        assert_eq!(printed, maypole!("inspect", &path, "--filter").well());
        let svg = fs::read_to_string(&out).unwrap();
        assert!(svg.starts_with("<svg ") && is_well_formed(&svg), "{spec}: {svg}");
        assert!(svg.contains("prefers-color-scheme: dark"));
        // The drawing loads nothing from other files.
        let urls = svg.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for outside in ["http", "href", "url(", "<script", "@import"] {
            assert!(!urls.contains(outside), "{spec}: {outside}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{spec}");
        assert!(svg.matches("mark cell").count() >= cells, "{spec}");
        assert_eq!(svg.contains("mark bar"), bars, "{spec}");
        assert_eq!(svg.contains("mark matrix"), spec != "bloom(10)", "{spec}");
        assert!(svg.len() < 200 << 10, "{spec}: {} bytes", svg.len());
    }
}

#[test]
fn nothing_is_written_over_by_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let path = table(dir.path(), "bloom(10)", 100);
    let before = fs::read(&path).unwrap();
    let error = maypole!("inspect", &path, "--filter", "--out", &path).badly(2);
    assert!(error.contains(".svg"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let out = dir.path().join("out.svg");
    maypole!("inspect", &path, "--out", &out).badly(2);
    maypole!("inspect", &path, "--filter", "--entries").badly(2);
    let error =
        maypole!("inspect", &path, "--filter", "--out", dir.path().join("no/a.svg")).badly(1);
    assert!(error.contains("no/a.svg") && error.contains("cannot write"), "{error}");
    // Without a filter there is no drawing.
    let bare = fixture("r7-v2-nofilter-none.sst");
    let error = maypole!("inspect", bare, "--filter", "--out", &out).badly(1);
    assert!(error.contains("the table has no filter"), "{error}");
    assert!(!out.exists());
}

/// Regression: a fuse filter has no picture, but `--out` wrote a file with nothing but a title,
/// over a file that was there, and the exit code was 0. Now nothing is written, and the exit code
/// is 1, as for a table without a filter.
#[test]
fn a_filter_without_a_picture_writes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = table(dir.path(), "fuse(9)", 2000);
    let out = dir.path().join("out.svg");
    let error = maypole!("inspect", &path, "--filter", "--out", &out).badly(1);
    assert!(error.contains("nothing to draw: fuse filter"), "{error}");
    assert!(error.contains("out.svg was not written"), "{error}");
    assert!(!out.exists());
    fs::write(&out, "mine").unwrap();
    maypole!("inspect", &path, "--filter", "--out", &out).badly(1);
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    let printed = maypole!("inspect", &path, "--filter").well();
    assert!(printed.starts_with("fuse filter: ") && printed.lines().count() == 1, "{printed}");
}
