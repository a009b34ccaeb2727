//! What the threads of a run do.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use maypole::fs::{Fs, MemFs};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, Durability, Error, Result, Snapshot, WriteBatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shuttle::thread;

use crate::history::{Change, History, KEYS, Least, WRITERS, key};
use crate::setting::{PATH, Setting};

/// The number of acts in [`Run::act`].
const ACTS_OF_ACTOR: u32 = 17;
const ACCOUNTS: u8 = 3;
/// What each account has in the beginning.
const MONEY: u64 = 100;

/// The handles of the keyspaces. If there is a second one, it has the keys and accounts of odd
/// numbers, so that batches and transactions go across both.
#[derive(Clone)]
struct Handles {
    db: Db,
    odd: Option<Db>,
}

impl Handles {
    fn of(&self, number: u8) -> &Db {
        self.odd.as_ref().filter(|_| number % 2 == 1).unwrap_or(&self.db)
    }

    fn all(&self) -> impl Iterator<Item = &Db> {
        [&self.db].into_iter().chain(&self.odd)
    }

    fn flush(&self) -> Result<()> {
        self.all().try_for_each(Db::flush)
    }
}

const ODD: &str = "odd";
/// It is created and dropped again and again.
const PASSING: &str = "passing";

/// What the threads of a run share.
struct Run {
    setting: Setting,
    has_odd: bool,
    /// Whether an actor has the keyspace [`PASSING`].
    is_passing: AtomicBool,
    history: History,
    /// Numbers of values, files and directories.
    next: AtomicU64,
    /// The acknowledged and the begun increments of the counter.
    counted: AtomicU64,
    counts: AtomicU64,
}

/// The acts of all runs, by name.
static ACTS: std::sync::Mutex<std::collections::BTreeMap<&'static str, u64>> =
    std::sync::Mutex::new(std::collections::BTreeMap::new());

/// How often the actors did what.
pub fn counts() -> String {
    let acts = ACTS.lock().unwrap();
    acts.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
}

fn account(number: u8) -> [u8; 2] {
    [b'x', number]
}

fn number_in(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().expect("eight bytes"))
}

/// A value of this number: long enough that a few fill a block.
fn value_of(number: u64) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(8 + number as usize % 5 * 40, 0);
    value
}

/// One run: opens the database, lets the actors act, and closes it twice.
pub fn play(seed: u64) {
    let rng = &mut StdRng::seed_from_u64(seed);
    let run = Arc::new(Run {
        setting: Setting::draw(rng),
        has_odd: rng.random(),
        is_passing: AtomicBool::new(false),
        history: History::default(),
        next: AtomicU64::new(1),
        counted: AtomicU64::new(0),
        counts: AtomicU64::new(0),
    });
    let db = run.setting.of_database().open().expect("a new database");
    let odd = run.has_odd.then(|| {
        let bytes = [4 << 10, 8 << 10][rng.random_range(0..2)];
        db.keyspace_with(ODD, |options| options.memtable_bytes(bytes)).expect("a new keyspace")
    });
    let db = Handles { db, odd };
    let mut batch = WriteBatch::new();
    for number in 0..ACCOUNTS {
        batch.keyspace(db.of(number)).put(account(number), MONEY.to_be_bytes());
    }
    db.db.write_opt(batch, Durability::Sync).expect("the first write");
    if run.setting.has_faults {
        run.setting.plan_a_fault(rng);
    }
    let mut threads = Vec::new();
    for actor in 0..WRITERS + rng.random_range(1..4) {
        let (run, db, seed) = (Arc::clone(&run), db.clone(), rng.random());
        threads.push(thread::spawn(move || {
            let rng = &mut StdRng::seed_from_u64(seed);
            let habit = rng.random_range(0..ACTS_OF_ACTOR);
            for _ in 0..rng.random_range(3..12) {
                let done = match actor < WRITERS {
                    true => run.write(&db, actor, habit, rng),
                    false => run.act(&db, habit, rng),
                };
                match done {
                    Ok(()) => {}
                    Err(error) if run.setting.excuses() => {
                        run.tell("an error", &error);
                        return;
                    }
                    Err(error) => panic!("no fault was planned: {error}"),
                }
            }
        }));
    }
    for thread in threads {
        thread.join().expect("an actor");
    }
    let Handles { db, odd } = db;
    // The first close counts, whatever handles there are.
    let _odd = odd.filter(|_| rng.random());
    run.close_twice(db);
}

impl Run {
    fn tell(&self, what: &'static str, about: &dyn std::fmt::Display) {
        *ACTS.lock().unwrap().entry(what).or_default() += 1;
        if std::env::var_os("MAYPOLE_SCHEDULES_TELL").is_some() {
            let (step, me) = (maypole::schedules::steps(), thread::current().id());
            println!("{step:>8} {me:?} {what} {about}");
        }
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// One write of a writer.
    fn write(&self, db: &Handles, writer: usize, habit: u32, rng: &mut StdRng) -> Result<()> {
        let k = rng.random_range(0..KEYS);
        let durability = match rng.random_range(0..3) {
            0 => Some(Durability::Sync),
            1 => Some(Durability::Buffered),
            _ => None,
        };
        let mut is_synced = self.setting.syncs(durability);
        let durability = if is_synced { Durability::Sync } else { Durability::Buffered };
        let new = self.number();
        let begin = |what: &'static str, change: Change| {
            self.tell(what, &format_args!("{writer}: {change:?}"));
            self.history.begin(writer, change);
        };
        match rng.random_range(0..10) {
            0..3 => {
                begin("put", vec![(k, Some(new))]);
                db.of(k).put_opt(key(writer, k), value_of(new), durability)?;
            }
            3 => {
                begin("delete", vec![(k, None)]);
                db.of(k).delete_opt(key(writer, k), durability)?;
            }
            4 | 5 => {
                let other = (k + 1) % KEYS;
                begin("batch", vec![(k, Some(new)), (other, Some(new))]);
                let mut batch = WriteBatch::new();
                batch.keyspace(db.of(k)).put(key(writer, k), value_of(new));
                batch.keyspace(db.of(other)).put(key(writer, other), value_of(new));
                db.db.write_opt(batch, durability)?;
            }
            6 => {
                let end = (k + 3).min(KEYS);
                begin("delete_range", (k..end).map(|key| (key, None)).collect());
                let mut batch = WriteBatch::new();
                for db in db.all() {
                    batch.keyspace(db).delete_range(key(writer, k)..key(writer, end));
                }
                db.db.write_opt(batch, durability)?;
            }
            7 => {
                begin("update", vec![(k, Some(new))]);
                db.of(k).fetch_update(key(writer, k), |_| Some(value_of(new)))?;
                is_synced = self.setting.syncs(None);
            }
            8 => {
                let other = (k + rng.random_range(1..3)) % KEYS;
                begin("transaction", vec![(k, Some(new)), (other, None)]);
                db.db.transact(|tx| {
                    tx.keyspace(db.of(other))?.get(key(writer, other))?;
                    tx.keyspace(db.of(k))?.put(key(writer, k), value_of(new));
                    tx.keyspace(db.of(other))?.delete(key(writer, other));
                    Ok::<(), Error>(())
                })?;
                is_synced = self.setting.syncs(None);
            }
            _ => {
                let file = PathBuf::from(format!("/{new}.sst"));
                let mut table =
                    SstWriter::create_in(self.setting.fs.clone(), &file, TableOptions::default())?;
                table.put(&key(writer, k), &value_of(new))?;
                table.finish()?;
                begin("ingest", vec![(k, Some(new))]);
                db.of(k).ingest(&[&file])?;
                is_synced = true;
            }
        }
        self.history.acknowledge(writer, is_synced);
        if rng.random_ratio(habit % 4, 6) {
            // Then all writes may be in tables, and the log empty.
            self.tell("flush after a write", &writer);
            let least = self.history.acknowledged();
            db.flush()?;
            self.history.count_as_synced(least);
        }
        Ok(())
    }

    /// One act of another actor: every other time its habit.
    fn act(&self, db: &Handles, habit: u32, rng: &mut StdRng) -> Result<()> {
        let any = rng.random_range(0..ACTS_OF_ACTOR);
        match if rng.random() { habit } else { any } {
            0 => {
                self.tell("flush", &"");
                let least = self.history.acknowledged();
                db.flush()?;
                self.history.count_as_synced(least);
                Ok(())
            }
            1 => {
                self.tell("compact_all", &"");
                db.all().try_for_each(Db::compact_all)
            }
            2 => {
                self.tell("wait_for_compaction", &"");
                db.all().try_for_each(Db::wait_for_compaction)
            }
            3 => self.get(db, rng),
            4 => {
                self.tell("snapshot", &"");
                let least = self.history.acknowledged();
                let snapshot = db.db.snapshot();
                let in_odd = db.odd.as_ref().map(|odd| snapshot.keyspace(odd)).transpose()?;
                thread::yield_now();
                let entries = snapshot.iter().chain(in_odd.iter().flat_map(Snapshot::iter));
                self.check("a snapshot", least, entries)
            }
            5 => {
                // Iterators of two keyspaces would show two moments.
                if db.odd.is_some() {
                    return self.get(db, rng);
                }
                self.tell("iterator", &"");
                let least = self.history.acknowledged();
                self.check("an iterator", least, db.db.iter())
            }
            6 | 7 => {
                for _ in 0..3 {
                    self.tell("read-only opening", &"");
                    let least = self.history.acknowledged();
                    let opened = self.setting.of_database().open_read_only()?;
                    self.check_all("a read-only opening", least, &opened)?;
                    opened.close()?;
                }
                Ok(())
            }
            8 => {
                let copy = format!("/copy{}", self.number());
                self.tell("checkpoint", &copy);
                let least = self.history.acknowledged();
                db.db.checkpoint(&copy)?;
                let fs = Arc::clone(&self.setting.fs) as Arc<dyn Fs>;
                let opened = self.setting.builder(fs, &copy).open()?;
                self.check_all("a checkpoint", least, &opened)?;
                opened.close()
            }
            9 => {
                self.tell("power loss", &"");
                let least = self.history.synced();
                self.look_at(self.setting.disk.crash(rng.random()), "after a power loss", least)
            }
            10 => {
                self.tell("kill", &"");
                let least = self.history.acknowledged();
                self.look_at(self.setting.disk.kill(), "after a kill", least)
            }
            11 => self.count(&db.db),
            12 => self.move_money(db, rng),
            13 => {
                self.tell("apply_filter_policy", &"");
                db.all().try_for_each(|db| db.apply_filter_policy().map(drop))
            }
            14 => self.record(db, rng),
            15 => self.pass(db, rng),
            _ => {
                self.tell("sync", &"");
                let least = self.history.acknowledged();
                db.db.persist()?;
                self.history.count_as_synced(least);
                Ok(())
            }
        }
    }

    fn get(&self, db: &Handles, rng: &mut StdRng) -> Result<()> {
        let (writer, k) = (rng.random_range(0..WRITERS), rng.random_range(0..KEYS));
        self.look_up(db, writer, k)
    }

    fn look_up(&self, db: &Handles, writer: usize, k: u8) -> Result<()> {
        self.tell("get", &format_args!("{writer}/{k}"));
        let least = self.history.acknowledged();
        let shown = db.of(k).get(key(writer, k))?.map(|value| number_in(&value));
        self.history.check_one("a get", least, writer, k, shown);
        Ok(())
    }

    /// Records lookups, unless another actor does.
    fn record(&self, db: &Handles, rng: &mut StdRng) -> Result<()> {
        self.tell("record lookups", &"");
        let dir = tempfile::tempdir().unwrap();
        let recording = match db.of(0).record_lookups(dir.path().join("lookups"), 1) {
            Err(Error::InvalidArgument(_)) => return Ok(()),
            recording => recording?,
        };
        let recorded_handle = Handles { db: db.db.clone(), odd: None };
        for _ in 0..3 {
            self.look_up(&recorded_handle, rng.random_range(0..WRITERS), 0)?;
        }
        let recorded = recording.finish().unwrap();
        assert!(recorded >= 3, "{recorded} lookups were recorded");
        Ok(())
    }

    fn count(&self, db: &Db) -> Result<()> {
        self.tell("count", &"");
        let least = self.counted.load(Relaxed);
        self.counts.fetch_add(1, Relaxed);
        let counted =
            db.update_fetch("z", |old| Some((old.map_or(0, number_in) + 1).to_be_bytes()))?;
        let counted = number_in(&counted.expect("a count"));
        assert!(counted > least && counted <= self.counts.load(Relaxed), "{counted}, {least}");
        self.counted.fetch_add(1, Relaxed);
        Ok(())
    }

    fn move_money(&self, db: &Handles, rng: &mut StdRng) -> Result<()> {
        let (from, to) = (rng.random_range(0..ACCOUNTS), rng.random_range(0..ACCOUNTS));
        self.tell("transfer", &format_args!("{from} to {to}"));
        let moved = db.db.transact(|tx| {
            let has =
                tx.keyspace(db.of(from))?.get(account(from))?.map_or(0, |value| number_in(&value));
            if has < 7 || from == to {
                return Ok(());
            }
            let other =
                tx.keyspace(db.of(to))?.get(account(to))?.map_or(0, |value| number_in(&value));
            tx.keyspace(db.of(from))?.put(account(from), (has - 7).to_be_bytes());
            tx.keyspace(db.of(to))?.put(account(to), (other + 7).to_be_bytes());
            Ok(())
        });
        match moved {
            // The others were always first.
            Err(Error::Conflict(_)) => Ok(()),
            moved => moved,
        }
    }

    /// Opens an image of the disk, and checks it.
    fn look_at(&self, image: MemFs, what: &str, least: Least) -> Result<()> {
        let opened = self.setting.builder(Arc::new(image), PATH).open().expect(what);
        self.check_all(what, least, &opened).expect(what);
        opened.close()
    }

    /// Creates a keyspace, writes to it and drops it, unless another actor does. Whatever was written
    /// to the dropped ones, the new one is empty.
    fn pass(&self, db: &Handles, rng: &mut StdRng) -> Result<()> {
        if !self.has_odd || self.is_passing.swap(true, Relaxed) {
            return Ok(());
        }
        self.tell("create and drop a keyspace", &"");
        let least = self.history.acknowledged();
        let passing = db.db.keyspace_with(PASSING, |options| options.memtable_bytes(4 << 10))?;
        self.history.count_as_synced(least);
        assert!(passing.is_empty()?, "a new keyspace");
        for _ in 0..rng.random_range(1..4) {
            let mut batch = WriteBatch::new();
            let number = self.number();
            batch.put("passing", value_of(number)).keyspace(&passing).put("p", value_of(number));
            db.db.write(batch)?;
            let found = passing.get("p")?.map(|value| number_in(&value));
            assert_eq!(found, Some(number), "what was just written");
        }
        if rng.random() {
            passing.flush()?;
        }
        let snapshot = db.db.snapshot().keyspace(&passing)?;
        let least = self.history.acknowledged();
        assert!(db.db.drop_keyspace(PASSING)?);
        self.history.count_as_synced(least);
        assert!(snapshot.contains_key("p")?, "a snapshot keeps what was dropped");
        let refused = passing.put("p", "");
        assert!(refused.is_err(), "a write to a dropped keyspace");
        self.is_passing.store(false, Relaxed);
        Ok(())
    }

    /// Checks all entries of a database that nobody writes to.
    fn check_all(&self, what: &str, least: Least, db: &Db) -> Result<()> {
        let odd = self.has_odd.then(|| db.keyspace(ODD)).transpose()?;
        self.check(what, least, db.iter().chain(odd.iter().flat_map(Db::iter)))
    }

    /// Checks all entries of a view.
    fn check(
        &self,
        what: &str,
        least: Least,
        entries: impl Iterator<Item = Result<(maypole::Slice, maypole::Slice)>>,
    ) -> Result<()> {
        let mut shown = Vec::new();
        for entry in entries {
            let (key, value) = entry?;
            shown.push((key.to_vec(), number_in(&value)));
        }
        self.history.check(what, least, &shown);
        let accounts = shown.iter().filter(|(key, _)| key[0] == b'x');
        let (count, sum) = accounts.fold((0, 0), |(n, sum), (_, money)| (n + 1, sum + money));
        assert_eq!((count, sum), (ACCOUNTS, MONEY * u64::from(ACCOUNTS)), "{what}");
        Ok(())
    }

    /// Two threads close the database at the same time. Each then finds the directory closed.
    fn close_twice(self: &Arc<Run>, db: Db) {
        let turn = Arc::new(shuttle::sync::Mutex::new(()));
        let closers = [db.clone(), db].map(|db| {
            let (run, turn) = (Arc::clone(self), Arc::clone(&turn));
            thread::spawn(move || {
                let closed = db.close();
                run.tell("close", &format_args!("{closed:?}"));
                assert!(closed.is_ok() || run.setting.excuses(), "{closed:?}");
                if closed.is_ok() {
                    run.history.count_as_synced(run.history.acknowledged());
                }
                let _turn = turn.lock();
                run.setting.fs.heal();
                let least = run.history.acknowledged();
                let opened = run.setting.of_database().open().expect("it is closed");
                run.check_all("an opening after close", least, &opened).expect("readable");
                opened.close().expect("closed again");
            })
        });
        for closer in closers {
            closer.join().expect("a closer");
        }
        let image = self.setting.disk.crash(self.number());
        self.look_at(image, "after a power loss at the end", self.history.synced())
            .expect("closed");
    }
}
