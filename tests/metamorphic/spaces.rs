//! Keyspaces: which of them are open, and how the model knows their keys.
//!
//! A run has up to four keyspaces, and all operations go to the one in use. The model has one map for
//! all of them, so that its journal is that of the whole database. In it, each key has a number of its
//! own, and an existing keyspace other than `default` has a key after all others, its *mark*:
//!
//! ```text
//!   keyspace   0 = default          1                         2
//!   numbers    0 … count  (mark)    stride … stride + count   2 stride …
//!                                   mark = 2 stride - 1       no mark: there is no such keyspace
//! ```
//!
//! To create a keyspace is to put its mark. To drop it is to delete the range of all its numbers. The
//! value of a mark differs each time, so that a keyspace is known from a later one of the same name.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use maypole::{Db, Error, Result, WriteBatch};

use super::keys::{Key, Universe, Value};
use super::model::{Map, Write};
use super::operation::Act;
use super::reading::{Content, Expected, content, is_value};
use super::settings::Settings;
use super::store::{Store, add_to};

/// The number of a keyspace; 0: `default`.
pub type Space = u32;

const NAMES: [&[u8]; 4] = [b"default", b"one", b"\xff\0", &[b'n'; 255]];

pub fn name_of(space: Space) -> &'static [u8] {
    NAMES[space as usize]
}

/// The number of keyspaces that a run may have.
pub const SPACES: u32 = NAMES.len() as u32;

impl Universe {
    fn stride(&self) -> u32 {
        self.count() + 2
    }

    /// The number in the model that key 0 of the keyspace has.
    pub fn base(&self, space: Space) -> Key {
        space * self.stride()
    }

    fn mark(&self, space: Space) -> Key {
        self.base(space + 1) - 1
    }

    /// The numbers of all keys and marks.
    pub fn all(&self) -> Range<Key> {
        0..self.base(SPACES)
    }

    /// What a map of the model says of one keyspace, as a map of its keys.
    pub fn of_space(&self, map: &Map, space: Space) -> Map {
        let base = self.base(space);
        map.range(base..base + self.count()).map(|(key, value)| (key - base, *value)).collect()
    }

    /// The keyspaces that there are.
    pub fn spaces_in(&self, map: &Map) -> impl Iterator<Item = Space> {
        (0..SPACES).filter(|&space| space == 0 || map.contains_key(&self.mark(space)))
    }

    fn space_named(&self, name: &[u8]) -> Space {
        let known = NAMES.iter().position(|known| *known == name);
        known.unwrap_or_else(|| panic!("unknown keyspace {}", name.escape_ascii())) as Space
    }
}

impl Write {
    /// The write with the numbers of the model, for a keyspace with this base.
    pub fn above(self, base: Key) -> Write {
        match self {
            Write::Put(key, value) => Write::Put(base + key, value),
            Write::Delete(key) => Write::Delete(base + key),
            Write::DeleteRange(from, to) => Write::DeleteRange(base + from, base + to),
        }
    }
}

/// The whole content of a database, with the numbers of the model.
pub struct Whole {
    content: Content,
    spaces: BTreeSet<Space>,
}

impl Whole {
    pub fn of(db: &Db, keys: &Universe) -> Result<Whole> {
        let mut whole = Whole { content: Content::new(), spaces: BTreeSet::new() };
        for name in db.keyspaces() {
            let space = keys.space_named(&name);
            let held = content(&db.keyspace(&name)?, keys)?;
            whole.content.extend(held.into_iter().map(|(key, it)| (keys.base(space) + key, it)));
            whole.spaces.insert(space);
        }
        Ok(whole)
    }

    /// Whether a key has this value, or whether there is a keyspace with this mark.
    pub fn has(&self, keys: &Universe, key: Key, value: Option<&Value>) -> bool {
        let space = key / keys.stride();
        if key != keys.mark(space) {
            return is_value(value, self.content.get(&key));
        }
        space == 0 || value.is_some() == self.spaces.contains(&space)
    }

    /// Whether this is the content of the state.
    pub fn is(&self, keys: &Universe, state: &Map) -> bool {
        let marks = self.spaces.len() - 1;
        state.len() == self.content.len() + marks
            && state.iter().all(|(&key, value)| self.has(keys, key, Some(value)))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.content.len()
    }
}

impl Store {
    /// The handle of `default`.
    pub(super) fn home(&self) -> &Db {
        self.db.as_ref().expect("the store is open")
    }

    /// The handle of the keyspace in use.
    pub(super) fn db(&self) -> &Db {
        self.handles.get(&self.space).unwrap_or(self.home())
    }

    /// All keyspaces that were opened.
    pub(super) fn open_spaces(&self) -> Vec<(Space, Db)> {
        let others = self.handles.iter().map(|(&space, db)| (space, db.clone()));
        std::iter::once((0, self.home().clone())).chain(others).collect()
    }

    /// What the keyspace in use holds.
    pub(super) fn now(&self) -> Cow<'_, Map> {
        match self.has_spaces {
            false => Cow::Borrowed(self.model.now()),
            true => Cow::Owned(self.keys.of_space(self.model.now(), self.space)),
        }
    }

    /// What a snapshot that saw `map` shows of a keyspace: nothing if the keyspace is a later one.
    pub(super) fn seen_of(&self, map: &Map, space: Space) -> Map {
        let mark = &self.keys.mark(space);
        match map.get(mark) == self.model.now().get(mark) {
            true => self.keys.of_space(map, space),
            false => Map::new(),
        }
    }

    fn is_listed(&self, space: Space) -> bool {
        self.home().keyspaces().iter().any(|name| *name == name_of(space))
    }

    fn exists(&self, space: Space) -> bool {
        space == 0 || self.model.now().contains_key(&self.keys.mark(space))
    }

    /// Lets the operations that follow go to this keyspace, which is created if it is missing.
    pub(super) fn use_space(&mut self, space: Space, settings: &Settings) -> Result<()> {
        if space == 0 {
            self.space = 0;
            return Ok(());
        }
        let options = |builder| settings.of_keyspace(builder);
        let opened = self.home().keyspace_with(name_of(space), options);
        self.filters.remove(&space);
        self.note_space(space, true, opened.map(drop))?;
        self.filters.insert(space, settings.filter);
        self.space = space;
        Ok(())
    }

    pub(super) fn drop_space(&mut self, space: Space) -> Result<()> {
        if space == 0 {
            return Ok(());
        }
        let existed = self.exists(space);
        let dropped = self.home().drop_keyspace(name_of(space));
        if let Ok(dropped) = dropped {
            assert_eq!(dropped, existed, "whether there was a keyspace to drop");
        }
        self.note_space(space, false, dropped.map(drop))
    }

    /// Whether somebody else may do this meanwhile.
    pub(super) fn may_act(&self, act: &Act) -> bool {
        *act != Act::Drop(self.space)
    }

    /// Notes a call that was to create or open a keyspace, or else to drop it. It may have had its
    /// effect although it failed later.
    pub(super) fn note_space(
        &mut self,
        space: Space,
        is_wanted: bool,
        done: Result<()>,
    ) -> Result<()> {
        let map = self.keys.of_space(self.model.now(), space);
        if self.exists(space) != is_wanted {
            self.filters.remove(&space);
            let number = self.tally.operations as u32;
            let mark = Value { number, length: 4, is_noise: false };
            let write = match is_wanted {
                true => Write::Put(self.keys.mark(space), mark),
                false => Write::DeleteRange(self.keys.base(space), self.keys.base(space + 1)),
            };
            match &done {
                Err(error) if self.is_listed(space) != is_wanted => self.failed(vec![write], error),
                _ => self.model.write(vec![write]),
            }
            if done.is_ok() {
                self.model.sync();
            }
        }
        match self.is_listed(space) {
            true => {
                let handle = self.home().keyspace(name_of(space))?;
                self.handles.insert(space, handle);
            }
            false => {
                self.dropped.extend(self.handles.remove(&space).map(|handle| (handle, map)));
                self.space = if self.space == space { 0 } else { self.space };
            }
        }
        done
    }

    /// Handles of dropped keyspaces show what these held, and take no writes.
    pub(super) fn check_dropped(&self, to_look_up: &[Key]) -> Result<u64> {
        let mut compared = 0;
        for (handle, map) in &self.dropped {
            let expected = Expected { keys: &self.keys, map, name: "a dropped keyspace" };
            compared += expected.all(handle, to_look_up)?;
            for done in [handle.put("a", "b"), handle.flush(), handle.compact_all()] {
                let error = done.expect_err("a dropped keyspace takes a write");
                let is_right = matches!(error, Error::KeyspaceDropped(_) | Error::ReadOnly(_));
                assert!(is_right, "a write to a dropped keyspace: {error}");
            }
        }
        Ok(compared)
    }

    /// One batch to several of the open keyspaces.
    pub(super) fn across(&mut self, writes: &[(Space, Write)], sync: bool) -> Result<()> {
        let open = self.open_spaces();
        let mut batch = WriteBatch::new();
        let mut written = Vec::new();
        for &(which, write) in writes {
            let (space, db) = &open[which as usize % open.len()];
            add_to(batch.keyspace(db), &self.keys, write);
            written.push(write.above(self.keys.base(*space)));
        }
        let durability =
            if sync { maypole::Durability::Sync } else { maypole::Durability::Buffered };
        let done = self.db().write_opt(batch, durability);
        self.wrote_in_all(written, done)?;
        if sync {
            self.model.sync();
        }
        Ok(())
    }

    /// Opens all keyspaces that there are after an opening.
    pub(super) fn open_handles(&mut self) -> Result<()> {
        let spaces: Vec<Space> = self.keys.spaces_in(self.model.now()).skip(1).collect();
        for space in spaces {
            self.handles.insert(space, self.home().keyspace(name_of(space))?);
        }
        if !self.exists(self.space) {
            self.space = 0;
        }
        Ok(())
    }

    /// Compares all keyspaces of another handle or of a copy with this state of the model.
    pub(super) fn compare_all(
        &self,
        db: &Db,
        map: &Map,
        name: &str,
        to_look_up: impl Fn(Space) -> Vec<Key>,
    ) -> Result<u64> {
        let compared = self.compare_each(|name| db.keyspace(name), map, name, to_look_up)?;
        assert_eq!(db.keyspaces().len(), self.keys.spaces_in(map).count(), "{name}: keyspaces");
        Ok(compared)
    }

    /// Compares the handles that `open` returns for the names of all keyspaces.
    pub(super) fn compare_each(
        &self,
        open: impl Fn(&[u8]) -> Result<Db>,
        map: &Map,
        name: &str,
        to_look_up: impl Fn(Space) -> Vec<Key>,
    ) -> Result<u64> {
        let mut compared = 0;
        for space in self.keys.spaces_in(map) {
            let handle = open(name_of(space))?;
            let map = &self.keys.of_space(map, space);
            let expected = Expected { keys: &self.keys, map, name };
            compared += expected.all(&handle, &to_look_up(space))?;
        }
        Ok(compared)
    }
}
