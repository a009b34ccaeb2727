//! Opening a database: turns the files that a clean close or a crash left into a tree and its
//! memtables.
//!
//! ```text
//!   builder.rs      the calls of the `Builder`
//!   directory.rs    CURRENT, MANIFEST, tables
//!   recover.rs      WALs
//!   writable.rs     the directory becomes ours: new WAL, new MANIFEST
//!   read_only.rs    a read-only opening, which writes nothing
//! ```

mod builder;
pub(crate) mod directory;
pub(crate) mod read_only;
pub(crate) mod recover;
pub(crate) mod writable;
