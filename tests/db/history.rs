//! A history of writes: the number `n` of a write determines what it does, so that the content of a
//! database after a crash shows which writes survived.
//!
//! Any [`PERIOD`] consecutive writes put or delete each key at least once, so earlier writes leave
//! no trace.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use maypole::WriteBatch;

/// The number of keys. Any `PERIOD` consecutive writes touch each key at least once.
const PERIOD: u64 = 700;

/// One change of a write.
#[derive(Debug, Clone)]
pub enum Change {
    Put(String, String),
    Delete(String),
    /// Deletes the keys from the first to before the second.
    DeleteRange(String, String),
}

/// What write number `n` does, in order.
pub fn changes(n: u64) -> Vec<Change> {
    let key = |number: u64| format!("key{:04}", number % PERIOD);
    let mut changes = vec![Change::Put("number".to_owned(), n.to_string())];
    if n.is_multiple_of(7) {
        let first = n * 53 % PERIOD;
        changes.push(Change::DeleteRange(key(first), format!("key{:04}", first + 1 + n % 40)));
    }
    for part in 0..=(n % 3) {
        // 31 and `PERIOD` have no common factor. So among any `PERIOD` consecutive writes, each has
        // another key in its change with `part` 0, and together these changes visit every key.
        let key = key(n * 31 + part * 977);
        changes.push(match (n + part).is_multiple_of(5) {
            true => Change::Delete(key),
            false => Change::Put(key, format!("{n}:{}", "v".repeat((n % 90) as usize))),
        });
    }
    changes
}

/// Write number `n` as one batch, with `prefix` before each key. Each write has at least two
/// changes, so that a write of which only a part survives is noticed.
pub fn write_under(prefix: &str, n: u64) -> WriteBatch {
    let key = |key: String| format!("{prefix}{key}");
    let mut batch = WriteBatch::new();
    for change in changes(n) {
        match change {
            Change::Put(name, value) => batch.put(key(name), value),
            Change::Delete(name) => batch.delete(key(name)),
            Change::DeleteRange(begin, end) => batch.delete_range(key(begin)..key(end)),
        };
    }
    batch
}

/// What the database must hold after the writes 1 to `last`.
pub fn model(last: u64) -> BTreeMap<String, String> {
    after(last.saturating_sub(PERIOD) + 1..=last)
}

fn after(writes: RangeInclusive<u64>) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for change in writes.flat_map(changes) {
        match change {
            Change::Put(key, value) => drop(map.insert(key, value)),
            Change::Delete(key) => drop(map.remove(&key)),
            Change::DeleteRange(begin, end) => map.retain(|key, _| *key < begin || *key >= end),
        }
    }
    map
}

#[test]
fn the_last_writes_tell_what_all_left() {
    for last in [0, 1, 699, 700, 701, 1399, 3000] {
        assert_eq!(model(last), after(1..=last), "after {last} writes");
    }
}
