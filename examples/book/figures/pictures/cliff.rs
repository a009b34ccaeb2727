//! Filters and indexes larger than the cache: what a lookup reads if they are whole, and if they
//! are in parts. Bytes are counted, because times depend on the device.

use std::sync::Arc;

use maypole::fs::MemFs;
use maypole::table::MetadataForm;
use maypole::{Compression, Db, Ticker, hash64};

use super::plot::{Axis, Look, Plot, Point, Series, Spread};
use super::plot_file;

const KEYS: u64 = 100_000;
const LOOKUPS: u64 = 500;
/// KiB.
const CACHES: [usize; 10] = [32, 48, 64, 96, 128, 160, 192, 256, 384, 512];

fn key(i: u64) -> [u8; 8] {
    hash64(&i.to_le_bytes()).to_be_bytes()
}

/// KiB that a lookup of an absent key reads, by the size of the cache in KiB; and the KiB that all
/// filters and indexes need.
fn absent(form: MetadataForm) -> (Vec<(f64, f64)>, f64) {
    let fs = Arc::new(MemFs::new());
    let builder = |cache: usize| {
        Db::builder("/book")
            .fs(Arc::clone(&fs) as _)
            .compression(Compression::None)
            .table_bytes(4 << 20)
            .block_cache_bytes(cache << 10)
            .metadata(form)
            .compaction_threads(1)
    };
    let db = builder(8 << 10).open().unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), [7; 100]).unwrap());
    db.compact_all().unwrap();
    let needed = db.stats().metadata_bytes as f64 / 1024.0;
    db.close().unwrap();
    let read = CACHES.map(|cache| {
        let db = builder(cache).open().unwrap();
        let look_up = |from: u64| {
            (from..from + LOOKUPS).for_each(|i| assert!(db.get(key((1 << 40) + i)).unwrap().is_none()));
        };
        // The cache fills first.
        look_up(0);
        let before = db.stats().tickers.get(Ticker::FileReadBytes);
        look_up(LOOKUPS);
        let bytes = db.stats().tickers.get(Ticker::FileReadBytes) - before;
        db.close().unwrap();
        (cache as f64, bytes as f64 / 1024.0 / LOOKUPS as f64)
    });
    (read.to_vec(), needed)
}

pub fn draw() -> String {
    let series = |name: &str, color, points: &[(f64, f64)]| {
        let point = |&(x, y): &(f64, f64)| Point { x, y, interval: None, says: format!("{y:.2}") };
        let points = points.iter().map(point).collect();
        Series { name: name.into(), color, look: Look::Joined, points }
    };
    let (whole, needed) = absent(MetadataForm::Whole);
    let (parts, _) = absent(MetadataForm::Parts);
    eprintln!("{needed} {whole:?} {parts:?}");
    let number = |figure: f64| figure.to_string();
    plot_file(&Plot {
        id: "cliff".into(),
        title: "What an absent lookup reads while filters and indexes do not fit".into(),
        x: Axis::new("block cache (KiB)", Spread::Log, number),
        y: Axis::new("read from files (KiB a lookup of an absent key)", Spread::Linear, number),
        series: vec![series("whole", 2, &whole), series("parts", 1, &parts)],
    })
}
