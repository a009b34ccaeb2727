//! [`Trees`]: the keyspaces of a database, and the tree of each.
//!
//! ```text
//!   id   name        options        tree
//!   0    default     -              always there; every handle without a keyspace has it
//!   1    sessions    filter …       there since the keyspace was opened, or had tables
//!   2    events      filter …       none yet: a name and its options are all that it costs
//! ```
//!
//! The MANIFEST lists the keyspaces ([`crate::version::VersionEdit`]), so each change comes there
//! first. An id is never used again, so whatever still names a dropped keyspace finds nothing.
//!
//! Changes of this list are made under [`Trees::lock_changes`], one at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::tree::Tree;
use crate::db::read_state::ReadState;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, lock, rank};
use crate::version::{KeyspaceId, KeyspaceRecord, RecoveredKeyspace};

/// The name of keyspace 0, as RocksDB calls its first column family.
pub(crate) const DEFAULT_NAME: &[u8] = b"default";

/// See the module.
pub(crate) struct Trees {
    default: Arc<Tree>,
    /// Whether there are keyspaces besides 0. So those who have one look at no list.
    has_others: AtomicBool,
    /// Whether there are or were keyspaces besides 0.
    had_others: AtomicBool,
    others: Mutex<Others, rank::Trees>,
    /// The dropped keyspaces that may still have readers.
    dropped: Mutex<Vec<DroppedTree>, rank::DroppedTrees>,
    /// Held while a keyspace is created, opened or dropped, also while the MANIFEST is written.
    changes: Mutex<(), rank::Keyspaces>,
}

#[derive(Default)]
struct Others {
    by_id: BTreeMap<KeyspaceId, Keyspace>,
    by_name: BTreeMap<Arc<[u8]>, KeyspaceId>,
    /// The id of the next new keyspace; 0: there was never one.
    next: KeyspaceId,
}

/// A dropped keyspace, and what its readers may hold. These need not hold the tree. From its drop on a
/// tree gets no new read state.
struct DroppedTree {
    tree: Weak<Tree>,
    read_states: Vec<Weak<ReadState>>,
}

impl DroppedTree {
    fn is_gone(&self) -> bool {
        self.tree.strong_count() == 0 && self.read_states.iter().all(|it| it.strong_count() == 0)
    }
}

/// What is known of a keyspace other than 0.
#[derive(Clone)]
pub(crate) struct Keyspace {
    pub id: KeyspaceId,
    pub name: Arc<[u8]>,
    /// The options as text ([`crate::db::tree_options`]).
    pub options: Arc<str>,
    pub tree: Option<Arc<Tree>>,
}

impl Trees {
    /// `recovered`: the keyspaces that the MANIFEST lists. `next`: the id of the next new one.
    pub fn new(
        default: Arc<Tree>,
        recovered: BTreeMap<KeyspaceId, RecoveredKeyspace>,
        next: KeyspaceId,
        trees: Vec<Arc<Tree>>,
    ) -> Trees {
        let mut others = Others { next, ..Others::default() };
        for (id, RecoveredKeyspace { name, options }) in recovered {
            others.insert(Keyspace { id, name, options, tree: None });
        }
        for tree in trees {
            if let Some(keyspace) = others.by_id.get_mut(&tree.id) {
                keyspace.tree = Some(tree);
            }
        }
        Trees {
            default,
            has_others: AtomicBool::new(!others.by_id.is_empty()),
            had_others: AtomicBool::new(others.next > 0),
            others: Mutex::new(others),
            dropped: Mutex::default(),
            changes: Mutex::default(),
        }
    }

    pub fn default_tree(&self) -> &Arc<Tree> {
        &self.default
    }

    /// Keeps other threads from creating, opening and dropping keyspaces.
    pub fn lock_changes(&self) -> MutexGuard<'_, (), rank::Keyspaces> {
        lock(&self.changes)
    }

    /// Whether there are keyspaces besides 0.
    #[inline]
    pub fn has_others(&self) -> bool {
        self.has_others.load(Ordering::Acquire)
    }

    /// Whether there are or were keyspaces besides 0.
    #[inline]
    pub fn had_others(&self) -> bool {
        self.had_others.load(Ordering::Acquire)
    }

    /// The tree of a keyspace that was opened.
    ///
    /// # Errors
    ///
    /// [`Error::KeyspaceDropped`] if there is none.
    pub fn get(&self, id: KeyspaceId) -> Result<Arc<Tree>> {
        if id == 0 {
            return Ok(Arc::clone(&self.default));
        }
        let others = lock(&self.others);
        let tree = others.by_id.get(&id).and_then(|keyspace| keyspace.tree.clone());
        tree.ok_or_else(|| Error::KeyspaceDropped(format!("number {id}")))
    }

    /// The keyspace with this name, if it is not keyspace 0.
    pub fn find(&self, name: &[u8]) -> Option<Keyspace> {
        let others = lock(&self.others);
        others.by_name.get(name).map(|id| others.by_id[id].clone())
    }

    /// All trees, keyspace 0 first.
    pub fn all(&self) -> Vec<Arc<Tree>> {
        let mut trees = vec![Arc::clone(&self.default)];
        if self.has_others() {
            let others = lock(&self.others);
            trees.extend(others.by_id.values().filter_map(|keyspace| keyspace.tree.clone()));
        }
        trees
    }

    /// The keyspaces other than 0, by id.
    pub fn others(&self) -> Vec<Keyspace> {
        lock(&self.others).by_id.values().cloned().collect()
    }

    /// The keyspaces other than 0, as the MANIFEST lists them, and the id of the next new one;
    /// `None`: there was never one.
    pub fn records(&self) -> (Vec<KeyspaceRecord>, Option<KeyspaceId>) {
        let others = lock(&self.others);
        let record = |keyspace: &Keyspace| KeyspaceRecord {
            id: keyspace.id,
            name: keyspace.name.to_vec(),
            options: keyspace.options.to_string(),
        };
        let next = (others.next > 0).then_some(others.next);
        (others.by_id.values().map(record).collect(), next)
    }

    /// The id of a new keyspace. It is not used again, even if the keyspace is not created after all.
    pub fn take_id(&self) -> Result<KeyspaceId> {
        let mut others = lock(&self.others);
        let id = others.next.max(1);
        let Some(next) = id.checked_add(1) else {
            return Err(Error::InvalidArgument("the numbers of keyspaces are used up".into()));
        };
        others.next = next;
        self.had_others.store(true, Ordering::Release);
        Ok(id)
    }

    /// Adds a keyspace, or replaces what is known of it.
    pub fn insert(&self, keyspace: Keyspace) {
        lock(&self.others).insert(keyspace);
        self.has_others.store(true, Ordering::Release);
    }

    pub fn remove(&self, id: KeyspaceId) {
        let mut others = lock(&self.others);
        if let Some(keyspace) = others.by_id.remove(&id) {
            others.by_name.remove(&keyspace.name);
        }
        self.has_others.store(!others.by_id.is_empty(), Ordering::Release);
    }

    /// Remembers a dropped tree for as long as it has readers.
    pub fn note_dropped(&self, tree: &Arc<Tree>) {
        let read_states = tree.reading.read_states();
        let mut dropped = lock(&self.dropped);
        dropped.retain(|it| !it.is_gone());
        dropped.push(DroppedTree { tree: Arc::downgrade(tree), read_states });
    }

    /// See [`Reading::keep_tables_of_readers_open`](super::reading::Reading), of all trees, also the
    /// dropped ones.
    pub fn keep_tables_of_readers_open(&self) {
        self.all().iter().for_each(|tree| tree.reading.keep_tables_of_readers_open());
        let dropped = std::mem::take(&mut *lock(&self.dropped));
        for dropped in dropped {
            match dropped.tree.upgrade() {
                Some(tree) => tree.reading.keep_tables_of_readers_open(),
                // Only readers hold these.
                None => {
                    let held = dropped.read_states.iter().filter_map(Weak::upgrade);
                    held.for_each(|read_state| read_state.keep_tables_open());
                }
            }
        }
    }
}

impl Others {
    fn insert(&mut self, keyspace: Keyspace) {
        self.next = self.next.max(keyspace.id.saturating_add(1));
        self.by_name.insert(Arc::clone(&keyspace.name), keyspace.id);
        self.by_id.insert(keyspace.id, keyspace);
    }
}
