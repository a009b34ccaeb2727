//! Step 16: a MANIFEST, which lists the tables, and syncs, so that no crash loses what was synced.
//!
//! ```text
//! MANIFEST   record | record | …     as in the log of step 7: CRC, length, payload
//! payload    an edit: varint level, varint 0 or the number of the new table, varint flushed,
//!            varint number of removed tables, varint number of each
//! ```

use std::io;
use std::path::{Path, PathBuf};

use super::step07_memtable::{payloads, read, record};
use super::step08_levels::{Catalog, Db, Edit, LEVELS, Listing, table_path};
use super::step13_merging::{Scan, scan};
use super::step14_snapshots::{Snapshot, Snapshots};
use super::step15_compaction::{LIMITS, Limits, settle};
use crate::disk;
use crate::given::{damaged, put_varint, take_varint};

/// The payload of an edit.
fn encode(edit: &Edit) -> Vec<u8> {
    let mut payload = Vec::new();
    let added = edit.added.unwrap_or_default();
    for number in [edit.level as u64, added, edit.flushed, edit.removed.len() as u64] {
        put_varint(&mut payload, number);
    }
    edit.removed.iter().for_each(|&number| put_varint(&mut payload, number));
    payload
}

fn decode(mut payload: &[u8]) -> io::Result<Edit> {
    let mut number = || take_varint(&mut payload);
    let level = number()? as usize;
    if level >= LEVELS {
        return Err(damaged("a level in the MANIFEST"));
    }
    let added = Some(number()?).filter(|&number| number > 0);
    let flushed = number()?;
    let removed = (0..number()?).map(|_| number()).collect::<io::Result<_>>()?;
    Ok(Edit { level, added, removed, flushed })
}

/// Edits that make a listing of an empty one.
fn edits(listing: &Listing) -> Vec<Edit> {
    let mut edits = vec![Edit { flushed: listing.flushed, ..Edit::default() }];
    for (level, numbers) in listing.levels.iter().enumerate() {
        // An added table becomes the first of its level, so the last one is added first.
        let of = |&number| Edit { level, added: Some(number), ..edits[0].clone() };
        let of: Vec<Edit> = numbers.iter().rev().map(of).collect();
        edits.extend(of);
    }
    edits
}

/// A catalog that appends each change to the file MANIFEST.
pub struct Manifest {
    directory: PathBuf,
    path: PathBuf,
}

impl Manifest {
    pub fn new(directory: &Path) -> Manifest {
        Manifest { directory: directory.to_path_buf(), path: directory.join("MANIFEST") }
    }
}

impl Catalog for Manifest {
    /// Reads the MANIFEST, and replaces it by a new one with the same listing. If changes were
    /// appended to the old one instead, the next reader could end at a torn record before them.
    fn listing(&mut self) -> io::Result<Listing> {
        // yours: apply all edits; write the listing's edits to a file that is synced, then renamed
        let mut listing = Listing::default();
        for payload in payloads(&read(&self.path)?) {
            listing.apply(&decode(payload)?);
        }
        let records: Vec<u8> = edits(&listing).iter().flat_map(|e| record(&encode(e))).collect();
        let temporary = self.path.with_extension("tmp");
        disk::write(&temporary, &records)?;
        disk::sync(&temporary)?;
        disk::rename(&temporary, &self.path)?;
        disk::sync_directory(&self.directory)?;
        Ok(listing)
        // end
    }

    /// Appends an edit. When this returns, the change is on the disk.
    fn change(&mut self, edit: &Edit) -> io::Result<()> {
        // yours: sync the new table and its name; append the record, sync the MANIFEST
        if let Some(number) = edit.added {
            disk::sync(&table_path(&self.directory, number))?;
            disk::sync_directory(&self.directory)?;
        }
        let file = disk::open(&self.path)?;
        disk::append(&file, &self.path, &record(&encode(edit)))?;
        disk::sync(&self.path)
        // end
    }
}

/// The whole engine.
pub struct Store {
    pub db: Db,
    pub snapshots: Snapshots,
    pub limits: Limits,
    /// The memtable is flushed when it has this number of bytes.
    pub memtable_bytes: usize,
}

impl Store {
    /// Opens or creates the database in `directory`.
    pub fn open(directory: &Path) -> io::Result<Store> {
        // yours: step 8 with a MANIFEST as its catalog; `LIMITS`; 256 KiB of memtable
        let db = Db::open_with(directory, Box::new(Manifest::new(directory)))?;
        let snapshots = Snapshots::default();
        Ok(Store { db, snapshots, limits: LIMITS, memtable_bytes: 256 << 10 })
        // end
    }

    /// Writes a value, or a tombstone. It survives the end of the program, but a power failure only
    /// after [`Store::sync`].
    pub fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        // yours: step 8; if the memtable is full, flush it and settle
        match value {
            Some(value) => self.db.put(key, value)?,
            None => self.db.delete(key)?,
        }
        if self.db.memtable.bytes >= self.memtable_bytes {
            self.db.flush()?;
            settle(&mut self.db, self.limits, &self.snapshots.sequences())?;
        }
        Ok(())
        // end
    }

    /// When this returns, all writes are on the disk: in tables, or in the log.
    pub fn sync(&mut self) -> io::Result<()> {
        // yours: one line
        self.db.log.sync()
        // end
    }

    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.db.get(key)
    }

    /// The keys and values from `from` on.
    pub fn scan(&self, from: &[u8]) -> io::Result<Scan<'_>> {
        scan(&self.db, from, self.db.last_sequence)
    }

    pub fn snapshot(&self) -> Snapshot {
        self.snapshots.take(self.db.last_sequence)
    }
}
