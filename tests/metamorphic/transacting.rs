//! Transactions: what they show, and which of them must conflict.
//!
//! ```text
//!   begin ── get ── write ── scan ── a write of somebody else ── get ── commit
//!            shows the state at the beginning and the own writes
//! ```
//!
//! A commit *must* conflict if a read would now have another answer. It *may* conflict if a write of
//! somebody else concerns a key or a range that was read, though the answer is the same. In all other
//! cases it must succeed.

use std::collections::BTreeSet;
use std::ops::Range;

use maypole::{Error, Result, Transaction};

use super::keys::{Key, Universe};
use super::looking::act_on;
use super::model::{Map, Write};
use super::operation::Step;
use super::store::{Store, deleted};

/// The keys of which a read has shown the stored state: all of these but those that the transaction
/// had written.
struct Read {
    keys: Range<Key>,
    own: BTreeSet<Key>,
}

impl Read {
    fn may_be_changed_by(&self, write: &Write) -> bool {
        let written = write.keys();
        written.start < self.keys.end && self.keys.start < written.end
    }

    fn is_changed(&self, before: &Map, now: &Map) -> bool {
        let mut stored = self.keys.clone().filter(|key| !self.own.contains(key));
        stored.any(|key| before.get(&key) != now.get(&key))
    }
}

impl Store {
    pub(super) fn transact(&mut self, steps: &[Step]) -> Result<()> {
        let mut tx = self.db().transaction();
        let before = self.model.now().clone();
        // What the transaction sees. Only its own writes change it.
        let mut seen = before.clone();
        let (mut reads, mut writes, mut others) = (Vec::new(), Vec::<Write>::new(), Vec::new());
        let (open, mut at) = (self.open_spaces(), self.space);
        for step in steps {
            let own = || writes.iter().flat_map(|write| write.keys()).collect();
            let base = self.keys.base(at);
            let part = match open.iter().find(|(space, _)| *space == at && at != self.space) {
                Some((_, db)) => tx.keyspace(db)?,
                None => &mut tx,
            };
            match *step {
                Step::Turn(which) => at = open[which % open.len()].0,
                Step::Write(write) => {
                    write_in(part, &self.keys, write);
                    let write = write.above(base);
                    write.apply(&mut seen, |_| ());
                    writes.push(write);
                }
                Step::Meanwhile(ref act) => {
                    let own_space = std::mem::replace(&mut self.space, at);
                    let done = act_on(self.db(), &self.keys, act);
                    let written = act.writes().unwrap_or_default();
                    others.extend(written.iter().map(|write| write.above(base)));
                    let noted = match written.is_empty() {
                        true => done,
                        false => self.wrote(written, done),
                    };
                    self.space = own_space;
                    noted?;
                }
                Step::Get(key) => {
                    let value = part.get(self.keys.bytes(key))?;
                    let wanted = seen.get(&(base + key));
                    let is_same = match (&value, wanted) {
                        (Some(value), Some(wanted)) => wanted.is(value),
                        (value, wanted) => value.is_none() && wanted.is_none(),
                    };
                    assert!(is_same, "get in a transaction of {}", self.keys.show(key));
                    reads.push(Read { keys: base + key..base + key + 1, own: own() });
                }
                Step::Pop { last } => {
                    let shown = self.keys.of_space(&seen, at);
                    let (expected, popped) = match last {
                        true => (shown.last_key_value(), part.pop_last()?),
                        false => (shown.first_key_value(), part.pop_first()?),
                    };
                    let expected = expected.map(|(&key, _)| key);
                    let found = popped.and_then(|(key, _)| self.keys.find(&key));
                    assert_eq!(found, expected, "{step:?} in a transaction");
                    let all = 0..self.keys.count();
                    let passed = match expected {
                        Some(key) if last => key..all.end,
                        Some(key) => all.start..key + 1,
                        None => all,
                    };
                    reads.push(Read { keys: base + passed.start..base + passed.end, own: own() });
                    if let Some(key) = expected {
                        let write = Write::Delete(key).above(base);
                        write.apply(&mut seen, |_| ());
                        writes.push(write);
                    }
                }
                Step::Scan { from, to, most, backward } => {
                    let shown = self.keys.of_space(&seen, at);
                    let keys = scan(part, &self.keys, &shown, from..to, most, backward)?;
                    reads.push(Read { keys: base + keys.start..base + keys.end, own: own() });
                }
            }
        }
        let may_conflict =
            others.iter().any(|other| reads.iter().any(|read| read.may_be_changed_by(other)));
        let must_conflict = reads.iter().any(|read| read.is_changed(&before, self.model.now()));
        // An empty range deletes nothing.
        let has_written = writes.iter().any(|write| !write.keys().is_empty());
        match tx.commit() {
            Err(Error::Conflict(conflict)) => {
                assert!(may_conflict && has_written, "{conflict}: nothing has changed");
                Ok(())
            }
            done => {
                let is_right = done.is_err() || !has_written || !must_conflict;
                assert!(is_right, "a commit although a read has changed");
                if has_written { self.wrote_in_all(writes, done) } else { done }
            }
        }
    }
}

fn write_in(tx: &mut Transaction, keys: &Universe, write: Write) {
    match write {
        Write::Put(key, value) => tx.put(keys.bytes(key), value.bytes()),
        Write::Delete(key) => tx.delete(keys.bytes(key)),
        Write::DeleteRange(from, to) => tx.delete_range(deleted(keys, from, to)),
    }
}

/// Compares at most `most` entries of a range with the map. Returns the keys that the scan has
/// passed.
fn scan(
    tx: &Transaction,
    keys: &Universe,
    map: &Map,
    range: Range<Key>,
    most: usize,
    backward: bool,
) -> Result<Range<Key>> {
    let mut entries = tx.range(keys.bytes(range.start)..keys.bytes(range.end));
    let mut wanted = map.range(range.clone());
    let mut passed = range.clone();
    for _ in 0..most {
        let (entry, wanted) = match backward {
            true => (entries.next_back(), wanted.next_back()),
            false => (entries.next(), wanted.next()),
        };
        let entry = entry.transpose()?;
        let found = entry.as_ref().and_then(|(key, _)| keys.find(key));
        assert_eq!(found, wanted.map(|(key, _)| *key), "a scan in a transaction of {range:?}");
        let (Some((_, bytes)), Some((&key, value))) = (entry, wanted) else {
            return Ok(range);
        };
        assert!(value.is(&bytes), "a scan in a transaction, at {}", keys.show(key));
        match backward {
            true => passed.start = key,
            false => passed.end = key + 1,
        }
    }
    Ok(match backward {
        true => passed.start..range.end,
        false => range.start..passed.end,
    })
}
