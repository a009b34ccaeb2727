//! Takes the equations of a full-size ribbon filter from the library, and solves them by the
//! book's algorithm: elimination, then substitution.

use maypole_filter::inspect::{BandParts, KeyEquation};
use maypole_filter::{FilterBuilder, FilterReader, FilterSpec};

use super::keys::key_hash;

/// One equation: the XOR of the slots that `coefficients` picks is `sum`. If bit i of
/// `coefficients` is set, it picks slot `start + i`.
#[derive(Clone, Copy)]
pub struct Row {
    pub start: u32,
    pub coefficients: u128,
    pub sum: u32,
}

impl From<KeyEquation> for Row {
    fn from(equation: KeyEquation) -> Row {
        let KeyEquation { start, coefficients, fingerprint: sum, .. } = equation;
        Row { start, coefficients, sum }
    }
}

/// A filter of the first `keys` keys of the set "present".
pub fn filter(spec: FilterSpec, keys: u64) -> Option<FilterReader> {
    let mut builder = FilterBuilder::new(spec);
    (0..keys).for_each(|i| builder.add(key_hash("present", i)));
    Some(builder.finish()?.into_reader())
}

/// The number of bits that every slot of the first layer has. The slots are stored in blocks, which
/// have a *column* for each bit of their slots, and the first blocks of a layer may have one column
/// fewer than the others.
pub fn columns(parts: &BandParts) -> u32 {
    parts.columns - u32::from(parts.layers[0].low_blocks > 0)
}

/// The rows of those of the first `keys` present keys that the first layer keeps, sorted by their
/// starts. (The layer bumps the other keys to the next one.) A sum has only the bits that every
/// slot of the layer has ([`columns`]).
pub fn rows(parts: &BandParts, keys: u64) -> Vec<Row> {
    let equations = (0..keys).filter_map(|i| parts.equation(key_hash("present", i)));
    let first = equations.filter(|equation| equation.layer == 0);
    let mut rows: Vec<Row> = first.map(Row::from).collect();
    let mask = ((1u64 << columns(parts)) - 1) as u32;
    rows.iter_mut().for_each(|row| row.sum &= mask);
    rows.sort_by_key(|row| row.start);
    rows
}

/// Gives each slot at most one row, whose first coefficient is in that slot. While the slot of a
/// row's first coefficient is taken, the row there is added to the new row. A new row that loses
/// all its coefficients follows from the earlier rows, and is dropped.
pub fn eliminate(rows: &[Row], slots: u32) -> Vec<Option<Row>> {
    let mut band: Vec<Option<Row>> = vec![None; slots as usize];
    for &(mut row) in rows {
        while let Some(other) = band[row.start as usize].filter(|_| row.coefficients != 0) {
            row.coefficients ^= other.coefficients;
            row.sum ^= other.sum;
            if row.coefficients != 0 {
                let zeros = row.coefficients.trailing_zeros();
                row.coefficients >>= zeros;
                row.start += zeros;
            }
        }
        match row.coefficients {
            0 => assert_eq!(row.sum, 0, "the filter kept a key that contradicts others"),
            _ => band[row.start as usize] = Some(row),
        }
    }
    band
}

/// The XOR of the slots that a row picks.
pub fn picked(slots: &[u32], row: &Row) -> u32 {
    let of = |i: &u32| row.coefficients >> i & 1 == 1;
    (0..u128::BITS).filter(of).fold(0, |sum, i| sum ^ slots[(row.start + i) as usize])
}

/// Solves the slots from the last one to the first. A slot without a row is 0.
pub fn solve(band: &[Option<Row>]) -> Vec<u32> {
    let mut slots = vec![0; band.len()];
    for (slot, row) in band.iter().enumerate().rev() {
        if let Some(row) = row {
            slots[slot] = row.sum ^ picked(&slots, row);
        }
    }
    slots
}
