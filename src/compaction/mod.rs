//! Compaction: merging tables downward, so that a lookup reads few of them.
//!
//! Read in this order:
//!
//! - [`conditions`]: what a pick knows besides the tree (snapshots, time);
//! - [`overlap`]: which files overlap a range;
//! - [`targets`]: how large each level may be, which level is the *base level*, into which level 0
//!   is compacted, and how much must be rewritten to reach these sizes;
//! - [`pick`]: which compaction is due next;
//! - [`level0`]: which files of level 0 are merged among themselves, and which go down alone;
//! - [`dead`]: the compactions that remove deletions and hidden versions;
//! - [`overspent`]: the rewrites of tables whose filters exceed their share of the filter budget;
//! - [`plan`]: the inputs of one compaction, and the range of its output;
//! - [`fit`]: the smaller compactions that little free space permits;
//! - [`small_tables`]: small neighbours that become one table;
//! - [`damaged`]: the files that damaged files prevent from moving;
//! - [`split`]: where a large compaction is cut, so that several threads share it;
//! - [`run`]: the merge itself, from open tables to new ones;
//! - [`retain`]: which entries survive the merge;
//! - [`below`]: the tables that are older than the entries of a merge;
//! - [`ranges`]: which entries range deletions drop, and which range deletions are kept.
//!
//! The choice of a compaction is a pure function of the files' metadata, the sizes that the tree
//! should have, the running compactions and the [`Conditions`] (snapshots, time). Only
//! [`overspent`] also reads the filter sizes in the properties of the open tables.

#[cfg(all(test, not(loom)))]
mod ages;
pub(crate) mod below;
mod conditions;
mod damaged;
pub(crate) mod dead;
mod fit;
#[cfg(test)]
mod fixtures;
mod level0;
mod overlap;
mod overspent;
mod pick;
mod plan;
pub(crate) mod ranges;
pub(crate) mod retain;
pub(crate) mod run;
#[cfg(all(test, not(loom)))]
mod settles;
mod small_tables;
pub(crate) mod split;
mod targets;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use conditions::Conditions;
pub(crate) use dead::DeletionHits;
pub(crate) use overlap::overlapping;
pub(crate) use plan::{Gain, Plan, PlanKind, Planner, Span, Unavailable};
pub(crate) use targets::{LAST_LEVEL, TreeShape, debt_bytes};
