//! Calls that copy, verify, warm up or remove a whole database, or ingest tables that were made
//! elsewhere.

pub(in crate::db) mod checkpoint;
pub(in crate::db) mod destroy;
pub(in crate::db) mod ingest;
pub(in crate::db) mod verify;
pub(in crate::db) mod warm_up;

pub use destroy::DestroyReport;
pub use verify::VerifyReport;
pub use warm_up::WarmUpReport;
