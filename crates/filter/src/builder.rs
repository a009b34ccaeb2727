//! [`FilterBuilder`]: takes the hashes of a table's keys and returns a [`FilterBlock`], by default
//! a verified one.
//!
//! ```text
//! new(spec)  (add | add_pair)*  finish
//! ```
//!
//! The filter's size depends on the number of keys, which is known only at the end. So the filter
//! is built in `finish`:
//!
//! 1. The family builds its filter. If the family does not suit the keys (too few or too many of
//!    them, or its build fails), a Bloom filter for the same target is built.
//! 2. Every hash is queried. A block that misses a hash would hide a key from lookups. So it is
//!    discarded and counted, and a Bloom filter is built instead. If the Bloom filter misses a hash
//!    too, the table gets no filter: its lookups read more, but stay correct.

use alloc::vec::Vec;

use super::family::{Family, FilterEncoding, KeyHash, Target};
use super::hashes::HashList;
use super::reader::FilterReader;
use super::spec::FilterSpec;
use crate::memory::LineBuf;

/// Collects the key hashes of one table.
///
/// ```
/// use maypole_filter::{Family, FilterBuilder, FilterSpec, hash64};
///
/// let mut builder = FilterBuilder::new(FilterSpec::burr(7.0)?);
/// for version in 0..3 {
///     builder.add(hash64(b"apple")); // the same key again and again
/// }
/// builder.add(hash64(b"pear"));
/// let block = builder.finish().expect("there are keys");
/// assert_eq!(block.keys(), 2);
/// // Two keys are not worth a bumped ribbon.
/// assert_eq!(block.family(), Family::Bloom);
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
pub struct FilterBuilder {
    spec: FilterSpec,
    hashes: HashList,
    previous_prefix: Option<KeyHash>,
    verify: bool,
}

/// A finished filter: the contents of a filter block, and its properties.
///
/// ```
/// use maypole_filter::{FilterBuilder, FilterEncoding, FilterSpec, hash64};
///
/// let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
/// (0u64..10_000).for_each(|i| builder.add(hash64(&i.to_le_bytes())));
/// let block = builder.finish().expect("there are keys");
///
/// // What is to be stored, and how it is to be read.
/// assert_eq!(block.bytes().len() as f64, (block.bits_per_key() * 1250.0).round());
/// assert_eq!(block.encoding(), FilterEncoding::RocksDb);
/// assert!((0.009..0.011).contains(&block.predicted_fpr()));
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[derive(Debug)]
pub struct FilterBlock {
    reader: FilterReader,
    family: Family,
    keys: u64,
}

impl FilterBuilder {
    /// A builder of the filter that `spec` describes.
    pub fn new(spec: FilterSpec) -> FilterBuilder {
        FilterBuilder { spec, hashes: HashList::default(), previous_prefix: None, verify: true }
    }

    /// Chooses the filter, in place of the one that [`FilterBuilder::new`] was given. Until
    /// [`FilterBuilder::finish`] nothing is built, so the choice may wait until the keys are known.
    ///
    /// ```
    /// use maypole_filter::{Family, FilterBuilder, FilterSpec, hash64};
    ///
    /// let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
    /// (0u64..10_000).for_each(|i| builder.add(hash64(&i.to_le_bytes())));
    /// builder.set_spec("fuse(9)".parse()?);
    /// assert_eq!(builder.finish().expect("there are keys").family(), Family::Fuse);
    /// # Ok::<(), maypole_filter::SpecError>(())
    /// ```
    pub fn set_spec(&mut self, spec: FilterSpec) {
        self.spec = spec;
    }

    /// Sets whether every key is queried after the build (default: yes). This costs 2 to 20 ns a
    /// key, depending on family and size (`docs/filters.md`, column `verify`), and catches what no
    /// test can find: a memory error between `add` and `finish`.
    pub fn verify(mut self, verify: bool) -> FilterBuilder {
        self.verify = verify;
        self
    }

    /// Adds a key. Consecutive equal hashes (versions of one key) count once.
    #[inline]
    pub fn add(&mut self, key_hash: KeyHash) {
        if self.hashes.last() != Some(key_hash) {
            self.hashes.push(key_hash);
        }
    }

    /// Adds a prefix and then its key, each once. Keys arrive in sorted order, so keys with the
    /// same prefix are neighbours. The prefix is left out if it equals the previous prefix, the
    /// previous key or its own key. The key is left out if it equals the previous key or the
    /// previous prefix. RocksDB does the same (`AddKeyAndAlt` in
    /// `table/block_based/filter_policy.cc`).
    pub fn add_pair(&mut self, key_hash: KeyHash, prefix_hash: KeyHash) {
        let key_before = self.hashes.last();
        let prefix_before = self.previous_prefix.replace(prefix_hash);
        if Some(prefix_hash) != prefix_before
            && prefix_hash != key_hash
            && Some(prefix_hash) != key_before
        {
            self.hashes.push(prefix_hash);
        }
        if Some(key_hash) != key_before && Some(key_hash) != prefix_before {
            self.hashes.push(key_hash);
        }
    }

    /// The number of hashes that will enter the filter.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Builds the filter. Returns `None` when there is nothing to store: the spec describes no
    /// filter for this number of keys, no key was added, or no build passed its verification.
    /// Without a filter, lookups read more, but lose no key.
    pub fn finish(self) -> Option<FilterBlock> {
        self.finish_with(build).0
    }

    /// Builds a partitioned filter: one block for each of `parts`, which hold the hashes of
    /// successive ranges of keys. All blocks have one encoding: if a part cannot be built in the
    /// family's encoding, all parts become Bloom filters. The first result is `None` if any part
    /// gets no filter. The second result is the number of discarded builds.
    pub fn finish_parts(parts: &[FilterBuilder]) -> (Option<Vec<FilterBlock>>, u64) {
        let mut failed = 0;
        let mut finish = |only_bloom: bool| -> Option<Vec<FilterBlock>> {
            let attempt = |family, hashes: &HashList, target| match only_bloom {
                true if family != Family::Bloom => None,
                _ => build(family, hashes, target),
            };
            let blocks = parts.iter().map(|part| {
                let (block, failures) = part.finish_with(attempt);
                failed += failures;
                block
            });
            blocks.collect()
        };
        let blocks = finish(false);
        let is_mixed = |blocks: &Vec<FilterBlock>| {
            blocks.iter().any(|block| block.encoding() != blocks[0].encoding())
        };
        let blocks = if blocks.as_ref().is_some_and(is_mixed) { finish(true) } else { blocks };
        (blocks, failed)
    }

    /// Adds the hashes of `other` after the builder's own.
    pub fn append(&mut self, other: &FilterBuilder) {
        other.hashes.iter().for_each(|hash| self.add(hash));
        self.previous_prefix = other.previous_prefix;
    }

    /// Builds and verifies the filter. `build` makes one attempt for one family.
    fn finish_with(
        &self,
        build: impl Fn(Family, &HashList, Target) -> Option<LineBuf>,
    ) -> (Option<FilterBlock>, u64) {
        let plan = (!self.hashes.is_empty()).then(|| self.spec.plan_for(self.hashes.len()));
        let Some((family, target)) = plan.flatten() else { return (None, 0) };
        let mut failed = 0;
        for family in [family, Family::Bloom] {
            let Some(block) = build(family, &self.hashes, target) else { continue };
            let reader = FilterReader::open(block, family.encoding());
            if self.verify && misses_a_key(&reader, &self.hashes) {
                failed += 1;
                continue;
            }
            let keys = self.hashes.len() as u64;
            return (Some(FilterBlock { reader, family, keys }), failed);
        }
        (None, failed)
    }
}

/// Tries to build a filter of `family`. Returns `None` when the family does not suit these keys.
fn build(family: Family, hashes: &HashList, target: Target) -> Option<LineBuf> {
    (family.info().build)(hashes, target)
}

/// Whether the filter answers "no" to one of `hashes`, so that lookups would miss a key. Also true
/// if the reader does not trust the filter's bytes.
pub(super) fn misses_a_key(reader: &FilterReader, hashes: &HashList) -> bool {
    if reader.untrusted().is_some() {
        return true;
    }
    let mut answers = Vec::new();
    hashes.chunks().any(|chunk| {
        answers.clear();
        answers.resize(chunk.len(), false);
        reader.may_contain_many(chunk, &mut answers);
        answers.contains(&false)
    })
}

impl FilterBlock {
    /// The bytes that the table stores.
    pub fn bytes(&self) -> &[u8] {
        self.reader.bytes()
    }

    /// The block's encoding, which determines the name under which a table stores the block.
    pub fn encoding(&self) -> FilterEncoding {
        self.family.encoding()
    }

    /// The family that was built: Bloom if the requested one does not suit these keys, or if its
    /// build failed the verification.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The number of hashes in the filter.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Stored bits for each key.
    pub fn bits_per_key(&self) -> f64 {
        self.reader.bits_per_key(self.keys)
    }

    /// The false-positive rate to expect, 0 to 1.
    pub fn predicted_fpr(&self) -> f64 {
        self.reader.predicted_fpr(self.keys)
    }

    /// Returns the opened filter, which a writer can put into the cache at once.
    pub fn into_reader(self) -> FilterReader {
        self.reader
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(pairs: &[(u64, u64)]) -> Vec<u64> {
        let mut builder = FilterBuilder::new(FilterSpec::NONE);
        pairs.iter().for_each(|&(key, prefix)| builder.add_pair(key, prefix));
        builder.hashes.iter().collect()
    }

    #[test]
    fn versions_of_a_key_count_once() {
        let mut builder = FilterBuilder::new(FilterSpec::NONE);
        [5, 5, 5, 6, 6, 5].into_iter().for_each(|hash| builder.add(hash));
        assert_eq!(builder.hashes.iter().collect::<Vec<_>>(), [5, 6, 5]);
        assert_eq!(builder.len(), 3);
    }

    #[test]
    fn a_prefix_goes_before_its_first_key_and_only_there() {
        assert_eq!(listed(&[(1, 100), (2, 100), (2, 100), (3, 200)]), [100, 1, 2, 200, 3]);
        // A key that is its own prefix enters once. So does a key that equals the prefix of the
        // previous key.
        assert_eq!(listed(&[(7, 7), (8, 7)]), [7, 8]);
        assert_eq!(listed(&[(1, 9), (9, 9)]), [9, 1]);
    }

    #[test]
    fn nothing_to_store_makes_no_block() {
        assert!(FilterBuilder::new(FilterSpec::bloom(10.0).unwrap()).finish().is_none());
        let mut builder = FilterBuilder::new(FilterSpec::NONE);
        builder.add(1);
        assert!(builder.finish().is_none());
    }

    /// Builds a filter of all hashes but the first.
    fn forgetful(family: Family, hashes: &HashList, target: Target) -> Option<LineBuf> {
        build(family, &hashes.iter().skip(1).collect(), target)
    }

    fn builder_of(spec: &str) -> FilterBuilder {
        let mut builder = FilterBuilder::new(spec.parse().unwrap());
        (0..1000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).for_each(|h| builder.add(h));
        builder
    }

    #[test]
    fn a_build_that_misses_a_key_is_thrown_away_and_counted() {
        for spec in ["bloom(16)", "ribbon(14)", "burr(14)", "fuse(20)"] {
            let (block, failed) = builder_of(spec).finish_with(|family, hashes, target| {
                if family == Family::Bloom {
                    build(family, hashes, target)
                } else {
                    forgetful(family, hashes, target)
                }
            });
            assert_eq!(block.unwrap().family(), Family::Bloom, "{spec}");
            assert_eq!(failed, u64::from(spec != "bloom(16)"), "{spec}");
            let (block, failed) = builder_of(spec).finish_with(forgetful);
            assert!(
                block.is_none() && failed == 2,
                "{spec}: no filter is right, a wrong one is not"
            );
            let (block, failed) = builder_of(spec).verify(false).finish_with(forgetful);
            assert!(block.is_some() && failed == 0, "{spec}: it was not checked");
        }
    }
}
