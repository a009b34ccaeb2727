//! Several histories of writes at once, one for each writing thread. Each write records which
//! writes of the other threads came before it.
//!
//! Thread `s` writes the [`history`](super::history) under the prefix `s` + its number. When a
//! write begins, it looks up the last acknowledged write of each stream, and stores their numbers
//! under the key `seen`. If the write survives a power loss, these earlier writes must survive too.

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
