//! Banding: Gaussian elimination of the keys' equations, one key at a time.
//!
//! ```text
//! slot            0 1 2 3 4 5 6 7 8 …
//! row in slot 0   1 1 0 1                  every stored row starts, with a 1, in its own slot;
//! row in slot 1     1 0 1 1                no two rows share a slot, so the rows are independent
//! row in slot 3         1 1 0 1
//! ```
//!
//! A key's row *travels* from slot to slot. It starts in the key's first slot, and stays in the
//! first free slot to which it comes. In a taken slot, the row there is added to the traveller.
//! This clears the traveller's leading 1, and the traveller moves on to the slot of its next 1. If
//! no coefficient is left and the fingerprint is zero too, the key's equation follows from the
//! others. If the fingerprint is not zero, the equation contradicts the others, and the seed is
//! given up.
//!
//! Which slots are taken in the end, whether there is a contradiction, and the solution are
//! properties of the space that the equations span. So they do not depend on the order of the keys.
//! This freedom is used three times.
//!
//! 1. Keys are first grouped by *window*, a run of neighbouring slots (one counting pass), so that
//!    elimination stays inside the first-level cache.
//! 2. Two keys travel at once, one from each end of the window's keys, because the steps of one key
//!    are a chain of dependent loads, and two chains overlap. The two keys may meet in a slot: each
//!    step is still one row operation, so the space stays the same.
//! 3. A step always stores the traveller in the slot, and the sum of the traveller and the slot's
//!    old row moves on. (In the textbook, the old row stays.) So the store does not wait for the
//!    old row, and the step has no branch that is often mispredicted.
//!
//! The textbook version of elimination is in `burr::reference`.

use alloc::vec::Vec;

use crate::hashes::{HashList, group};
use crate::ribbon::layout::{BLOCK_SLOTS, Layout};
use crate::ribbon::row::{Equation, Row, rehash, start_of};

/// Slots of a window. Their rows, with the keys of the window, fill the first-level cache.
const WINDOW_SLOTS: usize = 1024;
/// The most windows. The counting pass writes to all windows at the same time, so their number is
/// limited, and a filter of more than 2 million slots gets larger windows.
const MAX_WINDOWS: usize = 2048;

/// A moving row, and the slot where it is.
#[derive(Clone, Copy, Default)]
struct Traveller {
    row: Row,
    slot: u32,
}

/// Bands the keys; `None` when they contradict each other under this seed.
pub fn band(hashes: &HashList, layout: &Layout, raw_seed: u32) -> Option<Vec<Row>> {
    let (slots, starts) = (layout.slots() as usize, layout.starts());
    let window_slots = (slots / MAX_WINDOWS).next_power_of_two().max(WINDOW_SLOTS);
    let (rehashed, ends) = partition(hashes, starts, window_slots, raw_seed);

    let mut rows = Vec::with_capacity(slots);
    let mut travellers = Vec::with_capacity(2 * WINDOW_SLOTS);
    let mut from = 0;
    for (window, &to) in ends.iter().enumerate() {
        // The empty rows of a window are written just before they are used, so they are in the
        // cache then.
        let reach = (window + 1) * window_slots + BLOCK_SLOTS as usize;
        rows.resize(reach.min(slots), Row::EMPTY);
        for part in rehashed[from..to as usize].chunks(2 * WINDOW_SLOTS) {
            travellers.clear();
            travellers.extend(part.iter().map(|&rehashed| Traveller::new(rehashed, starts)));
            if !settle_all(&mut rows, &travellers) {
                return None;
            }
        }
        from = to as usize;
    }
    rows.resize(slots, Row::EMPTY);
    Some(rows)
}

/// The seeded hashes ordered by window, and the end of each window.
fn partition(
    hashes: &HashList,
    starts: u32,
    window_slots: usize,
    raw_seed: u32,
) -> (Vec<u64>, Vec<u32>) {
    let shift = window_slots.ilog2();
    let window = |rehashed| (start_of(rehashed, starts) >> shift) as usize;
    let windows = ((starts - 1) >> shift) as usize + 1;
    let (mut ordered, mut ends) = (Vec::new(), Vec::new());
    let rehashed = hashes.iter().map(|hash| rehash(hash, raw_seed));
    group(rehashed, windows, window, &mut ordered, &mut ends);
    (ordered, ends)
}

/// Finds a slot for every traveller whose equation does not follow from others; `false` on a
/// contradiction.
fn settle_all(rows: &mut [Row], travellers: &[Traveller]) -> bool {
    let [first, .., last] = travellers else {
        return travellers.iter().all(|&traveller| settle(rows, traveller));
    };
    let (mut a, mut b) = (*first, *last);
    // `travellers[front..back]` have not started. A turn may start one of them at each end, so the
    // loop runs while two are left.
    let (mut front, mut back) = (1, travellers.len() - 1);
    while front + 1 < back {
        let (Some(a_done), Some(b_done)) =
            (step(rows, &mut a, &travellers[front]), step(rows, &mut b, &travellers[back - 1]))
        else {
            return false;
        };
        front += usize::from(a_done);
        back -= usize::from(b_done);
    }
    settle(rows, a)
        && settle(rows, b)
        && travellers[front..back].iter().all(|&traveller| settle(rows, traveller))
}

/// Moves a single traveller until it settles.
fn settle(rows: &mut [Row], mut traveller: Traveller) -> bool {
    let end = Traveller::default();
    loop {
        match step(rows, &mut traveller, &end) {
            Some(true) => return true,
            Some(false) => {}
            None => return false,
        }
    }
}

/// Moves a traveller one step. Returns `Some(true)` if the traveller is done, because it settled or
/// its equation follows from the others. Then `next` has replaced it. Returns `Some(false)` if it
/// must travel on, and `None` on a contradiction.
#[inline(always)]
fn step(rows: &mut [Row], traveller: &mut Traveller, next: &Traveller) -> Option<bool> {
    use core::hint::select_unpredictable as select;

    let Traveller { row, slot } = *traveller;
    let there = core::mem::replace(&mut rows[slot as usize], row);
    let low = row.coefficients_low ^ there.coefficients_low;
    let high = row.coefficients_high ^ there.coefficients_high;
    let fingerprint = row.fingerprint ^ there.fingerprint;
    if low == 0 {
        return step_far(traveller, next, high, fingerprint);
    }
    let was_empty = there.coefficients_low == 0;
    let zeros = low.trailing_zeros();
    // The new low half of the 128-bit number (high, low) after a shift down by `zeros`, without the
    // slow double-word shift. The rotation moves the lowest bits of `high` to the top, where they
    // belong in the low half. Its other bits equal `high >> zeros`, which is also in the first
    // operand, so the XOR cancels them.
    let shifted_low = ((low ^ high) >> zeros) ^ high.rotate_right(zeros);
    traveller.row.coefficients_low = select(was_empty, next.row.coefficients_low, shifted_low);
    traveller.row.coefficients_high = select(was_empty, next.row.coefficients_high, high >> zeros);
    traveller.row.fingerprint = select(was_empty, next.row.fingerprint, fingerprint);
    traveller.slot = select(was_empty, next.slot, slot + zeros);
    Some(was_empty)
}

/// The step when the lower 64 coefficients of the sum are 0. This is rare, except for keys whose
/// equations follow from the others.
#[cold]
fn step_far(
    traveller: &mut Traveller,
    next: &Traveller,
    high: u64,
    fingerprint: u32,
) -> Option<bool> {
    if high == 0 {
        if fingerprint != 0 {
            return None;
        }
        *traveller = *next;
        return Some(true);
    }
    let zeros = high.trailing_zeros();
    traveller.row = Row { coefficients_low: high >> zeros, coefficients_high: 0, fingerprint };
    traveller.slot += 64 + zeros;
    Some(false)
}

impl Traveller {
    #[inline(always)]
    fn new(rehashed: u64, starts: u32) -> Traveller {
        let equation = Equation::new(rehashed, starts);
        let row = Row {
            coefficients_low: equation.coefficients as u64,
            coefficients_high: (equation.coefficients >> 64) as u64,
            fingerprint: equation.fingerprint,
        };
        Traveller { row, slot: equation.start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: u64) -> HashList {
        (1..=count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).map(|i| i ^ i >> 29).collect()
    }

    fn traveller(slot: u32, coefficients: u128, fingerprint: u32) -> Traveller {
        let row = Row {
            coefficients_low: coefficients as u64,
            coefficients_high: (coefficients >> 64) as u64,
            fingerprint,
        };
        Traveller { row, slot }
    }

    #[test]
    fn every_row_begins_in_its_own_slot() {
        let layout = Layout::new(80, 80).unwrap();
        let rows = band(&hashes(9000), &layout, 1).expect("88 % of the slots are enough");
        assert_eq!(rows.len(), layout.slots() as usize);
        assert_eq!(rows.iter().filter(|&&row| row != Row::EMPTY).count(), 9000);
        assert!(rows.iter().all(|row| *row == Row::EMPTY || row.coefficients_low & 1 == 1));
    }

    #[test]
    fn more_keys_than_slots_contradict_each_other() {
        let layout = Layout::new(2, 2).unwrap();
        assert!(band(&hashes(100), &layout, 1).is_some());
        assert!(band(&hashes(300), &layout, 1).is_none());
    }

    #[test]
    fn a_key_given_again_changes_nothing() {
        let layout = Layout::new(80, 80).unwrap();
        let once = hashes(9000);
        let twice: HashList = once.iter().chain(once.iter()).collect();
        let taken = |hashes| -> Vec<bool> {
            band(hashes, &layout, 1).unwrap().iter().map(|row| *row != Row::EMPTY).collect()
        };
        assert_eq!(taken(&once), taken(&twice));
    }

    #[test]
    fn a_sum_is_found_far_away_too() {
        // The lower 64 coefficients of both rows are equal, so their sum has only upper ones. The
        // first of these is that of slot 65, where the sum stays.
        let mut rows = vec![Row::EMPTY; 256];
        let (a, b) = (1 | 1 << 67, 1 | 1 << 65);
        assert!(settle_all(&mut rows, &[traveller(0, a, 1), traveller(0, b, 2)]));
        assert_eq!(rows[65], traveller(0, 0b101, 3).row);
        assert_eq!(rows.iter().filter(|&&row| row != Row::EMPTY).count(), 2);
        // The sum of both is redundant, unless its fingerprint is different.
        assert!(settle_all(&mut rows, &[traveller(65, 0b101, 3)]));
        assert!(!settle_all(&mut rows, &[traveller(65, 0b101, 1)]));
    }

    #[test]
    fn windows_of_any_size_are_filled_in_order() {
        let layout = Layout::new(300, 300).unwrap();
        for window_slots in [1024, 4096, 1 << 20] {
            let (ordered, ends) = partition(&hashes(30_000), layout.starts(), window_slots, 5);
            assert_eq!(ends.last(), Some(&30_000));
            let mut from = 0;
            for (window, &to) in ends.iter().enumerate() {
                for &rehashed in &ordered[from..to as usize] {
                    assert_eq!(start_of(rehashed, layout.starts()) as usize / window_slots, window);
                }
                from = to as usize;
            }
            let mut expected: Vec<u64> =
                hashes(30_000).iter().map(|hash| rehash(hash, 5)).collect();
            let mut ordered = ordered;
            expected.sort_unstable();
            ordered.sort_unstable();
            assert_eq!(ordered, expected);
        }
    }
}
