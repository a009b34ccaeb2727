//! The cost of a memtable: inserts in random and in ascending order, lookups, walks.
//!
//! ```sh
//! cargo bench --bench memtable                  # everything
//! cargo bench --bench memtable -- /100000       # those with this in their name
//! ```
//!
//! Entries have keys of 20 bytes and values of 100; 100,000 of them fill the default memtable of 16
//! MiB. "text" keys are decimal numbers, whose first bytes are equal; "hashed" keys differ in their
//! first bytes. Every figure is the time of one entry: of one insert, one lookup, or one step of a
//! walk.
//!
//! The memtable is not public, so this file compiles the modules that it needs.

#![allow(missing_docs, dead_code, unused_imports)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

#[path = "../src/cursor/mod.rs"]
mod cursor;
#[path = "../src/encoding/mod.rs"]
mod encoding;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/memory/mod.rs"]
mod memory;
#[path = "../src/memtable/mod.rs"]
mod memtable;
#[path = "../src/range_tombstones.rs"]
mod range_tombstones;
#[path = "../src/slice.rs"]
mod slice;
#[path = "../src/sync/mod.rs"]
mod sync;

use cursor::Cursor;
use encoding::key::{EntryKind, MAX_SEQUENCE};
use memtable::Memtable;

const VALUE: [u8; 100] = [7; 100];
const ARENA_BYTES: usize = 16 << 20;

type Key = [u8; 20];

fn text_key(i: u64) -> Key {
    format!("{i:020}").into_bytes().try_into().unwrap()
}

fn hashed_key(i: u64) -> Key {
    let mut key = [b'0'; 20];
    key[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn shuffled(mut keys: Vec<Key>) -> Vec<Key> {
    keys.shuffle(&mut StdRng::seed_from_u64(1));
    keys
}

fn filled(keys: &[Key]) -> Arc<Memtable> {
    let (memtable, mut writer) = Memtable::new(ARENA_BYTES);
    for (sequence, key) in (1..).zip(keys) {
        writer.insert(key, sequence, EntryKind::Value as u8, &VALUE);
    }
    memtable
}

/// Repeats `work`, which handles `entries` entries and returns its time, until at least
/// `iterations` entries are handled. Returns the mean time of `iterations` entries, so that
/// criterion reports the time of one entry.
fn per_entry(iterations: u64, entries: usize, mut work: impl FnMut() -> Duration) -> Duration {
    let rounds = iterations.div_ceil(entries as u64);
    let total: Duration = (0..rounds).map(|_| work()).sum();
    total.mul_f64(iterations as f64 / (rounds * entries as u64) as f64)
}

fn walk(memtable: &Arc<Memtable>, forward: bool) -> Duration {
    let mut cursor = memtable.cursor();
    let start = Instant::now();
    let first = if forward { Cursor::seek_to_first } else { Cursor::seek_to_last };
    let next = if forward { Cursor::next } else { Cursor::prev };
    first(&mut cursor).unwrap();
    while cursor.valid() {
        black_box((cursor.key()[0], cursor.value()[0]));
        next(&mut cursor).unwrap();
    }
    start.elapsed()
}

fn memtable(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memtable");
    group.sample_size(10);
    for entries in [100_000usize, 1_000_000] {
        let text: Vec<Key> = (0..entries as u64).map(text_key).collect();
        let orders = [
            ("ascending text", text.clone()),
            ("random text", shuffled(text)),
            ("random hashed", shuffled((0..entries as u64).map(hashed_key).collect())),
        ];
        for (order, keys) in orders {
            group.bench_with_input(
                BenchmarkId::new(format!("insert, {order}"), entries),
                &keys,
                |bencher, keys| {
                    bencher.iter_custom(|iterations| {
                        per_entry(iterations, entries, || {
                            let start = Instant::now();
                            let memtable = filled(keys);
                            let taken = start.elapsed();
                            drop(memtable);
                            taken
                        })
                    });
                },
            );

            let memtable = filled(&keys);
            let present = shuffled(keys.clone());
            let absent: Vec<Key> = present
                .iter()
                .map(|key| {
                    let mut key = *key;
                    key[19] = b'A';
                    key
                })
                .collect();
            for (name, keys) in [("get present", &present), ("get absent", &absent)] {
                group.bench_function(
                    BenchmarkId::new(format!("{name}, {order}"), entries),
                    |bencher| {
                        let mut keys = keys.iter().cycle();
                        bencher.iter(|| memtable.get(keys.next().unwrap(), MAX_SEQUENCE));
                    },
                );
            }
            for (name, forward) in [("walk forward", true), ("walk back", false)] {
                group.bench_function(
                    BenchmarkId::new(format!("{name}, {order}"), entries),
                    |bencher| {
                        bencher.iter_custom(|iterations| {
                            per_entry(iterations, entries, || walk(&memtable, forward))
                        });
                    },
                );
            }
        }
    }
    group.finish();
}

criterion_group!(benches, memtable);
criterion_main!(benches);
