//! A *mark* is an interval of keys in which cursors show nothing. A cursor that has passed many
//! hidden entries proposes a mark over them, and later cursors jump over it. The *leader* of the
//! writers, the thread that holds their lock, accepts the proposals.
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
//!    stored before `visible`, the last sequence number that readers may see, which is stored with
//!    `Release`. A reader loads `visible` with `Acquire` before it looks at marks. So a reader
//!    whose number is at or after that of the put finds the mark cut.
//! 4. A proposal arrives after its walk, and puts after s may already be published. If the last
//!    sequence number is still s, the whole proposal becomes a mark. Otherwise the *watch* of the
//!    mark that the proposal touches decides. A watch is an interval in which no key was put after
//!    a number t. If t ≤ s, no key in the intersection of watch and proposal was put after s, so 1
//!    and 2 hold for this intersection, and the mark grows by it. A proposal that touches no mark
//!    starts an empty mark with a watch, for later walks.
//!
//! While many threads push to a queue and pop from it, the last sequence number is hardly ever
//! still s when a proposal arrives, so the watch decides. The watch reaches from the smallest key
//! to the key of the first push after t, and the next walk extends the mark up to that key. Then a
//! new watch of all keys starts.
//!
//! **Readers that come late.** When a mark grows, its q usually grows too. A reader at a number
//! just below the new q could not use the mark, and would pass everything in it. So a mark keeps up
//! to three *extents*: the newest, and shorter ones with smaller numbers for such readers.
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
