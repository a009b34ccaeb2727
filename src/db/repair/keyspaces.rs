//! [`Keyspaces`]: which keyspaces the repaired database has, and of which one a table or a logged
//! write is.
//!
//! ```text
//!   a whole MANIFEST     lists all keyspaces; a smaller number that is not listed was dropped
//!   parts of MANIFESTs   list some keyspaces, and some that were dropped
//!   tables               state the number and the name of their keyspace, unless they were ingested
//!   logs                 state numbers alone; their format version tells that there are keyspaces
//! ```
//!
//! A table that does not state its keyspace is one of keyspace 0 only if there was never another. So
//! without a whole MANIFEST, all logs and all tables are looked at before the first table is placed.
//!
//! A number belongs to one name for ever, and a name to one living keyspace. Tables that contradict
//! this, such as those of a dropped keyspace beside those of its successor, are not merged: equal
//! keys of two keyspaces are different keys. Each such group of tables gets a keyspace of its own,
//! with another name, or even another number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::db::inner::trees::DEFAULT_NAME;
use crate::db::tree_options::TreeOptions;
use crate::encoding::text::escape;
use crate::error::Result;
use crate::table::UNKNOWN_COLUMN_FAMILY;
use crate::version::{KeyspaceId, KeyspaceRecord, MAX_NAME_BYTES, RecoveredKeyspace};

/// See the module.
pub(super) struct Keyspaces {
    /// The options of keyspace 0, which a keyspace gets if no MANIFEST has its options.
    default_options: TreeOptions,
    /// All keyspaces but 0.
    by_id: BTreeMap<KeyspaceId, Keyspace>,
    dropped: BTreeSet<KeyspaceId>,
    /// Every keyspace with a smaller number that is not known was dropped.
    dropped_below: KeyspaceId,
    /// The number of the next new keyspace; 0: nothing shows that there was ever one.
    next: KeyspaceId,
    /// The keyspaces of tables that state a number or a name that another keyspace has.
    apart: BTreeMap<(u64, Vec<u8>), KeyspaceId>,
}

struct Keyspace {
    name: Vec<u8>,
    options: TreeOptions,
}

/// What a table states of its keyspace.
pub(super) struct Statement {
    /// The keyspace in which a part of a MANIFEST lists the table.
    pub listed: Option<KeyspaceId>,
    /// Number and name.
    pub stated: (u64, Vec<u8>),
}

/// What is known of the keyspace of a logged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logged {
    Known,
    Dropped,
    /// Nothing tells its name, or whether it was dropped.
    Unknown,
}

impl Keyspaces {
    /// `next` is the number of the next new keyspace. If a whole MANIFEST lists `listed`, `is_whole`
    /// is set, and every missing number below `next` is that of a dropped keyspace.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if options make no sense.
    pub fn new(
        default_options: &TreeOptions,
        listed: &BTreeMap<KeyspaceId, RecoveredKeyspace>,
        dropped: BTreeSet<KeyspaceId>,
        next: KeyspaceId,
        is_whole: bool,
    ) -> Result<Keyspaces> {
        let mut by_id = BTreeMap::new();
        for (&id, RecoveredKeyspace { name, options }) in listed {
            let options = TreeOptions::of_text(options)?;
            by_id.insert(id, Keyspace { name: name.to_vec(), options });
        }
        let last = by_id.keys().next_back().map_or(0, |last| last.saturating_add(1));
        Ok(Keyspaces {
            default_options: default_options.clone(),
            by_id,
            dropped,
            dropped_below: if is_whole { next } else { 0 },
            next: next.max(last),
            apart: BTreeMap::new(),
        })
    }

    /// Whether anything seen so far shows that there are or were keyspaces besides 0.
    pub fn had_others(&self) -> bool {
        self.next > 0
    }

    /// Adds the keyspaces that tables state.
    pub fn add_stated(&mut self, mut statements: Vec<Statement>) {
        // The largest number comes first, so that no new keyspace gets a number that a table states,
        // and so that of two keyspaces of one name the later one keeps the name. Ingested tables,
        // which state no number, come last.
        statements.sort_by_key(|it| (it.stated.0 == UNKNOWN_COLUMN_FAMILY, Reverse(it.stated.0)));
        for Statement { listed, stated } in statements {
            self.of_table(listed, Some(stated));
        }
    }

    /// The name of a keyspace, or one made of its number if its name is lost.
    pub fn name(&self, id: KeyspaceId) -> Vec<u8> {
        match (id, self.by_id.get(&id)) {
            (0, _) => DEFAULT_NAME.to_vec(),
            (_, Some(known)) => known.name.clone(),
            (_, None) => made_up_name(id.into()),
        }
    }

    pub fn options(&self, id: KeyspaceId) -> &TreeOptions {
        self.by_id.get(&id).map_or(&self.default_options, |it| &it.options)
    }

    /// ` of keyspace "name"`; nothing if keyspace 0 is the only one.
    pub fn of(&self, id: KeyspaceId) -> String {
        match self.by_id.is_empty() {
            true => String::new(),
            false => format!(" of keyspace \"{}\"", escape(&self.name(id))),
        }
    }

    /// The keyspaces other than 0, as a MANIFEST lists them, and the number of the next new one.
    pub fn records(&self) -> (Vec<KeyspaceRecord>, Option<KeyspaceId>) {
        let record = |(&id, known): (&KeyspaceId, &Keyspace)| KeyspaceRecord {
            id,
            name: known.name.clone(),
            options: known.options.to_text(),
        };
        (self.by_id.iter().map(record).collect(), (self.next > 0).then_some(self.next))
    }

    /// What is known of the keyspace that a logged write names.
    pub fn logged(&mut self, id: KeyspaceId) -> Logged {
        let is_apart =
            self.apart.iter().any(|((stated, _), &other)| other == id && *stated != u64::from(id));
        match (id == 0 || self.by_id.contains_key(&id)) && !is_apart {
            true => Logged::Known,
            false if self.dropped.contains(&id) || id < self.dropped_below => Logged::Dropped,
            false => {
                self.keep_free(id);
                Logged::Unknown
            }
        }
    }

    /// Lets no new keyspace get this number.
    pub fn keep_free(&mut self, id: KeyspaceId) {
        self.next = self.next.max(id.saturating_add(1));
    }

    /// The keyspace of a table: `listed` if a part of a MANIFEST says so, or else the one that the
    /// table states as `stated`, number and name. `None`: it was dropped.
    pub fn of_table(
        &mut self,
        listed: Option<KeyspaceId>,
        stated: Option<(u64, Vec<u8>)>,
    ) -> Option<KeyspaceId> {
        match (listed, stated) {
            (Some(0), _) | (None, None) => Some(0),
            (Some(id), _) if self.by_id.contains_key(&id) => Some(id),
            (Some(id), Some((stated, name))) if u64::from(id) == stated => {
                self.of_statement(stated, name)
            }
            (Some(id), _) => self.of_statement(id.into(), Vec::new()),
            (None, Some((stated, name))) => self.of_statement(stated, name),
        }
    }

    /// The keyspace with this number and this name, which is added if it is not known. The name is
    /// empty if it is lost. `None`: it was dropped. If the number is unknown, the name counts alone.
    fn of_statement(&mut self, stated: u64, name: Vec<u8>) -> Option<KeyspaceId> {
        let is_name = (1..=MAX_NAME_BYTES).contains(&name.len());
        let name = if is_name { name } else { made_up_name(stated) };
        if let Some(&id) = self.apart.get(&(stated, name.clone())) {
            return Some(id);
        }
        if stated == UNKNOWN_COLUMN_FAMILY {
            let mut named = self.by_id.iter().filter(|(_, known)| known.name == name);
            match named.next() {
                Some((&id, _)) => return Some(id),
                None if name == DEFAULT_NAME => return Some(0),
                None => {}
            }
        }
        let id =
            KeyspaceId::try_from(stated).ok().filter(|&id| u64::from(id) < UNKNOWN_COLUMN_FAMILY);
        let id = match id.map(|id| (id, self.by_id.get(&id))) {
            Some((id, Some(known))) if known.name == name || !is_name => return Some(id),
            Some((id, None)) if self.dropped.contains(&id) => return None,
            Some((id, None)) => id,
            _ => self.next.max(1),
        };
        let free = self.free_name(&name);
        if free != name || u64::from(id) != stated {
            self.apart.insert((stated, name), id);
        }
        self.add(id, free);
        Some(id)
    }

    fn add(&mut self, id: KeyspaceId, name: Vec<u8>) {
        self.keep_free(id);
        let options = self.default_options.clone();
        self.by_id.insert(id, Keyspace { name, options });
    }

    fn has_name(&self, name: &[u8]) -> bool {
        name == DEFAULT_NAME || self.by_id.values().any(|known| known.name == name)
    }

    /// `name`, or one made of it that no keyspace has.
    fn free_name(&self, name: &[u8]) -> Vec<u8> {
        let numbered = |n: u64| {
            let end = format!(" ({n})").into_bytes();
            [&name[..name.len().min(MAX_NAME_BYTES - end.len())], &end].concat()
        };
        let names = std::iter::once(name.to_vec()).chain((2..).map(numbered));
        names.into_iter().find(|name| !self.has_name(name)).expect("the numbers do not end")
    }
}

fn made_up_name(id: u64) -> Vec<u8> {
    format!("keyspace {id}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyspaces(listed: &[(KeyspaceId, &str)], dropped: &[KeyspaceId]) -> Keyspaces {
        let record = |&(id, name): &(KeyspaceId, &str)| {
            let (name, options) = (name.as_bytes().to_vec(), TreeOptions::default().to_text());
            (id, RecoveredKeyspace { name: name.into(), options: options.into() })
        };
        let listed = listed.iter().map(record).collect();
        let dropped = dropped.iter().copied().collect();
        Keyspaces::new(&TreeOptions::default(), &listed, dropped, 0, false).unwrap()
    }

    fn stated(id: u64, name: &str) -> Option<(u64, Vec<u8>)> {
        Some((id, name.as_bytes().to_vec()))
    }

    #[test]
    fn a_manifest_comes_before_what_a_table_states() {
        let mut keyspaces = keyspaces(&[(2, "users")], &[3]);
        assert_eq!(keyspaces.of_table(None, None), Some(0));
        // A table that was imported from another database states a column family of that one.
        assert_eq!(keyspaces.of_table(Some(0), stated(7, "alpha")), Some(0));
        assert_eq!(keyspaces.of_table(Some(2), stated(7, "alpha")), Some(2));
        assert_eq!(keyspaces.of_table(Some(2), None), Some(2));
        assert_eq!(keyspaces.of_table(None, stated(3, "gone")), None);
        assert_eq!(keyspaces.of_table(Some(5), stated(5, "events")), Some(5));
        assert_eq!(keyspaces.of_table(Some(6), None), Some(6));
        let (records, next) = keyspaces.records();
        let names: Vec<_> = records.iter().map(|it| (it.id, &it.name[..])).collect();
        assert_eq!(names, [(2, &b"users"[..]), (5, b"events"), (6, b"keyspace 6")]);
        assert_eq!(next, Some(7));
    }

    #[test]
    fn tables_that_share_a_number_or_a_name_are_kept_apart() {
        let mut keyspaces = keyspaces(&[(2, "users")], &[]);
        for _ in 0..2 {
            assert_eq!(keyspaces.of_table(None, stated(2, "users")), Some(2));
            assert_eq!(keyspaces.of_table(None, stated(1, "users")), Some(1));
            assert_eq!(keyspaces.of_table(None, stated(9, "default")), Some(9));
            assert_eq!(keyspaces.of_table(None, stated(2, "other")), Some(10));
            assert_eq!(keyspaces.of_table(None, stated(1 << 40, "x")), Some(11));
            assert_eq!(keyspaces.of_table(None, stated(2, "")), Some(2));
            // Tables to ingest.
            let by_name = [("default", 0), ("users", 2), ("other", 10), ("new", 12)];
            for (name, id) in by_name {
                let stated = stated(UNKNOWN_COLUMN_FAMILY, name);
                assert_eq!(keyspaces.of_table(None, stated), Some(id));
            }
        }
        for (id, name) in [(1, "users (2)"), (9, "default (2)"), (10, "other"), (11, "x")] {
            assert_eq!(keyspaces.name(id), name.as_bytes());
        }
        // A logged write names the number that it was written with.
        for (id, expected) in [(0, Logged::Known), (1, Logged::Known), (9, Logged::Known)] {
            assert_eq!(keyspaces.logged(id), expected);
        }
        assert_eq!(
            (keyspaces.logged(10), keyspaces.logged(11)),
            (Logged::Unknown, Logged::Unknown)
        );
        assert_eq!(keyspaces.logged(70), Logged::Unknown);
        assert_eq!(keyspaces.records().1, Some(71), "the number is not used again");
        let long = "n".repeat(MAX_NAME_BYTES);
        assert_eq!(keyspaces.of_table(None, stated(80, &long)), Some(80));
        assert_eq!(keyspaces.of_table(None, stated(81, &long)), Some(81));
        assert_eq!(keyspaces.name(81).len(), MAX_NAME_BYTES);
    }

    /// Regression: a damaged table stated keyspace 3, `other`, and of two whole tables both stated
    /// keyspace 2, one of them as `other`. Only the whole tables were seen before new keyspaces got
    /// their numbers, so `other` of keyspace 2 became keyspace 3, and the two were merged.
    #[test]
    fn a_new_keyspace_gets_no_number_that_a_later_table_states() {
        let mut keyspaces = keyspaces(&[], &[]);
        assert!(!keyspaces.had_others());
        let all = [(2, "users"), (2, "other"), (3, "other")];
        let of = |(id, name)| Statement { listed: None, stated: stated(id, name).unwrap() };
        keyspaces.add_stated(all.map(of).into());
        assert!(keyspaces.had_others());
        let ids = all.map(|(id, name)| keyspaces.of_table(None, stated(id, name)).unwrap());
        assert_eq!(ids, [2, 4, 3]);
    }

    #[test]
    fn a_whole_manifest_knows_which_were_dropped() {
        let listed = BTreeMap::new();
        let defaults = TreeOptions::default();
        let mut keyspaces = Keyspaces::new(&defaults, &listed, BTreeSet::new(), 4, true).unwrap();
        assert_eq!(keyspaces.logged(3), Logged::Dropped);
        assert_eq!(keyspaces.logged(4), Logged::Unknown);
        assert_eq!(keyspaces.records(), (Vec::new(), Some(5)));
        let none = Keyspaces::new(&defaults, &listed, BTreeSet::new(), 0, true).unwrap();
        assert_eq!((none.records(), none.of(0)), ((Vec::new(), None), String::new()));
    }
}
