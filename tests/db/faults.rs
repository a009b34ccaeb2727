//! Every call to the file system fails once, and power is lost before every change: no panic, no
//! hang, and nothing that was acknowledged is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Target};
use maypole::{Db, Durability, Error};

use super::crash::{check, open_on, write};

const WRITES: u64 = 120;

/// What the workload was told so far.
#[derive(Default)]
struct Told {
    written: AtomicU64,
    acknowledged: AtomicU64,
    synced: AtomicU64,
}

/// Writes, flushes, compacts, closes and opens again, until a call fails.
fn work(fs: &Arc<dyn Fs>, told: &Told) -> maypole::Result<()> {
    let mut db: Db = open_on(Arc::clone(fs))?;
    for n in told.written.load(Ordering::SeqCst) + 1..=WRITES {
        let durability = if n % 9 == 0 { Durability::Sync } else { Durability::Buffered };
        told.written.store(n, Ordering::SeqCst);
        db.write_opt(write(n), durability)?;
        told.acknowledged.store(n, Ordering::SeqCst);
        if durability == Durability::Sync {
            told.synced.store(n, Ordering::SeqCst);
        }
        match n {
            40 => db.flush()?,
            60 => {
                db.close()?;
                db = open_on(Arc::clone(fs))?;
            }
            80 => db.compact_range::<&[u8]>(..)?,
            100 => db.wait_for_compaction()?,
            _ => {}
        }
    }
    db.close()
}

#[test]
fn any_one_call_may_fail_and_nothing_acknowledged_is_lost() {
    let calls = {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let shared: Arc<dyn Fs> = Arc::new(fs.clone());
        work(&shared, &Told::default()).unwrap();
        fs.calls(Target::Any)
    };
    assert!(calls > 300, "the workload makes {calls} calls");
    let mut failed = 0;
    for (kind, fault) in [Fault::Io, Fault::NoSpace, Fault::ShortWrite].into_iter().enumerate() {
        // Each kind takes every third call, so that all calls have their turn.
        for nth in (kind as u64..calls).step_by(3) {
            let mem = MemFs::new();
            let fs = FaultFs::new(Arc::new(mem.clone()));
            fs.fail_once(Target::Any, nth, fault);
            let told = Told::default();
            let shared: Arc<dyn Fs> = Arc::new(fs.clone());
            if let Err(error) = work(&shared, &told) {
                failed += 1;
                assert!(!error.to_string().contains('\n'), "call {nth}: {error}");
                assert!(!matches!(error, Error::Corruption { .. }), "call {nth}: {error}");
            }
            let acknowledged = told.acknowledged.load(Ordering::SeqCst);
            let written = told.written.load(Ordering::SeqCst);
            let story = format!("{fault:?} at call {nth}");
            check(&mem.kill(), written, acknowledged, &story);
            let synced = told.synced.load(Ordering::SeqCst);
            check(&mem.crash(nth), written, synced, &format!("{story}, then power loss"));
        }
    }
    assert!(failed > calls / 3, "only {failed} of {calls} faults were noticed");
}

#[test]
fn power_may_be_lost_before_any_change() {
    let mem = MemFs::new();
    let fs = FaultFs::new(Arc::new(mem.clone()));
    let told = Arc::new(Told::default());
    let images = Arc::new(Mutex::new(Vec::new()));
    fs.before_changes({
        let (told, images) = (Arc::clone(&told), Arc::clone(&images));
        move |number, operation, path| {
            // Before the image: what is told later is no promise about it.
            let synced = told.synced.load(Ordering::SeqCst);
            let image = mem.crash(number);
            let written = told.written.load(Ordering::SeqCst);
            let story = format!("power loss before change {number}, {operation:?} of {path:?}");
            images.lock().unwrap().push((image, written, synced, story));
        }
    });
    let shared: Arc<dyn Fs> = Arc::new(fs);
    work(&shared, &told).unwrap();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 200, "the workload makes {} changes", images.len());
    for (image, written, synced, story) in images {
        check(&image, written, synced, &story);
    }
}
