//! A *mark* is an interval of keys in which cursors show nothing. A cursor that has passed many
//! hidden entries proposes a mark over them, and later cursors jump over it.
//!
//! ```text
//!   a queue:      † † † † † † † † † † a b c d            †: tombstones of what was popped
//!   mark          [──────────────────)                   seek_to_first goes to its end
//!   watch       ( … … … … … … … … … … … … )              no put since the mark, up to here
//!                                       └ the first put since
//! ```
//!
//! | part | what it does |
//! |---|---|
//! | `DbCursor` | jumps over marks; proposes an interval in which it saw nothing |
//! | [`Marks`] | what cursors and the leader of the writers share |
//! | [`Keeper`] | the leader's own: accepts proposals, cuts marks at each put |
//!
//! # The invariant, and its proof
//!
//! A mark of the user keys `[from, end)` at sequence number q says: **no read at r ≥ q sees an
//! entry in `[from, end)`**, as long as the reader finds the mark. Four steps prove this.
//!
//! 1. A walk at number s that showed nothing in the interval proves the claim for r = s. Whether an
//!    entry is visible at s never changes: flush, compaction and later writes keep what s sees, for
//!    as long as a reader uses s.
//! 2. Between s and r only a *put* inside the interval can add what a read sees. Deletions and
//!    range deletions only hide. An ingested table counts as a put of its whole range of keys.
//! 3. The leader cuts the mark before it publishes such a put (`Keeper::wrote`). The cut list is
//!    stored before `visible`, which is stored with `Release`. A reader loads `visible` with
//!    `Acquire` before it looks at marks. So a reader at or after the put finds the mark cut.
//! 4. A proposal arrives after its walk, and puts after s may already be published. The whole
//!    proposal becomes a mark only if the last sequence number is still s. Otherwise a *watch*
//!    decides: an interval of which the leader knows that it has received no put since a number t.
//!    If t ≤ s, the intersection of watch and proposal has received no put after s, so 1 and 2 hold
//!    for it. A proposal that touches no mark starts an empty mark with a watch, for later walks.
//!
//! A queue that many threads push to and pop from is never at rest. Its watch reaches from the
//! smallest key to the key of the first push after t, and the next walk extends the mark up to that
//! key. Then a new watch of all keys starts.
//!
//! **Readers that come late.** When a mark gets longer, its q gets larger. A reader at a number
//! just below q would ignore the whole mark and pass everything in it. So a mark keeps up to three
//! *extents*: the newest, and shorter ones with smaller numbers.
//!
//! No mark is stored on disk: marks are hints in memory, and a database opens with none.

mod keeper;
#[cfg(all(test, loom))]
mod models;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use keeper::Keeper;
pub(crate) use shared::{Marks, Owner, Proposal};
