//! A filter of 16 bits, bit by bit.

use std::fmt::Write;

use maypole::hash64;

use super::bloom::Bloom;

pub const FRUITS: [&str; 3] = ["apple", "pear", "plum"];
const OTHERS: [&str; 6] = ["quince", "fig", "grape", "papaya", "date", "peach"];

pub fn hand() -> String {
    let mut out = String::new();
    let mut filter = Bloom::new(16, 2);
    let bits = |filter: &Bloom| -> String {
        (0..16).map(|position| if filter.is_set(position) { '1' } else { '.' }).collect()
    };
    writeln!(out, "                       0123456789abcdef").unwrap();
    for fruit in FRUITS {
        filter.insert(hash64(fruit.as_bytes()));
        let set: Vec<u64> = filter.positions(hash64(fruit.as_bytes())).collect();
        writeln!(out, "add {fruit:<7} bits {set:>2?}  {}", bits(&filter)).unwrap();
    }
    for fruit in OTHERS {
        let asked: Vec<u64> = filter.positions(hash64(fruit.as_bytes())).collect();
        let answers: Vec<&str> =
            asked.iter().map(|&bit| if filter.is_set(bit) { "set" } else { "clear" }).collect();
        let answer = if filter.may_contain(hash64(fruit.as_bytes())) { "maybe" } else { "no" };
        writeln!(out, "ask {fruit:<7} bits {asked:>2?}  {:<12} {answer}", answers.join(", "))
            .unwrap();
    }
    out
}
