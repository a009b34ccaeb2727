//! Several histories at once, one for each writing thread, and what each knew of the others.
//!
//! Thread `s` writes the [`history`](super::history) under the prefix `s` + its number. Every write
//! stores under the key `seen` the last write of each stream that was acknowledged when it began.
//! These writes came before it, so they must survive if it survives.

use maypole::Db;

pub const STREAMS: usize = 3;

/// The last write of each stream.
pub type Last = [u64; STREAMS];

pub fn prefix(stream: usize) -> String {
    format!("s{stream}/")
}

pub fn seen_key(stream: usize) -> String {
    format!("{}seen", prefix(stream))
}

/// Conversion of numbers to a line of words, and back.
pub fn to_words(last: &Last) -> String {
    last.map(|n| n.to_string()).join(" ")
}

pub fn from_words(words: &str) -> Option<Last> {
    let numbers: Vec<u64> = words.split(' ').map_while(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

/// The last write of a stream in the database; 0 if there is none.
pub fn last_of(db: &Db, stream: usize) -> maypole::Result<u64> {
    let value = db.get(format!("{}number", prefix(stream)))?;
    Ok(value.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap()))
}
