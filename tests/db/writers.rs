//! Several writers at once: batches stay whole, and each writer's stay in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use maypole::fs::{Fs, MemFs};
use maypole::{Db, Durability, Snapshot, Ticker, WriteBatch};

const WRITERS: u32 = 4;
const BATCHES: u32 = 400;
const FIELDS: [&str; 3] = ["first", "second", "third"];

fn open(fs: &MemFs) -> Db {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    Db::builder("/db").fs(fs).memtable_bytes(16 << 10).open().unwrap()
}

/// The number of the last batch of `writer` that is visible; all its keys must be of that batch.
fn last_batch(snapshot: &Snapshot, writer: u32) -> u32 {
    let numbers = FIELDS.map(|field| {
        let value = snapshot.get(format!("{field} of {writer}")).unwrap();
        value.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap())
    });
    assert!(numbers.iter().all(|&number| number == numbers[0]), "half a batch: {numbers:?}");
    numbers[0]
}

#[test]
fn batches_of_concurrent_writers_are_whole_and_in_order_and_survive_a_kill() {
    let fs = MemFs::new();
    let db = open(&fs);
    let acknowledged: [AtomicU32; WRITERS as usize] = Default::default();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, acknowledged) = (&db, &acknowledged[writer as usize]);
                scope.spawn(move || {
                    for n in 1..=BATCHES {
                        let mut batch = WriteBatch::new();
                        FIELDS.iter().for_each(|field| {
                            batch.put(format!("{field} of {writer}"), n.to_string());
                        });
                        let sync = n % 32 == writer;
                        let durability = if sync { Durability::Sync } else { Durability::Buffered };
                        db.write_opt(batch, durability).unwrap();
                        acknowledged.store(n, Ordering::SeqCst);
                        // What was acknowledged is visible to its writer.
                        assert_eq!(last_batch(&db.snapshot(), writer), n);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut last = [0; WRITERS as usize];
            for look in 0u32.. {
                if done.load(Ordering::SeqCst) {
                    break;
                }
                let told = [0, 1, 2, 3].map(|i: usize| acknowledged[i].load(Ordering::SeqCst));
                // A killed process, reopened, now and then; a snapshot otherwise.
                let image = look.is_multiple_of(8).then(|| open(&fs.kill()));
                let snapshot = image.as_ref().unwrap_or(&db).snapshot();
                for writer in 0..WRITERS {
                    let i = writer as usize;
                    let number = last_batch(&snapshot, writer);
                    assert!(number >= told[i], "an acknowledged batch is missing");
                    // An image may hold a batch that is in the log and not yet visible to others.
                    if image.is_none() {
                        assert!(number >= last[i], "a batch came and went");
                        last[i] = number;
                    }
                }
            }
        });
        let joined: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::SeqCst);
        joined.into_iter().for_each(|result| result.unwrap());
    });
    let tickers = db.stats().tickers;
    let batches = tickers.get(Ticker::WriteDoneBySelf) + tickers.get(Ticker::WriteDoneByOther);
    assert_eq!(batches, u64::from(WRITERS * BATCHES));
    assert_eq!(tickers.get(Ticker::NumberKeysWritten), u64::from(3 * WRITERS * BATCHES));
}
