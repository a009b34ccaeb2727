//! The effects of Redis' BF commands, as methods over named [`ScalableBloom`] filters.
//!
//! Literature: the commands' pages at <https://redis.io/docs/latest/commands/>.
//!
//! ```text
//! command                     here           and if the filter is missing
//! BF.RESERVE key rate n …     reserve        makes it; it is an error if there is one
//! BF.ADD, BF.MADD             add, madd      makes it with the defaults: 100, 1 %, expansion 2
//! BF.INSERT key … ITEMS …     insert         makes it with the options, unless NOCREATE
//! BF.EXISTS, BF.MEXISTS       exists, …      "no"
//! BF.CARD                     card           0
//! BF.INFO                     info           an error
//! BF.SCANDUMP key iterator    scandump       an error
//! BF.LOADCHUNK key it. data   loadchunk      makes it; an existing one is replaced
//! ```
//!
//! The commands have the same effects as in Redis, but the bytes of a dump differ, and items are
//! hashes of 64 bits. A *dump* is a saved filter in pieces, the first of which is a header. Until a
//! dump is loaded completely, every command for its filter returns an error, except
//! [`Keyspace::loadchunk`].
//!
//! Invariant: a failed command changes nothing, with one exception. If a dump proves damaged when
//! its last piece is loaded, the filter stays incomplete, and the load must start again with the
//! first piece.

mod words;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::scalable::loading::Loading;
use super::scalable::{Options, ScalableBloom};
use super::shared::{Damaged, Full};
pub use words::{CommandError, Growth, Info, InsertOptions, Reply};

/// Bytes of each piece of a dump, except the header and the last piece.
const PIECE_BYTES: usize = 1 << 20;

enum Entry {
    Ready(ScalableBloom),
    Loading(Loading),
}

/// Filters by name.
///
/// ```
/// use maypole_filter::textbook::redis::Keyspace;
///
/// let mut space = Keyspace::default();
/// assert!(space.add("seen", 7)?, "new");
/// assert!(!space.add("seen", 7)?, "seen before");
/// assert!(space.exists("seen", 7)? && !space.exists("seen", 8)?);
/// # Ok::<(), maypole_filter::textbook::redis::CommandError>(())
/// ```
#[derive(Default)]
pub struct Keyspace {
    filters: BTreeMap<String, Entry>,
}

impl Keyspace {
    /// BF.RESERVE: makes an empty filter.
    /// # Errors
    /// If the name is taken, an argument is out of range, or memory is short.
    pub fn reserve(&mut self, key: &str, rate: f64, capacity: u64, growth: Growth) -> Reply<()> {
        if self.filters.contains_key(key) {
            return Err(CommandError::Exists);
        }
        self.create(key, rate, capacity, growth)
    }

    fn create(&mut self, key: &str, rate: f64, capacity: u64, growth: Growth) -> Reply<()> {
        let expansion = if let Growth::Expansion(times) = growth { Some(times) } else { None };
        let options = Options { capacity, rate, expansion };
        let filter = ScalableBloom::new(options).map_err(CommandError::Invalid)?;
        self.filters.insert(key.into(), Entry::Ready(filter));
        Ok(())
    }

    /// The filter of this name; `None` if there is none.
    fn get(&self, key: &str) -> Reply<Option<&ScalableBloom>> {
        match self.filters.get(key) {
            None => Ok(None),
            Some(Entry::Ready(filter)) => Ok(Some(filter)),
            Some(Entry::Loading(_)) => Err(CommandError::Loading),
        }
    }

    /// BF.ADD: `false` means that the item may have been added before.
    /// # Errors
    /// If the filter is full or not loaded completely.
    pub fn add(&mut self, key: &str, item: u64) -> Reply<bool> {
        self.madd(key, &[item])?.pop().unwrap_or(Err(CommandError::Full))
    }

    /// BF.MADD: one answer for each item.
    /// # Errors
    /// If the filter is not loaded completely. An item that a full filter rejects gets an error as
    /// its answer.
    pub fn madd(&mut self, key: &str, items: &[u64]) -> Reply<Vec<Reply<bool>>> {
        self.insert(key, InsertOptions::default(), items)
    }

    /// BF.INSERT: BF.RESERVE if there is no filter of this name, then BF.MADD.
    /// # Errors
    /// If there is no filter of this name and `options` has NOCREATE, if the options are
    /// incompatible or out of range, if memory is short, or if the filter is not loaded completely.
    pub fn insert(
        &mut self,
        key: &str,
        options: InsertOptions,
        items: &[u64],
    ) -> Reply<Vec<Reply<bool>>> {
        let InsertOptions { capacity, rate, growth, no_create } = options;
        if no_create && (capacity.is_some() || rate.is_some()) {
            return Err(CommandError::Invalid("NOCREATE does not go with CAPACITY or ERROR"));
        }
        if !self.filters.contains_key(key) {
            if no_create {
                return Err(CommandError::NotFound);
            }
            let Options { capacity: keys, rate: usual, .. } = Options::default();
            let growth = growth.unwrap_or(Growth::Expansion(2));
            self.create(key, rate.unwrap_or(usual), capacity.unwrap_or(keys), growth)?;
        }
        match self.filters.get_mut(key) {
            Some(Entry::Ready(filter)) => Ok(items
                .iter()
                .map(|&item| filter.add(item).map_err(|Full| CommandError::Full))
                .collect()),
            _ => Err(CommandError::Loading),
        }
    }

    /// BF.EXISTS: `false` means that the item was certainly not added.
    /// # Errors
    /// If the filter is not loaded completely.
    pub fn exists(&self, key: &str, item: u64) -> Reply<bool> {
        Ok(self.get(key)?.is_some_and(|filter| filter.contains(item)))
    }

    /// BF.MEXISTS: one answer for each item.
    /// # Errors
    /// If the filter is not loaded completely.
    pub fn mexists(&self, key: &str, items: &[u64]) -> Reply<Vec<bool>> {
        items.iter().map(|&item| self.exists(key, item)).collect()
    }

    /// BF.CARD: the number of keys that looked new when they were added.
    /// # Errors
    /// If the filter is not loaded completely.
    pub fn card(&self, key: &str) -> Reply<u64> {
        Ok(self.get(key)?.map_or(0, ScalableBloom::items))
    }

    /// BF.INFO: the filter's capacity, size and number of items; see [`Info`].
    /// # Errors
    /// If no filter has this name, or it is not loaded completely.
    pub fn info(&self, key: &str) -> Reply<Info> {
        let filter = self.get(key)?.ok_or(CommandError::NotFound)?;
        Ok(Info {
            capacity: filter.capacity(),
            size: filter.bytes(),
            filters: filter.layers(),
            items: filter.items(),
            expansion: filter.options().expansion,
        })
    }

    /// BF.SCANDUMP: returns the iterator for the next call, and a piece of the dump. Store both,
    /// because [`Self::loadchunk`] takes both. The first call takes the iterator 0. The dump ends
    /// when the returned iterator is 0 and the piece is empty. Add nothing during a dump.
    /// # Errors
    /// If no filter has this name, it is not loaded completely, or no call has returned this
    /// iterator.
    pub fn scandump(&self, key: &str, iterator: u64) -> Reply<(u64, Vec<u8>)> {
        let filter = self.get(key)?.ok_or(CommandError::NotFound)?;
        let Some(offset) = iterator.checked_sub(1) else {
            return Ok((1, filter.save_header()));
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = filter.bytes();
        if offset > end || (offset < end && !offset.is_multiple_of(PIECE_BYTES)) {
            return Err(CommandError::Invalid("no call has given this iterator"));
        }
        let piece = filter.save_piece(offset, PIECE_BYTES);
        let next = if piece.is_empty() { 0 } else { iterator + piece.len() as u64 };
        Ok((next, piece))
    }

    /// BF.LOADCHUNK: loads one piece of a dump. [`Self::scandump`] returned `iterator` with the
    /// piece. Load the pieces in the order of the dump; the first one replaces any filter of this
    /// name.
    /// # Errors
    /// If the piece is damaged or empty, if it does not follow the pieces that are loaded, or if no
    /// load was begun or nothing is left to load.
    pub fn loadchunk(&mut self, key: &str, iterator: u64, piece: &[u8]) -> Reply<()> {
        if iterator == 1 {
            let loading = Loading::new(piece)?;
            self.filters.insert(key.into(), Entry::Loading(loading));
            return Ok(());
        }
        let entry = self.filters.get_mut(key).ok_or(CommandError::NotFound)?;
        let Entry::Loading(loading) = entry else {
            return Err(CommandError::Exists);
        };
        // The iterator is the offset in the payload at which the piece ends, plus one.
        let start = iterator.checked_sub(1 + piece.len() as u64);
        loading.push(start.ok_or(Damaged("a piece out of its order"))?, piece)?;
        if loading.is_complete() {
            *entry = Entry::Ready(loading.finish()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
