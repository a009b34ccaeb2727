//! The requests of the pages in `docs/book/src/playground`, and the answers as JSON.
//!
//! A request is a line of words. Lines with keys follow it: `+key` is added, `?key` is queried.
//!
//! ```text
//! bloom BITS                    a Bloom filter of the library: its lines, the bits of each key
//! ribbon SLOTS                  a ribbon on paper: seed after seed until one works
//! burr SLOTS                    the same with layers: each bumps keys to the next
//! full FAMILY BITS KEYS ASKED   a ribbon of KEYS keys of the library: its layers, its first
//!                               equations and slots, and what a query for key number ASKED meets
//! rate FAMILY BITS KEYS ASKED   a filter of KEYS keys is queried for ASKED others
//! ```
//!
//! Requests that cannot be answered get `{"error":"…"}`. Rates have only seven digits, because the
//! last digits of a logarithm may differ between WebAssembly and a processor.

mod bloom;
mod full;
mod rate;
mod ribbon;

/// The keys of a request.
#[derive(Default)]
struct Keys<'a> {
    added: Vec<&'a str>,
    asked: Vec<&'a str>,
}

pub fn answer(request: &str) -> String {
    let (command, lines) = request.split_once('\n').unwrap_or((request, ""));
    let mut keys = Keys::default();
    for line in lines.lines() {
        match line.split_at_checked(1) {
            Some(("+", key)) => keys.added.push(key),
            Some(("?", key)) => keys.asked.push(key),
            _ => return error("a key begins with + or ?"),
        }
    }
    let words: Vec<&str> = command.split(' ').collect();
    let answer = match words[..] {
        ["bloom", bits] => bloom::answer(bits, &keys),
        ["ribbon", slots] => ribbon::answer(slots, false, &keys),
        ["burr", slots] => ribbon::answer(slots, true, &keys),
        ["full", family, bits, present, asked] => full::answer(family, bits, present, asked),
        ["rate", family, bits, present, absent] => rate::answer(family, bits, present, absent),
        _ => Err("unknown request".into()),
    };
    answer.unwrap_or_else(|message| error(&message))
}

fn error(message: &str) -> String {
    // For printable ASCII, the debug form of a text is also its JSON form.
    let ascii: String = message.chars().filter(|c| (' '..='~').contains(c)).collect();
    format!("{{\"error\":{ascii:?}}}")
}

/// A number within limits.
fn number(word: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = word.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{word} is not a number from {least} to {most}"))
}

/// A JSON list.
fn list<T>(items: impl IntoIterator<Item = T>, write: impl FnMut(T) -> String) -> String {
    let items: Vec<String> = items.into_iter().map(write).collect();
    format!("[{}]", items.join(","))
}
