//! Gaussian elimination: step 2 of building. The textbook version is in `reference`.
//!
//! A key's row occupies w slots from its start on. Rows become a triangular band: every slot holds
//! at most one row, whose first coefficient belongs to that slot.
//!
//! ```text
//! slot      0 1 2 3 4 5 6 7 8 9        To add a row: go to the slot of its first coefficient.
//! row of 0  1 . 1 1                    Empty: the row stays there.
//! row of 1    1 1 . 1                  Taken: XOR with the row there, which clears that
//! row of 3        1 1 . 1              coefficient, and go on to the next one that is set.
//! row of 4          1 . . 1            Nothing left: the equation depends on earlier ones. Its
//! (2, 5.. empty)                       fingerprint is then 0 (it holds) or not (it cannot).
//! ```
//!
//! **Bumping.** A *bucket* is a run of start positions, divided into three *classes*
//! ([`shape`](crate::burr::shape)). Buckets are filled from left to right, and the classes
//! of a bucket in order. Class 0 is the right end of the bucket. Class 2 is the left end, which
//! meets the overflow of the previous bucket. The first class with a key whose equation cannot hold
//! is rolled back: its rows are removed. This class and the classes after it are *bumped*: their
//! keys go to the next layer. The bucket's threshold records how many classes were kept. A class is
//! kept or bumped as a whole, so the result does not depend on the order of its keys.
//!
//! **Two streams.** The keys of a layer are eliminated window after window: a [`Window`] is a run
//! of buckets whose keys fit into the cache. Each step of an elimination waits for the previous
//! step (load, XOR, count zeros, load …), so a single chain of steps leaves the processor idle. Two
//! chains, the *streams*, run interleaved and without branches on the data: one takes the left half
//! of the window's buckets, the other takes the right half. A third stream gains nothing. The
//! streams share no slot as long as the last bucket of the left half is not filled: a row is
//! reduced only by rows of its own bucket and of the buckets to the left, so no row extends more
//! than w - 1 slots past the bucket of its key.
//!
//! ```text
//! left stream  ->                   right stream  ->
//! | 0 | 1 | ... | seam - 2 | seam - 1 | seam      | seam + 1 | ...
//!                            second     class 0;
//!                                       the rest third
//! ```
//!
//! The border of the two halves is the *seam*, and bucket `seam` is the first of the right half.
//! The rows of the bucket before it, `seam - 1`, overflow into the slots of bucket `seam`. The
//! order of the drawing follows from this:
//!
//! - Bucket `seam - 1` is filled second, when both streams have finished. If it were filled
//!   earlier, rows of the right stream could reduce its rows and then be rolled back with their
//!   class. A rollback removes only the failed class's own rows, so the keys of the reduced rows
//!   would be lost (see the tests).
//! - The right stream takes only class 0 of bucket `seam`, so that the overflow finds free slots at
//!   the left end of this bucket. The other classes of the bucket are filled third. If the right
//!   stream took all classes, bucket `seam - 1` would be bumped as a whole in every window.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use core::ops::Range;

use super::partition::{Grouping, Window};
use crate::burr::row::{Row, Word, equation, start};
use crate::burr::shape::CLASSES;

/// The result of elimination for one layer.
pub(super) struct Banded<R> {
    /// One row per slot; all zero if the slot is free.
    pub rows: Vec<R>,
    /// For each bucket the number of classes that were kept: 0 to 3.
    pub thresholds: Vec<u8>,
    /// The hashes of bumped keys.
    pub bumped: Vec<u64>,
}

/// Runs the elimination for the keys of `chunks`, which may be in any order, in a layer of `slots`
/// slots.
pub(super) fn band<R: Row>(chunks: &[&[u64]], slots: u32) -> Banded<R> {
    let starts = slots - R::Word::BITS;
    let grouping = Grouping::new(starts, R::Word::SHAPE);
    let mut banding = Banding {
        starts,
        end: R::new(R::Word::ONE, 0, slots),
        thresholds: vec![CLASSES as u8; grouping.buckets() as usize],
        bumped: Vec::new(),
    };
    // The extra slot after the last one takes no key. It holds a row equal to the *end record*,
    // which follows each bucket's keys in a stream. When a stream reaches the end record, it XORs
    // the two, and no coefficients are left, just as in the row of a key that gets no slot. So
    // `run` detects both cases by one test.
    let mut rows = vec![R::default(); slots as usize + 1];
    rows[slots as usize] = banding.end;
    grouping.for_each_window(chunks, |window| banding.add_window(window, &mut rows));
    rows.truncate(slots as usize);
    Banded { rows, thresholds: banding.thresholds, bumped: banding.bumped }
}

struct Banding<R> {
    starts: u32,
    end: R,
    thresholds: Vec<u8>,
    bumped: Vec<u64>,
}

/// A key that is being inserted into the band.
#[derive(Clone, Copy)]
struct Key<R> {
    row: R,
    /// The start of the row; once the row has a slot, the number of that slot.
    slot: u32,
}

/// The `slot` of a key that needs no slot.
const NOWHERE: u32 = u32::MAX;

/// A chain of elimination over some classes of successive buckets.
struct Stream<R> {
    /// The current bucket, and the bucket before which the stream ends. Both are counted from the
    /// window's first bucket.
    bucket: u32,
    end: u32,
    /// The classes that the stream inserts, and for each class of the bucket the index of its first
    /// key in `keys`.
    classes: Range<usize>,
    class_starts: [usize; CLASSES],
    /// The keys of `classes` in the current bucket, then two end records, because `run` always
    /// reads the record after the current one too.
    keys: Vec<Key<R>>,
}

/// The row that a stream is reducing at the moment, and the slot of the row's first coefficient.
#[derive(Clone, Copy)]
struct Cursor<R> {
    row: R,
    slot: u32,
    /// The index in [`Stream::keys`] of the key whose row it is.
    key: usize,
}

impl<R: Row> Banding<R> {
    fn add_window(&mut self, window: &Window, rows: &mut [R]) {
        // The first bucket of the right stream. With fewer than four buckets, the right stream
        // takes all.
        let seam = if window.buckets < 4 { 0 } else { window.buckets / 2 };
        let mut left = Stream::new(seam.saturating_sub(1));
        let mut right = Stream::new(window.buckets);
        let mut a = self.open(window, &mut left, 0, 0..CLASSES);
        let classes = if seam == 0 { CLASSES } else { 1 };
        let mut b = self.open(window, &mut right, seam, 0..classes);
        while left.bucket < left.end && right.bucket < right.end {
            [a, b] = run([&mut left.keys, &mut right.keys], [a, b], rows);
            if a.row.is_empty() {
                a = self.stuck(window, &mut left, a, rows);
            }
            if b.row.is_empty() {
                b = self.stuck(window, &mut right, b, rows);
            }
        }
        self.finish(window, &mut left, a, rows);
        self.finish(window, &mut right, b, rows);
        if seam > 0 {
            left.end = seam;
            let a = self.open(window, &mut left, seam - 1, 0..CLASSES);
            self.finish(window, &mut left, a, rows);
            if self.thresholds[(window.first_bucket + seam) as usize] > 0 {
                left.end = seam + 1;
                let a = self.open(window, &mut left, seam, 1..CLASSES);
                self.finish(window, &mut left, a, rows);
            }
        }
    }

    /// Runs one stream to its end.
    fn finish(
        &mut self,
        window: &Window,
        stream: &mut Stream<R>,
        mut at: Cursor<R>,
        rows: &mut [R],
    ) {
        while stream.bucket < stream.end {
            [at] = run([&mut stream.keys], [at], rows);
            at = self.stuck(window, stream, at, rows);
        }
    }

    /// Prepares the rows of some classes of a bucket. Returns a cursor at the first row.
    fn open(
        &self,
        window: &Window,
        stream: &mut Stream<R>,
        bucket: u32,
        classes: Range<usize>,
    ) -> Cursor<R> {
        stream.bucket = bucket;
        stream.keys.clear();
        if bucket < stream.end {
            let (hashes, class_starts) = window.bucket(bucket);
            let end = class_starts.get(classes.end).copied().unwrap_or(hashes.len());
            stream.keys.extend(hashes[class_starts[classes.start]..end].iter().map(|&hash| {
                let (coefficients, fingerprint) = equation(hash);
                let slot = start(hash, self.starts);
                Key { row: R::new(coefficients, fingerprint, slot), slot }
            }));
            stream.class_starts =
                class_starts.map(|start| start.saturating_sub(class_starts[classes.start]));
            stream.classes = classes;
        }
        let end = Key { row: self.end, slot: self.starts + R::Word::BITS };
        stream.keys.extend([end, end]);
        stream.cursor(0)
    }

    /// Handles a row without coefficients, and returns the cursor from which the stream goes on.
    /// There are three cases: the stream is at the end of its bucket; the key's equation follows
    /// from the others, so that it needs no row; or the equation contradicts the others, and the
    /// key's class is bumped.
    fn stuck(
        &mut self,
        window: &Window,
        stream: &mut Stream<R>,
        at: Cursor<R>,
        rows: &mut [R],
    ) -> Cursor<R> {
        let keys = stream.keys.len() - 2;
        if at.key < keys && at.row.fingerprint() == 0 {
            stream.keys[at.key].slot = NOWHERE;
            return stream.cursor(at.key + 1);
        }
        if at.key < keys {
            let mut class = stream.classes.end - 1;
            while stream.class_starts[class] > at.key {
                class -= 1;
            }
            // The rows of this class were added last. So no row of another class was reduced by
            // them, and they can be removed.
            for key in &stream.keys[stream.class_starts[class]..at.key] {
                if key.slot != NOWHERE {
                    rows[key.slot as usize] = R::default();
                }
            }
            self.thresholds[(window.first_bucket + stream.bucket) as usize] = class as u8;
            let (hashes, class_starts) = window.bucket(stream.bucket);
            self.bumped.extend_from_slice(&hashes[class_starts[class]..]);
        }
        self.open(window, stream, stream.bucket + 1, 0..CLASSES)
    }
}

impl<R: Row> Stream<R> {
    fn new(end: u32) -> Stream<R> {
        Stream { bucket: 0, end, classes: 0..0, class_starts: [0; CLASSES], keys: Vec::new() }
    }

    fn cursor(&self, key: usize) -> Cursor<R> {
        Cursor { row: self.keys[key].row, slot: self.keys[key].slot, key }
    }
}

/// Advances every stream, step by step, until the row of one of them has no coefficients left.
///
/// In a step, a row whose slot is free is stored there, and the stream's next key starts. Otherwise
/// the row in the slot is added to the stream's row, and the sum moves to the slot of its next
/// coefficient.
#[inline(never)]
fn run<R: Row, const N: usize>(
    keys: [&mut [Key<R>]; N],
    at: [Cursor<R>; N],
    rows: &mut [R],
) -> [Cursor<R>; N] {
    // Local arrays, which the compiler keeps in registers.
    let mut row: [R; N] = at.map(|at| at.row);
    let mut slot: [u32; N] = at.map(|at| at.slot);
    let mut key: [usize; N] = at.map(|at| at.key);
    while row.iter().all(|row| !row.is_empty()) {
        for i in 0..N {
            let here = &mut rows[slot[i] as usize];
            let there = *here;
            let empty = there.is_empty();
            let [this, next, ..] = &mut keys[i][key[i]..] else { unreachable!("two end records") };
            this.slot = slot[i];
            *here = R::select(empty, row[i], there);
            let reduced = row[i].xor(there);
            let distance = reduced.distance(slot[i]);
            row[i] = R::select(empty, next.row, reduced);
            slot[i] = select_unpredictable(empty, next.slot, slot[i] + distance);
            key[i] += usize::from(empty);
        }
    }
    core::array::from_fn(|i| Cursor { row: row[i], slot: slot[i], key: key[i] })
}
