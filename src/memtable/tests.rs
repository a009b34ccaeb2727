//! Tests the contract of a memtable on the plain version (`reference.rs`) and on the fast one
//! ([`super`]). Then tests what only the fast version promises: readers may run while a writer
//! inserts, and [`Memtable::bytes`] accounts for its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::reference::ReferenceMemtable;
use super::{Memtable, MemtableWriter};
use crate::cursor::Cursor;
use crate::encoding::key::{
    EntryKind, MAX_SEQUENCE, SequenceNumber, internal_key, seek_key, user_key,
};
use crate::sync::pin;

const DELETION: u8 = EntryKind::Deletion as u8;
const VALUE: u8 = EntryKind::Value as u8;
const RANGE_DELETION: u8 = EntryKind::RangeDeletion as u8;

trait Subject {
    type Cursor: Cursor;
    fn empty() -> Self;
    fn insert(&mut self, user_key: &[u8], sequence: SequenceNumber, kind: u8, value: &[u8]);
    fn get(&self, user_key: &[u8], sequence: SequenceNumber) -> Option<(u64, u8, Vec<u8>)>;
    fn cursor(&self) -> Self::Cursor;
    fn range_deletions(&self) -> Vec<(Vec<u8>, Vec<u8>, SequenceNumber)>;
    fn len(&self) -> usize;
}

impl Subject for ReferenceMemtable {
    type Cursor = super::reference::ReferenceCursor;
    fn empty() -> Self {
        ReferenceMemtable::default()
    }
    fn insert(&mut self, user_key: &[u8], sequence: SequenceNumber, kind: u8, value: &[u8]) {
        self.insert(user_key, sequence, kind, value);
    }
    fn get(&self, user_key: &[u8], sequence: SequenceNumber) -> Option<(u64, u8, Vec<u8>)> {
        self.get(user_key, sequence)
    }
    fn cursor(&self) -> Self::Cursor {
        self.cursor()
    }
    fn range_deletions(&self) -> Vec<(Vec<u8>, Vec<u8>, SequenceNumber)> {
        self.range_deletions()
    }
    fn len(&self) -> usize {
        self.len()
    }
}

impl Subject for MemtableWriter {
    type Cursor = super::MemtableCursor;
    fn empty() -> Self {
        Memtable::new(1 << 20).1
    }
    fn insert(&mut self, user_key: &[u8], sequence: SequenceNumber, kind: u8, value: &[u8]) {
        self.insert(user_key, sequence, kind, value);
    }
    fn get(&self, user_key: &[u8], sequence: SequenceNumber) -> Option<(u64, u8, Vec<u8>)> {
        let (sequence, kind, value) = Memtable::get(self, user_key, sequence)?;
        Some((sequence, kind, value.to_vec()))
    }
    fn cursor(&self) -> Self::Cursor {
        Memtable::cursor(self)
    }
    fn range_deletions(&self) -> Vec<(Vec<u8>, Vec<u8>, SequenceNumber)> {
        let sets = Memtable::ranges(self);
        let ranges = sets.iter().flat_map(|set| set.iter());
        let mut ranges: Vec<_> =
            ranges.map(|r| (r.start.to_vec(), r.end.to_vec(), r.sequence)).collect();
        ranges.sort_by(|a, b| a.0.cmp(&b.0).then(b.2.cmp(&a.2)));
        ranges
    }
    fn len(&self) -> usize {
        Memtable::len(self)
    }
}

/// Runs a test of the contract for both versions.
macro_rules! contract {
    ($($(#[$meta:meta])* fn $name:ident<$subject:ident>() $body:block)*) => {$(
        #[test]
        fn $name() {
            fn check<$subject: Subject>() $body
            check::<ReferenceMemtable>();
            check::<MemtableWriter>();
        }
    )*};
}

fn standing<C: Cursor>(cursor: &C) -> Option<(Vec<u8>, Vec<u8>)> {
    cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec()))
}

fn forward<C: Cursor>(mut cursor: C) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        keys.push(cursor.key().to_vec());
        cursor.next().unwrap();
    }
    keys
}

fn backward<C: Cursor>(mut cursor: C) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    cursor.seek_to_last().unwrap();
    while cursor.valid() {
        keys.push(cursor.key().to_vec());
        cursor.prev().unwrap();
    }
    keys
}

contract! {
    fn an_empty_memtable_holds_nothing<S>() {
        let memtable = S::empty();
        assert_eq!(memtable.get(b"", MAX_SEQUENCE), None);
        assert_eq!(memtable.len(), 0);
        assert_eq!(memtable.range_deletions(), []);
        let mut cursor = memtable.cursor();
        assert!(!cursor.valid());
        cursor.seek_to_first().unwrap();
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        assert!(!cursor.valid());
        cursor.seek(&seek_key(b"", MAX_SEQUENCE)).unwrap();
        assert!(!cursor.valid());
        cursor.seek_before(&internal_key(&[0xff; 30], 0, 0)).unwrap();
        assert!(!cursor.valid());
    }

    fn a_get_finds_the_newest_version_at_or_below_its_sequence_number<S>() {
        let mut memtable = S::empty();
        memtable.insert(b"k", 3, VALUE, b"three");
        memtable.insert(b"k", 9, VALUE, b"nine");
        memtable.insert(b"k", 6, DELETION, b"");
        memtable.insert(b"k\0", 4, VALUE, b"other");
        assert_eq!(memtable.get(b"k", 2), None);
        assert_eq!(memtable.get(b"k", 3), Some((3, VALUE, b"three".to_vec())));
        assert_eq!(memtable.get(b"k", 5), Some((3, VALUE, b"three".to_vec())));
        assert_eq!(memtable.get(b"k", 6), Some((6, DELETION, vec![])));
        assert_eq!(memtable.get(b"k", MAX_SEQUENCE), Some((9, VALUE, b"nine".to_vec())));
        assert_eq!(memtable.get(b"k\0", 9), Some((4, VALUE, b"other".to_vec())));
        assert_eq!(memtable.get(b"", 9), None);
        assert_eq!(memtable.get(b"k\0\0", 9), None);
    }

    fn cursors_walk_and_seek_in_both_directions<S>() {
        let mut memtable = S::empty();
        let keys = [(&b"a"[..], 5), (b"b", 8), (b"b", 2), (b"b\0", 1), (b"c", 7)];
        for index in [3, 0, 4, 2, 1] {
            let (key, sequence) = keys[index];
            memtable.insert(key, sequence, VALUE, &[index as u8]);
        }
        let ordered: Vec<Vec<u8>> =
            keys.iter().map(|&(key, sequence)| internal_key(key, sequence, VALUE)).collect();
        assert_eq!(forward(memtable.cursor()), ordered);
        assert_eq!(backward(memtable.cursor()), ordered.iter().rev().cloned().collect::<Vec<_>>());

        let mut cursor = memtable.cursor();
        cursor.seek(&ordered[2]).unwrap();
        assert_eq!(standing(&cursor), Some((ordered[2].clone(), vec![2])));
        cursor.seek_before(&ordered[2]).unwrap();
        assert_eq!(cursor.key(), ordered[1]);
        cursor.seek(&seek_key(b"b", 7)).unwrap();
        assert_eq!(cursor.key(), ordered[2]);
        cursor.prev().unwrap();
        cursor.prev().unwrap();
        assert_eq!(cursor.key(), ordered[0]);
        cursor.next().unwrap();
        assert_eq!(cursor.key(), ordered[1]);
        cursor.seek_before(&ordered[0]).unwrap();
        assert!(!cursor.valid());
        cursor.seek(&internal_key(b"c", 6, VALUE)).unwrap();
        assert!(!cursor.valid());
    }

    fn any_length_of_key_and_value_is_kept<S>() {
        let mut memtable = S::empty();
        let mut lengths = vec![0, 1, 7, 8, 9, 255, 4096, 1 << 20];
        lengths.extend(20..60);
        for (i, &length) in lengths.iter().enumerate() {
            let key = vec![b'k'; length];
            memtable.insert(&key, 1 + i as u64, VALUE, &vec![i as u8; (1 << 20) - length]);
        }
        for (i, &length) in lengths.iter().enumerate() {
            let (sequence, _, value) = memtable.get(&vec![b'k'; length], MAX_SEQUENCE).unwrap();
            assert_eq!(sequence, 1 + i as u64);
            assert!(value == vec![i as u8; (1 << 20) - length], "value of key length {length}");
        }
        assert_eq!(forward(memtable.cursor()).len(), lengths.len());
    }

    fn range_deletions_stand_apart_from_the_points<S>() {
        let mut memtable = S::empty();
        memtable.insert(b"m", 4, RANGE_DELETION, b"p");
        memtable.insert(b"m", 5, VALUE, b"point");
        memtable.insert(b"a", 6, RANGE_DELETION, b"z");
        memtable.insert(b"m", 7, RANGE_DELETION, b"n");
        assert_eq!(
            memtable.range_deletions(),
            [
                (b"a".to_vec(), b"z".to_vec(), 6),
                (b"m".to_vec(), b"n".to_vec(), 7),
                (b"m".to_vec(), b"p".to_vec(), 4),
            ]
        );
        assert_eq!(memtable.len(), 4);
        assert_eq!(memtable.get(b"m", MAX_SEQUENCE), Some((5, VALUE, b"point".to_vec())));
        assert_eq!(memtable.get(b"a", MAX_SEQUENCE), None);
        assert_eq!(forward(memtable.cursor()), [internal_key(b"m", 5, VALUE)]);
    }
}

/// A random key, with bytes below and above 0x80: a short one, or one of 17 bytes, which shares a
/// prefix with the other keys of 17 bytes.
fn random_key(rng: &mut StdRng) -> Vec<u8> {
    const ALPHABET: [u8; 4] = [0, b'a', 0x80, 0xff];
    let length = if rng.random_range(0..4) == 0 { 17 } else { rng.random_range(0..4) };
    let mut key: Vec<u8> = (0..length).map(|_| ALPHABET[rng.random_range(0..4)]).collect();
    if length == 17 {
        // The memtable compares keys in words of eight bytes. The first 6 to 14 bytes of all long
        // keys are the same, so the first difference of two of them may be in any word.
        key[..rng.random_range(6..15)].fill(b'a');
    }
    key
}

fn same_step(fast: &mut impl Cursor, plain: &mut impl Cursor, step: u32, target: &[u8]) {
    fn go(cursor: &mut impl Cursor, step: u32, target: &[u8]) {
        match step {
            0 => cursor.seek_to_first(),
            1 => cursor.seek_to_last(),
            2 | 3 => cursor.seek(target),
            4 | 5 => cursor.seek_before(target),
            6..10 if cursor.valid() => cursor.next(),
            10.. if cursor.valid() => cursor.prev(),
            _ => Ok(()),
        }
        .unwrap();
    }
    go(fast, step, target);
    go(plain, step, target);
    assert_eq!(standing(fast), standing(plain), "after step {step} to {target:02x?}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn random_operations_answer_as_the_plain_version_does() {
    let mut covered = 0;
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (memtable, mut fast) = Memtable::new(1 << (10 + seed % 12));
        let mut plain = ReferenceMemtable::default();
        let (mut fast_cursor, mut plain_cursor) = (memtable.cursor(), plain.cursor());
        let sequences: Vec<SequenceNumber> = (1..=2000).collect();
        for &sequence in &sequences {
            let key = random_key(&mut rng);
            let kind = [VALUE, VALUE, VALUE, DELETION, 7, RANGE_DELETION][rng.random_range(0..6)];
            let mut value = vec![sequence as u8; rng.random_range(0..40)];
            if kind == RANGE_DELETION {
                // The end of the range. It is after the start, because it is at least `key` with a
                // byte 1 appended.
                value =
                    [&random_key(&mut rng), &key[..], &[1]].concat().max([&key[..], &[1]].concat());
            }
            fast.insert(&key, sequence, kind, &value);
            plain.insert(&key, sequence, kind, &value);

            let (key, snapshot) = (random_key(&mut rng), rng.random_range(0..sequence + 9));
            assert_eq!(Subject::get(&fast, &key, snapshot), plain.get(&key, snapshot));
            let covering = fast.covering(&key, snapshot, &pin());
            assert_eq!(covering, plain.covering(&key, snapshot));
            covered += usize::from(covering > 0);
            for _ in 0..3 {
                let kind = [0, VALUE, 0xff][rng.random_range(0..3)];
                let target =
                    internal_key(&random_key(&mut rng), rng.random_range(0..sequence + 9), kind);
                let step = rng.random_range(0..14);
                same_step(&mut fast_cursor, &mut plain_cursor, step, &target);
            }
        }
        assert_eq!(forward(memtable.cursor()), forward(plain.cursor()));
        assert_eq!(backward(memtable.cursor()), backward(plain.cursor()));
        assert_eq!(Subject::range_deletions(&fast), plain.range_deletions());
        assert_eq!(memtable.len(), plain.len());
        assert_eq!((memtable.smallest_sequence(), memtable.largest_sequence()), (1, 2000));
    }
    assert!(covered > 1000, "{covered}");
}

/// Runs of ascending keys, most of which the skip list inserts without a search. A run starts
/// before, between or after the existing keys, and existing keys may lie between the run's keys.
#[test]
fn runs_of_ascending_keys_land_between_older_ones() {
    let mut rng = StdRng::seed_from_u64(7);
    let (memtable, mut fast) = Memtable::new(1 << 20);
    let mut plain = ReferenceMemtable::default();
    let mut sequence = 0;
    for _ in 0..300 {
        let start: u32 = rng.random_range(0..100_000);
        let step = rng.random_range(0..3);
        for i in 0..rng.random_range(1..60) {
            sequence += 1;
            let key = (start + i * step).to_be_bytes();
            fast.insert(&key, sequence, VALUE, b"");
            plain.insert(&key, sequence, VALUE, b"");
        }
    }
    assert_eq!(forward(memtable.cursor()), forward(plain.cursor()));
    assert_eq!(backward(memtable.cursor()), backward(plain.cursor()));
    for key in 0..100_200u32 {
        let key = key.to_be_bytes();
        assert_eq!(Subject::get(&fast, &key, MAX_SEQUENCE), plain.get(&key, MAX_SEQUENCE));
    }
}

/// The key of the write `sequence`: scattered, and ascending in runs of 16.
fn scattered_key(sequence: SequenceNumber) -> Vec<u8> {
    let run = (sequence / 16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [&run.to_be_bytes()[..], &sequence.to_be_bytes()].concat()
}

#[test]
fn readers_beside_the_writer_find_whole_everything_that_was_published() {
    const WRITES: u64 = if cfg!(miri) { 30 } else { 30_000 };
    let (memtable, mut writer) = Memtable::new(1 << 20);
    let visible = AtomicU64::new(0);
    thread::scope(|scope| {
        for reader in 0..if cfg!(miri) { 2 } else { 3 } {
            let (memtable, visible) = (Arc::clone(&memtable), &visible);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(reader);
                let mut snapshot = 0;
                while snapshot < WRITES {
                    snapshot = visible.load(Ordering::Acquire);
                    for _ in 0..if cfg!(miri) { 5 } else { 200 } {
                        let sequence = rng.random_range(0..snapshot + 3);
                        let key = scattered_key(sequence);
                        match memtable.get(&key, snapshot) {
                            Some(found) => assert_eq!(found, (sequence, VALUE, &key[..])),
                            None => assert!(sequence == 0 || sequence > snapshot, "{sequence}"),
                        }
                    }
                    let walk = if reader % 2 == 0 { forward } else { backward };
                    let mut keys = walk(memtable.cursor());
                    if reader % 2 == 1 {
                        keys.reverse();
                    }
                    assert!(keys.is_sorted_by(|a, b| user_key(a) < user_key(b)));
                    let seen =
                        keys.iter().filter(|key| crate::encoding::key::sequence(key) <= snapshot);
                    assert_eq!(seen.count() as u64, snapshot);
                }
            });
        }
        for sequence in 1..=WRITES {
            let key = scattered_key(sequence);
            writer.insert(&key, sequence, VALUE, &key);
            visible.store(sequence, Ordering::Release);
        }
    });
    assert_eq!(memtable.len() as u64, WRITES);
}

#[test]
fn a_cursor_outlives_every_other_handle() {
    let (memtable, mut writer) = Memtable::new(0);
    writer.insert(b"key", 1, VALUE, b"value");
    let mut cursor = memtable.cursor();
    drop((memtable, writer));
    let key = thread::spawn(move || {
        cursor.seek_to_first().unwrap();
        cursor.key().to_vec()
    });
    assert_eq!(key.join().unwrap(), internal_key(b"key", 1, VALUE));
}

#[test]
fn the_account_covers_the_content_and_little_more() {
    let (memtable, mut writer) = Memtable::new(4 << 20);
    assert!(memtable.bytes() < 4096, "an empty memtable of any size must not be full");
    let mut content = 0;
    for sequence in 1..=20_000 {
        let key = scattered_key(sequence);
        let kind = if sequence % 10 == 0 { RANGE_DELETION } else { VALUE };
        writer.insert(&key, sequence, kind, &[0; 100]);
        content += key.len() + 8 + 100;
        assert!(memtable.bytes() >= content);
    }
    // An entry that is no range deletion takes, beside its content, 16 fixed bytes, 8 bytes for
    // each of its links in the skip list (1.6 on average), padding, and a share of the unused end
    // of a chunk of the arena. `overhead` is the average over all entries, range deletions
    // included.
    let overhead = (memtable.bytes() - content) as f64 / 20_000.0;
    assert!(overhead < 42.0, "{overhead} bytes an entry");
}

/// Regression: a memtable with a million range deletions merged all of them into one set while the
/// writers waited, which took 5 seconds. Now large sets are not merged, and so that lookups do not
/// query many of them, a memtable is full when it has many range deletions, however small they are.
#[test]
fn range_deletions_are_merged_in_small_numbers_and_fill_a_memtable() {
    let (memtable, mut writer) = Memtable::new(0);
    let mut count = 0u64;
    let mut insert = |writer: &mut MemtableWriter| {
        let [start, end] = [2 * count as u32, 2 * count as u32 + 1].map(u32::to_be_bytes);
        count += 1;
        writer.insert(&start, count, RANGE_DELETION, &end);
    };
    while !memtable.is_full(usize::MAX) {
        insert(&mut writer);
        assert!(memtable.len() <= 1 << 15, "a memtable with so many range deletions is full");
    }
    assert_eq!(memtable.len(), 1 << 15);
    // A batch that is written as a whole may hold even more.
    for _ in 0..10_000 {
        insert(&mut writer);
    }
    let sets = Memtable::ranges(&memtable);
    let sizes: Vec<usize> = sets.iter().map(|set| set.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), (1 << 15) + 10_000);
    assert!(sizes.iter().all(|&size| size <= 1 << 12), "{sizes:?}");
    assert!(sizes.len() <= 11 + 12, "{sizes:?}");
    for n in (0..count as u32).step_by(997) {
        let guard = pin();
        let [inside, outside] = [2 * n, 2 * n + 1].map(u32::to_be_bytes);
        assert_eq!(memtable.covering(&inside, u64::MAX >> 8, &guard), u64::from(n) + 1);
        assert_eq!(memtable.covering(&inside, u64::from(n), &guard), 0);
        assert_eq!(memtable.covering(&outside, u64::MAX >> 8, &guard), 0);
    }
}
