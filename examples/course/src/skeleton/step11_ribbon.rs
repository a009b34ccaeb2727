//! Step 11: a ribbon filter of a dozen keys. Its slots are the solution of a system of equations.
//!
//! ```text
//! slots         0  1  2  3  4  5  6  7  8  …          each slot holds 8 bits
//! ant, start 5                 1  0  0  1  …          slot 5 ^ slot 8 = fingerprint of ant
//! ```

use maypole::hash64;

/// The number of coefficients of a row.
pub const WIDTH: usize = 8;

/// An equation: the XOR of the slots that `coefficients` picks must be `fingerprint`. It is the
/// equation of a key, or the XOR of several such equations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub start: usize,
    /// Bit `i` picks slot `start + i`. Bit 0 is set, unless all bits are clear.
    pub coefficients: u8,
    pub fingerprint: u8,
}

/// The equation of a key in a filter of `slots` slots, which must be at least [`WIDTH`]. Another
/// seed gives another equation.
pub fn row(key: &[u8], slots: usize, seed: u8) -> Row {
    let hash = hash64(&[key, &[seed]].concat());
    let starts = (slots - WIDTH + 1) as u64;
    Row {
        start: (((hash >> 32) * starts) >> 32) as usize,
        coefficients: hash as u8 | 1,
        fingerprint: (hash >> 8) as u8,
    }
}

/// The XOR of the slots that a row picks.
pub fn picked(slots: &[u8], row: &Row) -> u8 {
    todo!("for each bit of the coefficients that is set, one slot")
}

/// Adds a row to the band, which has a place for each slot. A place holds at most one row, whose
/// first coefficient picks the slot. Returns `false` if the row contradicts the rows of the band.
pub fn add(band: &mut [Option<Row>], mut row: Row) -> bool {
    todo!("a free slot takes the row; else XOR both rows, move to the first coefficient")
}

/// Computes slots that fulfil the equations of all rows of the band.
pub fn solve(band: &[Option<Row>]) -> Vec<u8> {
    todo!("from the last slot to the first; a slot without a row is 0")
}

/// A ribbon filter.
pub struct Ribbon {
    pub slots: Vec<u8>,
    pub seed: u8,
}

impl Ribbon {
    /// The filter of `keys` in `slots` slots. `None`: no seed gives equations that can be solved.
    pub fn build(keys: &[&[u8]], slots: usize) -> Option<Ribbon> {
        todo!("seed after seed: add the row of each key; if none contradicts, solve")
    }

    /// `false`: the key is certainly not among those of the filter.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        todo!("is the XOR of the picked slots the fingerprint?")
    }
}
