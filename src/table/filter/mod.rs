//! The filter of a table: which block holds it, what is added to it, how it is queried, and what is
//! known of it without a query.
//!
//! ```text
//! what a lookup does with a filter                            file
//!   queries a filter that is in memory                        lookup/mod.rs
//!   decides whether another filter is worth a read            lookup/admission.rs
//!   reads it: with the index, as a part, or whole             lookup/joint.rs, parts.rs
//!   counts the answer                                         lookup/tally.rs
//! ```

pub(crate) mod block;
pub(crate) mod info;
pub(crate) mod prefix;
