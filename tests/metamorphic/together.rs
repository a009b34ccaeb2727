//! Threads that write and read at the same time.
//!
//! ```text
//!   thread 0   put ── batch ── flush ── put              keys 0 3 6 …
//!   thread 1   delete ── look ────────── batch           keys 1 4 7 …
//!   thread 2   batch ── put ── compact_all ── put        keys 2 5 8 …
//! ```
//!
//! No key is written by two threads, so the state at the end is the same whatever the interleaving
//! is. What a look sees consists of the first few writes of each thread: at least those that had
//! returned before its snapshot was made, and at most those that had begun by then. A thread sees
//! all of its own writes.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use maypole::fs::Operation as Call;
use maypole::{Db, Error, Result};

use super::keys::{Key, Universe};
use super::looking::act_on;
use super::model::{Lane, Map, Write};
use super::operation::{Act, Leave, Turn};
use super::reading::{Content, Expected, content, is_value};
use super::run;
use super::spaces::Space;
use super::store::Store;

/// How long a write to a log takes: so long that other threads queue up behind it.
const WRITE: Duration = Duration::from_micros(20);

/// How many turns of a thread have begun, and how many have ended.
#[derive(Default)]
struct Progress {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// What a look saw, and how many turns of each thread it may have seen.
struct Look {
    content: Content,
    turns: Vec<RangeInclusive<usize>>,
}

/// One of the threads, and what it did.
struct Worker<'a> {
    /// All keyspaces that are open.
    open: &'a [(Space, Db)],
    /// The one to which this thread writes, and the number of its key 0.
    db: &'a Db,
    base: Key,
    keys: &'a Universe,
    progress: &'a [Progress],
    own: &'a Progress,
    /// The keys that it writes.
    written: BTreeSet<Key>,
    /// These keys before each turn, and after the last one.
    states: Vec<Map>,
    looks: Vec<Look>,
    lane: Lane,
    /// The first error, after which it did nothing.
    error: Option<Error>,
    comparisons: u64,
}

impl Store {
    pub(super) fn together(&mut self, threads: &[Vec<Turn>]) -> Result<()> {
        let before = self.model.now().clone();
        let progress: Vec<Progress> = threads.iter().map(|_| Progress::default()).collect();
        let (open, keys) = (self.open_spaces(), &self.keys);
        let workers = threads.iter().enumerate().map(|(thread, turns)| {
            (Worker::new(&open, keys, &progress, thread, turns, &before), &turns[..])
        });
        self.disk.faulty().before_changes(|_, call, _| {
            if call == Call::Flush {
                thread::sleep(WRITE);
            }
        });
        let workers = work_together(workers.collect());
        self.disk.faulty().before_changes(|_, _, _| {});
        for look in workers.iter().flat_map(|worker| &worker.looks) {
            check_look(look, &workers, &open, keys, &before);
        }
        self.tally.comparisons += workers.iter().map(|worker| worker.comparisons).sum::<u64>();
        let done = workers.into_iter().map(|worker| (worker.lane, worker.error));
        let done = done.collect();
        self.wrote_together(done)
    }

    /// Notes in the model what the threads wrote, each up to its error.
    fn wrote_together(&mut self, threads: Vec<(Lane, Option<Error>)>) -> Result<()> {
        let mut done = Ok(());
        let mut lanes = Vec::new();
        for (mut lane, error) in threads {
            if let Some(error) = error {
                self.expect_error(&error);
                lane.doubtful = lane.doubtful.filter(|_| !Store::is_harmless(&error));
                done = Err(error);
            }
            lanes.push(lane);
        }
        self.model.write_together(lanes);
        if self.model.doubtful() > 0 {
            // Doubtful writes before those whose order is not known would allow too much.
            self.reopen(Leave::Close, self.settings);
            done = Ok(());
        }
        done
    }
}

/// Lets each worker have its turns, all at the same time.
fn work_together<'a>(workers: Vec<(Worker<'a>, &[Turn])>) -> Vec<Worker<'a>> {
    let start = &Barrier::new(workers.len());
    thread::scope(|scope| {
        let running = workers.into_iter().map(|(worker, turns)| {
            run::spawn(scope, move || {
                start.wait();
                worker.work(turns)
            })
        });
        let running: Vec<_> = running.collect();
        running.into_iter().map(|result| result()).collect()
    })
}

/// Panics if the look did not see the first few writes of each thread, and the old value of every
/// other key.
fn check_look(
    look: &Look,
    workers: &[Worker],
    open: &[(Space, Db)],
    keys: &Universe,
    before: &Map,
) {
    let sees = |state: &Map, key| is_value(state.get(&key), look.content.get(&key));
    for (thread, (worker, turns)) in workers.iter().zip(&look.turns).enumerate() {
        let mut possible = worker.states[turns.clone()].iter();
        assert!(
            possible.any(|state| worker.written.iter().all(|&key| sees(state, key))),
            "a look while threads write: it sees no state of thread {thread} after {turns:?} turns"
        );
    }
    let is_written = |key| workers.iter().any(|worker| worker.written.contains(&key));
    let all = open
        .iter()
        .flat_map(|(space, _)| (0..keys.count()).map(|key| (*space, key, keys.base(*space) + key)));
    let mut others = all.filter(|(.., number)| !is_written(*number));
    let strange = others.find(|(.., number)| !sees(before, *number));
    let strange = strange.map(|(space, key, _)| (space, keys.show(key)));
    assert_eq!(strange, None, "a look while threads write sees another value");
}

impl<'a> Worker<'a> {
    fn new(
        open: &'a [(Space, Db)],
        keys: &'a Universe,
        progress: &'a [Progress],
        thread: usize,
        turns: &[Turn],
        before: &Map,
    ) -> Worker<'a> {
        let writes = turns.iter().filter_map(|turn| match turn {
            Turn::Act(act) => act.writes(),
            Turn::Look => None,
        });
        let (space, db) = &open[thread % open.len()];
        let base = keys.base(*space);
        let writes = writes.flatten().map(|write| write.above(base));
        let written: BTreeSet<Key> = writes.flat_map(Write::keys).collect();
        let old = before.iter().filter(|(key, _)| written.contains(key));
        let states = vec![old.map(|(&key, &value)| (key, value)).collect()];
        Worker {
            open,
            db,
            base,
            keys,
            progress,
            own: &progress[thread],
            written,
            states,
            looks: Vec::new(),
            lane: Lane::default(),
            error: None,
            comparisons: 0,
        }
    }

    fn work(mut self, turns: &[Turn]) -> Worker<'a> {
        for turn in turns {
            self.own.begun.fetch_add(1, Ordering::SeqCst);
            let done = match turn {
                Turn::Act(act) => self.act(act),
                Turn::Look => self.look(),
            };
            self.own.ended.fetch_add(1, Ordering::SeqCst);
            if let Err(error) = done {
                self.error = Some(error);
                break;
            }
        }
        self
    }

    /// Acts, and reads back what was written.
    fn act(&mut self, act: &Act) -> Result<()> {
        let done = act_on(self.db, self.keys, act);
        let mut state = self.states[self.states.len() - 1].clone();
        let base = self.base;
        let above = |it: Vec<Write>| it.into_iter().map(|write| write.above(base)).collect();
        let written: Option<Vec<Write>> = act.writes().map(above);
        let writes = act.writes().unwrap_or_default();
        if done.is_ok() {
            written.iter().flatten().for_each(|write| write.apply(&mut state, drop));
        }
        self.states.push(state);
        match done {
            Ok(()) => self.lane.acknowledged.extend(written),
            Err(_) => self.lane.doubtful = written,
        }
        done?;
        if act.syncs() {
            self.lane.synced = self.lane.acknowledged.len();
        }
        self.read_back(&writes)
    }

    fn read_back(&mut self, writes: &[Write]) -> Result<()> {
        let own = self.states[self.states.len() - 1].iter();
        let map = &own.map(|(key, value)| (key - self.base, *value)).collect();
        let expected = Expected { keys: self.keys, map, name: "the thread's own writes" };
        for key in writes.iter().filter_map(|write| write.keys().next()).take(3) {
            self.comparisons += expected.get(self.db, key)?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        self.states.push(self.states[self.states.len() - 1].clone());
        let count = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        let least: Vec<usize> = self.progress.iter().map(|other| count(&other.ended)).collect();
        let snapshot = self.db.snapshot();
        let most = self.progress.iter().map(|other| count(&other.begun));
        let turns = least.into_iter().zip(most).map(|(least, most)| least..=most).collect();
        let mut seen = Content::new();
        for (space, db) in self.open {
            let snapshot = snapshot.keyspace(db)?;
            let content = content(&snapshot, self.keys)?;
            self.comparisons += content.len() as u64;
            for key in (0..self.keys.count()).step_by(self.keys.count().div_ceil(40) as usize) {
                let value = snapshot.get(self.keys.bytes(key))?;
                let shown = self.keys.show(key);
                assert!(value == content.get(&key).cloned(), "get and iter differ in {shown}");
            }
            let base = self.keys.base(*space);
            seen.extend(content.into_iter().map(|(key, value)| (base + key, value)));
        }
        self.looks.push(Look { content: seen, turns });
        Ok(())
    }
}
