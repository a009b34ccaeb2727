//! How long a miss of the block cache holds the mutex that all threads share.
//!
//! ```sh
//! cargo bench --bench cache          # a minute
//! ```
//!
//! | group | figure, a miss |
//! |---|---|
//! | `miss` | the whole miss: claim, allocation, `pread`, checksum, eviction, insertion |
//! | `held` | the time under the cache's mutex, including one reading of the clock for each lock |
//!
//! The number in a benchmark's name is the number of threads. All threads make the same number of
//! misses, and a figure is the mean over the threads. The *claim* of a block keeps other threads
//! from loading the same block. The file is in the system's cache, the block cache has room for a
//! tenth of the file, and blocks are read in random order. The other work of a lookup (filter,
//! index, decoding, search) is left out, so in a whole lookup the mutex takes a smaller share of
//! the time than here.
//!
//! The cache is not public, so this file compiles it, with a mutex that measures the time.

#![allow(missing_docs, dead_code, unused_imports)]

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use maypole::fs::{DescriptorPool, Fs, RandomAccessFile, RealFs};
use tempfile::TempDir;

#[path = "../src/cache/mod.rs"]
mod cache;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/memory/mod.rs"]
mod memory;
#[path = "../src/slice.rs"]
mod slice;
/// Replaces the crate's module `sync`, which the cache imports, so that the cache uses the mutexes
/// of [`timed`].
mod sync {
    pub(crate) use crate::timed::{Condvar, Mutex, lock, try_lock};
    pub(crate) use crate::untimed_sync::{
        Guard, OwnedMemory, Padded, PerProcess, Process, Retired, atomic, collect, drain,
        drop_at_once, pin, rank, retire, thread_index,
    };
}
#[path = "../src/sync/mod.rs"]
mod untimed_sync;

use cache::policy::Keeping;
use cache::slots::{Cached, Slots};
use cache::{BlockCache, BlockKind};
use memory::LineBuf;

/// A block of 4096 bytes with its trailer.
const BLOCK_BYTES: usize = 4096 + 5;
const BLOCKS: usize = 96 << 10;
const CACHE_BYTES: usize = 36 << 20;

/// Mutexes that add up the time for which the cache's mutex is held.
mod timed {
    use std::any::type_name;
    use std::cell::Cell;
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};
    use std::sync::{MutexGuard, PoisonError};
    use std::time::{Duration, Instant};

    thread_local! {
        static HELD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// How long this thread has held the mutexes of caches.
    pub(crate) fn held() -> Duration {
        HELD.get()
    }

    pub(crate) struct Mutex<T, R>(std::sync::Mutex<T>, PhantomData<R>);

    pub(crate) struct Held<'m, T> {
        /// `None` after the mutex is released: while the thread waits for a condition, and at the
        /// end of `drop`.
        guard: Option<MutexGuard<'m, T>>,
        /// When the mutex was locked; `None` if it is not the mutex of a cache.
        since: Option<Instant>,
    }

    impl<'m, T> Held<'m, T> {
        fn new(guard: MutexGuard<'m, T>) -> Held<'m, T> {
            let is_of_cache = type_name::<T>().ends_with("::CacheState");
            Held { guard: Some(guard), since: is_of_cache.then(Instant::now) }
        }
    }

    impl<T, R> Mutex<T, R> {
        pub(crate) fn new(value: T) -> Mutex<T, R> {
            Mutex(std::sync::Mutex::new(value), PhantomData)
        }
    }

    pub(crate) fn lock<T, R>(mutex: &Mutex<T, R>) -> Held<'_, T> {
        Held::new(mutex.0.lock().unwrap())
    }

    pub(crate) fn try_lock<T, R>(mutex: &Mutex<T, R>) -> Option<Held<'_, T>> {
        mutex.0.try_lock().ok().map(Held::new)
    }

    impl<T> Deref for Held<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.guard.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for Held<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.guard.as_mut().unwrap()
        }
    }

    impl<T> Drop for Held<'_, T> {
        fn drop(&mut self) {
            if let Some(since) = self.since {
                let held = since.elapsed();
                self.guard = None;
                HELD.set(HELD.get() + held);
            }
        }
    }

    pub(crate) struct Condvar(std::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(std::sync::Condvar::new())
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        pub(crate) fn wait<'m, T>(&self, mut held: Held<'m, T>) -> Held<'m, T> {
            let guard = held.guard.take().unwrap();
            Held::new(self.0.wait(guard).unwrap_or_else(PoisonError::into_inner))
        }
    }
}

struct Block(LineBuf);

impl Cached for Block {
    type Ahead = ();
    type Link = ();

    fn into_buffer(self) -> Option<LineBuf> {
        Some(self.0)
    }
}

/// The times of a run of misses.
#[derive(Default)]
struct Times {
    all: Duration,
    /// The time under the cache's mutex.
    held: Duration,
}

struct Table {
    _dir: TempDir,
    file: Arc<dyn RandomAccessFile>,
    cache: Arc<BlockCache>,
    blocks: Slots<Block>,
}

impl Table {
    fn new() -> Table {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let mut file = File::create(&path).unwrap();
        let bytes: Vec<u8> = (0..BLOCK_BYTES).map(|i| i as u8).collect();
        (0..BLOCKS).for_each(|_| file.write_all(&bytes).unwrap());
        let file = RealFs.open_pooled(&path, &DescriptorPool::shared()).unwrap();
        let cache = BlockCache::new(CACHE_BYTES);
        let blocks = Slots::new(&cache, BLOCKS, BlockKind::Data, false);
        let table = Table { _dir: dir, file, cache, blocks };
        // Fills the cache before the measurement.
        table.miss(2 * BLOCKS as u64, 1);
        table
    }

    fn read(&self, i: usize) -> maypole::Result<(Block, usize)> {
        let mut bytes = self.cache.buffer(BLOCK_BYTES);
        self.file.read_exact_at((i * BLOCK_BYTES) as u64, &mut bytes[..BLOCK_BYTES])?;
        black_box(twox_hash::XxHash3_64::oneshot(&bytes[..BLOCK_BYTES]));
        let heap_bytes = bytes.len();
        Ok((Block(bytes), heap_bytes))
    }

    /// Runs `count` misses.
    fn miss(&self, count: u64, seed: u64) -> Times {
        let (start, held_before) = (Instant::now(), timed::held());
        let (mut random, mut misses) = (seed, 0);
        while misses < count {
            // Knuth's generator, MMIX.
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let i = (random >> 33) as usize % BLOCKS;
            if self.blocks.get(i, &sync::pin()).is_none() {
                misses += 1;
                let keeping = Keeping::OnProbation;
                black_box(self.blocks.load(i, keeping, || self.read(i)).unwrap().resident());
            }
        }
        Times { all: start.elapsed(), held: timed::held() - held_before }
    }

    /// Runs `count` misses in each of `threads` threads at one time, and returns the mean of the
    /// threads' times.
    fn miss_by_threads(&self, count: u64, threads: u32) -> Times {
        static SEED: AtomicU64 = AtomicU64::new(1);
        let mut sum = Times::default();
        thread::scope(|scope| {
            let run = || self.miss(count, SEED.fetch_add(1, Ordering::Relaxed) << 32);
            let runs: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            for times in runs.into_iter().map(|run| run.join().unwrap()) {
                sum.all += times.all / threads;
                sum.held += times.held / threads;
            }
        });
        sum
    }
}

fn misses(c: &mut Criterion) {
    let table = Table::new();
    let mut group = |name: &str, of: &dyn Fn(Times) -> Duration| {
        let mut group = c.benchmark_group(name);
        group.measurement_time(Duration::from_secs(3)).sample_size(20);
        for threads in [1, 2, 4] {
            group.bench_function(BenchmarkId::from_parameter(threads), |bencher| {
                bencher.iter_custom(|count| of(table.miss_by_threads(count, threads)));
            });
        }
        group.finish();
    };
    group("miss", &|times| times.all);
    group("held", &|times| times.held);
}

criterion_group!(benches, misses);
criterion_main!(benches);
