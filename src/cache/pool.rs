//! [`Pool`]: memory for the cache's values, in large pages ([`crate::memory::large_pages`]).
//!
//! ```text
//! reservation  | slab | slab | slab | · · · · · · |     one range of addresses, as large as the cache
//!              └ 2 MiB ┘                                may become; untouched slabs take no memory
//! slab         | piece | piece |░░| piece |░░░░░░░|     32,768 lines of 64 bytes; a bit for each
//! ```
//!
//! A piece is a run of lines, for one buffer. A piece that fits into one slab is taken from the
//! first free run that is long enough. The search begins in the slab where the last search ended,
//! and continues after the last slab with the first one. Adjacent free runs are one run, because
//! the bits do not record pieces. A piece larger than a slab starts at the start of a slab and
//! covers several.
//!
//! Invariants:
//! - A line whose bit is set belongs to one piece. The other lines are not accessed.
//! - A slab that is not resident has no bit set. A slab that becomes empty is given back to the
//!   operating system if another slab has a free line. So at most one empty slab is resident.
//! - `free_bytes` is the memory of resident slabs that belongs to no piece, and the memory of the
//!   bits. The cache counts it against its capacity, so the memory stays bounded however large the
//!   holes between pieces are.

use std::sync::Arc;

use crate::memory::large_pages::{LARGE_PAGE_BYTES, LargePages};
use crate::memory::{LINE_BYTES, LineBuf, LineLender};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, Process, lock, rank};

const SLAB_BYTES: usize = LARGE_PAGE_BYTES;
const SLAB_LINES: usize = SLAB_BYTES / LINE_BYTES;
const SLAB_WORDS: usize = SLAB_LINES / 64;

/// Smaller caches have no pool, because one partly used slab would be too large a part of them.
const MIN_CAPACITY_BYTES: usize = 32 * SLAB_BYTES;

pub(super) struct Pool {
    pages: LargePages,
    /// A forked child does not give pieces back, because another thread of the parent may have held
    /// the lock at the fork.
    process: Process,
    free_bytes: AtomicUsize,
    state: Mutex<PoolState, rank::CachePages>,
}

struct PoolState {
    /// The slabs in the order of their addresses, up to the last that was ever resident.
    slabs: Vec<Slab>,
    /// The slab of the latest piece that fits into one slab. The next search begins there.
    current: usize,
    /// Free lines in all resident slabs.
    free_lines: usize,
}

struct Slab {
    resident: bool,
    free_lines: usize,
    /// An upper bound for the length of the longest run of free lines.
    longest: usize,
    /// A bit for each line, set if the line belongs to a piece.
    used: Box<[u64; SLAB_WORDS]>,
}

impl Pool {
    /// Creates a pool for a cache of `capacity_bytes`, or returns `None` if that is less than
    /// [`MIN_CAPACITY_BYTES`] or the addresses cannot be reserved.
    pub fn new(capacity_bytes: usize) -> Option<Arc<Pool>> {
        if capacity_bytes < MIN_CAPACITY_BYTES {
            return None;
        }
        let pages = LargePages::reserve(capacity_bytes)?;
        let state = PoolState { slabs: Vec::new(), current: 0, free_lines: 0 };
        let (process, free_bytes) = (Process::current(), AtomicUsize::new(0));
        Some(Arc::new(Pool { pages, process, free_bytes, state: Mutex::new(state) }))
    }

    /// Resident bytes that belong to no piece, and the bytes of the bits.
    pub fn free_bytes(&self) -> usize {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Returns a buffer of `len` bytes with any content, or `None` if the reservation is used up,
    /// or if the buffer needs new slabs and `may_grow` returns `false` for their bytes and those of
    /// all resident slabs, the new ones included.
    pub fn buffer(
        self: &Arc<Pool>,
        len: usize,
        may_grow: impl Fn(usize, usize) -> bool,
    ) -> Option<LineBuf> {
        let lines = LineBuf::needed_bytes(len) / LINE_BYTES;
        let mut state = lock(&self.state);
        let line = state.take(lines, self.pages.bytes() / SLAB_BYTES, may_grow)?;
        self.free_bytes.store(state.free_bytes(), Ordering::Relaxed);
        drop(state);
        // SAFETY: the lines are in the mapping, because all slabs are in it, and `take` does not
        // hand out a line again until it is given back. They are initialised: the kernel filled
        // them with zeros.
        unsafe {
            let start = self.pages.start().add(line * LINE_BYTES);
            Some(LineBuf::lent(start, len, Arc::<Pool>::clone(self)))
        }
    }
}

impl LineLender for Pool {
    fn take_back(&self, buffer: LineBuf) {
        let (start, bytes) = buffer.into_raw();
        if !self.process.is_current() {
            return;
        }
        let line = (start.addr().get() - self.pages.start().addr().get()) / LINE_BYTES;
        let mut state = lock(&self.state);
        state.give_back(line, bytes / LINE_BYTES, |slab| {
            // SAFETY: no bit of this slab is set, so no piece is in it, and the lock is held.
            unsafe { self.pages.release(slab) }
        });
        self.free_bytes.store(state.free_bytes(), Ordering::Relaxed);
    }
}

impl PoolState {
    fn free_bytes(&self) -> usize {
        self.free_lines * LINE_BYTES + self.slabs.len() * (SLAB_LINES / 8)
    }

    /// Takes a run of `lines` lines in a reservation of `most_slabs` slabs. Returns its first line.
    fn take(
        &mut self,
        lines: usize,
        most_slabs: usize,
        may_grow: impl Fn(usize, usize) -> bool,
    ) -> Option<usize> {
        if lines > SLAB_LINES {
            return self.take_slabs(lines, most_slabs, may_grow);
        }
        let (before, after) = (0..self.current, self.current..self.slabs.len());
        for i in after.chain(before) {
            let slab = &mut self.slabs[i];
            if !slab.resident || slab.longest < lines {
                continue;
            }
            match slab.find(lines) {
                Ok(first) => {
                    self.current = i;
                    self.mark(i, first, lines);
                    return Some(i * SLAB_LINES + first);
                }
                Err(longest) => slab.longest = longest,
            }
        }
        let line = self.take_slabs(lines, most_slabs, may_grow)?;
        self.current = line / SLAB_LINES;
        Some(line)
    }

    /// Takes a piece in new slabs, from the start of the first one.
    fn take_slabs(
        &mut self,
        lines: usize,
        most_slabs: usize,
        may_grow: impl Fn(usize, usize) -> bool,
    ) -> Option<usize> {
        let count = lines.div_ceil(SLAB_LINES);
        let resident = self.slabs.iter().filter(|slab| slab.resident).count();
        if !may_grow(count * SLAB_BYTES, (resident + count) * SLAB_BYTES) {
            return None;
        }
        let first = self.new_slabs(count, most_slabs)?;
        for (i, at) in (first..).zip((0..lines).step_by(SLAB_LINES)) {
            self.mark(i, 0, SLAB_LINES.min(lines - at));
        }
        Some(first * SLAB_LINES)
    }

    /// Makes `count` neighbouring slabs resident. Returns the first of them.
    fn new_slabs(&mut self, count: usize, most_slabs: usize) -> Option<usize> {
        let mut run = 0;
        let in_row = self.slabs.iter().position(|slab| {
            run = if slab.resident { 0 } else { run + 1 };
            run == count
        });
        // If `self.slabs` has no such run, the absent slabs at its end are the start of one that
        // continues past this end.
        let first = in_row.map_or(self.slabs.len() - run, |last| last + 1 - count);
        let end = first.checked_add(count).filter(|&end| end <= most_slabs)?;
        self.slabs.resize_with(end.max(self.slabs.len()), Slab::absent);
        for slab in &mut self.slabs[first..end] {
            slab.resident = true;
        }
        self.free_lines += count * SLAB_LINES;
        Some(first)
    }

    /// Marks free lines of one slab as the lines of a piece.
    fn mark(&mut self, slab: usize, first: usize, lines: usize) {
        self.slabs[slab].flip(first, lines);
        self.slabs[slab].free_lines -= lines;
        self.free_lines -= lines;
    }

    /// Takes a piece's lines back. Calls `release` for each slab that becomes empty, if another
    /// slab has a free line.
    fn give_back(&mut self, line: usize, lines: usize, release: impl Fn(usize)) {
        let (mut at, end) = (line, line + lines);
        while at < end {
            let (i, first) = (at / SLAB_LINES, at % SLAB_LINES);
            let here = (end - at).min(SLAB_LINES - first);
            at += here;
            let slab = &mut self.slabs[i];
            slab.flip(first, here);
            slab.free_lines += here;
            // The freed run may have joined a free run at each of its ends. Each of these had at
            // most `longest` lines.
            slab.longest = slab.free_lines.min(2 * slab.longest + here);
            self.free_lines += here;
            if slab.free_lines == SLAB_LINES && self.free_lines > SLAB_LINES {
                slab.resident = false;
                self.free_lines -= SLAB_LINES;
                release(i);
            }
        }
    }
}

impl Slab {
    fn absent() -> Slab {
        Slab {
            resident: false,
            free_lines: SLAB_LINES,
            longest: SLAB_LINES,
            used: Box::new([0; SLAB_WORDS]),
        }
    }

    /// Returns the first line of the first run of `wanted` free lines. If there is none, the error
    /// is the length of the longest run.
    fn find(&self, wanted: usize) -> Result<usize, usize> {
        let (mut end, mut longest) = (0, 0);
        while end < SLAB_LINES {
            let start = self.next(end, false);
            end = self.next(start, true);
            if end - start >= wanted {
                return Ok(start);
            }
            longest = longest.max(end - start);
        }
        Err(longest)
    }

    /// Returns the first line at or after `from` that is used or, if `used` is `false`, free.
    /// Returns [`SLAB_LINES`] if there is none.
    fn next(&self, from: usize, used: bool) -> usize {
        let flipped = if used { 0 } else { u64::MAX };
        let mut hidden = u64::MAX << (from % 64);
        for (i, word) in self.used.iter().enumerate().skip(from / 64) {
            let word = (word ^ flipped) & hidden;
            if word != 0 {
                return 64 * i + word.trailing_zeros() as usize;
            }
            hidden = u64::MAX;
        }
        SLAB_LINES
    }

    /// Turns free lines into used ones, or used ones into free ones.
    fn flip(&mut self, first: usize, lines: usize) {
        let (mut at, end) = (first, first + lines);
        while at < end {
            let (bit, here) = (at % 64, (64 - at % 64).min(end - at));
            self.used[at / 64] ^= (u64::MAX >> (64 - here)) << bit;
            at += here;
        }
    }
}

#[cfg(all(test, not(loom), target_os = "linux"))]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn state_bytes(pool: &Pool) -> usize {
        let state = lock(&pool.state);
        state.slabs.iter().filter(|slab| slab.resident).count() * SLAB_BYTES
    }

    #[test]
    fn small_caches_have_no_pool_and_one_too_large_for_the_addresses_neither() {
        assert!(Pool::new(MIN_CAPACITY_BYTES - 1).is_none());
        assert!(Pool::new(MIN_CAPACITY_BYTES).is_some());
        assert!(Pool::new(usize::MAX).is_none());
    }

    #[test]
    fn pieces_of_all_sizes_keep_their_bytes_and_leave_nothing_behind() {
        let pool = Pool::new(MIN_CAPACITY_BYTES).unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let (mut pieces, mut refused) = (Vec::<(LineBuf, u8)>::new(), 0);
        for round in 0..60_000usize {
            // The rounds alternate between growing and shrinking.
            let grows = rng.random_bool(if round / 10_000 % 2 == 0 { 0.9 } else { 0.1 });
            if grows || pieces.is_empty() {
                let len = match rng.random_range(0..1000) {
                    0 => rng.random_range(0..3 * SLAB_BYTES),
                    1..10 => rng.random_range(0..300_000),
                    _ => rng.random_range(3_900..4_300),
                };
                let Some(mut piece) = pool.buffer(len, |_, _| true) else {
                    refused += 1;
                    continue;
                };
                assert_eq!(piece.len(), len);
                assert_eq!(piece.as_ptr().addr() % LINE_BYTES, 0);
                piece.fill(round as u8);
                pieces.push((piece, round as u8));
            } else {
                let (piece, byte) = pieces.swap_remove(rng.random_range(0..pieces.len()));
                assert!(piece.iter().all(|&found| found == byte));
            }
            let held: usize = pieces.iter().map(|(piece, _)| piece.memory_bytes()).sum();
            let free = pool.free_bytes() - lock(&pool.state).slabs.len() * (SLAB_LINES / 8);
            assert_eq!(held + free, state_bytes(&pool));
        }
        assert!(refused > 0, "the pool was never full");
        for (piece, byte) in pieces {
            assert!(piece.iter().all(|&found| found == byte));
        }
        assert_eq!(state_bytes(&pool), SLAB_BYTES);
        let slabs = &lock(&pool.state).slabs;
        assert!(slabs.iter().all(|slab| slab.free_lines == SLAB_LINES && slab.used == Box::new([0; SLAB_WORDS])));
    }

    #[test]
    fn what_was_given_back_is_used_again() {
        let pool = Pool::new(MIN_CAPACITY_BYTES).unwrap();
        // The pool is filled. Then every second piece is freed, and new pieces fill the holes
        // exactly. When the new pieces are freed too, a piece of twice their size fits into no
        // hole.
        let pieces: Vec<_> = std::iter::from_fn(|| pool.buffer(4_096, |_, _| true)).collect();
        assert_eq!(pieces.len(), 32 * (SLAB_LINES / 64));
        let mut odd: Vec<_> = pieces.into_iter().enumerate().filter(|(i, _)| i % 2 == 1).collect();
        let even: Vec<_> = std::iter::from_fn(|| pool.buffer(4_096, |_, _| true)).collect();
        assert_eq!(even.len(), odd.len());
        drop(even);
        assert!(pool.buffer(8_192, |_, _| true).is_none());
        odd.retain(|(i, _)| i % 4 == 1);
        // Each hole between two remaining pieces has the size of three pieces. The holes at the
        // ends of a slab are smaller.
        let large: Vec<_> = std::iter::from_fn(|| pool.buffer(12_288, |_, _| true)).collect();
        assert_eq!(large.len(), odd.len() - 32);
    }

    #[test]
    fn a_pool_that_may_not_grow_lends_what_it_has() {
        let pool = Pool::new(MIN_CAPACITY_BYTES).unwrap();
        assert!(pool.buffer(4_096, |_, _| false).is_none());
        let first = pool
            .buffer(4_096, |bytes, all_bytes| (bytes, all_bytes) == (SLAB_BYTES, SLAB_BYTES))
            .unwrap();
        let others = std::iter::from_fn(|| pool.buffer(4_096, |_, _| false));
        let all: Vec<_> = others.chain([first]).collect();
        assert_eq!((all.len(), state_bytes(&pool)), (SLAB_LINES / 64, SLAB_BYTES));
        assert!(pool.buffer(3 * SLAB_BYTES, |_, all_bytes| all_bytes < 4 * SLAB_BYTES).is_none());
    }

    #[test]
    fn a_piece_outlives_its_pool() {
        let pool = Pool::new(MIN_CAPACITY_BYTES).unwrap();
        let mut piece = pool.buffer(100, |_, _| true).unwrap();
        drop(pool);
        piece.fill(7);
        assert_eq!(piece[..], [7; 100]);
    }
}
