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

use std::collections::{BTreeMap, BTreeSet};

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
    /// Changes the map, and calls `touched` with each key whose value may have changed.
    fn apply(self, map: &mut Map, mut touched: impl FnMut(Key)) {
        match self {
            Write::Put(key, value) => {
                map.insert(key, value);
                touched(key);
            }
            Write::Delete(key) => {
                map.remove(&key);
                touched(key);
            }
            Write::DeleteRange(from, to) => {
                let gone: Vec<Key> = map.range(from..to.max(from)).map(|(&key, _)| key).collect();
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
        let touched = &mut self.touched;
        for write in &writes {
            write.apply(&mut self.now, |key| {
                touched.insert(key);
            });
        }
        self.journal.push(Entry { writes, is_doubtful: false });
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
        self.journal.push(Entry { writes, is_doubtful: true });
    }

    pub fn doubtful(&self) -> usize {
        self.journal.iter().filter(|entry| entry.is_doubtful).count()
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
}
