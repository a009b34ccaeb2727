//! The operations that only read: of the current state, of snapshots, of whatever is held, and
//! through other handles and copies.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use maypole::fs::Fs;
use maypole::{Db, Error, FilterPolicy, Result};

use super::between::Between;
use super::keys::{Key, Universe};
use super::model::{Map, Model, Write};
use super::operation::{Act, Copying, Operation};
use super::reading::Expected;
use super::settings::Settings;
use super::spaces::{Space, Whole, name_of};
use super::store::{Store, deleted, pick, write_batch};

impl Store {
    /// One read of the current state or of a snapshot.
    pub(super) fn look(&mut self, operation: &Operation) -> Result<()> {
        let snapshot = match operation {
            Operation::Get { snapshot, .. }
            | Operation::MultiGet { snapshot, .. }
            | Operation::Range { snapshot, .. }
            | Operation::Prefix { snapshot, .. }
            | Operation::Walk { snapshot, .. } => *snapshot,
            _ => None,
        };
        let held = snapshot.and_then(|which| pick(&self.snapshots, which));
        let compared = match held {
            Some(which) => {
                let (snapshot, map) = &self.snapshots[which];
                let (view, map) = (snapshot.keyspace(self.db())?, &self.seen_of(map, self.space));
                look_at(&view, &Expected { keys: &self.keys, map, name: "a snapshot" }, operation)
            }
            None => {
                let map = &self.now();
                look_at(self.db(), &Expected { keys: &self.keys, map, name: "now" }, operation)
            }
        }?;
        self.tally.comparisons += compared;
        Ok(())
    }

    /// The whole content now, at each snapshot and in each reader; and what is in directories.
    pub(super) fn check(&mut self) -> Result<()> {
        let few = self.sample(100);
        let mut compared = 0;
        for (space, db) in self.open_spaces() {
            let map = self.keys.of_space(self.model.now(), space);
            let expected = Expected { keys: &self.keys, map: &map, name: "now" };
            compared += expected.all(&db, &self.to_look_up(space))?;
            for (snapshot, map) in &self.snapshots {
                let (view, map) = (snapshot.keyspace(&db)?, self.seen_of(map, space));
                let expected = Expected { keys: &self.keys, map: &map, name: "a snapshot" };
                compared += expected.all(&view, &few)?;
            }
        }
        compared += self.check_dropped(&few)?;
        for (reader, map) in &self.readers {
            compared += self.compare_all(reader, map, "a read-only handle", |_| few.clone())?;
        }
        self.tally.comparisons += compared;
        self.move_all()
    }

    /// About `count` keys, others each time.
    fn sample(&self, count: u32) -> Vec<Key> {
        let step = self.keys.count().div_ceil(count).max(1);
        let first = (self.tally.operations % u64::from(step)) as Key;
        (first..self.keys.count()).step_by(step as usize).collect()
    }

    /// The keys that a comparison looks up one by one: those that may be in several tables, and some
    /// of the others.
    fn to_look_up(&self, space: Space) -> Vec<Key> {
        let base = self.keys.base(space);
        let own = base..base + self.keys.count();
        let touched = self.model.touched().filter(|key| own.contains(key)).map(|key| key - base);
        let mut keys: Vec<Key> = touched.chain(self.sample(200)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Opens the directory read-only while the writer acts. The reader shows one state of those
    /// between the beginning and the end of its opening.
    pub(super) fn read(
        &mut self,
        acts: &[(u32, Act)],
        hold: bool,
        settings: &Settings,
    ) -> Result<()> {
        let (between, acted) = self.acting(acts);
        let fs: Arc<dyn Fs> = Arc::new(between.clone());
        let opened = settings.builder(self.disk.dir(), &fs).open_read_only();
        between.stop();
        let acted = std::mem::take(&mut *acted.lock().unwrap());
        let states = self.follow(acted)?;
        let reader = opened?;
        if self.model.doubtful() > 0 {
            // The log may hold a write whose call failed. The reader then shows it.
            return Ok(());
        }
        let state = state_of(&reader, &self.keys, &states)?;
        self.tally.comparisons +=
            self.compare_all(&reader, &state, "a read-only handle", |it| self.to_look_up(it))?;
        if hold {
            self.readers.push((reader, state));
        }
        Ok(())
    }

    /// Notes in the model what the writer has done; returns all states from the one before to the
    /// last.
    fn follow(&mut self, acted: Vec<Acted>) -> Result<Vec<Map>> {
        let mut states = vec![self.model.now().clone()];
        let mut failed = Ok(());
        for (act, done) in acted {
            if let Act::Create(space) | Act::Drop(space) = act {
                let noted = self.note_space(space, act == Act::Create(space), done);
                failed = failed.and(noted);
                states.push(self.model.now().clone());
                continue;
            }
            let is_durable = done.is_ok() && act.syncs();
            failed = failed.and(match act.writes() {
                Some(writes) => {
                    let done = self.wrote(writes, done);
                    states.push(self.model.now().clone());
                    done
                }
                None => done,
            });
            if is_durable {
                self.model.sync();
            }
        }
        failed.map(|()| states)
    }

    /// A file system whose calls let the writer act, and what the writer has done.
    fn acting(&self, acts: &[(u32, Act)]) -> (Between, Arc<Mutex<Vec<Acted>>>) {
        let acted: Arc<Mutex<Vec<Acted>>> = Arc::default();
        let (told, db, keys) = (Arc::clone(&acted), self.db().clone(), self.keys.clone());
        let acts: Vec<_> = acts.iter().filter(|(_, act)| self.may_act(act)).cloned().collect();
        let between = Between::new(Arc::clone(self.disk.fs()), move |call| {
            for (_, act) in acts.iter().filter(|&&(at, _)| at == call) {
                told.lock().unwrap().push((act.clone(), act_on(&db, &keys, act)));
            }
        });
        (between, acted)
    }

    /// A checkpoint is made while another thread acts. Opened with other options, it shows one of
    /// the states of this time.
    pub(super) fn checkpoint(&mut self, acts: &[Act], settings: &Settings) -> Result<()> {
        let dir = self.disk.fresh("copy");
        let (db, keys) = (self.db(), &self.keys);
        let allowed = acts.iter().filter(|act| self.may_act(act)).cloned();
        let allowed: Vec<Act> = allowed.collect();
        let (copied, acted) = thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let acted = allowed.into_iter().map(|act| {
                    let done = act_on(db, keys, &act);
                    (act, done)
                });
                acted.collect::<Vec<Acted>>()
            });
            (db.checkpoint(&dir), writer.join().expect("the writer does not panic"))
        });
        let states = self.follow(acted)?;
        copied?;
        if acts.is_empty() {
            self.model.sync();
        }
        let builder = settings.builder(&dir, self.disk.fs()).create_if_missing(false);
        let copy = builder.clone().open()?;
        let state = state_of(&copy, &self.keys, &states)?;
        self.tally.comparisons +=
            self.compare_all(&copy, &state, "a checkpoint", |it| self.to_look_up(it))?;
        copy.close()?;
        builder.destroy().map(drop)
    }

    /// Copies the store. Returns the directory of the copy; `None` if there is none, because RocksDB
    /// cannot order the tables of level 0.
    pub(super) fn copy(&mut self, copying: Copying) -> Result<Option<PathBuf>> {
        let dir = self.disk.fresh("copy");
        match copying {
            Copying::Checkpoint => self.db().checkpoint(&dir)?,
            Copying::WithFilters(policy) => {
                let policy: FilterPolicy = policy.parse().unwrap();
                self.db().copy_with_filters(&dir, &policy)?;
            }
            Copying::ThroughRocksDb => {
                let exported = self.disk.fresh("export");
                match self.db().export_rocksdb(&exported, None) {
                    Err(Error::Unsupported { .. }) => return Ok(None),
                    done => done.map(drop)?,
                }
                self.import(&exported, &dir)?;
            }
        }
        self.model.sync();
        Ok(Some(dir))
    }

    /// Reads an export to RocksDB, imports it, and removes it.
    fn import(&mut self, exported: &Path, dir: &Path) -> Result<()> {
        let fs = Arc::clone(self.disk.fs());
        let rocks = Db::builder(exported).fs(Arc::clone(&fs)).open_rocksdb()?;
        let families = |name: &[u8]| rocks.column_family(name);
        let now = self.model.now();
        self.tally.comparisons +=
            self.compare_each(families, now, "an export", |it| self.to_look_up(it))?;
        rocks.import_all(dir)?;
        drop(rocks);
        fs.list(exported)?.iter().try_for_each(|name| fs.remove(&exported.join(name)))
    }

    /// Copies the store, and compares the copy.
    pub(super) fn look_at_copy(&mut self, copying: Copying) -> Result<()> {
        let Some(dir) = self.copy(copying)? else { return Ok(()) };
        let builder = Db::builder(&dir).fs(Arc::clone(self.disk.fs())).create_if_missing(false);
        let copy = builder.clone().open()?;
        self.compare_copy(&copy, "a copy")?;
        copy.close()?;
        builder.destroy().map(drop)
    }

    pub(super) fn compare_copy(&mut self, copy: &Db, name: &str) -> Result<()> {
        let now = self.model.now();
        self.tally.comparisons += self.compare_all(copy, now, name, |it| self.to_look_up(it))?;
        Ok(())
    }

    /// Makes the state that was found after a crash the current one; panics if no crash may leave
    /// it.
    pub(super) fn recognize(
        model: &mut Model,
        keys: &Universe,
        db: &Db,
        loss: super::model::Loss,
    ) -> Result<()> {
        let found = Whole::of(db, keys)?;
        let is_found = |key, value: Option<&super::keys::Value>| found.has(keys, key, value);
        if let Err(difference) = model.recover(loss, keys.all(), is_found) {
            panic!("{difference}");
        }
        Ok(())
    }
}

/// What the writer did meanwhile, and how it went.
type Acted = (Act, Result<()>);

pub(super) fn act_on(db: &Db, keys: &Universe, act: &Act) -> Result<()> {
    match *act {
        Act::Flush => db.flush(),
        Act::CompactAll => db.compact_all(),
        Act::ApplyFilters => db.apply_filter_policy().map(drop),
        Act::Create(space) => db.keyspace(name_of(space)).map(drop),
        Act::Drop(space) => db.drop_keyspace(name_of(space)).map(drop),
        Act::Batch { ref writes, sync } => write_batch(db, keys, writes, sync),
        Act::Write(Write::Put(key, value)) => db.put(keys.bytes(key), value.bytes()),
        Act::Write(Write::Delete(key)) => db.delete(keys.bytes(key)),
        Act::Write(Write::DeleteRange(from, to)) => db.delete_range(deleted(keys, from, to)),
    }
}

/// Which of the states a reader or a copy shows; panics if it is none of them.
fn state_of(reader: &Db, keys: &Universe, states: &[Map]) -> Result<Map> {
    let found = Whole::of(reader, keys)?;
    let Some(state) = states.iter().rev().find(|state| found.is(keys, state)) else {
        panic!(
            "a reader or a copy shows {} entries, and none of the {} states of its making, which had \
             {} at the beginning and {} at the end",
            found.len(),
            states.len(),
            states[0].len(),
            states[states.len() - 1].len()
        );
    };
    Ok(state.clone())
}

fn look_at(
    view: &impl super::reading::Readable,
    expected: &Expected,
    operation: &Operation,
) -> Result<u64> {
    match operation {
        Operation::Get { key, .. } => expected.get(view, *key),
        Operation::MultiGet { keys, .. } => expected.multi_get(view, keys),
        Operation::Ends => expected.ends(view),
        Operation::Range { from, to, form, steps, .. } => {
            expected.range(view, (*from, *to), *form, steps)
        }
        Operation::Prefix { key, length, .. } => expected.prefix(view, *key, *length),
        Operation::Walk { start, backward, steps, .. } => {
            let mut cursor = view.cursor();
            let at = expected.seek(&mut cursor, *start, *backward)?;
            Ok(expected.walk(&mut cursor, at, steps)?.0 + 1)
        }
        other => unreachable!("{other:?} is no read"),
    }
}
