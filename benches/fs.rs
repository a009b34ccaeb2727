//! What the seam to the operating system costs: appends to a log, reads of a file that has its
//! descriptor and of one that has lost it. `TMPDIR` chooses the file system:
//!
//! ```text
//! TMPDIR=/mnt/xfs cargo bench --bench fs
//! ```

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use maypole::fs::{DescriptorPool, Fs, RealFs, WritableFile};

const RECORD: [u8; 150] = [7; 150];
/// A log is as long as one that belongs to a memtable.
const LOG_BYTES: u64 = 16 << 20;
const FILE_BYTES: usize = 16 << 20;

/// `log`: what [`Fs::create_log`] makes of the file system. `plain`: a `write` a record.
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

/// Blocks of 4 KiB that the system has in memory. `again`: each read opens its file first.
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

criterion_group!(benches, appends, reads);
criterion_main!(benches);
