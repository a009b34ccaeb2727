//! Readers of a directory, next to a writer that acts between any two calls that the reader makes to
//! its file system.
//!
//! The reader has a file system of its own, which runs a hook before each call. In the hook the
//! writer acts: it writes, flushes, compacts, replaces its MANIFEST, or opens its database again.
//! Each test tries every position of these acts, so no moment is left out.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::spawn;
use std::time::Duration;

use maypole::fs::{FaultFs, Fs, MemFs, Target};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Builder, Db, Durability, Error, Ticker};

use super::crash::{check_content, write};

/// A reader that had read the MANIFEST before the drop of a keyspace, and the logs after it, showed the
/// dropped keyspace next to writes that came later.
#[test]
fn a_reader_sees_no_write_without_the_drop_before_it() {
    for moment in 0.. {
        let mem: Arc<dyn Fs> = Arc::new(MemFs::new());
        let db = builder(Arc::clone(&mem)).open().unwrap();
        db.keyspace("old").unwrap().put("key", "").unwrap();
        db.flush().unwrap();
        let faults = FaultFs::new(Arc::clone(&mem));
        let has_acted = Arc::new(AtomicBool::new(false));
        let acted = Arc::clone(&has_acted);
        faults.before_calls(Target::Any, move |call, _, _| {
            if call == moment {
                acted.store(true, Ordering::SeqCst);
                db.drop_keyspace("old").unwrap();
                db.keyspace("new").unwrap();
                db.put("later", "").unwrap();
            }
        });
        let reader = builder(Arc::new(faults)).open_read_only().unwrap();
        if !has_acted.load(Ordering::SeqCst) {
            assert!(moment > 12, "{moment}");
            return;
        }
        let names = reader.keyspaces();
        let [has_old, has_new] = [b"old", b"new"].map(|name| names.contains(&name.to_vec()));
        let has_later = reader.contains_key("later").unwrap();
        assert!(!has_later || (has_new && !has_old), "before call {moment}: {names:?}");
        assert!(!has_new || !has_old, "before call {moment}: {names:?}");
    }
}

/// The MANIFEST lists the first keyspace of a database before a log is started for later writes. So a
/// reader, which reads the names of the logs before the MANIFEST, does not see these writes without it.
#[test]
fn a_reader_sees_no_write_without_the_first_keyspace_before_it() {
    // Before each change that the creation makes, a reader begins. It waits before one of its calls
    // until the keyspace is there, and a later write.
    for change in 0.. {
        for call in 0.. {
            let mem: Arc<dyn Fs> = Arc::new(MemFs::new());
            let faults = FaultFs::new(Arc::clone(&mem));
            let db = builder(Arc::new(faults.clone())).open().unwrap();
            db.put("earlier", "").unwrap();
            let changes_before = faults.calls(Target::Changes);
            let (arrived, at_call) = channel();
            let (finished, is_done) = channel::<()>();
            let reader = Mutex::new(Some((arrived, is_done)));
            let reading = Arc::new(Mutex::new(None));
            faults.before_changes({
                let (reading, at_call) = (Arc::clone(&reading), Mutex::new(at_call));
                move |number, _, _| {
                    if number != changes_before + change {
                        return;
                    }
                    let (arrived, is_done) = reader.lock().unwrap().take().unwrap();
                    let is_done = Mutex::new(is_done);
                    let ended = arrived.clone();
                    let faults = FaultFs::new(Arc::clone(&mem));
                    faults.before_calls(Target::Any, move |number, _, _| {
                        if number == call {
                            arrived.send(true).unwrap();
                            let _ = is_done.lock().unwrap().recv();
                        }
                    });
                    let opened = spawn(move || {
                        let reader = builder(Arc::new(faults)).open_read_only().unwrap();
                        let _ = ended.send(false);
                        let has = |key| reader.contains_key(key).unwrap();
                        assert!(has("earlier"));
                        (has("later"), reader.keyspaces().contains(&b"new".to_vec()))
                    });
                    let waits = at_call.lock().unwrap().recv().unwrap();
                    *reading.lock().unwrap() = Some((opened, waits));
                }
            });
            db.keyspace("new").unwrap();
            db.put("later", "").unwrap();
            drop(finished);
            let Some((opened, waits)) = reading.lock().unwrap().take() else {
                assert!(change > 2, "{change}");
                return;
            };
            let (has_later, has_new) = opened.join().unwrap();
            assert!(!has_later || has_new, "before change {change}, call {call} waits");
            if !waits {
                assert!(call > 10, "{call}");
                break;
            }
        }
    }
}

/// What the writer does at one moment of the reader.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Fills a log that no MANIFEST lists.
    Write,
    /// Removes a log.
    Flush,
    /// Makes a log that the MANIFEST requires.
    Sync,
    /// Removes logs and tables.
    Compact,
    /// Removes a MANIFEST, and logs and tables with it.
    ReplaceManifest,
    /// Makes a table whose sequence number is in no log.
    Ingest,
    /// Makes a log out of the writes of other logs.
    Reopen,
}

const ACTS: [Act; 7] = [
    Act::Write,
    Act::Flush,
    Act::Sync,
    Act::Compact,
    Act::ReplaceManifest,
    Act::Ingest,
    Act::Reopen,
];

fn builder(fs: Arc<dyn Fs>) -> Builder {
    // Each MANIFEST is replaced as soon as its later edits are larger than its first one.
    let builder = Db::builder("/db").fs(fs).manifest_roll_bytes(0);
    builder.block_bytes(256).table_bytes(8 << 10)
}

/// Opens for writing, and publishes counters at once and when it closes.
fn open_publishing(fs: &Arc<dyn Fs>) -> Db {
    builder(Arc::clone(fs)).publish_stats(Duration::from_secs(3600)).open().unwrap()
}

/// A database that is open, and the number of acknowledged writes in it.
struct Writer {
    fs: Arc<dyn Fs>,
    db: Option<Db>,
    written: u64,
}

impl Writer {
    /// Tables, a log, and published counters.
    fn new(fs: Arc<dyn Fs>) -> Writer {
        let db = open_publishing(&fs);
        let mut writer = Writer { fs, db: Some(db), written: 0 };
        for _ in 0..3 {
            writer.act(Act::Flush);
        }
        writer.act(Act::Reopen);
        // The MANIFEST requires none of the logs, so the loss of one leaves no trace.
        writer.act(Act::Flush);
        writer.act(Act::Write);
        writer
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn put(&mut self, durability: Durability) {
        self.written += 1;
        self.db().write_opt(write(self.written), durability).unwrap();
    }

    fn manifest(&self) -> String {
        let names = self.fs.list(Path::new("/db")).unwrap();
        names.into_iter().find(|name| name.starts_with("MANIFEST-")).unwrap()
    }

    /// Flushes, and waits until the log is removed, which comes after the return of `flush`.
    fn flush(&self) {
        self.db().flush().unwrap();
        self.db().wait_for_compaction().unwrap();
    }

    fn act(&mut self, act: Act) {
        self.put(Durability::Buffered);
        match act {
            Act::Write => {}
            Act::Flush => self.flush(),
            Act::Sync => {
                self.flush();
                self.put(Durability::Sync);
            }
            Act::Compact => self.db().compact_all().unwrap(),
            Act::ReplaceManifest => {
                let before = self.manifest();
                while self.manifest() == before {
                    self.put(Durability::Buffered);
                    self.flush();
                }
            }
            Act::Ingest => {
                let path = Path::new("/outside");
                let options = TableOptions::default();
                let mut table = SstWriter::create_in(Arc::clone(&self.fs), path, options).unwrap();
                // The next write has the same effect as this table.
                let number = self.written.to_string();
                table.put(b"number", number.as_bytes()).unwrap();
                table.finish().unwrap();
                self.db().ingest(&[path]).unwrap();
                self.put(Durability::Buffered);
            }
            Act::Reopen => {
                self.db.take().unwrap().close().unwrap();
                self.db = Some(open_publishing(&self.fs));
                self.put(Durability::Buffered);
            }
        }
    }
}

/// Runs `reader` for each act and each position: the writer acts before the reader's call number
/// `k`, and before the `more` calls after it. `reader` gets its file system, the number of writes
/// that were acknowledged before it began, and what to say in a panic.
fn at_every_moment(mut reader: impl FnMut(Arc<dyn Fs>, u64, &Mutex<Writer>, &str)) {
    for act in ACTS {
        for more in [0, 2] {
            for k in 0.. {
                let mem = MemFs::new();
                let writer = Arc::new(Mutex::new(Writer::new(Arc::new(mem.clone()))));
                let before = writer.lock().unwrap().written;
                let faults = FaultFs::new(Arc::new(mem));
                let acted = Arc::new(AtomicBool::new(false));
                faults.before_calls(Target::Any, {
                    let (writer, acted) = (Arc::clone(&writer), Arc::clone(&acted));
                    move |nth, _, _| {
                        if (k..=k + more).contains(&nth) {
                            acted.store(true, Ordering::Relaxed);
                            writer.lock().unwrap().act(act);
                        }
                    }
                });
                let story = format!("{act:?} before call {k} and {more} more");
                reader(Arc::new(faults), before, &writer, &story);
                if !acted.load(Ordering::Relaxed) {
                    assert!(k > 3, "the reader makes no calls");
                    break;
                }
            }
        }
    }
}

fn last_of(db: &Db) -> u64 {
    let number = db.get("number").unwrap().unwrap();
    std::str::from_utf8(&number).unwrap().parse().unwrap()
}

/// Regression: a read-only opening read `CURRENT` and the MANIFEST, and listed the directory after
/// that. If a flush ended in between, the MANIFEST as it was read did not list the new table, the
/// log with its writes was gone, and the next log was empty. So nothing seemed to be missing, and
/// the reader did not see writes that were acknowledged long before it began, and that an earlier
/// reader had seen. Now the names are read first. The reader also took the new tables of an active
/// writer for files of another database.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_reader_sees_every_earlier_write_whatever_a_writer_does_meanwhile() {
    at_every_moment(|fs, before, writer, story| {
        let read = builder(fs).open_read_only().unwrap_or_else(|error| panic!("{story}: {error}"));
        let (last, written) = (last_of(&read), writer.lock().unwrap().written);
        assert!((before..=written).contains(&last), "{story}: {before}, {last}, {written}");
        check_content(&read, last, story);
        let report = read.verify().unwrap_or_else(|error| panic!("{story}: {error}"));
        assert_eq!(report.strays, [""; 0], "{story}");
    });
}

/// The counters in the file `STATS` are those of one moment, and never older than the last ones
/// that were published before the call.
#[test]
fn published_counters_are_read_whatever_a_writer_does_meanwhile() {
    at_every_moment(|fs, _, writer, story| {
        let published = |fs| builder(fs).published_stats();
        let before = published(Arc::clone(&writer.lock().unwrap().fs)).unwrap().unwrap();
        let stats = published(fs).unwrap_or_else(|error| panic!("{story}: {error}")).unwrap();
        assert!((stats.opened, stats.written) >= (before.opened, before.written), "{story}");
        assert!(stats.tickers.iter().any(|(ticker, _)| ticker == Ticker::FlushCount));
    });
}

/// Regression: `destroy` read the directory before it took the lock, as it must do in order not to
/// create a lock file in the directory of another program. If the writer replaced its MANIFEST
/// meanwhile, the error said that a file is missing. Now these calls say that the database is open,
/// and leave it alone.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn calls_that_need_the_directory_for_themselves_say_that_it_is_in_use() {
    at_every_moment(|fs, _, writer, story| {
        let calls: [(&str, maypole::Result<()>); 3] = [
            ("destroy", builder(Arc::clone(&fs)).destroy().map(drop)),
            ("repair", builder(Arc::clone(&fs)).repair().map(drop)),
            ("open", builder(fs).open().map(drop)),
        ];
        for (call, result) in calls {
            assert!(matches!(result, Err(Error::Locked { .. })), "{story}, {call}: {result:?}");
        }
        let writer = writer.lock().unwrap();
        check_content(writer.db(), writer.written, story);
    });
}

/// A checkpoint holds every write that was acknowledged before it began, and no write without all
/// writes before it, whatever the database does while the files of the copy are made.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_checkpoint_has_every_earlier_write_whatever_the_database_does_meanwhile() {
    for act in ACTS.into_iter().filter(|act| !matches!(act, Act::Reopen)) {
        for k in 0.. {
            let mem = MemFs::new();
            let faults = FaultFs::new(Arc::new(mem.clone()));
            let writer = Arc::new(Mutex::new(Writer::new(Arc::new(faults.clone()))));
            let (before, db) = {
                let writer = writer.lock().unwrap();
                (writer.written, writer.db().clone())
            };
            // Only the calls for files of the copy are counted. The other calls may be made while
            // the writer's locks are held, and writes that wait for a lock are no act between two
            // calls.
            let calls = Arc::new(Mutex::new(0));
            faults.before_calls(Target::Any, {
                let (writer, calls) = (Arc::clone(&writer), Arc::clone(&calls));
                move |_, _, path| {
                    if !path.starts_with("/copy") {
                        return;
                    }
                    let nth = {
                        let mut calls = calls.lock().unwrap();
                        *calls += 1;
                        *calls - 1
                    };
                    if nth == k {
                        writer.lock().unwrap().act(act);
                    }
                }
            });
            let story = format!("{act:?} before call {k} for the copy");
            db.checkpoint("/copy").unwrap_or_else(|error| panic!("{story}: {error}"));
            let copy = Db::builder("/copy").fs(Arc::new(mem)).open().unwrap();
            let (last, written) = (last_of(&copy), writer.lock().unwrap().written);
            assert!((before..=written).contains(&last), "{story}: {before}, {last}, {written}");
            check_content(&copy, last, &story);
            if *calls.lock().unwrap() <= k {
                assert!(k > 3, "the copy takes no calls");
                break;
            }
        }
    }
}
