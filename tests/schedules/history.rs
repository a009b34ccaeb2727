//! What each writer has written, and what a view may show of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The writers. The first byte of a key names its writer.
pub const WRITERS: usize = 2;
/// The keys of each writer.
pub const KEYS: u8 = 6;

/// Of one writer: what each of its keys has.
type State = BTreeMap<u8, u64>;
/// Of one write: the new value of each key that it changes; `None` deletes.
pub type Change = Vec<(u8, Option<u64>)>;

/// The writes of one writer. Each is begun after the one before it has ended.
#[derive(Default)]
struct Writes {
    begun: Vec<Change>,
    acknowledged: usize,
    /// The acknowledged writes that also survive a power loss.
    synced: usize,
}

/// The writes of all writers. Its mutex is the standard library's, because no thread is switched
/// while it is locked.
#[derive(Default)]
pub struct History([Mutex<Writes>; WRITERS]);

/// How many writes of each writer a view must have.
pub type Least = [usize; WRITERS];

pub fn key(writer: usize, key: u8) -> [u8; 2] {
    [b'a' + writer as u8, key]
}

impl History {
    fn of(&self, writer: usize) -> std::sync::MutexGuard<'_, Writes> {
        self.0[writer].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write begins.
    pub fn begin(&self, writer: usize, change: Change) {
        self.of(writer).begun.push(change);
    }

    /// The write that was begun last is acknowledged.
    pub fn acknowledge(&self, writer: usize, is_synced: bool) {
        let mut writes = self.of(writer);
        writes.acknowledged = writes.begun.len();
        if is_synced {
            writes.synced = writes.acknowledged;
        }
    }

    /// The acknowledged writes up to now.
    pub fn acknowledged(&self) -> Least {
        std::array::from_fn(|writer| self.of(writer).acknowledged)
    }

    /// The synced writes up to now.
    pub fn synced(&self) -> Least {
        std::array::from_fn(|writer| self.of(writer).synced)
    }

    /// All acknowledged writes are synced, as after `close`.
    pub fn count_as_synced(&self, least: Least) {
        for (writer, least) in least.into_iter().enumerate() {
            let mut writes = self.of(writer);
            writes.synced = writes.synced.max(least);
        }
    }

    /// Asserts that a view of all keys shows what the first writes of each writer leave: at least
    /// `least` of them.
    pub fn check(&self, what: &str, least: Least, shown: &[(Vec<u8>, u64)]) {
        for (writer, least) in least.into_iter().enumerate() {
            let of_writer = shown.iter().filter(|(key, _)| key[0] == b'a' + writer as u8);
            let shown: State = of_writer.map(|(key, value)| (key[1], *value)).collect();
            let writes = self.of(writer);
            let mut state = State::new();
            let mut fits = least == 0 && state == shown;
            for (i, change) in writes.begun.iter().enumerate() {
                for &(key, value) in change {
                    match value {
                        Some(value) => state.insert(key, value),
                        None => state.remove(&key),
                    };
                }
                fits |= i + 1 >= least && state == shown;
            }
            assert!(
                fits,
                "{what} shows {shown:?} of writer {writer}, after {least} of {:?}",
                writes.begun
            );
        }
    }

    /// Asserts that one key has a value that a write from the `least`th on left.
    pub fn check_one(&self, what: &str, least: Least, writer: usize, key: u8, shown: Option<u64>) {
        let writes = self.of(writer);
        let (mut value, mut fits) = (None, least[writer] == 0 && shown.is_none());
        for (i, change) in writes.begun.iter().enumerate() {
            for &(changed, new) in change {
                value = if changed == key { new } else { value };
            }
            fits |= i + 1 >= least[writer] && value == shown;
        }
        let (least, writes) = (least[writer], &writes.begun);
        assert!(fits, "{what} shows {shown:?} of {writer}/{key}, after {least} of {writes:?}");
    }
}
