//! Tables that are forged to take much memory or work. Each is opened, verified, scanned and
//! queried. The memory and the reads that this takes must be in proportion to the size of the file;
//! `src/table/format/limits.rs` has the limits that ensure it. The tests are in one source file,
//! because all use the builder at its head.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use maypole::fs::{FileLock, Fs, MemFs, RandomAccessFile, WritableFile};
use maypole::table::SstReader;
use maypole::{Error, Result};

use super::{LIVE_BYTES, PEAK_BYTES, alone};

/// The most bytes of memory for each byte of the file, in addition to [`MEMORY_BYTES`]. Separators
/// need the most: they may take 16 times the size of the file, and whenever their buffer doubles,
/// the old and the new buffer exist together, which is up to three times what they hold. Range
/// deletions need less, although each of n ranges is at up to about 2 log n nodes of a segment tree
/// (`src/range_tombstones.rs`).
const MEMORY_FACTOR: u64 = 48;
/// Bytes of memory that even the smallest file may take: a megabyte of each kind of metadata, grown
/// by doubling, and the blocks that a reader keeps and reads ahead.
const MEMORY_BYTES: u64 = 8 << 20;
/// All calls of [`ask`] together read at most this many times the bytes of the file, plus 1 MiB.
const READ_FACTOR: u64 = 8;

/// A table being forged. Its checksums have type 0, which is none.
#[derive(Default)]
struct Forged {
    bytes: Vec<u8>,
    metaindex: Vec<u8>,
}

/// The place of a block: its offset, and the number of its payload bytes.
#[derive(Clone, Copy)]
struct Handle(u64, u64);

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn handle(Handle(offset, bytes): Handle) -> Vec<u8> {
    [varint(offset), varint(bytes)].concat()
}

/// An entry of a block. Its key is the first `shared` bytes of the key before, followed by
/// `suffix`.
fn entry(shared: usize, suffix: &[u8], value: &[u8]) -> Vec<u8> {
    let lengths = [shared, suffix.len(), value.len()].map(|length| varint(length as u64)).concat();
    [&lengths, suffix, value].concat()
}

/// A block whose only restart point is its first entry.
fn block(entries: &[u8]) -> Vec<u8> {
    [entries, &[0; 4], &1u32.to_le_bytes()].concat()
}

/// An internal key with the sequence number 255.
fn internal_key(user_key: &[u8], kind: u8) -> Vec<u8> {
    [user_key, &[kind, 0xff, 0, 0, 0, 0, 0, 0]].concat()
}

/// An entry with a key of `long` bytes, and `count` entries whose keys are this key with a number
/// appended.
fn sharing(long: usize, count: u32, value: &[u8]) -> Vec<u8> {
    let mut out = entry(0, &vec![b'x'; long], value);
    (0..count).for_each(|i| out.extend(entry(long, &i.to_be_bytes(), value)));
    out
}

/// A ZSTD frame of `bytes` zeros. Each of its blocks takes four bytes and decompresses to 128 KiB.
/// In front of the frame is the length of the content, as the table format requires.
fn zstd_zeros(bytes: u32) -> Vec<u8> {
    let mut out = varint(bytes.into());
    out.extend([0x28, 0xb5, 0x2f, 0xfd, 0xa0]);
    out.extend(bytes.to_le_bytes());
    let mut left = bytes;
    while left > 0 {
        let size = left.min(128 << 10);
        left -= size;
        let header = u32::from(left == 0) | 1 << 1 | size << 3;
        out.extend(&header.to_le_bytes()[..3]);
        out.push(0);
    }
    out
}

impl Forged {
    fn block_of_type(&mut self, payload: &[u8], compression: u8) -> Handle {
        let handle = Handle(self.bytes.len() as u64, payload.len() as u64);
        self.bytes.extend_from_slice(payload);
        self.bytes.push(compression);
        self.bytes.extend([0; 4]);
        handle
    }

    fn block(&mut self, payload: &[u8]) -> Handle {
        self.block_of_type(payload, 0)
    }

    fn name(&mut self, name: &str, place: Handle) {
        self.metaindex.extend(entry(0, name.as_bytes(), &handle(place)));
    }

    /// Adds the properties `more`, and properties that state the form of the index: its type is
    /// `index_type`, its separators are user keys, and its handles are not delta-encoded (the
    /// default).
    fn properties(&mut self, index_type: u32, more: &[u8]) {
        let mut entries =
            entry(0, b"rocksdb.block.based.table.index.type", &index_type.to_le_bytes());
        entries.extend(entry(0, b"rocksdb.index.key.is.user.key", &[1]));
        entries.extend_from_slice(more);
        let place = self.block(&block(&entries));
        self.name("rocksdb.properties", place);
    }

    /// One data block, and the index entry that leads to it.
    fn data(&mut self) -> Vec<u8> {
        let place = self.block(&block(&entry(0, &internal_key(b"key", 1), b"value")));
        entry(0, b"key", &handle(place))
    }

    fn finish(mut self, index: Handle) -> Vec<u8> {
        let entries = std::mem::take(&mut self.metaindex);
        let metaindex = self.block(&block(&entries));
        let mut footer = [&[0][..], &handle(metaindex), &handle(index)].concat();
        footer.resize(41, 0);
        footer.extend(5u32.to_le_bytes());
        footer.extend(0x88e2_41b7_85f4_cff7u64.to_le_bytes());
        self.bytes.extend(footer);
        self.bytes
    }

    /// A table with one data block and a plain index for it.
    fn finish_plainly(mut self) -> Vec<u8> {
        let entries = self.data();
        let index = self.block(&block(&entries));
        self.finish(index)
    }
}

/// The tables, and their descriptions.
fn tables() -> Vec<(&'static str, Vec<u8>)> {
    let mut tables = Vec::new();
    let plain = || {
        let mut forged = Forged::default();
        forged.properties(0, &[]);
        forged
    };
    tables.push(("a sound table", plain().finish_plainly()));

    let mut forged = plain();
    forged.metaindex.extend(sharing(100_000, 30_000, &[0, 0]));
    tables.push(("names of the metaindex that share a long prefix", forged.finish_plainly()));

    let mut forged = plain();
    (0..100_000).for_each(|_| forged.metaindex.extend(entry(0, b"", &[0, 0])));
    tables.push(("a metaindex of many names", forged.finish_plainly()));

    let mut forged = plain();
    let place = forged.block(&[7; 100_000]);
    (0..20_000).for_each(|_| forged.name("again", place));
    tables.push(("a metaindex that names a block many times", forged.finish_plainly()));

    let mut forged = Forged::default();
    forged.properties(0, &sharing(100_000, 30_000, b""));
    tables.push(("names of properties that share a long prefix", forged.finish_plainly()));

    let mut forged = Forged::default();
    let many: Vec<u8> = (0..60_000u32).flat_map(|i| entry(0, &i.to_be_bytes(), b"")).collect();
    forged.properties(0, &many);
    tables.push(("many properties", forged.finish_plainly()));

    for (what, long, count) in
        [("separators that share a long prefix", 100_000, 30_000), ("many small blocks", 1, 60_000)]
    {
        let mut forged = plain();
        let first = forged.block(&block(&[]));
        let mut entries = entry(0, &vec![b'x'; long], &handle(first));
        for i in 0..count {
            let place = forged.block(&block(&[]));
            entries.extend(entry(long, &u32::to_be_bytes(i)[1..], &handle(place)));
        }
        let index = forged.block(&block(&entries));
        tables.push((what, forged.finish(index)));
    }

    let mut forged = plain();
    let place = forged.block(&block(&entry(0, &internal_key(b"key", 1), &[7; 50_000])));
    let entries: Vec<u8> =
        (0..100_000u32).flat_map(|i| entry(0, &i.to_be_bytes(), &handle(place))).collect();
    let index = forged.block(&block(&entries));
    tables.push(("an index that names a block many times", forged.finish(index)));

    let mut forged = Forged::default();
    forged.properties(2, &[]);
    // The entries contain the handle of their own block, so the block's length must be known in
    // advance. Each entry has three lengths, four bytes of key, and a handle whose size field takes
    // three bytes.
    let offset = forged.bytes.len() as u64;
    let itself = Handle(offset, 20_000 * (3 + 4 + varint(offset).len() as u64 + 3) + 8);
    let entries: Vec<u8> =
        (0..20_000u32).flat_map(|i| entry(0, &i.to_be_bytes(), &handle(itself))).collect();
    assert_eq!(entries.len() as u64 + 8, itself.1);
    let index = forged.block(&block(&entries));
    tables.push(("an index of indexes that leads to itself", forged.finish(index)));

    let mut forged = Forged::default();
    forged.properties(2, &[]);
    let data = forged.data();
    let part = forged.block(&block(&[data, vec![0; 0]].concat()));
    let entries: Vec<u8> =
        (0..100_000u32).flat_map(|i| entry(0, &i.to_be_bytes(), &handle(part))).collect();
    let index = forged.block(&block(&entries));
    tables.push(("an index of indexes that repeats a part", forged.finish(index)));

    let mut forged = Forged::default();
    forged.properties(2, &[]);
    let mut entries = Vec::new();
    for i in 0..60_000u32 {
        let part = forged.block(&block(&[]));
        entries.extend(entry(0, &i.to_be_bytes(), &handle(part)));
    }
    let index = forged.block(&block(&entries));
    tables.push(("an index of many empty indexes", forged.finish(index)));

    let mut forged = plain();
    let filter = forged.block(&[0xff; 60_000]);
    let entries: Vec<u8> =
        (0..50_000u32).flat_map(|i| entry(0, &i.to_be_bytes(), &handle(filter))).collect();
    let place = forged.block(&block(&entries));
    forged.name("partitionedfilter.rocksdb.BuiltinBloomFilter", place);
    tables.push(("a filter that repeats a part", forged.finish_plainly()));

    let mut forged = plain();
    let mut entries = Vec::new();
    for i in 0..60_000u32 {
        let filter = forged.block(&[]);
        entries.extend(entry(0, &i.to_be_bytes(), &handle(filter)));
    }
    let place = forged.block(&block(&entries));
    forged.name("partitionedfilter.rocksdb.BuiltinBloomFilter", place);
    tables.push(("a filter of many empty parts", forged.finish_plainly()));

    // Range deletions.
    let mut forged = plain();
    let mut entries = entry(0, &internal_key(&[b'x'; 100_000], 15), b"y");
    (0..30_000u32).for_each(|i| {
        entries.extend(entry(100_000, &internal_key(&i.to_be_bytes(), 15), b"y"));
    });
    let place = forged.block(&block(&entries));
    forged.name("rocksdb.range_del", place);
    tables.push(("range deletions that share a long prefix", forged.finish_plainly()));

    let mut forged = plain();
    let entries: Vec<u8> = (0..60_000u32)
        .flat_map(|i| {
            let (begin, end) = (i.to_be_bytes(), (0xff_ffff - i).to_be_bytes());
            entry(0, &internal_key(&begin[1..], 15), &end[1..])
        })
        .collect();
    let place = forged.block(&block(&entries));
    forged.name("rocksdb.range_del", place);
    tables.push(("range deletions within each other", forged.finish_plainly()));

    // Compressed metadata: frames of 32 KiB that decompress to a gigabyte, and one that falsely
    // claims four gigabytes.
    for name in [
        "rocksdb.range_del",
        "fullfilter.rocksdb.BuiltinBloomFilter",
        "partitionedfilter.rocksdb.BuiltinBloomFilter",
    ] {
        let mut forged = plain();
        let place = forged.block_of_type(&zstd_zeros(1 << 30), 7);
        forged.name(name, place);
        tables.push((name, forged.finish_plainly()));
    }
    for (what, payload) in [
        ("a compressed index", zstd_zeros(1 << 30)),
        (
            "a compressed index that claims 4 GiB",
            [varint(u32::MAX.into()), vec![0; 200_000]].concat(),
        ),
    ] {
        let mut forged = plain();
        let index = forged.block_of_type(&payload, 7);
        tables.push((what, forged.finish(index)));
    }
    let mut forged = Forged::default();
    let place = forged.block_of_type(&zstd_zeros(1 << 30), 7);
    forged.name("rocksdb.properties", place);
    tables.push(("compressed properties", forged.finish_plainly()));

    // Data blocks of 200 bytes that claim to decompress to 4 GiB, more than their codec (Snappy,
    // LZ4, ZSTD) can make of 200 bytes.
    for compression in [1, 4, 7] {
        let mut forged = plain();
        let payload = [varint(u32::MAX.into()), vec![0; 200]].concat();
        let data = forged.block_of_type(&payload, compression);
        let index = forged.block(&block(&entry(0, b"key", &handle(data))));
        tables.push(("data that claims 4 GiB", forged.finish(index)));
    }

    // Entries of three bytes, all with one key.
    let mut forged = plain();
    let mut entries = entry(0, &internal_key(b"key", 1), b"");
    (0..100_000).for_each(|_| entries.extend([11, 0, 0]));
    let data = forged.block(&block(&entries));
    let index = forged.block(&block(&entry(0, b"key", &handle(data))));
    tables.push(("a block of many entries", forged.finish(index)));
    tables
}

/// Makes every kind of query of a table. Only errors are returned.
fn ask(fs: &dyn Fs) -> Result<()> {
    let reader = SstReader::open_in(fs, "t.sst")?;
    let verified = reader.verify().map(drop);
    let filters = reader.filter().map(drop);
    let mut entries = reader.entries();
    let scanned = loop {
        match entries.next_entry() {
            Ok(Some(_)) => {}
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let asked = reader.may_contain(b"key").map(drop);
    reader.range_may_match(b"key", Some(b"kez"));
    reader.range_deletions();
    verified.and(filters).and(scanned).and(asked)
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_hostile_table_takes_memory_and_work_in_proportion_to_its_size() {
    let _turn = alone();
    let (mut worst_memory, mut worst_work) = (0.0f64, 0.0f64);
    println!("{:>9} {:>10} {:>7}  table", "bytes", "peak", "reads");
    for (what, bytes) in tables() {
        let file_bytes = bytes.len() as u64;
        let fs = ReadFs::new(&bytes);
        drop(bytes);
        let before = LIVE_BYTES.load(Relaxed);
        PEAK_BYTES.store(before, Relaxed);
        let answer = ask(&fs);
        let peak = (PEAK_BYTES.load(Relaxed) - before) as u64;
        let read = fs.read_bytes.load(Relaxed);
        let times = |bytes| bytes as f64 / file_bytes as f64;
        let verdict = match &answer {
            Ok(()) => "read".to_string(),
            Err(Error::Corruption { expected, .. }) => format!("refused: expected {expected}"),
            Err(error) => panic!("{what}: {error}"),
        };
        println!("{file_bytes:>9} {peak:>10} {:>6.1}x  {what}: {verdict}", times(read));
        assert!(what != "a sound table" || answer.is_ok());
        assert!(
            peak <= MEMORY_FACTOR * file_bytes + MEMORY_BYTES,
            "{what}: {peak} bytes for a file of {file_bytes}"
        );
        assert!(
            read <= READ_FACTOR * file_bytes + (1 << 20),
            "{what}: {read} bytes read of a file of {file_bytes}"
        );
        if file_bytes > 100_000 {
            worst_memory = worst_memory.max(times(peak));
            worst_work = worst_work.max(times(read));
        }
    }
    println!("at most {worst_memory:.0} times the file in memory, and {worst_work:.1} times read");
}

/// A file system in memory with one file, `t.sst`, that counts the bytes that are read.
#[derive(Debug)]
struct ReadFs {
    inner: MemFs,
    read_bytes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct ReadFile {
    inner: Arc<dyn RandomAccessFile>,
    read_bytes: Arc<AtomicU64>,
}

impl ReadFs {
    fn new(bytes: &[u8]) -> ReadFs {
        let inner = MemFs::new();
        let mut file = inner.create(Path::new("t.sst")).unwrap();
        file.append(bytes).unwrap();
        file.sync().unwrap();
        ReadFs { inner, read_bytes: Arc::default() }
    }
}

impl RandomAccessFile for ReadFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_bytes.fetch_add(buffer.len() as u64, Relaxed);
        self.inner.read_exact_at(offset, buffer)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl Fs for ReadFs {
    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let inner = self.inner.open(path)?;
        Ok(Arc::new(ReadFile { inner, read_bytes: Arc::clone(&self.read_bytes) }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.inner.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.inner.hard_link(existing, new)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }
}
