//! The removal of a whole database.
//!
//! ```text
//!   tables ─► WALs ─► STATS, *.tmp ─► CURRENT ─► MANIFESTs ─► LOCK
//! ```
//!
//! `CURRENT` is removed after the tables. So after an interrupted removal an opening finds that
//! tables are missing, and fails rather than show a part of the data. The removal can be started
//! again.

use crate::db::open::directory::{Directory, no_database};
use crate::db::options::Builder;
use crate::error::Result;
use crate::fs;
use crate::version::names::FileKind;
use crate::version::{Recovered, names};

/// What [`Db::destroy`](crate::Db::destroy) has removed, and what it has left.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # maypole::Db::open(dir.path())?.close()?;
/// # std::fs::write(dir.path().join("notes.txt"), "")?;
/// let report = maypole::Db::destroy(dir.path())?;
/// assert_eq!(report.left, ["notes.txt"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DestroyReport {
    /// Files removed.
    pub removed: usize,
    /// Names of the files and directories that are not the database's and were left, sorted. The
    /// directory `lost` of a repair is among them.
    pub left: Vec<String>,
}

/// The place of the file in the order of removal; `None` for a file that is not the database's.
/// `most` is the highest number that a file of the database may have.
fn step(name: &str, most: u64) -> Option<u8> {
    let kind = names::parse(name);
    if kind.and_then(FileKind::number) > Some(most) {
        return None;
    }
    match (kind, name) {
        (Some(FileKind::Table(_)), _) => Some(0),
        (Some(FileKind::Wal(_)), _) => Some(1),
        (Some(FileKind::Temporary), _) | (None, "STATS" | "ASKED" | names::UNFINISHED_COPY) => {
            Some(2)
        }
        (None, "CURRENT") => Some(3),
        (Some(FileKind::Manifest(_)), _) => Some(4),
        (None, "LOCK") => Some(5),
        (None, _) => None,
    }
}

pub(in crate::db) fn destroy(options: &Builder) -> Result<DestroyReport> {
    let (fs, dir) = (&options.fs, &options.path);
    // This check comes before the lock, because taking the lock creates a file, which must not
    // appear in a foreign directory.
    let most = Recovered::default().most_file_number();
    let is_ours = |name: &String| {
        name == "CURRENT"
            || name == names::UNFINISHED_COPY
            || matches!(step(name, most), Some(0 | 1 | 4))
    };
    if !fs.exists(dir)? || !fs.list(dir)?.iter().any(is_ours) {
        return Err(no_database(dir));
    }
    // RocksDB's files have the same names as ours, so the MANIFEST is read to tell the two apart.
    let owned = |directory: Directory| {
        if !directory.is_unfinished_copy {
            directory.refuse_lost_current(&**fs, dir)?;
        }
        Ok(directory.most_file_number())
    };
    let lock_path = names::lock_path(dir);
    if let Err(error) = Directory::read(&**fs, dir).and_then(owned) {
        // An active writer may be the cause, because it may have removed a file that was about to
        // be read. Then the call fails with `Locked`. The lock is taken only to find this out, and
        // only if its file is there already.
        if fs.exists(&lock_path)? {
            drop(fs.lock(&lock_path)?);
        }
        return Err(error);
    }
    let lock = fs.lock(&lock_path)?;
    // The directory is read again, because the last owner may have written until this call got the
    // lock.
    let most = Directory::read(&**fs, dir).and_then(owned)?;

    let mut report = DestroyReport::default();
    let mut own: Vec<(u8, String)> = Vec::new();
    for name in fs::names_in(&**fs, dir)? {
        match step(&name, most) {
            Some(step) => own.push((step, name)),
            None => report.left.push(name),
        }
    }
    own.sort();
    let mut last_step = 0;
    for (step, name) in own {
        if step != last_step {
            fs.sync_dir(dir)?;
        }
        fs::remove_if_present(&**fs, &dir.join(name))?;
        last_step = step;
        report.removed += 1;
    }
    fs.sync_dir(dir)?;
    drop(lock);
    Ok(report)
}
