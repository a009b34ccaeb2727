//! [`Durability`]: what an acknowledged write survives.

/// What a write must survive before it is acknowledged.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// use maypole::{Durability, WriteBatch};
///
/// let mut batch = WriteBatch::new();
/// batch.put("key", "value");
/// db.write_opt(batch, Durability::Sync)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The write survives a killed process: the operating system has its bytes.
    #[default]
    Buffered,
    /// The write survives a power loss: the device has its bytes, and those of all earlier writes.
    Sync,
}
