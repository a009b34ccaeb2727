//! What is done to a whole database, or to many entries at once: it is copied, checked, brought
//! into memory or removed, or takes in tables that were made elsewhere.

pub(super) mod checkpoint;
pub(super) mod destroy;
pub(super) mod ingest;
mod verify;
mod warm_up;

pub use destroy::DestroyReport;
pub use verify::VerifyReport;
pub use warm_up::WarmUpReport;
