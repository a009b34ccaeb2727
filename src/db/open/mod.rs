//! Opening a database: from the files that a clean close or a crash left behind to a tree and its memtables.

pub(crate) mod read_only;
pub(crate) mod recover;
pub(crate) mod take_over;
