//! The filter of a table: which block holds it, what is added to it, how it is queried, and what is
//! known of it without a query.

pub(crate) mod block;
pub(crate) mod info;
pub(crate) mod prefix;
