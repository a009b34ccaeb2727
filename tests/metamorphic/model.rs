//! What the store should hold: maps, and which of them a crash may leave.
//!
//! ```text
//!   base ──► write ──► write ──► write? ──► write ──► write      the journal
//!                        ▲                              ▲
//!                        synced: a power loss           now
//!                        leaves this or a later state
//! ```
//!
//! A *doubtful* write (`write?`) is one whose call failed: after the next opening it may be there or
//! not. Until then it is not visible. All other writes are there after a kill. A power loss may take
//! the end of the journal, back to the last point that was synced, and never a write from its
//! middle.
//!
//! Threads that wrote at the same time wrote different keys, so any order of their writes leads to
//! the same state. Where the power failed meanwhile, the order that fits what is found is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::keys::{Key, Value};

/// One state of the store. A snapshot or a held cursor has a copy of it.
pub type Map = BTreeMap<Key, Value>;

/// A change of one key or range. A batch and an ingestion have many, and happen as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    Put(Key, Value),
    Delete(Key),
    /// From the first key to before the second.
    DeleteRange(Key, Key),
}

impl Write {
    /// The keys that the write may change.
    pub fn keys(self) -> Range<Key> {
        match self {
            Write::Put(key, _) | Write::Delete(key) => key..key + 1,
            Write::DeleteRange(from, to) => from..to.max(from),
        }
    }

    /// Changes the map, and calls `touched` with each key whose value may have changed.
    pub fn apply(self, map: &mut Map, mut touched: impl FnMut(Key)) {
        match self {
            Write::Put(key, value) => {
                map.insert(key, value);
                touched(key);
            }
            Write::Delete(key) => {
                map.remove(&key);
                touched(key);
            }
            Write::DeleteRange(..) => {
                let gone: Vec<Key> = map.range(self.keys()).map(|(&key, _)| key).collect();
                for key in gone {
                    map.remove(&key);
                    touched(key);
                }
            }
        }
    }
}

#[derive(Debug, Clone)]
struct Entry {
    writes: Vec<Write>,
    is_doubtful: bool,
    /// If several threads wrote at the same time: the number of that time, and of the thread.
    thread: Option<(usize, usize)>,
}

/// What one of several threads wrote, in its order.
#[derive(Debug, Default)]
pub struct Lane {
    pub acknowledged: Vec<Vec<Write>>,
    /// So many of them are durable.
    pub synced: usize,
    /// The write whose call failed, after which the thread has written nothing.
    pub doubtful: Option<Vec<Write>>,
}

/// The current state, and the states that a crash may leave.
#[derive(Debug, Clone, Default)]
pub struct Model {
    now: Map,
    base: Map,
    journal: Vec<Entry>,
    /// The number of entries of the journal that survive a power loss.
    synced: usize,
    /// Keys that were written since [`Model::forget_touched`].
    touched: BTreeSet<Key>,
    /// All values that each key has had.
    history: BTreeMap<Key, Vec<Value>>,
    /// How often threads have written at the same time.
    times: usize,
}

/// What a crash may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The process ended: every acknowledged write is there.
    Nothing,
    /// The power failed: the last writes that were not synced may be gone.
    Tail,
}

/// With more doubtful writes than this the store is opened again, because each of them doubles the
/// number of states that may be found.
pub const MAX_DOUBTFUL: usize = 5;

impl Model {
    /// The current state.
    pub fn now(&self) -> &Map {
        &self.now
    }

    /// An acknowledged write.
    pub fn write(&mut self, writes: Vec<Write>) {
        self.write_in(None, writes);
    }

    fn write_in(&mut self, thread: Option<(usize, usize)>, writes: Vec<Write>) {
        let touched = &mut self.touched;
        for write in &writes {
            write.apply(&mut self.now, |key| {
                touched.insert(key);
            });
            if let &Write::Put(key, value) = write {
                self.history.entry(key).or_default().push(value);
            }
        }
        self.journal.push(Entry { writes, is_doubtful: false, thread });
    }

    /// What threads wrote at the same time, no key by two of them.
    pub fn write_together(&mut self, lanes: Vec<Lane>) {
        let is_synced = lanes.iter().any(|lane| lane.synced > 0);
        let (mut rest, mut doubtful) = (Vec::new(), Vec::new());
        for mut lane in lanes {
            let unsynced = lane.acknowledged.split_off(lane.synced);
            lane.acknowledged.into_iter().for_each(|writes| self.write(writes));
            rest.push(unsynced);
            doubtful.extend(lane.doubtful);
        }
        if is_synced {
            self.sync();
        }
        self.times += 1;
        for (thread, writes) in rest.into_iter().enumerate() {
            let thread = Some((self.times, thread));
            writes.into_iter().for_each(|writes| self.write_in(thread, writes));
        }
        doubtful.into_iter().for_each(|writes| self.doubt(writes));
    }

    /// Whether the key has ever had this value.
    pub fn had(&self, key: Key, bytes: &[u8]) -> bool {
        self.history.get(&key).is_some_and(|values| values.iter().any(|value| value.is(bytes)))
    }

    /// The keys that were written since all keys were last compacted. Wrong answers are the most
    /// likely for them.
    pub fn touched(&self) -> impl Iterator<Item = Key> + '_ {
        self.touched.iter().copied()
    }

    pub fn forget_touched(&mut self) {
        self.touched.clear();
    }

    /// A write whose call failed.
    pub fn doubt(&mut self, writes: Vec<Write>) {
        self.journal.push(Entry { writes, is_doubtful: true, thread: None });
    }

    pub fn doubtful(&self) -> usize {
        self.journal.iter().filter(|entry| entry.is_doubtful).count()
    }

    /// Whether everything written is durable.
    pub fn is_synced(&self) -> bool {
        self.synced == self.journal.len()
    }

    /// Everything acknowledged so far is durable.
    pub fn sync(&mut self) {
        self.synced = self.journal.len();
        if self.doubtful() == 0 {
            self.settle(self.now.clone());
        }
    }

    /// An opening found exactly this state, which is durable from now on.
    fn settle(&mut self, state: Map) {
        // A doubtful write that is there.
        for (&key, &value) in state.iter().filter(|&(key, value)| self.now.get(key) != Some(value))
        {
            self.history.entry(key).or_default().push(value);
        }
        (self.base, self.now) = (state.clone(), state);
        self.journal.clear();
        self.synced = 0;
    }

    /// Looks for a state that a crash may leave among what was found, with `is_found` for "this key
    /// has this value". If there is one, it is the current state from now on.
    pub fn recover(
        &mut self,
        loss: Loss,
        keys: impl Iterator<Item = Key> + Clone,
        is_found: impl Fn(Key, Option<&Value>) -> bool,
    ) -> Result<(), String> {
        if loss == Loss::Tail {
            self.order_by(&is_found);
        }
        let mut nearest = usize::MAX;
        for chosen in 0..1_u32 << self.doubtful() {
            let mut state = self.base.clone();
            let mut differs: BTreeSet<Key> =
                keys.clone().filter(|key| !is_found(*key, state.get(key))).collect();
            // The last match counts: states with equal contents are the same.
            let mut found = None;
            let mut doubtful = 0;
            for length in 0..=self.journal.len() {
                if length > 0 {
                    let entry = &self.journal[length - 1];
                    let is_there = !entry.is_doubtful || chosen >> doubtful & 1 == 1;
                    doubtful += usize::from(entry.is_doubtful);
                    if is_there {
                        let mut touched = Vec::new();
                        entry
                            .writes
                            .iter()
                            .for_each(|write| write.apply(&mut state, |key| touched.push(key)));
                        for key in touched {
                            match is_found(key, state.get(&key)) {
                                true => differs.remove(&key),
                                false => differs.insert(key),
                            };
                        }
                    }
                }
                let may_be_left = match loss {
                    Loss::Nothing => length == self.journal.len(),
                    Loss::Tail => length >= self.synced,
                };
                if may_be_left {
                    nearest = nearest.min(differs.len());
                    if differs.is_empty() {
                        found = Some(state.clone());
                    }
                }
            }
            if let Some(state) = found {
                self.settle(state);
                return Ok(());
            }
        }
        Err(format!(
            "what is there is none of the states that {loss:?} may leave: {} writes, {} of them \
             synced, {} doubtful; the nearest state differs in {nearest} keys",
            self.journal.len(),
            self.synced,
            self.doubtful()
        ))
    }

    /// Puts writes of the same time that are there before those that are not. The order within each
    /// thread stays. Whether the writes before them are there is not in doubt: see
    /// `Store::together`.
    fn order_by(&mut self, is_found: impl Fn(Key, Option<&Value>) -> bool) {
        let mut state = self.base.clone();
        let is_one_time =
            |a: &Entry, b: &Entry| a.thread.zip(b.thread).is_some_and(|((a, _), (b, _))| a == b);
        let mut ordered = Vec::new();
        for time in self.journal.chunk_by(is_one_time) {
            let (mut first, mut rest) = (Vec::new(), Vec::new());
            // The writes of a thread follow each other.
            for lane in time.chunk_by(|a, b| a.thread == b.thread && a.thread.is_some()) {
                let (there, missing) = lane.split_at(found_of(lane, &mut state, &is_found));
                first.extend_from_slice(there);
                rest.extend_from_slice(missing);
            }
            ordered.append(&mut first);
            ordered.append(&mut rest);
        }
        self.journal = ordered;
    }
}

/// How many of the first writes of a thread are there, if any number fits; none otherwise. Adds all
/// of them to the state.
fn found_of(
    lane: &[Entry],
    state: &mut Map,
    is_found: impl Fn(Key, Option<&Value>) -> bool,
) -> usize {
    let writes = lane.iter().flat_map(|entry| &entry.writes);
    let keys: BTreeSet<Key> = writes.flat_map(|write| write.keys()).collect();
    let mut found = 0;
    for (index, entry) in lane.iter().enumerate().filter(|(_, entry)| !entry.is_doubtful) {
        entry.writes.iter().for_each(|write| write.apply(state, drop));
        if keys.iter().all(|&key| is_found(key, state.get(&key))) {
            found = index + 1;
        }
    }
    found
}
