//! Step 14: snapshots. A snapshot is a sequence number that someone still reads at, so the versions
//! that it sees must be kept.
//!
//! ```text
//! versions of plum    9         6    4         1
//! snapshots                7         4    3
//! needed              9 by all  6    4         1        9 by later readers, 6 by the snapshot 7,
//!                                                       4 by the snapshot 4, 1 by the snapshot 3
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use super::step04_block::KeyValue;
use super::step08_levels::Db;
use super::step12_cursors::Cursor;
use super::step13_merging::{Scan, scan};
use crate::given::split_key;

/// For each sequence number, how many snapshots have it.
type Held = Rc<RefCell<BTreeMap<u64, usize>>>;

/// The snapshots that exist.
#[derive(Default)]
pub struct Snapshots {
    held: Held,
}

/// A state of a database that can be read, whatever is written later.
pub struct Snapshot {
    pub sequence: u64,
    held: Held,
}

impl Snapshots {
    /// A snapshot of the state after the write with this number.
    pub fn take(&self, sequence: u64) -> Snapshot {
        todo!("count it, and return it")
    }

    /// The sequence numbers of all snapshots, each once, in ascending order.
    pub fn sequences(&self) -> Vec<u64> {
        self.held.borrow().keys().copied().collect()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // A panic during a panic would end the program without a message.
        if !std::thread::panicking() {
            self.release();
        }
    }
}

impl Snapshot {
    /// Nobody reads at this snapshot any more.
    fn release(&self) {
        todo!("count one less; if no other snapshot has this number, remove the number")
    }

    /// The value that a key had.
    pub fn get(&self, db: &Db, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        todo!("one line")
    }

    /// The keys and values from `from` on.
    pub fn scan<'a>(&self, db: &'a Db, from: &[u8]) -> io::Result<Scan<'a>> {
        todo!("one line")
    }
}

/// Whether someone may still read the version of a key with this sequence number. `newer` is the
/// number of the next newer version of the key, if there is one. `snapshots` ascend.
pub fn is_needed(sequence: u64, newer: Option<u64>, snapshots: &[u64]) -> bool {
    todo!("the newest version, and what a snapshot sees: its newest version that is not newer")
}

/// The entries of a cursor that someone may still read, from the first on.
pub fn needed(mut cursor: impl Cursor, snapshots: &[u64]) -> io::Result<Vec<KeyValue>> {
    cursor.seek(b"", u64::MAX)?;
    let mut kept: Vec<KeyValue> = Vec::new();
    todo!("of each entry: is there a newer version of its key? is it needed?")
}
