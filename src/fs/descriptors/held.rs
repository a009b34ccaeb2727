//! [`HeldDescriptor`]: the descriptor that a file lends to a reader.

use std::fmt;
use std::sync::Arc;

use crate::fs::system::{Borrowed, Descriptor};

/// The descriptor of a file, open as long as this value lives. Returned by
/// [`RandomAccessFile::descriptor`](crate::fs::RandomAccessFile::descriptor).
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
pub struct HeldDescriptor<'a> {
    held: Held<'a>,
    block_bytes: usize,
}

// Only kernel rings and direct reads, which only Linux has, read the fields.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
enum Held<'a> {
    /// The descriptor of a pooled file. The pool does not close it while a reader has it.
    Pooled(Arc<Descriptor>),
    /// The descriptor of a file that keeps it open until the file is dropped.
    Lent(Borrowed<'a>),
}

impl<'a> HeldDescriptor<'a> {
    pub(super) fn pooled(descriptor: Arc<Descriptor>) -> HeldDescriptor<'a> {
        HeldDescriptor { held: Held::Pooled(descriptor), block_bytes: 1 }
    }

    pub(in crate::fs) fn lent(descriptor: Borrowed<'a>) -> HeldDescriptor<'a> {
        HeldDescriptor { held: Held::Lent(descriptor), block_bytes: 1 }
    }

    /// The same descriptor, for reads of whole blocks of this size to addresses that are multiples
    /// of the size. The size is a power of two.
    #[cfg(target_os = "linux")]
    pub(in crate::fs) fn in_blocks_of(self, block_bytes: usize) -> HeldDescriptor<'a> {
        HeldDescriptor { block_bytes, ..self }
    }

    /// The block size. The offset, length and address of a read are multiples of this size.
    #[cfg(target_os = "linux")]
    pub(in crate::fs) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    #[cfg(target_os = "linux")]
    pub(in crate::fs) fn descriptor(&self) -> Borrowed<'_> {
        match &self.held {
            Held::Pooled(descriptor) => crate::fs::system::borrow(descriptor),
            Held::Lent(descriptor) => *descriptor,
        }
    }
}

impl fmt::Debug for HeldDescriptor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldDescriptor")
            .field("is_pooled", &matches!(self.held, Held::Pooled(_)))
            .field("block_bytes", &self.block_bytes)
            .finish_non_exhaustive()
    }
}
