//! What the feature `tracing` tells of a database.
//!
//! The jobs of a database run on threads of their own, so the subscriber is that of the whole
//! process. It notes only the databases of this file. It takes no lock for any other, because other
//! tests of this program fork.

use std::fmt::{Debug, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::{Db, Durability};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Each event with its database, as `LEVEL message name=value …`.
static NOTED: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

struct Notes;

/// Collects the fields of an event.
#[derive(Default)]
struct Fields {
    database: String,
    message: String,
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "database" => self.database = format!("{value:?}"),
            "message" => self.message = format!("{value:?}"),
            name => write!(self.others, " {name}={value:?}").unwrap(),
        }
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "maypole"
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.database.contains("traced-") {
            let Fields { database, message, others } = fields;
            let level = event.metadata().level();
            NOTED.lock().unwrap().push((database, format!("{level} {message}{others}")));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// An empty database in memory, whose events are noted.
fn traced(name: &str) -> (Db, FaultFs) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Notes).unwrap());
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    (open(name, &fs), fs)
}

fn open(name: &str, fs: &FaultFs) -> Db {
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    Db::builder(path(name)).fs(shared).memtable_bytes(32 << 10).open().unwrap()
}

fn path(name: &str) -> String {
    format!("/traced-{name}")
}

/// The events of a database.
fn noted(name: &str) -> Vec<String> {
    let noted = NOTED.lock().unwrap();
    let of_it = noted.iter().filter(|(database, _)| database.ends_with(&format!("traced-{name}")));
    of_it.map(|(_, event)| event.clone()).collect()
}

/// Waits for an event that begins like this, and returns it.
fn wait_for(name: &str, start: &str) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let found = noted(name).into_iter().find(|event| event.starts_with(start));
        if let Some(found) = found {
            return found;
        }
        assert!(Instant::now() < end, "no \"{start}\" among {:?}", noted(name));
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn openings_flushes_and_compactions_are_told() {
    let (db, fs) = traced("usual");
    wait_for("usual", "INFO opened read_only=false tables=0 micros=");
    for round in 0..2 {
        db.put("a", round.to_string()).unwrap();
        db.put("b", round.to_string()).unwrap();
        db.flush().unwrap();
    }
    let bytes = db.stats().files[0].file_bytes;
    wait_for("usual", &format!("INFO flushed tables=1 bytes={bytes} micros="));
    db.compact_all().unwrap();
    let told = wait_for("usual", "INFO compacted kind=Merge level=0 output_level=");
    assert!(told.contains("inputs=2 ") && told.contains("outputs=1 "), "{told}");
    db.close().unwrap();
    let reader = Db::builder(path("usual")).fs(Arc::new(fs.clone())).open_read_only().unwrap();
    wait_for("usual", "INFO opened read_only=true tables=1 micros=");
    drop(reader);
    let told = noted("usual");
    let is_usual = |event: &String| event.starts_with("INFO ");
    assert!(told.iter().all(is_usual), "{told:?}");
}

#[test]
fn writers_that_wait_are_told_with_the_cause() {
    let (db, fs) = &traced("stalled");
    let goes = Arc::new(AtomicBool::new(false));
    fs.before_changes({
        let goes = Arc::clone(&goes);
        move |_, call, path: &Path| {
            let is_table = path.extension().is_some_and(|extension| extension == "sst");
            while call == Operation::Append && is_table && !goes.load(SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    thread::scope(|scope| {
        scope.spawn(|| (0..200u32).for_each(|n| db.put(n.to_be_bytes(), [0; 1000]).unwrap()));
        wait_for("stalled", "WARN writers waited cause=\"memtable-limit-stops\" micros=");
        goes.store(true, SeqCst);
    });
}

#[test]
fn errors_of_background_work_and_of_writes_are_told() {
    let (db, fs) = traced("failing");
    db.put("a", "").unwrap();
    // Until it is healed: the flush is tried again by itself, and might succeed before the call
    // looks.
    fs.fail_files_from(".sst", Target::Only(Operation::Append), 0, Fault::NoSpace);
    assert!(db.flush().unwrap_err().is_out_of_space());
    let told = wait_for("failing", "WARN background work failed work=\"flush\" error=");
    assert!(told.contains(".sst"), "{told}");
    fs.heal();
    while db.flush().is_err() {}
    wait_for("failing", "INFO flushed tables=1 ");

    fs.fail_from(Target::Only(Operation::Sync), 0, Fault::Io);
    db.put_opt("b", "", Durability::Sync).unwrap_err();
    db.put("c", "").unwrap_err();
    wait_for("failing", "ERROR the database is read-only error=");
    let errors = noted("failing").into_iter().filter(|event| event.starts_with("ERROR"));
    assert_eq!(errors.count(), 1, "told once: {:?}", noted("failing"));
}

#[test]
fn a_damaged_table_is_told_when_it_is_set_aside() {
    let (db, fs) = traced("damaged");
    db.put("a", "value").unwrap();
    db.flush().unwrap();
    let table = db.stats().files[0].path.clone();
    db.close().unwrap();
    let file = fs.open(&table).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes[3] ^= 1;
    let mut file = fs.create(&table).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    let db = open("damaged", &fs);
    db.put("a", "other").unwrap();
    db.compact_all().unwrap_err();
    let told = wait_for("damaged", "ERROR a table is set aside error=");
    assert!(told.contains(table.file_name().unwrap().to_str().unwrap()), "{told}");
}
