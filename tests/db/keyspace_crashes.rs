//! Random histories of a database with several keyspaces, cut off at any moment by a power loss or a
//! kill. What is left is a prefix of the history over all keyspaces together.
//!
//! ```text
//!   step   1        2          3           4        5          6            7
//!          create   put in     batch in    put in   drop       create       put in
//!          one      one        one, two    two      one        one          default
//!                                          └ synced: every image from here on has steps 1 to 4
//!   image  what the database holds after the first k steps, for one k from the last synced step to
//!          the last step that had begun
//! ```
//!
//! The memtables are small and of different sizes, so that keyspaces are flushed at different times,
//! and some are written so rarely that they keep WALs that the others no longer need.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Builder, Db, DbIterator, Durability, Error, Snapshot, WriteBatch};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::env;
use super::history::Change;

const NAMES: [&str; 4] = ["default", "one", "two", "three"];
/// Keys of a keyspace.
const KEYS: u32 = 80;

type Content = BTreeMap<String, String>;
/// The keyspaces that there are, and what each holds.
type State = BTreeMap<String, Content>;

/// What a database holds that was just made.
fn fresh() -> State {
    State::from([(NAMES[0].to_owned(), Content::new())])
}

#[derive(Debug)]
enum Step {
    /// One write of any keyspaces.
    Write(Vec<(&'static str, Change)>),
    Create(&'static str),
    Drop(&'static str),
}

impl Step {
    fn apply(&self, state: &mut State) {
        match self {
            Step::Create(name) => drop(state.insert(name.to_string(), Content::new())),
            Step::Drop(name) => drop(state.remove(*name)),
            Step::Write(changes) => changes.iter().for_each(|(name, change)| {
                let content = state.get_mut(*name).expect("only existing keyspaces are written to");
                match change.clone() {
                    Change::Put(key, value) => drop(content.insert(key, value)),
                    Change::Delete(key) => drop(content.remove(&key)),
                    Change::DeleteRange(begin, end) => {
                        content.retain(|key, _| *key < begin || *key >= end);
                    }
                }
            }),
        }
    }
}

fn state_after(base: &State, steps: &[Step]) -> State {
    let mut state = base.clone();
    steps.iter().for_each(|step| step.apply(&mut state));
    state
}

fn open_on(fs: Arc<dyn Fs>) -> maypole::Result<Db> {
    let db = Db::builder("/db").fs(fs).memtable_bytes(4 << 10).table_bytes(4 << 10);
    db.level_base_bytes(16 << 10).block_bytes(256).open()
}

/// The options of a keyspace, in which keyspaces differ.
fn options(name: &str) -> impl FnOnce(Builder) -> Builder {
    let place = NAMES.iter().position(|other| *other == name).unwrap();
    move |options| {
        let filter = ["bloom(10)", "none", "burr(9)", "ribbon(12)"][place];
        options.filter(filter).memtable_bytes((4 + 3 * place) << 10)
    }
}

fn content(entries: DbIterator) -> maypole::Result<Content> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    entries.map(|entry| entry.map(|(key, value)| (text(&key), text(&value)))).collect()
}

fn state_of(db: &Db) -> maypole::Result<State> {
    let names = db.keyspaces().into_iter().map(|name| String::from_utf8(name).unwrap());
    names.map(|name| Ok((name.clone(), content(db.keyspace(name)?.iter())?))).collect()
}

/// What a power loss or a kill has left. Of the history, the first `least` steps must be there, and
/// no more than the first `most`.
struct Image {
    fs: MemFs,
    least: usize,
    most: usize,
    story: String,
}

impl Image {
    /// Opens what is left, and returns how many steps it has.
    fn check(&self, base: &State, steps: &[Step]) -> usize {
        let Image { fs, least, most, story } = self;
        let open = |fs: &MemFs, story: &str| {
            open_on(Arc::new(fs.clone())).unwrap_or_else(|error| panic!("{story}: {error}"))
        };
        let db = open(fs, story);
        let found = state_of(&db).unwrap_or_else(|error| panic!("{story}: {error}"));
        let mut state = state_after(base, &steps[..*least]);
        let mut kept = *least;
        while state != found {
            if kept == *most {
                let last = state_after(base, &steps[..*most]);
                panic!(
                    "{story}: not the first {least} to {most} steps\nfound {}\nafter {least} {}\n\
                     after {most} {}\nsteps {:?}",
                    show(&found),
                    show(&state_after(base, &steps[..*least])),
                    show(&last),
                    &steps[*least..*most]
                );
            }
            steps[kept].apply(&mut state);
            kept += 1;
        }
        assert_eq!(db.verify().unwrap().filter_misses, 0, "{story}");
        // What was recovered once must be recovered again, also if nothing was synced since.
        let again = open(&fs.crash(kept as u64), &format!("{story}, again"));
        assert!(state_of(&again).unwrap() == found, "{story}, again");
        kept
    }
}

/// The values begin with the number of the step that put them.
fn show(state: &State) -> String {
    let number = |value: &String| value.split(':').next().unwrap().to_owned();
    let of = |content: &Content| -> Vec<String> {
        content.iter().map(|(key, value)| format!("{key}={}", number(value))).collect()
    };
    state.iter().map(|(name, content)| format!("\n  {name}: {}", of(content).join(" "))).collect()
}

/// Which steps had begun, were acknowledged and were synced, for a hook in another thread.
#[derive(Default)]
struct Told {
    begun: AtomicUsize,
    acknowledged: AtomicUsize,
    synced: AtomicUsize,
    /// Whether each change of a file gets an image before it.
    is_watched: AtomicBool,
}

/// One life of a database, from an opening to its end.
struct Life {
    mem: MemFs,
    fs: FaultFs,
    db: Option<Db>,
    /// The handles that were made. A keyspace without one was not opened in this life.
    handles: BTreeMap<&'static str, Db>,
    /// Handles of dropped keyspaces, and what these held.
    dropped: Vec<(Db, Content)>,
    /// Each of one keyspace, and what it holds.
    snapshots: Vec<(Snapshot, Content)>,
    base: State,
    steps: Vec<Step>,
    /// What the database holds: `base` after the acknowledged steps.
    now: State,
    told: Arc<Told>,
    images: Arc<Mutex<Vec<Image>>>,
    checked: usize,
    rng: StdRng,
    story: String,
}

impl Life {
    fn new(mem: MemFs, base: State, seed: u64, story: String) -> Life {
        let fs = FaultFs::new(Arc::new(mem.clone()));
        let (told, images) = (Arc::<Told>::default(), Arc::<Mutex<Vec<Image>>>::default());
        fs.before_changes({
            let (mem, told, images) = (mem.clone(), Arc::clone(&told), Arc::clone(&images));
            let story = story.clone();
            move |number, operation, path| {
                if !told.is_watched.load(Ordering::SeqCst) {
                    return;
                }
                // Before the images, which need not have steps that are acknowledged later.
                let [synced, acknowledged] =
                    [&told.synced, &told.acknowledged].map(|it| it.load(Ordering::SeqCst));
                let (lost, killed) = (mem.crash(seed ^ number), mem.kill());
                let most = told.begun.load(Ordering::SeqCst);
                let story = format!("{story}, before change {number}, {operation:?} of {path:?}");
                let mut images = images.lock().unwrap();
                let lost_story = format!("{story}, power loss");
                images.push(Image { fs: lost, least: synced, most, story: lost_story });
                images.push(Image { fs: killed, least: acknowledged, most, story });
            }
        });
        let shared: Arc<dyn Fs> = Arc::new(fs.clone());
        let db = open_on(shared).unwrap_or_else(|error| panic!("{story}: {error}"));
        Life {
            mem,
            fs,
            db: Some(db),
            handles: BTreeMap::new(),
            dropped: Vec::new(),
            snapshots: Vec::new(),
            now: base.clone(),
            base,
            steps: Vec::new(),
            told,
            images,
            checked: 0,
            rng: StdRng::seed_from_u64(seed),
            story,
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    /// Drops all handles and snapshots but `db`.
    fn let_go(&mut self) {
        self.handles.clear();
        self.snapshots.clear();
        self.dropped.clear();
    }

    fn reopen(&mut self) -> maypole::Result<()> {
        self.let_go();
        self.db.take().expect("the database is open").close()?;
        self.all_synced();
        self.db = Some(open_on(Arc::new(self.fs.clone()))?);
        Ok(())
    }

    fn existing(&self) -> Vec<&'static str> {
        NAMES.into_iter().filter(|name| self.now.contains_key(*name)).collect()
    }

    fn handle(&mut self, name: &'static str) -> maypole::Result<Db> {
        if !self.handles.contains_key(name) {
            self.handles.insert(name, self.db().keyspace(name)?);
        }
        Ok(self.handles[name].clone())
    }

    /// Does a step of the history.
    fn step(
        &mut self,
        step: Step,
        call: impl FnOnce(&mut Life) -> maypole::Result<()>,
    ) -> maypole::Result<()> {
        self.steps.push(step);
        self.told.begun.store(self.steps.len(), Ordering::SeqCst);
        call(self)?;
        self.steps[self.steps.len() - 1].apply(&mut self.now);
        self.told.acknowledged.store(self.steps.len(), Ordering::SeqCst);
        Ok(())
    }

    /// All steps so far are durable.
    fn all_synced(&self) {
        self.told.synced.store(self.steps.len(), Ordering::SeqCst);
    }

    fn changes(&mut self, names: &[&'static str]) -> Vec<(&'static str, Change)> {
        let number = self.steps.len() + 1;
        let key = |number: u32| format!("key{number:02}");
        let mut changes = Vec::new();
        for &name in names {
            for _ in 0..self.rng.random_range(1..4) {
                let first = self.rng.random_range(0..KEYS);
                let bytes = self.rng.random_range(0..120);
                let change = match self.rng.random_range(0..20) {
                    0 => Change::DeleteRange(key(first), key(first + 9)),
                    1..5 => Change::Delete(key(first)),
                    _ => Change::Put(key(first), format!("{number}:{}", "v".repeat(bytes))),
                };
                changes.push((name, change));
            }
        }
        changes
    }

    fn write(&mut self, names: &[&'static str], durability: Durability) -> maypole::Result<()> {
        let changes = self.changes(names);
        let mut batch = WriteBatch::new();
        for (name, change) in &changes {
            batch.keyspace(&self.handle(name)?);
            match change {
                Change::Put(key, value) => batch.put(key, value),
                Change::Delete(key) => batch.delete(key),
                Change::DeleteRange(begin, end) => batch.delete_range(&**begin..&**end),
            };
        }
        self.step(Step::Write(changes), |life| life.db().write_opt(batch, durability))?;
        if durability == Durability::Sync {
            self.all_synced();
        }
        Ok(())
    }

    /// A transaction that reads what it writes.
    fn transact(&mut self, names: &[&'static str]) -> maypole::Result<()> {
        let changes = self.changes(names);
        let mut tx = self.db().transaction();
        for (name, change) in &changes {
            let in_keyspace = tx.keyspace(&self.handle(name)?)?;
            let (Change::Put(key, _) | Change::Delete(key) | Change::DeleteRange(key, _)) = change;
            in_keyspace.get(key)?;
            match change {
                Change::Put(key, value) => in_keyspace.put(key, value),
                Change::Delete(key) => in_keyspace.delete(key),
                Change::DeleteRange(begin, end) => in_keyspace.delete_range(&**begin..&**end),
            };
        }
        self.step(Step::Write(changes), |_| tx.commit())
    }

    fn ingest(&mut self, name: &'static str) -> maypole::Result<()> {
        let number = self.steps.len() + 1;
        let path = format!("/incoming-{number}.sst");
        let mut changes = Vec::new();
        let mut writer =
            SstWriter::create_in(Arc::new(self.mem.clone()), &path, TableOptions::default())?;
        let step = self.rng.random_range(1..20);
        for key in (0..KEYS).skip(self.rng.random_range(0..60)).step_by(step) {
            let key = format!("key{key:02}");
            if self.rng.random_bool(0.5) {
                writer.delete(key.as_bytes())?;
                changes.push((name, Change::Delete(key)));
            } else {
                writer.put(key.as_bytes(), format!("{number}:ingested").as_bytes())?;
                changes.push((name, Change::Put(key, format!("{number}:ingested"))));
            }
        }
        writer.finish()?;
        let handle = self.handle(name)?;
        self.step(Step::Write(changes), |_| handle.ingest(&[&path]))?;
        self.all_synced();
        Ok(())
    }

    fn create(&mut self, name: &'static str) -> maypole::Result<()> {
        self.step(Step::Create(name), |life| {
            let handle = life.db().keyspace_with(name, options(name))?;
            life.handles.insert(name, handle);
            Ok(())
        })?;
        self.all_synced();
        Ok(())
    }

    fn drop_keyspace(&mut self, name: &'static str) -> maypole::Result<()> {
        let held = self.now[name].clone();
        let handle = self.handles.remove(name);
        self.step(Step::Drop(name), |life| {
            assert!(life.db().drop_keyspace(name)?);
            Ok(())
        })?;
        self.all_synced();
        self.dropped.extend(handle.map(|handle| (handle, held)));
        Ok(())
    }

    /// Flushes one keyspace, which makes all earlier steps durable.
    fn flush(&mut self, name: &'static str) -> maypole::Result<()> {
        self.handle(name)?.flush()?;
        self.all_synced();
        Ok(())
    }

    fn checkpoint(&mut self) -> maypole::Result<()> {
        let dir = format!("/copy-{}-{}", self.steps.len(), self.rng.random::<u32>());
        self.db().checkpoint(&dir)?;
        let copy = Db::builder(&dir).fs(Arc::new(self.mem.crash(1))).open()?;
        let story = &self.story;
        assert!(state_of(&copy)? == self.now, "{story}: checkpoint {dir}");
        copy.put("key", "later")?;
        assert_eq!(copy.get("key")?.unwrap(), b"later", "{story}: a write to checkpoint {dir}");
        Ok(())
    }

    /// Makes a snapshot of all keyspaces.
    fn snapshot(&mut self) -> maypole::Result<()> {
        let snapshot = self.db().snapshot();
        for (name, held) in self.now.clone() {
            let name = NAMES.into_iter().find(|known| *known == name).unwrap();
            let in_keyspace = snapshot.keyspace(&self.handle(name)?)?;
            self.snapshots.push((in_keyspace, held));
        }
        Ok(())
    }

    /// Reads everything that can be read.
    fn look(&mut self) -> maypole::Result<()> {
        let story = &self.story;
        assert!(state_of(self.db())? == self.now, "{story}: after {} steps", self.steps.len());
        for (snapshot, held) in &self.snapshots {
            assert!(content(snapshot.iter())? == *held, "{story}: a snapshot");
        }
        for (handle, held) in &self.dropped {
            assert!(content(handle.iter())? == *held, "{story}: a dropped keyspace");
            let refused = handle.put("key", "value");
            assert!(matches!(refused, Err(Error::KeyspaceDropped(_))), "{story}: {refused:?}");
            let mut batch = WriteBatch::new();
            batch.keyspace(self.db()).put("key", "value").keyspace(handle).put("key", "value");
            let refused = self.db().write(batch);
            assert!(matches!(refused, Err(Error::KeyspaceDropped(_))), "{story}: {refused:?}");
        }
        Ok(())
    }

    /// Some keyspaces, at random. One of them is chosen rarely for a while.
    fn some(&mut self) -> Vec<&'static str> {
        let mut names = self.existing();
        let quiet = self.steps.len() / 60 % names.len();
        if names.len() > 1 && self.rng.random_bool(0.9) {
            names.remove(quiet);
        }
        names.shuffle(&mut self.rng);
        names.truncate([1, 1, 1, 2, 3][self.rng.random_range(0..5)]);
        names
    }

    /// Creates a keyspace, or drops one, while each change of a file is watched.
    fn create_or_drop(&mut self) -> maypole::Result<()> {
        let name = NAMES[self.rng.random_range(1..NAMES.len())];
        self.told.is_watched.store(true, Ordering::SeqCst);
        match self.now.contains_key(name) {
            false => self.create(name)?,
            true => {
                self.drop_keyspace(name)?;
                if self.rng.random_bool(0.6) {
                    self.create(name)?;
                }
            }
        }
        self.told.is_watched.store(false, Ordering::SeqCst);
        Ok(())
    }

    fn act(&mut self) -> maypole::Result<()> {
        let names = self.some();
        let chance = self.rng.random_range(0..1000);
        match chance {
            0..12 => self.flush(names[0]),
            12..20 => self.handle(names[0])?.compact_range(..),
            20..26 => {
                self.db().persist()?;
                self.all_synced();
                Ok(())
            }
            26..40 => self.ingest(names[0]),
            40..65 => self.create_or_drop(),
            65..75 => self.snapshot(),
            75..80 => {
                self.snapshots.clear();
                self.dropped.clear();
                Ok(())
            }
            80..85 => self.checkpoint(),
            85..90 => self.look(),
            90..130 => self.transact(&names),
            130..150 => self.write(&names, Durability::Sync),
            _ => self.write(&names, Durability::Buffered),
        }
    }

    fn image(&mut self, is_killed: bool, what: &str) -> Image {
        let steps = self.steps.len();
        let (fs, least) = match is_killed {
            true => (self.mem.kill(), steps),
            false => (self.mem.crash(self.rng.random()), self.told.synced.load(Ordering::SeqCst)),
        };
        Image { fs, least, most: steps, story: format!("{}, {what} at step {steps}", self.story) }
    }

    fn check_images(&mut self) {
        for image in std::mem::take(&mut *self.images.lock().unwrap()) {
            image.check(&self.base, &self.steps);
            self.checked += 1;
        }
    }

    /// Lives until there are `most` steps. Returns the disk that is left, and what it holds.
    fn live(&mut self, most: usize) -> (MemFs, State) {
        while self.steps.len() < most {
            self.act().unwrap_or_else(|error| panic!("{}: {error}", self.story));
            if self.rng.random_bool(0.03) {
                let image = self.image(false, "power loss");
                self.images.lock().unwrap().push(image);
            }
            if self.rng.random_bool(0.01) {
                let image = self.image(true, "kill");
                self.images.lock().unwrap().push(image);
            }
            self.check_images();
        }
        self.look().unwrap();
        let end = self.rng.random_range(0..4);
        let closes = end == 0;
        if closes {
            self.let_go();
            self.db.take().unwrap().close().unwrap();
        }
        let image = self.image(closes || end == 1, "the end");
        let kept = image.check(&self.base, &self.steps);
        self.checked += 1;
        (image.fs, state_after(&self.base, &self.steps[..kept]))
    }
}

/// Returns how many images were checked.
fn lose_power_often(seed: u64, steps: usize) -> usize {
    let (mut mem, mut state) = (MemFs::new(), fresh());
    let mut checked = 0;
    for number in 0..5 {
        let story = format!("seed {seed}, life {number}");
        let mut life = Life::new(mem, state, seed * 100 + number, story);
        (mem, state) = life.live(steps);
        checked += life.checked;
    }
    checked
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn what_is_left_of_several_keyspaces_is_a_prefix_of_all_their_writes() {
    let images: usize = (0..2).map(|seed| lose_power_often(seed, 300)).sum();
    assert!(images > 150, "{images}");
}

/// The environment variable `MAYPOLE_CRASH_SEEDS` sets the number of histories.
#[test]
#[ignore = "takes minutes; run it after a change to recovery"]
fn what_is_left_of_several_keyspaces_is_a_prefix_many_times() {
    let seeds = env("MAYPOLE_CRASH_SEEDS", 60);
    let images: usize = (100..100 + seeds).map(|seed| lose_power_often(seed, 500)).sum();
    println!("{images} images of {seeds} histories: 0 lost, 0 holes");
}

/// Creates, flushes one of two keyspaces, drops, creates again, and opens again in between.
fn short_history(life: &mut Life) -> maypole::Result<()> {
    let buffered = Durability::Buffered;
    (0..4).try_for_each(|_| life.write(&["default"], buffered))?;
    life.create("one")?;
    life.create("two")?;
    (0..12).try_for_each(|_| life.write(&["one"], buffered))?;
    (0..6).try_for_each(|_| life.write(&["two", "default"], buffered))?;
    life.flush("one")?;
    (0..6).try_for_each(|_| life.write(&["one", "two"], buffered))?;
    life.drop_keyspace("one")?;
    life.write(&["two"], buffered)?;
    life.create("one")?;
    (0..6).try_for_each(|_| life.write(&["one", "two"], buffered))?;
    life.reopen()?;
    (0..6).try_for_each(|_| life.write(&["one", "default"], buffered))?;
    life.ingest("two")?;
    life.flush("default")?;
    life.write(&["one"], Durability::Sync)?;
    life.drop_keyspace("two")?;
    life.write(&["one"], buffered)?;
    life.reopen()
}

/// Runs the short history with one failing call. Returns whether the history noticed the failure.
fn fail_and_check(nth: u64, fault: Fault) -> bool {
    let story = format!("{fault:?} at call {nth}");
    let mut life = Life::new(MemFs::new(), fresh(), 1, story.clone());
    life.fs.fail_once(Target::Any, nth, fault);
    let failed = short_history(&mut life).err();
    life.fs.heal();
    if let Some(error) = &failed {
        let text = error.to_string();
        assert!(!text.contains('\n') && !text.contains("panicked"), "{story}: {text}");
        assert!(!matches!(error, Error::Corruption { .. }), "{story}: {text}");
    }
    let acknowledged = life.told.acknowledged.load(Ordering::SeqCst);
    if let Some(db) = &life.db {
        // A step that has failed is not visible, unless it is the creation or the drop of a
        // keyspace, which may be in the MANIFEST.
        let now = state_of(db).unwrap_or_else(|error| panic!("{story}: {error}"));
        let is_write = matches!(life.steps.last(), Some(Step::Write(_)));
        let is_known = |steps: usize| now == state_after(&life.base, &life.steps[..steps]);
        let is_right = is_known(acknowledged) || (!is_write && is_known(life.steps.len()));
        assert!(is_right, "{story}: {}, after {failed:?}", show(&now));
    }
    let killed = Image { least: acknowledged, ..life.image(true, "kill") };
    killed.check(&life.base, &life.steps);
    life.image(false, "power loss").check(&life.base, &life.steps);
    failed.is_some()
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn any_call_may_fail_once_while_keyspaces_come_and_go() {
    let calls = {
        let mut life = Life::new(MemFs::new(), fresh(), 1, "no fault".into());
        let before = life.fs.calls(Target::Any);
        short_history(&mut life).unwrap();
        life.fs.calls(Target::Any) - before
    };
    assert!(calls > 200, "the history makes {calls} calls");
    let step = env("MAYPOLE_FAULT_STEP", 4);
    let (mut runs, mut noticed) = (0, 0);
    for (kind, fault) in (0..).zip([Fault::Io, Fault::NoSpace, Fault::ShortWrite]) {
        for nth in (kind % step..calls).step_by(step as usize) {
            runs += 1;
            noticed += u64::from(fail_and_check(nth, fault));
        }
    }
    println!("{runs} runs of {calls} calls: {noticed} noticed, 0 acknowledged steps lost");
    assert!(noticed > runs / 3);
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn power_may_be_lost_before_any_change_while_keyspaces_come_and_go() {
    let mut life = Life::new(MemFs::new(), fresh(), 1, "short".into());
    life.told.is_watched.store(true, Ordering::SeqCst);
    short_history(&mut life).unwrap();
    life.check_images();
    assert!(life.checked > 200, "{}", life.checked);
}

/// Power-loss images of a database, and what opening each of them gives.
fn after_power_loss(mem: &MemFs) -> impl Iterator<Item = Db> {
    (0..20).map(|seed| {
        let image = open_on(Arc::new(mem.crash(seed)));
        image.unwrap_or_else(|error| panic!("image {seed}: {error}"))
    })
}

/// A flush synced the WALs only if another keyspace had an *older* write that was in no table. With a
/// later one in the same WAL, the MANIFEST recorded that the flushed keyspace needs nothing up to its
/// last write, and still waited for the WAL. A power loss took the WAL, and the database reported
/// damage.
#[test]
fn a_flush_may_share_its_log_with_a_later_write_of_another_keyspace() {
    let mem = MemFs::new();
    let db = open_on(Arc::new(mem.clone())).unwrap();
    let one = db.keyspace("one").unwrap();
    db.put("first", "").unwrap();
    one.put("second", "").unwrap();
    db.flush().unwrap();
    for db in after_power_loss(&mem) {
        assert!(db.contains_key("first").unwrap());
    }
}

/// A replay took a keyspace without tables for one of which nothing was ever flushed. So it brought
/// back what an ingested file had deleted, when compaction had dropped both.
#[test]
fn what_is_in_tables_no_more_is_not_replayed() {
    let mem = MemFs::new();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let db = open_on(Arc::clone(&fs)).unwrap();
    let one = db.keyspace("one").unwrap();
    db.put("keeps the log", "").unwrap();
    one.put("key", "").unwrap();
    one.flush().unwrap();
    let mut writer = SstWriter::create_in(fs, "/deletes.sst", TableOptions::default()).unwrap();
    writer.delete(b"key").unwrap();
    writer.finish().unwrap();
    one.ingest(&["/deletes.sst"]).unwrap();
    one.compact_range(..).unwrap();
    assert!(one.is_empty().unwrap() && one.stats().files.is_empty());
    let db = open_on(Arc::new(mem.kill())).unwrap();
    assert!(db.contains_key("keeps the log").unwrap());
    assert!(db.keyspace("one").unwrap().is_empty().unwrap());
}

/// The writes of a dropped keyspace are in no table, and a checkpoint after the drop must have what
/// was ingested after them.
#[test]
fn a_checkpoint_after_a_drop_has_what_was_ingested_before() {
    let mem = MemFs::new();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let db = open_on(Arc::clone(&fs)).unwrap();
    let one = db.keyspace("one").unwrap();
    (0..5).for_each(|_| one.put("key", "").unwrap());
    let mut writer = SstWriter::create_in(fs, "/in.sst", TableOptions::default()).unwrap();
    writer.put(b"ingested", b"1").unwrap();
    writer.finish().unwrap();
    db.ingest(&["/in.sst"]).unwrap();
    db.drop_keyspace("one").unwrap();
    db.checkpoint("/copy").unwrap();
    let copy = Db::builder("/copy").fs(Arc::new(mem.kill())).open().unwrap();
    assert_eq!(copy.get("ingested").unwrap().unwrap(), b"1");
    copy.put("ingested", "2").unwrap();
    assert_eq!(copy.get("ingested").unwrap().unwrap(), b"2");
}

/// On a disk that was full at the opening, there is no MANIFEST yet that could take other options of a
/// keyspace. The call returned an error that was none of the disk's, and the database stayed read-only.
#[test]
fn the_options_of_a_keyspace_may_change_when_a_full_disk_has_space_again() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let open = || open_on(Arc::new(fs.clone())).unwrap();
    let db = open();
    db.keyspace("one").unwrap().put("key", "").unwrap();
    drop(db);
    fs.fail_from(Target::Only(Operation::Append), 0, Fault::NoSpace);
    let db = open();
    let other = || db.keyspace_with("one", |options| options.block_bytes(512));
    assert!(other().is_err_and(|error| error.is_out_of_space()));
    assert!(db.keyspace("one").unwrap().contains_key("key").unwrap());
    fs.heal();
    other().unwrap().put("another", "").unwrap();
}
