//! A spell checker whose only dictionary is a filter, similar to the use that Bloom described in
//! 1970. A misspelt word passes with the probability of a false positive. To correct a word, the
//! checker queries every string that is one slip away from it. These are hundreds of queries, and
//! each may be a false positive.
//!
//! ```text
//! cargo run --release --example spell_checker                            # made-up words
//! cargo run --release --example spell_checker -- /usr/share/dict/words
//! ```

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{Write, stdout};

use maypole::filter::{FilterBuilder, FilterReader, FilterSpec};
use maypole::hash64;

const WORDS: usize = 50_000;
/// The number of words that are misspelt and then corrected.
const TESTED: usize = 500;

/// Words of two to four syllables.
fn made_up() -> BTreeSet<String> {
    let syllable = |bits: u64| {
        let (first, second) =
            (b"bdfghklmnprstvwz"[bits as usize % 16], b"aeiou"[bits as usize / 16 % 5]);
        [first as char, second as char]
    };
    let word = |i: u64| -> String {
        let hash = hash64(&i.to_le_bytes());
        (0..2 + hash % 3).flat_map(|n| syllable(hash >> (8 + 12 * n))).collect()
    };
    let mut words = BTreeSet::new();
    for i in 0.. {
        if words.len() == WORDS {
            break;
        }
        words.insert(word(i));
    }
    words
}

/// Every word that results from this one if a letter is left out, added or replaced, or if two
/// adjacent letters are exchanged.
fn one_slip_away(word: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in word.char_indices().chain([(word.len(), ' ')]) {
        let (head, tail) = word.split_at(at);
        let mut rest = tail.chars();
        let first = rest.next();
        let rest = rest.as_str();
        for letter in 'a'..='z' {
            found.insert(format!("{head}{letter}{tail}"));
            if first.is_some() {
                found.insert(format!("{head}{letter}{rest}"));
            }
        }
        if let Some(first) = first {
            found.insert(format!("{head}{rest}"));
            let mut after = rest.chars();
            if let Some(second) = after.next() {
                found.insert(format!("{head}{second}{first}{}", after.as_str()));
            }
        }
    }
    found.remove(word);
    found
}

struct Dictionary(FilterReader);

impl Dictionary {
    fn new(words: &BTreeSet<String>, filter: FilterSpec) -> Dictionary {
        let mut builder = FilterBuilder::new(filter);
        words.iter().for_each(|word| builder.add(hash64(word.as_bytes())));
        let block = builder.finish().expect("there are words");
        Dictionary(FilterReader::from_bytes(block.bytes(), block.encoding()))
    }

    fn knows(&self, word: &str) -> bool {
        self.0.may_contain(hash64(word.as_bytes()))
    }
}

fn check(words: &BTreeSet<String>, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let text: usize = words.iter().map(|word| word.len() + 1).sum();
    writeln!(out, "{} words, {text} bytes of text", words.len())?;
    writeln!(
        out,
        "filter              bytes  slips passed  corrections of a slip  of them no words"
    )?;
    for filter in ["bloom(5)", "bloom(10)", "fpr(0.001)", "fpr(0.00001, burr)"] {
        let dictionary = Dictionary::new(words, filter.parse()?);
        let (mut slips, mut passed, mut corrections, mut nonsense) = (0, 0, 0, 0);
        for word in words.iter().step_by((words.len() / TESTED).max(1)) {
            assert!(dictionary.knows(word), "a filter forgets nothing");
            let wrong = format!("{word}q");
            if words.contains(&wrong) {
                continue;
            }
            slips += 1;
            passed += usize::from(dictionary.knows(&wrong));
            for guess in one_slip_away(&wrong).iter().filter(|guess| dictionary.knows(guess)) {
                corrections += 1;
                nonsense += usize::from(!words.contains(guess));
            }
        }
        writeln!(
            out,
            "{filter:<18} {:>6} {:>11.1} % {:>22.1} {:>17.1}",
            dictionary.0.bytes().len(),
            100.0 * passed as f64 / slips as f64,
            corrections as f64 / slips as f64,
            nonsense as f64 / slips as f64,
        )?;
    }
    Ok(())
}

/// Runs the example, and prints to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    check(&made_up(), out)
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        None => run(&mut stdout().lock()),
        Some(file) => {
            let text =
                std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
            let words = text.lines().map(str::to_lowercase).filter(|word| !word.is_empty());
            check(&words.collect(), &mut stdout().lock())
        }
    }
}
