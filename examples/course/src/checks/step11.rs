use super::super::step11_ribbon::*;
use super::key;
use crate::check::Check;

pub const CHECKS: &[Check] = &[
    Check { says: "picked() is the XOR of the slots that a row picks", run: picks },
    Check { says: "a row whose slot is free is placed there", run: placed },
    Check { says: "a row whose slot is taken is added to, and moves on", run: moved },
    Check {
        says: "a row that says nothing new is fine, a contradiction is not",
        run: contradiction,
    },
    Check { says: "solve() fulfils all rows", run: solved },
    Check { says: "twelve keys in fourteen slots: none is denied", run: a_dozen },
    Check { says: "after a contradiction another seed is tried", run: other_seeds },
    Check { says: "one absent key of 256 passes", run: the_rate },
    Check { says: "too many keys give no filter", run: too_many },
];

const KEYS: [&[u8]; 12] = [
    b"ant", b"bee", b"cat", b"dog", b"eel", b"fox", b"gnu", b"hen", b"ibis", b"jay", b"koi",
    b"lynx",
];
const SLOTS: usize = 14;

fn row_of(start: usize, coefficients: u8, fingerprint: u8) -> Row {
    Row { start, coefficients, fingerprint }
}

fn picks() {
    let slots = [1, 2, 4, 8, 16, 32, 64, 128, 3, 5];
    for (row, expected) in [
        (row_of(0, 0b0000_0001, 0), 1),
        (row_of(1, 0b1000_0101, 0), 2 ^ 8 ^ 3),
        (row_of(2, 0b1111_1111, 0), 4 ^ 8 ^ 16 ^ 32 ^ 64 ^ 128 ^ 3 ^ 5),
        (row_of(9, 0b0000_0001, 0), 5),
    ] {
        let found = picked(&slots, &row);
        assert_eq!(found, expected, "{row:?} of the slots {slots:?}. Left: yours; right: expected");
    }
}

fn placed() {
    let mut band = vec![None; SLOTS];
    for row in [row_of(5, 0b1001_1001, 7), row_of(3, 0b1101_0001, 10)] {
        assert!(add(&mut band, row), "a row whose slot is free contradicts nothing");
        assert_eq!(band[row.start], Some(row), "slot {}", row.start);
    }
    assert_eq!(band.iter().flatten().count(), 2, "rows of the band");
}

fn moved() {
    // `bee` and `dog` of the book's chapter.
    let mut band = vec![None; SLOTS];
    add(&mut band, row_of(5, 0b1001_1001, 7));
    assert!(add(&mut band, row_of(5, 0b0000_1101, 0)), "there is a slot for `dog`");
    let expected = row_of(7, 0b0010_0101, 7);
    assert_eq!(
        band[7],
        Some(expected),
        "`dog` starts in slot 5, which `bee` has. The XOR of both starts in slot 7. \
         Left: your slot 7; right: expected"
    );
    assert_eq!(band[5], Some(row_of(5, 0b1001_1001, 7)), "`bee` stays in slot 5");
}

fn contradiction() {
    let mut band = vec![None; SLOTS];
    let rows = [row_of(2, 0b0000_0011, 1), row_of(3, 0b0000_0101, 2)];
    assert!(rows.into_iter().all(|row| add(&mut band, row)), "two rows with slots of their own");
    // The XOR of the two rows picks slots 2 and 5, and its fingerprint is 3.
    assert!(add(&mut band, row_of(2, 0b0000_1001, 3)), "a row that follows from the two others");
    assert_eq!(band.iter().flatten().count(), 2, "rows: it says nothing new and takes no slot");
    assert!(
        !add(&mut band, row_of(2, 0b0000_1001, 4)),
        "the same row with another fingerprint contradicts the two others"
    );
}

fn solved() {
    let mut band = vec![None; SLOTS];
    let rows: Vec<Row> = (0..7).map(|i| row_of(i, 0b1010_0111 | i as u8, 31 * i as u8)).collect();
    let rows: Vec<Row> =
        rows.iter().map(|r| Row { coefficients: r.coefficients | 1, ..*r }).collect();
    for row in &rows {
        assert!(add(&mut band, *row), "rows with different starts contradict nothing");
    }
    let slots = solve(&band);
    assert_eq!(slots.len(), SLOTS, "slots");
    for row in rows {
        let sum = picked(&slots, &row);
        assert_eq!(
            sum, row.fingerprint,
            "{row:?}: the slots give {sum}. Solve the last slot first"
        );
    }
    assert_eq!(slots[7..], [0; 7], "slots without a row are 0");
}

fn build() -> Ribbon {
    Ribbon::build(&KEYS, SLOTS).expect("twelve keys fit into fourteen slots with some seed")
}

fn a_dozen() {
    let ribbon = build();
    assert_eq!(ribbon.slots.len(), SLOTS, "slots of the filter");
    for key in KEYS {
        assert!(ribbon.may_contain(key), "{} is denied", key.escape_ascii());
    }
}

fn other_seeds() {
    let mut seeds = Vec::new();
    for set in 0..20 {
        let keys: Vec<Vec<u8>> = (0..12).map(|i| key("key", 12 * set + i)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let Some(ribbon) = Ribbon::build(&keys, SLOTS) else {
            panic!("set {set} of twelve keys has a filter with some seed from 0 to 255")
        };
        let denied = keys.iter().filter(|key| !ribbon.may_contain(key)).count();
        assert_eq!(denied, 0, "keys of set {set} that are denied, with seed {}", ribbon.seed);
        seeds.push(ribbon.seed);
    }
    assert!(seeds.iter().any(|&seed| seed > 0), "all of 20 filters have seed 0: {seeds:?}");
}

fn the_rate() {
    let ribbon = build();
    let passed = (0..25_600).filter(|&i| ribbon.may_contain(&key("absent", i))).count();
    assert!(
        (70..130).contains(&passed),
        "{passed} of 25,600 absent keys pass, expected about 100: one in 256"
    );
}

fn too_many() {
    let keys: Vec<Vec<u8>> = (0..30).map(|i| key("key", i)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let ribbon = Ribbon::build(&keys, SLOTS);
    assert!(ribbon.is_none(), "30 keys cannot have solvable equations in 14 slots, but for luck");
}
