//! Measures filters and prints a Markdown table: the rows of `docs/filters.md`.
//!
//! ```text
//! cargo run --release --example filter_table -- [--keys N,N,…] [--quick] [--large-pages] [SPEC …]
//! ```
//!
//! `--large-pages` (Linux) puts the many filters of *random* into pages of 2 MiB, as they would be
//! in the block cache of a database. Without it, they are where the system's allocator puts them.
//!
//! What the columns mean, and how each is measured, on one thread:
//!
//! * stored bits/key: the size of the filter. ÷ bound: this size divided by the lower bound
//!   `log2(1/ε)` for the predicted rate ε.
//! * predicted ε: what the built filter states. observed ε: the share of absent keys that pass.
//!   Absent keys are queried until 10,000 have passed or 10^9 were queried (with `--quick`, 1,000
//!   or 10^8). If fewer than 10 have passed, it is `-`.
//! * build: the time to make 24-byte keys, hash and add them, and finish the filter. The keys are
//!   new in every repetition, because a repeated set would train the branch predictor. net: this
//!   time without making and hashing the keys. verify: the time to query every key after the build,
//!   which *build* does not include.
//! * hot: the latency of a query of one filter: each query waits for the result of the one before,
//!   and half of the keys are present. batched: the same filter is queried for 32 keys at a time.
//!   floor: a chain like that of hot, in which one load, from as much memory as the filter has,
//!   replaces each query. These three columns use hashes that were computed in advance.
//! * mixed: one filter, queried as RocksDB's `filter_bench` does (see [`mixed`]): a key is made and
//!   hashed before each query, and no query waits for the result of another. The time of making and
//!   hashing keys is then subtracted.
//! * random: copies of the filter take 100 MiB together, and each query goes to a random one of
//!   them. Each query waits for the one before. The column *batched* after it has the same filters,
//!   but 32 queries at a time go through `prepare` and `finish`. A filter of more than 50 MiB has
//!   no second copy.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use std::time::Instant;

use maypole_filter::hash64;
use maypole_filter::{
    FilterBlock, FilterBuilder, FilterReader, FilterSpec, KeyHash, PreparedQuery, sizing,
};
use rand::rngs::{SmallRng, StdRng};
use rand::{RngExt, SeedableRng};

const SPECS: &[&str] = &[
    "bloom(4)",
    "bloom(7)",
    "bloom(10)",
    "bloom(12.5)",
    "bloom(16)",
    "bloom(20)",
    "ribbon(4)",
    "ribbon(7)",
    "ribbon(7.5)",
    "ribbon(10)",
    "ribbon(14)",
    "burr(4)",
    "burr(7)",
    "burr(7.5)",
    "burr(10)",
    "burr(14)",
    "fuse(5)",
    "fuse(8)",
    "fuse(9.1)",
    "fuse(13.7)",
];
const KEYS: &[usize] = &[1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const BATCH: usize = 32;

/// An allocator. While it is switched on, it allocates from a mapping of large pages, from front to
/// back; otherwise from the system's memory.
struct LargePages {
    start: AtomicPtr<u8>,
    used: AtomicUsize,
    on: AtomicBool,
}

#[global_allocator]
static LARGE_PAGES: LargePages = LargePages {
    start: AtomicPtr::new(null_mut()),
    used: AtomicUsize::new(0),
    on: AtomicBool::new(false),
};

impl LargePages {
    const BYTES: usize = 1 << 30;

    #[cfg(target_os = "linux")]
    fn reserve(&self) -> rustix::io::Result<()> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the mapping is new, and the advice is only for this mapping.
        unsafe {
            let start = mmap_anonymous(null_mut(), Self::BYTES, access, flags)?;
            madvise(start, Self::BYTES, Advice::LinuxHugepage)?;
            self.start.store(start.cast(), Relaxed);
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn has(&self, pointer: *mut u8) -> bool {
        let start = self.start.load(Relaxed);
        !start.is_null() && pointer.addr().wrapping_sub(start.addr()) < Self::BYTES
    }

    /// Runs `make`, whose allocations begin at the start of the large pages, if there are any. They
    /// overwrite what an earlier call has allocated there, so all of that must have been dropped.
    fn during<T>(&self, make: impl FnOnce() -> T) -> T {
        self.used.store(0, Relaxed);
        self.on.store(!self.start.load(Relaxed).is_null(), Relaxed);
        let made = make();
        self.on.store(false, Relaxed);
        made
    }
}

// SAFETY: memory from the mapping is inside the mapping, and within one call of `during` no byte of
// it is allocated twice. All other memory is the system allocator's.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.on.load(Relaxed) {
            let line = layout.size().next_multiple_of(64);
            let at = self.used.fetch_add(line, Relaxed);
            if layout.align() <= 64 && at + line <= Self::BYTES {
                return self.start.load(Relaxed).wrapping_add(at);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !self.on.load(Relaxed) {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: `alloc` returns at least as many bytes as the layout has. They are cleared,
        // because memory of the mapping may have been used before.
        unsafe {
            let piece = self.alloc(layout);
            if !piece.is_null() {
                piece.write_bytes(0, layout.size());
            }
            piece
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if !self.has(pointer) && !self.on.load(Relaxed) {
            // SAFETY: the caller's promise, and the pointer is the system's.
            return unsafe { System.realloc(pointer, layout, new_bytes) };
        }
        // SAFETY: the caller's promise; the smaller of the two sizes fits in both allocations.
        unsafe {
            let piece = self.alloc(Layout::from_size_align_unchecked(new_bytes, layout.align()));
            if !piece.is_null() {
                piece.copy_from_nonoverlapping(pointer, new_bytes.min(layout.size()));
                self.dealloc(pointer, layout);
            }
            piece
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !self.has(pointer) {
            // SAFETY: the pointer is not from the mapping, so it is from the system.
            unsafe { System.dealloc(pointer, layout) }
        }
    }
}
const FILTERS_BYTES: usize = 100 << 20;

/// Makes key number `i` of a run: 24 bytes, of which the first 8 look random.
#[inline]
fn key(run: u64, i: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ run).to_le_bytes());
    key[8..16].copy_from_slice(&run.to_le_bytes());
    key[16..].copy_from_slice(&i.to_le_bytes());
    key
}

fn build(spec: FilterSpec, run: u64, keys: usize) -> FilterBlock {
    let mut builder = FilterBuilder::new(spec).verify(false);
    for i in 0..keys as u64 {
        builder.add(hash64(&key(run, i)));
    }
    builder.finish().expect("keys were added")
}

/// Queries the filter for all hashes, as a builder does that verifies its filter.
fn query_all(filter: &FilterReader, hashes: &[KeyHash]) {
    let mut answers = vec![false; SLICE];
    for part in hashes.chunks(SLICE) {
        filter.may_contain_many(part, &mut answers[..part.len()]);
        black_box(&answers);
    }
}

/// The lower quartile of times, because other work of the machine only makes a time longer.
fn typical(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

/// Nanoseconds for each of `count` things done by `work`.
fn nanoseconds(count: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}

/// The number of queries in a slice, which are timed together. A slice of hot queries takes some
/// ten microseconds, so most slices are not interrupted.
const SLICE: usize = 4096;

/// Nanoseconds for one query. The hashes of `asked` are passed to `work` slice by slice, and the
/// result is the lowest decile of the slices' times.
fn by_slices(rounds: usize, asked: &[KeyHash], mut work: impl FnMut(&[KeyHash])) -> f64 {
    let slices = (0..rounds).flat_map(|_| asked.chunks(SLICE));
    let mut times: Vec<f64> = slices.map(|part| nanoseconds(part.len(), || work(part))).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}

struct Row {
    block: FilterBlock,
    observed: Option<f64>,
    build: f64,
    build_net: f64,
    verify: f64,
    hot: f64,
    floor: f64,
    hot_batched: f64,
    mixed: f64,
    random: f64,
    random_batched: f64,
}

fn measure(spec: FilterSpec, keys: usize, quick: bool) -> Row {
    let repetitions = (if quick { 3_000_000 } else { 10_000_000 } / keys).clamp(3, 200);
    let mut run = keys as u64;
    let (mut all, mut make, mut verify) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repetitions {
        run += 1;
        all.push(nanoseconds(keys, || {
            black_box(build(spec, run, keys));
        }));
        make.push(nanoseconds(keys, || {
            let hashed = (0..keys as u64).fold(0, |sum, i| sum ^ hash64(&key(run, i)));
            black_box(hashed);
        }));
        let filter = build(spec, run, keys).into_reader();
        let hashes: Vec<KeyHash> = (0..keys as u64).map(|i| hash64(&key(run, i))).collect();
        verify.push(nanoseconds(keys, || query_all(&filter, &hashes)));
    }
    let block = build(spec, run, keys);
    let stored = block.bytes().to_vec();
    let encoding = block.encoding();
    let filter = FilterReader::from_bytes(&stored, encoding);

    let mut rng = StdRng::seed_from_u64(1);
    let asked: Vec<KeyHash> = (0..1 << 18)
        .map(|_| match rng.random_bool(0.5) {
            true => hash64(&key(run, rng.random_range(0..keys as u64))),
            false => rng.random(),
        })
        .collect();
    let copies = (FILTERS_BYTES / stored.len()).max(1);
    // Copies of one filter, each in memory of its own.
    let filters: Vec<FilterReader> = LARGE_PAGES
        .during(|| (0..copies).map(|_| FilterReader::from_bytes(&stored, encoding)).collect());

    let words = vec![black_box(0u64); stored.len().div_ceil(8)];
    let rounds = if quick { 5 } else { 15 };
    let hot = by_slices(rounds, &asked, |part| in_a_chain(part, |hash| filter.may_contain(hash)));
    let floor = by_slices(rounds, &asked, |part| {
        in_a_chain(part, |hash| {
            let place = (u64::from(hash as u32) * words.len() as u64) >> 32;
            words[place as usize] & 1 != 0
        });
    });
    let mut answers = vec![false; SLICE];
    let hot_batched = by_slices(rounds, &asked, |part| {
        filter.may_contain_many(part, &mut answers[..part.len()]);
        black_box(&answers);
    });
    let mut rng = SmallRng::seed_from_u64(3);
    let asked_mixed = by_slices(rounds, &asked, |part| {
        black_box(mixed(&mut rng, run, keys, part.len(), |hash| filter.may_contain(hash)));
    });
    let only_hashed = by_slices(rounds, &asked, |part| {
        black_box(mixed(&mut rng, run, keys, part.len(), |hash| {
            black_box(hash);
            true
        }));
    });
    let random = by_slices(rounds, &asked, |part| {
        in_a_chain(part, |hash| filters[pick(hash, filters.len())].may_contain(hash));
    });
    let random_batched = by_slices(rounds, &asked, |part| random_in_batches(&filters, part));
    Row {
        observed: observed_fpr(&filter, quick),
        build_net: typical(all.clone()) - typical(make),
        verify: typical(verify),
        build: typical(all),
        hot,
        floor,
        hot_batched,
        mixed: asked_mixed - only_hashed,
        random,
        random_batched,
        block,
    }
}

/// Makes one query after the other, each of which waits for all results before it. For this, the
/// sum of the results is ANDed with a zero that the compiler does not know, and XORed into the next
/// hash, which stays the same. (With the last result in place of the sum, the compiler would make a
/// branch, and a predicted branch does not wait.)
fn in_a_chain(asked: &[KeyHash], mut ask: impl FnMut(KeyHash) -> bool) {
    let zero = black_box(0);
    let mut found = 0u64;
    for &hash in asked {
        found = found.wrapping_add(u64::from(ask(hash ^ (found & zero))));
    }
    black_box(found);
}

/// Queries as RocksDB's `filter_bench` does. For each query a random bit decides whether the key is
/// an added one. The key is made in a buffer that all keys share, hashed and queried. The hash
/// loads the key in wide words right after it was stored in narrow ones. Such a load waits until
/// all stores before it are done, so queries hardly overlap, although none depends on the result of
/// another. Returns the number of false positives; panics if an added key is not found.
fn mixed(
    rng: &mut SmallRng,
    run: u64,
    keys: usize,
    queries: usize,
    mut ask: impl FnMut(KeyHash) -> bool,
) -> u64 {
    let mut buffer = [0u8; 24];
    let mut false_positives = 0;
    for _ in 0..queries {
        let added = rng.random_bool(0.5);
        let i = rng.random_range(0..keys as u64) | u64::from(!added) << 40;
        let parts = key(run, i);
        // The key is copied in words of 4 bytes, and `black_box` keeps the optimizer from joining
        // them.
        for (to, from) in buffer.chunks_exact_mut(4).zip(parts.chunks_exact(4)) {
            to.copy_from_slice(from);
            black_box(&mut *to);
        }
        let answer = ask(hash64(black_box(&buffer)));
        assert!(answer || !added, "a key that was added is found");
        false_positives += u64::from(answer && !added);
    }
    false_positives
}

/// Chooses one of `filters` filters for a query, and returns its index. The choice depends on the
/// high bits of a product of the hash, because these are hardly correlated with the bits of the
/// hash that the filter uses.
fn pick(hash: KeyHash, filters: usize) -> usize {
    let mixed = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((u128::from(mixed) * filters as u128) >> 64) as usize
}

fn random_in_batches(filters: &[FilterReader], asked: &[KeyHash]) {
    let mut found = 0;
    for batch in asked.chunks_exact(BATCH) {
        let picked: [&FilterReader; BATCH] =
            std::array::from_fn(|i| &filters[pick(batch[i], filters.len())]);
        let queries: [PreparedQuery; BATCH] = std::array::from_fn(|i| picked[i].prepare(batch[i]));
        for (filter, query) in picked.iter().zip(queries) {
            found += usize::from(filter.finish(query));
        }
    }
    black_box(found);
}

/// The observed false-positive rate, or `None` if there were fewer than 10 false positives.
fn observed_fpr(filter: &FilterReader, quick: bool) -> Option<f64> {
    let (enough, most) = if quick { (1_000, 100_000_000) } else { (10_000, 1_000_000_000) };
    let mut rng = StdRng::seed_from_u64(2);
    let (mut positives, mut absent) = (0, 0);
    let mut hashes = vec![0; 1 << 16];
    let mut answers = vec![false; hashes.len()];
    while positives < enough && absent < most {
        hashes.iter_mut().for_each(|hash| *hash = rng.random());
        filter.may_contain_many(&hashes, &mut answers);
        positives += answers.iter().filter(|&&answer| answer).count();
        absent += hashes.len();
    }
    (positives >= 10).then(|| positives as f64 / absent as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut specs, mut keys, mut quick) = (Vec::new(), KEYS.to_vec(), false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--large-pages" => LARGE_PAGES.reserve()?,
            "--keys" => {
                let list = arguments.next().ok_or("--keys wants numbers")?;
                keys = list.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            spec => specs.push(spec.parse::<FilterSpec>()?),
        }
    }
    if specs.is_empty() {
        specs = SPECS.iter().map(|spec| spec.parse()).collect::<Result<_, _>>()?;
    }
    println!(
        "| filter | keys | stored bits/key | ÷ bound | predicted ε % | observed ε % | build ns/key | \
         net of key and hash | verify | hot ns | floor | batched | mixed | random ns | batched |"
    );
    println!("|---|{}", "---:|".repeat(14));
    for spec in specs {
        for &keys in &keys {
            let row = measure(spec, keys, quick);
            let predicted = row.block.predicted_fpr();
            let bits = row.block.bits_per_key();
            let name = match spec.family() == Some(row.block.family()) {
                true => spec.to_string(),
                false => format!("{spec}: {}", row.block.family()),
            };
            println!(
                "| {name} | {keys} | {bits:.3} | {:.3} | {:.4} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.1} |",
                bits / sizing::lower_bound_bits_per_key(predicted),
                100.0 * predicted,
                row.observed.map_or("-".into(), |fpr| format!("{:.4}", 100.0 * fpr)),
                row.build,
                row.build_net,
                row.verify,
                row.hot,
                row.floor,
                row.hot_batched,
                row.mixed,
                row.random,
                row.random_batched,
            );
        }
    }
    Ok(())
}
