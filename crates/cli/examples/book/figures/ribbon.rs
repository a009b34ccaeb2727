//! A ribbon filter of a dozen keys, solved on paper.
//!
//! The filter is an array of *slots*. Each key gives an equation: the XOR of some of the slots from
//! its start position on is the key's fingerprint. The *band* has a place for each slot, for an
//! equation that begins at this slot. The equations are added one after the other ([`add`]). If the
//! place is taken, the equation there is XORed into the new one, which then begins at a later slot.
//! In the end, the slots can be computed from the last to the first ([`solve`]).

use std::fmt::Write;

use maypole_filter::hash64;

use super::hashing::mixed;

/// The number of coefficients in a key's row. The library's rows have 32, 64 or 128 of them.
pub const WIDTH: u32 = 8;
/// Bits of a fingerprint.
pub const COLUMNS: u32 = 4;

pub const KEYS: [&str; 12] =
    ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "koi", "lynx"];

/// One key's equation: the XOR of the slots that `coefficients` picks is `fingerprint`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    pub start: u32,
    /// If bit i is set, the equation has slot `start + i`. Bit 0 is always set.
    pub coefficients: u32,
    pub fingerprint: u32,
}

/// The equation of a key.
pub fn row(key: &str, slots: u32, seed: u64) -> Row {
    let hash = mixed(hash64(key.as_bytes()).wrapping_add(seed));
    let starts = slots - WIDTH + 1;
    Row {
        start: ((u128::from(hash) * u128::from(starts)) >> 64) as u32,
        coefficients: (hash as u32 & ((1 << WIDTH) - 1)) | 1,
        fingerprint: (hash >> 20) as u32 & ((1 << COLUMNS) - 1),
    }
}

/// The result of adding a row to the band.
pub enum Outcome {
    /// The slot that the row is now in, and the slots whose rows were first added to it.
    Placed(u32, Vec<u32>),
    /// The row follows from the rows in the band.
    Redundant,
    /// The row contradicts the rows in the band.
    Contradiction,
}

/// Adds a row to the band: each slot holds at most one row, whose first coefficient is that slot.
pub fn add(band: &mut [Option<Row>], mut row: Row) -> Outcome {
    let mut added = Vec::new();
    loop {
        let Some(there) = band[row.start as usize] else {
            band[row.start as usize] = Some(row);
            return Outcome::Placed(row.start, added);
        };
        added.push(row.start);
        row.coefficients ^= there.coefficients;
        row.fingerprint ^= there.fingerprint;
        if row.coefficients == 0 {
            let agrees = row.fingerprint == 0;
            return if agrees { Outcome::Redundant } else { Outcome::Contradiction };
        }
        let zeros = row.coefficients.trailing_zeros();
        row.coefficients >>= zeros;
        row.start += zeros;
    }
}

/// Solves the band from the last slot to the first. A slot without a row is free: it gets 0.
pub fn solve(band: &[Option<Row>]) -> Vec<u32> {
    let mut slots = vec![0; band.len()];
    for (at, row) in band.iter().enumerate().rev() {
        if let Some(row) = row {
            slots[at] = row.fingerprint ^ picked(&slots, row);
        }
    }
    slots
}

/// The XOR of the slots that a row picks.
pub fn picked(slots: &[u32], row: &Row) -> u32 {
    (0..WIDTH)
        .filter(|i| row.coefficients >> i & 1 == 1)
        .fold(0, |sum, i| sum ^ slots[(row.start + i) as usize])
}

pub fn draw(row: &Row, slots: u32) -> String {
    let symbol = |slot: u32| match slot.checked_sub(row.start) {
        Some(i) if i < WIDTH && row.coefficients >> i & 1 == 1 => '1',
        Some(i) if i < WIDTH => '0',
        _ => '.',
    };
    (0..slots).map(symbol).collect()
}

pub fn solved() -> String {
    let slots = 14;
    let mut out = String::new();
    let mut seed = 0;
    let band = loop {
        let mut band = vec![None; slots as usize];
        let mut trace = format!("seed {seed}\n            0123456789abcd\n");
        let fails = KEYS.iter().any(|key| {
            let row = row(key, slots, seed);
            let drawn = draw(&row, slots);
            write!(trace, "{key:<10}  {drawn} = {:04b}  ", row.fingerprint).unwrap();
            let outcome = add(&mut band, row);
            let said = match &outcome {
                Outcome::Placed(slot, added) if added.is_empty() => format!("slot {slot:x}"),
                Outcome::Placed(slot, added) => {
                    let added: Vec<String> = added.iter().map(|slot| format!("{slot:x}")).collect();
                    format!("+ row {} → slot {slot:x}", added.join(" + row "))
                }
                Outcome::Redundant => "says nothing new".into(),
                Outcome::Contradiction => "contradiction: another seed".into(),
            };
            writeln!(trace, "{said}").unwrap();
            matches!(outcome, Outcome::Contradiction)
        });
        out += &trace;
        if !fails {
            break band;
        }
        seed += 1;
    };
    writeln!(out, "the band    0123456789abcd").unwrap();
    for (slot, row) in band.iter().enumerate() {
        match row {
            Some(row) => {
                let drawn = draw(row, slots);
                writeln!(out, "slot {slot:x}      {drawn} = {:04b}", row.fingerprint).unwrap();
            }
            None => writeln!(out, "slot {slot:x}      free").unwrap(),
        }
    }
    let solution = solve(&band);
    let words: Vec<String> = solution.iter().map(|slot| format!("{slot:04b}")).collect();
    writeln!(out, "the filter  {}\n            {}", words[..7].join(" "), words[7..].join(" "))
        .unwrap();
    for key in KEYS {
        assert_eq!(picked(&solution, &row(key, slots, seed)), row(key, slots, seed).fingerprint);
    }
    for key in ["owl", "pig", "rat", "yak"] {
        let row = row(key, slots, seed);
        let (sum, wanted) = (picked(&solution, &row), row.fingerprint);
        let answer = if sum == wanted { "maybe" } else { "no" };
        writeln!(out, "ask {key:<6}  sum {sum:04b}, fingerprint {wanted:04b}: {answer}").unwrap();
    }
    let passed = (0..16_000)
        .map(|i| row(&format!("absent {i}"), slots, seed))
        .filter(|row| picked(&solution, row) == row.fingerprint)
        .count();
    writeln!(out, "of 16,000 absent keys {passed} pass; theory 1,000").unwrap();
    out
}
