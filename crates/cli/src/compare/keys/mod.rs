//! The keys that are loaded and looked up, in their order.
//!
//! ```text
//! file      keys of a file, of standard input, of other tables
//! zipf      skewed queries
//! ```
//!
//! Absent keys are between the smallest and the largest loaded key, because a key outside of this
//! range would query no filter: the key ranges of the tables would rule it out. Keys of
//! `--absent-file` outside of the range are left out. Keys of `--query-file` outside of the range
//! are looked up, because the queries of this file are replayed as they were recorded. Without
//! these two files, absent keys are distributed as the loaded keys are.

pub mod file;
mod list;
#[cfg(test)]
mod tests;
mod zipf;

use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::failure::{Failure, Result};
use crate::show::text::{counted, percent};
use crate::{input, space};
use file::{Entry, Recorded, distinct_entries};
pub use list::KeyList;
use zipf::Zipf;

/// Bytes of a generated key.
const GENERATED_BYTES: usize = 24;

pub enum Source {
    /// This number of generated keys.
    Generated(usize),
    /// The lines of a file; with `tsv`, each line has a key and its value.
    File { path: PathBuf, tsv: bool },
    /// The keys of tables.
    Tables(Vec<PathBuf>),
}

pub struct Request {
    pub source: Source,
    /// A file of absent keys. Without it, a part of the keys of a file or of tables is not loaded
    /// but looked up as absent, unless there is a `query_file`.
    pub absent_file: Option<PathBuf>,
    /// A file of recorded queries, which replace drawn ones.
    pub query_file: Option<PathBuf>,
    /// The exponent of Zipf's law by which queries are drawn.
    pub zipf: Option<f64>,
    /// The most lookups of absent keys, and also the most of present keys.
    pub most: usize,
    pub seed: u64,
}

impl Request {
    /// Asks for generated keys, queried uniformly.
    pub fn generated(keys: usize, most: usize, seed: u64) -> Request {
        let (absent_file, query_file, zipf) = (None, None, None);
        Request { source: Source::Generated(keys), absent_file, query_file, zipf, most, seed }
    }
}

/// All keys of a comparison. Each list is in random order and without duplicates, except for the
/// absent keys of `--query-file`, which are in the order of that file and may repeat.
#[derive(Default)]
pub struct KeySet {
    pub present: KeyList,
    /// The values of the present keys, where their source has them.
    pub values: Option<KeyList>,
    pub absent: KeyList,
    pub queries: Queries,
    /// Remarks for the reader of the results.
    pub notes: Vec<String>,
}

/// The keys to look up, in order, as positions in the lists of a [`KeySet`]. They are drawn before
/// anything is timed.
#[derive(Default)]
pub struct Queries {
    pub present: Vec<usize>,
    pub absent: Vec<usize>,
    /// The share of absent keys among the queries of a file.
    pub share_absent: Option<f64>,
    /// How the queries were drawn, in words.
    pub about: String,
}

impl KeySet {
    /// Reads or makes up the keys, and draws the queries.
    pub fn new(request: &Request) -> Result<KeySet> {
        let mut set = match &request.source {
            Source::Generated(keys) => {
                space::check_memory(KeySet::memory(*keys, request.most))?;
                KeySet::generate(*keys, request.most, request.seed)
            }
            Source::File { path, tsv } => {
                let text = file::read(path)?;
                let mut notes = Vec::new();
                let entries = distinct_entries(&text, *tsv, path, &mut notes)?;
                KeySet::of_entries(entries, path, request, notes)?
            }
            Source::Tables(files) => {
                let keys = file::of_tables(files)?;
                let mut entries: Vec<Entry> =
                    (0..keys.len()).map(|i| (keys.get(i), None)).collect();
                entries.sort_unstable_by_key(|entry| entry.0);
                entries.dedup_by_key(|entry| entry.0);
                let first = files.first().map_or(Path::new(""), PathBuf::as_path);
                KeySet::of_entries(entries, first, request, Vec::new())?
            }
        };
        if request.query_file.is_none() {
            set.queries = set.draw(request.zipf, request.most, request.seed);
        }
        Ok(set)
    }

    /// A lower bound on the bytes of memory for `present` and `absent` generated keys, for the
    /// order in which they are loaded, and for the queries.
    pub fn memory(present: usize, absent: usize) -> u64 {
        let key = (GENERATED_BYTES + size_of::<usize>()) as u64;
        let (present, absent) = (present as u64, absent as u64);
        (present + absent) * key + 2 * (present + absent) * size_of::<usize>() as u64
    }

    /// Random keys of 24 hexadecimal digits. Their 96 bits keep them distinct: the chance that two
    /// of a billion are equal is one in 10^11.
    fn generate(present: usize, absent: usize, seed: u64) -> KeySet {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut key = [0; GENERATED_BYTES];
        let mut draw = move || {
            hex(random.next_u64(), &mut key[..16]);
            hex(random.next_u64(), &mut key[16..]);
            key
        };
        let mut set = KeySet::default();
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

    /// The key set of entries that are sorted by key. The absent keys come from the request's
    /// files. If the request names none, a tenth of the keys is not loaded, but looked up as
    /// absent.
    fn of_entries(
        mut keys: Vec<Entry>,
        source: &Path,
        request: &Request,
        notes: Vec<String>,
    ) -> Result<KeySet> {
        let mut random = SmallRng::seed_from_u64(request.seed);
        let mut set = KeySet { notes, ..KeySet::default() };
        if let Some(file) = &request.query_file {
            let queries = file::queries(file)?;
            if queries.in_tables().next().is_none() {
                let all = "a memtable answered every query, so that none searches a table";
                return Err(Failure::new(format_args!("{}: {all}", input::name(file))));
            }
            set.take_queries(&queries, &keys, file, request, &mut random);
            return Ok(set);
        }
        let absent_text;
        let mut absent: Vec<&[u8]> = match &request.absent_file {
            None => {
                if keys.len() < 3 {
                    return Err(Failure::new(format_args!(
                        "{}: {}: at least 3 are needed to hold one out as absent; give --absent-file",
                        input::name(source),
                        counted(keys.len() as u64, "distinct key")
                    )));
                }
                // The smallest and the largest key are loaded, so that all absent keys are between
                // them.
                let last = keys.len() - 1;
                keys[1..last].shuffle(&mut random);
                let held_out = (keys.len() / 10).max(1).min(request.most);
                keys.drain(1..=held_out).map(|entry| entry.0).collect()
            }
            Some(file) => {
                absent_text = file::read(file)?;
                let absent = distinct_entries(&absent_text, false, file, &mut set.notes)?;
                absent_within(&absent, &keys, file, &mut set.notes)?
            }
        };
        absent.shuffle(&mut random);
        absent.truncate(request.most);
        keys.shuffle(&mut random);
        set.absent = absent.into_iter().collect();
        set.load(&keys);
        Ok(set)
    }

    /// Takes these entries as the present keys, in this order.
    fn load(&mut self, entries: &[Entry]) {
        self.present = entries.iter().map(|entry| entry.0).collect();
        self.values = entries.iter().map(|entry| entry.1).collect();
    }

    /// Takes all of the sorted `keys` as present keys, in random order. Takes the queries in the
    /// order of the file: at most `request.most` of absent keys, and at most as many of present
    /// keys.
    ///
    /// Queries that a memtable answered are left out, because they search no table.
    fn take_queries(
        &mut self,
        queries: &Recorded,
        keys: &[Entry],
        file: &Path,
        request: &Request,
        random: &mut SmallRng,
    ) {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.shuffle(random);
        let mut position = vec![0; keys.len()];
        order.iter().enumerate().for_each(|(n, &i)| position[i] = n);
        self.load(&order.iter().map(|&i| keys[i]).collect::<Vec<_>>());

        let inside = keys[0].0..=keys[keys.len() - 1].0;
        let (mut outside, mut absent) = (0, 0);
        let left_out =
            queries.in_memtable.iter().filter(|&&in_memtable| in_memtable).count() as u64;
        if left_out > 0 {
            let lookups = counted(left_out, "lookup");
            let name = input::name(file);
            self.notes.push(format!("{name}: {lookups} that a memtable answered are left out"));
        }
        let queries: Vec<&[u8]> = queries.in_tables().collect();
        for &query in &queries {
            match keys.binary_search_by_key(&query, |entry| entry.0) {
                Ok(i) if self.queries.present.len() < request.most => {
                    self.queries.present.push(position[i]);
                }
                Ok(_) => {}
                Err(_) => {
                    absent += 1;
                    outside += u64::from(!inside.contains(&query));
                    if self.queries.absent.len() < request.most {
                        self.queries.absent.push(self.absent.len());
                        self.absent.push(query);
                    }
                }
            }
        }
        self.queries.share_absent = Some(absent as f64 / queries.len() as f64);
        self.queries.about = format!(
            "{} of {}, in its order: {} of absent keys, {} outside the range of those loaded",
            counted(queries.len() as u64, "lookup"),
            input::name(file),
            percent(absent as f64 / queries.len() as f64),
            percent(outside as f64 / queries.len() as f64),
        );
    }

    /// Draws the positions to look up. Without `zipf`, they are each absent key once, and as many
    /// present keys, or all if there are fewer. With `zipf`, they are `most` draws of absent keys
    /// and `most` draws of present keys, which favour low positions. The key lists are in random
    /// order, so the favoured keys are scattered over the key range.
    fn draw(&self, zipf: Option<f64>, most: usize, seed: u64) -> Queries {
        let (present, absent) = (self.present.len(), self.absent.len());
        let Some(exponent) = zipf else {
            return Queries {
                present: (0..present.min(absent)).collect(),
                absent: (0..absent).collect(),
                share_absent: None,
                about: "uniform: every absent key once, and as many present ones".into(),
            };
        };
        let mut random = SmallRng::seed_from_u64(seed ^ 2);
        let mut draw = |keys: usize| {
            let zipf = Zipf::new(keys as u64, exponent);
            (0..most).map(|_| zipf.draw(&mut random)).collect()
        };
        let about = format!("Zipf's law with exponent {exponent}, of absent and of present keys");
        Queries { present: draw(present), absent: draw(absent), share_absent: None, about }
    }
}

/// Writes the first hexadecimal digits of a number.
fn hex(number: u64, digits: &mut [u8]) {
    for (i, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (60 - 4 * i)) as usize & 15];
    }
}

/// The keys of `queried` that are not in `keys` but between the first and the last of `keys`.
fn absent_within<'a>(
    queried: &[Entry<'a>],
    keys: &[Entry],
    file: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<&'a [u8]>> {
    let inside = keys[0].0..=keys[keys.len() - 1].0;
    let within: Vec<_> = queried.iter().map(|e| e.0).filter(|key| inside.contains(key)).collect();
    let outside = queried.len() - within.len();
    let is_absent = |key: &&[u8]| keys.binary_search_by_key(key, |entry| entry.0).is_err();
    let absent: Vec<_> = within.iter().copied().filter(is_absent).collect();
    let present = within.len() - absent.len();
    if outside + present > 0 {
        notes.push(format!(
            "{}: left out {} and {} outside the range of the present ones",
            input::name(file),
            counted(present as u64, "present key"),
            counted(outside as u64, "key")
        ));
    }
    if absent.is_empty() {
        return Err(Failure::new(format_args!(
            "{}: no absent key inside the range of the keys loaded: {present} are present, {outside} lie \
             outside",
            input::name(file)
        )));
    }
    Ok(absent)
}
