//! Keyspaces: several trees in one database. How they are opened, created, listed and dropped.
//!
//! ```text
//!   create   writers wait ─► WALs synced ─► MANIFEST ─► a WAL of the version with keyspaces, if
//!            there is none ─► the tree, and its place in the writer
//!   open     the tree and its place, unless the keyspace has them already
//!   drop     writers wait ─► WALs synced ─► MANIFEST ─► its place in the writer goes
//!            ─► files go with their last reader
//! ```
//!
//! **A crash between two steps.** The MANIFEST decides. A keyspace that it does not list has no write
//! in any WAL, because writes need a place in the writer, which comes after the MANIFEST. One that it
//! has dropped is unknown to a replay, which passes its writes over, and the next opening deletes the
//! tables that no keyspace lists. The id of a keyspace is never used again, so writes of a dropped one
//! never come to a later one of the same name.

use std::sync::Arc;

use super::background::jobs::{latching_panics, read_in_this_thread, work_in_this_thread};
use super::background::schedule::start_tree;
use super::db::Db;
use super::inner::Inner;
use super::inner::reading::Reading;
use super::inner::tree::Tree;
use super::inner::tree_state::TreeState;
use super::inner::trees::{DEFAULT_NAME, Keyspace};
use super::inner::writing::{LeadingWriter, TreeWriter};
use super::options::Builder;
use super::snapshot::Snapshot;
use super::tree_options::TreeOptions;
use super::write::batch::WriteBatch;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::sync::atomic::Ordering;
use crate::version::{MAX_NAME_BYTES, Version};
use crate::wal::{LogVersion, LogWriter};

/// Keyspaces: several sets of keys in one database, each with its own filter policy.
///
/// Every database has the keyspace `default`, which a [`Db`] is a handle of until
/// [`Db::keyspace`] returns a handle of another one. All methods work on each of them. They share
/// the log, the cache, the threads, and the numbers of writes: so a [`WriteBatch`], a
/// [`Snapshot`] and a [`Transaction`](crate::Transaction) go across keyspaces.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::{Db, WriteBatch};
///
/// let db = Db::open(dir.path())?;
/// let users = db.keyspace("users")?;
/// let by_name = db.keyspace_with("by name", |options| options.filter("burr(9)"))?;
///
/// let mut batch = WriteBatch::new();
/// batch.keyspace(&users).put("7", "Ada");
/// batch.keyspace(&by_name).put("Ada", "7");
/// db.write(batch)?;
///
/// assert_eq!(users.get("7")?.unwrap(), b"Ada");
/// assert!(by_name.contains_key("Ada")? && db.is_empty()?);
/// assert_eq!(db.keyspaces(), [b"default".to_vec(), b"by name".to_vec(), b"users".to_vec()]);
/// # Ok::<(), maypole::Error>(())
/// ```
///
/// **When a prefix is better.** A keyspace has a memtable, tables and files of its own, so ten
/// thousand keyspaces with a few keys each cost ten thousand files and flushes, and 8 KB of memory
/// each, where prefixes of one keyspace would share them. Take keyspaces for kinds of data that differ
/// in size, filter or life; take prefixes for the many of one kind, such as the users.
///
/// **Closing.** The database stays open until the handles of all keyspaces are gone, or until the
/// first [`Db::close`], which closes it for all of them.
///
/// **Options.** The filter and what it holds, compression, the sizes of blocks, tables, memtables
/// and levels, the form of metadata and the age of deletions belong to a keyspace. They are stored,
/// so that a keyspace keeps them when it is opened without options. Those of `default` are given at
/// each opening. Everything else belongs to the database. The memtables that take
/// writes may together have four times the size of one of `default`.
impl Db {
    /// A handle of the keyspace `name`, any 1 to 255 bytes, which is created with the options of this
    /// database if it is missing.
    ///
    /// # Errors
    ///
    /// Those of [`Db`]; [`Error::InvalidArgument`] for a name that is empty or too long;
    /// [`Error::OpenedReadOnly`] if the keyspace is missing and the database was opened read-only.
    #[doc(alias = "column_family")]
    #[doc(alias = "cf_handle")]
    #[doc(alias = "create_cf")]
    #[doc(alias = "open_tree")]
    #[doc(alias = "open_table")]
    #[doc(alias = "partition")]
    pub fn keyspace(&self, name: impl AsRef<[u8]>) -> Result<Db> {
        self.keyspace_with(name, |options| options)
    }

    /// Like [`Db::keyspace`], with other options: `options` gets those that the keyspace has, or
    /// those of the database if it is created, and returns the changed ones.
    ///
    /// New options are for new tables; old tables keep what they are until they are compacted.
    /// `options` must not open, create or drop keyspaces itself.
    ///
    /// # Errors
    ///
    /// Those of [`Db::keyspace`]; [`Error::InvalidArgument`] if an option is out of its range, or if
    /// one is changed that belongs to the database.
    #[doc(alias = "ColumnFamilyDescriptor")]
    pub fn keyspace_with(
        &self,
        name: impl AsRef<[u8]>,
        options: impl FnOnce(Builder) -> Builder,
    ) -> Result<Db> {
        let inner = self.open_keyspace(name.as_ref(), options)?;
        Ok(Db { inner, handle: Arc::clone(&self.handle) })
    }

    /// The names of all keyspaces: `default` first, the others sorted.
    #[doc(alias = "list_cf")]
    #[doc(alias = "tree_names")]
    pub fn keyspaces(&self) -> Vec<Vec<u8>> {
        if !self.inner.database.status.process().is_current() {
            return Vec::new();
        }
        let others = self.inner.database.trees.others();
        let mut names: Vec<Vec<u8>> = others.iter().map(|other| other.name.to_vec()).collect();
        names.sort();
        names.insert(0, DEFAULT_NAME.to_vec());
        names
    }

    /// The name of the keyspace that this is a handle of.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// assert_eq!(db.keyspace_name(), b"default");
    /// assert_eq!(db.keyspace("users")?.keyspace_name(), b"users");
    /// # Ok::<(), maypole::Error>(())
    /// ```
    pub fn keyspace_name(&self) -> &[u8] {
        &self.inner.tree.name
    }

    /// Removes the keyspace `name` with all that it holds, as one step, and returns whether there was
    /// one. Its name is free at once: [`Db::keyspace`] creates an empty keyspace.
    ///
    /// Handles, snapshots and iterators of the removed keyspace can read it as before, and keep its
    /// files until they are gone. Writes through the handles return [`Error::KeyspaceDropped`], and
    /// so do commits of transactions that have touched it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let old = db.keyspace("sessions")?;
    /// old.put("1", "")?;
    /// assert!(db.drop_keyspace("sessions")?);
    /// assert!(matches!(old.put("2", ""), Err(maypole::Error::KeyspaceDropped(_))));
    /// assert!(db.keyspace("sessions")?.is_empty()?);
    /// # Ok::<(), maypole::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db`]; [`Error::InvalidArgument`] for the keyspace `default`.
    #[doc(alias = "drop_cf")]
    #[doc(alias = "drop_tree")]
    #[doc(alias = "delete_table")]
    pub fn drop_keyspace(&self, name: impl AsRef<[u8]>) -> Result<bool> {
        self.drop_named(name.as_ref())
    }
}

impl WriteBatch {
    /// Lets the writes that follow go to the keyspace that `db` is a handle of, until the next call
    /// of this method. The writes before the first call go to the keyspace through whose handle the
    /// batch is written.
    ///
    /// If `db` is of another database than the handle, [`Db::write`] rejects the batch.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// use maypole::WriteBatch;
    ///
    /// let events = db.keyspace("events")?;
    /// db.write(WriteBatch::new().put("user/7", "Ada").keyspace(&events).put("1", "user 7 came"))?;
    /// assert_eq!((db.len()?, events.len()?), (1, 1));
    /// # Ok::<(), maypole::Error>(())
    /// ```
    #[doc(alias = "put_cf")]
    pub fn keyspace(&mut self, db: &Db) -> &mut WriteBatch {
        self.aim(db.inner.database.number, db.inner.tree.id)
    }
}

impl Snapshot {
    /// The same moment of another keyspace: that of `db`, a handle of the same database.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = maypole::Db::open(dir.path())?;
    /// let events = db.keyspace("events")?;
    /// events.put("1", "began")?;
    /// let snapshot = db.snapshot();
    /// events.put("2", "ended")?;
    /// assert_eq!(snapshot.keyspace(&events)?.iter().count(), 1);
    /// # Ok::<(), maypole::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `db` is another database.
    pub fn keyspace(&self, db: &Db) -> Result<Snapshot> {
        self.check_same_database(db)?;
        Ok(self.of(db.inner.clone()))
    }

    pub(super) fn check_same_database(&self, db: &Db) -> Result<()> {
        match Arc::ptr_eq(&self.inner.database, &db.inner.database) {
            true => Ok(()),
            false => Err(Error::InvalidArgument("a keyspace of another database".into())),
        }
    }
}

impl Db {
    fn open_keyspace(&self, name: &[u8], change: impl FnOnce(Builder) -> Builder) -> Result<Inner> {
        let database = &self.inner.database;
        // The closing waits for this call. Otherwise the call could write to the MANIFEST, and let
        // `CURRENT` name a new one, when the directory has another owner already.
        let _working = read_in_this_thread(&self.inner)?;
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let text =
                format!("a name of {} bytes: a keyspace has 1 to {MAX_NAME_BYTES}", name.len());
            return Err(Error::InvalidArgument(text));
        }
        let _changes = database.trees.lock_changes();
        if name == DEFAULT_NAME {
            let tree = Arc::clone(database.trees.default_tree());
            let (before, options) = (tree.options(), changed(&database.options, change)?);
            if *before != options {
                self.set_options(&tree, options);
            }
            return Ok(self.inner.with_tree(tree));
        }
        let Some(known) = database.trees.find(name) else {
            return self.create_keyspace(name, changed(&database.options, change)?);
        };
        let before = TreeOptions::of_text(&known.options)?;
        let of_keyspace = Builder { tree: before.clone(), ..database.options.clone() };
        let options = changed(&of_keyspace, change)?;
        let known = match options == before {
            true => known,
            false => {
                let known = Keyspace { options: options.to_text().into(), ..known };
                database.status.check_writable()?;
                self.inner.ensure_taken_over(&mut database.writing.lead())?;
                self.record_keyspace(known.clone())?;
                known
            }
        };
        match &known.tree {
            Some(tree) => {
                if options != before {
                    self.set_options(tree, options);
                }
                Ok(self.inner.with_tree(Arc::clone(tree)))
            }
            None => self.start_keyspace(known, options, database.writing.lead()),
        }
    }

    fn create_keyspace(&self, name: &[u8], options: TreeOptions) -> Result<Inner> {
        let database = &self.inner.database;
        database.status.check_writable()?;
        let id = database.trees.take_id()?;
        let text: Arc<str> = options.to_text().into();
        let keyspace = Keyspace { id, name: name.into(), options: text, tree: None };
        // A power loss must not leave the keyspace without an earlier write.
        let writer = self.lead_and_sync()?;
        self.record_keyspace(keyspace.clone())?;
        self.start_keyspace(keyspace, options, writer)
    }

    /// Keeps writers out from now on, and makes durable what they have written before.
    fn lead_and_sync(&self) -> Result<LeadingWriter<'_>> {
        let mut writer = self.inner.database.writing.lead();
        self.inner.database.status.check_writable()?;
        self.inner.ensure_taken_over(&mut writer)?;
        self.inner.sync_with(&mut writer).map_err(|error| self.inner.latch(error))?;
        Ok(writer)
    }

    /// Enters a keyspace or its other options into the MANIFEST, and into the list.
    fn record_keyspace(&self, keyspace: Keyspace) -> Result<()> {
        let database = &self.inner.database;
        let put = || database.catalog.put_keyspace(database.parts(), keyspace);
        latching_panics(&self.inner, put).map_err(|error| self.inner.latch_unless_retried(error))
    }

    /// Sets the options of a tree for tables and memtables to come.
    fn set_options(&self, tree: &Arc<Tree>, options: TreeOptions) {
        let memtable_bytes = options.memtable_bytes;
        tree.set_options(options);
        if let Ok(of_tree) = self.inner.database.writing.lead().of(tree.id) {
            of_tree.memtable_bytes = memtable_bytes;
        }
        self.inner.with_tree(Arc::clone(tree)).schedule(&mut tree.lock());
    }

    /// Makes the tree of a keyspace that has nothing in it, and lets it take writes.
    fn start_keyspace(
        &self,
        keyspace: Keyspace,
        options: TreeOptions,
        mut leading: LeadingWriter<'_>,
    ) -> Result<Inner> {
        let database = &self.inner.database;
        let (memtable, writer) = Memtable::new(options.memtable_bytes);
        let state = TreeState::new(memtable, Arc::new(Version::default()), &options);
        let reading = Reading::new(&database.store, &state, &database.sequences);
        let tree = Arc::new(Tree::new(keyspace.id, &keyspace.name, options, state, reading));
        let of_tree = TreeWriter::new(&tree, writer);
        let is_of_one = |wal: &LogWriter| wal.version() == LogVersion::OneKeyspace;
        if leading.wal.as_ref().is_some_and(is_of_one) {
            self.inner.start_wal(&mut leading)?;
        }
        leading.others.insert(tree.id, of_tree);
        drop(leading);
        database.trees.insert(Keyspace { tree: Some(Arc::clone(&tree)), ..keyspace });
        let inner = self.inner.with_tree(tree);
        if database.starts_jobs() {
            start_tree(&inner);
        }
        Ok(inner)
    }

    fn drop_named(&self, name: &[u8]) -> Result<bool> {
        let database = &self.inner.database;
        database.status.check_writable()?;
        if name == DEFAULT_NAME {
            let text = "the keyspace \"default\" cannot be dropped; Db::clear empties it";
            return Err(Error::InvalidArgument(text.into()));
        }
        let _working = work_in_this_thread(&self.inner)?;
        let _changes = database.trees.lock_changes();
        let Some(keyspace) = database.trees.find(name) else { return Ok(false) };
        // Every acknowledged write is before the drop or after it. A power loss must not leave the drop
        // without those before it: they may have moved what the keyspace held to another one.
        let mut writer = self.lead_and_sync()?;
        let drop_it = || database.catalog.drop_keyspace(database.parts(), &keyspace);
        latching_panics(&self.inner, drop_it)
            .map_err(|error| self.inner.latch_unless_retried(error))?;
        writer.others.remove(&keyspace.id);
        drop(writer);
        if let Some(tree) = keyspace.tree {
            // Its memtables are never flushed.
            let frozen = tree.lock().frozen.iter().map(|it| it.memtable.bytes() as u64).sum();
            database.frozen_bytes.fetch_sub(frozen, Ordering::Relaxed);
        }
        Ok(true)
    }
}

/// The options of a tree after `change`, which may change only these.
fn changed(before: &Builder, change: impl FnOnce(Builder) -> Builder) -> Result<TreeOptions> {
    let after = change(before.clone());
    if let Some(error) = after.filter_error.clone() {
        return Err(Error::InvalidArgument(error));
    }
    if let Some(name) = after.changed_of_database(before) {
        return Err(Error::InvalidArgument(format!(
            "{name} belongs to the database, and cannot be set for a keyspace"
        )));
    }
    after.tree.check()?;
    Ok(after.tree)
}
