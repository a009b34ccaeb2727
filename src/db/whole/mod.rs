//! What is done to a whole database, or to many entries at once: it is copied, checked or removed, or
//! takes in tables that were made elsewhere.

mod checkpoint;
pub(super) mod destroy;
pub(super) mod ingest;
mod verify;

pub use destroy::DestroyReport;
pub use verify::VerifyReport;
