//! The keys and values of a run.
//!
//! A run has a *universe* of keys: byte strings in order, without repetition. Operations name a key
//! by its number in the universe, so that numbers compare as keys do:
//!
//! ```text
//!   number    0      1       2          3               …     count
//!   bytes     ""     "\0"    "\0\xff"   "a" × 70,000    …     a key after all keys
//! ```
//!
//! Therefore a range of keys is a range of numbers, and a failing run can be printed shortly.
//! A value is a number and a length, from which all its bytes follow.

use std::collections::BTreeSet;
use std::fmt;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The number of a key in its universe. `Universe::count` stands for a key after all others, which
/// is only used as the end of a range.
pub type Key = u32;

/// The form of the keys of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `key00000017`: of equal length, with neighbours that share all but the last bytes.
    Numbers,
    /// All strings of 0x00, `a` and 0xff, shortest first, until there are enough. Among them is the
    /// empty key, and most keys are prefixes of others.
    ShortAlphabet,
    /// 250 equal bytes, then a number.
    LongPrefix,
    /// `user7/file12/3`: fields that prefix extractors cut.
    Paths,
    /// Up to 70,000 bytes, so that a key is larger than a block, a table or a memtable.
    Huge,
    /// Some of each.
    Mixed,
}

impl Form {
    pub const ALL: [Form; 6] = [
        Form::Numbers,
        Form::ShortAlphabet,
        Form::LongPrefix,
        Form::Paths,
        Form::Huge,
        Form::Mixed,
    ];

    /// Key number `n` of this form. Numbers and order need not agree yet.
    fn bytes(self, n: u32, rng: &mut StdRng) -> Vec<u8> {
        match self {
            Form::Numbers => format!("key{n:08}").into_bytes(),
            Form::ShortAlphabet => short_string(n),
            Form::LongPrefix => [&[b'p'; 250][..], &n.to_be_bytes()].concat(),
            Form::Paths => format!("user{}/file{}/{n}", n % 7, n % 31).into_bytes(),
            Form::Huge => {
                let length = [3, 300, 5_000, 17_000, 70_000][n as usize % 5];
                let mut bytes = vec![b'h' + (n % 3) as u8; length];
                bytes.extend(n.to_be_bytes());
                bytes
            }
            Form::Mixed => {
                // A universe of thousands of huge keys would take too long to compare.
                let forms = if n % 97 == 5 { &Form::ALL[..5] } else { &Form::ALL[..4] };
                forms[rng.random_range(0..forms.len())].bytes(n, rng)
            }
        }
    }
}

/// The `n`-th string of the alphabet, in the order of lengths: "", "\0", "a", "\xff", "\0\0", …
fn short_string(mut n: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n > 0 {
        n -= 1;
        bytes.push([0x00, b'a', 0xff][n as usize % 3]);
        n /= 3;
    }
    bytes
}

/// All keys of a run, in order.
#[derive(Debug, Clone)]
pub struct Universe {
    sorted: Vec<Vec<u8>>,
    end: Vec<u8>,
}

impl Universe {
    /// The universe with `count` keys of the form. It is always the same one.
    pub fn new(form: Form, count: u32) -> Universe {
        let mut rng = StdRng::seed_from_u64(u64::from(count));
        let keys: BTreeSet<Vec<u8>> = (0..count).map(|n| form.bytes(n, &mut rng)).collect();
        let sorted: Vec<_> = keys.into_iter().collect();
        assert_eq!(sorted.len(), count as usize, "two keys of {form:?} are equal");
        let end = [&sorted.last().expect("there is a key")[..], &[0]].concat();
        Universe { sorted, end }
    }

    pub fn count(&self) -> u32 {
        self.sorted.len() as u32
    }

    /// The bytes of a key.
    pub fn bytes(&self, key: Key) -> &[u8] {
        self.sorted.get(key as usize).unwrap_or(&self.end)
    }

    /// The key with these bytes.
    pub fn find(&self, bytes: &[u8]) -> Option<Key> {
        self.sorted.binary_search_by(|key| key[..].cmp(bytes)).ok().map(|index| index as Key)
    }

    /// The keys that start with `prefix`.
    pub fn with_prefix(&self, prefix: &[u8]) -> std::ops::Range<Key> {
        let first = self.sorted.partition_point(|key| &key[..] < prefix);
        let count = self.sorted[first..].partition_point(|key| key.starts_with(prefix));
        first as Key..(first + count) as Key
    }

    /// A key as a person can read it: `17 "key00000017"`.
    pub fn show(&self, key: Key) -> String {
        let bytes = self.bytes(key);
        match bytes.len() {
            0..=24 => format!("{key} \"{}\"", bytes.escape_ascii()),
            length => format!("{key} \"{}…\" of {length} bytes", bytes[..8].escape_ascii()),
        }
    }
}

/// A value: its bytes follow from these fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// Values of different writes have different numbers, so that a stale value is noticed as soon
    /// as it has 4 bytes.
    pub number: u32,
    pub length: u32,
    /// Whether the bytes after the number are noise, which no codec compresses, or zeros.
    pub is_noise: bool,
}

impl Value {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.resize(self.length as usize, 0);
        if self.is_noise && bytes.len() > 4 {
            // Xorshift: a generator of the library `rand` would take most of the test's time.
            let mut state = u64::from(self.number) | 1 << 40;
            for chunk in bytes[4..].chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
            }
        }
        bytes
    }

    /// Whether these are the value's bytes.
    pub fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.length as usize && bytes == self.bytes()
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_noise { "noise" } else { "zeros" };
        write!(f, "{kind}({}, {})", self.number, self.length)
    }
}

/// Bytes of a value as a person can read them.
pub fn show_value(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "nothing".into(),
        Some(bytes) if bytes.len() < 4 => format!("a value of {} bytes", bytes.len()),
        Some(bytes) => {
            let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            format!("value {number} of {} bytes", bytes.len())
        }
    }
}
