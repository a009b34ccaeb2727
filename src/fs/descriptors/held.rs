//! [`HeldDescriptor`]: what a file lends to a read that others do for it.

use std::fmt;

use super::word::Pinned;
use crate::fs::system::Borrowed;

/// The descriptor of a file, open as long as this value lives: what
/// [`RandomAccessFile::descriptor`](crate::fs::RandomAccessFile::descriptor) answers.
///
/// ```
/// use maypole::fs::{Fs, MemFs, RealFs, write_atomic};
/// use std::path::Path;
///
/// let dir = tempfile::tempdir()?;
/// write_atomic(&RealFs, &dir.path().join("a"), b"bytes")?;
/// assert!(RealFs.open(&dir.path().join("a"))?.descriptor().is_some());
///
/// let memory = MemFs::new();
/// write_atomic(&memory, Path::new("a"), b"bytes")?;
/// assert!(memory.open(Path::new("a"))?.descriptor().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HeldDescriptor<'a>(Held<'a>);

// Only Linux has a ring to give it to.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
enum Held<'a> {
    /// Of a pool, which must not close it meanwhile.
    Pinned(Pinned<'a>),
    /// Of a file that has its own for good.
    Lent(Borrowed<'a>),
}

impl<'a> HeldDescriptor<'a> {
    pub(super) fn pinned(pinned: Pinned<'a>) -> HeldDescriptor<'a> {
        HeldDescriptor(Held::Pinned(pinned))
    }

    pub(in crate::fs) fn lent(descriptor: Borrowed<'a>) -> HeldDescriptor<'a> {
        HeldDescriptor(Held::Lent(descriptor))
    }

    /// For as long as this value is borrowed, not longer.
    #[cfg(target_os = "linux")]
    pub(in crate::fs) fn descriptor(&self) -> Borrowed<'_> {
        match &self.0 {
            Held::Pinned(pinned) => pinned.descriptor(),
            Held::Lent(descriptor) => *descriptor,
        }
    }
}

impl fmt::Debug for HeldDescriptor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_pooled = matches!(self.0, Held::Pinned(_));
        f.debug_struct("HeldDescriptor").field("is_pooled", &is_pooled).finish_non_exhaustive()
    }
}
