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
    /// A killed process: the operating system has the bytes.
    #[default]
    Buffered,
    /// A power loss: the device has the bytes, and those of all writes before.
    Sync,
}
