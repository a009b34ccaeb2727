//! The filter of a table: which block holds it, what is added to it, how it is queried, and what is
//! known of it without a query.
//!
//! ```text
//! source     it, or a part, in memory; is one worth a read?   info      what is known without a query
//! prefix     how prefixes are cut                             queries   for ranges, compactions, tables
//!            a point lookup: src/lookup/filter.rs
//! ```

pub(crate) mod info;
pub(crate) mod prefix;
mod queries;
pub(crate) mod source;
