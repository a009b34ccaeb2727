//! Measures the cost of a point lookup, and of the memory accesses in it: the figures of
//! `docs/measurements/reads-in-memory.md`.
//!
//! ```text
//! cargo run --release --example lookup_profile -- [--entries N] [--operations N] [--rounds N]
//!     [--value-bytes N] [--table-bytes N] [--l0 FILES] [--cache-mb N] [--threads N] [--only NAME]
//!     [--dir DIR] [--record N]
//! ```
//!
//! The tree is that of `benches/peers`: keys of 20 bytes, values of 100 or `--value-bytes`, nothing
//! compressed, filters of 10 bits a key, everything in the block cache, or as much as `--cache-mb`
//! holds. `--l0` adds this many flushes to it, each of new versions of a hundredth of the keys.
//! `--dir` keeps the tree, so that the next run need not build it. Each of `--rounds` rounds runs
//! every measurement once. The program prints the median nanoseconds of one operation.
//!
//! The names of the measurements: `get` is `Db::get_with`, and with `owned` it is `Db::get`, which
//! returns the value. `isolated` means that a memory fence follows each lookup, so that adjacent
//! lookups cannot overlap. `of 1000` means that the same thousand keys are looked up again and
//! again. All cache lines that these lookups read are in the processor's caches, so their time is
//! work, without any waiting for memory. `dependent load` and `independent load` read random words
//! of 256 MiB of memory; each dependent load needs the result of the load before.
//!
//! `--threads`: each measurement is made by one thread, and then by this number of threads at once,
//! each with operations and keys of its own. The gain is the time of an operation with one thread
//! divided by the time with all threads. The gain of `pread`, which uses nothing of Maypole, shows
//! how large a gain the system and the processor allow.
//!
//! `large pages`: the loads with this name read memory in pages of 2 MiB, like the memory of a
//! large block cache. The loads without it read memory in small pages.
//!
//! `pread`: each call reads 4 KiB and a trailer, at a random offset of a file that is as large as
//! the data of a tree with values of 100 bytes. The file is in the system's cache, so the time is a
//! lower bound of a lookup that misses the block cache.
//!
//! `--record`: each measurement is made a second time, while one lookup in N is recorded in a file.
//!
//! To count the instructions of the lookups alone, run one round of one measurement (`--only`)
//! under `valgrind --tool=callgrind --toggle-collect='*profiled*'`.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::Instant;

use maypole::{Compression, Db, FilterPolicy};

const TOGETHER: usize = 64;
/// The loads from memory read an array of this many 4-byte words, which is 256 MiB. The loads in
/// large pages read a copy of it, of the same size.
const MEMORY_WORDS: usize = 1 << 26;

type Key = [u8; 20];
type Answer<T> = Result<T, Box<dyn std::error::Error>>;

/// A bijection of 64-bit numbers: the finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Key number `n`. Numbers below `--entries` belong to present keys. All other keys are absent, and
/// sort between the present ones.
fn key(n: u64) -> Key {
    let mut key = *b"user0000000000000000";
    let mixed = mix(n + 1);
    for (i, byte) in key[4..].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(mixed >> (60 - 4 * i)) as usize & 15];
    }
    key
}

struct Options {
    entries: u64,
    value_bytes: usize,
    table_bytes: Option<u64>,
    operations: usize,
    rounds: u64,
    l0: u64,
    cache_mb: Option<usize>,
    threads: u64,
    only: Option<String>,
    dir: Option<PathBuf>,
    record: Option<u32>,
}

fn options() -> Answer<Options> {
    let mut options = Options {
        entries: 3_000_000,
        value_bytes: 100,
        table_bytes: None,
        operations: 300_000,
        rounds: 5,
        l0: 0,
        cache_mb: None,
        threads: 1,
        only: None,
        dir: None,
        record: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or("an option without its value")?;
        match &name[..] {
            "--entries" => options.entries = value.parse()?,
            "--value-bytes" => options.value_bytes = value.parse()?,
            "--table-bytes" => options.table_bytes = Some(value.parse()?),
            "--operations" => options.operations = value.parse()?,
            "--rounds" => options.rounds = value.parse()?,
            "--l0" => options.l0 = value.parse()?,
            "--cache-mb" => options.cache_mb = Some(value.parse()?),
            "--threads" => options.threads = value.parse()?,
            "--only" => options.only = Some(value),
            "--record" => options.record = Some(value.parse()?),
            "--dir" => options.dir = Some(value.into()),
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(options)
}

/// Opens the tree, builds it if it does not exist yet, adds the files of `--l0`, and fills the
/// cache by lookups in random order of keys.
fn open(options: &Options) -> Answer<(Db, Option<tempfile::TempDir>)> {
    let (dir, kept) = match &options.dir {
        Some(dir) => (dir.clone(), None),
        None => {
            let dir = tempfile::tempdir()?;
            (dir.path().to_owned(), Some(dir))
        }
    };
    let mut builder = Db::builder(dir)
        .filter("bloom(10)".parse::<FilterPolicy>()?)
        .compression(Compression::None)
        .block_cache_bytes(options.cache_mb.map_or(options.entries as usize * 400, |mb| mb << 20));
    if let Some(bytes) = options.table_bytes {
        builder = builder.table_bytes(bytes);
    }
    let db = builder.open()?;
    let put = |n: u64| {
        let value: Vec<u8> =
            (0..options.value_bytes as u64).map(|i| mix(n + i / 8) as u8).collect();
        db.put(key(n), value)
    };
    if db.get(key(options.entries - 1))?.is_none() {
        (0..options.entries).try_for_each(put)?;
        db.compact_range(..)?;
    }
    for file in 0..options.l0 {
        let step = 97;
        (0..options.entries / 100)
            .try_for_each(|i| put((i * step + file * 31) % options.entries))?;
        db.flush()?;
    }
    db.wait_for_compaction()?;
    // With `--cache-mb`, a tenth of the keys is enough. Lookups of more keys would only evict what
    // the cache holds.
    let entries = if options.cache_mb.is_some() { options.entries / 10 } else { options.entries };
    for n in 0..entries {
        db.get_with(key(n), |_| ())?.ok_or("a present key was not found")?;
        db.get_with(key(options.entries + n), |_| ())?;
    }
    Ok((db, kept))
}

/// Keeps a lookup from overlapping with the next.
#[inline(always)]
fn isolate() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instructions; they touch no memory.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_mm_mfence();
    }
}

#[inline(never)]
fn profiled_gets(db: &Db, keys: &[Key], isolated: bool) -> Answer<usize> {
    let mut found = 0;
    for key in keys {
        found += usize::from(db.get_with(key, |value| value.len())?.is_some());
        if isolated {
            isolate();
        }
    }
    Ok(found)
}

#[inline(never)]
fn profiled_owned_gets(db: &Db, keys: &[Key]) -> Answer<usize> {
    let mut bytes = 0;
    for key in keys {
        bytes += usize::from(db.get(key)?.is_some());
    }
    Ok(bytes)
}

#[inline(never)]
fn profiled_multi_gets(db: &Db, keys: &[Key]) -> Answer<usize> {
    let mut found = 0;
    for keys in keys.chunks(TOGETHER) {
        found += db.multi_get(keys)?.iter().flatten().count();
    }
    Ok(found)
}

/// Makes loads from memory, each of which needs the result of the load before.
fn dependent_loads(memory: &[u32], count: usize, seed: u64) -> usize {
    let mut at = mix(seed) as usize % MEMORY_WORDS;
    for i in 0..count {
        at = (memory[at] as usize ^ i) % MEMORY_WORDS;
    }
    at
}

/// Zeros in pages of 2 MiB, like the memory of a large block cache, if the system grants such
/// pages.
#[cfg(target_os = "linux")]
fn large_pages(words: usize) -> Answer<&'static mut [u32]> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping of zeros, to which no other pointer exists and which is never unmapped,
    // and advice for it.
    unsafe {
        let start = mmap_anonymous(std::ptr::null_mut(), 4 * words, access, flags)?;
        madvise(start, 4 * words, Advice::LinuxHugepage)?;
        Ok(std::slice::from_raw_parts_mut(start.cast(), words))
    }
}

#[cfg(not(target_os = "linux"))]
fn large_pages(words: usize) -> Answer<&'static mut [u32]> {
    Ok(Vec::leak(vec![0; words]))
}

/// Makes loads from memory, none of which needs the result of another load.
fn independent_loads(memory: &[u32], count: usize, seed: u64) -> usize {
    (0..count).map(|i| memory[mix(seed + i as u64) as usize % MEMORY_WORDS] as usize).sum()
}

/// A file as large as the data of a tree of `entries` entries, if values have 100 bytes.
fn plain_file(entries: u64) -> Answer<File> {
    let mut file = tempfile::tempfile()?;
    let some = vec![7; 120 << 10];
    (0..entries.div_ceil(1 << 10).max(1)).try_for_each(|_| file.write_all(&some))?;
    Ok(file)
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Windows may read fewer bytes than the buffer has, which makes no difference to the times
/// measured here.
#[cfg(windows)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset).map(|_| ())
}

/// Makes `count` reads at random offsets, each of as many bytes as a stored block has.
fn plain_reads(file: &File, count: usize, seed: u64) -> Answer<usize> {
    let mut buffer = [0; 4101];
    let places = file.metadata()?.len() - buffer.len() as u64;
    for i in 0..count as u64 {
        read_exact_at(file, &mut buffer, mix(seed << 40 | i) % places)?;
    }
    Ok(buffer[0].into())
}

fn main() -> Answer<()> {
    let options = options()?;
    let (db, _kept) = open(&options)?;
    // All keys are made before the first lookup, so that only lookups are timed.
    let choose = |first: u64, count: u64, seed: u64| -> Vec<Key> {
        (0..options.operations as u64).map(|i| key(first + mix(seed << 40 | i) % count)).collect()
    };
    let (entries, some) = (options.entries, options.entries.min(1000));
    let names = [
        "dependent load",
        "dependent load, large pages",
        "independent load",
        "pread",
        "get present",
        "get present, owned",
        "get present, isolated",
        "get present, of 1000",
        "get absent",
        "get absent, isolated",
        "get absent, of 1000",
        "multi_get present",
        "multi_get present, of 1000",
        "multi_get absent",
        "multi_get absent, of 1000",
    ];
    let names = names.into_iter().filter(|name| match &options.only {
        Some(only) => name.contains(&only[..]),
        None => true,
    });
    let names: Vec<&str> = names.collect();
    let words = if names.iter().any(|name| name.contains("load")) { MEMORY_WORDS } else { 0 };
    let memory: Vec<u32> = (0..words as u64).map(|i| mix(i) as u32).collect();
    let large = match words {
        0 => &mut [],
        _ => large_pages(words)?,
    };
    large.copy_from_slice(&memory);
    let file = plain_file(if names.contains(&"pread") { options.entries } else { 1 })?;
    // The work of one thread in the measurement `name`. The thread makes its keys before it waits
    // at the barrier, so making them is not timed.
    let run = |name: &str, seed: u64, start: &Barrier| -> Answer<usize> {
        let absent = name.contains("absent");
        let count = if name.ends_with("of 1000") { some } else { entries };
        let keys = choose(if absent { entries } else { 0 }, count, seed);
        start.wait();
        let found = match name {
            "dependent load" => dependent_loads(&memory, keys.len(), seed),
            "dependent load, large pages" => dependent_loads(large, keys.len(), seed),
            "independent load" => independent_loads(&memory, keys.len(), seed),
            "pread" => plain_reads(&file, keys.len(), seed)?,
            _ if name.starts_with("multi_get") => profiled_multi_gets(&db, &keys)?,
            _ if name.ends_with("owned") => profiled_owned_gets(&db, &keys)?,
            _ => profiled_gets(&db, &keys, name.ends_with("isolated"))?,
        };
        if name.contains("get") && found != if absent { 0 } else { keys.len() } {
            return Err(format!("{name}: {found} of {} found", keys.len()).into());
        }
        Ok(found)
    };
    // The elapsed nanoseconds, divided by the number of operations of all threads.
    let timed = |name: &str, round: u64, threads: u64| -> Answer<f64> {
        let start = Barrier::new(threads as usize + 1);
        let run =
            |thread| run(name, round * threads + thread, &start).map_err(|error| error.to_string());
        let run = &run;
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            start.wait();
            let begun = Instant::now();
            let operations = threads.len() * options.operations;
            for thread in threads {
                black_box(thread.join().map_err(|_| "a thread panicked")??);
            }
            Ok(begun.elapsed().as_nanos() as f64 / operations as f64)
        })
    };
    let records = tempfile::tempdir()?;
    let mut figures = vec![(Vec::new(), Vec::new(), Vec::new()); names.len()];
    for round in 0..options.rounds {
        for (name, (one, recorded, all)) in names.iter().zip(&mut figures) {
            one.push(timed(name, round, 1)?);
            if let Some(one_in) = options.record {
                let recording = db.record_lookups(records.path().join("lookups"), one_in)?;
                recorded.push(timed(name, round, 1)?);
                recording.finish()?;
            }
            if options.threads > 1 {
                all.push(timed(name, round, options.threads)?);
            }
        }
    }
    let median = |figures: &mut [f64]| {
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    for (name, (one, recorded, all)) in names.iter().zip(&mut figures) {
        let one = median(one);
        print!("{name:28} {one:8.1} ns");
        if options.record.is_some() {
            print!("   recorded {:8.1} ns", median(recorded));
        }
        if options.threads > 1 {
            let all = median(all);
            print!("   {} threads {all:8.1} ns   gain {:4.2}", options.threads, one / all);
        }
        println!();
    }
    db.close()?;
    Ok(())
}
