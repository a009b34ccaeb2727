//! The filter of a table: which block holds it, how it is asked, what it says of itself, and what is
//! added to it.

pub(crate) mod block;
pub(crate) mod info;
pub(crate) mod prefix;
