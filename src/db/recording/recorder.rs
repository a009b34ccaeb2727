//! [`LookupRecorder`]: draws lookups, and writes what was looked up to a file.
//!
//! ```text
//!   lookup ─ draws? ─► line ─► buffer of the thread's group ─ full ─► PATH ─ full ─► PATH.old
//!            rarely            64 KiB                                 32 MiB
//! ```
//!
//! **Cost.** While nothing is recorded, a lookup compares one word. Otherwise each lookup counts down
//! to the next one that is drawn, and only this one is observed and makes a line.
//!
//! **The countdown** of a thread is a random number with the geometric distribution, as if each
//! lookup were drawn with the same probability. This distribution has no memory: to begin another
//! countdown at any time changes nothing. So a thread has one countdown, for the recording that it
//! met last, however many databases record its lookups.
//!
//! **Lookups are drawn, not keys.** A sample of the keys, by their hash, would be a poor sample of
//! the lookups: it has all the lookups of a popular key or none.
//!
//! **Errors.** A lookup never fails because of its recording. The first error ends the recording.
//! It is counted, and the call that ends the recording returns it.
//!
//! Files are written through [`RealFs`], and not through the database's file system: other programs
//! read the lines, and no code of the user runs under the locks here.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::encoding::text::escape;
use crate::error::{Error, Result};
use crate::fs::{Fs, RealFs, WritableFile, with_suffix};
use crate::lookup::Outcome;
use crate::stats::{Counters, Ticker};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, assert_no_guard, lock, rank, thread_index, thread_local};

/// Threads are divided into as many groups.
const BUFFERS: usize = 8;
const BUFFER_BYTES: usize = 64 << 10;
/// The most bytes of a file of lines, but for a buffer. There are two files, so a recording takes
/// twice as much.
pub(super) const FILE_BYTES: u64 = 32 << 20;

/// See the module.
pub(crate) struct LookupRecorder {
    /// One lookup in this many is drawn; 0 while nothing is recorded. Relaxed, because a lookup may
    /// be drawn a little too late or too soon.
    one_in: AtomicU64,
    /// How many countdowns have begun with a new thread. Each thread begins at another place of the
    /// random numbers, because otherwise the first lookups of all threads would be drawn alike.
    threads: AtomicU64,
    /// Made by the first recording, because most of ten thousand keyspaces may have none.
    parts: OnceLock<Box<Parts>>,
}

struct Parts {
    /// Lines, for each group of threads.
    buffers: [Mutex<Vec<u8>, rank::RecordedLines>; BUFFERS],
    output: Mutex<Output, rank::Recording>,
}

/// The file, and what became of it.
struct Output {
    /// The number of recordings that have begun, the current one included.
    recordings: u64,
    /// `None` if nothing is recorded.
    file: Option<LinesFile>,
    /// Of the last recording: the lines in its file or files, and what ended it.
    lines: u64,
    ended: Result<()>,
}

impl LookupRecorder {
    pub fn new() -> LookupRecorder {
        LookupRecorder {
            one_in: AtomicU64::new(0),
            threads: AtomicU64::new(0),
            parts: OnceLock::new(),
        }
    }

    fn parts(&self) -> &Parts {
        self.parts.get_or_init(|| {
            let output = Output { recordings: 0, file: None, lines: 0, ended: Ok(()) };
            let buffers = std::array::from_fn(|_| Mutex::default());
            Box::new(Parts { buffers, output: Mutex::new(output) })
        })
    }

    /// Begins a recording. Returns its number.
    pub fn begin(&self, path: &Path, one_in: u32) -> Result<u64> {
        if path.exists() && !path.is_file() {
            let text = format!("{}: is no file that could be replaced", path.display());
            return Err(Error::InvalidArgument(text));
        }
        self.begin_in(Arc::new(RealFs), path, one_in)
    }

    pub(super) fn begin_in(&self, fs: Arc<dyn Fs>, path: &Path, one_in: u32) -> Result<u64> {
        if one_in == 0 {
            let text = "one lookup in 0 cannot be recorded: give 1 or more".to_string();
            return Err(Error::InvalidArgument(text));
        }
        let Parts { buffers, output } = self.parts();
        let mut output = lock(output);
        if let Some(file) = &output.file {
            let path = file.path.display();
            let text = format!("lookups are being recorded already, in {path}");
            return Err(Error::InvalidArgument(text));
        }
        output.file = Some(LinesFile::create(fs, path)?);
        (output.lines, output.ended) = (0, Ok(()));
        output.recordings += 1;
        // Lookups that were drawn for an earlier recording may have left lines.
        buffers.iter().for_each(|lines| lock(lines).clear());
        self.one_in.store(one_in.into(), Ordering::Relaxed);
        Ok(output.recordings)
    }

    /// Ends a recording, or the current one if no number is given. Returns the number of lines that
    /// were recorded.
    pub fn end(&self, recording: Option<u64>, counters: &Counters) -> Result<u64> {
        let Some(parts) = self.parts.get() else { return Ok(0) };
        let mut output = lock(&parts.output);
        if recording.is_some_and(|recording| recording != output.recordings) {
            // It had ended by an error when the next one began.
            return Ok(0);
        }
        self.one_in.store(0, Ordering::Relaxed);
        for buffer in &parts.buffers {
            let lines = std::mem::take(&mut *lock(buffer));
            output.append(&lines, counters);
        }
        output.file = None;
        output.ended.clone().map(|()| output.lines)
    }

    /// Whether this lookup is to be recorded.
    #[inline(always)]
    pub fn draws(&self) -> bool {
        let one_in = self.one_in.load(Ordering::Relaxed);
        one_in != 0 && self.counts_down(one_in)
    }

    /// Which of `count` lookups are to be recorded.
    pub fn draw(&self, count: usize) -> Vec<usize> {
        match self.one_in.load(Ordering::Relaxed) {
            0 => Vec::new(),
            one_in => (0..count).filter(|_| self.counts_down(one_in)).collect(),
        }
    }

    /// Counts down to the next lookup that is drawn. Returns whether this is the one.
    #[inline(never)]
    fn counts_down(&self, one_in: u64) -> bool {
        COUNTDOWN.with(|countdown| {
            let Countdown { of, left, .. } = countdown.get();
            if of == one_in && left > 1 {
                countdown.set(Countdown { left: left - 1, ..countdown.get() });
                return false;
            }
            self.begin_countdown(countdown, one_in)
        })
    }

    /// Begins the next countdown. Returns whether the one before has ended with this lookup.
    #[cold]
    fn begin_countdown(&self, countdown: &Cell<Countdown>, one_in: u64) -> bool {
        let Countdown { of, mut random, .. } = countdown.get();
        if random == 0 {
            let thread = self.threads.fetch_add(1, Ordering::Relaxed) + 1;
            // The multiplier is odd, so that the product is not 0.
            random = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        // The first lookup of a recording is a trial of its own, and what follows it begins anew.
        let ends = of == one_in || geometric(one_in, &mut random) == 1;
        let left = geometric(one_in, &mut random);
        countdown.set(Countdown { of: one_in, left, random });
        ends
    }

    /// Records a lookup that was drawn. Hold no guard, because this may write a file.
    pub fn add(&self, key: &[u8], outcome: Outcome, counters: &Counters) {
        assert_no_guard();
        let Parts { buffers, output } = self.parts();
        let mut lines = lock(&buffers[thread_index() % BUFFERS]);
        push_line(&mut lines, key, outcome);
        if lines.len() < BUFFER_BYTES {
            return;
        }
        let full = std::mem::take(&mut *lines);
        drop(lines);
        let mut output = lock(output);
        output.append(&full, counters);
        if output.file.is_none() {
            self.one_in.store(0, Ordering::Relaxed);
        }
    }
}

/// The countdown of a thread.
#[derive(Clone, Copy)]
struct Countdown {
    /// One lookup in this many is drawn.
    of: u64,
    /// The number of lookups until one is drawn, this one included.
    left: u64,
    /// The state of the random numbers; 0 before the first.
    random: u64,
}

thread_local! {
    static COUNTDOWN: Cell<Countdown> = const { Cell::new(Countdown { of: 0, left: 0, random: 0 }) };
}

/// A random number of trials until the first success, if one trial in `one_in` succeeds.
fn geometric(one_in: u64, random: &mut u64) -> u64 {
    // xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators,
    // scrambled", ACM Transactions on Mathematical Software 42, 2016.
    let mut x = *random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *random = x;
    let bits = x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
    // Above 0, and at most 1.
    let uniform = (bits + 1) as f64 / (1u64 << 53) as f64;
    let failure = 1.0 - 1.0 / one_in as f64;
    1 + (uniform.ln() / failure.ln()) as u64
}

impl Output {
    /// Appends lines, unless nothing is recorded. An error ends the recording.
    fn append(&mut self, lines: &[u8], counters: &Counters) {
        let Some(file) = &mut self.file else { return };
        match file.append(lines) {
            Ok(()) => self.lines += lines.iter().filter(|&&byte| byte == b'\n').count() as u64,
            Err(error) => {
                (self.file, self.ended) = (None, Err(error));
                counters.add(Ticker::LookupRecordErrors, 1);
            }
        }
    }
}

/// A file of lines. When it is full, it takes the name of the older file, and another one begins.
struct LinesFile {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// `path` with `.old` appended.
    older: PathBuf,
    file: Box<dyn WritableFile>,
}

impl LinesFile {
    fn create(fs: Arc<dyn Fs>, path: &Path) -> Result<LinesFile> {
        let path = fs.absolute(path)?;
        let older = with_suffix(&path, ".old");
        if fs.exists(&path)? {
            fs.rename(&path, &older)?;
        }
        let file = fs.create(&path)?;
        Ok(LinesFile { fs, path, older, file })
    }

    fn append(&mut self, lines: &[u8]) -> Result<()> {
        if self.file.len() >= FILE_BYTES {
            self.fs.rename(&self.path, &self.older)?;
            self.file = self.fs.create(&self.path)?;
        }
        self.file.append(lines)?;
        self.file.flush()
    }
}

/// Appends the line of a lookup.
fn push_line(lines: &mut Vec<u8>, key: &[u8], outcome: Outcome) {
    match key.iter().all(|&byte| (b' '..=b'~').contains(&byte) && byte != b'\\') {
        true => lines.extend(key),
        false => lines.extend(escape(key).as_bytes()),
    }
    lines.push(b'\t');
    match outcome {
        Outcome::Memtable => lines.extend(b"memtable"),
        Outcome::Level(level) => lines.extend([b'L', b'0' + level as u8]),
        Outcome::Deleted => lines.extend(b"deleted"),
        Outcome::Absent => lines.extend(b"absent"),
    }
    lines.push(b'\n');
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fs::{Fault, FaultFs, MemFs, Operation, Target};

    const PATH: &str = "/lookups";

    fn add_all(recorder: &LookupRecorder, counters: &Counters, keys: std::ops::Range<u64>) {
        for key in keys {
            if recorder.draws() {
                recorder.add(format!("{key:040}").as_bytes(), Outcome::Absent, counters);
            }
        }
    }

    fn text(fs: &dyn Fs, path: &str) -> String {
        String::from_utf8(fs.read(Path::new(path)).unwrap()).unwrap()
    }

    #[test]
    fn a_line_has_only_printable_bytes_and_one_tab() {
        let mut lines = Vec::new();
        push_line(&mut lines, b"a b\\x\t\n\0\x7f\xff", Outcome::Level(6));
        push_line(&mut lines, b"", Outcome::Deleted);
        assert_eq!(lines, b"a b\\\\x\\x09\\x0a\\x00\\x7f\\xff\tL6\n\tdeleted\n");
    }

    #[test]
    fn the_files_take_twice_their_bound_and_hold_the_last_lines() {
        let (fs, recorder, counters) = (MemFs::new(), LookupRecorder::new(), Counters::new());
        let shared: Arc<dyn Fs> = Arc::new(fs);
        let recording = recorder.begin_in(Arc::clone(&shared), Path::new(PATH), 1).unwrap();
        const LOOKUPS: u64 = 1_500_000;
        add_all(&recorder, &counters, 0..LOOKUPS);
        assert_eq!(recorder.end(Some(recording), &counters).unwrap(), LOOKUPS);
        let (old, new) = (text(&*shared, "/lookups.old"), text(&*shared, PATH));
        for file in [&old, &new] {
            let most = FILE_BYTES as usize + BUFFER_BYTES + 64;
            assert!(!file.is_empty() && file.len() <= most, "{} bytes", file.len());
        }
        let lines: Vec<&str> = old.lines().chain(new.lines()).collect();
        let first = LOOKUPS - lines.len() as u64;
        for (line, key) in lines.iter().zip(first..) {
            assert_eq!(*line, format!("{key:040}\tabsent"));
        }
        assert_eq!(shared.list(Path::new("/")).unwrap().len(), 2);
    }

    #[test]
    fn one_lookup_in_n_is_drawn_at_any_place_of_a_thread() {
        let (recorder, counters) = (LookupRecorder::new(), Counters::new());
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        recorder.begin_in(fs, Path::new(PATH), 64).unwrap();
        let drawn = (0..640_000).filter(|_| recorder.draws()).count();
        // The standard deviation is 99.
        assert!((9_500..10_500).contains(&drawn), "{drawn}");
        // Short threads: their first lookups are drawn as often as others.
        let first = || {
            std::thread::scope(|scope| {
                scope.spawn(|| (0..8).filter(|_| recorder.draws()).count()).join().unwrap()
            })
        };
        let drawn: usize = (0..2_000).map(|_| first()).sum();
        // Of 16,000 lookups; the standard deviation is 16.
        assert!((170..330).contains(&drawn), "{drawn}");
        assert_eq!(counters.sums().get(Ticker::LookupRecordErrors), 0);
    }

    #[test]
    fn the_first_error_ends_the_recording_and_is_counted_once() {
        let (recorder, counters) = (LookupRecorder::new(), Counters::new());
        let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        let shared: Arc<dyn Fs> = Arc::clone(&fs) as Arc<dyn Fs>;
        let recording = recorder.begin_in(Arc::clone(&shared), Path::new(PATH), 1).unwrap();
        add_all(&recorder, &counters, 0..10_000);
        fs.fail_once(Target::Only(Operation::Append), 0, Fault::Io);
        add_all(&recorder, &counters, 0..10_000);
        assert!(!recorder.draws(), "the recording goes on");
        assert_eq!(counters.sums().get(Ticker::LookupRecordErrors), 1);
        assert!(matches!(recorder.end(Some(recording), &counters), Err(Error::Io { .. })));
        assert_eq!(counters.sums().get(Ticker::LookupRecordErrors), 1);
        // The end may fail too.
        let last = recorder.begin_in(Arc::clone(&shared), Path::new(PATH), 1).unwrap();
        add_all(&recorder, &counters, 0..10);
        fs.fail_once(Target::Only(Operation::Append), 0, Fault::Io);
        assert!(recorder.end(Some(last), &counters).is_err());
        assert_eq!(counters.sums().get(Ticker::LookupRecordErrors), 2);
        // The next recording begins as if nothing had happened, and the end of the first one does
        // not end it.
        let next = recorder.begin_in(shared, Path::new(PATH), 1).unwrap();
        let _ = recorder.end(Some(recording), &counters);
        add_all(&recorder, &counters, 0..10);
        assert_eq!(recorder.end(Some(next), &counters).unwrap(), 10);
    }

    #[test]
    fn there_is_one_recording_at_a_time() {
        let recorder = LookupRecorder::new();
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        recorder.begin_in(Arc::clone(&fs), Path::new(PATH), 1).unwrap();
        for (one_in, expected) in [(0, "one lookup in 0"), (1, "already, in /lookups")] {
            let refused = recorder.begin_in(Arc::clone(&fs), Path::new("/other"), one_in);
            assert!(refused.unwrap_err().to_string().contains(expected));
        }
        assert!(!fs.exists(Path::new("/other")).unwrap());
    }
}
