//! The promises that an image of the disk must keep, and their check. An image is a clone of the
//! disk, taken while the writer ran. The writer promises synced writes, in each of its *streams* of
//! writes ([`super::streams`]), and complete checkpoints.

use std::collections::BTreeMap;
use std::path::Path;

use maypole::Db;

use super::history::model;
use super::streams::{Last, STREAMS, from_words, keyspace, last_of, prefix, seen_key};
use super::writer::{CHECKPOINTS, DATABASE};

/// The number of checkpoints that are checked in one image, the newest first.
const MAX_CHECKPOINTS: usize = 2;

/// The promises that the writer had made up to some moment.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    /// The last durable write of each stream.
    synced: Last,
    /// The complete checkpoints by number, each with the last write of each stream that was
    /// acknowledged when the checkpoint was started.
    checkpoints: BTreeMap<u64, Last>,
    checkpoints_seen: u64,
}

impl Demand {
    pub fn raise(&mut self, numbers: impl Iterator<Item = u64>) {
        for (synced, number) in self.synced.iter_mut().zip(numbers) {
            *synced = number.max(*synced);
        }
    }

    pub fn add_checkpoint(&mut self, mut numbers: impl Iterator<Item = u64>) {
        let checkpoint = numbers.next().unwrap();
        let least: Vec<u64> = numbers.collect();
        self.checkpoints.insert(checkpoint, least.try_into().unwrap());
    }

    pub fn checkpoints_seen(&self) -> u64 {
        self.checkpoints_seen
    }
}

/// How an image breaks a promise.
pub enum Finding {
    /// A synced write is missing.
    Lost(String),
    /// The content is no prefix of the writes.
    Hole(String),
    /// It cannot be opened or read.
    Broken(String),
}

impl From<maypole::Error> for Finding {
    fn from(error: maypole::Error) -> Finding {
        Finding::Broken(error.to_string())
    }
}

/// Checks the image, a file system mounted at `root`, against the promises. Returns the promises
/// that the image must keep from now on if it becomes the disk of the writer's next life.
pub fn check(root: &Path, demand: &Demand) -> Result<Demand, Finding> {
    let mut survived = demand.clone();
    survived.synced = check_database(&root.join(DATABASE), &demand.synced)?;
    survived.checkpoints_seen = 0;
    for (number, least) in demand.checkpoints.iter().rev().take(MAX_CHECKPOINTS) {
        check_database(&root.join(CHECKPOINTS).join(number.to_string()), least)?;
        survived.checkpoints_seen += 1;
    }
    Ok(survived)
}

fn check_database(dir: &Path, least: &Last) -> Result<Last, Finding> {
    // If nothing was promised yet, there may be no database.
    let may_be_missing = *least == Last::default();
    let db = Db::builder(dir).create_if_missing(may_be_missing).open()?;
    let mut last = Last::default();
    for (stream, last) in last.iter_mut().enumerate() {
        *last = last_of(&db, stream)?;
    }
    let story = format!("{}: {least:?} were promised, {last:?} survived", dir.display());
    if last.iter().zip(least).any(|(last, least)| last < least) {
        return Err(Finding::Lost(story));
    }
    for (stream, &number) in last.iter().enumerate() {
        check_stream(&db, stream, number, &last, &story)?;
    }
    let report = db.verify()?;
    if report.filter_misses > 0 {
        return Err(Finding::Hole(format!("{story}: filters deny keys: {report:?}")));
    }
    db.close()?;
    Ok(last)
}

/// Checks that the stream has its first `number` writes and no others. The last of them has
/// recorded which writes of the other streams were acknowledged before it; these must have survived
/// too.
fn check_stream(
    db: &Db,
    stream: usize,
    number: u64,
    last: &Last,
    story: &str,
) -> Result<(), Finding> {
    let prefix = prefix(stream);
    let mut found = BTreeMap::new();
    for item in keyspace(db, stream)?.prefix(&prefix) {
        let (key, value) = item?;
        let key = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        found.insert(key, String::from_utf8_lossy(&value).into_owned());
    }
    let hole = |what: String| Err(Finding::Hole(format!("{story}: stream {stream}: {what}")));
    match (found.remove("seen").map(|seen| from_words(&seen)), number) {
        (None, 0) => {}
        (Some(Some(seen)), 1..) => {
            if let Some(other) = (0..STREAMS).find(|&other| seen[other] > last[other]) {
                let before = seen[other];
                return hole(format!("its last came after write {before} of stream {other}"));
            }
        }
        (seen, _) => return hole(format!("{}: {seen:?}", seen_key(stream))),
    }
    let expected = model(number);
    if found != expected {
        let differs = |key: &&String| found.get(*key) != expected.get(*key);
        let key = found.keys().chain(expected.keys()).find(differs).unwrap();
        let (found, expected) = (found.get(key), expected.get(key));
        return hole(format!("{key} is {found:?}, expected {expected:?}"));
    }
    Ok(())
}
