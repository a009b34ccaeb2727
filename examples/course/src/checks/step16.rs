use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::super::step07_memtable::payloads;
use super::super::step08_levels::{Catalog, Edit, Listing};
use super::super::step15_compaction::Limits;
use super::super::step16_manifest::*;
use super::{assert_maypole_reads, key, random};
use crate::check::{Check, Scratch, remark};
use crate::crash::{self, KINDS, Left};

pub const CHECKS: &[Check] = &[
    Check { says: "the listing is read back, after any changes", run: listing_is_read },
    Check { says: "a torn MANIFEST is read up to the tear, and goes on", run: torn },
    Check { says: "a change is on the disk before it counts", run: steps_of_a_change },
    Check {
        says: "the new MANIFEST is on the disk before it takes its place",
        run: steps_of_listing,
    },
    Check { says: "the engine flushes and compacts by itself", run: by_itself },
    Check { says: "snapshots and scans outlive flushes and compactions", run: snapshots_stay },
    Check { says: "sync() syncs the log", run: sync_syncs },
    Check { says: "a crash between any two steps loses nothing that was synced", run: crashes },
    Check {
        says: "nor is anything lost after it, or by a second crash in the opening",
        run: second_crashes,
    },
];

fn edit(level: usize, added: Option<u64>, removed: &[u64], flushed: u64) -> Edit {
    Edit { level, added, removed: removed.to_vec(), flushed }
}

/// The changes of some flushes and compactions.
fn changes() -> Vec<Edit> {
    vec![
        edit(0, Some(1), &[], 10),
        edit(0, Some(2), &[], 300),
        edit(1, Some(3), &[2, 1], 300),
        edit(0, Some(4), &[], 400),
        edit(0, Some(5), &[], 70_000),
        edit(2, Some(6), &[3], 70_000),
        edit(1, None, &[5], 70_000),
    ]
}

/// Makes the changes. Tables must exist, because a change syncs them.
fn make(manifest: &mut Manifest, directory: &Path, changes: &[Edit]) {
    for edit in changes {
        if let Some(number) = edit.added {
            fs::write(directory.join(format!("{number:06}.sst")), "a table").unwrap();
        }
        manifest.change(edit).expect("change");
    }
}

fn applied(changes: &[Edit]) -> Listing {
    let mut listing = Listing::default();
    changes.iter().for_each(|edit| listing.apply(edit));
    listing
}

fn listing(directory: &Path) -> Listing {
    Manifest::new(directory).listing().expect("listing")
}

fn listing_is_read() {
    let scratch = Scratch::new("listing");
    let _simulated = simulated(&scratch.0);
    let changes = changes();
    let mut manifest = Manifest::new(&scratch.0);
    assert_eq!(manifest.listing().expect("listing"), Listing::default(), "a new directory");
    for i in 0..changes.len() {
        make(&mut manifest, &scratch.0, &changes[i..=i]);
        let expected = applied(&changes[..=i]);
        // Twice, because each time the MANIFEST is replaced.
        for time in ["first", "second"] {
            let found = listing(&scratch.0);
            assert_eq!(found, expected, "after {} changes, read for the {time} time", i + 1);
        }
    }
}

fn torn() {
    let scratch = Scratch::new("torn");
    let _simulated = simulated(&scratch.0);
    let (path, changes) = (scratch.0.join("MANIFEST"), changes());
    let mut manifest = Manifest::new(&scratch.0);
    manifest.listing().expect("listing");
    make(&mut manifest, &scratch.0, &changes);
    let whole = fs::read(&path).unwrap();
    let states: Vec<Listing> = (0..=changes.len()).map(|i| applied(&changes[..i])).collect();
    let mut seen = 0;
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let mut manifest = Manifest::new(&scratch.0);
        let found = manifest
            .listing()
            .unwrap_or_else(|e| panic!("{length} of {} bytes are an error: {e}", whole.len()));
        let state = states.iter().rposition(|state| *state == found);
        let state = state.unwrap_or_else(|| panic!("{length} bytes: a listing that never was"));
        assert!(state >= seen, "{length} bytes: fewer changes than in fewer bytes");
        seen = state;
        let mut expected = found;
        let next = edit(3, Some(9), &[], 80_000);
        make(&mut manifest, &scratch.0, std::slice::from_ref(&next));
        expected.apply(&next);
        assert_eq!(
            listing(&scratch.0),
            expected,
            "a MANIFEST of {length} bytes, then a change: a change behind a torn record is lost. \
             Left: read; right: expected"
        );
    }
    assert_eq!(seen, changes.len(), "changes in the whole MANIFEST");
    let records = payloads(&fs::read(scratch.0.join("MANIFEST")).unwrap()).len();
    assert!(
        records <= 4,
        "the MANIFEST of three tables has {records} records: a new one needs only what exists"
    );
}

/// A simulated disk without a crash. A sync takes no time there. It ends when it is dropped.
struct Simulated;

impl Drop for Simulated {
    fn drop(&mut self) {
        crash::end();
    }
}

fn simulated(directory: &Path) -> Simulated {
    crash::start(directory, usize::MAX).unwrap();
    Simulated
}

/// What `act` does to the disk.
fn steps(directory: &Path, act: impl FnOnce()) -> Vec<String> {
    crash::start(directory, usize::MAX).unwrap();
    act();
    crash::end().did
}

/// Asserts that a step is there, and behind the one before it.
fn assert_order(did: &[String], order: &[(&str, &str)]) {
    let mut last: Option<(usize, &str)> = None;
    for &(step, why) in order {
        let at = did.iter().rposition(|did| did.contains(step));
        let at = at.unwrap_or_else(|| panic!("there is no step `{step}`: {why}. Steps: {did:?}"));
        if let Some((before, name)) = last {
            assert!(before < at, "the last `{step}` is before `{name}`: {why}. Steps: {did:?}");
        }
        last = Some((at, step));
    }
}

fn steps_of_a_change() {
    let scratch = Scratch::new("change");
    let mut manifest = Manifest::new(&scratch.0);
    manifest.listing().expect("listing");
    fs::write(scratch.0.join("000001.sst"), "a table").unwrap();
    let did = steps(&scratch.0, || manifest.change(&edit(0, Some(1), &[], 5)).expect("change"));
    assert_order(
        &did,
        &[
            ("sync 000001.sst", "the MANIFEST must not name a table whose bytes may be lost"),
            ("sync the directory", "the MANIFEST must not name a table whose name may be lost"),
            ("to MANIFEST", "the change is appended when its table is on the disk"),
            ("sync MANIFEST", "the caller removes files when the change is on the disk"),
        ],
    );
    assert!(
        !did.iter().any(|step| step.starts_with("write") || step.starts_with("empty")),
        "a change is appended, and nothing is written anew. Steps: {did:?}"
    );
}

fn steps_of_listing() {
    let scratch = Scratch::new("new-manifest");
    let mut manifest = Manifest::new(&scratch.0);
    manifest.listing().expect("listing");
    make(&mut manifest, &scratch.0, &changes());
    let did = steps(&scratch.0, || _ = manifest.listing().expect("listing"));
    let in_place = did.iter().any(|step| step == "write MANIFEST" || step == "empty MANIFEST");
    assert!(!in_place, "the MANIFEST is written in place: a crash leaves half of it. {did:?}");
    let rename = did.iter().find(|step| step.starts_with("rename") && step.ends_with(" MANIFEST"));
    let rename = rename.unwrap_or_else(|| panic!("no new file takes the old one's place: {did:?}"));
    let new = rename.split(' ').nth(1).unwrap_or_default();
    assert_order(
        &did,
        &[
            (&format!("write {new}"), "the new MANIFEST is written to another file"),
            (&format!("sync {new}"), "its bytes must be on the disk before it takes its place"),
            (rename, "it takes the old one's place when its bytes are on the disk"),
            ("sync the directory", "its new name must be on the disk"),
        ],
    );
}

/// A memtable of about 20 entries; level 1 may have 1500 bytes, level 2 twice as many.
fn small(mut store: Store) -> Store {
    store.memtable_bytes = 600;
    store.limits = Limits { level0_tables: 2, level1_bytes: 1500, ratio: 2 };
    store
}

fn open(directory: &Path) -> Store {
    small(Store::open(directory).unwrap_or_else(|error| panic!("it is not opened: {error}")))
}

/// All keys and values.
fn state(store: &Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let scan = store.scan(b"").expect("a scan");
    scan.map(|entry| entry.expect("an entry of the scan")).collect()
}

/// Write number `i` of a workload.
fn write_of(i: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    let random = random(i);
    let is_put = !(random / 20).is_multiple_of(4);
    (key("k", random % 20), is_put.then(|| format!("value {i}").into_bytes()))
}

/// What the database has after the first `writes` writes.
fn model(writes: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut model = BTreeMap::new();
    for (key, value) in (0..writes).map(write_of) {
        match value {
            Some(value) => _ = model.insert(key, value),
            None => _ = model.remove(&key),
        }
    }
    model.into_iter().collect()
}

fn write(store: &mut Store, i: u64) -> std::io::Result<()> {
    let (key, value) = write_of(i);
    store.write(&key, value.as_deref())
}

fn by_itself() {
    let scratch = Scratch::new("itself");
    let _simulated = simulated(&scratch.0);
    let mut store = open(&scratch.0);
    let mut most = 0;
    for i in 0..3000 {
        write(&mut store, i).expect("write");
        most = most.max(store.db.memtable.bytes);
        let tables = store.db.levels[0].len();
        assert!(tables < 2, "level 0 has {tables} tables after write {i}, expected fewer than 2");
    }
    assert!(most <= 650, "the memtable grew to {most} bytes, and is flushed at 600");
    assert!(most > 500, "the memtable grew to {most} bytes only: it is flushed before it is full");
    assert!(store.db.levels[1..].iter().any(|level| !level.is_empty()), "nothing was compacted");
    assert!(state(&store) == model(3000), "after 3000 writes the scan shows another state");
    for (key, value) in model(3000) {
        assert_eq!(store.get(&key).expect("get"), Some(value), "{}", key.escape_ascii());
    }
    for table in store.db.levels.iter().flatten() {
        assert_maypole_reads(&store.db.path(table.number), &table.entries().expect("entries"));
    }
    drop(store);
    let store = open(&scratch.0);
    assert!(state(&store) == model(3000), "opened again, the database shows another state");
    assert_eq!(
        store.db.last_sequence, 3000,
        "the number of the last write, after it is opened again"
    );
    let names = fs::read_dir(&scratch.0).unwrap().map(|file| file.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    assert!(!names.contains(&"LEVELS".to_string()), "the tables are listed in LEVELS: {names:?}");
}

fn snapshots_stay() {
    let scratch = Scratch::new("stay");
    let _simulated = simulated(&scratch.0);
    let mut store = open(&scratch.0);
    let mut held = Vec::new();
    for i in 0..1500 {
        write(&mut store, i).expect("write");
        if i % 150 == 100 {
            held.push((store.snapshot(), i + 1));
        }
    }
    for (snapshot, writes) in &held {
        let scan = snapshot.scan(&store.db, b"").expect("a scan");
        let shown: Vec<(Vec<u8>, Vec<u8>)> = scan.map(|entry| entry.expect("an entry")).collect();
        assert!(
            shown == model(*writes),
            "the snapshot that was taken after {writes} writes shows another state after 1500. Do \
             the compactions know of it?"
        );
    }
}

fn sync_syncs() {
    let scratch = Scratch::new("sync");
    let mut store = Store::open(&scratch.0).expect("open");
    let did = steps(&scratch.0, || {
        write(&mut store, 0).expect("write");
        store.sync().expect("sync");
    });
    assert_order(&did, &[("to log", "a write is appended"), ("sync log", "sync() syncs it")]);
}

/// Writes until a crash comes, with a sync after each third write. Returns how many writes were
/// begun, done, and synced.
fn run(directory: &Path, writes: std::ops::Range<u64>) -> (u64, u64, u64) {
    let (mut done, mut synced) = (writes.start, writes.start);
    let Ok(store) = Store::open(directory) else { return (done, done, synced) };
    let mut store = small(store);
    store.memtable_bytes = 150;
    store.limits.level1_bytes = 700;
    for i in writes {
        if write(&mut store, i).is_err() {
            return (i + 1, done, synced);
        }
        done = i + 1;
        if i % 3 == 2 {
            if store.sync().is_err() {
                return (done, done, synced);
            }
            synced = done;
        }
    }
    (done, done, synced)
}

/// Opens the database that a crash left, and checks what it has. Returns the number of writes.
fn assert_whole(directory: &Path, least: u64, most: u64, crash: &str) -> u64 {
    let _simulated = simulated(directory);
    let store = Store::open(directory)
        .unwrap_or_else(|error| panic!("{crash}: the database is not opened: {error}"));
    let writes = store.db.last_sequence;
    assert!(writes >= least, "{crash}: {least} writes must be there, and {writes} are");
    assert!(writes <= most, "{crash}: {writes} writes are there, and only {most} were begun");
    assert!(
        state(&store) == model(writes),
        "{crash}: the last write is number {writes}, but the scan shows another state than the one \
         after this write"
    );
    writes
}

fn name(after: &str, left: Left) -> String {
    let what = match left {
        Left::All => "the program was killed".to_string(),
        Left::Synced { names, half } => {
            let names = if names { "and" } else { "but not" };
            let half =
                if half { "half of what was not synced is" } else { "only synced bytes are" };
            format!("the power failed ({half} left, {names} names that were not synced)")
        }
    };
    format!("after the step `{after}` {what}")
}

fn crashes() {
    let mut points = 0;
    let scratch = Scratch::new("crashes");
    for steps in 0.. {
        fs::remove_dir_all(&scratch.0).unwrap();
        fs::create_dir_all(&scratch.0).unwrap();
        crash::start(&scratch.0, steps).unwrap();
        let (begun, done, synced) = run(&scratch.0, 0..36);
        let disk = crash::end();
        let Some(after) = disk.crashed_after() else { break };
        for left in KINDS {
            disk.leave(&scratch.0, left).unwrap();
            let least = if left == Left::All { done } else { synced };
            assert_whole(&scratch.0, least, begun, &name(after, left));
        }
        points += 1;
    }
    remark(format!("{points} places for a crash, each of {} kinds", KINDS.len()));
}

fn second_crashes() {
    let scratch = Scratch::new("second");
    for steps in 0.. {
        fs::remove_dir_all(&scratch.0).unwrap();
        fs::create_dir_all(&scratch.0).unwrap();
        crash::start(&scratch.0, steps).unwrap();
        let (begun, _, synced) = run(&scratch.0, 0..24);
        let first = crash::end();
        let Some(after) = first.crashed_after() else { break };
        // Writes go on after a crash.
        let left = KINDS[3];
        first.leave(&scratch.0, left).unwrap();
        let writes = assert_whole(&scratch.0, synced, begun, &name(after, left));
        let disk = simulated(&scratch.0);
        let (_, done, _) = run(&scratch.0, writes..writes + 20);
        drop(disk);
        let then = format!("{}; then came 20 more writes", name(after, left));
        assert_whole(&scratch.0, done, done, &then);
        // A crash at each step of the opening. There are few kinds of states to open.
        if !steps.is_multiple_of(5) {
            continue;
        }
        for left in [KINDS[1], KINDS[4]] {
            for steps in 0.. {
                first.leave(&scratch.0, left).unwrap();
                crash::start(&scratch.0, steps).unwrap();
                let opened = Store::open(&scratch.0).is_ok();
                let second = crash::end();
                if opened {
                    break;
                }
                second.leave(&scratch.0, left).unwrap();
                let after = second.crashed_after().unwrap_or("nothing");
                let crash = format!("a second crash, in the opening: {}", name(after, left));
                assert_whole(&scratch.0, synced, begun, &crash);
            }
        }
    }
}
