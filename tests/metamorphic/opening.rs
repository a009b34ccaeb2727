//! How a store is left and opened again: closed, dropped, killed, without power, repaired.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use maypole::fs::{MemFs, Operation as Call};
use maypole::{Db, Error, RepairReport};

use super::keys::show_value;
use super::model::{Loss, Model};
use super::operation::{Copying, Leave};
use super::reading::{content, is_value};
use super::settings::Settings;
use super::store::Store;

/// How long the first of two closings lets the second one run. If the second one waits for the
/// first, as it should, it needs longer.
const HEAD_START: Duration = Duration::from_millis(10);

impl Store {
    /// Opens the store, on a disk that works, and finds the state that was left there.
    pub(super) fn open(&mut self) {
        self.disk.heal();
        let db = self.settings.builder(self.disk.dir(), self.disk.fs()).open();
        let db = db.unwrap_or_else(|error| panic!("it cannot be opened: {error}"));
        self.faults_at_opening = self.disk.faults();
        self.db = Some(db);
    }

    pub(super) fn reopen(&mut self, leave: Leave, settings: Settings) {
        let (was_troubled, had_faults) = (self.is_troubled(), self.has_faults());
        let leave = match leave {
            // Without a MANIFEST, the keyspaces without tables would be lost.
            Leave::Repair { loses_current, .. } if self.has_spaces => {
                Leave::Repair { loses_current, loses_manifest: false }
            }
            other => other,
        };
        let loss = self.leave(leave, was_troubled);
        let snapshots = std::mem::take(&mut self.snapshots);
        for (snapshot, _) in snapshots {
            let read = snapshot.get(b"any key");
            assert!(matches!(read, Err(Error::Closed)), "a snapshot of a closed store: {read:?}");
        }
        if had_faults {
            // What they read may have failed.
            self.cursors.clear();
            self.iterators.clear();
            self.readers.clear();
        }
        if !self.model.is_synced() {
            // An opening that finds no space leaves everything as it is, so the next power loss
            // could take what this opening finds.
            self.disk.empty();
        }
        self.settings = settings;
        let mut uncertain = None;
        if let Leave::Repair { loses_current, loses_manifest } = leave {
            // Doubtful writes and keys that a repair may have lost together would allow anything.
            let loses_manifest = loses_manifest && self.model.doubtful() == 0;
            let report = self.repair(loses_current, loses_manifest);
            uncertain = loses_manifest.then_some(report);
        }
        self.open();
        if let Some(report) = uncertain {
            self.restore(&report);
        }
        let db = self.db.as_ref().expect("it was opened");
        Store::recognize(&mut self.model, &self.keys, db, loss)
            .and_then(|()| self.open_handles())
            .unwrap_or_else(|error| panic!("it cannot be read after the opening: {error}"));
        if let Leave::LosePower { seed, again: true } = leave
            && let Some(image) = self.disk.crash(seed ^ 1)
        {
            // What was recovered once is recovered again.
            self.disk.continue_on(image);
            self.handles.clear();
            self.open();
            self.open_handles().unwrap_or_else(|error| panic!("after a second loss: {error}"));
            self.same("after a second power loss");
        }
    }

    /// Leaves the store; returns what may be lost.
    fn leave(&mut self, leave: Leave, was_troubled: bool) -> Loss {
        // It would keep the store open.
        self.recording = None;
        let is_killed = matches!(leave, Leave::Kill | Leave::LosePower { .. });
        if is_killed && !self.disk.can_lose_power() {
            // The files of a real directory are copied one by one, so they must not change
            // meanwhile.
            self.disk.heal();
            let settled = self.settle();
            assert!(settled.is_ok() || was_troubled, "{settled:?}");
        }
        self.handles.clear();
        self.dropped.clear();
        match leave {
            Leave::Close | Leave::Repair { .. } => {
                let closed = self.db.take().expect("the store is open").close();
                self.closed(closed, was_troubled);
                Loss::Nothing
            }
            Leave::Drop => {
                self.db = None;
                Loss::Nothing
            }
            Leave::Copy(copying) => {
                self.move_to_copy(copying, was_troubled);
                Loss::Nothing
            }
            Leave::CloseTwice => {
                self.close_twice(was_troubled);
                Loss::Nothing
            }
            Leave::LosePower { seed, .. } if self.disk.can_lose_power() => {
                let image = self.disk.crash(seed).expect("it can lose power");
                self.abandon(|disk| disk.continue_on(image));
                Loss::Tail
            }
            Leave::Kill | Leave::LosePower { .. } => {
                self.disk.heal();
                self.abandon(super::disks::Disk::kill);
                Loss::Nothing
            }
        }
    }

    /// Copies the store, closes it and destroys it. What still reads it keeps its files. In trouble it
    /// is only closed.
    fn move_to_copy(&mut self, copying: Copying, was_troubled: bool) {
        // No call that was to fail fails now.
        self.disk.heal();
        let copy = match was_troubled || self.is_troubled() {
            true => None,
            false => self.copy(copying).unwrap_or_else(|error| panic!("no copy: {error}")),
        };
        let closed = self.db.take().expect("the store is open").close();
        self.closed(closed, was_troubled);
        let Some(copy) = copy else { return };
        if self.readers.is_empty() && self.cursors.is_empty() && self.iterators.is_empty() {
            let old = Db::builder(self.disk.dir()).fs(Arc::clone(self.disk.fs()));
            old.destroy().unwrap_or_else(|error| panic!("it cannot be destroyed: {error}"));
        }
        self.disk.move_to(copy);
        if copying == Copying::ThroughRocksDb {
            // An import gives the keyspaces default options.
            self.filters.clear();
        }
    }

    /// Takes what is left of the open store, and only then closes the old one.
    fn abandon(&mut self, take: impl FnOnce(&mut super::disks::Disk)) {
        take(&mut self.disk);
        self.db = None;
    }

    fn closed(&mut self, closed: maypole::Result<()>, was_troubled: bool) {
        match closed {
            Ok(()) => self.model.sync(),
            Err(error) => assert!(was_troubled || self.is_troubled(), "close: {error}"),
        }
    }

    /// Two threads close the store, the second one while the first is syncing. When a call returns,
    /// every acknowledged write is durable. Each image is one of a power loss at such a moment.
    fn close_twice(&mut self, was_troubled: bool) {
        let db = self.db.take().expect("the store is open");
        let (sender, receiver) = mpsc::channel();
        let close = {
            let memory = self.disk.memory().cloned();
            move |db: Db| {
                let closed = db.close();
                let image = memory.as_ref().map(|memory| memory.crash(7));
                drop(sender.send((closed, image)));
            }
        };
        let second = Arc::new(Mutex::new(Some((db.clone(), close.clone()))));
        let start_second = Arc::clone(&second);
        self.disk.faulty().before_changes(move |_, call, _| {
            if call == Call::Sync
                && let Some((db, close)) = start_second.lock().unwrap().take()
            {
                thread::spawn(move || close(db));
                thread::sleep(HEAD_START);
            }
        });
        close(db);
        // Nothing was synced, so the second call comes after the first.
        let waiting = second.lock().unwrap().take();
        if let Some((db, close)) = waiting {
            thread::spawn(move || close(db));
        }
        self.disk.faulty().before_changes(|_, _, _| {});
        for _ in 0..2 {
            let (closed, image) = receiver.recv().expect("both calls return");
            let is_durable = closed.is_ok();
            self.closed(closed, was_troubled);
            if let Some(image) = image.filter(|_| is_durable && !was_troubled) {
                self.check_image(image);
            }
        }
    }

    /// Opens an image of a power loss, in which everything acknowledged must be.
    fn check_image(&mut self, image: MemFs) {
        let fs: Arc<dyn maypole::fs::Fs> = Arc::new(image);
        let opened = Settings { publish_stats: false, ..self.settings }
            .builder(self.disk.dir(), &fs)
            .open()
            .and_then(|db| {
                let mut model: Model = self.model.clone();
                model.sync();
                Store::recognize(&mut model, &self.keys, &db, Loss::Tail)
            });
        opened.unwrap_or_else(|error| panic!("after a power loss that follows close: {error}"));
    }

    /// The closed store, of which CURRENT or the MANIFEST may be lost, is repaired.
    fn repair(&mut self, loses_current: bool, loses_manifest: bool) -> RepairReport {
        self.disk.heal();
        self.disk.empty();
        let fs = Arc::clone(self.disk.fs());
        let names = fs.list(self.disk.dir()).unwrap();
        // A MANIFEST that could not be written is newer than the one that counts, and then only
        // CURRENT tells which one this is.
        let newest = names.iter().filter(|name| name.starts_with("MANIFEST")).max();
        let current = fs.read(&self.disk.dir().join("CURRENT")).unwrap_or_default();
        let counts = newest.is_some_and(|newest| current == format!("{newest}\n").as_bytes());
        let loses_current = loses_current && (loses_manifest || counts);
        let loses = |name: &str| {
            (loses_current && name == "CURRENT") || (loses_manifest && name.starts_with("MANIFEST"))
        };
        for name in names.iter().filter(|name| loses(name)) {
            fs.remove(&self.disk.dir().join(name)).unwrap();
        }
        let report = self.settings.builder(self.disk.dir(), &fs).repair();
        let report = report.unwrap_or_else(|error| panic!("it cannot be repaired: {error}"));
        if !loses_manifest {
            let is_sound = report.losses.is_empty() && !report.deleted_keys_may_return;
            assert!(is_sound, "a repair of sound files lost something: {report} {names:?}");
        }
        report
    }

    /// Without a MANIFEST, a repair may lose what it reports, and deleted keys may come back. All
    /// other keys have their values. What is there was once written. What differs is written again.
    fn restore(&mut self, report: &RepairReport) {
        let db = self.db().clone();
        let found = content(&db, &self.keys).expect("the repaired store can be read");
        for key in 0..self.keys.count() {
            let (bytes, wanted) = (self.keys.bytes(key), self.model.now().get(&key).copied());
            let found = found.get(&key);
            if is_value(wanted.as_ref(), found) {
                continue;
            }
            let shown = || {
                let key = self.keys.show(key);
                format!("{key} is {}", show_value(found.map(|value| &value[..])))
            };
            let may_differ = report.losses.iter().any(|loss| loss.concerns(bytes))
                || (wanted.is_none() && report.deleted_keys_may_return);
            assert!(
                may_differ,
                "after a repair without a MANIFEST {}, and no loss is reported",
                shown()
            );
            assert!(
                found.is_none_or(|value| self.model.had(key, value)),
                "after a repair without a MANIFEST {}, which it never was",
                shown()
            );
            let done = match wanted {
                Some(value) => db.put(bytes, value.bytes()),
                None => db.delete(bytes),
            };
            done.expect("the repaired store takes writes");
        }
        // The model has known these values since the store was closed.
        db.persist().expect("the repaired store is made durable");
    }

    /// The current state, by an iterator.
    fn same(&mut self, moment: &str) {
        let db = self.db.as_ref().expect("the store is open").clone();
        self.compare_copy(&db, moment).unwrap_or_else(|error| panic!("{moment}: {error}"));
    }
}
