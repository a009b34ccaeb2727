//! Compaction: merging tables downward so that a lookup meets few of them.
//!
//! - [`pick`]: which tables, a pure function of what the tree holds;
//! - [`aside`]: which of them damaged ones keep from moving;
//! - [`retain`]: which entries survive, a pure function of the snapshots;
//! - [`ranges`]: which of them range deletions drop, and what is left of these;
//! - [`split`]: where a large one is cut, so that several threads share it;
//! - [`run`]: the merge itself, from open tables to new ones.

pub(crate) mod aside;
pub(crate) mod pick;
mod ranges;
pub(crate) mod retain;
pub(crate) mod run;
pub(crate) mod split;
#[cfg(all(test, not(loom)))]
mod tests;
