//! The filter of a table: which block holds it, what is added to it, how it is queried, and what is
//! known of it without a query.
//!
//! ```text
//! where a lookup meets a filter                               file
//!   in memory: it answers                                     lookup/mod.rs
//!   not in memory: is it worth a read?                        lookup/admission.rs
//!   read: with the index, as a part, whole, or a piece        lookup/joint.rs, parts.rs, pieces/
//!   the answer is counted                                     lookup/tally.rs
//! ```

pub(crate) mod block;
pub(crate) mod info;
pub(crate) mod prefix;
