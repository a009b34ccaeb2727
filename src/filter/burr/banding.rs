//! Gaussian elimination: step 2 of building.
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
//! **Bumping.** Buckets are filled from left to right, each class after class: class 0 is the right
//! end of the bucket, class 2 the left end, which fights with the overflow of the bucket before. The
//! first class with a key that cannot hold is rolled back, and it and the classes after it are
//! *bumped*: their keys go to the next layer. The bucket's threshold says how many classes stayed.
//! Because a class stays or goes as a whole, the result does not depend on the order of its keys.
//!
//! **Two streams.** A step waits for the one before (load, XOR, count zeros, load …), so one chain
//! leaves the processor idle. Two chains, one in each half of the window's buckets, run interleaved
//! and without branches on the data: 12 ns a key in place of 20. A row never reaches further than
//! w - 1 slots behind the bucket of its key, whatever was XORed into it, so while the left stream
//! stays out of its last bucket, the streams share no slot. That last bucket is filled when the
//! right stream has finished; filled earlier, its rows travel through the right stream's slots into
//! the part that a failing class there rolls back, and keys are lost (see the tests).

use super::partition::{CLASSES, Grouping, Window};
use super::row::{Row, Word, equation, start};

/// Chains of elimination that run interleaved.
pub(super) const STREAMS: usize = 2;

/// What elimination makes of one layer.
pub(super) struct Banded<R> {
    /// One row a slot; all zero where the slot is free.
    pub rows: Vec<R>,
    /// For each bucket how many classes stayed: 0 to 3.
    pub thresholds: Vec<u8>,
    /// The hashes of bumped keys.
    pub bumped: Vec<u64>,
}

/// Bands the keys of `chunks`, in any order, into `slots` slots.
pub(super) fn band<R: Row>(chunks: &[&[u64]], slots: u32) -> Banded<R> {
    let starts = slots - R::Word::BITS;
    let grouping = Grouping::new(starts, R::Word::SHAPE);
    let mut banding = Banding {
        starts,
        end: R::new(R::Word::ONE, 0, slots),
        thresholds: vec![CLASSES as u8; grouping.buckets() as usize],
        bumped: Vec::new(),
    };
    // The slot behind the last one takes no key. The row that ends a bucket is sent there, meets its
    // equal and is left with nothing, as a row that cannot stay is: one test finds both.
    let mut rows = vec![R::default(); slots as usize + 1];
    rows[slots as usize] = banding.end;
    grouping.for_each_window(chunks, |window| banding.add_window::<STREAMS>(window, &mut rows));
    rows.truncate(slots as usize);
    Banded { rows, thresholds: banding.thresholds, bumped: banding.bumped }
}

struct Banding<R> {
    starts: u32,
    end: R,
    thresholds: Vec<u8>,
    bumped: Vec<u64>,
}

/// A key on its way into the band.
#[derive(Clone, Copy)]
struct Key<R> {
    row: R,
    /// Where the row begins; once it was placed, where it stays.
    slot: u32,
}

/// `slot` of a key that needed none.
const NOWHERE: u32 = u32::MAX;

/// The keys of one bucket.
struct Bucket<R> {
    /// Counted from the first of the window.
    index: u32,
    /// Where each class begins.
    begins: [usize; CLASSES],
    /// The keys, then two end records.
    keys: Vec<Key<R>>,
}

/// The row that a stream moves.
#[derive(Clone, Copy)]
struct Cursor<R> {
    row: R,
    slot: u32,
    /// Index of its key in the bucket.
    key: usize,
}

impl<R: Row> Banding<R> {
    fn add_window<const N: usize>(&mut self, window: &Window, rows: &mut [R]) {
        let border = |i: usize| (window.buckets as usize * i / N) as u32;
        let mut buckets: [Bucket<R>; N] = std::array::from_fn(|_| Bucket::default());
        let mut cursors: [Cursor<R>; N] =
            std::array::from_fn(|i| self.open(window, &mut buckets[i], border(i)));
        // Where each stream ends for now: before its last bucket, unless it is the last stream.
        let ends: [u32; N] = std::array::from_fn(|i| {
            if i + 1 == N { window.buckets } else { (border(i + 1)).saturating_sub(1).max(border(i)) }
        });
        while (0..N).all(|i| buckets[i].index < ends[i]) {
            cursors = run(rows, &mut buckets, cursors);
            for i in 0..N {
                if cursors[i].row.is_empty() {
                    cursors[i] = self.stuck(window, rows, &mut buckets[i], cursors[i]);
                }
            }
        }
        let borders = std::array::from_fn(|i| border(i + 1));
        for ends in [ends, borders] {
            for i in (0..N).rev() {
                while buckets[i].index < ends[i] {
                    let [at] = run(rows, std::array::from_mut(&mut buckets[i]), [cursors[i]]);
                    cursors[i] = self.stuck(window, rows, &mut buckets[i], at);
                }
            }
        }
    }

    /// Lays out the rows of a bucket and takes up its first key.
    fn open(&self, window: &Window, bucket: &mut Bucket<R>, index: u32) -> Cursor<R> {
        bucket.index = index;
        bucket.keys.clear();
        if index < window.buckets {
            let (hashes, begins) = window.bucket(index);
            bucket.begins = begins;
            bucket.keys.extend(hashes.iter().map(|&hash| {
                let (coefficients, fingerprint) = equation(hash);
                let slot = start(hash, self.starts);
                let row = R::new(coefficients, fingerprint, slot);
                Key { row, slot }
            }));
        }
        let end = Key { row: self.end, slot: self.starts + R::Word::BITS };
        bucket.keys.extend([end, end]);
        bucket.cursor(0)
    }

    /// A row was left without coefficients: the bucket is at its end, or the key needs no row of its
    /// own, or it cannot hold and its class is bumped.
    fn stuck(
        &mut self,
        window: &Window,
        rows: &mut [R],
        bucket: &mut Bucket<R>,
        at: Cursor<R>,
    ) -> Cursor<R> {
        let keys = bucket.keys.len() - 2;
        if at.key < keys && at.row.fingerprint() == 0 {
            bucket.keys[at.key].slot = NOWHERE;
            return bucket.cursor(at.key + 1);
        }
        if at.key < keys {
            let class = bucket.begins.iter().rposition(|&begin| begin <= at.key).unwrap_or(0);
            // No row came after these, so none was reduced by them, and they can simply go.
            for key in &bucket.keys[bucket.begins[class]..at.key] {
                if key.slot != NOWHERE {
                    rows[key.slot as usize] = R::default();
                }
            }
            self.thresholds[(window.first_bucket + bucket.index) as usize] = class as u8;
            let (hashes, begins) = window.bucket(bucket.index);
            self.bumped.extend_from_slice(&hashes[begins[class]..]);
        }
        self.open(window, bucket, bucket.index + 1)
    }
}

impl<R: Row> Default for Bucket<R> {
    fn default() -> Bucket<R> {
        Bucket { index: 0, begins: [0; CLASSES], keys: Vec::new() }
    }
}

impl<R: Row> Bucket<R> {
    fn cursor(&self, key: usize) -> Cursor<R> {
        Cursor { row: self.keys[key].row, slot: self.keys[key].slot, key }
    }
}

/// Steps every stream until a row is left without coefficients.
///
/// A step: the row stays at an empty slot and the next key is taken up, or the row at its slot is
/// added to it and it moves on.
#[inline(never)]
fn run<R: Row, const N: usize>(
    rows: &mut [R],
    buckets: &mut [Bucket<R>; N],
    at: [Cursor<R>; N],
) -> [Cursor<R>; N] {
    let mut row: [R; N] = at.map(|at| at.row);
    let mut slot: [u32; N] = at.map(|at| at.slot);
    let mut key: [usize; N] = at.map(|at| at.key);
    let keys = buckets.each_mut().map(|bucket| &mut bucket.keys[..]);
    while row.iter().all(|row| !row.is_empty()) {
        for i in 0..N {
            let here = &mut rows[slot[i] as usize];
            let there = *here;
            let empty = there.is_empty();
            let [this, next, ..] = &mut keys[i][key[i]..] else { unreachable!() };
            this.slot = slot[i];
            *here = R::select(empty, row[i], there);
            let reduced = row[i].xor(there);
            let distance = reduced.distance(slot[i]);
            row[i] = R::select(empty, next.row, reduced);
            slot[i] = std::hint::select_unpredictable(empty, next.slot, slot[i] + distance);
            key[i] += usize::from(empty);
        }
    }
    std::array::from_fn(|i| Cursor { row: row[i], slot: slot[i], key: key[i] })
}
