//! Compaction: merging tables downward, so that a lookup meets few of them.
//!
//! Read in this order:
//!
//! - [`targets`]: how large each level may be, and how far the tree is from that;
//! - [`mod@pick`]: which compaction is due next;
//! - [`level0`]: when level 0 goes down, and when its files are merged among themselves;
//! - [`dead`]: what deletions and hidden versions ask for;
//! - [`plan`]: what one compaction merges, and where its output may lie;
//! - [`tiny`]: small neighbours that become one table;
//! - [`damaged`]: what damaged files keep from moving;
//! - [`split`]: where a large compaction is cut, so that several threads share it;
//! - [`run`]: the merge itself, from open tables to new ones;
//! - [`retain`]: which entries survive it;
//! - [`below`]: what is older than a merge;
//! - [`ranges`]: which entries range deletions drop, and which range deletions are kept.
//!
//! All but [`run`] are pure functions of what the tree holds.

#[cfg(all(test, not(loom)))]
mod ages;
pub(crate) mod below;
mod damaged;
pub(crate) mod dead;
#[cfg(test)]
mod fixtures;
mod level0;
mod pick;
mod plan;
pub(crate) mod ranges;
pub(crate) mod retain;
pub(crate) mod run;
pub(crate) mod split;
mod targets;
#[cfg(all(test, not(loom)))]
mod tests;
mod tiny;

pub(crate) use dead::{Conditions, DeletionHits};
pub(crate) use pick::{pick, without_blocked};
pub(crate) use plan::{
    Plan, PlanKind, Span, Unavailable, overlapping, plan_files, plan_level_0, plan_neighbours,
};
pub(crate) use targets::{
    LAST_LEVEL, TreeShape, debt_bytes, level_bytes, level_targets, next_level,
};
