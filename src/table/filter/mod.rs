//! The filter of a table: which block holds it, what is added to it, how it is asked, and what is known
//! of it without asking.

pub(crate) mod block;
pub(crate) mod info;
pub(crate) mod prefix;
