//! Tests of the contract of every kind of read: by a kernel ring (where there is one), by threads,
//! and from memory. `read_exact_at`, one read after the other, is the oracle. Tests of the ring
//! alone are in `ring.rs`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::error::Error;
use crate::fs::RandomAccessFile;
use crate::fs::{DirectFs, Fault, FaultFs, Fs, MemFs, Operation, RealFs, Target};

#[cfg(target_os = "linux")]
#[path = "ring.rs"]
mod ring;

type File = Arc<dyn RandomAccessFile>;

/// Each kind of reader, with its name. Where the kernel has no ring, both read by threads.
fn readers(pool: &Arc<DescriptorPool>) -> [(&'static str, OverlappedReader); 2] {
    [("ring", OverlappedReader::new(pool)), ("threads", OverlappedReader::by_threads(pool))]
}

/// A file, and the offset and length of a range in it.
type Range = (File, u64, usize);

fn request((file, offset, bytes): &Range) -> ReadRequest<'_> {
    ReadRequest { file, offset: *offset, buffer: ReadBuffer::new(*bytes) }
}

/// The answers of `reader`, in the order of the requests. Each must arrive once.
fn answers(reader: &OverlappedReader, ranges: &[Range]) -> Vec<Result<Vec<u8>>> {
    let mut found: Vec<Option<Result<Vec<u8>>>> = ranges.iter().map(|_| None).collect();
    let starts = RefCell::new(Vec::new());
    let mut requests = ranges.iter().map(|range| {
        let request = request(range);
        starts.borrow_mut().push(request.buffer.as_ptr());
        request
    });
    reader.read_many(&mut requests, &mut |n, answer| {
        assert!(found[n].is_none(), "{n} is answered twice");
        found[n] = Some(answer.map(|bytes| {
            assert_eq!(bytes.as_ptr(), starts.borrow()[n], "the buffer is not that of {n}");
            bytes.to_vec()
        }));
    });
    found.into_iter().map(|answer| answer.expect("answered")).collect()
}

fn one_by_one(ranges: &[Range]) -> Vec<Result<Vec<u8>>> {
    let read = |(file, offset, bytes): &Range| {
        let mut buffer = vec![0; *bytes];
        file.read_exact_at(*offset, &mut buffer).map(|()| buffer)
    };
    ranges.iter().map(read).collect()
}

/// The answers, with each error as its text, which names the file, the operation and the reason.
fn comparable(answers: Vec<Result<Vec<u8>>>) -> Vec<Result<Vec<u8>, String>> {
    answers.into_iter().map(|answer| answer.map_err(|error| error.to_string())).collect()
}

/// `count` files of random bytes and lengths, up to 100 KB.
fn write_files(fs: &dyn Fs, dir: &Path, count: usize, random: &mut StdRng) -> Vec<PathBuf> {
    let write = |n: usize| {
        let path = dir.join(format!("file {n}"));
        let mut file = fs.create(&path).unwrap();
        let bytes = random.random_range(0..100_000);
        file.append(&(0..bytes).map(|_| random.random()).collect::<Vec<u8>>()).unwrap();
        file.flush().unwrap();
        path
    };
    (0..count).map(write).collect()
}

/// Random ranges: short, long and empty, within a file, past its end, and at offsets that no file
/// can have.
fn ranges(files: &[File], count: usize, random: &mut StdRng) -> Vec<Range> {
    let range = |_| {
        let file = &files[random.random_range(0..files.len())];
        let offset = match random.random_range(0..20) {
            0 => [u64::MAX, u64::MAX - 1, i64::MAX as u64, 1 << 63][random.random_range(0..4)],
            1 => file.len() + random.random_range(0..5000),
            2 => file.len(),
            _ => random.random_range(0..file.len().max(1)),
        };
        let bytes = match random.random_range(0..10) {
            0 => 0,
            1 => random.random_range(0..70_000),
            _ => random.random_range(0..5000),
        };
        (Arc::clone(file), offset, bytes)
    };
    (0..count).map(range).collect()
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn every_way_of_reading_answers_as_one_read_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let memory = MemFs::new();
    let fault: &dyn Fs = &FaultFs::new(Arc::new(RealFs));
    let mut errors = 0;
    for seed in 0..40 {
        let random = &mut StdRng::seed_from_u64(seed);
        // 40 files need a descriptor of the pool. A capacity of 4 permits no ring. A capacity of 8
        // permits one, and closes the descriptors of most files. A capacity of 100 closes none.
        let pool = DescriptorPool::new([4, 8, 100][seed as usize % 3]);
        let mut files = Vec::new();
        let real = dir.path();
        let places: [(&dyn Fs, &Path); 3] =
            [(&memory, Path::new("/")), (&RealFs, real), (&DirectFs, real)];
        for (fs, dir) in places {
            let paths = write_files(fs, dir, 20, random);
            files.extend(paths.iter().map(|path| fs.open_pooled(path, &pool).unwrap()));
            files.extend(paths.iter().take(3).map(|path| fs.open(path).unwrap()));
        }
        files.push(fault.open(&dir.path().join("file 0")).unwrap());
        // Every second seed reads only files with a descriptor. The others read files of all kinds.
        let files = if seed % 2 == 0 { &files[23..69] } else { &files };
        for count in [0, 1, 2, random.random_range(3..64), 64, 65, random.random_range(66..500)] {
            let ranges = ranges(files, count, random);
            let expected = comparable(one_by_one(&ranges));
            errors += expected.iter().filter(|answer| answer.is_err()).count();
            for (name, reader) in readers(&pool) {
                let found = comparable(answers(&reader, &ranges));
                assert!(found == expected, "seed {seed}, {count} ranges by {name}");
            }
        }
    }
    assert!(errors > 1000, "{errors}");
}

#[test]
fn many_threads_read_at_one_time_from_more_files_than_have_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(16);
    let random = &mut StdRng::seed_from_u64(1);
    let paths = write_files(&RealFs, dir.path(), 50, random);
    let files: Vec<File> =
        paths.iter().map(|path| RealFs.open_pooled(path, &pool).unwrap()).collect();
    for (name, reader) in readers(&pool) {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (files, reader) = (&files, &reader);
                scope.spawn(move || {
                    let random = &mut StdRng::seed_from_u64(thread);
                    for _ in 0..20 {
                        let ranges = ranges(files, 100, random);
                        let expected = comparable(one_by_one(&ranges));
                        let found = comparable(answers(reader, &ranges));
                        assert!(found == expected, "by {name}");
                    }
                });
            }
        });
    }
    drop(files);
    assert_eq!(pool.open_files(), 0);
}

/// A file each of whose reads waits for a permit, and which counts the reads that have begun.
#[derive(Debug)]
struct Gate {
    path: PathBuf,
    permits: Mutex<Receiver<()>>,
    waiting: AtomicUsize,
}

impl Gate {
    fn new() -> (Sender<()>, Arc<Gate>) {
        let (sender, permits) = channel();
        let permits = Mutex::new(permits);
        (sender, Arc::new(Gate { path: "gate".into(), permits, waiting: AtomicUsize::new(0) }))
    }
}

impl RandomAccessFile for Gate {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        assert!(offset != 13, "meant to panic");
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.permits.lock().unwrap().recv().unwrap();
        buffer.fill(offset as u8);
        Ok(())
    }

    fn len(&self) -> u64 {
        u64::MAX
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Each of these reads waits until 16 of them have begun, so reads one after the other would never
/// end.
#[test]
fn threads_read_at_one_time() {
    #[derive(Debug)]
    struct Meeting(Barrier, PathBuf);
    impl RandomAccessFile for Meeting {
        fn read_exact_at(&self, _: u64, buffer: &mut [u8]) -> Result<()> {
            self.0.wait();
            buffer.fill(1);
            Ok(())
        }
        fn len(&self) -> u64 {
            1
        }
        fn path(&self) -> &Path {
            &self.1
        }
    }
    let file: File = Arc::new(Meeting(Barrier::new(16), "meeting".into()));
    let pool = DescriptorPool::new(8);
    for (_, reader) in readers(&pool) {
        let ranges: Vec<Range> = (0..16).map(|_| (Arc::clone(&file), 0, 1)).collect();
        assert!(answers(&reader, &ranges).iter().all(|answer| answer.is_ok()));
    }
}

#[test]
fn a_panic_of_done_leaves_the_reader_usable() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(8);
    let path = &write_files(&RealFs, dir.path(), 1, &mut StdRng::seed_from_u64(9))[0];
    let file = RealFs.open_pooled(path, &pool).unwrap();
    let ranges: Vec<Range> = (0..200).map(|n| (Arc::clone(&file), n, 100)).collect();
    let expected = comparable(one_by_one(&ranges));
    for (name, reader) in readers(&pool) {
        for nth in [0, 1, 63, 64, 199] {
            let mut answered = 0;
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                reader.read_many(&mut ranges.iter().map(request), &mut |_, _| {
                    assert!(answered < nth, "meant to panic");
                    answered += 1;
                });
            }));
            assert!(panic.is_err() && answered == nth, "{name}");
            assert!(comparable(answers(&reader, &ranges)) == expected, "{name}");
        }
    }
}

#[test]
fn a_panic_of_a_file_reaches_the_caller() {
    for (_, reader) in readers(&DescriptorPool::new(8)) {
        let (permit, gate) = Gate::new();
        // Three reads do not panic, and each of them waits for a permit. With four permits none of
        // them waits for ever.
        (0..4).for_each(|_| permit.send(()).unwrap());
        let file: File = gate;
        let ranges: Vec<Range> =
            [1, 2, 13, 3].map(|offset| (Arc::clone(&file), offset, 1)).to_vec();
        let read = || answers(&reader, &ranges);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).is_err());
    }
}

#[test]
fn each_read_is_counted_and_can_be_made_to_fail() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(100);
    for inner in [Arc::new(RealFs) as Arc<dyn Fs>, Arc::new(MemFs::new())] {
        let fs = FaultFs::new(Arc::clone(&inner));
        let in_memory = format!("{inner:?}") != "RealFs";
        let place = if in_memory { Path::new("/") } else { dir.path() };
        let paths = write_files(&fs, place, 1, &mut StdRng::seed_from_u64(7));
        let file = fs.open_pooled(&paths[0], &pool).unwrap();
        let ranges: Vec<Range> = (0..100).map(|n| (Arc::clone(&file), n, 10)).collect();
        for (_, reader) in readers(&pool) {
            let expected = comparable(answers(&reader, &ranges));
            for nth in [0, 1, 50, 99] {
                let before = fs.calls(Target::Only(Operation::ReadExactAt));
                fs.fail_once(Target::Only(Operation::ReadExactAt), nth, Fault::Io);
                let found = comparable(answers(&reader, &ranges));
                assert_eq!(fs.calls(Target::Only(Operation::ReadExactAt)) - before, 100);
                for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    match n as u64 == nth {
                        true => assert!(found.as_ref().unwrap_err().contains("cannot read: ")),
                        false => assert_eq!(found, expected),
                    }
                }
            }
        }
    }
}

/// A process may open and close many databases. Threads that outlived their reader would pile up.
#[test]
fn threads_come_when_they_are_needed_and_end_with_the_reader() {
    let pool = DescriptorPool::new(8);
    let reader = OverlappedReader::by_threads(&pool);
    let shared = Arc::downgrade(&reader.threads.0);
    assert_eq!(reader.threads.count(), 0);
    let (permit, gate) = Gate::new();
    let file: File = Arc::<Gate>::clone(&gate);
    let ranges: Vec<Range> = (0..100).map(|_| (Arc::clone(&file), 0, 1)).collect();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| answers(&reader, &ranges).len());
        // The 16 threads and the caller have each begun one read. All 17 reads wait: one for a
        // permit, the others for the mutex of the permits.
        eventually(|| gate.waiting.load(Ordering::SeqCst) == 17);
        assert_eq!(reader.threads.count(), 16);
        (0..100).for_each(|_| permit.send(()).unwrap());
        assert_eq!(reading.join().unwrap(), 100);
    });
    // The threads wait for the next call, which uses them again.
    (0..100).for_each(|_| permit.send(()).unwrap());
    assert_eq!(answers(&reader, &ranges).len(), 100);
    assert_eq!(reader.threads.count(), 16);
    drop(reader);
    assert_eq!(shared.strong_count(), 0, "a thread is left");
}

#[test]
fn no_thread_has_a_file_when_the_call_has_returned() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(8);
    let path = &write_files(&RealFs, dir.path(), 1, &mut StdRng::seed_from_u64(4))[0];
    for (_, reader) in readers(&pool) {
        for _ in 0..200 {
            let file = RealFs.open_pooled(path, &pool).unwrap();
            let ranges: Vec<Range> = (0..40).map(|n| (Arc::clone(&file), n, 10)).collect();
            answers(&reader, &ranges);
            drop(ranges);
            assert_eq!(Arc::strong_count(&file), 1);
        }
    }
}

#[test]
fn an_error_names_the_file_and_hides_no_other_answer() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(8);
    let paths = write_files(&RealFs, dir.path(), 30, &mut StdRng::seed_from_u64(5));
    let files: Vec<File> =
        paths.iter().map(|path| RealFs.open_pooled(path, &pool).unwrap()).collect();
    // One file is removed and another one replaced, which never happens to a table of an open
    // database.
    std::fs::remove_file(&paths[2]).unwrap();
    std::fs::copy(&paths[4], dir.path().join("new")).unwrap();
    std::fs::rename(dir.path().join("new"), &paths[3]).unwrap();
    for (name, reader) in readers(&pool) {
        let ranges: Vec<Range> = files.iter().map(|file| (Arc::clone(file), 0, 1)).collect();
        let found = answers(&reader, &ranges);
        for (n, answer) in found.iter().enumerate() {
            match (n, answer) {
                (2, Err(Error::Io { path, operation, .. })) => {
                    assert_eq!((path, *operation), (&paths[2], "open again"));
                }
                (3, Err(Error::Corruption { file, .. })) => assert_eq!(*file, paths[3]),
                (_, answer) => assert!(answer.is_ok() && n != 2 && n != 3, "{name} {n}"),
            }
        }
    }
}

/// Waits until another thread makes `holds` return `true`.
fn eventually(holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}
