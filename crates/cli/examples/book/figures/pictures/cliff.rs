//! Filters and indexes larger than the cache: the bytes that a lookup reads if a filter is read
//! whole at each miss, and if it is cut into parts of about 4 KiB, which are loaded and evicted one
//! by one. Bytes are counted, because times depend on the device.
//!
//! The picture is drawn from the figures in the chapter `parts.md`. A test counts the bytes again
//! and compares them with the chapter's. It allows a small difference, because other threads of the
//! process have an effect on evictions.

use std::fmt::Write;
use std::sync::Arc;

use maypole::fs::MemFs;
use maypole::table::MetadataForm;
use maypole::{Compression, Db, Ticker, hash64};

use super::plot::{Axis, Look, Plot, Point, Series, Spread};
use super::plot_file;

const KEYS: u64 = 100_000;
const LOOKUPS: u64 = 500;
const CACHE_KIB: [usize; 8] = [32, 64, 96, 128, 160, 192, 256, 512];
const CHAPTER: &str = include_str!("../../../../../../docs/book/src/parts.md");

fn key(i: u64) -> [u8; 8] {
    hash64(&i.to_le_bytes()).to_be_bytes()
}

/// The columns of the figure: what each is called, the form of its filters, and whether lookups read
/// each filter that is not in memory, and evict whole ones too.
const COLUMNS: [(&str, MetadataForm, bool); 2] =
    [("whole", MetadataForm::Whole, true), ("parts", MetadataForm::Parts, false)];

/// The KiB that a lookup of an absent key reads on average, for each size of the block cache.
fn read_kib(form: MetadataForm, reads_every: bool) -> [f64; CACHE_KIB.len()] {
    let fs = Arc::new(MemFs::new());
    let open = |cache_kib: usize| {
        let builder = Db::builder("/book").fs(Arc::clone(&fs) as _).compression(Compression::None);
        let builder = builder.table_bytes(4 << 20).block_cache_bytes(cache_kib << 10);
        let builder = builder.filter("bloom(10)").metadata(form).reads_every_filter(reads_every);
        builder.compaction_threads(1).open().unwrap()
    };
    let db = open(8 << 10);
    (0..KEYS).for_each(|i| db.put(key(i), [7; 100]).unwrap());
    db.compact_all().unwrap();
    assert_eq!(db.stats().files.len(), 3, "as the chapter says");
    db.close().unwrap();
    CACHE_KIB.map(|cache_kib| {
        let db = open(cache_kib);
        let look_up = |from: u64| {
            for i in from..from + LOOKUPS {
                assert!(db.get(key((1 << 40) + i)).unwrap().is_none());
            }
            db.stats().tickers.get(Ticker::FileReadBytes)
        };
        // The first pass fills the cache. Only the bytes of the second pass count.
        let filled = look_up(0);
        let bytes = look_up(LOOKUPS) - filled;
        db.close().unwrap();
        bytes as f64 / 1024.0 / LOOKUPS as f64
    })
}

pub fn counted() -> String {
    let [whole, parts] = COLUMNS.map(|(name, ..)| name);
    let mut out = format!("block cache   KiB read: {whole} {parts:>7}\n");
    let columns = COLUMNS.map(|(_, form, reads_every)| read_kib(form, reads_every));
    for (row, cache_kib) in CACHE_KIB.iter().enumerate() {
        let [whole, parts] = columns.map(|column| column[row]);
        writeln!(out, "{cache_kib:>7} KiB {whole:>17.2} {parts:>7.2}").unwrap();
    }
    out
}

/// The rows of the figure in `text`. Each has the cache in KiB, and then for each of [`COLUMNS`] the
/// KiB that a lookup reads.
pub fn rows(text: &str) -> Vec<[f64; 3]> {
    let row = |line: &str| {
        let (cache, read) = line.split_once(" KiB ")?;
        let read: Vec<f64> = read.split_whitespace().map_while(|word| word.parse().ok()).collect();
        Some([cache.trim().parse().ok()?, *read.first()?, *read.get(1)?])
    };
    text.lines().filter_map(row).collect()
}

pub fn draw() -> String {
    let rows = rows(CHAPTER);
    let series = |name: &str, color, column: usize| {
        let point = |row: &[f64; 3]| {
            let says = format!("{} KiB of cache: {} KiB", row[0], row[column]);
            Point::new(row[0], row[column], says)
        };
        let points = rows.iter().map(point).collect();
        Series { name: name.into(), color, look: Look::Joined, points }
    };
    let number = |figure: f64| figure.to_string();
    plot_file(&Plot {
        id: "cliff".into(),
        title: "What an absent lookup reads where filters and indexes do not fit".into(),
        x: Axis::new("block cache (KiB)", Spread::Log, number).with_ends(30.0, 512.0),
        y: Axis::new("read from files (KiB a lookup of an absent key)", Spread::Linear, number),
        series: vec![series("read whole", 3, 1), series("parts", 1, 2)],
    })
}
