//! Which entries a flush or a compaction keeps.
//!
//! Snapshots cut the sequence numbers into *stripes*. Every reader sees all versions of a stripe or
//! none, so the newest version of a key in a stripe hides the others of that stripe.
//!
//! ```text
//!   sequence   1 2 3 | 4 5 6 7 | 8 9 …       snapshots at 3 and 7
//!   stripe        0  |    1    |  2
//!   versions   2 3       5 6       9         of one key
//!   kept         3         6       9
//! ```
//!
//! A tombstone is dropped when it has nothing left to hide. Two things can be left: an entry of an
//! older table ([`super::below`]), and an older version of the key that the same merge keeps for a
//! snapshot. Whether the merge keeps such a version is known only after the tombstone was read, so
//! the tombstone is *held*: it is written if a kept older version of its key follows, and dropped
//! otherwise.

use super::below::Below;
use super::ranges::Ranges;
use crate::cursor::Cursor;
use crate::encoding::key;
use crate::encoding::key::{EntryKind, SequenceNumber};
use crate::error::Result;

pub(crate) struct Retention {
    /// Sequence numbers of the snapshots, ascending.
    snapshots: Vec<SequenceNumber>,
    /// The user key and the stripe of the last entry seen.
    last: Option<(Vec<u8>, usize)>,
    /// Whether the version of the key in `last` that was seen last is a tombstone that was not
    /// counted in `hits` yet. If an older version of the key follows, the tombstone is counted, even
    /// if a snapshot needs that version: it can be freed once the snapshot is released.
    was_tombstone: bool,
    hits: u64,
    /// Whether the key in `last` has a version of an unknown kind. That version may need the older
    /// versions of the key, as a merge operand does, so all of them are kept.
    keeps_older: bool,
}

impl Retention {
    pub fn new(snapshots: Vec<SequenceNumber>) -> Retention {
        debug_assert!(snapshots.is_sorted());
        Retention { snapshots, last: None, was_tombstone: false, hits: 0, keeps_older: false }
    }

    /// The stripe of a sequence number: the number of snapshots that are older than it.
    pub fn stripe(&self, sequence: SequenceNumber) -> usize {
        self.snapshots.partition_point(|&snapshot| snapshot < sequence)
    }

    /// The verdict on the next entry in internal-key order. `is_below` returns whether an older
    /// table may hold the user key. It is called for tombstones only.
    pub fn next(&mut self, internal_key: &[u8], is_below: impl FnOnce(&[u8]) -> bool) -> Verdict {
        let user_key = key::user_key(internal_key);
        let stripe = self.stripe(key::sequence(internal_key));
        let kind = EntryKind::of_point(key::kind_byte(internal_key));
        if self.keeps_older
            && self.last.as_ref().is_some_and(|(last, _)| key::is_same(last, user_key))
        {
            return Verdict::Keep;
        }
        match &mut self.last {
            Some((last_key, last_stripe)) if key::is_same(last_key, user_key) => {
                self.hits += u64::from(std::mem::take(&mut self.was_tombstone));
                if *last_stripe == stripe {
                    return Verdict::Drop;
                }
                *last_stripe = stripe;
            }
            Some((last_key, last_stripe)) => {
                last_key.clear();
                last_key.extend_from_slice(user_key);
                *last_stripe = stripe;
            }
            None => self.last = Some((user_key.to_vec(), stripe)),
        }
        self.keeps_older = kind.is_none();
        let is_tombstone = matches!(kind, Some(EntryKind::Deletion | EntryKind::SingleDeletion));
        self.was_tombstone = is_tombstone;
        match is_tombstone && !is_below(user_key) {
            // This is the oldest stripe, so the merge keeps no older version of the key.
            true if stripe == 0 => Verdict::Drop,
            true => Verdict::Hold,
            false => Verdict::Keep,
        }
    }

    /// The number of tombstones that met an older version of their key.
    pub fn hits(&self) -> u64 {
        self.hits
    }
}

/// Passes each kept entry to `keep`, from the cursor's current entry on. Before each entry
/// `goes_on` is called with the internal key. If it returns `false`, the merge ends.
pub(crate) fn keep_survivors<C: Cursor>(
    cursor: &mut C,
    deleted: &Ranges,
    retention: &mut Retention,
    below: &mut Below,
    mut goes_on: impl FnMut(&[u8]) -> Result<bool>,
    mut keep: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut held = HeldTombstones::default();
    while cursor.valid() && goes_on(cursor.key())? {
        let key = cursor.key();
        if !deleted.drops(key) {
            match retention.next(key, |key| below.may_hold(key)) {
                Verdict::Keep => {
                    for held in held.release(key) {
                        keep(&held, &[])?;
                    }
                    keep(key, cursor.value())?;
                }
                Verdict::Hold => held.hold(key),
                Verdict::Drop => {}
            }
        }
        cursor.next()?;
    }
    Ok(())
}

/// The verdict on an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    Drop,
    /// A tombstone that is written only if an older version of its key is written too. See
    /// [`HeldTombstones`].
    Hold,
}

/// The tombstones of one key that wait for an older version of the key, as internal keys.
#[derive(Default)]
struct HeldTombstones(Vec<Vec<u8>>);

impl HeldTombstones {
    /// Holds a tombstone back. Held tombstones of another key are dropped, because no older version
    /// of that key was kept.
    pub fn hold(&mut self, internal_key: &[u8]) {
        self.0.retain(|held| key::user_key(held) == key::user_key(internal_key));
        self.0.push(internal_key.to_vec());
    }

    /// Returns the held tombstones that must be written before this kept entry, newest first: those
    /// of its key. Held tombstones of another key are dropped.
    #[inline]
    pub fn release(&mut self, internal_key: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<> {
        let mut held = std::mem::take(&mut self.0);
        if !held.is_empty() {
            held.retain(|held| key::user_key(held) == key::user_key(internal_key));
        }
        held.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;

    fn kept(snapshots: &[u64], versions: &[(u64, u8)], below: bool) -> Vec<u64> {
        let mut retention = Retention::new(snapshots.to_vec());
        let mut kept = Vec::new();
        let mut held = HeldTombstones::default();
        for &(sequence, kind) in versions {
            let entry = internal_key(b"k", sequence, kind);
            match retention.next(&entry, |_| below) {
                Verdict::Keep => {
                    kept.extend(held.release(&entry).map(|held| key::sequence(&held)));
                    kept.push(sequence);
                }
                Verdict::Drop => {}
                Verdict::Hold => held.hold(&entry),
            }
        }
        kept
    }

    #[test]
    fn each_stripe_keeps_its_newest_version() {
        let versions = [(9, 1), (6, 1), (5, 1), (3, 1), (2, 1)];
        assert_eq!(kept(&[], &versions, true), [9]);
        assert_eq!(kept(&[3, 7], &versions, true), [9, 6, 3]);
        assert_eq!(kept(&[9], &versions, true), [9], "a snapshot at 9 sees 9");
        assert_eq!(kept(&[8], &versions, true), [9, 6]);
    }

    #[test]
    fn a_tombstone_goes_only_when_it_hides_nothing() {
        let versions = [(9, 0), (6, 1)];
        assert_eq!(kept(&[], &versions, false), [] as [u64; 0]);
        assert_eq!(kept(&[], &versions, true), [9]);
        assert_eq!(kept(&[7], &versions, false), [9, 6], "the snapshot still sees 6");
        assert_eq!(kept(&[9], &versions, false), [] as [u64; 0], "the snapshot sees no value");
    }

    /// A workload once put and deleted entries, like a queue, while a snapshot was held that was
    /// older than all of them. Each tombstone stayed until the snapshot was released, although it
    /// hid nothing that the snapshot saw. Now the next merge drops such a tombstone.
    #[test]
    fn a_tombstone_above_a_snapshot_goes_when_no_older_version_stays() {
        assert_eq!(kept(&[3], &[(9, 0), (6, 1)], false), [] as [u64; 0]);
        assert_eq!(kept(&[3], &[(9, 0), (6, 1)], true), [9]);
        assert_eq!(kept(&[3], &[(9, 0), (6, 1), (2, 1)], false), [9, 2], "the snapshot sees 2");
        assert_eq!(kept(&[3, 7], &[(9, 0), (6, 0), (2, 1)], false), [9, 6, 2]);
        assert_eq!(kept(&[3, 7], &[(9, 0), (6, 0), (2, 0)], false), [] as [u64; 0]);
    }

    #[test]
    fn a_tombstone_that_meets_an_older_version_is_a_hit_even_if_a_snapshot_needs_that_version() {
        for snapshots in [vec![], vec![5], vec![8], vec![5, 8]] {
            let mut retention = Retention::new(snapshots);
            for (key, versions) in [(b"a", &[(9, 0), (6, 1), (5, 1)][..]), (b"b", &[(8, 0)])] {
                for &(sequence, kind) in versions {
                    retention.next(&internal_key(key, sequence, kind), |_| true);
                }
            }
            assert_eq!(retention.hits(), 1);
        }
    }

    /// A compaction once kept only the newest version of each stripe, whatever its kind. So it
    /// dropped the value to which a merge operand of RocksDB applies, and the value was lost for
    /// RocksDB too. Now all versions of a key that are older than an entry of an unknown kind stay.
    #[test]
    fn what_lies_below_an_entry_that_is_not_understood_stays() {
        let versions = [(9, 2), (8, 2), (6, 1), (5, 0), (3, 1)];
        assert_eq!(kept(&[], &versions, false), [9, 8, 6, 5, 3]);
        assert_eq!(kept(&[7], &versions, false), [9, 8, 6, 5, 3]);
        for unknown in [2, 15, 17, 22, 24, 99] {
            let below = [(9, 1), (6, unknown), (5, 1)];
            assert_eq!(kept(&[], &below, false), [9], "hidden by a value, as any older version");
            assert_eq!(kept(&[7], &below, false), [9, 6, 5], "{unknown}");
        }
        assert_eq!(kept(&[], &[(9, 0), (6, 2), (5, 1)], false), [] as [u64; 0], "deleted");
        // The next key is not affected.
        let mut retention = Retention::new(Vec::new());
        assert_eq!(retention.next(&internal_key(b"a", 9, 2), |_| false), Verdict::Keep);
        assert_eq!(retention.next(&internal_key(b"b", 5, 1), |_| false), Verdict::Keep);
        assert_eq!(retention.next(&internal_key(b"b", 4, 1), |_| false), Verdict::Drop);
    }

    #[test]
    fn keys_do_not_hide_each_other() {
        let mut retention = Retention::new(Vec::new());
        for key in [&b""[..], b"a", b"ab", b"b"] {
            assert_eq!(retention.next(&internal_key(key, 5, 1), |_| true), Verdict::Keep);
            assert_eq!(retention.next(&internal_key(key, 4, 1), |_| true), Verdict::Drop);
        }
    }
}
