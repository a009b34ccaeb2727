//! Several histories of writes at once (*streams*), one for each writing thread. Each write records
//! which writes of the other streams came before it.
//!
//! Each stream is a [`history`](super::history) whose keys have the stream's prefix, such as `s0/`.
//! A thread that begins a write first looks up the last acknowledged write of each stream, and
//! stores their numbers with the write, under the key `seen`. If the write survives a power loss,
//! these earlier writes must survive too.
//!
//! The first stream is in the keyspace `default`, and each other one in a keyspace of its own. So
//! they share a log, but their memtables are flushed at different times.

use maypole::Db;

pub const STREAMS: usize = 3;

/// The last write of each stream.
pub type Last = [u64; STREAMS];

pub fn prefix(stream: usize) -> String {
    format!("s{stream}/")
}

/// The handle of the keyspace of a stream.
pub fn keyspace(db: &Db, stream: usize) -> maypole::Result<Db> {
    match stream {
        0 => Ok(db.clone()),
        _ => db.keyspace(prefix(stream)),
    }
}

pub fn seen_key(stream: usize) -> String {
    format!("{}seen", prefix(stream))
}

/// The numbers as words, separated by spaces. [`from_words`] is the inverse.
pub fn to_words(last: &Last) -> String {
    last.map(|n| n.to_string()).join(" ")
}

pub fn from_words(words: &str) -> Option<Last> {
    let numbers: Vec<u64> = words.split(' ').map_while(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

/// The last write of a stream in the database; 0 if there is none.
pub fn last_of(db: &Db, stream: usize) -> maypole::Result<u64> {
    let value = keyspace(db, stream)?.get(format!("{}number", prefix(stream)))?;
    Ok(value.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap()))
}
