//! Writes the file `STATS`, and reads it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use super::collect::stats;
use super::format;
use super::published::{PublishedStats, WrittenStats};
use crate::db::inner::Inner;
use crate::db::inner::database::Database;
use crate::db::open::directory::no_database;
use crate::db::options::Builder;
use crate::error::{Damage, Error, Result};
use crate::fs;
use crate::sync::lock;
use crate::version::names;

/// A file `STATS` with more bytes than this is rejected. A file with all counters has about 6 KiB,
/// and the lines of a hundred keyspaces, whose names are as long as possible, have about 140 KiB.
const MAX_BYTES: u64 = 256 << 10;

/// Writes `STATS` when something was counted since the last write, when a tree, the oldest snapshot
/// or what cursors hold has changed, and when the database closes. Failures are ignored, because the
/// next attempt may succeed and nothing depends on it.
pub(crate) fn publish_stats(database: &Database, is_open: bool) {
    let Some(publishing) = &database.publishing else { return };
    // Held while the file is written, so that there is one write at a time.
    let mut written = lock(&publishing.written);
    let tree = database.trees.default_tree();
    let trees = database.trees.all();
    // These values are read before the statistics. If one of them changes in between, the next
    // call sees the change and writes again.
    let current = WrittenStats {
        tickers: database.counters().sums(),
        oldest_snapshot: database.sequences.snapshots.oldest(),
        earlier_states: tree.reading.earlier_states().len(),
        trees: trees.iter().map(|tree| Arc::downgrade(&tree.reading.current())).collect(),
    };
    if is_open && written.as_ref() == Some(&current) {
        return;
    }
    let published = PublishedStats::new(stats(database, tree), publishing, is_open);
    let bytes = format::write(&published);
    let (fs, dir) = (&*database.store.fs, &database.store.dir);
    if fs::replace_unsynced(fs, &names::stats_path(dir), bytes.as_bytes()).is_ok() {
        *written = Some(current);
    }
}

/// Called by the timer. Returns the wait until the next call.
pub(crate) fn turn(inner: &Inner) -> Option<Duration> {
    publish_stats(&inner.database, true);
    inner.database.publishing.as_ref().map(|publishing| publishing.interval)
}

/// See [`Builder::published_stats`].
pub(crate) fn read(options: &Builder) -> Result<Option<PublishedStats>> {
    let (fs, dir) = (&options.fs, &options.path);
    let path = names::stats_path(dir);
    let file = match fs.open(&path) {
        Ok(file) => file,
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return match fs.exists(&names::current_path(dir))? {
                true => Ok(None),
                false => Err(no_database(dir)),
            };
        }
        Err(error) => return Err(error),
    };
    if file.len() > MAX_BYTES {
        let expected = format_args!("at most {MAX_BYTES} bytes of published counters");
        let damage = Damage::new(0, expected, format_args!("{} bytes", file.len()));
        return Err(damage.in_file(&path, MAX_BYTES));
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(0, &mut bytes)?;
    let stats = format::read(&path, &bytes)?;
    Ok(Some(PublishedStats { path: dir.clone(), ..stats }))
}
