//! The cost of the file system layer: appends to a log, reads of a file with an open descriptor and
//! of one without, many reads at one time. `TMPDIR` chooses the file system:
//!
//! ```text
//! TMPDIR=/mnt/xfs cargo bench --bench fs
//! ```
//!
//! This command measures what the device can do, for comparison with `many/device`:
//!
//! ```text
//! fio --name=r --directory=/mnt/xfs --size=4g --direct=1 --rw=randread --bs=4k \
//!     --ioengine=io_uring --iodepth=64 --iodepth_batch_submit=64 \
//!     --iodepth_batch_complete_min=64 --runtime=10
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use maypole::fs::{
    DescriptorPool, Fs, OverlappedReader, RandomAccessFile, ReadBuffer, ReadRequest, RealFs,
    WritableFile,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const RECORD: [u8; 150] = [7; 150];
/// A log is replaced by a new one at this size, which is that of a memtable.
const LOG_BYTES: u64 = 16 << 20;
const FILE_BYTES: usize = 16 << 20;
/// The number of blocks in a batch, and the size of a block.
const BATCH: usize = 64;
const BLOCK_BYTES: usize = 4096;
const LARGE_FILE_BYTES: u64 = 4 << 30;
/// `many/memory` reads only from the first part of the large file. The part has this size and is in
/// the system's cache.
const WARM_BYTES: u64 = 1 << 30;

/// The time of an append and a flush. `log` appends to a file of [`Fs::create_log`], which is
/// written through a memory mapping where the file system allows this. `plain` appends to an
/// ordinary file, with one call of `write` for each record.
fn appends(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Bytes(RECORD.len() as u64));
    for name in ["log", "plain"] {
        let path = dir.path().join(name);
        let create = || match name {
            "log" => RealFs.create_log(&path).unwrap(),
            _ => RealFs.create(&path).unwrap(),
        };
        let mut file: Box<dyn WritableFile> = create();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                if file.len() > LOG_BYTES {
                    file = create();
                }
                file.append(black_box(&RECORD)).unwrap();
                file.flush().unwrap();
            });
        });
    }
    group.finish();
}

/// Reads of 4 KiB blocks that are in the system's cache, from two files in turn. `own`: each file
/// has a descriptor of its own. `pooled`: a pool has descriptors for both files. `again`: the pool
/// has only one descriptor, so each read opens its file first.
fn reads(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| dir.path().join(name));
    paths.iter().for_each(|path| std::fs::write(path, vec![7; FILE_BYTES]).unwrap());
    let mut group = criterion.benchmark_group("read");
    for name in ["own", "pooled", "again"] {
        let pool = DescriptorPool::new(if name == "again" { 1 } else { 2 });
        let files = paths.each_ref().map(|path| match name {
            "own" => RealFs.open(path).unwrap(),
            _ => RealFs.open_pooled(path, &pool).unwrap(),
        });
        let mut buffer = [0; 4096];
        let mut n = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                n += 1;
                let block = n * 40_503 % (FILE_BYTES / buffer.len());
                let offset = (block * buffer.len()) as u64;
                files[n % 2].read_exact_at(offset, &mut buffer).unwrap();
                black_box(&buffer);
            });
        });
    }
    group.finish();
}

fn large_file(dir: &std::path::Path, pool: &Arc<DescriptorPool>) -> Arc<dyn RandomAccessFile> {
    let path = dir.join("large");
    let mut file = RealFs.create(&path).unwrap();
    let piece: Vec<u8> = (0..1 << 20).map(|n: u32| (n ^ (n >> 9)) as u8).collect();
    while file.len() < LARGE_FILE_BYTES {
        file.append(&piece).unwrap();
    }
    // Only synced pages can be evicted.
    file.sync().unwrap();
    RealFs.open_pooled(&path, pool).unwrap()
}

/// The time of a batch of 64 random blocks, by each method of reading: `ring` by `io_uring`,
/// `threads` by several threads, `one_by_one` in the calling thread. In `device` no block is in
/// the system's cache; in `memory` all blocks are.
fn many(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(100);
    let file = large_file(dir.path(), &pool);
    let readers = [
        ("ring", Some(OverlappedReader::new(&pool))),
        ("threads", Some(OverlappedReader::by_threads(&pool))),
        ("one_by_one", None),
    ];
    let random = &mut StdRng::seed_from_u64(1);
    for (place, bytes) in [("device", LARGE_FILE_BYTES), ("memory", WARM_BYTES)] {
        let mut group = criterion.benchmark_group(format!("many/{place}"));
        group.throughput(Throughput::Elements(BATCH as u64));
        group.sample_size(20).measurement_time(Duration::from_secs(4));
        if place == "memory" {
            let mut piece = vec![0; 1 << 20];
            (0..bytes >> 20).for_each(|n| file.read_exact_at(n << 20, &mut piece).unwrap());
        }
        for (name, reader) in &readers {
            let mut batch = || {
                if place == "device" {
                    file.drop_page_cache().unwrap();
                }
                let blocks = bytes / BLOCK_BYTES as u64;
                let mut offset = || random.random_range(0..blocks) * BLOCK_BYTES as u64;
                let request = |_| {
                    let buffer = ReadBuffer::new(BLOCK_BYTES);
                    ReadRequest { file: &file, offset: offset(), buffer }
                };
                let requests: Vec<_> = (0..BATCH).map(request).collect();
                let start = Instant::now();
                match reader {
                    Some(reader) => reader.read_many(&mut requests.into_iter(), &mut |_, bytes| {
                        black_box(bytes.unwrap());
                    }),
                    None => requests.into_iter().for_each(|mut request| {
                        request.file.read_exact_at(request.offset, &mut request.buffer).unwrap();
                    }),
                }
                start.elapsed()
            };
            group.bench_function(*name, |bencher| {
                bencher.iter_custom(|iterations| (0..iterations).map(|_| batch()).sum());
            });
        }
        group.finish();
    }
}

criterion_group!(benches, appends, reads, many);
criterion_main!(benches);
