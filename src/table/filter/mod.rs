//! The filter of a table: which block holds it, what is added to it, how it is queried, and what is
//! known of it without a query.
//!
//! ```text
//! block      a filter, or a part of it, in memory       info      what is known of it without a query
//! prefix     how prefixes are cut                       queries   for ranges, compactions, whole tables
//! source     its parts; whether one is worth a read     a point lookup: src/lookup/filter.rs
//! ```

pub(crate) mod block;
pub(crate) mod info;
pub(crate) mod prefix;
mod queries;
pub(crate) mod source;
