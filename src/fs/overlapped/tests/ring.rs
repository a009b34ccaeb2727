//! Tests of behaviour that only a kernel ring has. Where the kernel has no rings, or a sandbox
//! forbids them, a test that needs a ring only prints the reason. The tests of [`super`] need none.

use std::cell::Cell;
use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::*;

/// Whether this process gets rings.
fn has_rings() -> bool {
    let made = Uring::new();
    if let Err(error) = &made {
        println!("not tested: no ring: {error}");
    }
    made.is_ok()
}

/// A file that lends its descriptor to the ring, although it is not a regular file or not open for
/// reading.
#[derive(Debug)]
struct Other(OwnedFd, PathBuf);

fn other(descriptor: impl Into<OwnedFd>) -> File {
    Arc::new(Other(descriptor.into(), "other".into()))
}

impl RandomAccessFile for Other {
    fn read_exact_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::io(&self.1, "read", io::Error::other("not by the ring")))
    }

    fn len(&self) -> u64 {
        u64::MAX
    }

    fn path(&self) -> &Path {
        &self.1
    }

    fn descriptor(&self) -> Option<HeldDescriptor<'_>> {
        let descriptor: BorrowedFd<'_> = self.0.as_fd();
        Some(HeldDescriptor::lent(descriptor))
    }
}

/// The reading end and the writing end of a pipe. A read of the first ends when the test writes to
/// the second.
fn pipe() -> (File, io::PipeWriter) {
    let (reader, writer): (PipeReader, _) = io::pipe().unwrap();
    (other(reader), writer)
}

#[test]
fn an_answer_of_the_ring_comes_while_other_reads_still_wait() {
    if !has_rings() {
        return;
    }
    let reader = OverlappedReader::new(&DescriptorPool::new(8));
    let pipes: Vec<(File, io::PipeWriter)> = (0..64).map(|_| pipe()).collect();
    let request = |(file, _)| ReadRequest { file, offset: 0, buffer: ReadBuffer::new(1) };
    let mut requests = pipes.iter().map(|(file, end)| request((file, end)));
    // The answer to each request triggers the answer to the request before it, so all 64 reads are
    // in flight at one time.
    (&pipes[63].1).write_all(&[63]).unwrap();
    let mut order = Vec::new();
    reader.read_many(&mut requests, &mut |n, answer| {
        assert_eq!(*answer.unwrap(), [n as u8]);
        order.push(n);
        if let Some(before) = n.checked_sub(1) {
            (&pipes[before].1).write_all(&[before as u8]).unwrap();
        }
    });
    assert!(order.into_iter().eq((0..64).rev()));
}

#[test]
fn a_short_read_is_continued() {
    if !has_rings() {
        return;
    }
    let reader = OverlappedReader::new(&DescriptorPool::new(8));
    let ((slow, mut slow_end), (quick, mut quick_end)) = (pipe(), pipe());
    quick_end.write_all(b"quick").unwrap();
    slow_end.write_all(b"a b").unwrap();
    let writing = thread::spawn(move || {
        for piece in [&b"it "[..], b"at a tim", b"e"] {
            thread::sleep(Duration::from_millis(20));
            slow_end.write_all(piece).unwrap();
        }
    });
    let found = answers(&reader, &[(slow, 77, 15), (quick, 0, 5)]);
    assert_eq!(comparable(found), [Ok(b"a bit at a time".to_vec()), Ok(b"quick".to_vec())]);
    writing.join().unwrap();
}

/// If the panic did not wait, the kernel would write into freed memory.
#[test]
fn a_panic_of_done_waits_for_what_is_in_flight() {
    if !has_rings() {
        return;
    }
    let pool = DescriptorPool::new(8);
    let reader = OverlappedReader::new(&pool);
    let ((slow, mut slow_end), (quick, mut quick_end)) = (pipe(), pipe());
    quick_end.write_all(b"q").unwrap();
    let written = Arc::new(AtomicBool::new(false));
    let is_written = Arc::clone(&written);
    let writing = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        is_written.store(true, Ordering::SeqCst);
        // Writes only two of the four bytes. The panic waits for the read that is in flight, but
        // not for the rest of the range, which never arrives.
        slow_end.write_all(b"sl").unwrap();
        slow_end
    });
    let ranges = [(slow, 0, 4), (quick, 0, 1)];
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let mut requests = ranges.iter().map(request);
        reader.read_many(&mut requests, &mut |n, _| panic!("meant to, at {n}"));
    }));
    assert!(panic.is_err());
    assert!(written.load(Ordering::SeqCst), "it continued while the read was in flight");
    assert_eq!(pool.urings(), 0, "the ring that it left is closed");
    drop(writing.join().unwrap());
}

/// If a ring took all requests at once, a batch of a million keys would need a million buffers.
#[test]
fn a_ring_takes_requests_as_it_has_room_for_them() {
    if !has_rings() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(80);
    let file = files_of_one_pool(dir.path(), &pool, 1).remove(0);
    let reader = OverlappedReader::new(&pool);
    let made = Cell::new(0);
    let mut requests = (0..1000).map(|_| {
        made.set(made.get() + 1);
        ReadRequest { file: &file, offset: 0, buffer: ReadBuffer::new(64) }
    });
    let (mut answered, mut most) = (0, 0);
    reader.read_many(&mut requests, &mut |_, answer| {
        assert!(answer.is_ok());
        most = most.max(made.get() - answered);
        answered += 1;
    });
    // The ring has room for 64 requests, and takes another one only after an answer. The bound of
    // 65 leaves room for one request that is not yet in the ring.
    assert!(answered == 1000 && most <= 65, "{answered} {most}");
}

#[test]
fn what_the_ring_cannot_read_is_read_without_it() {
    if !has_rings() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, b"bytes").unwrap();
    let pool = DescriptorPool::new(8);
    let reader = OverlappedReader::new(&pool);
    let directory = other(std::fs::File::open(dir.path()).unwrap());
    let for_writing = other(std::fs::OpenOptions::new().write(true).open(&path).unwrap());
    let file = RealFs.open_pooled(&path, &pool).unwrap();
    let ranges = [(directory, 0, 5), (file, 0, 5), (for_writing, 0, 5)];
    let found = comparable(answers(&reader, &ranges));
    let refused = "other: cannot read: not by the ring".to_string();
    assert_eq!(found, [Err(refused.clone()), Ok(b"bytes".to_vec()), Err(refused)]);
    assert_eq!(pool.urings(), 1, "the ring is still usable");
}

/// The ring must read whole blocks to aligned addresses. The kernel would refuse other reads, and
/// threads would repeat them, which the last assertion excludes.
#[test]
fn files_past_the_systems_cache_are_read_by_the_ring_too() {
    if !has_rings() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(8);
    let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
    let path = dir.path().join("file");
    std::fs::write(&path, &bytes).unwrap();
    let file = DirectFs.open_pooled(&path, &pool).unwrap();
    let reader = OverlappedReader::new(&pool);
    let mut ranges: Vec<Range> =
        (0..200).map(|n| (Arc::clone(&file), 499 * n, 1 + 7 * n as usize % 500)).collect();
    // The end of the file is within a block.
    ranges.push((Arc::clone(&file), 90_000, 10_000));
    ranges.push((Arc::clone(&file), 0, 100_000));
    let found = answers(&reader, &ranges);
    for ((_, offset, length), found) in ranges.iter().zip(found) {
        assert!(found.unwrap() == bytes[*offset as usize..][..*length], "{length} at {offset}");
    }
    assert_eq!((pool.urings(), reader.threads.count()), (1, 0));
}

fn files_of_one_pool(dir: &Path, pool: &Arc<DescriptorPool>, count: usize) -> Vec<File> {
    let open = |n: usize| {
        let path = dir.join(n.to_string());
        std::fs::write(&path, [n as u8; 64]).unwrap();
        RealFs.open_pooled(&path, pool).unwrap()
    };
    (0..count).map(open).collect()
}

fn whole(files: &[File]) -> Vec<Range> {
    files.iter().map(|file| (Arc::clone(file), 0, 64)).collect()
}

/// After a refusal the pool requests no further ring. A refusal for lack of descriptors is an
/// exception, because it is temporary: `child_counts_descriptors` tests it.
#[test]
fn a_kernel_that_refuses_is_asked_once() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    fn refuse(error: Errno) -> io::Result<Uring> {
        ASKED.fetch_add(1, Ordering::Relaxed);
        Err(error.into())
    }
    let makers: [MakeUring; 3] =
        [|| refuse(Errno::NOSYS), || refuse(Errno::PERM), || refuse(Errno::NOMEM)];
    let dir = tempfile::tempdir().unwrap();
    for make in makers {
        let pool = DescriptorPool::new(80);
        let files = files_of_one_pool(dir.path(), &pool, 3);
        let before = ASKED.load(Ordering::Relaxed);
        for _ in 0..3 {
            let reader = OverlappedReader::with(&pool, Some(make));
            let found = answers(&reader, &whole(&files));
            assert!(found.iter().zip(0..).all(|(answer, n)| *answer.as_ref().unwrap() == [n; 64]));
        }
        assert_eq!(ASKED.load(Ordering::Relaxed) - before, 1);
        assert_eq!(pool.urings(), 0);
    }
}

#[test]
fn readers_share_rings_which_count_in_the_pool_and_end_with_the_last_reader() {
    if !has_rings() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(16);
    let files = files_of_one_pool(dir.path(), &pool, 20);
    assert_eq!(pool.open_files(), 16);
    let databases: Vec<_> = (0..1000).map(|_| OverlappedReader::new(&pool)).collect();
    for reader in &databases {
        answers(reader, &whole(&files[..3]));
    }
    assert_eq!((pool.urings(), pool.open_files()), (1, 15));
    // While two rings are lent, a third call gets none, because the bound is an eighth of 16.
    let uses = [(); 2].map(|()| pool.lend_uring(Uring::new).unwrap());
    assert!(pool.lend_uring(Uring::new).is_none());
    answers(&databases[0], &whole(&files[..3]));
    assert_eq!((pool.urings(), pool.open_files()), (2, 14));
    drop(uses);
    // If a process runs out of descriptors, the descriptors of idle rings are closed first.
    assert_eq!((pool.close_idle(1), pool.urings()), (1, 1));
    drop(databases);
    assert_eq!((pool.urings(), pool.open_files()), (0, 14));
    let small = DescriptorPool::new(7);
    answers(&OverlappedReader::new(&small), &whole(&files[..3]));
    assert_eq!(small.urings(), 0);
}

/// Each read in flight holds its file's descriptor. If the ring ignored the pool's capacity, the
/// reads of many threads together would exceed the process's limit on descriptors.
#[test]
fn reads_in_flight_keep_to_the_capacity() {
    if !has_rings() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(8);
    let files = files_of_one_pool(dir.path(), &pool, 200);
    let reader = OverlappedReader::new(&pool);
    let mut answered = 0;
    reader.read_many(&mut whole(&files).iter().map(request), &mut |n, answer| {
        assert_eq!(*answer.unwrap(), [n as u8; 64]);
        // A file that is opened while all descriptors are in use exceeds the capacity by one. The
        // ring begins no further read until the pool is within its capacity again.
        assert!(pool.open_files() + pool.urings() <= 9, "{pool:?}");
        answered += 1;
    });
    assert_eq!(answered, 200);
}

/// The test counts the descriptors of the whole process, so it needs a process of its own.
#[test]
fn nothing_is_left_in_the_process() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fs::overlapped::tests::ring::child_counts_descriptors", "--ignored"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "the other half of another test, which starts it"]
fn child_counts_descriptors() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    if !has_rings() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let before = (descriptors(), threads());
    let pool = DescriptorPool::new(100);
    let files = files_of_one_pool(dir.path(), &pool, 70);
    let readers = readers(&pool);
    for (_, reader) in &readers {
        assert!(answers(reader, &whole(&files)).iter().all(|answer| answer.is_ok()));
    }
    become_so(|| descriptors() == before.0 + 70 + 1);
    // All descriptors of the process are taken: the next ring cannot be created, but the reads
    // continue.
    drop(readers);
    let mut taken = Vec::new();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let few = rustix::process::Rlimit { current: Some(descriptors() as u64 + 20), ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    let held: Vec<_> = files.iter().map(|file| file.descriptor()).collect();
    let reader = OverlappedReader::new(&pool);
    assert!(answers(&reader, &whole(&files)).iter().all(|answer| answer.is_ok()));
    assert_eq!(pool.urings(), 0, "a ring was made without a descriptor");
    taken.truncate(taken.len() - 3);
    assert!(answers(&reader, &whole(&files)).iter().all(|answer| answer.is_ok()));
    assert_eq!(pool.urings(), 1);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    drop((reader, held, taken));
    drop(files);
    // The rings are closed, and the threads of the readers have ended.
    become_so(|| (descriptors(), threads()) == before);
}

/// Waits until something holds. A thread that has just ended or answered may still be listed, or hold
/// a descriptor, for a moment.
fn become_so(holds: impl Fn() -> bool) {
    let soon = (0..1000).any(|_| {
        let it_does = holds();
        if !it_does {
            thread::sleep(Duration::from_millis(5));
        }
        it_does
    });
    assert!(soon, "it does not hold after five seconds");
}

/// Files are opened with `NONBLOCK`, so that opening a pipe does not wait for its writer. If a
/// descriptor kept this flag, the reads of a ring could fail with "try again".
#[test]
fn open_files_wait_for_their_reads() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(8);
    let file = files_of_one_pool(dir.path(), &pool, 1).remove(0);
    let held = file.descriptor().unwrap();
    let flags = rustix::fs::fcntl_getfl(held.descriptor()).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
}
