//! Which keys are loaded, and which absent ones are looked up.
//!
//! Absent keys lie between the smallest and the largest key loaded, and are spread as those are:
//! outside the tables' ranges no filter would be asked, and the ranges would do the filters' work.

use std::fs;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::failure::{Failure, Result};
use crate::load::no_keys;
use crate::space;
use crate::text::count;

/// Byte strings, one after the other in memory: no allocation each.
#[derive(Default)]
pub struct KeyList {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
}

impl KeyList {
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    /// Bytes of all keys together.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> FromIterator<&'a [u8]> for KeyList {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(keys: I) -> KeyList {
        let mut list = KeyList::default();
        keys.into_iter().for_each(|key| list.push(key));
        list
    }
}

/// Bytes of a generated key.
const GENERATED_BYTES: usize = 24;

/// All keys of a comparison. Each list is in random order and without duplicates.
pub struct KeySet {
    pub present: KeyList,
    pub absent: KeyList,
    /// What the reader of the results should know of them.
    pub notes: Vec<String>,
}

impl KeySet {
    /// Bytes of memory that so many generated keys take at least, with the orders of the present ones.
    pub fn memory(present: usize, absent: usize) -> u64 {
        let key = (GENERATED_BYTES + size_of::<usize>()) as u64;
        (present as u64 + absent as u64) * key + 2 * (present * size_of::<usize>()) as u64
    }

    /// Random keys of 24 hexadecimal digits. Their 96 bits keep them distinct: the chance that two
    /// of a billion are equal is one in 10^11.
    pub fn generate(present: usize, absent: usize, seed: u64) -> KeySet {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut key = [0; GENERATED_BYTES];
        let mut draw = move || {
            hex(random.next_u64(), &mut key[..16]);
            hex(random.next_u64(), &mut key[16..]);
            key
        };
        let mut set =
            KeySet { present: KeyList::default(), absent: KeyList::default(), notes: Vec::new() };
        let (mut smallest, mut largest) = ([0xff; GENERATED_BYTES], [0; GENERATED_BYTES]);
        for _ in 0..present {
            let key = draw();
            smallest = smallest.min(key);
            largest = largest.max(key);
            set.present.push(&key);
        }
        while set.absent.len() < absent {
            let key = draw();
            if smallest < key && key < largest {
                set.absent.push(&key);
            }
        }
        set
    }

    /// The lines of `file`. Absent are at most `most_absent` of the lines of `absent_file` or, when
    /// there is none, of a tenth of `file` that is not loaded.
    pub fn read(
        file: &Path,
        absent_file: Option<&Path>,
        most_absent: usize,
        seed: u64,
    ) -> Result<KeySet> {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut notes = Vec::new();
        let text = read(file)?;
        let mut keys = distinct_lines(&text, file, &mut notes)?;
        let absent_text;
        let mut absent = match absent_file {
            None => {
                if keys.len() < 3 {
                    return Err(Failure::new(format_args!(
                        "{}: {} distinct keys: at least 3 are needed to hold one out as absent; give \
                         --absent-file",
                        file.display(),
                        keys.len()
                    )));
                }
                // The smallest and the largest key stay: all others lie between them.
                let last = keys.len() - 1;
                keys[1..last].shuffle(&mut random);
                let held_out = (keys.len() / 10).max(1).min(most_absent);
                keys.drain(1..=held_out).collect()
            }
            Some(absent_file) => {
                absent_text = read(absent_file)?;
                let absent = distinct_lines(&absent_text, absent_file, &mut notes)?;
                absent_within(&absent, &keys, absent_file, &mut notes)?
            }
        };
        absent.shuffle(&mut random);
        absent.truncate(most_absent);
        keys.shuffle(&mut random);
        Ok(KeySet {
            present: keys.into_iter().collect(),
            absent: absent.into_iter().collect(),
            notes,
        })
    }
}

/// Writes the first digits of a number.
fn hex(number: u64, digits: &mut [u8]) {
    for (i, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (60 - 4 * i)) as usize & 15];
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let failed = |error| Failure::of_file(file, "read", &error);
    // The text, and a copy of its lines in the order of loading.
    space::check_memory(2 * fs::metadata(file).map_err(failed)?.len())?;
    let text = fs::read(file).map_err(failed)?;
    if text.is_empty() { Err(no_keys(file)) } else { Ok(text) }
}

/// The lines of a text that is not empty, sorted, each once. The last line feed ends a line and
/// begins none.
fn distinct_lines<'a>(
    text: &'a [u8],
    file: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<&'a [u8]>> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    if lines.len() < all {
        let (all, distinct) = (count(all as u64), count(lines.len() as u64));
        notes.push(format!("{}: {all} lines, {distinct} distinct keys", file.display()));
    }
    Ok(lines)
}

/// Of the keys `asked`, those that are not in `keys` but lie between its first and last.
fn absent_within<'a>(
    asked: &[&'a [u8]],
    keys: &[&[u8]],
    file: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<&'a [u8]>> {
    let inside = keys[0]..=keys[keys.len() - 1];
    let within: Vec<_> = asked.iter().copied().filter(|key| inside.contains(key)).collect();
    let outside = asked.len() - within.len();
    let absent: Vec<_> =
        within.iter().copied().filter(|key| keys.binary_search(key).is_err()).collect();
    let present = within.len() - absent.len();
    if outside + present > 0 {
        notes.push(format!(
            "{}: left out {} keys that are present and {} outside the range of those",
            file.display(),
            count(present as u64),
            count(outside as u64)
        ));
    }
    if absent.is_empty() {
        return Err(Failure::new(format_args!(
            "{}: no absent key inside the range of the keys loaded: {present} are present, {outside} lie \
             outside",
            file.display()
        )));
    }
    Ok(absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(list: &KeyList) -> Vec<&[u8]> {
        let mut keys: Vec<_> = (0..list.len()).map(|i| list.get(i)).collect();
        keys.sort_unstable();
        keys
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    #[test]
    fn absent_keys_are_absent_and_inside_the_range() {
        let text: String = (0..1000).map(|i| format!("key {}\n", i * 7919 % 1000)).collect();
        let keys = file(&text);
        let others = file("key 1x\nkey 1\na\nz\nkey 1x\n");
        for set in [
            KeySet::generate(1000, 300, 5),
            KeySet::read(keys.path(), None, 90, 5).unwrap(),
            KeySet::read(keys.path(), Some(others.path()), 90, 5).unwrap(),
        ] {
            let (present, absent) = (sorted(&set.present), sorted(&set.absent));
            assert!(!absent.is_empty());
            assert!(present.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(absent.windows(2).all(|pair| pair[0] < pair[1]));
            for key in absent {
                assert!(present.binary_search(&key).is_err());
                assert!(present[0] < key && key < present[present.len() - 1]);
            }
        }
    }

    #[test]
    fn a_tenth_is_held_out_and_the_rest_is_loaded() {
        let text: String = (0..1000).map(|i| format!("{i:03}\n")).collect();
        let keys = file(&text);
        let set = KeySet::read(keys.path(), None, 1_000_000, 1).unwrap();
        assert_eq!((set.present.len(), set.absent.len()), (900, 100));
        assert!(set.notes.is_empty());
    }

    #[test]
    fn a_seed_draws_the_same_keys_again() {
        let (a, b, c) =
            (KeySet::generate(9, 9, 1), KeySet::generate(9, 9, 1), KeySet::generate(9, 9, 2));
        assert_eq!((&a.present.bytes, &a.absent.bytes), (&b.present.bytes, &b.absent.bytes));
        assert_ne!(a.present.bytes, c.present.bytes);
    }

    #[test]
    fn an_empty_line_is_the_empty_key_and_equal_lines_count_once() {
        let keys = file("b\n\na\nb\n\n\nc");
        let set = KeySet::read(keys.path(), None, 9, 1).unwrap();
        assert_eq!(set.present.len() + set.absent.len(), 4);
        assert_eq!(sorted(&set.present)[0], b"");
        assert!(set.notes[0].contains("7 lines, 4 distinct"), "{:?}", set.notes);
    }

    #[test]
    fn what_cannot_be_compared_is_refused_with_a_reason() {
        for (text, reason) in [("", "no keys"), ("a\nb\nb\n", "2 distinct keys")] {
            let error = KeySet::read(file(text).path(), None, 9, 1).err().unwrap();
            let Failure::Message(message) = error else { panic!() };
            assert!(message.contains(reason), "{message}");
        }
    }
}
